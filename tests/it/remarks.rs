//! What the user notes on findings goes to the recording, and is shown when it is played.

use crate::support::screen::Screen;
use crate::support::worlds;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::observe::{Body, Observation, Remark, SourceId};
use nccl_top::tui::choices::{Effect, Ui};
use nccl_top::tui::theme::Theme;

fn press(ui: &mut Ui, session: &Session, key: char) -> Effect {
    ui.input(&Event::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)), session, &Theme::mono())
}

fn put(session: &mut Session, effect: &Effect) {
    let Effect::Note(remark) = effect else { panic!("{effect:?}") };
    let seen = Observation { at: session.model.now, host: None, from: SourceId::of("feed"), body: Body::Remark(remark.clone()) };
    // As it stands on a tape.
    let seen: Observation = serde_json::from_str(&serde_json::to_string(&seen).unwrap()).unwrap();
    session.apply(&seen, &mut Vec::new());
}

#[test]
fn a_note_holds_where_the_recording_is_played_until_it_is_taken_back() {
    for key in ['a', 'A'] {
        let mut session = worlds::hang();
        let mut ui = Ui::new(Zone::UTC);
        press(&mut ui, &session, '6');
        let noted = press(&mut ui, &session, key);
        let Effect::Note(remark) = &noted else { panic!("{noted:?}") };
        let finding = session.ledger.first_open(|f| f.rule == remark.rule).unwrap().clone();
        put(&mut session, &noted);
        let mut later = Ui::new(Zone::UTC);
        assert!(!later.is_quiet(&finding));
        later.heed(&session);
        assert!(later.is_quiet(&finding), "{key}: {:?}", session.model.remarks);
        // Who plays it may see it otherwise.
        press(&mut later, &session, '6');
        later.acknowledged.clear();
        later.muted.clear();
        later.heed(&session);
        assert!(!later.is_quiet(&finding), "{key}");
        later.heed(&worlds::hang());
        later.heed(&session);
        assert!(later.is_quiet(&finding), "{key}: gone to before the note, and behind it again");
        put(&mut session, &Effect::Note(Remark { over: true, ..remark.clone() }));
        later.heed(&session);
        assert!(!later.is_quiet(&finding) && session.model.remarks.is_empty(), "{key}");
    }
}

#[test]
fn notes_take_bounded_room() {
    let mut session = worlds::hang();
    for no in 0..10_000 {
        let remark = Remark { rule: "nic-down".into(), subject: Some(no.to_string()), job: None, over: false };
        put(&mut session, &Effect::Note(remark));
    }
    assert!((100..1000).contains(&session.model.remarks.len()));
}

#[test]
fn an_acknowledged_finding_is_so_in_the_recording_of_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
    let killed = "E1121 00:05:26.947000 100 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -9) local_rank: 1 (pid: 102) of binary: python\n";
    let mut s = Screen::start(&["--sysroot", root.to_str().unwrap(), "train.log"], dir.path(), &[], 40, 120);
    s.wait_for("IDLE");
    std::fs::write(dir.path().join("train.log"), killed).unwrap();
    s.wait_for("rank-exited");
    s.keys("6");
    s.wait_for("Findings: ");
    s.press("a", "acknowledged", |s| s.contents().contains("acknowledged: "));
    s.keys("e");
    s.wait_for("write evidence to");
    s.keys("\x15./bundle\r");
    s.wait_for("files, ");
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    let tape = std::fs::read_dir(dir.path().join("bundle")).unwrap().map(|entry| entry.unwrap().path());
    let tape = tape.into_iter().find(|path| path.to_string_lossy().ends_with(".jsonl.gz")).expect("a recording");
    let mut s = Screen::start(&["replay", tape.to_str().unwrap(), "--speed", "max"], dir.path(), &[], 40, 120);
    s.wait_for("acknowledged: ");
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
}
