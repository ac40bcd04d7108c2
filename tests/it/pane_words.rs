//! No pane says what the verdict denies: over all recordings, the words of the panes beside the state of the job.

use nccl_top::base::severity::Severity;
use nccl_top::base::time::{Stamp, Zone, span};
use nccl_top::diagnosis::session::Session;
use nccl_top::diagnosis::verdict::State;
use nccl_top::model::progress::Progress;
use nccl_top::observe::Body;
use nccl_top::recording::demo::DEMOS;
use nccl_top::recording::tape::Reader;
use nccl_top::rules::{Implies, implied};
use nccl_top::tui::choices::Ui;
use nccl_top::tui::panes::{Ctx, PANES};
use nccl_top::tui::theme::Theme;
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tapes")
}

fn names() -> Vec<String> {
    let names = std::fs::read_dir(dir()).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".jsonl.gz").map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn is_healthy(name: &str) -> bool {
    let label = std::fs::read_to_string(dir().join(format!("{name}.label.json"))).unwrap();
    label.contains("\"class\": \"none\"") || label.contains("\"class\":\"none\"")
}

fn rows(buf: &Buffer) -> Vec<String> {
    let rows = buf.content().chunks(usize::from(buf.area().width));
    rows.map(|row| row.iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned()).collect()
}

/// What a pane says, beside others or alone, with the margin in which rows are marked.
fn pane(session: &Session, id: &str, (width, height): (u16, u16), zoomed: bool) -> Vec<String> {
    let pane = view::pane_index(id);
    let (mut ui, theme) = (Ui::new(Zone::UTC), Theme::mono());
    ui.size = (width + 4, height + 10);
    ui.zoom = zoomed.then_some(pane);
    let ctx = Ctx { session, ui: &ui, theme: &theme, pane, zoomed, focused: zoomed };
    let whole = Rect::new(0, 0, width + 1, height);
    let mut buf = Buffer::empty(whole);
    (PANES[pane].draw)(&ctx, Rect { x: 1, width, ..whole }, &mut buf);
    rows(&buf)
}

/// What stands above the panes.
fn verdict(session: &Session, ui: &mut Ui, size: (u16, u16)) -> Vec<String> {
    ui.size = size;
    let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    view::draw(&mut buf, session, ui, &Theme::mono());
    rows(&buf).into_iter().skip(1).take_while(|row| !row.starts_with(['╭', '─'])).collect()
}

/// A moment of a recording, and what is wrong with the words at it.
struct Moment<'a> {
    session: &'a Session,
    name: &'a str,
    at_s: f64,
    wrong: &'a mut Vec<String>,
}

impl Moment<'_> {
    fn expect(&mut self, so: bool, what: &str, rows: &[String]) {
        if !so && self.wrong.len() < 40 {
            self.wrong.push(format!("{} at {:.1} s: {what}\n{}", self.name, self.at_s, rows.join("\n")));
        }
    }

    fn check(&mut self) {
        let session = self.session;
        let Some((id, state)) = session.main_job().map(|(id, v)| (id, v.state)) else { return };
        let head: Vec<String> = verdict(session, &mut Ui::new(Zone::UTC), (120, 40));
        // Those of the first job.
        let more = head.iter().skip(1).position(|row| !row.starts_with("  ")).map_or(head.len(), |at| at + 1);
        let head = head[..more].to_vec();
        let training = [pane(session, "training", (78, 2), false), pane(session, "training", (56, 5), false)];
        let alone = pane(session, "training", (116, 30), true);
        let all = || training.iter().chain([&alone]);
        let progress = session.model.progress_of(id).filter(|p| !p.is_empty());
        let quiet = session.hesitates(id);

        // Numbers of another time stand behind their age, and nobody knows how long is left.
        let stands = quiet.is_some() || matches!(state, State::Stuck | State::Failed | State::Finished);
        for rows in all().filter(|_| stands && progress.is_some_and(|p| p.last_step_at.is_some())) {
            self.expect(rows.iter().all(|row| !row.contains("ETA")), "an ETA while it stands", rows);
            // A learning rate is set and not measured.
            let has_age = |row: &String| {
                let row = row.replace("learning rate ", "");
                !["rate ", "step time ", "loss "].iter().any(|word| numbers(&row, word)) || row.contains(" ago ")
            };
            self.expect(rows.iter().all(has_age), "numbers without an age", rows);
        }
        self.expect(!stands || head.iter().all(|row| !row.contains("ETA") && !row.contains("/step ")), "a pace in the verdict", &head);
        let head_line = head.first().cloned().unwrap_or_default();
        self.expect(quiet.is_some() == head_line.contains("NO STEP"), "amber", &head);
        if let Some(quiet) = quiet {
            let age = span(quiet.lasts);
            self.expect(head_line.contains(&format!("for {age} ")), "the age in the verdict", &head);
            self.expect(alone.iter().any(|row| row.contains(&format!("last step {age} ago"))), "the age in the pane", &alone);
        }
        // RAS may report communicators of others on its port.
        let own: Vec<String> = session.model.comms_of(&session.model.jobs[id]).map(|c| format!("{:08x}", c.hash >> 32)).collect();
        let moves = |row: &String| own.iter().any(|c| row.contains(c)) && (row.contains("  moving") || row.contains(", moving"));
        let comms = pane(session, "nccl", (116, 20), false);
        self.expect(!matches!(state, State::Stuck) && quiet.is_none() || !comms.iter().any(moves), "communicators move", &comms);
        self.pace(state, progress, &head, &alone);
        self.ages(id, state, &head);
        self.marks(id);
        let trouble = session.worst(id).is_some();
        self.expect(!trouble || head.iter().all(|row| !row.contains("no findings")), "findings are open", &head);
        if head.iter().any(|row| row.contains("no findings")) {
            let notes = session.ledger.open().iter().filter(|f| f.severity == Severity::Info).count();
            let words = if notes == 1 { "no findings, 1 note in".to_owned() } else { format!("no findings, {notes} notes in") };
            self.expect(head.iter().any(|row| row.contains(&words) == (notes > 0)), "the notes in the verdict", &head);
        }
        // What stands there can be copied, whatever was selected.
        let next = head.iter().find_map(|row| row.trim_start().strip_prefix("next: "));
        if let Some(next) = next {
            for row in 0..session.ledger.open().len().min(8) {
                let mut ui = Ui::new(Zone::UTC);
                ui.zoom = (row > 0).then(|| view::pane_index("findings"));
                ui.focus = ui.zoom.unwrap_or(ui.focus);
                let list = ui.focus;
                ui.lists[list].index = row;
                let command = view::command(session, &ui);
                self.expect(command.is_some(), "nothing to copy", &head);
                let begins = next.split(' ').take(3).collect::<Vec<_>>().join(" ");
                self.expect(row > 0 || command.is_some_and(|c| c.starts_with(&begins)), "another command is copied", &head);
            }
        }
    }

    fn pace(&mut self, state: State, progress: Option<&Progress>, head: &[String], alone: &[String]) {
        let session = self.session;
        let diverged = session.ledger.first_open(|f| matches!(f.rule, "loss-not-finite" | "loss-spike")).is_some();
        let well = state == State::Training && !diverged && progress.is_none_or(|p| p.slow.is_none());
        for rows in [head, alone] {
            self.expect(well || rows.iter().all(|row| !row.contains("steady")), "a steady pace", rows);
        }
        if progress.and_then(|p| p.loss).is_some_and(|loss| !loss.is_finite()) {
            let rows = pane(session, "training", (56, 5), false);
            let history = rows.iter().find(|row| row.contains("loss      ") && !row.contains("nothing in"));
            self.expect(history.is_none_or(|row| row.contains("NaN") || row.contains("inf")), "the history of the loss hides it", &rows);
        }
    }

    /// The age of a fact is the same wherever it stands.
    fn ages(&mut self, id: &str, state: State, head: &[String]) {
        let session = self.session;
        let runs = session.model.jobs.get(id).is_some_and(|j| j.ended_at.is_none());
        let Some(finding) = session.deciding(id).filter(|_| runs) else { return };
        let decides = match implied(finding) {
            Implies::Slow => state == State::Slow,
            Implies::Stuck => state == State::Stuck,
            Implies::Failed => state == State::Failed,
            Implies::Nothing => false,
        };
        if decides {
            let age = span(session.model.now.on_clock_since(finding.since));
            let line = head.first().cloned().unwrap_or_default();
            self.expect(line.contains(&format!(" {age} since ")), "the age in the verdict", head);
            // It is the difference of the two times of day on the screen.
            let since = line.split_once(" since ").map(|(_, rest)| of_day(rest));
            let clock = of_day(&Zone::UTC.hms(session.model.now));
            let lasted = since.map(|since| span(Duration::from_secs((clock + 86_400 - since) % 86_400)));
            self.expect(lasted.as_ref() == Some(&age), "the age beside the time of day", head);
            let rows = pane(session, "findings", (116, 10), false);
            let shown = format!("{age:>8}  {} ", finding.rule);
            self.expect(rows.iter().any(|row| row.contains(&shown)), "the age of its finding", &rows);
        }
    }

    /// Whom the verdict names is marked wherever it has a row.
    fn marks(&mut self, id: &str) {
        let session = self.session;
        let count = |rows: &[String]| rows.iter().filter(|row| row.starts_with('►')).count();
        let named = session.named(id);
        let model = &session.model;
        for (size, zoomed) in [((78, 9), false), ((116, 30), true)] {
            let rows = pane(session, "gpus", size, zoomed);
            let gpus = model.gpus.keys().filter(|index| session.culprits.gpu(**index).is_some()).count();
            self.expect(count(&rows) == gpus, "the marks of GPUs", &rows);
            let rows = pane(session, "processes", (size.0, 30), zoomed);
            let gone = |pid: &u32| model.jobs.values().any(|j| j.pids().any(|p| p == *pid)) || model.processes[pid].is_alive();
            let pids = model.processes.keys().filter(|pid| session.culprits.pid(**pid).is_some() && gone(pid)).count();
            self.expect(count(&rows) == pids, "the marks of processes", &rows);
            let rows = pane(session, "findings", size, zoomed);
            self.expect(named.is_none() || count(&rows) >= 1, "the mark of the finding", &rows);
        }
        let blamed = named.filter(|f| f.job.as_deref() == Some(id)).is_some_and(|f| !f.ranks.is_empty() || !f.gpus.is_empty());
        let here = model.gpus.keys().any(|index| session.culprits.gpu(*index).is_some());
        let ranks = named.map(|f| f.ranks.clone()).unwrap_or_default();
        let local =
            model.jobs.get(id).is_some_and(|j| ranks.iter().any(|r| j.ranks.get(r).is_some_and(|pid| model.gpu_of_pid(*pid).is_some())));
        let rows = pane(session, "gpus", (116, 12), false);
        self.expect(!blamed || !local || here, "no GPU is marked for the rank that is named", &rows);
    }
}

/// Seconds since midnight, of a text that begins with a time of day.
fn of_day(text: &str) -> u64 {
    text[..8].split(':').fold(0, |sum, part| sum * 60 + part.parse::<u64>().unwrap())
}

/// Whether a label is followed by a number.
fn numbers(row: &str, label: &str) -> bool {
    // A learning rate is no pace.
    let row = row.replace("learning rate ", "");
    row.match_indices(label).any(|(at, _)| row[at + label.len()..].starts_with(|c: char| c.is_ascii_digit()) && !row.contains("▁"))
        && !row.trim_start().starts_with("loss      ")
        && !row.trim_start().starts_with("step time ▁")
}

/// How a recording went: seconds in amber, how often it began, and when first.
#[derive(Default)]
struct Amber {
    ticks: usize,
    times: usize,
    first_s: Option<f64>,
    stuck_s: Option<f64>,
    all: usize,
}

fn play(name: &str, wrong: &mut Vec<String>) -> Amber {
    let mut reader = Reader::open(&dir().join(format!("{name}.jsonl.gz"))).unwrap();
    let mut session = reader.header().session();
    let mut changes = Vec::new();
    let (mut amber, mut was, mut began): (Amber, bool, Option<Stamp>) = (Amber::default(), false, None);
    let (mut no, mut last, mut soon) = (0usize, State::Idle, 0usize);
    while let Some(seen) = reader.read().unwrap() {
        let at_s = seen.at.secs_since(*began.get_or_insert(seen.at));
        session.apply(&seen, &mut changes);
        changes.clear();
        no += 1;
        let state = session.state().0;
        if state != last {
            (last, soon) = (state, 3);
        }
        let is_tick = seen.body == Body::Tick;
        if is_tick {
            amber.all += 1;
            let is = session.main_job().is_some_and(|(id, _)| session.hesitates(id).is_some());
            amber.ticks += usize::from(is);
            amber.times += usize::from(is && !was);
            amber.first_s = amber.first_s.or(is.then_some(at_s));
            amber.stuck_s = amber.stuck_s.or((state >= State::Slow).then_some(at_s));
            was = is;
        }
        // At some seconds, just after each change, and now and then in between.
        let near = is_tick && soon > 0;
        soon = soon.saturating_sub(usize::from(is_tick));
        if near || is_tick && amber.all.is_multiple_of(5) || no.is_multiple_of(97) {
            Moment { session: &session, name, at_s, wrong: &mut *wrong }.check();
        }
    }
    amber
}

#[test]
fn no_pane_says_what_the_verdict_denies() {
    let names = names();
    let next = AtomicUsize::new(0);
    let some = || {
        let mut wrong = Vec::new();
        let mut ambers: Vec<(&String, Amber)> = Vec::new();
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            ambers.push((name, play(name, &mut wrong)));
        }
        (wrong, ambers)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut wrong, mut ambers) = (Vec::new(), BTreeMap::new());
    std::thread::scope(|scope| {
        let hands: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        for (more, amber) in hands.into_iter().map(|hand| hand.join().unwrap()) {
            wrong.extend(more);
            ambers.extend(amber);
        }
    });
    assert!(wrong.is_empty(), "{} wrong, of which the first:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n\n"));
    // Amber is a look, and rare where nothing is wrong: once at most, at a pause that no line names and that is the first of its kind.
    let healthy: Vec<_> = ambers.iter().filter(|(name, amber)| is_healthy(name) && amber.times > 0).collect();
    let flash: Vec<_> = healthy
        .iter()
        .filter(|(_, amber)| amber.times > 1 || amber.ticks > 15)
        .map(|(name, amber)| (name, amber.times, amber.ticks))
        .collect();
    assert!(flash.is_empty(), "{flash:?} flash");
    // Half of these were recorded for a pause.
    assert!(healthy.len() <= 14, "{} healthy recordings are amber", healthy.len());
    // Where a rank stops, it comes long before the verdict.
    for name in ["hang", "hang-noras", "pair-hang-quiet", "symmetric", "order"] {
        let amber = &ambers[&name.to_owned()];
        let ahead = amber.first_s.zip(amber.stuck_s).map(|(amber, stuck)| stuck - amber);
        assert!(ahead.is_some_and(|s| s >= 6.0), "{name}: {ahead:?}");
    }
}

/// A recording up to a second of it.
fn at(name: &str, second: f64) -> Session {
    let mut reader = Reader::open(&dir().join(format!("{name}.jsonl.gz"))).unwrap();
    let mut session = reader.header().session();
    let mut began = None;
    while let Some(seen) = reader.read().unwrap().filter(|seen| seen.at.secs_since(*began.get_or_insert(seen.at)) < second) {
        session.apply(&seen, &mut Vec::new());
    }
    session
}

/// What stands in a pane of some recordings at some second.
#[test]
fn panes_say_what_is_known() {
    for (name, second, id, parts) in [
        // Who was killed keeps his rank and pid beside his GPU.
        ("kill", 1e9, "gpus", &["# rank     pid activity", "3    3    3646 ended"][..]),
        ("pair-data-server", 1e9, "training", &["no step read from the 16 lines of the log"]),
        ("pipe-hang-last", 47.0, "nccl", &["counts equal; sends and receives are not counted, unchanged "]),
    ] {
        let rows = pane(&at(name, second), id, (116, 12), false);
        assert!(parts.iter().all(|part| rows.iter().any(|row| row.contains(part))), "{name}: {rows:#?}");
    }
}

/// However narrow the pane is, a number of its histories has its unit.
#[test]
fn histories_lose_words_before_units() {
    let mut seen = 0;
    for (name, second) in [("pair-slow-rank1", 1e9), ("two-jobs-slow-nan", 32.0), ("slow", 1e9)] {
        let session = at(name, second);
        for width in 28..80 {
            let rows = pane(&session, "training", (width, 9), false);
            let of_times = rows.iter().map(|row| row.trim()).filter(|row| row.starts_with("step time ") && row.contains(['▁', '▇']));
            for row in of_times {
                let words = row.trim_start_matches("step time").trim_start_matches([' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇']);
                let last = words.split(' ').next_back();
                assert!(matches!(last, Some("ms" | "s" | "")), "{name} at {width}: {row:?}");
                seen += usize::from(words.contains(" to "));
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

/// A line that says that no step came stands under no verdict that all is well.
#[test]
fn captions_agree_with_the_verdict() {
    let mut seen_one = false;
    for demo in DEMOS {
        let mut reader = demo.open().unwrap();
        let mut session = reader.header().session();
        let (mut began, mut changes) = (None, Vec::new());
        while let Some(seen) = reader.read().unwrap() {
            let offset = seen.at.since(*began.get_or_insert(seen.at));
            session.apply(&seen, &mut changes);
            changes.clear();
            let caption = demo.caption_at(offset);
            let Some((id, state)) = session.main_job().map(|(id, v)| (id, v.state)) else { continue };
            let stands = state == State::Stuck || session.hesitates(id).is_some();
            // The state is judged at the next second.
            let says_so = caption.contains("No step after") && seen.body == Body::Tick;
            seen_one |= says_so;
            assert!(!says_so || stands, "{} at {offset:?}: {caption}", demo.name);
        }
    }
    assert!(seen_one);
}
