//! The nodes that golden screens show are what they are meant to be, and can be drawn.

use crate::support::svg;
use crate::support::worlds;
use nccl_top::base::severity::{Role, Severity};
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::diagnosis::verdict::State;
use nccl_top::logs::prefilter::Class;
use nccl_top::model::gpu::Activity;
use nccl_top::model::port::Link;
use nccl_top::observe::SourceState;
use nccl_top::rules::findings::Finding;
use nccl_top::sources::SOURCES;
use nccl_top::tui::choices::Ui;
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn alarms(session: &Session) -> Vec<&Finding> {
    session.ledger.open().into_iter().filter(|f| f.severity >= Severity::Warning).collect()
}

/// The rule and the ranks of the only alarm that does not follow from another.
fn alarm(session: &Session) -> (&'static str, &[u32]) {
    let roots: Vec<&Finding> = alarms(session).into_iter().filter(|f| f.role == Role::Root).collect();
    let [only] = roots[..] else { panic!("{roots:?}") };
    (only.rule, &only.ranks)
}

fn with(session: &Session, activity: Activity) -> usize {
    session.model.gpus.values().filter(|g| g.activity == activity).count()
}

#[test]
fn recordings_are_shown_at_their_moment() {
    let healthy = worlds::healthy();
    assert_eq!((healthy.state().0, alarms(&healthy).len(), with(&healthy, Activity::Working)), (State::Training, 0, 4));
    let hang = worlds::hang();
    assert_eq!((hang.state().0, alarm(&hang)), (State::Stuck, ("hang-rank-absent", &[3][..])));
    let straggler = worlds::straggler();
    assert_eq!((straggler.state().0, alarm(&straggler)), (State::Slow, ("straggler", &[2][..])));
}

#[test]
fn a_p5_trains_over_32_ports() {
    let p5 = worlds::p5();
    let model = &p5.model;
    assert_eq!((p5.state().0, alarms(&p5).len(), with(&p5, Activity::Working)), (State::Training, 0, 8));
    let job = &model.jobs["2890"];
    assert_eq!((job.ranks.len(), job.world_size, model.ras.nccl_version.as_deref()), (8, Some(64), Some("2.27.5")));
    let comm = model.comms.values().find(|c| c.hash == 0x8f3c_61d2_a4e5_b790).expect("the communicator of the lines");
    assert_eq!((comm.nranks, comm.init_complete.len()), (64, 8));
    assert_eq!(model.ports.len(), 32);
    assert!(model.ports.values().all(|p| p.link.now == Link::Up && p.sample.line_rate_bits_per_s == Some(100_000_000_000)));
    assert!(model.ports.values().all(|p| p.tx.len() > 100 && p.rx.len() > 100 && p.counters.value("tx_bytes").is_some()));
    let share = |name: &str| model.ports[&(name.to_owned(), 1)].tx_bytes_per_s().unwrap_or(0.0) / 12.5e9;
    assert!((0.37..0.45).contains(&share("rdmap147s0")) && (0.56..0.64).contains(&share("rdmap79s0")));
    let retransmits = |name: &str| model.ports[&(name.to_owned(), 1)].counters.value("retrans_pkts");
    assert_eq!((retransmits("rdmap181s0").map(|n| n > 50), retransmits("rdmap79s0")), (Some(true), Some(0)));
}

#[test]
fn a_log_alone_is_a_job_without_gpus() {
    let session = worlds::no_gpu();
    let model = &session.model;
    assert_eq!((session.state().0, model.gpus.len(), model.ports.len()), (State::Training, 0, 0));
    assert!(model.netdevs.contains_key("eth0") && model.jobs.values().all(|j| j.log_only));
}

#[test]
fn nothing_is_there() {
    let session = worlds::absent();
    assert_eq!((session.state().0, session.model.jobs.len(), session.model.sources.len()), (State::Idle, 0, SOURCES.len()));
    let states: Vec<SourceState> = session.model.sources.values().map(|v| v.state).collect();
    assert!(!states.contains(&SourceState::Ok));
    assert!([SourceState::Absent, SourceState::Denied, SourceState::Failed].iter().all(|s| states.contains(s)));
    assert!(session.model.sources.values().all(|v| v.detail.as_ref().is_some_and(|d| !d.contains("/tmp"))));
}

#[test]
fn a_rank_of_640_is_missed() {
    let session = worlds::ranks_640();
    let model = &session.model;
    let comm = model.comms.values().next().expect("one communicator");
    assert_eq!((comm.nranks, comm.ranks.len(), comm.missing.keys().copied().collect::<Vec<_>>()), (640, 640, vec![500]));
    assert_eq!(comm.behind().iter().map(|b| (b.rank, b.max - b.have)).collect::<Vec<_>>(), [(13, 12), (407, 1)]);
    assert!(comm.still_answers >= 10);
    assert_eq!((session.state().0, alarm(&session)), (State::Stuck, ("hang-rank-absent", &[13, 500][..])));
    assert_eq!((with(&session, Activity::Waiting), with(&session, Activity::Idle)), (7, 1));
}

#[test]
fn a_busy_log_holds_everything() {
    let session = worlds::busy_log();
    let model = &session.model;
    assert_eq!((model.files.len(), model.files.values().map(|f| f.lines).sum::<u64>()), (300, 3306));
    assert!(model.logbook.iter().any(|l| l.class == Class::Alarm));
    let rules: Vec<&str> = session.ledger.open().into_iter().chain(session.ledger.past()).map(|f| f.rule).collect();
    assert!(rules.contains(&"nccl-warn") && rules.contains(&"python-exception"), "{rules:?}");
    let shown: String = model.logbook.iter().map(|l| &*l.text).collect();
    for bad in ['\x1b', '\x07', '\u{202e}', '\u{2066}', '\u{200b}', '\u{85}', '\u{9b}'] {
        assert!(!shown.contains(bad), "{bad:?}");
    }
    assert!(shown.contains("エポック") && shown.contains("正在加载"));
}

/// With `PICTURES=DIR` in the environment the pictures are kept there.
#[test]
fn every_world_can_be_drawn() {
    let worlds = [
        ("healthy", worlds::healthy as fn() -> Session),
        ("hang", worlds::hang),
        ("straggler", worlds::straggler),
        ("p5", worlds::p5),
        ("no-gpu", worlds::no_gpu),
        ("absent", worlds::absent),
        ("ranks-640", worlds::ranks_640),
        ("ranks-1024", worlds::ranks_1024),
        ("busy-log", worlds::busy_log),
    ];
    let theme = Theme::load("colorblind", Depth::Indexed).unwrap();
    let mut ui = Ui::new(Zone::UTC);
    ui.size = (120, 40);
    for (name, make) in worlds {
        let session = make();
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        terminal.draw(|frame| view::draw(frame.buffer_mut(), &session, &ui, &theme)).unwrap();
        let cells = svg::Cells::of_buffer(terminal.backend().buffer());
        let picture = svg::picture(&cells, name, &svg::DARK);
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
        if let Some(dir) = std::env::var_os("PICTURES") {
            std::fs::write(std::path::Path::new(&dir).join(format!("{name}.svg")), picture).unwrap();
        }
    }
}
