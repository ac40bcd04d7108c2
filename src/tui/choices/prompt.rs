//! What is typed into the line at the bottom.

use super::{Effect, Ui};
use crate::diagnosis::session::Session;
use crate::tui::filter::Filter;
use crate::tui::panes::has_rows;
use crate::tui::theme::Theme;
use crate::tui::{log_view, view};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub kind: Ask,
    pub text: String,
    /// The text was proposed and not touched yet: what is typed takes its place.
    pub proposed: bool,
    /// Why the text cannot be used.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Search,
    /// Rows of a pane, as an index of [`PANES`].
    Filter {
        pane: usize,
    },
    /// Lines of the sheet.
    Within,
    Ranks,
    /// The value of a setting.
    Setting {
        key: &'static str,
    },
    /// Where to write the evidence.
    Evidence,
    /// Whether to run the command that is the prompt's text, on so many processes.
    Run {
        processes: usize,
    },
    /// Whether so many ranks may be asked for their Flight Recorder; the prompt's text is how.
    Dump {
        ranks: usize,
    },
}

impl Ask {
    /// It is answered with y or n.
    fn is_consent(self) -> bool {
        matches!(self, Ask::Run { .. } | Ask::Dump { .. })
    }

    pub fn label(self) -> &'static str {
        match self {
            Ask::Search => "find",
            Ask::Setting { key } => key,
            Ask::Filter { .. } | Ask::Within => "show only",
            Ask::Ranks => "only ranks (3 or 0-7,12)",
            Ask::Evidence => "write evidence to (Esc: nothing)",
            Ask::Run { .. } => "run this? (y/n)",
            Ask::Dump { .. } => "write into these pipes? (y/n)",
        }
    }
}

/// Texts typed in are not longer than any line that is searched.
const MAX_TYPED: usize = 500;

impl Ui {
    pub(in crate::tui) fn typed(&mut self, key: &KeyEvent, session: &Session) -> Effect {
        let Some(prompt) = &mut self.prompt else { return Effect::None };
        // Any key but typing (an arrow, backspace) takes a proposal as it stands, to be changed at its end.
        let proposed = std::mem::take(&mut prompt.proposed);
        match key.code {
            KeyCode::Esc => self.leave_prompt(session),
            _ if prompt.kind.is_consent() => {
                let dumps = matches!(prompt.kind, Ask::Dump { .. });
                self.prompt = None;
                if matches!(key.code, KeyCode::Char('y' | 'Y')) && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
                    return if dumps { Effect::RunDumps } else { Effect::RunStacks };
                }
                self.notice = Some("nothing was run".into());
            }
            KeyCode::Backspace if prompt.text.is_empty() => self.prompt = None,
            KeyCode::Backspace => {
                prompt.text.pop();
                self.follow_typing(session);
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                prompt.text.clear();
                self.follow_typing(session);
            }
            KeyCode::Char(c) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) && prompt.text.len() < MAX_TYPED => {
                if proposed {
                    prompt.text.clear();
                }
                prompt.text.push(c);
                self.follow_typing(session);
            }
            KeyCode::Enter => return self.answer(session),
            _ => {}
        }
        Effect::Draw
    }

    /// Pasted text is typed text, but for what would end the prompt; without a prompt it is no sequence of commands.
    pub(in crate::tui) fn paste(&mut self, text: &str, session: &Session) -> Effect {
        // Nobody says yes by pasting.
        let Some(prompt) = self.prompt.as_mut().filter(|p| !p.kind.is_consent()) else { return Effect::None };
        if std::mem::take(&mut prompt.proposed) {
            prompt.text.clear();
        }
        let room = MAX_TYPED.saturating_sub(prompt.text.len());
        prompt.text.extend(crate::base::clean::clean(text).chars().filter(|c| !c.is_control()).take(room));
        self.follow_typing(session);
        Effect::Draw
    }

    /// What is filtered or searched for follows each key. A regular expression that is not finished yet changes nothing.
    pub(in crate::tui) fn follow_typing(&mut self, session: &Session) {
        let Some(prompt) = &mut self.prompt else { return };
        let text = prompt.text.clone();
        let outcome = match prompt.kind {
            Ask::Filter { pane } => Filter::parse(&text).map(|filter| self.set_filter(pane, filter, session)),
            Ask::Within => {
                self.search_sheet(&text);
                Ok(())
            }
            Ask::Search => Filter::parse_search(&text).and_then(|search| {
                self.log.search = search;
                self.log.at = self.log.before_search;
                // The newest match; from there on with next and previous.
                let from = self.log.at.map(|at| at + 1);
                match log_view::find(&mut self.log, session, from, false) {
                    None if self.log.search.is_some() => Err("no line matches".to_owned()),
                    _ => Ok(()),
                }
            }),
            _ => Ok(()),
        };
        if let Some(prompt) = &mut self.prompt {
            prompt.error = outcome.err();
        }
    }

    /// Nothing of what was typed holds.
    pub(in crate::tui) fn leave_prompt(&mut self, session: &Session) {
        match self.prompt.take().map(|prompt| prompt.kind) {
            Some(Ask::Filter { pane }) => self.set_filter(pane, Filter::default(), session),
            Some(Ask::Within) => self.search_sheet(""),
            Some(Ask::Search) => (self.log.search, self.log.at) = (None, self.log.before_search),
            _ => {}
        }
    }

    pub(in crate::tui) fn answer(&mut self, session: &Session) -> Effect {
        let Some(mut prompt) = self.prompt.take() else { return Effect::Draw };
        let result = match prompt.kind {
            Ask::Search => Filter::parse_search(&prompt.text).map(|search| {
                if search.is_some() {
                    let from = self.log.before_search.map(|at| at + 1);
                    self.notice =
                        log_view::find(&mut self.log, session, from, false).or_else(|| Some(format!("no line matches {:?}", prompt.text)));
                }
            }),
            Ask::Filter { .. } => Filter::parse(&prompt.text).map(|_| ()),
            Ask::Within => Ok(()),
            Ask::Ranks => Filter::parse_ranks(&prompt.text).map(|ranks| {
                self.log.filter.ranks = ranks;
                self.show_log();
                log_view::hold(&mut self.log, session);
            }),
            Ask::Setting { key } => {
                // It is shown again, with what is wrong, where it does not fit.
                let text = prompt.text.clone();
                self.prompt = Some(prompt);
                return Effect::Set(key, text);
            }
            Ask::Evidence if prompt.text.trim().is_empty() => Err("name a directory".into()),
            Ask::Evidence => return Effect::Evidence(prompt.text.trim().to_owned()),
            Ask::Run { .. } | Ask::Dump { .. } => Ok(()),
        };
        if let Err(error) = result {
            prompt.error = Some(error);
            self.prompt = Some(prompt);
        }
        Effect::Draw
    }

    pub(in crate::tui) fn ask(&mut self, kind: Ask, text: String) {
        self.prompt = Some(Prompt { kind, text, proposed: false, error: None });
    }

    pub(in crate::tui) fn ask_search(&mut self) {
        self.show_log();
        self.log.before_search = self.log.at;
        self.ask(Ask::Search, String::new());
    }

    pub(in crate::tui) fn ask_within(&mut self) {
        let text = self.sheet.as_ref().map_or(String::new(), |shown| shown.only.clone());
        self.ask(Ask::Within, text);
    }

    pub(in crate::tui) fn ask_ranks(&mut self) {
        self.ask(Ask::Ranks, self.log.filter.ranks_text());
    }

    pub(in crate::tui) fn ask_filter(&mut self, session: &Session, theme: &Theme) {
        let pane = self.target();
        if !has_rows(&self.ctx(session, theme)) {
            self.notice = Some("this pane has no rows to filter; tab goes to another one".into());
            return;
        }
        if pane == view::pane_index("log") {
            self.show_log();
        }
        self.ask(Ask::Filter { pane }, self.filter_of(pane).text.clone());
    }

    pub(in crate::tui) fn ask_setting(&mut self, key: &'static str, value: String) {
        self.ask(Ask::Setting { key }, value);
    }
}
