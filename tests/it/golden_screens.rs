//! What stands on the screen, over recordings and worlds made by hand. A few whole screens and each pane alone are kept as files; of
//! the other worlds and sizes, the texts are named that must be there. Below the text of some files stands what each cell looks
//! like: one letter per role of the theme, in colour and without.

use crate::support::worlds;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use nccl_top::base::severity::Severity;
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::tui::actions::Action;
use nccl_top::tui::choices::Ui;
use nccl_top::tui::panes::PANES;
use nccl_top::tui::theme::{Depth, STEPS, Theme, between};
use nccl_top::tui::view;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// The arrangements of panes: below each other, in two columns, in three.
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (220, 60)];

fn draw(session: &Session, ui: &mut Ui, theme: &Theme, (width, height): (u16, u16)) -> Buffer {
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    ui.size = (width, height);
    view::draw(&mut buf, session, ui, theme);
    buf
}

fn rows(buf: &Buffer, each: impl Fn(&Cell) -> String) -> String {
    let rows = buf.content().chunks(usize::from(buf.area().width));
    rows.map(|row| row.iter().map(&each).collect::<String>().trim_end().to_owned() + "\n").collect()
}

fn text(buf: &Buffer) -> String {
    // The second half of a wide character is an empty cell of its own.
    let rows = buf.content().chunks(usize::from(buf.area().width));
    rows.map(|row| {
        let mut line = String::new();
        let mut skip = 0;
        for cell in row {
            if skip == 0 {
                line.push_str(cell.symbol());
                skip = unicode_width::UnicodeWidthStr::width(cell.symbol()).max(1);
            }
            skip -= 1;
        }
        line.trim_end().to_owned() + "\n"
    })
    .collect()
}

/// A letter per role: what is drawn and has none of them is `?`.
fn styles(buf: &Buffer, theme: &Theme) -> String {
    let roles = [
        ('a', theme.act),
        ('l', theme.look),
        ('f', theme.focus),
        ('F', theme.found),
        ('s', theme.text.patch(theme.selected)),
        ('T', theme.title),
        ('g', theme.good),
        ('c', theme.chart),
        ('2', theme.chart2),
        ('u', theme.accent),
        ('d', theme.dim),
        ('b', theme.border),
        ('.', theme.text),
    ];
    let own = |role: Style| theme.text.patch(role);
    // Between the foot of a graph and its top, and of what stands out in it.
    let steps = || (0..=STEPS).map(|n| f32::from(n) / f32::from(STEPS));
    let graded = steps().map(|share| ('c', theme.graded(share)));
    let over = steps().map(|share| ('l', between(theme.look, theme.text, share)));
    let second = steps().map(|share| ('2', between(theme.chart2, theme.text, share)));
    let graded: Vec<(char, Style)> = graded.chain(over).chain(second).collect();
    // In the row that keys go to, what says how something stands keeps its colour; so it does in that of whom the verdict names.
    let selected = [('A', theme.act), ('L', theme.look), ('G', theme.good)].map(|(letter, role)| (letter, theme.selected(own(role))));
    let rows_of = [(Severity::Error, 'C'), (Severity::Warning, 'S')];
    let blamed = rows_of.into_iter().flat_map(|(bad, row)| {
        roles.map(|(letter, role)| (if ".d".contains(letter) { row } else { letter }, theme.blamed(own(role), bad)))
    });
    let blamed: Vec<(char, Style)> = blamed.collect();
    let both = rows_of.into_iter().flat_map(|(bad, _)| {
        [('A', theme.act), ('L', theme.look)].map(|(letter, role)| (letter, theme.selected(theme.blamed(own(role), bad))))
    });
    let roles: Vec<(char, Style)> = roles.into_iter().chain(selected).chain(blamed).chain(both).collect();
    let blamed = rows_of.into_iter().flat_map(|(bad, _)| graded.iter().map(move |(letter, role)| (*letter, theme.blamed(own(*role), bad))));
    let roles: Vec<(char, Style)> = roles.into_iter().chain(graded.iter().copied()).chain(blamed).collect();
    // Graphs keep their colours in the row that keys go to.
    let ground = theme.selected.bg.map(|ground| Style::new().bg(ground));
    let charts = ground.into_iter().flat_map(|ground| roles.iter().map(move |(letter, role)| (*letter, own(*role).patch(ground))));
    let roles: Vec<(char, Style)> = roles.iter().copied().chain(charts).collect();
    let plain = |style: Style| (style.fg, style.bg, style.add_modifier);
    rows(buf, |cell| {
        let backgrounds = [theme.text.bg.unwrap_or_default(), ratatui::style::Color::Reset];
        // The second half of a wide character has none of its own.
        if cell.symbol() == " " && cell.modifier.is_empty() && backgrounds.contains(&cell.bg) {
            return " ".into();
        }
        let mut shown = Cell::default();
        let found = roles.iter().find(|(_, role)| {
            shown.reset();
            shown.set_style(theme.text.patch(*role));
            plain(shown.style()) == plain(cell.style())
        });
        found.map_or('?', |(letter, _)| *letter).to_string()
    })
}

fn colours() -> Theme {
    Theme::load("colorblind", Depth::Indexed).unwrap()
}

/// A screen that `set` has changed.
fn screen(session: &Session, set: impl Fn(&mut Ui), theme: &Theme, size: (u16, u16)) -> Buffer {
    let mut ui = Ui::new(Zone::UTC);
    ui.size = size;
    set(&mut ui);
    draw(session, &mut ui, theme, size)
}

/// Only one pane.
fn zoomed(id: &str) -> impl Fn(&mut Ui) {
    let index = view::pane_index(id);
    move |ui| {
        ui.focus = index;
        ui.zoom = Some(index);
    }
}

/// The rows of the zoomed pane with its frame, without those that are empty, as text and, for `themes`, as looks.
fn pane(session: &Session, set: impl Fn(&mut Ui), themes: &[(&str, Theme)]) -> String {
    const SIZE: (u16, u16) = (120, 36);
    let whole = text(&screen(session, &set, &Theme::mono(), SIZE));
    let rows: Vec<&str> = whole.lines().collect();
    let from = rows.iter().position(|r| r.starts_with('╭')).unwrap();
    let kept: Vec<usize> = (from..rows.len() - 1).filter(|y| !rows[*y].trim_matches(['│', ' ']).is_empty()).collect();
    let only = |all: &str| kept.iter().map(|y| all.lines().nth(*y).unwrap_or_default().to_owned() + "\n").collect::<String>();
    let looks = themes.iter().map(|(name, theme)| format!("--- {name}\n{}", only(&styles(&screen(session, &set, theme, SIZE), theme))));
    only(&whole) + &looks.collect::<String>()
}

fn typed(ui: &mut Ui, keys: &str, session: &Session) {
    for c in keys.chars() {
        let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
        ui.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), session, &Theme::mono());
    }
}

fn elsewhere() -> Session {
    worlds::elsewhere(30, |n| worlds::ras_json(16, |rank| Some(if rank == 5 { n - 12 } else { n }))).0
}

#[test]
fn the_overview_in_each_arrangement() {
    for (name, session) in [("hang", worlds::hang()), ("p5", worlds::p5())] {
        for size in SIZES {
            insta::assert_snapshot!(
                format!("overview-{name}-{}x{}", size.0, size.1),
                text(&screen(&session, |_| {}, &Theme::mono(), size))
            );
        }
    }
}

#[test]
fn colour_and_no_colour_say_the_same() {
    let (hang, busy) = (worlds::hang(), worlds::busy_log());
    let themes = [("colour", colours()), ("mono", Theme::mono())];
    let looks = themes.iter().map(|(name, theme)| format!("--- {name}\n{}", styles(&screen(&hang, |_| {}, theme, SIZES[0]), theme)));
    insta::assert_snapshot!("looks-overview", looks.collect::<String>());
    insta::assert_snapshot!("looks-gpus", pane(&hang, zoomed("gpus"), &themes));
    let search = |ui: &mut Ui| {
        zoomed("log")(ui);
        typed(ui, "fwarn\nNN", &busy);
    };
    insta::assert_snapshot!("looks-log-search", pane(&busy, search, &themes));
    // Nothing is drawn in a colour that the theme does not have, and no text depends on the theme.
    let all: [fn() -> Session; 10] = [
        worlds::healthy,
        worlds::hang,
        worlds::straggler,
        worlds::two_jobs,
        worlds::p5,
        worlds::no_gpu,
        worlds::absent,
        worlds::ranks_640,
        worlds::busy_log,
        elsewhere,
    ];
    for world in all {
        let session = world();
        for size in SIZES {
            for zoom in (0..PANES.len()).map(Some).chain([None]) {
                let set = |ui: &mut Ui| {
                    ui.zoom = zoom;
                    ui.focus = zoom.unwrap_or(ui.focus);
                };
                let [colour, mono] = themes.each_ref().map(|(name, theme)| {
                    let buf = screen(&session, set, theme, size);
                    let looks = styles(&buf, theme);
                    assert!(!looks.contains('?'), "pane {zoom:?} in {name} at {size:?}:\n{}\n{looks}", text(&buf));
                    text(&buf)
                });
                assert_eq!(colour, mono, "pane {zoom:?} at {size:?}");
            }
        }
    }
}

#[test]
fn each_pane_alone() {
    let (hang, p5, two_jobs, busy) = (worlds::hang(), worlds::p5(), worlds::two_jobs(), worlds::busy_log());
    let (ranks_640, ranks_1024) = (worlds::ranks_640(), worlds::ranks_1024());
    for (name, session, id) in [
        ("training", &p5, "training"),
        ("timeline", &p5, "timeline"),
        ("timeline-hang", &hang, "timeline"),
        ("timeline-640", &ranks_640, "timeline"),
        ("gpus-two-jobs", &two_jobs, "gpus"),
        ("network", &p5, "network"),
        ("nccl-64", &p5, "nccl"),
        ("nccl-640", &ranks_640, "nccl"),
        ("nccl-1024", &ranks_1024, "nccl"),
        ("nccl-two-jobs", &two_jobs, "nccl"),
        ("findings", &hang, "findings"),
        ("findings-two-jobs", &two_jobs, "findings"),
        ("log", &busy, "log"),
        ("log-two-jobs", &two_jobs, "log"),
        ("processes", &hang, "processes"),
        ("processes-two-jobs", &two_jobs, "processes"),
        ("sources", &worlds::absent(), "sources"),
    ] {
        insta::assert_snapshot!(name, pane(session, zoomed(id), &[]));
    }
    let filter = |ui: &mut Ui| {
        zoomed("log")(ui);
        typed(ui, "W/!traceback file:rank\n", &busy);
    };
    insta::assert_snapshot!("log-filter", pane(&busy, filter, &[]));
}

#[test]
fn help_and_prompt() {
    let session = worlds::healthy();
    let help = |ui: &mut Ui| {
        ui.act(Action::Help, &Session::default(), &Theme::mono());
    };
    insta::assert_snapshot!("help", text(&screen(&session, help, &Theme::mono(), SIZES[0])));
    for size in [(120, 40), (220, 63)] {
        let shown = text(&screen(&session, help, &Theme::mono(), size));
        for part in [" Help", "everything at once", "the next theme"].iter().take(if size.1 < 62 { 2 } else { 3 }) {
            assert!(shown.contains(part), "no {part:?} at {size:?}:\n{shown}");
        }
    }
    let prompt = |ui: &mut Ui| {
        ui.act(Action::Filter, &session, &Theme::mono());
    };
    let shown = text(&screen(&session, prompt, &Theme::mono(), SIZES[0]));
    assert!(shown.ends_with(" show only: █\n"), "{shown}");
}

/// What stands on the overview of a world, from which width on. Each text is part of one row.
type Shown = (u16, &'static [&'static str]);

fn assert_shows(name: &str, session: &Session, set: impl Fn(&mut Ui), shown: &[Shown]) {
    for size in SIZES {
        let text = text(&screen(session, &set, &Theme::mono(), size));
        let parts = shown.iter().filter(|(from, _)| size.0 >= *from).flat_map(|(_, parts)| parts.iter());
        let missing: Vec<_> = parts.filter(|part| !text.lines().any(|row| row.contains(**part))).collect();
        assert!(missing.is_empty(), "no {missing:?} in {name} at {size:?}:\n{text}");
    }
}

#[test]
fn the_overview_of_each_world_says_what_matters() {
    let healthy: &[Shown] = &[
        (80, &["nccl-top vm · job 849 · 4 ranks here of 4 · NCCL 2.28.9", "02:47:59  ● live"]),
        (80, &[" ● TRAINING  step 256  100.5 ms/step  loss 1.0002", "   no findings, 1 note in 44 s"]),
        (80, &["step time 100.5 ms", "jitter 2 %", "rate 326k tokens/s", "last step 0 s ago"]),
        (80, &["GPUs: 4 × NVIDIA H200 · 18 NVLinks each", " 0    0     957 working ", " 3    3     960 working "]),
        (80, &["Network: 1 eth, 2 virtual", "eth0 ", "Findings: 0 open, 0 past, 1 note", "comm f01e66ae  4 ranks"]),
        (80, &["▸ Log: none.log, 261 lines", " to 256 | loss 1.000193 | "]),
        (120, &["│   usual ", "●TRAINING", "   rank 3 GPU 3 ", "comm f01e66ae  4 ranks ", " moving"]),
    ];
    let straggler: &[Shown] = &[
        (80, &[" ▲ SLOW 13 s", "rank 2 (GPU 2, pid 2479) is late every step", "   next: py-spy dump --nonblocking --pid 2479"]),
        (80, &["why: over 12 s its GPU was busy 49 % of the time", "►▲     13 s  straggler  rank 2", "e evidence"]),
        (
            120,
            &[
                "SLOW 13 s since 02:52:06",
                "▲SLOW",
                "► rank 2 GPU 2 ",
                "slow-steps  steps take 335.8 ms instead of 98.9 ms",
                "(a consequence)",
            ],
        ),
    ];
    // Whose a row is, is told where it could be another's.
    let two_jobs: &[Shown] = &[
        (80, &[" ■ TRAINING  job 4892: step 1,086  35.8 ms/step  loss NaN", " ● TRAINING  job 5037: step 110  73.5 ms/step"]),
        (80, &["   ■ loss-not-finite  11 s", "the loss is NaN at step 760", "   next: stop the run and go back to the last checkpoint"]),
        (80, &[" ■ FAILED 11 s", "job 4757: terminated from outside by SIGKILL"]),
        (80, &["Training of job 4892", " # job ", " 0 5037 ", " 3 4892 ", "11:03:01 4892 ", " to 1086 | loss nan"]),
        (
            120,
            &[
                "NCCL bring-up of job 4892, 3 communicators",
                "comm a8903e10  job 4892  2 ranks",
                "job 4757: terminated from outside by SIGKILL",
            ],
        ),
    ];
    let no_gpu: &[Shown] = &[
        (80, &["nccl-top login-2 · job train.log", " ● TRAINING  step 1,244/50,000", "ETA 17 h 44 m", "step 1,244/50,000 2.5 %"]),
        (80, &["GPUs: 0", "libnvidia-ml.so.1 not found: no NVIDIA driver; GPU panes are off, logs and", "eth0 "]),
        (80, &["source-trouble  nvml absent: libnvidia-ml.so.1", "Errors none"]),
    ];
    let absent: &[Shown] = &[
        (80, &["nccl-top node-17", " ○ IDLE  no job on this node yet", "no step line seen in any log", "no line yet"]),
        (80, &["nvmlInit_v2: the current user does not have permission", "RDMA: /sys/class/infiniband does not exist", "host failed: "]),
        (80, &["no NCCL lines in the logs, and RAS does not answer", "Log: no file, 0 lines"]),
        (120, &["Sources: 0 of 13 answer, 3 in trouble", "nvml     denied       20 s"]),
    ];
    let ranks_640: &[Shown] = &[
        (80, &["8 ranks here of 640", " ■ STUCK 2 m 40 s", "rank 13 (GPU 5, pid 51105) here and rank 500 on 10.0.0.63"]),
        (
            80,
            &[
                "why: AllReduce 468 of 480, 12 behind, unchanged for 2 m 30 s",
                "   next: py-spy dump --nonblocking --pid 51105",
                " 5   13   51105 IDLE ",
            ],
        ),
        (120, &["no step for ", "► rank 13 GPU 5 ", "comm 5c1de770  640 ranks ", "unchanged 2 m 30 s, rank 500 missi"]),
    ];
    let elsewhere_: &[Shown] = &[
        (
            80,
            &[
                " ■ STUCK 30 s",
                "rank 5 on 10.0.0.1 (pid 51105) has not joined AllReduce 469",
                "why: AllReduce 468 of 480, 12 behind, unchanged for 26 s",
            ],
        ),
        (80, &["   next: ssh 10.0.0.1 py-spy dump --nonblocking --pid 51105", " 7   15   51107 waiting "]),
        (120, &["on this node wait: the cause is on another node", "comm 5c1de770  16 ranks ", "unchanged 26 s, rank 5 behind"]),
    ];
    for (name, session, shown) in [
        ("healthy", worlds::healthy(), healthy),
        ("straggler", worlds::straggler(), straggler),
        ("two-jobs", worlds::two_jobs(), two_jobs),
        ("no-gpu", worlds::no_gpu(), no_gpu),
        ("absent", worlds::absent(), absent),
        ("ranks-640", worlds::ranks_640(), ranks_640),
        ("elsewhere", elsewhere(), elsewhere_),
    ] {
        assert_shows(name, &session, |_| {}, shown);
    }
}

/// Columns come with the width, the most important ones first; none is cut in its head.
#[test]
fn the_zoomed_panes_have_their_columns_at_each_size() {
    let (hang, p5, two_jobs, busy) = (worlds::hang(), worlds::p5(), worlds::two_jobs(), worlds::busy_log());
    let all: &[(&str, &Session, &[Shown])] = &[
        (
            "training",
            &p5,
            &[(80, &["epoch –   gradient norm –   learning rate –", "pace steady for 2 m 20 s", "2.3364 ", "1.32 s ", "last 2 min"])],
        ),
        (
            "gpus",
            &hang,
            &[
                (80, &[" # rank ", " util% SM% tensor ", " mem GiB ", " W/limit ", " 3    3 ", " IDLE ", " waiting "]),
                (120, &[" # rank     pid activity util% SM% tensor DRAM% NVLink GB/s ", " SM MHz last 2 min"]),
                (120, &["GPU 3   bus 0000:00:09.0", "activity idle for 18 s", "SM MHz 1980 of 1980"]),
            ],
        ),
        ("gpus", &two_jobs, &[(80, &[" # job ", " SM% tensor ", " 0 5037 "]), (120, &[" # job          rank     pid activity util%"])]),
        (
            "network",
            &p5,
            &[
                (80, &["port         ", " in b/s out b/s share% each ", "+ rdmap79s0 ", " 400G   240G    242G     60 ▅▅▅▅"]),
                (80, &["traffic     in 239.50 Gbit/s 60%  out 241.98 Gbit/s 60%"]),
            ],
        ),
        ("nccl", &two_jobs, &[(80, &["comm     job ", " ranks nodes     ops behind missing  answered state", "a8903e10 4892 "])]),
        (
            "findings",
            &hang,
            &[
                (
                    80,
                    &[
                        "■     18 s  hang-rank-absent  rank 3 (GPU 3, pid 1453)",
                        "     what  rank 3",
                        "     rule  hang-rank-absent · critical · root cause · certain",
                    ],
                ),
                (
                    80,
                    &[
                        "    since  02:49:24, found 02:49:32",
                        "evidence  AllReduce 2633 of 2641, 8 behind, unchanged for 15 s",
                        "     next  py-spy dump",
                    ],
                ),
            ],
        ),
        (
            "log",
            &busy,
            &[
                (80, &["Log: rank-000.log (+299), 3,306 lines", "10:00:29 ", "step 299/50000 | loss 2.3164", "zerowidth joined "]),
                (220, &["rank-236.log      step 294/50000", "278 rank-278.log      [rank278]: エポック 3"]),
            ],
        ),
        (
            "processes",
            &hang,
            &[
                (80, &[" rank local     pid GPU state ", " CPU% I/O B/s disk RSS GiB ", "job          1354, parent 1354, user 0"]),
                (120, &["RSS GiB threads command", "command      /opt/venv/bin/python -u fault_train.py"]),
            ],
        ),
        ("processes", &two_jobs, &[(80, &["│ job ", "    pid GPU state ", "│ 4757 ", "   4777   0 signal 9 "])]),
    ];
    for (id, session, shown) in all {
        assert_shows(id, session, zoomed(id), shown);
    }
}

/// Below 40x10 there is room for the verdict and the next step, whatever was opened.
#[test]
fn a_small_terminal_shows_one_sentence() {
    let missing = "rank 13 (GPU 5, pid 51105) here and rank 500 on 10.0.0.63 (pid 51104) have not joined AllReduce 469 of comm 5c1de770; 7 ranks wait next: py-spy dump --nonblocking --pid 51105";
    for (session, sentence) in [
        (worlds::healthy(), "● TRAINING step 256 100.5 ms/step loss 1.0002"),
        (
            worlds::hang(),
            "■ STUCK 18 s rank 3 (GPU 3, pid 1453) has not joined AllReduce 2634 of comm 8228c677; 3 ranks wait next: py-spy dump --nonblocking --pid 1453",
        ),
        (
            worlds::straggler(),
            "▲ SLOW 13 s rank 2 (GPU 2, pid 2479) is late every step; the other 3 wait for it next: py-spy dump --nonblocking --pid 2479",
        ),
        (
            worlds::two_jobs(),
            "■ TRAINING job 4892: step 1,086 35.8 ms/step loss NaN next: stop the run and go back to the last checkpoint before this step",
        ),
        (worlds::p5(), "● TRAINING step 1,306/50,000 1.31 s/step loss 2.2999 ETA 17 h 42 m"),
        (worlds::no_gpu(), "● TRAINING step 1,244/50,000 1.30 s/step loss 2.2696 ETA 17 h 44 m"),
        (worlds::absent(), "○ IDLE no job on this node yet"),
        (worlds::ranks_640(), &format!("■ STUCK 2 m 40 s {missing}")),
        (worlds::ranks_1024(), &format!("■ STUCK 15 s {missing}")),
        (worlds::busy_log(), "▲ TRAINING step 299/50,000 1.30 s/step loss 2.3164 ETA 18 h 10 m"),
        (
            elsewhere(),
            "■ STUCK 30 s rank 5 on 10.0.0.1 (pid 51105) has not joined AllReduce 469 of comm 5c1de770; all 8 ranks on this node wait: the cause is on another node next: ssh 10.0.0.1 py-spy dump --nonblocking --pid 51105",
        ),
    ] {
        for zoom in [None, Some(view::pane_index("gpus"))] {
            let shown = text(&screen(&session, |ui| ui.zoom = zoom, &Theme::mono(), (39, 9)));
            let words: Vec<&str> = shown.split_whitespace().collect();
            assert_eq!(words.join(" "), sentence);
        }
    }
}
