//! Keys as the config and the help write them, and which of them does what.

use super::actions::{Action, Group, KEYS, Key};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

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

    /// `esc`, and the key after it. A terminal sends a key with Alt as `esc` and the key, so that two keys that arrive together, as they do over
    /// a slow line, read as one with Alt. Where that has no meaning of its own, they are the two.
    pub fn apart(&self, key: &KeyEvent) -> Option<[KeyEvent; 2]> {
        // Others come as one sequence, with Alt named in it.
        let is_plain = matches!(key.code, KeyCode::Char(_) | KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace);
        (is_plain && key.modifiers.contains(KeyModifiers::ALT) && self.action(key).is_none())
            .then(|| [KeyEvent::from(KeyCode::Esc), KeyEvent { modifiers: key.modifiers - KeyModifiers::ALT, ..*key }])
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

/// The table as docs/SCREEN.md shows it.
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
