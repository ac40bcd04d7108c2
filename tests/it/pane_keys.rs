//! Every key of the table, and the mouse, on every pane, in a real pseudo-terminal: the program lives, the screen changes or there is a
//! reason why it does not, and nothing is sent that a terminal would not understand.

use crate::support::screen::{Screen, find, sent_for};
use nccl_top::tui::actions::{Action, Group, KEYS, Key};
use std::path::Path;
use std::time::{Duration, Instant};

/// What only a whole redraw sends.
const CLEAR: &[u8] = b"\x1b[2J";
const REDRAW: &str = "\x0c";

/// Each cell with its look.
fn cells(s: &vt100::Screen) -> String {
    s.contents_formatted()
}

/// Waits until everything that was typed has been drawn: a redraw is done after it, and shows the clock as it stands.
fn settle(s: &mut Screen) {
    let from = s.raw().len();
    s.keys(REDRAW);
    s.wait_sent(from, CLEAR);
    let cleared = from + find(&s.raw()[from..], CLEAR).unwrap_or(0);
    // The last thing of a frame.
    s.wait_sent(cleared, b"\x1b[?25l");
}

fn start(dir: &Path, rows: u16, columns: u16) -> Screen {
    let tape = format!("{}/tests/tapes/hang.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let env = [("PAGER", "true"), ("XDG_CONFIG_HOME", "/nonexistent")];
    let mut s = Screen::start(&["replay", &tape, "--at", "+70s"], dir, &env, rows, columns);
    s.wait_for("STUCK");
    s.press("p", "paused", |s| s.contents().contains('‖'));
    s
}

/// Why a key may change nothing on a pane that was just opened.
fn may_do_nothing(action: Action, pane: Action) -> Option<&'static str> {
    match action {
        _ if action == pane => Some("it is shown already"),
        Action::Redraw | Action::Suspend | Action::Pager => Some("the screen is the same afterwards"),
        Action::Back if pane == Action::Pane(1) => Some("there is nothing to go back from"),
        Action::Up | Action::PageUp | Action::Top => Some("the first row is selected"),
        Action::Bottom => Some("the last row is in sight"),
        Action::ScrollLeft => Some("lines begin with their first column"),
        Action::Down | Action::PageDown => Some("there is one row, or none"),
        _ => None,
    }
}

/// All sequences but those that the program is meant to send.
fn strange(raw: &[u8]) -> Vec<String> {
    let mut strange = Vec::new();
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|b| *b == 0x1b) {
        rest = &rest[at + 1..];
        let (end, known) = match rest.first() {
            Some(b'[') => {
                let end = rest.iter().skip(1).position(|b| (0x40..=0x7e).contains(b)).map_or(rest.len(), |i| i + 2);
                let is_mode = matches!(&rest[1..end], [b'?', .., b'h' | b'l']);
                (end, is_mode || matches!(rest[end - 1], b'H' | b'm' | b'J' | b'K' | b'X' | b'B' | b'C' | b'D'))
            }
            // To the clipboard.
            Some(b']') => {
                let end = rest.iter().position(|b| *b == 7).map_or(rest.len(), |i| i + 1);
                (end, rest.starts_with(b"]52;c;"))
            }
            _ => (1.min(rest.len()), false),
        };
        if !known {
            strange.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        }
        rest = &rest[end..];
    }
    let control = |b: &u8| *b < 0x20 && !matches!(b, 7 | 8 | b'\n' | b'\r' | 0x1b);
    strange.extend(raw.iter().copied().filter(control).map(|b| format!("{b:#x}")));
    strange
}

/// Types something that comes as one, and waits for the frame that it brings about. Nothing else is drawn: the recording stands.
fn press(s: &mut Screen, keys: &str) {
    let from = s.raw().len();
    s.keys(keys);
    s.wait_sent(from, b"\x1b[?25l");
}

/// Nothing but a key changes the screen here, so that it need not come at once.
fn changes(s: &Screen, before: &str) -> bool {
    let asked = Instant::now();
    while s.look(cells) == before {
        if asked.elapsed() > Duration::from_secs(5) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// It takes the terminal away for a moment, or goes to another time, which more than one frame may show.
fn takes_time(key: &Key) -> bool {
    key.group == Group::Time || matches!(key.action, Action::Suspend | Action::Pager | Action::Redraw)
}

/// Presses every key on every pane. Returns those after which nothing had changed, although there is no reason for that.
fn press_all(s: &mut Screen) -> Vec<String> {
    let mut silent = Vec::new();
    for pane in KEYS.iter().filter(|k| matches!(k.action, Action::Pane(_))) {
        // Where all panes have something to show.
        s.keys("H]ll");
        settle(s);
        for key in KEYS.iter().filter(|k| k.action != Action::Quit) {
            // Whatever the key before has opened is left. Both come as one.
            press(s, &format!("\x1b{}", pane.keys[0]));
            let before = s.look(cells);
            if takes_time(key) {
                s.keys(&sent_for(key.keys[0]));
                settle(s);
            } else {
                press(s, &sent_for(key.keys[0]));
            }
            assert!(s.child.try_wait().expect("a child").is_none(), "{} on {} ended the program", key.name, pane.name);
            // What was waited for may have been the last frame of the keys before.
            if may_do_nothing(key.action, pane.action).is_none() && !changes(s, &before) {
                silent.push(format!("{} on {}", key.name, pane.name));
            }
            match key.action {
                // It stands again.
                Action::Pause => {
                    s.keys(&sent_for(key.keys[0]));
                    settle(s);
                }
                Action::Mouse => press(s, &sent_for(key.keys[0])),
                _ => {}
            }
        }
    }
    silent
}

fn ends_well(mut s: Screen) {
    s.keys("\x1b\x1b\x1bq");
    assert_eq!(s.wait_end(), 0);
    s.assert_restored();
    assert_eq!(strange(&s.raw()), Vec::<String>::new());
}

#[test]
fn every_key_answers_on_every_pane() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = start(dir.path(), 40, 120);
    let silent = press_all(&mut s);
    assert!(silent.is_empty(), "{} keys did nothing and said nothing: {silent:#?}", silent.len());
    ends_well(s);
}

#[test]
fn every_key_answers_on_every_pane_of_a_small_screen() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = start(dir.path(), 24, 80);
    let silent = press_all(&mut s);
    assert!(silent.is_empty(), "{} keys did nothing and said nothing: {silent:#?}", silent.len());
    ends_well(s);
}

#[test]
fn the_mouse_works_on_every_pane() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = start(dir.path(), 40, 120);
    for pane in KEYS.iter().filter(|k| matches!(k.action, Action::Pane(_))) {
        for row in (1..=40).step_by(6) {
            for column in (1..=120).step_by(29) {
                s.keys("\x1b\x1b\x1b");
                s.keys(pane.keys[0]);
                // A click, the wheel both ways, and a click beyond the screen.
                s.keys(&format!("\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m\x1b[<65;{column};{row}M\x1b[<64;{column};{row}M"));
                s.keys("\x1b[<0;999;999M");
            }
        }
        settle(&mut s);
        assert!(s.child.try_wait().expect("a child").is_none(), "a click on {} ended the program", pane.name);
    }
    s.keys("\x1b\x1b\x1b1");
    settle(&mut s);
    // On a title it shows the pane alone, on the footer it does what stands there.
    let at = |s: &vt100::Screen, text: &str| {
        let place = |y: u16| s.contents_between(y, 0, y, 120).find(text).map(|x| (y, x));
        let (y, byte) = (0..40).find_map(place).unwrap_or_else(|| panic!("no {text:?} in\n{}", s.contents()));
        let before = s.contents_between(y, 0, y, 120)[..byte].chars().count();
        (before as u16 + 2, y + 1)
    };
    for (on, shows) in [("GPUs: 4", "1 overview"), ("1 overview", "1-0 panes"), ("? help", "all of a list")] {
        let (x, y) = s.look(|s| at(s, on));
        let was = s.text().contains(shows);
        s.send(format!("\x1b[<0;{x};{y}M").as_bytes());
        settle(&mut s);
        assert!(!was || on == "? help", "{shows:?} before the click on {on:?}");
        assert!(on == "? help" || s.text().contains(shows), "no {shows:?} after a click on {on:?}:\n{}", s.text());
    }
    assert!(s.text().contains(" Help"), "{}", s.text());
    ends_well(s);
}

#[test]
fn a_key_that_comes_together_with_esc_is_a_key_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = start(dir.path(), 40, 120);
    s.press("3", "the GPUs", |s| s.contents().contains("1 overview"));
    let from = s.raw().len();
    s.send(b"\x1b\x0c");
    s.wait_sent(from, CLEAR);
    s.wait_until("back in the overview", |s| s.contents().contains("1-0 panes"));
    s.press("?", "help", |s| s.contents().contains(" Help"));
    s.send(b"\x1b6");
    s.wait_until("findings", |s| s.contents().contains("1 overview") && s.contents().contains("acknowledge"));
    ends_well(s);
}
