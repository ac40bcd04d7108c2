//! Keys, mouse, job control, garbage, colours, settings and alerts, in a real pseudo-terminal.

use crate::support::screen::{PATIENCE, Screen, find, sent_for};
use nccl_top::tui::actions::{Action, Group, KEYS};
use nccl_top::tui::panes::PANES;
use nccl_top::tui::theme::{Depth, Theme};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nccl-top");
const ENTER_SCREEN: &[u8] = b"\x1b[?1049h";
const LEAVE_SCREEN: &[u8] = b"\x1b[?1049l";
const CLEAR: &[u8] = b"\x1b[2J";
const MOUSE_MODES: [&[u8]; 4] = [b"\x1b[?1000h", b"\x1b[?1002h", b"\x1b[?1003h", b"\x1b[?1006h"];
/// When rank 3 of the tape `hang` is found to be absent, seconds from its start.
const FOUND_S: i64 = 60;

fn tape(name: &str) -> String {
    format!("{}/tests/tapes/{name}.jsonl.gz", env!("CARGO_MANIFEST_DIR"))
}

/// Does nothing where a test has failed and its directory is gone.
fn append(path: &Path, text: &str) {
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        file.write_all(text.as_bytes()).unwrap();
    }
}

/// An empty tree: no GPU, no port, no process, whatever machine the test runs on.
fn empty_tree(dir: &Path) -> String {
    let root = dir.join("root");
    std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
    std::fs::create_dir_all(root.join("sys/class/net")).unwrap();
    std::fs::write(root.join("proc/sys/kernel/hostname"), "node-17\n").unwrap();
    root.display().to_string()
}

fn live(dir: &Path, more: &[&str], env: &[(&str, &str)], rows: u16, cols: u16) -> Screen {
    let root = empty_tree(dir);
    Screen::start(&[&["--sysroot", &root], more].concat(), dir, env, rows, cols)
}

/// A screen that stands: the tape `hang` at an offset, paused.
fn still(dir: &Path, at: &str, more: &[&str], env: &[(&str, &str)]) -> Screen {
    let tape = tape("hang");
    let mut s = Screen::start(&[&["replay", &tape, "--at", at], more].concat(), dir, env, 40, 120);
    let s_at: i64 = at.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    s.wait_until("at the moment asked for", |s| offset(s) >= s_at);
    s.press("p", "paused", |s| row(s, 0).contains('‖') || row(s, 0).contains("| replay"));
    s
}

/// Rows and columns.
fn size(s: &vt100::Screen) -> (u16, u16) {
    let (rows, columns) = s.size();
    (rows.get(), columns.get())
}

fn row(s: &vt100::Screen, y: u16) -> String {
    s.contents_between(y, 0, y, size(s).1)
}

fn rows(s: &vt100::Screen) -> Vec<String> {
    (0..size(s).0).map(|y| row(s, y).trim_end().to_owned()).collect()
}

fn footer(s: &vt100::Screen) -> String {
    row(s, size(s).0 - 1)
}

/// The message in the footer, without the keys behind it.
fn notice(s: &vt100::Screen) -> String {
    footer(s).trim().split("   ").next().unwrap_or("").to_owned()
}

fn has(s: &vt100::Screen, text: &str) -> bool {
    s.contents().contains(text)
}

fn has_text(s: &Screen, text: &str) -> bool {
    s.text().contains(text)
}

/// Seconds from the start of the tape to the moment shown; -1 while none is.
fn offset(s: &vt100::Screen) -> i64 {
    let head = row(s, 0);
    let Some(from) = head.find("replay ").map(|at| at + 7) else { return -1 };
    let words: Vec<&str> = head[from..].split(" of ").next().unwrap_or("").split(' ').collect();
    let seconds = |number: &str, unit: &str| match (number.parse::<f64>(), unit) {
        (Ok(n), "m") => n as i64 * 60,
        (Ok(n), "s") => n as i64,
        _ => 0,
    };
    words.windows(2).map(|w| seconds(w[0], w[1])).sum()
}

fn near(s: &vt100::Screen, at: i64) -> bool {
    (offset(s) - at).abs() <= 1
}

/// The title of the first pane.
fn title(s: &vt100::Screen) -> String {
    let head = rows(s).into_iter().find(|r| r.starts_with(['╭', '+'])).unwrap_or_default();
    head.trim_matches(|c| "╭╮─ +-".contains(c)).to_owned()
}

fn is_zoomed(s: &vt100::Screen) -> bool {
    rows(s).iter().filter(|r| r.starts_with('╭')).count() == 1 && !rows(s).iter().any(|r| r.contains("╮╭"))
}

/// First word of the title of the pane whose frame differs from all others.
fn focused(s: &vt100::Screen) -> String {
    let (height, width) = size(s);
    let mut frames = Vec::new();
    for y in 0..height {
        for x in 0..width {
            if let Some(cell) = s.cell(y, x).filter(|c| c.contents() == "╭") {
                let word = s.contents_between(y, x + 2, y, width);
                frames.push((cell.fgcolor(), cell.bold(), word.trim_start_matches("▸ ").split([' ', ':']).next().unwrap_or("").to_owned()));
            }
        }
    }
    let rare = |f: &&(vt100::Color, bool, String)| frames.iter().filter(|o| (o.0, o.1) == (f.0, f.1)).count() == 1;
    frames.iter().find(rare).map_or(String::new(), |f| f.2.clone())
}

/// The row that keys go to, from its first cell on.
fn selected(s: &vt100::Screen) -> Option<String> {
    let paper = s.cell(0, 0).map(vt100::Cell::bgcolor);
    let tint = culprits_tint();
    let is_lit = |cell: &vt100::Cell| cell.inverse() || Some(cell.bgcolor()) != paper && cell.bgcolor() != tint;
    let lit = |y: &u16| [2, 3].iter().all(|x| s.cell(*y, *x).is_some_and(is_lit));
    (1..size(s).0).find(lit).map(|y| row(s, y).trim_matches(|c| "│► ".contains(c)).to_owned())
}

/// The background of the rows of whom the verdict names.
fn culprits_tint() -> vt100::Color {
    match Theme::load("colorblind", Depth::Indexed).unwrap().culprit.bg {
        Some(ratatui::style::Color::Indexed(index)) => vt100::Color::Idx(index),
        other => panic!("{other:?}"),
    }
}

/// Texts in black, as what a search finds.
fn marked(s: &vt100::Screen) -> Vec<String> {
    let mut out = vec![String::new()];
    for y in 0..size(s).0 {
        for x in 0..size(s).1 {
            let cell = s.cell(y, x).unwrap();
            let on = cell.fgcolor() == vt100::Color::Idx(16);
            match (on, out.last_mut()) {
                (true, Some(last)) => last.push_str(if cell.has_contents() { cell.contents() } else { " " }),
                (false, Some(last)) if !last.is_empty() => out.push(String::new()),
                _ => {}
            }
        }
    }
    out.retain(|t| !t.trim().is_empty());
    out
}

/// How many lines of the log are newer than the selected one; -1 while it follows.
fn newer(s: &vt100::Screen) -> i64 {
    let title = title(s);
    let count = title.split(" newer").next().filter(|_| title.contains(" newer")).and_then(|t| t.rsplit([' ', ',']).next());
    count.map_or(-1, |n| n.parse().unwrap_or(-2))
}

/// The overview with the first pane focused, no notice.
fn home(s: &mut Screen) {
    s.keys("2");
    s.wait_until("one pane", |s| is_zoomed(s) && title(s).starts_with("Training"));
    s.keys("1");
    s.wait_until("the overview", |s| !is_zoomed(s) && footer(s).contains("1-0 panes") && focused(s) == "Training");
}

/// Does with a key what its help says. The tape stands at +70 s before and after.
fn check_key(s: &mut Screen, action: Action, key: &str) {
    const TITLES: [&str; 10] = ["Training", "GPUs", "Network", "NCCL", "Findings", "Log", "Processes", "Sources", "Topology", "Timeline"];
    assert_eq!(TITLES.len(), PANES.len());
    home(s);
    let from = s.raw().len();
    match action {
        Action::Pane(1) => {
            s.press("z", "zoomed", is_zoomed);
            s.press(key, "the overview", |s| !is_zoomed(s));
        }
        Action::Pane(n) => s.press(key, "that pane alone", |s| is_zoomed(s) && title(s).starts_with(TITLES[usize::from(n) - 2])),
        Action::NextPane | Action::PreviousPane => {
            let (beside, alone) = if action == Action::NextPane { ("Findings", "GPUs") } else { ("Timeline", "Timeline") };
            s.press(key, "beside it", |s| focused(s) == beside);
            home(s);
            s.press("z", "zoomed", is_zoomed);
            s.press(key, "another pane alone", |s| is_zoomed(s) && title(s).starts_with(alone));
        }
        Action::NextJob => s.press(key, "that there is one", |s| footer(s).contains("there is only one job")),
        Action::Zoom => {
            s.press(key, "zoomed", is_zoomed);
            s.press(key, "not zoomed", |s| !is_zoomed(s));
        }
        Action::Open => {
            s.press(key, "zoomed", is_zoomed);
            s.press("1", "the overview", |s| !is_zoomed(s));
            // What evidence leads to is tested where a line proves a finding.
            for (pane, about) in [
                ("3", " GPU 3  NVIDIA H200  rank 3 of job 1354"),
                ("4", " eth  "),
                ("5", " communicator "),
                ("6", " hang-rank-absent  rank 3"),
                ("7", " line "),
                ("8", " rank 3 of job 1354  pid 1453"),
                ("9", " source "),
            ] {
                s.press(pane, "the pane", |s| is_zoomed(s) && !footer(s).contains("next link"));
                s.press(key, "all about it", |s| rows(s).iter().any(|r| r.starts_with(about)) && footer(s).contains("next link"));
                s.press("\x1b", "the pane again", |s| is_zoomed(s) && !footer(s).contains("next link"));
                s.press("1", "the overview", |s| !is_zoomed(s));
            }
        }
        Action::Back => {
            s.press("?", "help", |s| has(s, " Help"));
            s.press(key, "no help", |s| !has(s, " Help"));
            s.press("7", "the log", is_zoomed);
            s.press("W", "filtered", |s| title(s).contains("only"));
            s.press(key, "not filtered", |s| !title(s).contains("only"));
            s.press("k", "a line", |s| newer(s) == 0);
            s.press(key, "following", |s| newer(s) == -1);
            s.press(key, "not zoomed", |s| !is_zoomed(s));
        }
        Action::Up | Action::Down | Action::PageUp | Action::PageDown | Action::Top | Action::Bottom => {
            let rank = |wanted: &'static str| move |s: &vt100::Screen| selected(s).is_some_and(|r| r.starts_with(wanted));
            // From the row, to the row; from the line with so many newer ones, to the line.
            let (from_row, to_row, way, from_line, to_line) = match action {
                Action::Up => ("3", "2", "gj", 332, 333),
                Action::Down => ("0", "1", "g", 333, 332),
                Action::PageUp => ("3", "0", "gjjjjjjjjjjj", 322, 332),
                Action::PageDown => ("0", "3", "g", 333, 323),
                Action::Top => ("3", "0", "k", 0, 333),
                _ => ("0", "3", "g", 333, -1),
            };
            s.press("3", "the GPUs", is_zoomed);
            s.keys(if from_row == "3" { "G" } else { "g" });
            s.wait_until("ready in the table", rank(from_row));
            s.press(key, "in the table", rank(to_row));
            s.press("7", "the log", |s| title(s).starts_with("Log"));
            s.keys(way);
            s.wait_until("ready in the log", |s| newer(s) == from_line);
            s.press(key, "in the log", |s| newer(s) == to_line);
            s.keys("3g7G");
            s.wait_until("following", |s| title(s).starts_with("Log") && newer(s) == -1);
        }
        Action::Sort | Action::SortReverse => {
            let first_gpu = |s: &vt100::Screen| {
                let rows = rows(s);
                rows.iter().position(|r| r.contains("activity")).and_then(|y| rows[y + 1].split_whitespace().nth(1)?.parse::<u32>().ok())
            };
            s.press("3", "the GPUs", |s| is_zoomed(s) && first_gpu(s) == Some(0));
            if action == Action::Sort {
                let head = |s: &vt100::Screen| notice(s).strip_prefix("sorted by ").map(str::to_owned);
                let mut heads = Vec::new();
                while !s.look(footer).contains("own order") {
                    let before = s.look(footer);
                    s.press(key, "sorted otherwise", |s| footer(s) != before && footer(s).contains("sorted"));
                    if let Some(head) = s.look(head) {
                        assert!(has_text(s, &format!("{head}▲")) || has_text(s, &format!("{head}▼")), "{head} is not shown");
                        heads.push(head);
                    }
                }
                assert!(heads.len() > 8 && !heads.contains(&"note".to_owned()), "{heads:?}");
                assert!(!has_text(s, "▲") && !has_text(s, "▼") && s.look(first_gpu) == Some(0));
            } else {
                s.press("s", "sorted", |s| has(s, "#▲"));
                s.press(key, "reversed", |s| has(s, "#▼") && first_gpu(s) == Some(3) && footer(s).contains("reversed"));
                s.press(key, "not reversed", |s| has(s, "#▲") && first_gpu(s) == Some(0));
                while !s.look(footer).contains("own order") {
                    let before = s.look(footer);
                    s.press("s", "sorted otherwise", |s| footer(s) != before);
                }
            }
        }
        Action::Search | Action::NextMatch | Action::PreviousMatch => {
            let open = if action == Action::Search { key } else { "f" };
            s.press(open, "a prompt", |s| footer(s).starts_with(" find: "));
            // While it is typed, what there is of it is searched for.
            let is_found = |s: &vt100::Screen| !marked(s).is_empty() && marked(s).iter().all(|t| t == "98.8 m");
            s.press("/98\\.8 M/\r", "a match", is_found);
            assert!(s.look(selected).is_some_and(|line| line.contains("98.8 ms")), "{}", s.text());
            assert!(!s.look(is_zoomed), "the log is in sight already");
            s.press("7", "the log", |s| is_zoomed(s) && title(s).contains("search \"/98\\\\.8 M/\""));
            let newest = s.look(newer);
            let (forward, backward) =
                if action == Action::NextMatch { (key, "N") } else { ("n", if action == Action::PreviousMatch { key } else { "N" }) };
            s.press(forward, "the oldest one", |s| footer(s).contains("match 1 of") && footer(s).contains("from the top again"));
            s.press(backward, "the newest one", |s| newer(s) == newest && footer(s).contains("from the bottom again"));
            s.press(backward, "the match before it", |s| newer(s) > newest && footer(s).contains("match "));
            assert!(s.look(selected).is_some_and(|line| line.contains("98.8 ms")), "{}", s.text());
            s.press(forward, "the newest match", |s| newer(s) == newest);
            s.press("\x1b", "no search", |s| !title(s).contains("search") && marked(s).is_empty());
            s.press("\x1b", "following", |s| newer(s) == -1);
        }
        Action::Filter => {
            s.press(key, "why not", |s| footer(s).contains("this pane has no rows to filter"));
            s.press("3", "the GPUs", is_zoomed);
            let idles = |s: &vt100::Screen| rows(s).iter().any(|r| r.starts_with("│  3 "));
            s.press(key, "a prompt", |s| footer(s).starts_with(" show only: "));
            s.press("waiting", "filtered while one types", |s| title(s).contains("only waiting") && !idles(s));
            s.press("\x1b", "not filtered", |s| !title(s).contains("only") && !footer(s).contains("show only"));
            s.press("7", "the log", |s| title(s).starts_with("Log"));
            s.press(key, "a prompt", |s| footer(s).starts_with(" show only: "));
            s.press("step /32[12] / !zzz\r", "filtered", |s| title(s).contains("only step /32[12] / !zzz"));
            let shown = s.look(rows).into_iter().filter(|r| r.contains("| loss")).collect::<Vec<_>>();
            assert!(shown.len() == 2 && shown[0].contains("step 321 ") && shown[1].contains("step 322 "), "{shown:?}");
            s.press(key, "the filter to be edited", |s| footer(s).contains("step /32[12] / !zzz"));
            s.press("\x15/(/\r", "what is wrong", |s| footer(s).contains("is no regular expression"));
            s.press("\x1b", "not filtered", |s| !title(s).contains("only") && !footer(s).contains("show only"));
        }
        Action::FilterRank => {
            s.press("7", "the log", is_zoomed);
            s.press(key, "a prompt", |s| footer(s).starts_with(" only ranks"));
            s.press("0-2,x\r", "what is wrong", |s| footer(s).contains("found \"x\", expected a rank"));
            s.press("\x7f7\r", "filtered", |s| title(s).contains("only rank 0-2,7"));
            assert!(s.text().contains("no line passes the filter"), "{}", s.text());
            s.press("\x1b", "not filtered", |s| !title(s).contains("only"));
        }
        Action::FilterSeverity => {
            s.press("7", "the log", is_zoomed);
            s.press(key, "less", |s| title(s).contains("only known lines"));
            s.press(key, "still less", |s| title(s).contains("only WARN and worse"));
            s.press(key, "all", |s| !title(s).contains("only"));
        }
        Action::Wrap => {
            s.press(key, "wrapped", |s| footer(s).contains("long lines are wrapped"));
            s.press(key, "not wrapped", |s| footer(s).contains("long lines are cut"));
        }
        Action::ScrollLeft | Action::ScrollRight => {
            let (left, right) = if action == Action::ScrollLeft { (key, ".") } else { (",", key) };
            s.press("7", "the log", |s| is_zoomed(s) && has(s, " | loss"));
            s.press(right, "further right", |s| title(s).contains("from column 21") && !has(s, " | loss"));
            s.press(left, "as it was", |s| !title(s).contains("from column") && has(s, " | loss"));
        }
        Action::Pager => {
            let before = s.look(rows);
            s.press(key, "the pager", |s| !s.alternate_screen() && has(s, "step 329 ") && has(s, "PAGED"));
            // What is typed is the pager's.
            s.press("q?\r", "the screen again", |s| s.alternate_screen() && rows(s) == before);
        }
        Action::CopyLine => {
            s.press("7", "the log", is_zoomed);
            s.press("kk", "a line", |s| newer(s) == 1);
            s.press(key, "sent", |s| footer(s).contains("the line was sent to the clipboard"));
            s.wait_sent(from, b"\x1b]52;c;c3RlcCAzMjg");
            s.press("\x1b", "no line", |s| newer(s) == -1);
            s.press(key, "the command", |s| has(s, "Sent to the clipboard"));
            s.press("2", "no popup", |s| !has(s, "clipboard"));
        }
        Action::Copy => {
            s.press(key, "the command", |s| has(s, "Sent to the clipboard"));
            let text = s.text();
            let popup = text.split("Sent to the clipboard").nth(1).unwrap();
            assert!(popup.contains("│ py-spy dump --nonblocking --pid 1453 "), "{text}");
            s.wait_sent(from, b"\x1b]52;c;cHktc3B5IGR1bXAgLS1ub25ibG9ja2luZyAtLXBpZCAxNDUz\x07");
            s.wait_sent(from, b"\x1b[?1000l");
            assert!(find(&s.raw()[from..], b"\x1b[?1000h").is_none(), "the mouse is the terminal's while text can be selected");
            let shown = s.raw().len();
            // The key only ends the popup.
            s.press("2", "as before", |s| !has(s, "clipboard") && !is_zoomed(s));
            s.wait_sent(shown, b"\x1b[?1000h\x1b[?1006h");
        }
        Action::Acknowledge | Action::Mute => {
            let word = if action == Action::Mute { "muted" } else { "acknowledged" };
            s.press(key, "the only one that is open", |s| footer(s).contains(&format!("hang-rank-absent is {word}")));
            s.press(key, "as it was", |s| footer(s).contains(&format!("hang-rank-absent is no longer {word}")));
            s.press("6", "the findings", is_zoomed);
            s.press(key, "done", |s| footer(s).contains(&format!("hang-rank-absent is {word}")) && has(s, &format!("{word}: rank 3")));
            s.press("g", "nothing else is below the others", |s| !has(s, "hang-rank-absent is"));
            let mine = |s: &vt100::Screen| rows(s).iter().position(|r| r.contains(&format!("{word}: rank 3"))).unwrap();
            let row = s.look(mine) - s.look(|s| rows(s).iter().position(|r| r.starts_with("╭ Findings")).unwrap()) - 1;
            s.press(&"j".repeat(row), "that one", |s| selected(s).is_some_and(|r| r.contains("hang-rank-absent")));
            s.press(key, "undone", |s| footer(s).contains(&format!("hang-rank-absent is no longer {word}")));
        }
        Action::Stack => {
            s.press(key, "why not", |s| footer(s).contains("py-spy needs a live process"));
            s.press("6", "the findings", |s| is_zoomed(s) && footer(s).contains("x stack (live only)"));
        }
        Action::Stacks => s.press(key, "why not", |s| footer(s).contains("py-spy needs a live process")),
        Action::Dumps => s.press(key, "why not", |s| footer(s).contains("dumps come from live ranks")),
        Action::Evidence => {
            s.press(key, "a prompt", |s| footer(s).contains("write evidence to (Esc: nothing): ./nccl-top-evidence-"));
            s.press("\x1b", "no prompt", |s| !footer(s).contains("write evidence"));
        }
        Action::Pause => {
            s.press(key, "playing", |s| row(s, 0).contains("▶ replay"));
            s.press(key, "paused", |s| row(s, 0).contains("‖ replay"));
            restore(s);
        }
        Action::Earlier | Action::Later | Action::MuchEarlier | Action::MuchLater => {
            let now = s.look(offset);
            let (by, back) = match action {
                Action::Earlier => (-5, "l"),
                Action::Later => (5, "h"),
                Action::MuchEarlier => (-60, "]"),
                _ => (60, "["),
            };
            let now = if action == Action::MuchLater {
                s.press(back, "a minute earlier", |s| near(s, now - 60));
                assert!(!s.text().contains("STUCK") && !s.text().contains("hang-rank-absent"), "{}", s.text());
                s.press(key, "a minute later", |s| near(s, now));
                return s.wait_for("STUCK");
            } else {
                now
            };
            s.press(key, "another time", |s| near(s, now + by));
            s.press(back, "as before", |s| near(s, now));
        }
        Action::ToStart => {
            let now = s.look(offset);
            s.press(key, "the start", |s| offset(s) == 0);
            assert!(!s.text().contains("STUCK"), "{}", s.text());
            s.press("]llh", "ahead", |s| near(s, 65));
            s.press("l", "where it was", |s| near(s, now));
        }
        Action::ToEnd => {
            s.press(key, "the end", |s| row(s, 0).contains("‖ replay 1 m 26 s of 1 m 26 s · end"));
            s.press("[", "a minute before", |s| near(s, 26) && !row(s, 0).contains("end"));
            s.press("]hhh", "where it was", |s| near(s, 70) || near(s, 72));
            home(s);
            restore(s);
        }
        Action::Slower | Action::Faster => {
            let (words, back, first, second) =
                if action == Action::Slower { (["1/2x", "1/4x"], ">", "<", "<") } else { (["2x", "4x"], "<", ">", ">") };
            assert_eq!((first, second), (key, key));
            s.press(key, "another speed", |s| row(s, 0).contains(words[0]));
            s.press(key, "and another", |s| row(s, 0).contains(words[1]));
            s.press(&back.repeat(2), "as it was", |s| !row(s, 0).contains("x "));
        }
        Action::LongerAxis | Action::ShorterAxis => {
            let (words, axis, back) =
                if action == Action::LongerAxis { ("5 m 00 s", "last 5 min", "+") } else { ("1 m 00 s", "last 1 min", "-") };
            let sparks = |s: &vt100::Screen| rows(s).into_iter().filter(|r| r.contains('▇')).collect::<Vec<_>>();
            let before = s.look(sparks);
            s.press(key, "said", |s| footer(s).contains(&format!("time axis: {words}")) && has(s, axis));
            assert_ne!(s.look(sparks), before, "they are drawn over another time");
            s.press(back, "as it was", |s| has(s, "last 2 min"));
            assert_eq!(s.look(sparks), before);
        }
        Action::Theme => {
            let color = |s: &vt100::Screen| s.cell(size(s).0 - 4, 0).map(vt100::Cell::fgcolor);
            let themes = ["dark", "light", "high-contrast", "nord", "gruvbox", "catppuccin", "mono", "colorblind"];
            let next = |s: &mut Screen, name: &str| s.press(key, "the next theme", |s| notice(s) == format!("theme {name}"));
            // Once around: what the key before has changed is drawn by then.
            themes.iter().for_each(|name| next(s, name));
            let before = s.look(color);
            for name in themes {
                next(s, name);
                if name == "mono" {
                    assert_eq!(s.look(color), Some(vt100::Color::Default));
                }
            }
            assert_eq!(s.look(color), before);
        }
        Action::Mouse => {
            s.press(key, "said", |s| footer(s).contains("mouse off"));
            s.wait_sent(from, b"\x1b[?1000l");
            let off = s.raw().len();
            s.press(key, "said", |s| footer(s).contains("mouse on"));
            s.wait_sent(off, b"\x1b[?1000h\x1b[?1006h");
        }
        Action::Options => {
            s.press(key, "the options", |s| has(s, " Options: ") && has(s, "‹ colorblind ›") && footer(s).contains("change"));
            s.press(key, "no options", |s| !has(s, " Options: "));
        }
        Action::NextLayout => {
            let shown = |s: &vt100::Screen, titles: &[&str]| {
                let rows = rows(s);
                titles
                    .iter()
                    .all(|title| rows.iter().any(|row| row.contains(&format!("╭ {title}")) || row.contains(&format!("╭ ▸ {title}"))))
            };
            for (name, titles) in [
                ("gpus", &["Timeline", "GPUs", "Processes"][..]),
                ("network", &["Network", "NCCL", "Topology"]),
                ("logs", &["Training", "Findings", "Log"]),
                ("all", &["Timeline", "Training", "GPUs", "Log"]),
            ] {
                s.press(key, name, |s| notice(s) == format!("layout {name}") && shown(s, titles) && !is_zoomed(s));
            }
        }
        Action::Redraw | Action::Suspend => {
            let before = s.look(rows);
            s.keys(key);
            s.wait_sent(from, CLEAR);
            s.wait_until("whole again", |s| s.alternate_screen() && rows(s) == before);
            if action == Action::Suspend {
                // There is no shell that could make it go on: it must not freeze.
                s.wait_sent(from, ENTER_SCREEN);
                assert!(find(&s.raw()[from..], LEAVE_SCREEN).is_some());
            }
        }
        Action::Help => {
            s.press(key, "help", |s| has(s, " Help"));
            for row in Group::ALL.into_iter().flat_map(|group| KEYS.iter().filter(move |k| k.group == group)) {
                let begin = &row.help[..row.help.len().min(20)];
                // Searched for, it stands on the first page: in the title, and in its place.
                s.keys(&format!("/{begin}\r"));
                s.wait_until(begin, |s| !footer(s).contains("show only") && s.contents().matches(begin).count() >= 2);
                s.press("\x1b", "all of it", |s| !has(s, "Help, only"));
            }
            s.press("G", "its end", |s| has(s, "moves in the list below the"));
            s.press("g", "its start", |s| has(s, "everything at once"));
            s.press(key, "no help", |s| !has(s, " Help"));
        }
        Action::Quit => unreachable!("has a test of its own"),
    }
}

/// To +70 s, whatever the time is.
fn restore(s: &mut Screen) {
    s.keys("H");
    s.wait_until("the start", |s| offset(s) == 0);
    s.keys("]");
    s.wait_until("a minute", |s| near(s, 60));
    s.keys("ll");
    s.wait_until("at +70 s", |s| near(s, 70));
}

#[test]
fn every_key_of_the_table_does_what_its_help_says() {
    let dir = tempfile::tempdir().unwrap();
    let pager = "tail -n 3; echo PAGED; read typed < /dev/tty; true";
    let mut s = still(dir.path(), "+70s", &[], &[("PAGER", pager)]);
    // On a busy machine it was paused a little later.
    restore(&mut s);
    s.wait_for("STUCK");
    for row in KEYS.iter().filter(|k| k.action != Action::Quit) {
        for key in row.keys {
            check_key(&mut s, row.action, &sent_for(key));
        }
    }
    let quit = KEYS.iter().find(|k| k.action == Action::Quit).unwrap();
    for key in quit.keys {
        if *key == "q" {
            // It closes what is open on top first.
            s.keys("?");
            s.wait_for("q close");
            s.keys("q");
            s.wait_until("the help closed", |screen| !screen.contents().contains("q close"));
        } else {
            // From within whatever has the keyboard.
            s.keys("/text");
        }
        s.keys(&sent_for(key));
        assert_eq!(s.wait_end(), 0, "{key}");
        s.assert_restored();
        s = live(dir.path(), &[], &[], 24, 80);
        s.wait_for("IDLE");
    }
}

/// A log to which a step is added five times a second, until it is dropped.
struct Growing {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Growing {
    fn start(path: PathBuf) -> Growing {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut step = 0;
            while !told.load(Ordering::SeqCst) {
                append(&path, &format!("step {step} | loss {:.4}\n", 3.0 - step as f64 * 0.01));
                step += 1;
                std::thread::sleep(Duration::from_millis(200));
            }
            step - 1
        });
        Growing { stop, thread: Some(thread) }
    }

    /// The last step.
    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

/// The step in the line of the verdict, that in the pane, and the last in the log; and the line of the loss.
fn steps(s: &vt100::Screen) -> ([Option<u64>; 3], String) {
    let rows = rows(s);
    // Of several steps in one row, the last.
    let number = |row: &String| {
        let mut words = row.split("step ").nth(1)?.split(' ');
        let first = words.next()?;
        words.next().filter(|word| *word == "to").and_then(|_| words.next()).unwrap_or(first).parse().ok()
    };
    let verdict = rows.iter().find(|r| r.contains("TRAINING")).and_then(number);
    let pane = rows.iter().filter(|r| r.starts_with("│ step ")).find_map(number);
    let log = rows.iter().rfind(|r| r.contains("| loss")).and_then(number);
    let spark = rows.iter().find(|r| r.contains("loss  ")).map(|r| r.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).collect());
    ([verdict, pane, log], spark.unwrap_or_default())
}

/// How many seconds ago the moment is at which the live screen stands.
fn ago(s: &vt100::Screen) -> Option<u64> {
    row(s, 0).split("‖ paused, ").nth(1)?.split(" s ago").next()?.parse().ok()
}

#[test]
fn the_live_screen_goes_back_in_time_as_a_whole_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("train.log");
    let growing = Growing::start(log.clone());
    let mut s = live(dir.path(), &["--interval", "200ms", "train.log"], &[("NCCL_TOP_ALERT", "bell")], 40, 120);
    let at = |s: &vt100::Screen| steps(s).0[2].unwrap_or(0);
    let is_live = |s: &vt100::Screen| row(s, 0).contains("● live");
    s.wait_until("seven seconds of steps", |s| at(s) >= 35 && is_live(s));

    let live = s.look(at);
    s.press("\x1b[D", "five seconds back", |s| ago(s).is_some_and(|ago| ago >= 5));
    let (then, spark) = s.look(steps);
    let seen = then[2].expect("a step in the log");
    assert!(seen < live, "{then:?}\n{}", s.text());
    assert!(then.iter().all(|n| n.is_some_and(|n| n.abs_diff(seen) <= 1)), "{then:?}\n{}", s.text());
    // It stands while the job goes on, and only says how long ago it was.
    let since = s.look(ago);
    s.wait_until("longer ago", |s| ago(s) > since);
    assert_eq!(s.look(steps), (then, spark.clone()));
    s.press("[", "that there is nothing before", |s| footer(s).contains("history begins here"));
    s.press(">", "that it has no speed", |s| footer(s).contains("only recordings have a playback speed"));
    s.press("lll", "forward", |s| is_live(s) || row(s, 0).contains(" ago") && steps(s).0[2].is_some_and(|step| step > seen));
    s.press("H", "the start", |s| !is_live(s) && steps(s).0[2].is_none_or(|step| step < seen));

    // What opens meanwhile is counted, and rings.
    assert!(!s.raw().contains(&7));
    append(&log, "h:1:1 [3] NCCL WARN odd\n[rank3]: a line of rank three\n");
    append(
        &log,
        "E1121 00:05:26.947000 100 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -9) local_rank: 1 (pid: 102) of binary: python\n",
    );
    s.wait_until("two new findings", |s| row(s, 0).contains("2 new findings"));
    assert!(!s.text().contains("nccl-warn"), "{}", s.text());
    s.wait_sent(0, b"\x07");
    s.press("l", "forward", |s| steps(s).0[2].is_some_and(|step| step >= seen) || is_live(s));
    s.press("L", "the present", is_live);
    s.wait_for("nccl-warn");
    s.wait_for("rank-exited");
    let last = growing.end();
    s.wait_until("the last line", |s| at(s) == last);
    let now = s.look(steps);
    assert!(now.0.iter().flatten().all(|n| n.abs_diff(last) <= 1) && now.1.chars().count() > spark.chars().count(), "{now:?}");

    // Nothing was lost: the log has every line.
    s.press("7", "the log", is_zoomed);
    s.press("g", "its start", |s| newer(s) == last as i64 + 3);
    for from in (0..last).step_by(20) {
        for step in from..(from + 10).min(last) {
            s.wait_for(&format!(" step {step} "));
        }
        s.keys("\x1b[6~\x1b[6~");
    }
    s.press("r3\r", "rank 3 alone", |s| title(s).contains("only rank 3") && !has(s, "| loss"));
    s.press("6", "findings", |s| title(s).starts_with("Findings"));
    s.press("j", "the warning", |s| selected(s).is_some_and(|r| r.contains("nccl-warn")));
    s.press("\r", "all about it", |s| has(s, "Evidence") && has(s, "› "));
    s.press("\r", "its line", |s| title(s).starts_with("Log") && selected(s).is_some_and(|r| r.contains("NCCL WARN odd")));
    assert!(s.text().contains("train.log:"), "{}", s.text());
    s.press("p", "standing", |s| ago(s).is_some());
    s.press(" ", "going on", is_live);
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    assert_eq!(s.raw().iter().filter(|b| **b == 7).count(), 1, "one critical finding, one bell");
}

#[test]
fn a_tape_ends_and_goes_on_from_wherever_it_is_put() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = Screen::start(&["replay", &tape("hang"), "--speed", "4"], dir.path(), &[], 40, 120);
    s.wait_until("playing", |s| offset(s) >= 1);
    s.press("L", "the end", |s| row(s, 0).contains("‖ replay 4x 1 m 26 s of 1 m 26 s · end"));
    // Slowly, so that what is shown is still there when it is looked at.
    s.press("<<<<", "a quarter of the speed", |s| row(s, 0).contains("replay 1/4x"));
    s.press("h", "before the end, and it stands", |s| row(s, 0).contains("‖ replay") && !row(s, 0).contains("end") && offset(s) == 81);
    s.keys("p>>>>");
    s.wait_until("at the end by itself", |s| row(s, 0).contains("replay 4x") && row(s, 0).contains("· end"));
    s.keys("<<<<");
    s.press("p", "it stays there", |s| footer(s).contains("the end of the recording"));
    s.press("H", "from the start again", |s| row(s, 0).contains("▶ replay 1/4x") && offset(s) <= 20);
    // Two at once add up, and so do those that are still on their way.
    s.press("]h", "55 seconds on", |s| (55..=75).contains(&offset(s)));
    s.press(">>>>", "faster", |s| row(s, 0).contains("replay 4x"));
    s.wait_for("STUCK");
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
}

/// An interactive shell with job control in the pseudo-terminal, in which the program is run.
fn shell(dir: &Path) -> Screen {
    let env = [("PS1", "READY> "), ("BASH_SILENCE_DEPRECATION_WARNING", "1")];
    let s = Screen::start_program(Path::new("bash"), &["--norc", "--noprofile", "-i"], dir, &env, 40, 120);
    s.wait_for("READY>");
    s
}

fn on_main_screen(s: &vt100::Screen) -> bool {
    !s.alternate_screen() && !s.hide_cursor() && s.mouse_protocol_mode() == vt100::MouseProtocolMode::None
}

/// What was typed is echoed and run.
fn shell_is_well(s: &mut Screen, word: &str) {
    s.press(&format!("echo {word}''{word}\r"), "echo and its output", |s| {
        has(s, &format!("echo {word}''{word}")) && has(s, &format!("\n{word}{word}"))
    });
}

/// A recording that comes through a pipe is sent to its end before anything of it is there.
#[test]
fn the_end_can_be_asked_for_before_the_first_of_a_recording_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("pipe.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let tape = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tapes/hang.jsonl.gz")).unwrap();
    let text = std::io::read_to_string(flate2::read::MultiGzDecoder::new(tape)).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let command = format!("exec '{PROGRAM}' replay <(cat pipe.jsonl)");
    let mut s = Screen::start_program(Path::new("bash"), &["-c", &command], dir.path(), &[], 40, 200);
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    writeln!(pipe, "{header}").unwrap();
    s.wait_for("▶ replay");
    // The help shows that both keys were read.
    s.press("L?", "help", |s| has(s, "Help"));
    s.keys("\x1b");
    let rest = rest.to_owned();
    let writer = std::thread::spawn(move || pipe.write_all(rest.as_bytes()));
    s.wait_until("the end", |s| row(s, 0).contains("1 m 26 s of 1 m 26 s"));
    writer.join().unwrap().unwrap();
}

#[test]
fn the_shell_gets_its_terminal_back_while_the_program_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let root = empty_tree(dir.path());
    append(&dir.path().join("train.log"), "step 1 | loss 2.5\n");
    let mut s = shell(dir.path());
    s.press(&format!("{PROGRAM} --sysroot {root} train.log\r"), "the screen", |s| {
        s.alternate_screen() && has(s, "IDLE") && has(s, "step 1 |")
    });
    // Panes give room to each other as time goes by; their frames, the log and the keys are there whenever all was drawn.
    let keys = s.look(|s| rows(s).last().cloned());
    let whole = |s: &vt100::Screen| {
        let (rows, begins) = (rows(s), |with: char| move |row: &&String| row.starts_with(with));
        let frames = (rows.iter().filter(begins('╭')).count(), rows.iter().filter(begins('╰')).count());
        s.alternate_screen()
            && s.hide_cursor()
            && frames.0 >= 4
            && frames.0 == frames.1
            && has(s, "step 1 |")
            && rows.last() == keys.as_ref()
    };
    for word in ["one", "two"] {
        s.press("\x1a", "the prompt", |s| on_main_screen(s) && has(s, "Stopped"));
        shell_is_well(&mut s, word);
        s.press("fg\r", "the whole screen", whole);
    }
    // A stop that it is not told of leaves the shell on its screen; fg makes it whole all the same, and takes keys one by one.
    let stop = format!("pkill -STOP -P {} -x nccl-top", s.child.process_id().unwrap());
    let from = s.raw().len();
    assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
    s.wait_sent(from, b"Stopped");
    let from = s.raw().len();
    s.keys("stty sane; fg\r");
    s.wait_sent(from, CLEAR);
    s.wait_until("the whole screen", whole);
    s.press("9", "the sources", |s| title(s).starts_with("Sources"));
    // What is typed between the screen and the prompt is the ending program's: mouse reports must not become a command.
    s.press("q", "the prompt", |s| {
        on_main_screen(s) && rows(s).iter().rfind(|r| !r.trim().is_empty()).is_some_and(|r| r.trim() == "READY>")
    });
    shell_is_well(&mut s, "end");
    s.keys("exit\r");
    assert_eq!(s.wait_end(), 0);
}

#[test]
fn after_a_stop_from_outside_the_screen_is_drawn_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = still(dir.path(), "+70s", &[], &[]);
    let before = s.look(rows);
    for _ in 0..3 {
        let from = s.raw().len();
        s.signal("STOP");
        s.signal("CONT");
        s.wait_sent(from, CLEAR);
        s.wait_until("whole", |s| s.alternate_screen() && rows(s) == before);
    }
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    s.assert_restored();
}

#[test]
fn the_pager_gets_the_file_and_the_job_is_observed_on() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let pager = dir.path().join("less");
    // dash catches an interrupt, and misses one that comes just before it begins to read: `sleep` has long been there when the words are.
    std::fs::write(&pager, "#!/bin/sh\n(sleep 0.3; echo \"GOT $*\") &\nexec sleep 60\n").unwrap();
    std::fs::set_permissions(&pager, std::fs::Permissions::from_mode(0o755)).unwrap();
    let log = dir.path().join("train.log");
    (1..=5).for_each(|step| append(&log, &format!("step {step} | loss 2.5 | mark-{step}\n")));
    let pager = pager.display().to_string();
    let mut s = Screen::start(&[log.to_str().unwrap()], dir.path(), &[("PAGER", &pager)], 40, 120);
    s.wait_until("a screen", |s| row(s, 0).contains("live"));
    s.press("7", "the log", is_zoomed);
    // Whatever else runs on the machine of the test.
    s.press("/mark-\r", "its lines alone", |s| title(s).contains("only mark") && has(s, "mark-5"));
    s.press("kkk", "a line", |s| selected(s).is_some_and(|line| line.contains("mark-3")));
    s.press("o", "the pager with the file", |s| on_main_screen(s) && has(s, &format!("GOT +3 {}", log.display())));
    // An interrupt ends the pager, and not the program.
    append(&log, "step 6 | loss 2.5 | mark-6\n");
    s.press("\x03", "the screen again", |s| s.alternate_screen() && has(s, "mark-6"));
    s.resize(30, 100);
    s.wait_until("another size", |s| size(s) == (30, 100) && is_zoomed(s) && row(s, 29).contains("quit"));
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    s.assert_restored();
    let mut s = still(dir.path(), "+70s", &[], &[("PAGER", "/no/such/pager")]);
    s.press("o", "why not", |s| s.alternate_screen() && footer(s).contains("/no/such/pager was not found"));
}

/// A click at a row and a column, both from 0: down and up.
fn click(s: &mut Screen, (y, x): (usize, usize)) {
    s.keys(&format!("\x1b[<0;{0};{1}M\x1b[<0;{0};{1}m", x + 1, y + 1));
}

/// Where a text stands: row and column.
fn place(s: &Screen, text: &str) -> (usize, usize) {
    let rows = s.look(rows);
    let y = rows.iter().position(|r| r.contains(text)).unwrap_or_else(|| panic!("no {text:?}:\n{}", s.text()));
    (y, rows[y].split(text).next().unwrap().chars().count())
}

#[test]
fn the_mouse_does_what_the_help_says() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = still(dir.path(), "+70s", &[], &[]);
    let sent = s.raw();
    assert!(find(&sent, MOUSE_MODES[0]).is_some() && find(&sent, MOUSE_MODES[3]).is_some());
    assert!(MOUSE_MODES[1..3].iter().all(|mode| find(&sent, mode).is_none()), "not every motion");

    let at = place(&s, "STUCK 1");
    click(&mut s, at);
    s.wait_until("the finding that the verdict names", |s| is_zoomed(s) && title(s).starts_with("Findings") && has(s, "evidence"));
    s.press("1", "the overview", |s| !is_zoomed(s));
    let at = place(&s, "source-trouble");
    click(&mut s, at);
    s.wait_until("that pane and row", |s| focused(s) == "Findings" && has(s, "source-trouble"));
    let at = place(&s, "GPUs: 4");
    click(&mut s, at);
    s.wait_until("the GPUs alone", |s| is_zoomed(s) && title(s).starts_with("GPUs"));
    for said in ["sorted by util%", "sorted by util%, reversed"] {
        let at = place(&s, "util%");
        click(&mut s, at);
        s.wait_until(said, |s| notice(s) == said);
    }
    let at = place(&s, " 1452 ");
    click(&mut s, at);
    s.wait_until("GPU 2", |s| selected(s).is_some_and(|r| r.starts_with('2')) && has(s, "GPU 2 "));
    let at = place(&s, "GPUs: 4");
    click(&mut s, at);
    s.wait_until("the overview", |s| !is_zoomed(s));

    let (y, x) = place(&s, "to 329 ");
    s.keys(&format!("\x1b[<64;{};{}M", x + 1, y + 1));
    s.wait_until("three lines up", |s| focused(s) == "Log" && selected(s).is_some_and(|r| r.contains("step 327 ")));
    s.keys(&format!("\x1b[<65;{};{}M", x + 1, y + 1));
    s.wait_until("following", |s| selected(s).is_none());
    let at = place(&s, "? help");
    click(&mut s, at);
    s.wait_until("help", |s| has(s, " Help"));
    s.keys("\x1b[<65;9;9M");
    s.wait_until("scrolled", |s| !has(s, "everything at once"));
    click(&mut s, (9, 9));
    s.wait_until("no help", |s| !has(s, " Help"));
    let at = place(&s, "copy next step");
    click(&mut s, at);
    s.wait_until("the command", |s| has(s, "Sent to the clipboard"));
    s.press("1", "no popup", |s| !has(s, "clipboard"));

    // Garbage: other buttons, places beyond the screen, numbers that are none, other encodings, sequences that end early.
    for garbage in [
        "\x1b[<0;999;999M",
        "\x1b[<0;0;0M",
        "\x1b[<2;5;5M",
        "\x1b[<35;7;7M",
        "\x1b[<66;7;7M",
        "\x1b[<999;1;1M",
        "\x1b[<;;M",
        "\x1b[<x;y;zm",
        "\x1b[<0;65536;70000M",
        "\x1b[M\x20\u{7f}\u{7f}",
        "\x1b[32;1;1M",
        "\x1b[99999;5M",
        "\x1b[<0;10",
        "M",
    ] {
        s.keys(garbage);
    }
    s.press("9", "the sources", |s| title(s).starts_with("Sources"));
    s.press("1", "the overview", |s| !is_zoomed(s));
    let at = place(&s, "Training");
    click(&mut s, at);
    s.wait_until("the training alone", |s| is_zoomed(s) && title(s).starts_with("Training"));
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    s.assert_restored();
    assert_given_back(&s);
}

/// Mouse and paste modes that were switched on are off at the end.
fn assert_given_back(s: &Screen) {
    s.look(|s| {
        assert_eq!(s.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        assert!(!s.bracketed_paste(), "pasted text still comes in brackets");
    });
    let raw = s.raw();
    for mode in ["1000", "1006", "2004"] {
        let on = find(&raw, format!("\x1b[?{mode}h").as_bytes());
        let off = find(&raw, format!("\x1b[?{mode}l").as_bytes());
        assert!(off >= on, "{mode} stays on");
    }
}

#[test]
fn the_mouse_can_be_left_to_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("c.toml");
    std::fs::write(&config, "mouse = false\n").unwrap();
    for args in [vec!["--no-mouse"], vec!["--config", config.to_str().unwrap()]] {
        let mut s = still(dir.path(), "+70s", &args, &[]);
        s.press("c", "the command", |s| has(s, "Sent to the clipboard"));
        s.press("x", "no popup", |s| !has(s, "clipboard"));
        let before = s.look(rows);
        click(&mut s, (6, 4));
        s.press("?", "help", |s| has(s, " Help"));
        s.press("?", "as it was, whatever was clicked", |s| rows(s) == before);
        s.keys("q");
        assert_eq!(s.wait_end(), 0);
        let raw = s.raw();
        assert!(MOUSE_MODES.iter().all(|mode| find(&raw, mode).is_none()), "{args:?}");
        assert_given_back(&s);
    }
}

/// Bytes that look like chance and are the same in every run.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..count.div_ceil(8)).flat_map(|_| next()).take(count).collect()
}

#[test]
fn pasted_text_is_no_sequence_of_keys() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = still(dir.path(), "+70s", &[], &[]);
    let before = s.look(rows);
    let mut garbage = noise(64 << 10);
    for (i, sequence) in
        ["\x1b[A", "\x1bOP", "\x1b[<0;3;3M", "q", "\x03", "\x1a", "\x1b[2J", "\x1b]52;c;eA==\x07"].iter().cycle().take(400).enumerate()
    {
        garbage[i * 160..i * 160 + sequence.len()].copy_from_slice(sequence.as_bytes());
    }
    let start = s.raw().len();
    s.send(b"\x1b[200~");
    s.send(&garbage);
    s.send(b"\x1b[201~");
    s.press("?", "help", |s| has(s, " Help"));
    s.press("?", "as it was", |s| rows(s) == before);
    // Into a prompt it is typed, without what does not belong into a text.
    s.press("f", "a prompt", |s| footer(s).starts_with(" find: "));
    s.send(b"\x1b[200~a\x1b[31mb\x07\r\nc\x1b]52;c;eA==\x07\xff\xfe 9\xe2\x80\xae9\x1b[201~");
    s.wait_until("clean text", |s| footer(s).starts_with(" find: abc"));
    assert!(s.look(footer).contains("99"), "{}", s.look(footer));
    s.send(b"\x1b[200~");
    s.send(&garbage);
    s.send(b"\x1b[201~");
    s.keys("\r");
    s.wait_until("no match", |s| footer(s).trim().starts_with("no line matches"));
    s.press("\x1b", "no search", |s| !title(s).contains("search") && footer(s).contains("1-0 panes"));
    let sent = s.raw()[start..].to_vec();
    assert!(find(&sent, b"\x1b]52").is_none() && !sent.contains(&7), "nothing pasted comes back as control");
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    assert_given_back(&s);
}

#[test]
fn any_bytes_typed_are_survived() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = still(dir.path(), "+70s", &[], &[]);
    // Without what ends it, what stops it, what begins a paste or another sequence that only ends later, and what gives the keys to a pager.
    let bytes: Vec<u8> = noise(64 << 10).into_iter().filter(|b| ![b'q', b'o', 3, 0x1a, 0x1b].contains(b)).collect();
    s.send(&bytes);
    for sequence in
        ["\x1b[", "\x1bO", "\x1b[1;", "\x1b[?1;2c", "\x1b[5;5R", "\x1b[I", "\x1b[O", "\x1bP1$r0m\x1b\\", "\x1b]10;rgb:0/0/0\x07"]
    {
        s.keys(sequence);
    }
    // Whatever is open now, the way out works.
    s.keys("\r\x03");
    assert_eq!(s.wait_end(), 0);
    s.assert_restored();
    assert_given_back(&s);
}

#[test]
fn a_storm_of_sizes_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = still(dir.path(), "+70s", &[], &[]);
    s.press("71", "the log", |s| focused(s) == "Log" && !is_zoomed(s));
    let before = s.look(rows);
    for (i, seed) in noise(400).chunks(2).enumerate() {
        s.resize(u16::from(seed[0]) % 100 + 1, u16::from(seed[1]) + 45);
        s.keys(["2", "?", "?", "1", "\t", "c", "x", "6", "7", "j", "8", "1"][i % 12]);
    }
    // The last of them left the findings alone on the screen.
    s.keys("71");
    s.resize(40, 120);
    s.wait_until("as it was", |s| rows(s) == before);
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    assert_given_back(&s);
}

/// Waits for the end of a process that is no child of the test.
fn wait_gone(pid: &str) {
    let started = Instant::now();
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|s| s.rsplit(") ").next()?.chars().next());
    while state().is_some_and(|s| s != 'Z') {
        assert!(started.elapsed() < PATIENCE, "process {pid} goes on without a terminal, state {:?}", state());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Not a test: the process that holds the terminal, to be killed by the test below.
#[test]
#[ignore = "is started by another test"]
fn terminal_that_hangs_up() {
    let Some(dir) = std::env::var_os("HANG_UP_DIR").map(PathBuf::from) else { return };
    let s = if std::env::var_os("HANG_UP_PAUSED").is_some() { still(&dir, "+70s", &[], &[]) } else { live(&dir, &[], &[], 24, 80) };
    s.wait_until("drawn", |s| has(s, "IDLE") || has(s, "STUCK"));
    std::fs::write(dir.join("pid.new"), s.child.process_id().unwrap().to_string()).unwrap();
    std::fs::rename(dir.join("pid.new"), dir.join("pid")).unwrap();
    std::thread::sleep(PATIENCE * 2);
}

#[test]
fn the_program_ends_when_the_terminal_hangs_up() {
    // With the signal that the kernel sends to the session leader, and where a shell has it ignored.
    for (paused, ignored) in [(false, false), (true, false), (false, true), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let mut holder = Command::new(std::env::current_exe().unwrap());
        holder.args(["--exact", "keys::terminal_that_hangs_up", "--ignored"]).env("HANG_UP_DIR", dir.path());
        if paused {
            holder.env("HANG_UP_PAUSED", "1");
        }
        if ignored {
            holder.env("HANG_UP_NO_SIGNAL", "1");
        }
        let mut holder = holder.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while !dir.path().join("pid").exists() {
            assert!(started.elapsed() < PATIENCE, "no program in the terminal");
            std::thread::sleep(Duration::from_millis(20));
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        wait_gone(&std::fs::read_to_string(dir.path().join("pid")).unwrap());
    }
}

#[test]
fn standard_input_need_not_be_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let root = empty_tree(dir.path());
    for (input, shows) in [("<&-", "IDLE"), ("</dev/null", "IDLE")] {
        let command = format!("exec {PROGRAM} --sysroot {root} {input}");
        let mut s = Screen::start_program(Path::new("sh"), &["-c", &command], dir.path(), &[], 24, 80);
        s.wait_for(shows);
        s.press("9", "the sources", |s| has(s, "Sources:"));
        s.keys("q");
        assert_eq!(s.wait_end(), 0, "{input}");
        s.assert_restored();
        assert_given_back(&s);
    }
    let command = format!("echo 'step 1 | loss 2.5' | {PROGRAM} --sysroot {root} -");
    let mut s = Screen::start_program(Path::new("sh"), &["-c", &command], dir.path(), &[], 24, 80);
    s.wait_for("loss 2.5");
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    s.assert_restored();
}

/// The codes of all SGR sequences: each with its parameters, where a colour of 38 or 48 is one code.
fn sgr(raw: &[u8]) -> std::collections::BTreeSet<String> {
    let text = String::from_utf8_lossy(raw);
    let mut out = std::collections::BTreeSet::new();
    for part in text.split("\x1b[").skip(1) {
        let Some(end) = part.find(|c: char| !c.is_ascii_digit() && c != ';').filter(|end| part[*end..].starts_with('m')) else { continue };
        let codes: Vec<&str> = part[..end].split(';').collect();
        let mut i = 0;
        while i < codes.len() {
            let length = match (codes[i], codes.get(i + 1)) {
                ("38" | "48" | "58", Some(&"5")) => 3,
                ("38" | "48" | "58", Some(&"2")) => 5,
                _ => 1,
            };
            out.insert(codes[i..(i + length).min(codes.len())].iter().take(2).copied().collect::<Vec<_>>().join(";"));
            i += length;
        }
    }
    out
}

fn is_color(code: &str) -> bool {
    let first: u32 = code.split(';').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    matches!(first, 30..=38 | 40..=48 | 90..=107)
}

/// All that is sent while every pane is shown.
fn sent_with(args: &[&str], env: &[(&str, &str)]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let mut s = still(dir.path(), "+70s", args, env);
    for key in "23456789".chars() {
        s.press(&key.to_string(), "another pane", {
            let before = s.look(rows);
            move |s| rows(s) != before
        });
    }
    s.press("fstep\r", "the search", |s| has(s, "search \"step\""));
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    s.raw()
}

#[test]
fn colors_are_what_the_terminal_and_the_user_allow() {
    for (args, env) in [
        (vec![], vec![("NO_COLOR", "1"), ("COLORTERM", "truecolor")]),
        (vec!["--no-color"], vec![]),
        (vec![], vec![("TERM", "dumb")]),
        (vec!["--theme", "mono"], vec![("COLORTERM", "truecolor")]),
    ] {
        let codes = sgr(&sent_with(&args, &env));
        assert!(!codes.iter().any(|c| is_color(c)), "{args:?} {env:?}: {codes:?}");
        assert!(codes.contains("1") && codes.contains("7"), "what colours say is said otherwise: {codes:?}");
    }
    let sixteen = sgr(&sent_with(&[], &[("TERM", "xterm")]));
    assert!(sixteen.iter().any(|c| is_color(c)) && !sixteen.iter().any(|c| c.contains("38;") || c.contains("48;")), "{sixteen:?}");
    let theme = format!("{}/assets/themes/dark.toml", env!("CARGO_MANIFEST_DIR"));
    for name in ["dark", "light", &theme] {
        let codes = sgr(&sent_with(&["--theme", name], &[("COLORTERM", "truecolor")]));
        assert!(codes.contains("38;2"), "{name}: {codes:?}");
    }
    let indexed = sgr(&sent_with(&[], &[]));
    assert!(indexed.contains("38;5") && !indexed.contains("38;2"), "{indexed:?}");
}

#[test]
fn without_utf8_only_ascii_is_sent() {
    let raw = sent_with(&[], &[("LC_ALL", "C")]);
    assert!(raw.iter().all(|b| *b < 0x80), "{:?}", String::from_utf8_lossy(&raw).chars().find(|c| !c.is_ascii()));
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("gr\u{f6}\u{df}e.log");
    append(
        &log,
        "h:1:1 [0] NCCL WARN gr\u{f6}\u{df}er \u{6e2c}\u{8a66} \u{1f525}\nE1121 00:05:26.947000 100 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -9) local_rank: 1 (pid: 102) of binary: /\u{6e2c}/python\n",
    );
    let mut s = live(dir.path(), &[log.to_str().unwrap()], &[("LC_ALL", "C"), ("NCCL_TOP_ALERT", "note")], 40, 120);
    s.wait_for("rank-exited");
    s.wait_for("gr??er");
    s.press("7", "the log", |s| title(s).starts_with("Log"));
    s.press("6", "the findings", |s| title(s).starts_with("Findings"));
    s.press("c", "the command", |s| has(s, "Sent to the clipboard"));
    s.press("7", "no popup", |s| !has(s, "clipboard"));
    s.press("f\u{f6}\r", "a match", |s| footer(s).contains("match 1 of 1"));
    s.keys("\x03");
    assert_eq!(s.wait_end(), 0);
    assert!(s.raw().iter().all(|b| *b < 0x80), "{}", String::from_utf8_lossy(&s.raw()));
}

/// The program with a config file, without a terminal.
fn with_config(dir: &Path, text: &str, args: &[&str]) -> Output {
    let config = dir.join("c.toml");
    std::fs::write(&config, text).unwrap();
    Command::new(PROGRAM).args(["--config", "c.toml"]).args(args).current_dir(dir).env("HOME", dir).output().unwrap()
}

#[test]
fn mistakes_in_settings_and_themes_are_told_before_the_screen_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t.toml"), "text = {}\n\nact = { fg = \"crimson\" }\n").unwrap();
    for (config, says) in [
        ("[keys]\nleave = \"x\"\n", "c.toml:2: keys: unknown action \"leave\", expected one of help, quit"),
        ("\n[keys]\nquit = \"hyper-x\"\n", "c.toml:3: keys: found \"hyper-x\", expected a character"),
        ("[keys]\nquit = 3\n", "c.toml:2: keys: quit: expected a key or a list of keys"),
        ("[keys]\nhelp = \"x\"\nquit = [\"x\", \"ctrl-q\"]\n", "c.toml:3: keys: \"x\" is bound to both help and quit"),
        ("[keys]\nzoom = \"q\"\n", "c.toml:2: keys: \"q\" is bound to both quit and zoom"),
        ("[keys]\nquit = []\n", "c.toml:2: keys: quit has no key"),
        ("utc = false\nmoose = true\n", "c.toml:2: unknown setting \"moose\", expected one of interval, utc"),
        ("mouse = \"perhaps\"\n", "c.toml:1: mouse: found \"perhaps\", expected true or false"),
        ("\ninterval = 3\n", "c.toml:2: interval: found \"3\", expected a duration"),
        ("keys = 3\n", "c.toml"),
        ("alert = \"siren\"\n", "c.toml:1: alert: found \"siren\", expected one of \"off\", \"bell\", \"note\""),
        ("theme = \"./t.toml\"\n", "c.toml:1: theme: ./t.toml:3: found \"crimson\", expected"),
        ("theme = \"neon\"\n", "c.toml:1: theme: no theme \"neon\", expected one of colorblind, dark, light, high-contrast, nord"),
    ] {
        let out = with_config(dir.path(), config, &["config"]);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{config:?}: {text}");
        assert!(text.starts_with(&format!("nccl-top: {says}")), "{config:?}: {text}");
    }
    let mut s = live(dir.path(), &["--theme", "./t.toml"], &[], 24, 80);
    assert_eq!(s.wait_end(), 2);
    assert!(s.text().starts_with("nccl-top: --theme: ./t.toml:3: found \"crimson\""), "{}", s.text());
    assert!(find(&s.raw(), b"\x1b[").is_none(), "the screen was touched");
}

#[test]
fn keys_given_to_other_actions_work_and_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("c.toml");
    let text = "axis = \"5m\"\n[keys]\nquit = [\"v\", \"ctrl-q\"]\nhelp = \"f3\"\nzoom = []\nnext-pane = \"alt-n\"\n";
    std::fs::write(&config, text).unwrap();
    let mut s = still(dir.path(), "+70s", &["--config", config.to_str().unwrap()], &[]);
    assert!(s.look(footer).contains("v quit") && s.look(footer).contains("f3 help"), "{}", s.look(footer));
    assert!(s.text().contains("last 5 min"));
    s.press("\x1bn", "the next pane", |s| focused(s) == "GPUs");
    s.press("\x1bOR", "help", |s| has(s, " Help") && has(s, "  alt-n   ") && !has(s, "zoom the focused pane, or leave the zoom"));
    s.press("/ctrl-q", "the keys of the program", |s| has(s, "v  ctrl-q"));
    s.keys("\r\x1bOR");
    s.press("\x1bOR", "no help", |s| !has(s, " Help"));
    s.keys("q?z");
    s.press("9", "the sources, for those keys do nothing now", |s| title(s).starts_with("Sources"));
    s.keys("\x11");
    assert_eq!(s.wait_end(), 0);
    s.assert_restored();

    // What is printed is a file with the same values.
    let printed = with_config(dir.path(), text, &["config"]);
    let again = with_config(dir.path(), &String::from_utf8(printed.stdout.clone()).unwrap(), &["config"]);
    let values = |out: &Output| -> Vec<String> {
        let text = String::from_utf8(out.stdout.clone()).unwrap();
        text.lines().filter(|l| !l.starts_with('#')).map(|l| l.split("    # from").next().unwrap().to_owned()).collect()
    };
    assert_eq!((printed.status.code(), again.status.code()), (Some(0), Some(0)), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(values(&printed), values(&again));
    assert!(values(&printed).contains(&"quit = [\"v\", \"ctrl-q\"]".to_owned()));
}

#[test]
fn a_critical_finding_draws_attention_once_and_a_past_one_does_not() {
    let count = |raw: &[u8], what: &[u8]| raw.windows(what.len()).filter(|w| *w == what).count();
    for (alert, at, bells, notes) in [("bell", 57, 1, 0), ("note", 57, 1, 1), ("off", 57, 0, 0), ("bell", 70, 0, 0), ("note", 70, 0, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let at_text = format!("+{at}s");
        let args = ["replay", &tape("hang"), "--at", &at_text, "--speed", "4"];
        let mut s = Screen::start(&args, dir.path(), &[("NCCL_TOP_ALERT", alert)], 40, 120);
        s.wait_until("found", |s| has(s, "STUCK") && offset(s) > at.max(FOUND_S) + 2);
        // Nor does it when it is only gone over.
        if at == 70 {
            s.press("H", "the start", |s| offset(s) <= 2);
            s.press("L", "the end", |s| has(s, "· end"));
        }
        s.keys("q");
        assert_eq!(s.wait_end(), 0);
        let raw = s.raw();
        assert_eq!((count(&raw, b"\x07"), count(&raw, b"\x1b]9;")), (bells, notes), "{alert} at {at}");
        if let Some(from) = find(&raw, b"\x1b]9;") {
            let note = raw[from + 4..].split(|b| *b == 7).next().unwrap();
            assert!(
                note.starts_with(b"nccl-top: rank 3 (GPU 3, pid 1453) has not joined") && note.iter().all(|b| (0x20..0x7f).contains(b))
            );
        }
    }
}

mod table {
    use nccl_top::tui::actions::{Action, KEYS};
    use nccl_top::tui::keys::{Chord, Keymap, as_markdown};
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use std::collections::BTreeSet;

    #[test]
    fn the_table_is_sound() {
        Keymap::default().check().unwrap();
        let names: BTreeSet<&str> = KEYS.iter().map(|k| k.name).collect();
        assert_eq!(names.len(), KEYS.len());
        for key in KEYS.iter() {
            assert!(!key.keys.is_empty() && key.help.len() > 5, "{}", key.name);
            for text in key.keys {
                assert_eq!(Chord::parse(text).unwrap().to_string(), *text);
            }
        }
        for pane in 1..=nccl_top::tui::panes::PANES.len() + 1 {
            assert!(KEYS.iter().any(|k| k.action == Action::Pane(pane as u8)), "pane {pane} has no key");
        }
    }

    #[test]
    fn the_docs_show_the_table() {
        let docs = include_str!("../../docs/SCREEN.md");
        assert!(docs.contains(&as_markdown()), "the table of keys in docs/SCREEN.md should be:\n{}", as_markdown());
    }

    #[test]
    fn keys_are_read_as_terminals_tell_them() {
        let keys = Keymap::default();
        let press = |code, modifiers| keys.action(&KeyEvent::new(code, modifiers));
        assert_eq!(press(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Action::Bottom));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::NONE), Some(Action::Copy));
        assert_eq!(press(KeyCode::BackTab, KeyModifiers::SHIFT), Some(Action::PreviousPane));
        assert_eq!(press(KeyCode::Char(' '), KeyModifiers::NONE), Some(Action::Pause));
        assert_eq!(press(KeyCode::Char('é'), KeyModifiers::NONE), None);
    }

    #[test]
    fn keys_can_be_given_to_other_actions() {
        let mut keys = Keymap::default();
        keys.bind("quit", &["v", "ctrl-q"]).unwrap();
        keys.check().unwrap();
        assert_eq!(keys.action(&KeyEvent::new(KeyCode::Char('q'), KeyModifiers::CONTROL)), Some(Action::Quit));
        assert_eq!(keys.action(&KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)), None);
        assert!(keys.bind("leave", &["v"]).unwrap_err().starts_with("unknown action \"leave\", expected one of help, quit"));
        assert!(keys.bind("quit", &["hyper-x"]).unwrap_err().starts_with("found \"hyper-x\", expected a character"));
        keys.bind("help", &["v"]).unwrap();
        assert_eq!(keys.check().unwrap_err(), "\"v\" is bound to both help and quit; give one of them another key");
        keys.bind("quit", &[]).unwrap();
        assert!(keys.check().unwrap_err().starts_with("quit has no key"));
    }
}
