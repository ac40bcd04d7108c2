//! What a large screen does with its room: meters, cards and evidence; nothing is drawn that was not measured.

use crate::support::worlds;
use nccl_top::base::time::Zone;
use nccl_top::base::units::{at_least_pct, at_most_pct};
use nccl_top::diagnosis::session::Session;
use nccl_top::observe::gpu::{GpuTrouble, GpuTroubleKind};
use nccl_top::recording::tape::Reader;
use nccl_top::tui::choices::Ui;
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use std::path::Path;
use std::time::Duration;

fn drawn(session: &Session, size: (u16, u16), zoom: Option<&str>) -> Vec<String> {
    let mut ui = Ui::new(Zone::UTC);
    ui.size = size;
    ui.zoom = zoom.map(view::pane_index);
    ui.focus = ui.zoom.unwrap_or(ui.focus);
    let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    view::draw(&mut buf, session, &ui, &Theme::mono());
    buf.content().chunks(usize::from(size.0)).map(|row| row.iter().map(Cell::symbol).collect()).collect()
}

/// From the title of a card to that of the one below it, the left one.
fn card<'a>(rows: &'a [String], title: &str) -> Vec<&'a str> {
    let from = rows.iter().position(|row| row.contains(&format!("─ {title} "))).expect(title);
    let halves = rows[from..].iter().map(|row| row.split_at(row.char_indices().nth(row.chars().count() / 2).map_or(0, |(at, _)| at)).0);
    let first = halves.clone().take(1);
    first.chain(halves.skip(1).take_while(|row| !row.contains("─ GPU") && !row.contains("──────"))).collect()
}

fn tape(name: &str) -> Session {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/tapes/{name}.jsonl.gz"));
    let mut reader = Reader::open(&path).unwrap();
    let mut session = reader.header().session();
    while let Some(seen) = reader.read().unwrap() {
        session.apply(&seen, &mut Vec::new());
    }
    session
}

#[test]
fn a_meter_stands_only_where_the_limit_is_known() {
    let mut session = worlds::healthy();
    let rows = drawn(&session, (200, 60), Some("gpus"));
    let power = |rows: &[String]| card(rows, "GPU 0 · rank 0 · working").into_iter().find(|row| row.contains("power")).unwrap().to_owned();
    assert!(power(&rows).contains("■■■■") && power(&rows).contains("692/700 W"), "{rows:#?}");
    if let Some(gpu) = session.model.gpus.get_mut(&0) {
        gpu.info.power_limit_mw = None;
    }
    let rows = drawn(&session, (200, 60), Some("gpus"));
    assert!(!power(&rows).contains('■') && power(&rows).contains("692/– W"), "{rows:#?}");
}

#[test]
fn a_gpu_that_does_not_answer_has_no_values() {
    let mut session = worlds::healthy();
    let now = session.model.now;
    if let Some(gpu) = session.model.gpus.get_mut(&0) {
        gpu.trouble = Some((now.minus(Duration::from_secs(10)), GpuTrouble { kind: GpuTroubleKind::Lost, detail: "GPU is lost".into() }));
    }
    let busy = |session: &Session, gpu: &str| {
        let rows = drawn(session, (200, 60), Some("gpus"));
        card(&rows, gpu).into_iter().find(|row| row.contains("SM %")).unwrap().trim_start_matches(['│', ' ']).to_owned()
    };
    assert!(busy(&session, "GPU 0 · rank 0 · working").starts_with("SM %        –"), "{}", busy(&session, "GPU 0 · rank 0 · working"));
    assert!(busy(&session, "GPU 2 · rank 2 · working").starts_with("SM %       96"));
}

#[test]
fn zoomed_panes_of_gpus_and_ports_use_their_room() {
    for (session, pane) in [(worlds::hang(), "gpus"), (worlds::p5(), "gpus"), (worlds::p5(), "network")] {
        for size in [(120, 40), (200, 60), (280, 75)] {
            let rows = drawn(&session, size, Some(pane));
            let blank = rows.iter().filter(|row| row.trim_matches(['│', ' ']).is_empty()).count();
            assert!(blank * 6 <= rows.len(), "{pane} at {size:?}: {blank} blank rows\n{}", rows.join("\n"));
        }
    }
}

#[test]
fn the_evidence_stands_on_a_large_overview() {
    let session = worlds::hang();
    let (job, _) = session.verdicts.first_key_value().unwrap();
    let finding = session.deciding(job).unwrap();
    for size in [(200, 60), (280, 75)] {
        let rows = drawn(&session, size, None);
        for evidence in &finding.evidence {
            let begin: String = evidence.text.chars().take(30).collect();
            let told = rows.iter().filter(|row| row.contains(&begin)).count();
            assert!(told >= 1, "{begin} at {size:?}:\n{}", rows.join("\n"));
        }
        assert!(rows.iter().any(|row| row.contains("  process  ")), "{}", rows.join("\n"));
    }
    // Where nothing is wrong, what that rests on.
    let rows = drawn(&worlds::healthy(), (200, 60), None);
    assert!(rows.iter().any(|row| row.contains("✓ nvml ")), "{}", rows.join("\n"));
}

#[test]
fn strips_keep_their_ranks_when_the_ranks_have_ended() {
    let session = tape("none");
    let (_, verdict) = session.verdicts.first_key_value().unwrap();
    assert_eq!(verdict.state.as_str(), "finished");
    let rows = drawn(&session, (120, 40), Some("timeline"));
    for gpu in 0..4 {
        assert!(rows.iter().any(|row| row.contains(&format!("rank {gpu} GPU {gpu} "))), "{}", rows.join("\n"));
    }
}

#[test]
fn a_share_has_an_end() {
    assert_eq!([99.4, 99.6, 100.0].map(at_least_pct), ["99 % or more", "100 %", "100 %"]);
    assert_eq!([0.0, 0.4, 0.6].map(at_most_pct), ["0 %", "0 %", "1 % or less"]);
    let session = tape("slow");
    let told = session.ledger.open().into_iter().chain(session.ledger.past()).flat_map(|f| &f.evidence).map(|e| e.text.as_str());
    let told: Vec<&str> = told.filter(|text| text.contains("its GPU was busy")).collect();
    assert!(!told.is_empty() && told.iter().all(|text| !text.contains("100 % or more")), "{told:?}");
}

/// Five seconds with one picture: a pause has its beginning, and no pane calls it a fault.
#[test]
fn a_pause_says_since_when_and_alarms_nobody() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tapes/checkpoint-quiet.jsonl.gz");
    let mut reader = Reader::open(&path).unwrap();
    let mut session = reader.header().session();
    while let Some(seen) = reader.read().unwrap() {
        session.apply(&seen, &mut Vec::new());
        let paused = session.verdicts.values().find(|v| v.state.as_str() == "paused");
        if let Some(verdict) = paused.filter(|v| session.model.now.since(v.since) > Duration::from_secs(8)) {
            let theme = Theme::load("dark", Depth::True).unwrap();
            let mut ui = Ui::new(Zone::UTC);
            ui.size = (120, 40);
            let mut buf = Buffer::empty(Rect::new(0, 0, 120, 40));
            view::draw(&mut buf, &session, &ui, &theme);
            let text: String = buf.content().iter().map(Cell::symbol).collect();
            assert!(text.contains(&format!("PAUSED (checkpoint) since {}", Zone::UTC.hms(verdict.since))), "{text}");
            assert!(text.contains(", rank 0 behind AllRedu"), "{text}");
            let alarms = buf.content().iter().filter(|cell| cell.symbol() != " " && Some(cell.fg) == theme.act.fg).count();
            assert_eq!(alarms, 0, "{text}");
            return;
        }
    }
    panic!("never paused");
}
