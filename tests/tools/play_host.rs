//! Plays a script into a directory, so that the program can be tried on a machine that is not here; or judges it; or makes a tape of it.
//!
//! ```text
//! cargo run --example play_host -- TREE SCRIPT DIR      in real time; then: nccl-top --sysroot DIR
//! cargo run --example play_host -- --judge SCRIPT…      in its own time: what is found, and when
//! cargo run --example play_host -- --tape FILE SCRIPT   in its own time: a tape
//! ```
//!
//! TREE is the name of a tree in tests/fixtures/hosts, - for the one that the script names; SCRIPT is a file or the name of one in
//! tests/fixtures/hosts/scripts. `--for 1h` after SCRIPT makes it longer or shorter.

#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../it/support/mod.rs"]
mod support;

use nccl_top::diagnosis::session::Event;
use nccl_top::recording::tape::Writer;
use nccl_top::rules::findings::Change;
use std::path::Path;
use std::time::{Duration, Instant};
use support::play::Play;
use support::player::Player;
use support::stage;

const STEP: Duration = Duration::from_millis(100);

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (args, lasts) = match args.iter().position(|arg| arg == "--for") {
        Some(at) => {
            let lasts = args.get(at + 1).and_then(|text| nccl_top::base::time::parse_duration(text).ok());
            (args[..at].to_vec(), Some(lasts.expect("--for takes a duration such as 1h")))
        }
        None => (args, None),
    };
    let play = |name: &str| {
        let mut play = named(name);
        play.lasts = lasts.unwrap_or(play.lasts);
        play
    };
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["--judge", ref scripts @ ..] if !scripts.is_empty() => scripts.iter().for_each(|script| judge(play(script))),
        ["--tape", file, script] => record(play(script), Path::new(file)),
        [tree, script, dir] if !tree.starts_with("--") => perform(play(script), tree, Path::new(dir)),
        _ => {
            eprintln!("usage: play_host TREE SCRIPT DIR | play_host --judge SCRIPT... [--for 1h] | play_host --tape FILE SCRIPT");
            return 2.into();
        }
    }
    0.into()
}

fn named(name: &str) -> Play {
    match std::fs::read_to_string(name) {
        Ok(text) => Play::of(name, &text),
        Err(_) => Play::named(name),
    }
}

fn perform(mut play: Play, tree: &str, dir: &Path) {
    if tree != "-" {
        play.host = tree.trim_end_matches(".tree").rsplit('/').next().unwrap_or(tree).to_owned();
    }
    std::fs::create_dir_all(dir).unwrap_or_else(|err| panic!("{}: {err}", dir.display()));
    let dir = dir.canonicalize().unwrap_or_else(|err| panic!("{}: {err}", dir.display()));
    let mut player = Player::new(&dir, play);
    println!("{} plays {} into {}", player.play.host, player.play.name, dir.display());
    println!("look: nccl-top --sysroot {}", dir.display());
    let begin = Instant::now();
    while !player.is_over() {
        std::thread::sleep(STEP);
        player.advance(begin.elapsed().as_millis() as u64);
    }
}

fn judge(play: Play) {
    let expected: Vec<String> = play.expected.iter().map(|e| format!("{} {}", e.rule, e.ports.join(" "))).collect();
    println!("{}: {:?} on {}, expects {expected:?}", play.name, play.lasts, play.host);
    let begin = Instant::now();
    let (_, events) = stage::judged(play);
    for (at, event) in events {
        let t = at.secs_since(stage::START);
        match event {
            Event::Finding(Change::Opened(f)) => {
                println!("{t:7.1}  {} {} {:?}: {} ({})", f.severity.as_str(), f.rule, f.ports, f.summary, f.why)
            }
            Event::Finding(Change::Cleared { finding, reason }) => println!("{t:7.1}  cleared {}: {reason}", finding.rule),
            Event::State { state, summary, .. } => println!("{t:7.1}  {}: {summary}", state.as_str()),
        }
    }
    println!("    in {:.1} s", begin.elapsed().as_secs_f64());
}

fn record(play: Play, file: &Path) {
    let mut writer = None;
    stage::perform(play, |header, seen| {
        let writer = writer.get_or_insert_with(|| Writer::create(file, header).unwrap_or_else(|err| panic!("{err}")));
        writer.write(&seen).unwrap_or_else(|err| panic!("{}: {err}", file.display()));
    });
    writer.expect("something was seen").finish().unwrap_or_else(|err| panic!("{}: {err}", file.display()));
}
