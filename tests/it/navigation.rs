//! Ways about the screen that need no terminal: filters of panes, the job, all about one thing.

use crate::support::worlds;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use nccl_top::base::severity::Severity;
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::diagnosis::verdict::State;
use nccl_top::edge::py_spy::Stack;
use nccl_top::logs::prefilter::Class;
use nccl_top::model::log::Kept;
use nccl_top::rules::findings::Finding;
use nccl_top::tui::choices::{Effect, Ui};
use nccl_top::tui::details;
use nccl_top::tui::panes::{Ctx, PANES};
use nccl_top::tui::theme::Theme;
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::BTreeSet;

/// A screen of a world that stands still.
struct Still {
    session: Session,
    ui: Ui,
}

impl Still {
    fn of(session: Session, size: (u16, u16)) -> Still {
        let mut ui = Ui::new(Zone::UTC);
        ui.size = size;
        Still { session, ui }
    }

    /// Presses keys one after the other: `⏎` is enter, `⎋` escape, `⇥` tab, `⌫` backspace.
    fn press(&mut self, keys: &str) -> Effect {
        let mut last = Effect::None;
        for c in keys.chars() {
            let code = match c {
                '⏎' => KeyCode::Enter,
                '⎋' => KeyCode::Esc,
                '⇥' => KeyCode::Tab,
                '⌫' => KeyCode::Backspace,
                c => KeyCode::Char(c),
            };
            last = self.ui.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), &self.session, &Theme::mono());
        }
        last
    }

    fn rows(&self) -> Vec<String> {
        let mut buf = Buffer::empty(Rect::new(0, 0, self.ui.size.0, self.ui.size.1));
        view::draw(&mut buf, &self.session, &self.ui, &Theme::mono());
        let rows = buf.content().chunks(usize::from(self.ui.size.0));
        rows.map(|row| row.iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned()).collect()
    }

    fn text(&self) -> String {
        self.rows().join("\n")
    }

    fn shows(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// Names of the rows of the pane that keys go to.
    fn names(&self) -> Vec<String> {
        let (pane, theme) = (self.ui.target(), Theme::mono());
        let ctx = Ctx { session: &self.session, ui: &self.ui, theme: &theme, pane, zoomed: self.ui.zoom.is_some(), focused: true };
        (PANES[pane].rows)(&ctx)
    }
}

#[test]
fn a_filter_leaves_rows_of_the_pane_in_focus_and_nothing_else() {
    // Pane, what is typed, and how many rows of how many it leaves.
    for (key, id, typed, left, of) in [
        ("3", "gpus", "waiting", 3, 4),
        ("3", "gpus", "!waiting", 1, 4),
        ("3", "gpus", "rank:1-2", 2, 4),
        ("6", "findings", "hang-rank", 1, 2),
        ("6", "findings", "rank:3", 1, 2),
        ("8", "processes", "rank:3", 1, 5),
        ("8", "processes", "/145[01]/", 2, 5),
    ] {
        let mut s = Still::of(worlds::hang(), (120, 40));
        s.press(key);
        assert_eq!(s.names().len(), of, "{id}: {:?}", s.names());
        s.press("/");
        s.press(typed);
        assert_eq!(s.names().len(), left, "{id} {typed}: {:?}", s.names());
        let title = s.rows().into_iter().find(|row| row.starts_with('╭')).unwrap();
        assert!(title.contains(&format!("only {typed}")), "{title}");
        // It stays when the prompt is left, and other panes have theirs.
        s.press("⏎");
        assert_eq!(s.names().len(), left);
        let pane = s.ui.target();
        assert!((0..PANES.len()).all(|other| other == pane || s.ui.filter_of(other).is_empty()));
        s.press("⎋");
        assert_eq!((s.names().len(), s.ui.zoom), (of, Some(pane)), "esc clears it first");
    }
}

#[test]
fn ports_communicators_and_sources_are_filtered_too() {
    let mut s = Still::of(worlds::p5(), (120, 40));
    s.press("4/rdmap147");
    assert!(s.names().len() == 1 && s.shows("only rdmap147"), "{:?}\n{}", s.names(), s.text());
    s.press("⎋5/zzz");
    assert!(s.names().is_empty() && s.shows("nothing passes the filter; esc clears it"), "{}", s.text());
    s.press("⎋9/NVML");
    assert!((1..4).contains(&s.names().len()), "{}", s.text());
}

#[test]
fn a_filter_follows_each_key_and_one_that_is_not_finished_changes_nothing() {
    let mut s = Still::of(worlds::hang(), (120, 40));
    s.press("8/145");
    let some = s.names();
    s.press("3");
    assert!(s.names().len() < some.len(), "{:?}", s.names());
    s.press("⌫");
    assert_eq!(s.names(), some);
    s.press(" rank:x");
    assert!(s.names() == some && s.shows("expected a rank"), "{}", s.text());
    s.press("⌫3");
    assert_eq!(s.names().len(), 1);
    s.press("⎋");
    assert!(s.names().len() == 5 && !s.shows("show only"), "{}", s.text());
}

#[test]
fn a_title_leaves_room_for_the_filter() {
    let mut s = Still::of(worlds::busy_log(), (80, 24));
    s.press("7/");
    s.press("warn !traceback rank:0-3");
    let title = s.rows().into_iter().find(|row| row.starts_with('╭')).unwrap();
    assert!(title.contains("Log: ") && title.contains(", only warn !traceback rank:0-3 "), "{title}");
}

#[test]
fn finding_goes_on_while_one_types_and_leads_back() {
    let mut s = Still::of(worlds::busy_log(), (120, 40));
    s.press("7kkk");
    let stood = s.ui.log.at;
    s.press("fwar");
    let first = s.ui.log.at;
    assert!(first.is_some() && first != stood && s.shows("find: war"), "{}", s.text());
    s.press("⎋");
    assert_eq!((s.ui.log.at, s.ui.log.search.is_some()), (stood, false));
    s.press("fno such words");
    assert!(s.shows("no line matches"), "{}", s.text());
}

#[test]
fn the_job_can_be_chosen_and_everything_follows() {
    let mut s = Still::of(worlds::two_jobs(), (120, 40));
    let jobs: Vec<String> = s.ui.jobs(&s.session).into_iter().map(str::to_owned).collect();
    let head = |s: &Still| s.rows()[0].clone();
    let first_verdict = |s: &Still| s.rows()[1].clone();
    assert_eq!(jobs.len(), 3);
    let of = |no: usize| format!("job {no} of 3 (J): {}", jobs[no - 1]);
    let training = |s: &Still| s.rows().into_iter().find(|row| row.contains("Training")).unwrap();
    let told = view::command(&s.session, &s.ui);
    let (worst, _) = s.session.main_job().unwrap();
    let first = jobs.iter().position(|job| job == worst).unwrap() + 1;
    let after = |no: usize| no % 3 + 1;
    for no in [first, after(first), after(after(first))] {
        let job = &jobs[no - 1];
        assert!(head(&s).contains(&of(no)) && first_verdict(&s).contains(&format!("job {job}:")), "{}", s.text());
        assert!(training(&s).contains(&format!("of job {job}")), "{}", s.text());
        assert_eq!(view::job_told(&s.session, &s.ui).as_ref(), Some(job));
        s.press("J");
    }
    assert!(head(&s).contains(&of(first)) && s.ui.job.is_none() && s.shows("always the worst"), "{}", s.text());
    assert_eq!(view::command(&s.session, &s.ui), told);
    s.press("JJ");
    let last = after(after(first));
    assert!(s.shows(&format!("job {last} of 3: {}", jobs[last - 1])));
    assert_ne!(view::command(&s.session, &s.ui), told, "the command is that of the chosen job");
    let lines = nccl_top::tui::log_view::visible(&s.ui.log, &s.session, 1000);
    let owners: BTreeSet<&str> = lines.iter().map(|(_, line)| s.session.model.files[&line.file].job.as_str()).collect();
    assert_eq!(owners, BTreeSet::from([jobs[last - 1].as_str()]), "the log is that of the chosen job");
    assert!(s.shows(&format!("of job {} only", jobs[last - 1])), "{}", s.text());
    // So are the findings that enter leads to, where nothing worse stands beside them.
    s.press("6");
    let selected = nccl_top::tui::panes::selected_finding(&s.session, &s.ui);
    let is_its = |f: &Finding| f.job.as_ref().is_none_or(|job| *job == jobs[last - 1]);
    assert!(selected.is_none_or(|f| is_its(&f) || f.severity > Severity::Info), "{}", s.text());
    s.press("1");
    // And so are the processes and GPUs that enter leads to.
    let chosen = &s.session.model.jobs[jobs[last - 1].as_str()];
    let own: BTreeSet<String> = chosen.pids().chain(chosen.launcher).map(|pid| pid.to_string()).collect();
    s.press("8⏎");
    let opened = s.ui.detail().map(|subject| subject.key.clone());
    assert!(opened.as_ref().is_some_and(|pid| own.contains(pid)), "{opened:?} is not of {own:?}");
    s.press("q1");
    // One that is gone, as in a moment before it began, is no reason to show nothing.
    s.ui.job = Some("gone".into());
    assert!(head(&s).contains(&of(first)), "{}", s.text());

    let mut one = Still::of(worlds::hang(), (120, 40));
    one.press("J");
    assert!(one.shows("there is only one job") && one.ui.job.is_none());
}

/// What enter has opened: title and text, at the width of the screen.
fn opened(s: &Still) -> (String, String) {
    let subject = s.ui.detail().unwrap_or_else(|| panic!("nothing is open:\n{}", s.text()));
    let theme = Theme::mono();
    let ctx = Ctx { session: &s.session, ui: &s.ui, theme: &theme, pane: s.ui.target(), zoomed: true, focused: true };
    let (title, entries) = details::lines(&ctx, subject, usize::from(s.ui.size.0 - 2));
    let text: Vec<String> = entries.iter().map(|e| e.line.spans.iter().map(|s| s.content.as_ref()).collect()).collect();
    (title, text.join("\n"))
}

#[test]
fn enter_opens_all_about_a_row_and_esc_leads_back() {
    for (key, kind, title, holds) in [
        ("3", "gpu", "GPU 3  NVIDIA H200  rank 3 of job 1354", ["power, W", "› pid 1453", "› hang-rank-absent", "in the last minute by"]),
        (
            "8",
            "process",
            "rank 3 of job 1354  pid 1453",
            ["AllReduce 2633 of 2641, 8 behind", "› GPU 3", "x asks py-spy", "› hang-rank-absent"],
        ),
        ("5", "comm", "communicator 8228c677  4 ranks", ["▼    3", "8 behind", "› rank 3  pid 1453", "AllReduce 2641"]),
        ("6", "finding", "hang-rank-absent  rank 3", ["› GPU 3 is idle", "based on", "› rank 3  pid 1453", "py-spy dump"]),
        ("4", "port", "eth  eth0", ["in, Gbit/s", "link", "healthy: none", "driver virtio_net"]),
        ("9", "source", "source ", ["detail", "state", "for", "source"]),
        ("7", "line", "line ", ["/home/user/train/hang.log:", "read at", "reads this kind of line: step", "What it means"]),
    ] {
        for size in [(120, 40), (80, 24)] {
            let mut s = Still::of(worlds::hang(), size);
            s.press(key);
            let pane = s.ui.zoom;
            s.press("⏎");
            assert_eq!(s.ui.detail().map(|subject| subject.kind), Some(kind));
            let (head, text) = opened(&s);
            assert!(head.starts_with(title), "{head}");
            // Wherever a text is wrapped.
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let lacks = holds.iter().find(|part| !words.contains(&part.split_whitespace().collect::<Vec<_>>().join(" ")));
            assert!(lacks.is_none(), "{kind} at {size:?} lacks {lacks:?}:\n{text}");
            assert!(s.shows(title), "{}", s.text());
            s.press("⎋");
            assert_eq!((s.ui.detail(), s.ui.zoom), (None, pane), "{kind}");
        }
    }
}

/// Whatever there is no room for in a narrow table stands in the detail.
#[test]
fn no_column_is_lost_on_a_narrow_screen() {
    for (world, key, id) in [
        (worlds::hang(), "3", "gpus"),
        (worlds::hang(), "8", "processes"),
        (worlds::hang(), "5", "nccl"),
        (worlds::hang(), "9", "sources"),
        (worlds::hang(), "4", "network"),
    ] {
        let mut s = Still::of(world, (80, 24));
        s.press(key);
        s.press("⏎");
        let (_, text) = opened(&s);
        let theme = Theme::mono();
        let ctx = Ctx { session: &s.session, ui: &s.ui, theme: &theme, pane: view::pane_index(id), zoomed: true, focused: true };
        // The number of a GPU stands in the title of its page.
        for column in (PANES[ctx.pane].sorts)(&ctx, u16::MAX).into_iter().filter(|column| column.head != "#") {
            assert!(text.contains(column.head), "{id} lacks {}:\n{text}", column.head);
        }
        // All of it can be scrolled to, and none is cut.
        let mut seen = String::new();
        for _ in 0..text.lines().count() {
            seen.push_str(&s.text());
            s.press("j");
        }
        for line in text.lines() {
            assert!(seen.contains(line.trim_end()), "{id}: {line:?} is never whole on the screen");
        }
    }
}

#[test]
fn evidence_leads_to_its_place_and_back_again() {
    let mut s = Still::of(worlds::two_jobs(), (100, 30));
    s.press("6⏎");
    let finding = s.ui.detail().cloned();
    assert!(opened(&s).0.starts_with("loss-not-finite"), "{}", s.text());
    s.press("⏎");
    let at = s.ui.log.at.expect("a line is selected");
    let line = s.session.model.logbook.get(at).unwrap().text.to_lowercase();
    assert!(s.ui.target() == view::pane_index("log") && line.contains("nan"), "{line}");
    // All about the line, and back by the same way.
    s.press("⏎");
    assert!(opened(&s).1.contains("› loss-not-finite"), "{}", opened(&s).1);
    s.press("⎋⎋");
    assert_eq!(s.ui.detail().cloned(), finding);
    s.press("⎋");
    assert_eq!((s.ui.detail(), s.ui.zoom), (None, Some(view::pane_index("findings"))));
    // Who goes elsewhere does not come back to it.
    s.press("⏎⏎7⎋⎋");
    assert_eq!((s.ui.detail(), s.ui.zoom), (None, None));
}

#[test]
fn a_line_is_explained_by_the_catalogue() {
    let (mut s, _) = with_line("node-01:189884:189884 [3] net.cc:345 NCCL WARN Error: network AWS Libfabric not found.");
    s.press("7⏎");
    let (_, text) = opened(&s);
    assert!(text.contains("net-requested-missing"), "{text}");
    for part in ["entry", "means", "next", "rule", "printed by"] {
        assert!(text.contains(&format!("\n{part} ")), "{part}:\n{text}");
    }
}

#[test]
fn a_stack_that_was_asked_for_stands_with_its_process() {
    let mut s = Still::of(worlds::hang(), (100, 30));
    let at = s.session.model.now;
    let lines = vec!["Thread 1453 (idle)".to_owned(), "    in sleep (train.py:57)".to_owned()];
    let stack = Stack { pid: 1453, at, command: "py-spy dump".into(), lines };
    s.ui.stacks.insert(1453, std::sync::Arc::new(stack));
    s.press("8⏎");
    assert!(opened(&s).1.contains("in sleep (train.py:57)"), "{}", opened(&s).1);
    assert_eq!(view::culprit(&s.session, &s.ui), Ok(1453));
    s.press("⎋gj⏎");
    assert_eq!(view::culprit(&s.session, &s.ui), Ok(1450), "x asks the process that is looked at");
}

#[test]
fn what_is_not_known_at_that_moment_says_so_and_keys_of_time_stay_in_it() {
    let mut s = Still::of(worlds::hang(), (100, 30));
    s.press("3⏎");
    assert!(matches!(s.press("h"), Effect::Time(_)) && s.ui.detail().is_some());
    s.session = Session::default();
    assert!(s.shows("not known at the moment that is shown"), "{}", s.text());
    s.press("⇥⏎jjG");
    s.press("4");
    assert!(s.ui.detail().is_none() && s.ui.zoom == Some(view::pane_index("network")));
}

#[test]
fn all_about_anything_can_be_drawn_at_any_size() {
    for world in [worlds::hang(), worlds::p5(), worlds::no_gpu(), worlds::ranks_640(), worlds::busy_log(), worlds::two_jobs()] {
        let mut s = Still::of(world, (120, 40));
        for key in ["3", "4", "5", "6", "7", "8", "9"] {
            s.ui.size = (120, 40);
            s.press(key);
            s.press("⏎");
            for (width, height) in [(40, 10), (41, 24), (80, 24), (200, 60), (300, 11)] {
                s.ui.size = (width, height);
                s.rows();
                if s.ui.detail().is_some() {
                    let (title, text) = opened(&s);
                    let widest = text.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap_or(0);
                    assert!(widest <= usize::from(width), "{title} at {width} is {widest} wide");
                }
            }
        }
    }
}

/// A world whose newest line is longer than any screen here.
fn long_line() -> (Still, String) {
    let text: String = (0..40).map(|no| format!("word-{no:02} ")).collect::<String>();
    with_line(text.trim_end())
}

/// A world with this newest line.
fn with_line(text: &str) -> (Still, String) {
    let mut s = Still::of(worlds::hang(), (80, 24));
    let file = *s.session.model.files.keys().next().unwrap();
    let line = Kept { at: s.session.model.now, file, no: Some(999), rank: None, class: Class::Alarm, backlog: false, text: text.into() };
    s.session.model.logbook.push(line, false);
    (s, text.to_owned())
}

#[test]
fn long_lines_are_wrapped_or_scrolled_sideways() {
    let (mut s, text) = long_line();
    s.press("7");
    let words = || text.split(' ');
    assert!(s.shows("word-00") && !s.shows("word-39"), "{}", s.text());
    s.press("w");
    assert!(words().all(|word| s.shows(word)), "{}", s.text());
    // The newest line ends above the frame, also where there is hardly any room.
    s.ui.size = (60, 12);
    assert!(s.shows("word-39"), "{}", s.text());
    s.press("k");
    assert!(s.shows("word-00"), "the selected line is seen from its start:\n{}", s.text());
    s.ui.size = (80, 24);
    s.press("w");
    let mut seen = s.text();
    for _ in 0..20 {
        s.press(".");
        seen.push_str(&s.text());
    }
    assert!(words().all(|word| seen.contains(word)));
    assert!(s.shows("from column 401"), "{}", s.text());
    s.press(&",".repeat(20));
    assert!(!s.shows("from column") && s.shows("word-00"), "{}", s.text());
}

#[test]
fn a_selected_line_is_copied_and_else_the_command() {
    let (mut s, text) = long_line();
    assert!(matches!(s.press("y"), Effect::Copy(command) if command.starts_with("py-spy")));
    s.press("7k");
    assert_eq!(s.press("y"), Effect::CopyLine(text.clone()));
    s.press("⏎");
    assert_eq!(s.press("y"), Effect::CopyLine(text));
    assert!(s.ui.detail().is_some() && matches!(s.press("c"), Effect::Copy(_)));
}

#[test]
fn beside_the_log_stands_where_it_is_bad() {
    let (mut s, _) = long_line();
    s.press("7");
    let bar = |s: &Still| -> String {
        let inside = s.rows().into_iter().filter(|row| row.starts_with('│'));
        inside.map(|row| row.chars().rev().nth(2).unwrap()).collect()
    };
    assert!(bar(&s).trim_end_matches([' ', '─']).ends_with('◂'), "{}", s.text());
    s.press("g");
    let marks = bar(&s);
    assert!(marks.starts_with('◂') && marks.matches(['░', '▒', '█']).count() >= 1, "{marks}\n{}", s.text());
}

#[test]
fn a_way_through_a_list_begins_at_the_row_that_is_marked() {
    let mut s = Still::of(worlds::hang(), (120, 40));
    let row = |s: &Still| s.ui.lists[s.ui.target()].row.clone();
    s.press("3k");
    assert_eq!(row(&s).as_deref(), Some("2"), "above GPU 3, which is to blame");
    s.press("g");
    assert_eq!(row(&s).as_deref(), Some("0"));
    let mut s = Still::of(worlds::hang(), (120, 40));
    s.press("3j");
    assert_eq!(row(&s).as_deref(), Some("3"), "nothing is below");
}

#[test]
fn a_table_is_sorted_only_by_columns_that_are_shown() {
    for (key, size) in [("3", (80, 24)), ("3", (120, 40)), ("8", (80, 24)), ("4", (80, 24)), ("5", (80, 24))] {
        let mut s = Still::of(worlds::hang(), size);
        s.press(key);
        let mut seen = 0;
        loop {
            s.press("s");
            let notice = s.ui.notice.clone().unwrap();
            let Some(head) = notice.strip_prefix("sorted by ") else { break };
            assert!(["▲", "▼"].into_iter().any(|sign| s.shows(&format!("{head}{sign}"))), "{key} at {size:?}: {notice}\n{}", s.text());
            seen += 1;
        }
        assert!(seen > 3 && s.ui.notice.as_deref() == Some("sorted in its own order"), "{seen} {:?}", s.ui.notice);
    }
}

#[test]
fn help_uses_the_width_and_can_be_searched() {
    let heights = [(80, 24), (120, 40), (180, 48), (240, 52)].map(|size| {
        let mut s = Still::of(worlds::hang(), size);
        s.press("?");
        let more = s.rows().iter().find_map(|row| row.strip_suffix(" more lines below")?.split("  ").last()?.parse::<usize>().ok());
        more.unwrap_or(0)
    });
    assert!(heights.is_sorted_by(|a, b| a > b || *a == 0), "{heights:?}");
    assert_eq!(heights[3], 0, "all of it is seen at once on a large screen");

    let mut s = Still::of(worlds::hang(), (80, 24));
    s.press("?/");
    s.press("EVIDENCE");
    let rows = s.rows();
    assert!(rows.iter().any(|row| row.starts_with(" Help, only EVIDENCE")), "{}", s.text());
    assert!(s.shows("save an evidence bundle") && s.shows("findings with evidence") && !s.shows("one row up"), "{}", s.text());
    s.press("⏎");
    assert!(s.ui.sheet.is_some() && !s.shows("one row up"));
    s.press("⎋");
    assert!(s.shows("everything at once"), "{}", s.text());
    s.press("/nothing like it⎋⎋");
    assert!(s.ui.sheet.is_none(), "{}", s.text());
    // So can all about a thing.
    s.press("3⏎/power⏎");
    assert!(s.shows(", only power") && s.shows("power, W") && !s.shows("NVLinks up"), "{}", s.text());
}

#[test]
fn what_is_acknowledged_or_muted_stands_below_and_is_remembered() {
    let mut s = Still::of(worlds::recorded("oom", 600), (120, 40));
    s.press("6");
    let names = s.names();
    assert!(names[0].starts_with("cuda-oom/") && names[1].starts_with("rank-exited/"), "{names:?}");
    s.press("a");
    assert!(
        s.names()[0].starts_with("rank-exited/") && s.shows("acknowledged: ") && s.shows("2 open (1 acknowledged or muted)"),
        "{}",
        s.text()
    );
    // It is still the one that is selected, wherever it stands now.
    s.press("aa");
    assert!(s.shows("cuda-oom is acknowledged") && s.ui.acknowledged.len() == 1, "{}", s.text());
    s.press("gA");
    assert!(s.ui.muted.contains("rank-exited") && s.shows("muted: ") && s.shows("(2 acknowledged or muted)"), "{}", s.text());
    // Nothing is hidden, and both can be taken back.
    assert_eq!(s.names().len(), names.len());
    let (muted, noted) = (names[1].clone(), names[0].clone());
    for (name, key) in [(muted, "A"), (noted, "a")] {
        let at = s.names().iter().position(|n| *n == name).unwrap();
        s.press("g");
        s.press(&"j".repeat(at));
        s.press(key);
    }
    assert!(s.ui.muted.is_empty() && s.ui.acknowledged.is_empty() && s.names() == names, "{}", s.text());
}

#[test]
fn the_row_that_looks_selected_is_the_one_that_is_acknowledged() {
    let mut s = Still::of(worlds::hang(), (120, 40));
    s.press("a");
    assert!(s.shows("hang-rank-absent is acknowledged") && s.ui.acknowledged.len() == 1, "{}", s.text());
}

#[test]
fn what_the_blamed_rank_wrote_last_stands_below_its_finding() {
    let s = Still::of(worlds::recorded("drain-early", 31), (120, 40));
    let rows = s.rows();
    let finding = rows.iter().position(|row| row.contains("collective-mismatch  rank 1")).unwrap_or_else(|| panic!("{}", s.text()));
    let below = &rows[finding + 1..finding + 4];
    assert!(below.iter().any(|row| row.contains("› /job/job.log:6  [rank 1] caught signal 15 (node drain)")), "{}", s.text());
}

#[test]
fn a_job_that_ended_without_a_finding_has_a_next_step() {
    let mut s = Still::of(worlds::two_jobs(), (120, 40));
    let jobs: Vec<String> = s.ui.jobs(&s.session).into_iter().map(str::to_owned).collect();
    let at = jobs.iter().position(|job| s.session.verdicts[job].state == State::Failed).expect("one was killed");
    let (worst, _) = s.session.main_job().unwrap();
    let first = jobs.iter().position(|job| job == worst).unwrap();
    s.press(&"J".repeat((at + jobs.len() - first) % jobs.len()));
    assert!(s.shows("terminated from outside by SIGKILL") && s.shows("next: no scheduler is seen"), "{}", s.text());
    assert!(view::command(&s.session, &s.ui).is_some_and(|next| next.contains("journalctl -S -10min")));
}
