//! The parsers of what comes from near: the user's files and keys, the terminal, the kernel's tables.

use super::{Parser, parser, size};
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use nccl_top::base::mask;
use nccl_top::base::time::{Stamp, Zone, parse_duration};
use nccl_top::cli::config;
use nccl_top::diagnosis::session::Session;
use nccl_top::formats::inspector::prom;
use nccl_top::logs::catalog::user::{self, RuleName};
use nccl_top::logs::prefix::{self, stamp};
use nccl_top::logs::{progress, when};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::demo::DEMOS;
use nccl_top::rules::RULES;
use nccl_top::sources::queue_pairs::{self, Counts, Device};
use nccl_top::sources::{Roots, host::Host, kmsg::Kmsg, netdev::Netdevs, procs, rdma::Rdma};
use nccl_top::sources::{Setup, Source};
use nccl_top::tui::choices::{Effect, Ui};
use nccl_top::tui::filter::Filter;
use nccl_top::tui::keys::{Chord, Keymap};
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

pub const PARSERS: &[Parser] = &[
    parser("mask", masks, &["tests/fixtures/secrets", "tests/fixtures/words", "tests/fixtures/flight"], true),
    parser("config", config, &["tests/fixtures/config"], false),
    parser("theme", theme, &["assets/themes"], false),
    parser("users-catalog", users_catalog, &["assets/catalog-sample.toml"], false),
    parser("keys", keys, &["tests/fixtures/config", "tests/fixtures/words"], false),
    parser("prefix", prefixes, &["tests/fixtures/logs", "tests/fixtures/progress"], true),
    parser("progress", progress, &["tests/fixtures/progress"], false),
    parser("input", input, &["tests/fixtures/words"], false),
    parser("prometheus", prometheus, &["tests/fixtures/words"], false),
    parser("sys", sys, &["tests/fixtures/words"], false),
    parser("kmsg", kmsg, &["tests/fixtures/catalog/kernel.txt", "tests/fixtures/words"], false),
    parser("netlink", netlink, &["tests/fixtures/words"], false),
];

fn text(file: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(file)
}

fn lines(file: &[u8]) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    file.split(|b| *b == b'\n').map(text)
}

/// Where inputs are put that are read from files: one of each process, and of each thread.
struct Scratch(TempDir);

impl Scratch {
    fn with<T>(run: impl FnOnce(&Path) -> T) -> T {
        thread_local!(static DIR: Scratch = Scratch(tempfile::tempdir().expect("a directory")));
        DIR.with(|dir| run(dir.0.path()))
    }

    fn put(path: &Path, bytes: &[u8]) {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, bytes).expect("a file");
    }
}

/// Nothing that stands around a secret brings it to light, and what was masked once is not masked again.
fn masks(files: &[Vec<u8>]) -> usize {
    const SECRET: &str = "q7Zk2mXw9B";
    for file in files {
        let around = text(file);
        let masked = mask::text(&around);
        assert_eq!(mask::text(&masked), masked);
        if around.contains(SECRET) {
            continue;
        }
        let planted = format!("{around}\nexport HF_TOKEN={SECRET}\n{around}");
        assert!(!mask::text(&planted).contains(SECRET), "in a text");
        let mut masker = mask::Lines::default();
        assert!(!planted.split('\n').any(|line| masker.line(line).contains(SECRET)), "in lines");
        let mut words: Vec<String> = around.split_whitespace().take(200).map(str::to_owned).collect();
        words.extend(["--hf-token".into(), SECRET.into()]);
        assert!(!mask::arguments(&words).iter().any(|word| word.contains(SECRET)), "in arguments");
        let mut document = serde_json::json!({ &*around: 1, "lines": [&*around, &planted], "env": { "HF_TOKEN": SECRET } });
        mask::document(&mut document);
        assert!(!document.to_string().contains(SECRET), "in a document");
    }
    size(files)
}

fn config(files: &[Vec<u8>]) -> usize {
    for file in files {
        Scratch::with(|dir| {
            let path = dir.join("config.toml");
            Scratch::put(&path, file);
            match config::load(Some(&path), &|_| None, &[]) {
                Ok((read, origins)) => {
                    config::print(&read, &origins);
                }
                Err(why) => assert!(why.to_string().contains("config.toml"), "{why}"),
            }
        });
    }
    size(files)
}

fn theme(files: &[Vec<u8>]) -> usize {
    for file in files {
        for depth in [Depth::None, Depth::Sixteen, Depth::Indexed, Depth::True] {
            let _ = Theme::parse(&text(file), "x", depth);
        }
    }
    size(files)
}

fn users_catalog(files: &[Vec<u8>]) -> usize {
    let rules: Vec<RuleName> = RULES.iter().map(|rule| RuleName { id: rule.id, advice: rule.advice }).collect();
    let files_read: Vec<(String, String)> = files.iter().zip(0..).map(|(file, no)| (format!("x{no}"), text(file).into_owned())).collect();
    let _ = user::read(&files_read, &rules);
    size(files)
}

fn keys(files: &[Vec<u8>]) -> usize {
    let mut map = Keymap::default();
    for line in files.iter().flat_map(|file| lines(file)) {
        if let Ok(chord) = Chord::parse(&line) {
            assert_eq!(Chord::parse(&chord.to_string()), Ok(chord), "{line:?}");
        }
        let mut words = line.split([' ', '=', '"', ',', '[', ']']).filter(|word| !word.is_empty());
        let action = words.next().unwrap_or_default().to_owned();
        let _ = map.bind(&action, &words.collect::<Vec<_>>());
        let _ = Filter::parse_ranks(&line);
        let _ = parse_duration(&line);
    }
    // A user types one of them: each regular expression takes as long as many lines.
    for line in files.iter().flat_map(|file| lines(file)).take(16) {
        for read in [Filter::parse(&line).ok(), Filter::parse_search(&line).ok().flatten()].into_iter().flatten() {
            read.words();
            read.places("step 12 | loss 2.5 | é統計");
        }
    }
    let _ = map.check();
    map.toml();
    size(files)
}

fn prefixes(files: &[Vec<u8>]) -> usize {
    let zone = Zone { offset_s: -34_200 };
    for line in files.iter().flat_map(|file| lines(file)) {
        for record in prefix::records(&line) {
            let peeled = prefix::peel(record);
            assert!(record.ends_with(peeled.rest), "{record:?}");
            if let Some(written) = &peeled.origin.written {
                when::stamp_of(written, Stamp(1_795_219_809_000_000_000), zone);
            }
        }
        for read in [stamp::iso, stamp::american, stamp::glog, stamp::syslog, stamp::ctime] {
            if let Some((written, taken)) = read(&line) {
                assert!(line.is_char_boundary(taken), "{line:?}");
                for modified in [i64::MIN, 0, i64::MAX] {
                    when::stamp_of(&written, Stamp(modified), zone);
                }
            }
        }
    }
    size(files)
}

fn progress(files: &[Vec<u8>]) -> usize {
    for file in files {
        let mut state = progress::State::default();
        let mut events = Vec::new();
        for line in lines(file) {
            state.read(&prefix::peel(&line), &mut events);
            events.clear();
        }
    }
    size(files)
}

fn prometheus(files: &[Vec<u8>]) -> usize {
    for file in files {
        prom::parse(&text(file));
    }
    size(files)
}

/// The screen of a recorded hang, to press keys at.
static HANG: LazyLock<Session> = LazyLock::new(|| {
    let mut reader = DEMOS[0].open().expect("a demo");
    let mut session = reader.header().session();
    while let Ok(Some(seen)) = reader.read() {
        session.apply(&seen, &mut Vec::new());
    }
    session
});

/// Each four bytes are a key, a click, a size, or the length of what is pasted.
fn input(files: &[Vec<u8>]) -> usize {
    let theme = Theme::mono();
    for file in files {
        let mut ui = Ui::new(Zone::UTC);
        let mut rest = file.as_slice();
        for no in 0..256 {
            let Some((four, more)) = rest.split_first_chunk() else { break };
            let (event, more) = event(four, more);
            rest = more;
            if ui.input(&event, &HANG, &theme) == Effect::Quit {
                break;
            }
            let screen = Rect::new(0, 0, ui.size.0, ui.size.1);
            // A frame costs as much as many keys.
            if screen.area() <= 4000 && (no % 16 == 15 || rest.len() < 4) {
                view::draw(&mut Buffer::empty(screen), &HANG, &ui, &theme);
            }
        }
    }
    size(files) + 256 * 1024
}

fn event<'a>(&[kind, a, b, c]: &[u8; 4], rest: &'a [u8]) -> (Input, &'a [u8]) {
    const CODES: [KeyCode; 12] = [
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Backspace,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::End,
    ];
    let modifiers = KeyModifiers::from_bits_truncate(c & 7);
    let (column, row) = (u16::from(b), u16::from(c));
    let event = match kind % 8 {
        0..=2 => Input::Key(KeyEvent::new(KeyCode::Char(char::from(a)), modifiers)),
        3 => Input::Key(KeyEvent::new(CODES[usize::from(a) % CODES.len()], modifiers)),
        4 => {
            let kinds =
                [MouseEventKind::Down(MouseButton::Left), MouseEventKind::ScrollUp, MouseEventKind::ScrollDown, MouseEventKind::Moved];
            Input::Mouse(MouseEvent { kind: kinds[usize::from(a) % kinds.len()], column, row, modifiers: KeyModifiers::NONE })
        }
        5 => Input::Mouse(MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column: u16::MAX - column,
            row: u16::MAX - row,
            modifiers,
        }),
        6 => Input::Resize(column, row % 100),
        _ => {
            let (pasted, rest) = rest.split_at(rest.len().min(usize::from(a)));
            return (Input::Paste(text(pasted).into_owned()), rest);
        }
    };
    (event, rest)
}

/// Applies what a source saw, with a second passing, twice.
fn seen(source: &mut dyn Source, id: &'static str, session: &mut Session) {
    for no in 1..3 {
        let mut out = Vec::new();
        let _ = source.poll(&mut out);
        for body in out.into_iter().chain([Body::Tick]) {
            let at = Stamp(1_795_219_809_000_000_000 + no * 2_000_000_000);
            session.apply(&Observation { at, host: None, from: SourceId::of(id), body }, &mut Vec::new());
        }
    }
}

fn kmsg(files: &[Vec<u8>]) -> usize {
    for file in files {
        for path in ["dev/kmsg", "var/log/kern.log"] {
            let dir = tempfile::tempdir().expect("a directory");
            Scratch::put(&dir.path().join(path), file);
            let mut session = Session::new("x", Zone::UTC);
            seen(&mut Kmsg::new(Roots::below(dir.path()), Duration::from_secs(1)), "kmsg", &mut session);
        }
    }
    size(files)
}

/// What the kernel's RDMA netlink answers, as a list of devices and as one of queue pairs.
fn netlink(files: &[Vec<u8>]) -> usize {
    for file in files {
        let device = Device { index: 0, name: "mlx5_0".into(), ports: 1 };
        let mut counts = Counts::new();
        let mut each = |payload: &[u8]| {
            assert!(Device::of(payload).is_none_or(|found| found.name.len() <= 3 * 64));
            device.count(payload, &mut counts);
        };
        // As a datagram with any number, and as what a message carries.
        let sequence = file.get(8..12).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes);
        queue_pairs::take(file, sequence, &mut each);
        each(file);
        assert!(counts.len() <= 1024);
    }
    size(files)
}

/// A small node: each file of an input takes the place of one of these, in this order.
#[rustfmt::skip]
const NODE: &[(&str, &str)] = &[
    ("proc/10/stat", "10 (python) S 1 10 10 0 -1 4194304 1 0 0 0 5 5 0 0 20 0 3 0 500 1000000 200 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0"),
    ("proc/10/environ", "RANK=0\0WORLD_SIZE=2\0LOCAL_RANK=0\0SLURM_JOB_ID=7\0NCCL_DEBUG_FILE=/tmp/%h.%p\0TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/tmp/x"),
    ("proc/10/cmdline", "python3\0train.py\0--api-key\0abc\0"),
    ("proc/10/status", "Name:\tpython\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t10\t3\nVmRSS:\t  500 kB\nThreads:\t3\n"),
    ("proc/10/io", "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4\n"),
    ("proc/10/cgroup", "0::/slurm/job_7\n"),
    ("proc/10/comm", "python\n"),
    ("proc/10/mountinfo", "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"),
    ("proc/10/fdinfo/5", "pos:\t0\nflags:\t0100001\nmnt_id:\t36\n"),
    ("proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nbtime 1795219000\n"),
    ("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 500 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"),
    ("proc/vmstat", "oom_kill 1\n"),
    ("proc/loadavg", "0.5 0.4 0.3 1/100 1234\n"),
    ("proc/uptime", "1000.50 2000.10\n"),
    ("proc/mounts", "proc /proc proc rw,hidepid=2 0 0\n/dev/sda1 / ext4 rw 0 0\n"),
    ("proc/self/mountinfo", "36 35 98:0 / / rw - ext4 /dev/sda1 rw\n"),
    ("proc/self/cgroup", "0::/user.slice\n"),
    ("proc/sys/kernel/hostname", "node-1\n"),
    ("proc/cpuinfo", "processor : 0\nmodel name : x\n"),
    ("sys/fs/cgroup/slurm/job_7/memory.max", "1000000\n"),
    ("sys/fs/cgroup/slurm/job_7/memory.current", "900000\n"),
    ("sys/fs/cgroup/slurm/job_7/memory.stat", "anon 1\nfile 2\ninactive_file 3\n"),
    ("sys/fs/cgroup/slurm/job_7/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n"),
    ("sys/class/net/eth0/operstate", "up\n"),
    ("sys/class/net/eth0/type", "1\n"),
    ("sys/class/net/eth0/speed", "100000\n"),
    ("sys/class/net/eth0/carrier_changes", "2\n"),
    ("sys/class/net/eth0/statistics/rx_bytes", "18446744073709551615\n"),
    ("sys/class/net/eth0/statistics/rx_errors", "1\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/phys_state", "5: LinkUp\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "1\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "0\n"),
    ("sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "3\n"),
    ("sys/class/infiniband/mlx5_0/fw_ver", "28.1.1\n"),
    ("sys/class/infiniband/mlx5_0/hca_type", "MT4129\n"),
];

fn sys(files: &[Vec<u8>]) -> usize {
    let every = Duration::from_secs(1);
    Scratch::with(|dir| {
        for (no, (path, usual)) in NODE.iter().enumerate() {
            Scratch::put(&dir.join("node").join(path), files.get(no).filter(|file| !file.is_empty()).map_or(usual.as_bytes(), |file| file));
        }
        let roots = Roots::below(PathBuf::from(dir).join("node"));
        let mut session = Session::new("x", Zone::UTC);
        seen(&mut Rdma::new(roots.clone(), every), "rdma", &mut session);
        seen(&mut Netdevs::new(roots.clone(), every), "netdev", &mut session);
        seen(&mut Host::new(roots.clone(), every), "host", &mut session);
        let mut setup = Setup::new(roots, every, Vec::new());
        seen(procs::make(&mut setup).as_mut(), "procs", &mut session);
        session.state();
    });
    size(files)
}
