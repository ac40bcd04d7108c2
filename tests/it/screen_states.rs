//! What the screen shows in states that no recording holds: several jobs, stray contexts, silence of a source, wishes of the user.

use crate::support::worlds;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use nccl_top::base::severity::Severity;
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::gpu::GpuProcess;
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::rules::findings::Life;
use nccl_top::tui::choices::{Ask, Mode, Prompt, Ui};
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::Duration;

fn draw(session: &Session, ui: &mut Ui, (width, height): (u16, u16)) -> Vec<String> {
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    ui.size = (width, height);
    view::draw(&mut buf, session, ui, &Theme::mono());
    let rows = buf.content().chunks(usize::from(width));
    rows.map(|row| row.iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned()).collect()
}

fn alone(pane: &str) -> Ui {
    let mut ui = Ui::new(Zone::UTC);
    ui.focus = view::pane_index(pane);
    ui.zoom = Some(ui.focus);
    ui
}

/// So many jobs, all stuck.
fn stuck_jobs(n: usize) -> Session {
    let mut session = worlds::hang();
    let (id, verdict) = session.main_job().map(|(id, v)| (id.to_owned(), v.clone())).unwrap();
    let job = session.model.jobs[&id].clone();
    let open = session.ledger.open();
    let finding = open.into_iter().find(|f| Some((f.rule, f.subject.clone())) == verdict.because).unwrap().clone();
    for i in 1..n {
        let mut other = job.clone();
        other.id = format!("job-{i}");
        let mut found = finding.clone();
        found.job = Some(other.id.clone());
        let life = Life { hold: Duration::ZERO, linger: None, renews: false };
        session.verdicts.insert(other.id.clone(), verdict.clone());
        session.ledger.saw(session.model.now, found, life, 0);
        session.model.jobs.insert(other.id.clone(), other);
    }
    session
}

#[test]
fn several_jobs_fit_on_any_screen_and_none_is_hidden() {
    for jobs in 1..=5 {
        let session = stuck_jobs(jobs);
        for height in 1..=30 {
            for width in [40, 80, 120] {
                let rows = draw(&session, &mut Ui::new(Zone::UTC), (width, height));
                assert!(rows.iter().any(|r| r.contains("STUCK")), "{jobs} jobs at {width}x{height}");
                draw(&session, &mut alone("gpus"), (width, height));
            }
        }
    }
    let mut session = stuck_jobs(5);
    for id in ["job-1", "job-2", "job-3"] {
        session.verdicts.get_mut(id).unwrap().state = State::Finished;
        session.model.jobs.get_mut(id).unwrap().ended_at = Some(session.model.now);
    }
    let text = draw(&session, &mut Ui::new(Zone::UTC), (120, 40)).join("\n");
    assert!(text.contains("job job-4: rank 3") && text.contains("2 more jobs: finished"), "{text}");
}

#[test]
fn evidence_is_offered_while_something_is_wrong() {
    for size in [(80, 24), (120, 40)] {
        let rows = draw(&worlds::hang(), &mut Ui::new(Zone::UTC), size);
        let footer = &rows[rows.len() - 1];
        assert!(["c copy", "e evidence", "? help", "q quit"].iter().all(|offer| footer.contains(offer)), "{footer}");
        let rows = draw(&worlds::healthy(), &mut Ui::new(Zone::UTC), size);
        assert!(!rows[rows.len() - 1].contains("e evidence"), "{}", rows[rows.len() - 1]);
    }
}

#[test]
fn what_is_wrong_with_a_long_path_stays_in_sight() {
    let path = format!("/fsx/{}/evidence", "team-with-a-long-name/".repeat(8));
    let mut ui = Ui::new(Zone::UTC);
    ui.prompt = Some(Prompt { kind: Ask::Evidence, text: path, proposed: false, error: Some("it exists and is no directory".into()) });
    let rows = draw(&worlds::hang(), &mut ui, (80, 24));
    let footer = &rows[rows.len() - 1];
    assert!(footer.contains(": /f") && footer.contains("…") && footer.contains("ence█  it exists and is no directory"), "{footer}");
}

#[test]
fn the_end_of_a_recording_that_is_cut_off_says_so_and_where() {
    let session = worlds::hang();
    let now = session.model.now;
    let why = "the recording is cut off after line 812, 1 m 02 s from its beginning";
    for (ended, shown) in [(None, false), (Some(String::new()), false), (Some(why.to_owned()), true)] {
        let mut ui = Ui::new(Zone::UTC);
        let from = now.minus(Duration::from_secs(62));
        ui.mode = Mode::Replay { name: None, speed: Some(1.0), playing: false, from, to: now, ended };
        for size in [(80, 24), (120, 40), (220, 60)] {
            let rows = draw(&session, &mut ui, size);
            assert_eq!(rows[0].ends_with("· cut off"), shown, "{}", rows[0]);
            assert_eq!(rows[rows.len() - 2].contains(why), shown, "{}", rows.join("\n"));
        }
    }
}

/// Every rank that forgot `set_device` has a small context on GPU 0.
#[test]
fn a_gpu_is_of_the_rank_that_works_on_it() {
    let mut session = worlds::hang();
    let ranks = session.model.jobs[session.main_job().unwrap().0].ranks.clone();
    for (index, gpu) in &mut session.model.gpus {
        let works = ranks[&(3 - index)];
        let context = |pid: &u32| GpuProcess { pid: *pid, mem_bytes: Some(if *pid == works { 70 << 30 } else { 500 << 20 }) };
        gpu.processes = ranks.values().filter(|pid| *index == 0 || **pid == works).map(context).collect();
    }
    let rows = draw(&session, &mut alone("gpus"), (120, 40));
    for (index, rank) in [(0, 3), (1, 2), (2, 1), (3, 0)] {
        let row = format!(" {index}    {rank}    {} ", ranks[&rank]);
        assert!(rows.iter().any(|r| r.contains(&row)), "no {row:?} in\n{}", rows.join("\n"));
    }
    assert!(rows.iter().any(|r| r.contains("processes ")), "what else is on the selected GPU");
}

#[test]
fn what_is_old_does_not_look_new() {
    let mut session = worlds::hang();
    for _ in 0..60 {
        let at = session.model.now.plus(Duration::from_secs(1));
        session.apply(&Observation { at, host: None, from: SourceId::of("feed"), body: Body::Tick }, &mut Vec::new());
    }
    let gpus = draw(&session, &mut alone("gpus"), (120, 40)).join("\n");
    assert!(gpus.contains("stale") && gpus.contains("no sample for 1") && !gpus.contains("waiting  "), "{gpus}");
    // Counts were unchanged for 15 s when RAS last answered; since then nothing is known.
    let nccl = draw(&session, &mut alone("nccl"), (120, 40)).join("\n");
    assert!(nccl.contains("no answer for 1 m 0") && nccl.contains("unchanged 15 s"), "{nccl}");
}

#[test]
fn silence_and_errors_show_while_the_job_is_still_called_training() {
    let mut session = worlds::healthy();
    let (id, _) = session.main_job().map(|(id, v)| (id.to_owned(), v.clone())).unwrap();
    session.model.now = session.model.now.plus(Duration::from_secs(9));
    let text = draw(&session, &mut Ui::new(Zone::UTC), (120, 40)).join("\n");
    assert!(text.contains(" ▲ NO STEP for 9 s (usually a line every 0.1 s)  after step 256"), "{text}");
    assert!(text.contains("step 256   last step 9 s ago (a line every 0.1 s)") && text.contains("9 s ago   loss 1.0002"), "{text}");
    assert!(!text.contains("ETA"), "{text}");
    let quiet = &nccl_top::output::snapshot::json(&session, Zone::UTC)["jobs"][0]["quiet"];
    assert!(quiet["for_s"].as_f64().is_some_and(|s| s >= 9.0) && quiet["usual_s"].as_f64().is_some_and(|s| s < 1.0), "{quiet}");
    let mut found = nccl_top::rules::findings::Finding::new(
        "loss-not-finite",
        Severity::Error,
        "loss",
        "the loss is NaN at step 330",
        session.model.now,
    );
    (found.job, found.next) = (Some(id), Some("stop the run".into()));
    let life = Life { hold: Duration::ZERO, linger: None, renews: false };
    session.ledger.saw(session.model.now, found, life, 1);
    let rows = draw(&session, &mut Ui::new(Zone::UTC), (120, 40));
    assert!(
        rows[1].starts_with(" ■ NO STEP for 9 s") && rows[2].contains("loss-not-finite") && rows[3] == "   next: stop the run",
        "{rows:#?}"
    );
}

#[test]
fn a_command_is_never_cut() {
    for width in 40..=60 {
        let rows = draw(&worlds::hang(), &mut Ui::new(Zone::UTC), (width, 40));
        let at = rows.iter().position(|r| r.starts_with("   next: ")).unwrap();
        let command: String = rows[at..=at + 1].iter().map(|r| r.trim().trim_start_matches("next: ").to_owned() + " ").collect();
        assert!(command.starts_with("py-spy dump --nonblocking --pid 1453 "), "{width}: {command}");
    }
}

#[test]
fn filters_add_up() {
    let session = worlds::busy_log();
    let mut ui = alone("log");
    let theme = Theme::mono();
    for c in "r0-3\n/loss\n".chars() {
        let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
        ui.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), &session, &theme);
    }
    assert_eq!(ui.log.filter.words(), "rank 0-3, loss");
    let line = |rank, text: &str| {
        let at = session.model.now;
        let class = nccl_top::logs::prefilter::Class::Fact;
        nccl_top::model::log::Kept { at, file: 0, no: None, rank, class, backlog: false, text: text.into() }
    };
    let shown = |rank, text: &str| ui.log.filter.matches(&line(rank, text), "");
    assert!(shown(Some(2), "loss 1") && !shown(Some(7), "loss 1") && !shown(Some(2), "step 1") && !shown(None, "loss 1"));
}

mod other_jobs {
    use nccl_top::diagnosis::verdict::State;
    use nccl_top::tui::view::more_jobs;
    #[test]
    fn more_jobs_are_counted_by_state_the_worst_first() {
        assert_eq!(more_jobs([State::Finished].into_iter()), "1 more job: finished");
        assert_eq!(more_jobs([State::Finished; 3].into_iter()), "3 more jobs: finished");
        let states = [State::Finished, State::Failed, State::Finished, State::Training];
        assert_eq!(more_jobs(states.into_iter()), "4 more jobs: 1 failed, 1 training, 2 finished");
    }
}

/// Colour and shape of a cell.
fn look(buf: &Buffer, needle: &str) -> ratatui::style::Style {
    let rows: Vec<String> = buf.content().chunks(usize::from(buf.area().width)).map(|r| r.iter().map(|c| c.symbol()).collect()).collect();
    let at = rows.iter().enumerate().find_map(|(y, row)| Some((row[..row.find(needle)?].chars().count(), y)));
    let (x, y) = at.unwrap_or_else(|| panic!("no {needle:?} in\n{}", rows.join("\n")));
    buf[(x as u16, y as u16)].style()
}

#[test]
fn a_selection_hides_no_state() {
    let session = worlds::hang();
    for (name, depth) in [("colorblind", Depth::True), ("dark", Depth::Indexed), ("light", Depth::Sixteen), ("mono", Depth::None)] {
        let theme = Theme::load(name, depth).unwrap();
        let screen = |set: &dyn Fn(&mut Ui)| {
            let mut ui = alone("gpus");
            ui.size = (120, 40);
            set(&mut ui);
            let mut buf = Buffer::empty(Rect::new(0, 0, 120, 40));
            view::draw(&mut buf, &session, &ui, &theme);
            buf
        };
        // The culprit is selected by itself; a row of its own is another.
        let (selected, other) = (look(&screen(&|_| {}), "IDLE"), look(&screen(&|ui| ui.lists[ui.focus].row = Some("0".into())), "IDLE"));
        assert_ne!(selected, other, "{name}: the selection is seen");
        if name != "mono" {
            assert_eq!((selected.fg, other.fg), (theme.act.fg, theme.act.fg), "{name}");
        } else {
            assert_ne!(selected, look(&screen(&|_| {}), "1453"), "{name}: it differs from the rest of its row");
        }
    }
}

#[test]
fn whom_the_verdict_names_is_marked_in_every_pane() {
    let marked = |session: &Session, ui: &mut Ui, size| -> Vec<String> {
        let rows = draw(session, ui, size);
        rows.into_iter()
            .filter(|row| row.trim_start_matches('│').trim_start().starts_with('►') || row.contains("│►") || row.contains("│ ►"))
            .collect()
    };
    for (session, pid, gpu) in [(worlds::hang(), "1453", "3"), (worlds::straggler(), "2479", "2")] {
        for size in [(80, 24), (120, 40), (220, 60)] {
            let overview = marked(&session, &mut Ui::new(Zone::UTC), size);
            assert!(overview.len() >= 2, "GPU and finding at {size:?}: {overview:#?}");
            for (pane, text) in [("gpus", gpu), ("processes", pid), ("findings", pid)] {
                let rows = marked(&session, &mut alone(pane), size);
                assert!(rows.len() == 1 && rows[0].contains(text), "{pane} at {size:?}: {rows:#?}");
            }
        }
    }
    let rows = marked(&worlds::hang(), &mut alone("nccl"), (120, 40));
    assert!(rows.len() == 2 && rows.iter().any(|r| r.contains("1453")), "a communicator and its rank: {rows:#?}");
    let rows = marked(&worlds::ranks_640(), &mut alone("nccl"), (120, 40));
    assert!(rows.iter().any(|r| r.contains("rank  13")) && rows.iter().any(|r| r.contains("rank 500")), "{rows:#?}");
    assert!(marked(&worlds::healthy(), &mut Ui::new(Zone::UTC), (120, 40)).is_empty());
}

#[test]
fn what_differs_from_its_siblings_stands_out() {
    let mut session = worlds::healthy();
    session.model.gpus.get_mut(&2).unwrap().sample.util_pct = Some(15);
    let theme = Theme::load("colorblind", Depth::True).unwrap();
    let mut ui = alone("gpus");
    ui.size = (120, 40);
    let mut buf = Buffer::empty(Rect::new(0, 0, 120, 40));
    view::draw(&mut buf, &session, &ui, &theme);
    assert_eq!(look(&buf, " 15 ").fg, theme.text.fg.or(Some(ratatui::style::Color::Reset)), "the space before it");
    assert_eq!(look(&buf, "15 ").fg, theme.look.fg);
}

/// Four ranks share a GPU, and one of them is named: no row says that it is another one.
#[test]
fn of_ranks_that_share_a_gpu_the_named_one_is_marked() {
    let session = worlds::recorded("shard-pipe", 50);
    let all = draw(&session, &mut Ui::new(Zone::UTC), (120, 40)).join("\n");
    let row = |begins: &str| all.lines().find(|line| line.contains(begins)).unwrap_or_else(|| panic!("no {begins:?} in\n{all}"));
    assert!(row("│► 0    3    5898 ").contains("idle"), "{all}");
    assert!(row("│ ► rank 3 GPU 0").contains('▁'), "{all}");
    // Before that all of them stand there.
    let session = worlds::recorded("shard-pipe", 25);
    let all = draw(&session, &mut Ui::new(Zone::UTC), (120, 40)).join("\n");
    assert!(all.contains("│  0  0-3  4 pids ") && all.contains("│   ranks 0-3 GPU 0"), "{all}");
    let snapshot = nccl_top::output::snapshot::json(&session, Zone::UTC);
    let gpu = &snapshot["gpus"][0];
    assert_eq!((&gpu["rank"], &gpu["ranks"]), (&serde_json::Value::Null, &serde_json::json!([0, 1, 2, 3])));
}
