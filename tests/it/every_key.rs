//! Every key and the mouse on every pane: nothing panics, the screen answers, and the help lists all that works and nothing else.

use crate::support::worlds;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::tui::actions::{Action, KEYS};
use nccl_top::tui::choices::{Effect, Ui};
use nccl_top::tui::keys::Keymap;
use nccl_top::tui::panes::PANES;
use nccl_top::tui::theme::Theme;
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// By their names in the table.
const NAMED: &[(&str, KeyCode)] = &[
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("shift-tab", KeyCode::BackTab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("right", KeyCode::Right),
    ("left", KeyCode::Left),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pgup", KeyCode::PageUp),
    ("pgdn", KeyCode::PageDown),
    ("f1", KeyCode::F(1)),
    ("f2", KeyCode::F(2)),
];

fn event(key: &str) -> KeyEvent {
    let (plain, modifiers) = match key {
        "shift-left" | "shift-right" => (&key[6..], KeyModifiers::SHIFT),
        "shift-tab" => (key, KeyModifiers::SHIFT),
        _ => key.strip_prefix("ctrl-").map_or((key, KeyModifiers::NONE), |letter| (letter, KeyModifiers::CONTROL)),
    };
    let named = NAMED.iter().find(|(name, _)| *name == plain).map(|(_, code)| *code);
    KeyEvent::new(named.unwrap_or_else(|| KeyCode::Char(plain.chars().next().unwrap())), modifiers)
}

/// The keys of the panes, the overview first.
fn panes() -> Vec<&'static str> {
    let is_pane = |action: Action| matches!(action, Action::Pane(_));
    let keys: Vec<&str> = KEYS.iter().filter(|k| is_pane(k.action)).map(|k| k.keys[0]).collect();
    assert_eq!(keys.len(), PANES.len() + 1);
    keys
}

struct Drawn<'a> {
    session: &'a Session,
    ui: Ui,
    theme: Theme,
}

impl<'a> Drawn<'a> {
    fn of(session: &'a Session, size: (u16, u16), pane: &str) -> Drawn<'a> {
        let mut ui = Ui::new(Zone::UTC);
        ui.size = size;
        let mut drawn = Drawn { session, ui, theme: Theme::mono() };
        drawn.input(&Event::Key(event(pane)));
        drawn
    }

    fn input(&mut self, input: &Event) -> Effect {
        self.ui.input(input, self.session, &self.theme)
    }

    fn text(&self) -> String {
        let mut buf = Buffer::empty(Rect::new(0, 0, self.ui.size.0, self.ui.size.1));
        view::draw(&mut buf, self.session, &self.ui, &self.theme);
        buf.content().iter().map(|cell| cell.symbol()).collect()
    }
}

#[test]
fn every_key_can_be_pressed_on_every_pane_and_on_what_it_opens() {
    for (session, size) in
        [(worlds::hang(), (120, 40)), (worlds::p5(), (80, 24)), (worlds::no_gpu(), (200, 60)), (Session::default(), (80, 24))]
    {
        for pane in panes() {
            for key in KEYS.iter().map(|k| k.keys[0]) {
                let mut s = Drawn::of(&session, size, pane);
                // Alone, and then with what leads further from wherever it led.
                for then in [key, "down", "enter", key, "esc"] {
                    s.input(&Event::Key(event(then)));
                }
                assert!(s.text().contains("nccl-top"), "{key} on {pane}");
            }
        }
    }
}

#[test]
fn a_key_that_the_help_does_not_list_does_nothing() {
    let session = worlds::hang();
    let keys = Keymap::default();
    for pane in panes() {
        let mut s = Drawn::of(&session, (120, 40), pane);
        let before = s.text();
        for c in (' '..='~').chain("äß中".chars()) {
            let key = KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
            let listed = KEYS.iter().any(|k| k.keys.iter().any(|name| *name == c.to_string() || *name == "space" && c == ' '));
            assert_eq!(keys.action(&key).is_some(), listed, "{c}");
            if !listed {
                assert_eq!((s.input(&Event::Key(key)), s.text() == before), (Effect::Draw, true), "{c} on {pane}");
            }
        }
    }
}

#[test]
fn the_mouse_can_be_used_everywhere() {
    let session = worlds::hang();
    for pane in panes() {
        for before in ["", "enter", "?", ":", "c", "e"] {
            for row in (0..40).step_by(3) {
                for column in (0..120).step_by(29) {
                    let mut s = Drawn::of(&session, (120, 40), pane);
                    if !before.is_empty() {
                        s.input(&Event::Key(event(before)));
                    }
                    for kind in [MouseEventKind::Down(MouseButton::Left), MouseEventKind::ScrollDown, MouseEventKind::ScrollUp] {
                        s.input(&Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
                    }
                    if column == 58 {
                        assert!(s.text().contains("nccl-top"), "{column}, {row} after {before:?} on {pane}");
                    }
                }
            }
        }
    }
}
