//! What can be done on the screen, and with which keys: one table. The footer, the help, the config and the README are made from it.
//!
//! **To add a key**: a variant of [`Action`], its row in [`OWN`], and its arm in `Ui::act`. Panes bring their own.

use super::panes::PANES;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Quit,
    Help,
    Suspend,
    Redraw,
    Back,
    Open,
    Zoom,
    /// The overview is 1; the panes follow in their order.
    Pane(u8),
    NextPane,
    PreviousPane,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Sort,
    SortReverse,
    Search,
    NextMatch,
    PreviousMatch,
    Filter,
    FilterRank,
    FilterSeverity,
    Copy,
    Stack,
    Evidence,
    Pause,
    Earlier,
    Later,
    MuchEarlier,
    MuchLater,
    ToStart,
    ToEnd,
    Slower,
    Faster,
    LongerAxis,
    ShorterAxis,
    Theme,
    Mouse,
}

/// Under which head the help lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Panes,
    Lists,
    Log,
    Time,
    Program,
}

impl Group {
    pub const ALL: [Group; 5] = [Group::Panes, Group::Lists, Group::Log, Group::Time, Group::Program];

    pub fn as_str(self) -> &'static str {
        match self {
            Group::Panes => "Panes",
            Group::Lists => "Lists",
            Group::Log => "Log",
            Group::Time => "Time",
            Group::Program => "Program",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Key {
    pub action: Action,
    /// How the config names it.
    pub name: &'static str,
    /// Unless the config says otherwise.
    pub keys: &'static [&'static str],
    pub help: &'static str,
    /// The word for the footer, for what should be found without help.
    pub footer: Option<&'static str>,
    pub group: Group,
}

const fn key(action: Action, name: &'static str, keys: &'static [&'static str], group: Group, help: &'static str) -> Key {
    Key { action, name, keys, help, footer: None, group }
}

const fn main_key(
    action: Action,
    name: &'static str,
    keys: &'static [&'static str],
    group: Group,
    help: &'static str,
    footer: &'static str,
) -> Key {
    Key { action, name, keys, help, footer: Some(footer), group }
}

/// All rows: behind the overview's stands one for each pane, in their order.
pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let of_panes =
        PANES.iter().zip(DIGITS).zip(2..).map(|((pane, digit), no)| key(Action::Pane(no), pane.id, digit, Group::Panes, pane.shows));
    let (before, after) = OWN.split_at(OWN.iter().position(|k| k.action == Action::Pane(1)).map_or(0, |at| at + 1));
    before.iter().copied().chain(of_panes).chain(after.iter().copied()).collect()
});

/// Keys of the panes behind the overview.
const DIGITS: [&[&str]; 8] = [&["2"], &["3"], &["4"], &["5"], &["6"], &["7"], &["8"], &["9"]];

#[rustfmt::skip]
const OWN: &[Key] = &[
    main_key(Action::Help, "help", &["?", "f1"], Group::Program, "keys, marks and words", "help"),
    main_key(Action::Quit, "quit", &["q", "ctrl-c"], Group::Program, "end nccl-top; the job is not touched", "quit"),
    main_key(Action::Pane(1), "overview", &["1"], Group::Panes, "everything at once", "overview"),
    key(Action::NextPane, "next-pane", &["tab"], Group::Panes, "focus the next pane"),
    key(Action::PreviousPane, "previous-pane", &["shift-tab"], Group::Panes, "focus the pane before"),
    key(Action::Zoom, "zoom", &["z"], Group::Panes, "the focused pane alone, and back"),
    main_key(Action::Open, "open", &["enter"], Group::Panes, "open: zoom the pane; of a finding, its line in the log", "open"),
    key(Action::Back, "back", &["esc", "backspace"], Group::Panes, "back: out of help, filter, zoom"),
    key(Action::Up, "up", &["up", "k"], Group::Lists, "one row up"),
    key(Action::Down, "down", &["down", "j"], Group::Lists, "one row down"),
    key(Action::PageUp, "page-up", &["pgup", "ctrl-b", "ctrl-u"], Group::Lists, "ten rows up"),
    key(Action::PageDown, "page-down", &["pgdn", "ctrl-f", "ctrl-d"], Group::Lists, "ten rows down"),
    key(Action::Top, "top", &["home", "g"], Group::Lists, "first row"),
    key(Action::Bottom, "bottom", &["end", "G"], Group::Lists, "last row; of the log: follow"),
    key(Action::Sort, "sort", &["s"], Group::Lists, "sort by the next column"),
    key(Action::SortReverse, "sort-reverse", &["S"], Group::Lists, "the other way round"),
    main_key(Action::Search, "search", &["/"], Group::Log, "search the log; /text/ or a regular expression in slashes", "search"),
    key(Action::NextMatch, "next-match", &["n"], Group::Log, "next match"),
    key(Action::PreviousMatch, "previous-match", &["N"], Group::Log, "match before"),
    key(Action::Filter, "filter", &["f"], Group::Log, "only lines with all of: text !text /regex/ rank:0-3 file:name"),
    key(Action::FilterRank, "filter-rank", &["r"], Group::Log, "only lines of these ranks"),
    key(Action::FilterSeverity, "filter-severity", &["w"], Group::Log, "all lines, those with meaning, WARN and worse"),
    main_key(Action::Pause, "pause", &["p", "space"], Group::Time, "stop the screen, and go on; nothing is missed meanwhile", "pause"),
    main_key(Action::Earlier, "earlier", &["left", "h"], Group::Time, "5 s back, everything with it", "back"),
    key(Action::Later, "later", &["right", "l"], Group::Time, "5 s forward"),
    key(Action::MuchEarlier, "much-earlier", &["["], Group::Time, "1 min back"),
    key(Action::MuchLater, "much-later", &["]"], Group::Time, "1 min forward"),
    key(Action::ToStart, "to-start", &["H"], Group::Time, "as far back as is kept"),
    key(Action::ToEnd, "to-end", &["L"], Group::Time, "to the present; of a recording, to its end"),
    key(Action::Slower, "slower", &["<"], Group::Time, "a recording at half the speed"),
    key(Action::Faster, "faster", &[">"], Group::Time, "a recording twice as fast"),
    key(Action::LongerAxis, "longer-axis", &["-"], Group::Time, "sparklines over a longer time"),
    key(Action::ShorterAxis, "shorter-axis", &["+", "="], Group::Time, "sparklines over a shorter time"),
    main_key(Action::Copy, "copy", &["c", "y"], Group::Program, "copy the next step's command to the terminal's clipboard", "copy command"),
    main_key(Action::Stack, "stack", &["x"], Group::Program, "run py-spy on the culprit, after you said yes, and show its stack", "stack"),
    main_key(Action::Evidence, "evidence", &["e"], Group::Program, "write an evidence bundle to a directory that you name", "evidence"),
    key(Action::Theme, "theme", &["t"], Group::Program, "the next theme"),
    key(Action::Mouse, "mouse", &["m"], Group::Program, "give the mouse back to the terminal, and take it again"),
    key(Action::Redraw, "redraw", &["ctrl-l"], Group::Program, "draw everything anew"),
    key(Action::Suspend, "suspend", &["ctrl-z"], Group::Program, "to the shell; fg comes back"),
];

/// A key with its modifiers, as the config and the help write it: `q`, `ctrl-c`, `shift-tab`, `pgup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chord {
    code: KeyCode,
    ctrl: bool,
    alt: bool,
    shift: bool,
}

const NAMED: &[(&str, KeyCode)] = &[
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
];

impl Chord {
    /// # Errors
    /// What was found and what is expected.
    pub fn parse(text: &str) -> Result<Chord, String> {
        let mut chord = Chord { code: KeyCode::Null, ctrl: false, alt: false, shift: false };
        let mut rest = text;
        loop {
            let begins = |with: &str| rest.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
            let (flag, length) = match () {
                () if begins("ctrl-") => (&mut chord.ctrl, 5),
                () if begins("alt-") => (&mut chord.alt, 4),
                () if begins("shift-") => (&mut chord.shift, 6),
                () => break,
            };
            *flag = true;
            rest = &rest[length..];
        }
        let mut chars = rest.chars();
        chord.code = match (chars.next(), chars.next()) {
            (Some(c), None) => KeyCode::Char(c),
            _ => {
                let name = rest.to_ascii_lowercase();
                let function = name.strip_prefix('f').and_then(|n| n.parse().ok()).filter(|n| (1..=12).contains(n)).map(KeyCode::F);
                let named = NAMED.iter().find(|(n, _)| *n == name).map(|(_, code)| *code);
                named.or(function).ok_or_else(|| {
                    let names: Vec<&str> = NAMED.iter().map(|(n, _)| *n).collect();
                    format!(
                        "found {text:?}, expected a character, f1 to f12 or one of {}, with ctrl-, alt- or shift- before it",
                        names.join(", ")
                    )
                })?
            }
        };
        // Terminals send a capital letter as itself.
        if let KeyCode::Char(c) = chord.code {
            if chord.ctrl {
                chord.code = KeyCode::Char(c.to_ascii_lowercase());
            } else if chord.shift {
                chord.code = KeyCode::Char(c.to_uppercase().next().unwrap_or(c));
            }
            chord.shift = false;
        }
        Ok(chord)
    }

    pub fn of(key: &KeyEvent) -> Chord {
        let (mut code, mut shift) = (key.code, key.modifiers.contains(KeyModifiers::SHIFT));
        if code == KeyCode::BackTab {
            (code, shift) = (KeyCode::Tab, true);
        }
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        if let KeyCode::Char(c) = code {
            shift = false;
            if ctrl {
                code = KeyCode::Char(c.to_ascii_lowercase());
            }
        }
        Chord { code, ctrl, alt: key.modifiers.contains(KeyModifiers::ALT), shift }
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (on, prefix) in [(self.ctrl, "ctrl-"), (self.alt, "alt-"), (self.shift, "shift-")] {
            if on {
                f.write_str(prefix)?;
            }
        }
        match (NAMED.iter().find(|(_, code)| *code == self.code), self.code) {
            (Some((name, _)), _) => f.write_str(name),
            (None, KeyCode::Char(c)) => write!(f, "{c}"),
            (None, KeyCode::F(n)) => write!(f, "f{n}"),
            (None, other) => write!(f, "{other:?}"),
        }
    }
}

/// The keys in effect: the table with what the config changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keymap {
    of_action: BTreeMap<&'static str, Vec<Chord>>,
}

impl Default for Keymap {
    fn default() -> Self {
        let chords = |k: &Key| k.keys.iter().filter_map(|text| Chord::parse(text).ok()).collect();
        Keymap { of_action: KEYS.iter().map(|k| (k.name, chords(k))).collect() }
    }
}

impl Keymap {
    /// Gives an action other keys; an empty list leaves it without.
    ///
    /// # Errors
    /// If there is no such action or key. Names what was found and what is expected.
    pub fn bind(&mut self, name: &str, keys: &[&str]) -> Result<(), String> {
        let Some(row) = KEYS.iter().find(|k| k.name == name) else {
            let names: Vec<&str> = KEYS.iter().map(|k| k.name).collect();
            return Err(format!("unknown action {name:?}, expected one of {}", names.join(", ")));
        };
        let chords = keys.iter().map(|k| Chord::parse(k)).collect::<Result<Vec<_>, _>>()?;
        self.of_action.insert(row.name, chords);
        Ok(())
    }

    /// # Errors
    /// If one key has two meanings, or nothing ends the program.
    pub fn check(&self) -> Result<(), String> {
        let mut owners: HashMap<Chord, &str> = HashMap::new();
        for (name, chords) in &self.of_action {
            for chord in chords {
                if let Some(other) = owners.insert(*chord, name).filter(|other| other != name) {
                    return Err(format!("\"{chord}\" is bound to both {other} and {name}; give one of them another key"));
                }
            }
        }
        if self.of_action.get("quit").is_none_or(Vec::is_empty) {
            return Err("quit has no key; expected at least one".into());
        }
        Ok(())
    }

    pub fn action(&self, key: &KeyEvent) -> Option<Action> {
        let chord = Chord::of(key);
        let bound = KEYS.iter().find(|k| self.of_action.get(k.name).is_some_and(|c| c.contains(&chord))).map(|k| k.action);
        // However keys are bound, there is the way out that every program has.
        let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        bound.or(interrupt.then_some(Action::Quit))
    }

    /// The keys of an action in words: `up, k`.
    pub fn words(&self, action: Action) -> Vec<String> {
        let row = KEYS.iter().find(|k| k.action == action);
        row.and_then(|k| self.of_action.get(k.name)).map_or(Vec::new(), |c| c.iter().map(ToString::to_string).collect())
    }

    /// As the config file writes it: `quit = ["q", "ctrl-c"]`, in the order of the table.
    pub fn toml(&self) -> String {
        let list = |k: &Key| format!("{} = {:?}\n", k.name, self.words(k.action));
        KEYS.iter().map(list).collect()
    }
}

/// The table as the README shows it.
pub fn as_markdown() -> String {
    let keys = Keymap::default();
    let mut out = String::from("| keys | what they do |\n| --- | --- |\n");
    for group in Group::ALL {
        out.push_str(&format!("| **{}** | |\n", group.as_str()));
        for key in KEYS.iter().filter(|k| k.group == group) {
            let words: Vec<String> = keys.words(key.action).iter().map(|w| format!("`{w}`")).collect();
            out.push_str(&format!("| {} | {} |\n", words.join(" "), key.help));
        }
    }
    out
}
