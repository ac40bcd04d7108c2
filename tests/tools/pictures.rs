//! Makes all pictures of the documents, and others to look at: from the cells that the program draws, in a time of its own, without a terminal.
//!
//! ```text
//! cargo run --example pictures              the pictures of README.md and docs/screens.md, in their places
//! cargo run --example pictures -- DIR       each pane and each demo, at each size, with each depth of colour and the light theme
//! cargo run --example pictures -- DIR xid   only those whose name has `xid` in it
//! ```

#![allow(clippy::print_stdout)]

#[path = "../it/support/mod.rs"]
mod support;

use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::observe::Observation;
use nccl_top::recording::demo::{DEMOS, Demo};
use nccl_top::tui::choices::{Mode, Ui};
use nccl_top::tui::panes::PANES;
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::svg::{self, Cells, Paper};

/// Of an animated picture, bytes: what a page should have to load.
const LARGEST: usize = 300_000;

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (280, 75)];

/// How a picture is coloured, and the window around it.
struct Dress {
    name: &'static str,
    theme: &'static str,
    depth: Depth,
    paper: &'static Paper,
}

const DARK: Dress = Dress { name: "true", theme: "colorblind", depth: Depth::True, paper: &svg::DARK };
const LIGHT: Dress = Dress { name: "light", theme: "light", paper: &svg::LIGHT, ..DARK };
const DRESSES: [Dress; 5] = [
    DARK,
    Dress { name: "256", depth: Depth::Indexed, ..DARK },
    Dress { name: "16", depth: Depth::Sixteen, ..DARK },
    Dress { name: "mono", theme: "mono", depth: Depth::None, ..DARK },
    LIGHT,
];

/// A demo that is played second by second.
struct Scene {
    demo: &'static Demo,
    session: Session,
    /// What comes, the next last.
    coming: Vec<Observation>,
    from: Stamp,
    to: Stamp,
}

impl Scene {
    fn of(name: &str) -> Scene {
        let demo = DEMOS.iter().find(|d| d.name == name).expect("a demo");
        let mut reader = demo.open().expect("a demo that is whole");
        let session = reader.header().session();
        let mut coming: Vec<Observation> = std::iter::from_fn(|| reader.read().expect("a demo that is whole")).collect();
        coming.reverse();
        let (from, to) = (coming[coming.len() - 1].at, coming[0].at);
        Scene { demo, session, coming, from, to }
    }

    /// Goes on to so long after the beginning of the tape.
    fn play_to(&mut self, offset: Duration) {
        while let Some(seen) = self.coming.pop_if(|seen| seen.at <= self.from.plus(offset)) {
            self.session.apply(&seen, &mut Vec::new());
        }
    }

    fn draw(&self, offset: Duration, size: (u16, u16), zoom: Option<usize>, dress: &Dress) -> Cells {
        let theme = Theme::load(dress.theme, dress.depth).expect("a theme of the program");
        let mut ui = Ui::new(Zone::UTC);
        (ui.size, ui.zoom, ui.focus) = (size, zoom, zoom.unwrap_or(ui.focus));
        ui.window = s(60);
        ui.caption = Some(self.demo.caption_at(offset));
        ui.mode = Mode::Replay { name: Some(self.demo.name), speed: Some(1.0), playing: true, from: self.from, to: self.to, ended: None };
        let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
        view::draw(&mut buf, &self.session, &ui, &theme);
        Cells::of_buffer(&buf)
    }
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// When a demo shows what it is about, seconds on its tape.
fn told_at(name: &str) -> Duration {
    s(match name {
        "hang" => 55,
        "slow" => 55,
        "none" => 65,
        "pipeline" => 55,
        "efa" | "roce-rail" => 72,
        _ => 48,
    })
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [] => documents(Path::new(env!("CARGO_MANIFEST_DIR"))),
        [dir, only @ ..] => all(Path::new(dir), only.first().map_or("", String::as_str)),
    }
}

fn write(path: PathBuf, svg: &str) {
    std::fs::write(&path, svg).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    println!("{:>7} {}", svg.len(), path.display());
}

/// The pictures of the documents.
fn documents(root: &Path) {
    write(root.join("assets/screen.svg"), &moving("pipeline", &DARK));
    write(root.join("assets/screen-light.svg"), &moving("pipeline", &LIGHT));
    let dir = root.join("docs/screens");
    std::fs::create_dir_all(&dir).expect("docs/screens");
    let wide = (160, 48);
    for (file, demo, pane, size, dress) in [
        ("slow", "slow", None, wide, &DARK),
        ("efa", "efa", None, wide, &DARK),
        ("xid", "xid", None, (120, 40), &DARK),
        ("hang", "hang", None, (120, 40), &LIGHT),
        ("gpus", "xid", Some("gpus"), (120, 40), &DARK),
        ("network", "efa", Some("network"), (120, 40), &DARK),
        ("training", "nan", Some("training"), (120, 40), &DARK),
        ("nord", "hang", None, (120, 40), &Dress { theme: "nord", ..DARK }),
        ("small", "hang", None, (80, 24), &DARK),
        ("mono", "hang", None, (80, 24), &DRESSES[3]),
    ] {
        let mut scene = Scene::of(demo);
        scene.play_to(told_at(demo));
        let cells = scene.draw(told_at(demo), size, pane.map(view::pane_index), dress);
        write(dir.join(format!("{file}.svg")), &svg::picture(&cells, &format!("nccl-top demo {demo}"), dress.paper));
    }
}

/// A demo from its beginning until it has told its story, with as many frames as there is room for.
fn moving(name: &str, dress: &Dress) -> String {
    /// Of the picture, of its last frame, and of the demo in it.
    const LASTS_S: f64 = 12.0;
    const HOLD_S: f64 = 3.0;
    const TOLD_S: u64 = 22;
    (1..)
        .map(|step| {
            let mut scene = Scene::of(name);
            let from = scene.demo.begin;
            let shown: Vec<Cells> = (0..=TOLD_S / step)
                .map(|n| {
                    let offset = from + s(n * step);
                    scene.play_to(offset);
                    scene.draw(offset, (120, 40), None, dress)
                })
                .collect();
            let each = (LASTS_S - HOLD_S) / (shown.len() - 1) as f64;
            let last = shown.len() - 1;
            let frames: Vec<(&Cells, f64)> =
                shown.iter().enumerate().map(|(n, cells)| (cells, if n == last { HOLD_S } else { each })).collect();
            svg::animation(&frames, &format!("nccl-top demo {name}"), dress.paper)
        })
        .find(|svg| svg.len() <= LARGEST)
        .expect("a picture that is small enough")
}

/// Everything, to be looked at.
fn all(dir: &Path, only: &str) {
    std::fs::create_dir_all(dir).unwrap_or_else(|err| panic!("{}: {err}", dir.display()));
    let panes: Vec<Option<usize>> = std::iter::once(None).chain((0..PANES.len()).map(Some)).collect();
    for demo in DEMOS {
        let at = told_at(demo.name);
        let mut scene = None;
        for (size, zoom, dress) in
            SIZES.iter().flat_map(|size| panes.iter().flat_map(move |zoom| DRESSES.iter().map(move |dress| (size, zoom, dress))))
        {
            let pane = zoom.map_or("overview", |pane| PANES[pane].id);
            let name = format!("{}-{pane}-{}x{}-{}", demo.name, size.0, size.1, dress.name);
            if !name.contains(only) {
                continue;
            }
            let scene = scene.get_or_insert_with(|| {
                let mut scene = Scene::of(demo.name);
                scene.play_to(at);
                scene
            });
            write(dir.join(name.clone() + ".svg"), &svg::picture(&scene.draw(at, *size, *zoom, dress), &name, dress.paper));
        }
    }
}
