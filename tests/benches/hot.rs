//! What runs often, timed: `cargo bench`. Prints the median of many runs; compare two builds side by side, in one go, on one machine.

use nccl_top::diagnosis::session::Session;
use nccl_top::logs;
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::tape::Reader;
use nccl_top::recording::timeline::{Limits, Timeline};
use nccl_top::sources::rdma::Rdma;
use nccl_top::sources::{Roots, Source};
use nccl_top::tui::choices::Ui;
use nccl_top::tui::filter::Filter;
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{tree, worlds};

#[path = "../it/support/mod.rs"]
mod support;

fn main() {
    let noise =
        "vm:2692:2692 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 [2] 1/-1/-1->0->-1 [3] 1/-1/-1->0->-1\n".repeat(8000);
    let step = "step 329 | loss 1.000193 | step_time 99.6 ms | tokens/s 328,962";
    per_byte("classify NCCL INFO noise", noise.len(), || {
        for line in noise.lines() {
            black_box(logs::prefilter::classify(black_box(line.as_bytes())));
        }
    });
    let mut reader = logs::Reader::default();
    let mut events = Vec::new();
    per_run("read a step line", || {
        events.clear();
        reader.line(black_box(step), &mut events);
    });
    let tape = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tapes/hang.jsonl.gz");
    let mut tape = Reader::open(&tape).expect("the recording");
    let header = tape.header().clone();
    let mut seen: Vec<Observation> = Vec::new();
    while let Some(observation) = tape.read().expect("whole") {
        seen.push(observation);
    }
    per_run("judge 88 s of a hang on 4 GPUs", || {
        let mut session = header.session();
        let mut out = Vec::new();
        seen.iter().for_each(|o| session.apply(o, &mut out));
        black_box(out.len());
    });
    let mut session = header.session();
    seen.iter().for_each(|o| session.apply(o, &mut Vec::new()));
    let theme = Theme::load("colorblind", Depth::Indexed).expect("a theme");
    let mut ui = Ui::new(header.zone());
    ui.size = (200, 60);
    let mut terminal = Terminal::new(TestBackend::new(200, 60)).expect("a terminal");
    per_run("draw a 200x60 frame", || {
        terminal.draw(|frame| view::draw(frame.buffer_mut(), &session, &ui, &theme)).expect("a frame");
    });
    let p5 = worlds::p5();
    per_run("draw it with 8 GPUs and 32 EFA", || {
        terminal.draw(|frame| view::draw(frame.buffer_mut(), &p5, &ui, &theme)).expect("a frame");
    });
    ui.zoom = Some(view::pane_index("nccl"));
    for ranks in [1024, 16_384] {
        let mut world = worlds::many_ranks(ranks);
        per_run(&format!("draw the ranks of {ranks}"), || {
            terminal.draw(|frame| view::draw(frame.buffer_mut(), &world, &ui, &theme)).expect("a frame");
        });
        let still = worlds::ras_json(ranks, |rank| (rank != 500).then_some(if rank == 13 { 468 } else { 480 }));
        let body = worlds::ras_answer(still, "json", None);
        let mut now = world.model.now;
        let mut apply = |world: &mut Session, body: Body| {
            now = now.plus(Duration::from_millis(100));
            world.apply(&Observation { at: now, host: None, from: SourceId::of("bench"), body }, &mut Vec::new());
        };
        per_run(&format!("apply a RAS answer of {ranks}"), || apply(&mut world, body.clone()));
        per_run(&format!("judge a second with {ranks}"), || apply(&mut world, Body::Tick));
    }
    let busy = worlds::busy_log();
    ui.zoom = Some(view::pane_index("log"));
    ui.log.filter = Filter::parse("rank:1 /no such (line|text)/").expect("a filter");
    per_run("draw a log that no line passes", || {
        terminal.draw(|frame| view::draw(frame.buffer_mut(), &busy, &ui, &theme)).expect("a frame");
    });
    let limits = Limits { depth: Duration::from_secs(600), bytes: 6 << 20 };
    let mut timeline = Timeline::new(limits, &header.session());
    let mut live = header.session();
    for observation in &seen {
        timeline.push(observation, &live);
        live.apply(observation, &mut Vec::new());
    }
    let (from, to) = timeline.span().expect("observations");
    let mut second = 0;
    per_run("go to another moment of 88 s", || {
        second = (second + 37) % to.since(from).as_secs();
        black_box(timeline.session_at(from.plus(Duration::from_secs(second))));
    });
    let dir = tree::unpack(&["efa-p5"]);
    let mut rdma = Rdma::new(Roots::below(dir.path()), Duration::from_secs(1));
    let mut out = Vec::new();
    per_run("sweep over 32 EFA devices", || {
        out.clear();
        rdma.poll(&mut out).expect("a tree");
    });
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..51)
        .map(|_| {
            let began = Instant::now();
            run();
            began.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// Only what the command line names: `cargo bench --bench hot -- frame`.
fn is_wanted(what: &str) -> bool {
    let mut named = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|arg| what.contains(&arg))
}

#[allow(clippy::print_stdout)]
fn per_run(what: &str, run: impl FnMut()) {
    if !is_wanted(what) {
        return;
    }
    println!("{what:<34} {:>10.1} us", median(run).as_secs_f64() * 1e6);
}

#[allow(clippy::print_stdout)]
fn per_byte(what: &str, bytes: usize, run: impl FnMut()) {
    if !is_wanted(what) {
        return;
    }
    println!("{what:<34} {:>10.0} MB/s", bytes as f64 / median(run).as_secs_f64() / 1e6);
}
