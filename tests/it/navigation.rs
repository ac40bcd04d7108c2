//! Ways about the screen that need no terminal: filters of panes.

use crate::support::worlds;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::tui::choices::{Effect, Ui};
use nccl_top::tui::panes::{Ctx, PANES};
use nccl_top::tui::theme::Theme;
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A screen of a world that stands still.
struct Still {
    session: Session,
    ui: Ui,
}

impl Still {
    fn of(session: Session, size: (u16, u16)) -> Still {
        let mut ui = Ui::new(Zone::UTC);
        ui.size = size;
        Still { session, ui }
    }

    /// Presses keys one after the other: `⏎` is enter, `⎋` escape, `⇥` tab, `⌫` backspace.
    fn press(&mut self, keys: &str) -> Effect {
        let mut last = Effect::None;
        for c in keys.chars() {
            let code = match c {
                '⏎' => KeyCode::Enter,
                '⎋' => KeyCode::Esc,
                '⇥' => KeyCode::Tab,
                '⌫' => KeyCode::Backspace,
                c => KeyCode::Char(c),
            };
            last = self.ui.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), &self.session, &Theme::mono());
        }
        last
    }

    fn rows(&self) -> Vec<String> {
        let mut buf = Buffer::empty(Rect::new(0, 0, self.ui.size.0, self.ui.size.1));
        view::draw(&mut buf, &self.session, &self.ui, &Theme::mono());
        let rows = buf.content().chunks(usize::from(self.ui.size.0));
        rows.map(|row| row.iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned()).collect()
    }

    fn text(&self) -> String {
        self.rows().join("\n")
    }

    fn shows(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// Names of the rows of the pane that keys go to.
    fn names(&self) -> Vec<String> {
        let (pane, theme) = (self.ui.target(), Theme::mono());
        let ctx = Ctx { session: &self.session, ui: &self.ui, theme: &theme, pane, zoomed: self.ui.zoom.is_some(), focused: true };
        (PANES[pane].rows)(&ctx)
    }
}

#[test]
fn a_filter_leaves_rows_of_the_pane_in_focus_and_nothing_else() {
    // Pane, what is typed, and how many rows of how many it leaves.
    for (key, id, typed, left, of) in [
        ("3", "gpus", "waiting", 3, 4),
        ("3", "gpus", "!waiting", 1, 4),
        ("3", "gpus", "rank:1-2", 2, 4),
        ("6", "findings", "hang-rank", 1, 2),
        ("6", "findings", "rank:3", 1, 2),
        ("8", "processes", "rank:3", 1, 5),
        ("8", "processes", "/145[01]/", 2, 5),
    ] {
        let mut s = Still::of(worlds::hang(), (120, 40));
        s.press(key);
        assert_eq!(s.names().len(), of, "{id}: {:?}", s.names());
        s.press("/");
        s.press(typed);
        assert_eq!(s.names().len(), left, "{id} {typed}: {:?}", s.names());
        let title = s.rows().into_iter().find(|row| row.starts_with('╭')).unwrap();
        assert!(title.contains(&format!("only {typed}")), "{title}");
        // It stays when the prompt is left, and other panes have theirs.
        s.press("⏎");
        assert_eq!(s.names().len(), left);
        let pane = s.ui.target();
        assert!((0..PANES.len()).all(|other| other == pane || s.ui.filter_of(other).is_empty()));
        s.press("⎋");
        assert_eq!((s.names().len(), s.ui.zoom), (of, Some(pane)), "esc clears it first");
    }
}

#[test]
fn ports_communicators_and_sources_are_filtered_too() {
    let mut s = Still::of(worlds::p5(), (120, 40));
    s.press("4/rdmap147");
    assert!(s.names().len() == 1 && s.shows("only rdmap147"), "{:?}\n{}", s.names(), s.text());
    s.press("⎋5/zzz");
    assert!(s.names().is_empty() && s.shows("nothing passes the filter; esc clears it"), "{}", s.text());
    s.press("⎋9/NVML");
    assert!((1..4).contains(&s.names().len()), "{}", s.text());
}

#[test]
fn a_filter_follows_each_key_and_one_that_is_not_finished_changes_nothing() {
    let mut s = Still::of(worlds::hang(), (120, 40));
    s.press("8/145");
    let some = s.names();
    s.press("3");
    assert!(s.names().len() < some.len(), "{:?}", s.names());
    s.press("⌫");
    assert_eq!(s.names(), some);
    s.press(" rank:x");
    assert!(s.names() == some && s.shows("expected a rank"), "{}", s.text());
    s.press("⌫3");
    assert_eq!(s.names().len(), 1);
    s.press("⎋");
    assert!(s.names().len() == 5 && !s.shows("only what has"), "{}", s.text());
}

#[test]
fn a_title_leaves_room_for_the_filter() {
    let mut s = Still::of(worlds::busy_log(), (80, 24));
    s.press("7/");
    s.press("warn !traceback rank:0-3");
    let title = s.rows().into_iter().find(|row| row.starts_with('╭')).unwrap();
    assert!(title.contains("Log: ") && title.contains(", only warn !traceback rank:0-3 "), "{title}");
}

#[test]
fn finding_goes_on_while_one_types_and_leads_back() {
    let mut s = Still::of(worlds::busy_log(), (120, 40));
    s.press("7kkk");
    let stood = s.ui.log.at;
    s.press("fwar");
    let first = s.ui.log.at;
    assert!(first.is_some() && first != stood && s.shows("find: war"), "{}", s.text());
    s.press("⎋");
    assert_eq!((s.ui.log.at, s.ui.log.search.is_some()), (stood, false));
    s.press("fno such words");
    assert!(s.shows("no line matches"), "{}", s.text());
}

#[test]
fn the_job_can_be_chosen_and_everything_follows() {
    let mut s = Still::of(worlds::two_jobs(), (120, 40));
    let jobs: Vec<String> = s.ui.jobs(&s.session).into_iter().map(str::to_owned).collect();
    let head = |s: &Still| s.rows()[0].clone();
    let first_verdict = |s: &Still| s.rows()[1].clone();
    assert_eq!(jobs.len(), 3);
    let of = |no: usize| format!("job {no} of 3 (J): {}", jobs[no - 1]);
    let training = |s: &Still| s.rows().into_iter().find(|row| row.contains("Training")).unwrap();
    let told = view::command(&s.session, &s.ui);
    for no in [1, 2, 3] {
        let job = &jobs[no - 1];
        assert!(head(&s).contains(&of(no)) && first_verdict(&s).contains(&format!("job {job}:")), "{}", s.text());
        assert!(training(&s).contains(&format!("of job {job}")), "{}", s.text());
        assert_eq!(view::job_told(&s.session, &s.ui).as_ref(), Some(job));
        s.press("J");
    }
    assert!(head(&s).contains(&of(1)) && s.ui.job.is_none() && s.shows("always the worst"), "{}", s.text());
    assert_eq!(view::command(&s.session, &s.ui), told);
    s.press("JJ");
    assert!(s.shows(&format!("job 3 of 3: {}", jobs[2])));
    assert_ne!(view::command(&s.session, &s.ui), told, "the command is that of the chosen job");
    // One that is gone, as in a moment before it began, is no reason to show nothing.
    s.ui.job = Some("gone".into());
    assert!(head(&s).contains(&of(1)), "{}", s.text());

    let mut one = Still::of(worlds::hang(), (120, 40));
    one.press("J");
    assert!(one.shows("there is only one job") && one.ui.job.is_none());
}
