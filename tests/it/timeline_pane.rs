//! The timeline of the screen: each cell of a strip shows what the GPU did at that time, old cells stand still, and the rank to look at
//! is to be seen.

use crate::support::worlds;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::base::units::seconds;
use nccl_top::diagnosis::session::Session;
use nccl_top::model::deeds::{Deeds, Doing};
use nccl_top::model::gpu::Activity;
use nccl_top::observe::Body;
use nccl_top::recording::tape::Reader;
use nccl_top::tui::choices::Ui;
use nccl_top::tui::log_view;
use nccl_top::tui::panes::{Ctx, PANES, timeline};
use nccl_top::tui::repeats::Run;
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use nccl_top::tui::widgets::time_axis::TimeAxis;
use proptest::prelude::*;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

/// A moment of a recording, and what the model has called each GPU in each second up to then, seconds counted from the Unix epoch.
struct Moment {
    session: Session,
    was: BTreeMap<u32, BTreeMap<i64, Activity>>,
}

fn second(at: Stamp) -> i64 {
    at.0.div_euclid(1_000_000_000)
}

/// Some moments of a recording.
fn moments(name: &str, every: usize) -> Vec<Moment> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/tapes/{name}.jsonl.gz"));
    let mut reader = Reader::open(&path).unwrap();
    let mut session = reader.header().session();
    let mut was: BTreeMap<u32, BTreeMap<i64, Activity>> = BTreeMap::new();
    let mut out = Vec::new();
    let mut ticks = 0;
    while let Some(seen) = reader.read().unwrap() {
        session.apply(&seen, &mut Vec::new());
        if let Body::Gpus { gpus } = &seen.body {
            for gpu in gpus {
                was.entry(gpu.index).or_default().insert(second(seen.at), session.model.gpus[&gpu.index].activity);
            }
        }
        ticks += usize::from(seen.body == Body::Tick);
        if seen.body == Body::Tick && ticks % every == 0 {
            out.push(Moment { session: session.clone(), was: was.clone() });
        }
    }
    out
}

static MOMENTS: LazyLock<Vec<Moment>> =
    LazyLock::new(|| ["hang", "slow", "pair-checkpoint-45", "oom", "pipe-hang-last"].iter().flat_map(|name| moments(name, 20)).collect());

/// The pane alone, as large as asked.
fn drawn(session: &Session, window: Duration, (width, height): (u16, u16), theme: &Theme) -> Buffer {
    let mut ui = Ui::new(Zone::UTC);
    (ui.size, ui.window) = ((width, height), window);
    let pane = view::pane_index("timeline");
    let ctx = Ctx { session, ui: &ui, theme, pane, zoomed: true, focused: true };
    let area = Rect::new(0, 0, width, height);
    let mut buf = Buffer::empty(area);
    (PANES[pane].draw)(&ctx, area, &mut buf);
    buf
}

fn rows(buf: &Buffer) -> Vec<&[Cell]> {
    buf.content().chunks(usize::from(buf.area().width)).collect()
}

fn text(row: &[Cell]) -> String {
    row.iter().map(Cell::symbol).collect()
}

/// The GPU of each row that is a strip of one.
fn strips(buf: &Buffer, labels: u16) -> BTreeMap<u32, Vec<Cell>> {
    let gpu = |row: &[Cell]| text(&row[..usize::from(labels)]).rsplit_once("GPU ")?.1.trim().parse().ok();
    rows(buf).into_iter().filter_map(|row| Some((gpu(row)?, row[usize::from(labels)..].to_vec()))).collect()
}

/// What a cell may stand for.
fn meant(sign: &str, late: bool) -> &'static [Activity] {
    match sign {
        "▚" if late => &[Activity::Working, Activity::Idle, Activity::Waiting],
        "▓" => &[Activity::Working, Activity::Waiting],
        "▂" | "▃" | "▄" | "▅" | "▆" | "▇" | "═" => &[Activity::Working],
        "░" => &[Activity::Waiting],
        "×" | "▁" => &[Activity::Idle],
        "▒" => &[Activity::Idle, Activity::Waiting],
        "†" => &[Activity::Lost],
        "╌" => &[Activity::Unknown],
        other => panic!("{other:?} is no sign of a strip"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Of all that a GPU did within a cell's time the cell shows something that it did do; where nothing was seen, what was seen shortly
    /// before, or that nothing was.
    #[test]
    fn a_strip_shows_what_the_model_says(moment in 0..MOMENTS.len(), width in 92u16..300, height in 12u16..50, window in 30u64..900) {
        const HOLDS: i64 = 4;
        let Moment { session, was } = &MOMENTS[moment];
        let window = Duration::from_secs(window);
        let theme = Theme::load("colorblind", Depth::Indexed).unwrap();
        let labels = timeline::labels(width);
        let axis = TimeAxis::of_live(session.model.started.unwrap(), session.model.now, window, usize::from(width - labels));
        let buf = drawn(session, window, (width, height), &theme);
        let strips = strips(&buf, labels);
        prop_assert_eq!(strips.len(), session.model.gpus.len());
        for (gpu, cells) in strips {
            for (i, cell) in cells.iter().enumerate() {
                let (from, to) = (second(axis.start(i)), second(Stamp(axis.start(i + 1).0 - 1)));
                let did: Vec<Activity> = was[&gpu].range(from..=to).map(|(_, a)| *a).collect();
                let before: Vec<Activity> = was[&gpu].range(from - HOLDS..from).map(|(_, a)| *a).collect();
                match cell.symbol() {
                    // A mark hides a cell.
                    "│" => {}
                    " " => prop_assert!(i > axis.newest(), "cell {i} of GPU {gpu} is empty"),
                    sign => {
                        prop_assert!(i <= axis.newest(), "cell {i} of GPU {gpu} is in the future");
                        let meant = meant(sign, cell.fg == theme.act.fg.unwrap());
                        let fits = |of: &[Activity]| of.iter().any(|a| meant.contains(a));
                        let ok = if did.is_empty() { fits(&before) || sign == "╌" } else { fits(&did) };
                        prop_assert!(ok, "GPU {gpu}, cell {i} of {axis:?}: {sign} for {did:?} after {before:?}");
                    }
                }
            }
        }
    }

    /// While time goes on, what is drawn stays where it is, or all of it moves by several cells.
    #[test]
    fn the_axis_stands_still(since in 0i64..1_000_000, cells in 4usize..300, window in 30u64..900, after in 0i64..2_000) {
        let at = |s: i64| Stamp((1_700_000_000 + s) * 1_000_000_000 + 123_456_789);
        let axis = |now: i64| TimeAxis::new(at(since), at(since + now), Duration::from_secs(window), cells);
        let (before, now) = (axis(after), axis(after + 1));
        prop_assert!(now.from <= now.now && now.now < now.end(), "{:?}", now);
        let moved = now.from.since(before.from).as_nanos() / now.step.as_nanos();
        prop_assert!(moved == 0 || moved >= (cells / 8).max(2) as u128, "moved by {moved} of {cells}");
        // Whatever is still shown has moved by as much.
        if let Some(cell) = before.cell(at(since + after)) {
            prop_assert_eq!(now.cell(at(since + after)).map(|c| c as u128 + moved), Some(cell as u128));
        }
    }

    #[test]
    fn deeds_are_kept_by_the_second(all in prop::collection::vec((0i64..40, 0usize..6), 1..60), far: bool) {
        const DOINGS: [Option<Doing>; 6] =
            [None, Some(Doing::Idle), Some(Doing::Waiting), Some(Doing::Communicating), Some(Doing::Working), Some(Doing::Lost)];
        let at = |s: i64| Stamp(s * 1_000_000_000 + 5);
        let mut deeds = Deeds::default();
        let (mut now, mut known) = (1_700_000_000, BTreeMap::new());
        for (later, doing) in all {
            now += later * if far { 40 } else { 1 };
            deeds.push(at(now), DOINGS[doing]);
            known.insert(now, DOINGS[doing]);
            prop_assert!(deeds.len() <= Deeds::MOST);
        }
        let n = Deeds::MOST as i64;
        let columns = deeds.columns(Stamp((now - n + 1) * 1_000_000_000), Duration::from_secs(1), n as usize, Duration::ZERO);
        let wanted: Vec<Option<Doing>> = (now - n + 1..=now).map(|s| known.get(&s).copied().flatten()).collect();
        prop_assert_eq!(columns, wanted);
    }
}

/// The recordings of a rank that is late, and of one that stops, at their end: in whose strip which signs are in the colour of alarm.
#[test]
fn the_rank_to_look_at_is_seen() {
    let theme = Theme::load("colorblind", Depth::Indexed).unwrap();
    for (name, gpu, sign) in [("slow", 2, None), ("hang", 3, Some("×"))] {
        let Moment { session, .. } = moments(name, 10).into_iter().rev().find(|m| !m.session.ledger.open().is_empty()).unwrap();
        let buf = drawn(&session, Duration::from_secs(120), (120, 16), &theme);
        for (of, cells) in strips(&buf, timeline::labels(120)) {
            let red = cells.iter().filter(|c| c.fg == theme.act.fg.unwrap() && c.symbol() != "│" && sign.is_none_or(|s| c.symbol() == s));
            let red = red.count();
            assert!(if of == gpu { red >= 10 } else { red == 0 }, "{name}: {red} red cells of GPU {of}");
        }
        let marked: Vec<String> = rows(&buf).into_iter().map(text).filter(|row| row.starts_with('►')).collect();
        assert!(matches!(marked.as_slice(), [one] if one.contains(&format!("GPU {gpu}"))), "{name}: {marked:?}");
    }
}

/// Where there are fewer rows than GPUs the one to look at keeps its row, and the others share one.
#[test]
fn what_does_not_fit_shares_a_row() {
    let session = worlds::hang();
    let buf = drawn(&session, Duration::from_secs(120), (80, 3), &Theme::mono());
    let all: Vec<String> = rows(&buf).into_iter().map(text).collect();
    let others = session.model.gpus.len() - 1;
    assert!(all.iter().any(|row| row.starts_with("► rank 3")), "{all:#?}");
    assert!(all.iter().any(|row| row.contains(&format!("{others} others"))), "{all:#?}");
}

/// Each sign is another one where there is neither colour nor UTF-8.
#[test]
fn signs_differ_without_colour_and_utf8() {
    let signs = ["▇", "═", "░", "×", "▒", "▁", "†", "╌"];
    let mut buf = Buffer::empty(Rect::new(0, 0, signs.len() as u16, 1));
    for (sign, x) in signs.iter().zip(0..) {
        buf[(x, 0)].set_symbol(sign);
    }
    nccl_top::tui::plain::to_ascii(&mut buf);
    let plain: std::collections::BTreeSet<&str> = buf.content().iter().map(Cell::symbol).collect();
    assert_eq!(plain.len(), signs.len(), "{plain:?}");
    assert!(plain.iter().all(|sign| sign.is_ascii()));
}

/// Lines, the newest first, that are one, and how that one reads; or that are not.
#[test]
fn lines_that_differ_in_numbers_are_one() {
    let words = |lines: &[&str]| {
        let mut run = Run::new(lines[0]);
        lines[1..].iter().all(|line| run.take(line)).then(|| (run.lines, run.words()))
    };
    for (lines, wanted) in [
        (
            &["step 12 | loss 2.31 | tokens/s 97,114", "step 11 | loss 2.29 | tokens/s 98,003", "step 10 | loss 2.30 | tokens/s 1,097,410"]
                [..],
            Some("step 10 to 12 | loss 2.29 to 2.31 | tokens/s 97,114 to 1,097,410"),
        ),
        (&["lr 2e-5 of 9", "lr 3e-05 of 9"], Some("lr 2e-5 to 3e-05 of 9")),
        // Parts of a time are no quantities.
        (&["2026-11-22 10:02:31,250 step 7", "2026-11-22 10:02:30,113 step 6"], Some("2026-11-22 10:02:31,250 step 6 to 7")),
        // Nor are digits of a name.
        (&["comm be2de794 up 1", "comm be2de795 up 1"], None),
        (&["step 12 | loss nan", "step 11 | loss 2.29"], None),
        (&["no number", "no number"], None),
        (&["schärfe 1 → 2", "schärfe 0 → 3"], Some("schärfe 0 to 1 → 2 to 3")),
    ] {
        assert_eq!(words(lines), wanted.map(|words| (lines.len(), words.to_owned())), "{lines:?}");
    }
}

/// Two jobs print steps by turns: each folded row is made of the lines of one source, and both have such rows.
#[test]
fn lines_of_two_sources_are_never_one() {
    let mut most = 0;
    for Moment { session, .. } in moments("two-jobs-slow-nan", 5) {
        let rows = log_view::folded(&Ui::new(Zone::UTC).log, &session, 8);
        assert!(rows.is_sorted_by_key(|row| row.number));
        let mut files = std::collections::BTreeSet::new();
        for (row, run) in rows.iter().filter_map(|row| Some((row, row.run.as_ref()?))) {
            let lines = session.model.logbook.numbered().rev();
            let mut own = lines.filter(|(n, l)| *n <= row.number && (l.file, l.rank) == (row.line.file, row.line.rank));
            let mut again = Run::new(&own.next().unwrap().1.text);
            assert!(own.take(run.lines - 1).all(|(_, line)| again.take(&line.text)), "{}", run.words());
            assert_eq!((again.lines, again.words()), (run.lines, run.words()));
            files.insert(row.line.file);
        }
        most = most.max(files.len());
    }
    assert_eq!(most, 2);
}

/// The step time is the newest; the top of its axis says that it is one, and is dim.
#[test]
fn the_top_of_an_axis_is_not_read_as_a_value() {
    let theme = Theme::load("colorblind", Depth::Indexed).unwrap();
    let Moment { session, .. } = moments("hang", 10).pop().unwrap();
    let (_, progress) = session.model.jobs.keys().find_map(|id| Some((id, session.model.progress_of(id)?))).unwrap();
    let last = seconds(progress.step_trend.last().unwrap().into());
    for width in [120, 64] {
        let buf = drawn(&session, Duration::from_secs(120), (width, 24), &theme);
        let labels = usize::from(timeline::labels(width));
        let left: Vec<(String, &[Cell])> = rows(&buf).into_iter().map(|row| (text(&row[..labels]), row)).collect();
        assert!(left.iter().any(|(label, _)| label.starts_with("step") && label.contains('≤')), "{left:?}");
        let now = left.iter().find(|(label, _)| label.trim().starts_with("last")).unwrap();
        assert!(now.0.trim_end().ends_with(&last), "{:?} has not {last}", now.0);
        let tops: Vec<_> = left.iter().filter(|(label, _)| label.contains('≤')).collect();
        assert!(tops.iter().any(|(label, _)| label.contains("≤ 120 ms")), "{tops:?}");
        let dim = |row: &[Cell]| row[..labels].iter().filter(|c| c.symbol() != " ").all(|c| c.fg == theme.dim.fg.unwrap());
        assert!(tops.iter().all(|(_, row)| dim(row)));
    }
}

proptest! {
    #[test]
    fn any_lines_fold_or_do_not(newest in ".{0,60}", older in prop::collection::vec(".{0,60}", 0..5), like in "([0-9]{1,3}[ :.,e-]){0,40}") {
        for line in [&newest, &like] {
            let mut run = Run::new(line);
            let taken = older.iter().filter(|older| run.take(older)).count();
            prop_assert_eq!(run.lines, taken + 1);
            prop_assert!(taken > 0 || run.words() == *line);
            let same = run.take(line);
            prop_assert_eq!(run.words().is_empty(), line.is_empty());
            prop_assert!(!same || line.bytes().any(|c| c.is_ascii_digit()));
        }
    }
}
