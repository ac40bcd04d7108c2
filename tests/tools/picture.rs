//! Makes a picture of the real program's screen, from its own cells, for documents and for looking at.
//!
//! `cargo run --example picture -- --out screen.svg [--size 120x40] [--bin PATH] [--title T] [--light] [--env K=V]... [STEP]... [-- ARGS]`
//!
//! STEPs are done in the order in which they stand, then the screen is taken:
//!
//! ```text
//! --after TEXT   wait until TEXT is on the screen, at most 30 s
//! --wait 3s      wait this long
//! --keys KEYS    press keys: `2`, `<Tab>`, `<PageDown>`, …
//! ```

#[path = "../it/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;
use support::screen::Screen;
use support::svg;

enum Step {
    After(String),
    Wait(Duration),
    Keys(String),
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut out, mut size, mut title, mut paper) = (None, (120, 40), None, svg::DARK);
    let (mut program, mut env, mut steps) = (beside(), Vec::new(), Vec::new());
    while let Some(flag) = args.next().filter(|flag| flag != "--") {
        if flag == "--light" {
            paper = svg::LIGHT;
            continue;
        }
        let value = args.next().unwrap_or_else(|| panic!("a value for {flag}"));
        match flag.as_str() {
            "--out" => out = Some(value),
            "--size" => {
                let (columns, rows) = value.split_once('x').expect("COLSxROWS");
                size = (columns.parse().expect("columns"), rows.parse().expect("rows"));
            }
            "--title" => title = Some(value),
            "--bin" => program = PathBuf::from(value),
            "--env" => {
                let (key, value) = value.split_once('=').expect("KEY=VALUE");
                env.push((key.to_owned(), value.to_owned()));
            }
            "--after" => steps.push(Step::After(value)),
            "--wait" => steps.push(Step::Wait(nccl_top::base::time::parse_duration(&value).expect("a duration"))),
            "--keys" => steps.push(Step::Keys(value)),
            other => panic!("unknown flag {other}"),
        }
    }
    let out = out.expect("--out FILE");
    let args: Vec<String> = args.collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // No settings of whoever makes the picture.
    let mut all_env = vec![("HOME", "/nonexistent"), ("XDG_CONFIG_HOME", "/nonexistent"), ("NO_COLOR", ""), ("COLORTERM", "truecolor")];
    all_env.extend(env.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let dir = std::env::current_dir().expect("a working directory");
    let mut screen = Screen::start_program(&program, &args, &dir, &all_env, size.1, size.0);
    while screen.text().trim().is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    for step in &steps {
        match step {
            Step::After(text) => screen.wait_for(text),
            Step::Wait(time) => std::thread::sleep(*time),
            Step::Keys(keys) => screen.keys(&bytes(keys)),
        }
    }
    // The frame that a key asked for, or the rest of the one that held the text.
    std::thread::sleep(Duration::from_millis(200));
    let cells = screen.look(svg::Cells::of_screen);
    let title = title.unwrap_or_else(|| std::iter::once("nccl-top").chain(args.iter().copied()).collect::<Vec<_>>().join(" "));
    std::fs::write(&out, svg::picture(&cells, &title, &paper)).unwrap_or_else(|err| panic!("{out}: {err}"));
}

/// target/debug/nccl-top for target/debug/examples/picture, else the release build.
fn beside() -> PathBuf {
    let me = std::env::current_exe().expect("the name of this program");
    let built = me.parent().and_then(Path::parent).expect("target/PROFILE/examples");
    let mine = built.join("nccl-top");
    if mine.exists() { mine } else { built.with_file_name("release").join("nccl-top") }
}

/// What a terminal sends for keys: characters as they are, others by name in angle brackets.
fn bytes(keys: &str) -> String {
    let named = [
        ("<Enter>", "\r"),
        ("<Esc>", "\x1b"),
        ("<Tab>", "\t"),
        ("<BackTab>", "\x1b[Z"),
        ("<Up>", "\x1b[A"),
        ("<Down>", "\x1b[B"),
        ("<Right>", "\x1b[C"),
        ("<Left>", "\x1b[D"),
        ("<Home>", "\x1b[H"),
        ("<End>", "\x1b[F"),
        ("<PageUp>", "\x1b[5~"),
        ("<PageDown>", "\x1b[6~"),
    ];
    named.iter().fold(keys.to_owned(), |keys, (name, bytes)| keys.replace(name, bytes))
}
