//! The fleet's screen, from recorded answers of a real Prometheus.

use crate::support::fleet_world::{Fault, Job, START, World};
use crate::support::prometheus::{Prometheus, is_installed};
use crate::support::screen::Screen;
use crate::support::stand_in;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::fleet::asking::{Asker, Focus, Frame};
use nccl_top::fleet::client::Client;
use nccl_top::fleet::http_config::HttpConfig;
use nccl_top::tui::fleet::choices::{Effect, FleetUi};
use nccl_top::tui::fleet::view::{Shown, draw};
use nccl_top::tui::keys::Keymap;
use nccl_top::tui::theme::{Depth, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const AT: Stamp = Stamp((START as i64 + 900) * 1_000_000_000);
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

fn frame(url: &str, focus: &Focus) -> Frame {
    let mut frame = Asker::new(Client::new(url, &HttpConfig::default()).unwrap(), String::new()).frame(AT, focus).unwrap();
    frame.took = Duration::from_millis(400);
    frame
}

/// A user in front of recorded answers.
struct User {
    url: String,
    ui: FleetUi,
    frame: Frame,
    of: Focus,
    failing: Option<(Stamp, String)>,
}

impl User {
    fn new(size: (u16, u16)) -> User {
        let url = stand_in::recorded();
        let mut ui = FleetUi::new(Zone::UTC, Keymap::default(), None);
        ui.size = size;
        User { frame: frame(&url, &Focus::Overview), of: Focus::Overview, url, ui, failing: None }
    }

    fn key(&mut self, code: KeyCode) -> Effect {
        let effect = self.ui.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), Some(&self.frame), AT);
        if effect == Effect::Ask && self.ui.at.is_none() {
            self.of = self.ui.focus().clone();
            self.frame = frame(&self.url, &self.of);
        }
        effect
    }

    fn typed(&mut self, text: &str) {
        text.chars().for_each(|c| drop(self.key(KeyCode::Char(c))));
    }

    fn drawn(&mut self, theme: &Theme) -> Buffer {
        let mut buf = Buffer::empty(Rect::new(0, 0, self.ui.size.0, self.ui.size.1));
        let shown = Shown {
            frame: Some((&self.frame, &self.of)),
            failing: self.failing.as_ref(),
            server: "http://prometheus:9090",
            now: AT.plus(Duration::from_secs(2)),
            asked: false,
        };
        draw(&mut buf, &shown, &self.ui, theme);
        buf
    }

    fn text(&mut self) -> String {
        let buf = self.drawn(&Theme::mono());
        let rows = buf.content().chunks(usize::from(buf.area().width));
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n").collect()
    }
}

#[test]
fn overview_job_and_node_at_all_sizes() {
    for size in SIZES {
        let mut user = User::new(size);
        insta::assert_snapshot!(format!("fleet-overview-{}x{}", size.0, size.1), user.text());
        user.key(KeyCode::Enter);
        assert_eq!(user.ui.focus(), &Focus::Job("4417".into()), "the worst stands first");
        insta::assert_snapshot!(format!("fleet-job-{}x{}", size.0, size.1), user.text());
        user.key(KeyCode::Enter);
        assert_eq!(user.ui.focus(), &Focus::Node("node0006".into(), Some("4417".into())), "whom the finding names is selected");
        insta::assert_snapshot!(format!("fleet-node-{}x{}", size.0, size.1), user.text());
        user.key(KeyCode::Esc);
        user.key(KeyCode::Esc);
        assert_eq!(user.ui.focus(), &Focus::Overview);
    }
}

#[test]
fn the_same_keys_as_on_a_node() {
    let mut user = User::new((120, 40));
    user.key(KeyCode::Down);
    user.typed("/4418");
    user.key(KeyCode::Enter);
    let text = user.text();
    assert!(text.contains("Jobs: 1, only 4418"), "{text}");
    assert_eq!(user.key(KeyCode::Esc), Effect::Draw, "esc clears the filter first");
    user.key(KeyCode::Home);
    assert_eq!(user.key(KeyCode::Char('c')), Effect::Copy("ssh -t -- node0006 nccl-top".into()));
    user.key(KeyCode::Char('?'));
    let help = user.text();
    assert!(help.contains("% waiting") && help.contains("no answer") && !help.contains("py-spy"), "{help}");
    user.key(KeyCode::Esc);
    assert_eq!(user.key(KeyCode::Char('x')), Effect::Draw);
    assert!(user.text().contains("that key is for the screen of one node"));
    user.key(KeyCode::Tab);
    user.key(KeyCode::Enter);
    assert_eq!(user.ui.focus(), &Focus::Job("4417".into()), "a finding leads to its job");
    assert_eq!(user.key(KeyCode::Left), Effect::Ask);
    assert_eq!(user.ui.at, Some(AT.minus(Duration::from_secs(15))), "one scrape back");
    user.key(KeyCode::Char(']'));
    assert_eq!(user.ui.at, None, "not beyond the present");
    user.key(KeyCode::Char('p'));
    assert_eq!(user.ui.at, Some(AT));
    assert_eq!(user.key(KeyCode::Char('q')), Effect::Quit);
}

/// The jobs, as they stand on the screen.
fn order(user: &mut User) -> Vec<String> {
    let text = user.text();
    let jobs = text.lines().skip_while(|line| !line.contains("Jobs:")).skip(2).take_while(|line| line.contains("44"));
    jobs.map(|line| line.trim_matches(['│', '►', ' ']).split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn lists_are_sorted_by_any_column() {
    let mut user = User::new((120, 40));
    assert_eq!(order(&mut user), ["4417", "4419", "4420", "4418"], "the worst first");
    user.key(KeyCode::Char('s'));
    assert!(user.text().contains("sorted by job"), "{}", user.text());
    assert_eq!(order(&mut user), ["4417", "4418", "4419", "4420"]);
    user.key(KeyCode::Char('S'));
    assert_eq!(order(&mut user), ["4420", "4419", "4418", "4417"]);
    user.key(KeyCode::Tab);
    user.key(KeyCode::Char('s'));
    assert!(user.text().contains("finding▼"), "each list has its own order: {}", user.text());
    user.key(KeyCode::Tab);
    (0..10).for_each(|_| drop(user.key(KeyCode::Char('s'))));
    assert!(user.text().contains("in its own order"), "{}", user.text());
}

/// Where a text stands on the screen.
fn place_of(user: &mut User, text: &str) -> (u16, u16) {
    let screen = user.text();
    let (y, line) = screen.lines().enumerate().find(|(_, line)| line.contains(text)).unwrap_or_else(|| panic!("no {text}: {screen}"));
    (line[..line.find(text).unwrap()].chars().count() as u16, y as u16)
}

fn point(user: &mut User, kind: MouseEventKind, (column, row): (u16, u16)) -> Effect {
    let mouse = Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE });
    let effect = user.ui.input(&mouse, Some(&user.frame), AT);
    if effect == Effect::Ask {
        user.of = user.ui.focus().clone();
        user.frame = frame(&user.url, &user.of);
    }
    effect
}

#[test]
fn the_mouse_selects_sorts_and_opens() {
    const CLICK: MouseEventKind = MouseEventKind::Down(MouseButton::Left);
    let mut user = User::new((120, 40));
    let at = place_of(&mut user, "nodes     ranks");
    point(&mut user, CLICK, at);
    assert_eq!(order(&mut user)[0], "4417", "most nodes first: {}", user.text());
    point(&mut user, CLICK, at);
    assert_eq!(order(&mut user)[3], "4417", "the same head again: the other way round");
    let at = place_of(&mut user, "■ silent-node");
    assert_eq!(point(&mut user, CLICK, at), Effect::Draw, "the first click selects");
    assert_eq!(point(&mut user, CLICK, at), Effect::Ask, "the next one opens");
    assert_eq!(user.ui.focus(), &Focus::Job("4419".into()));
    let at = place_of(&mut user, "no answer");
    point(&mut user, CLICK, at);
    point(&mut user, CLICK, at);
    assert!(matches!(user.ui.focus(), Focus::Node(..)), "{:?}", user.ui.focus());
    user.key(KeyCode::Esc);
    user.key(KeyCode::Esc);
    user.text();
    let at = place_of(&mut user, "Jobs:");
    let before = user.ui.place().lists[0].index;
    point(&mut user, MouseEventKind::ScrollDown, (at.0, at.1 + 2));
    assert_eq!(user.ui.place().lists[0].index, before + 1, "the wheel moves");
    user.key(KeyCode::Char('m'));
    let at = place_of(&mut user, "4420");
    point(&mut user, MouseEventKind::ScrollDown, at);
    assert_eq!(user.ui.place().lists[0].index, before + 1, "m gives the mouse to the terminal");
}

/// The whole program in a terminal: it asks again by itself, keys and clicks lead on, a server that fails is named and the picture stays.
#[test]
fn the_loop_goes_on_in_a_terminal() {
    let failing = Arc::new(AtomicBool::new(false));
    let fails = failing.clone();
    let url = stand_in::recorded_always(move || fails.load(Ordering::Relaxed));
    let dir = tempfile::tempdir().unwrap();
    let mut screen = Screen::start(&["fleet", "--prometheus", &url], dir.path(), &[], 40, 120);
    let has = |text: &'static str| move |screen: &vt100::Screen| screen.contents().contains(text);
    screen.wait_for("Jobs: 4");
    screen.press("s", "an order", has("sorted by job"));
    screen.press("\r", "the job", has("fleet · job 4417"));
    screen.press("\t\r", "its node", has("fleet · node0006"));
    screen.press("\x1b", "the job again", has("fleet · job 4417"));
    failing.store(true, Ordering::Relaxed);
    screen.wait_for("503 Service Unavailable");
    assert!(screen.text().contains("rank 43"), "the picture stays: {}", screen.text());
    failing.store(false, Ordering::Relaxed);
    screen.wait_until("well again", |screen| !screen.contents().contains("503"));
    screen.press("q", "its end", |screen| !screen.alternate_screen());
    assert_eq!(screen.wait_end(), 0);
    screen.assert_restored();
}

#[test]
fn a_server_that_stops_answering_leaves_the_last_picture_with_its_age() {
    let mut user = User::new((120, 40));
    user.failing = Some((AT.minus(Duration::from_secs(40)), "the server answers 503 Service Unavailable: it is empty".into()));
    let text = user.text();
    assert!(
        text.contains("✗ no answer for 42 s") && text.contains("503 Service Unavailable") && text.contains("what is shown is 2 s old"),
        "{text}"
    );
    assert!(text.contains("rank 43"), "nothing is lost");
}

/// No size and no depth of colour breaks it, and colour says nothing that the text does not.
#[test]
fn every_size_can_be_drawn() {
    let colour = Theme::load("colorblind", Depth::True).unwrap();
    for keys in [0, 1, 2] {
        let mut user = User::new((120, 40));
        (0..keys).for_each(|_| drop(user.key(KeyCode::Enter)));
        for size in [(1, 1), (3, 40), (39, 9), (40, 10), (60, 14), (80, 24), (99, 25), (119, 30), (300, 80)] {
            user.ui.size = size;
            let words = |buf: &Buffer| buf.content().iter().map(|cell| cell.symbol().to_owned()).collect::<Vec<_>>();
            assert_eq!(words(&user.drawn(&colour)), words(&user.drawn(&Theme::mono())), "{size:?}");
        }
    }
}

/// Asks a real Prometheus what the screens above need, and keeps its answers.
#[test]
#[ignore = "writes tests/fixtures/fleet/answers.json.gz: for after a change of the questions"]
fn record_answers() {
    assert!(is_installed());
    let job = |id, first_node, nodes, fault| Job { id, first_node, nodes, fault, from_s: 600 };
    let jobs = vec![
        job("4417", 1, 12, Fault::Hang { rank: 43 }),
        Job::healthy("4418", 13, 6),
        job("4419", 19, 6, Fault::Dead { node: 3 }),
        job("4420", 25, 6, Fault::Straggler { node: 5 }),
    ];
    let prometheus = Prometheus::of(&World { jobs, for_s: 960 });
    let kept: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let (url, theirs) = (prometheus.url.clone(), kept.clone());
    let proxy = stand_in::serve(move |request| {
        let answer = stand_in::forward(&url, request);
        theirs.lock().unwrap().insert(stand_in::key(request), answer.clone());
        stand_in::reply("200 OK", &answer)
    });
    let jobs = ["4417", "4418", "4419", "4420"].map(|job| Focus::Job(job.into()));
    let node = Focus::Node("node0006".into(), Some("4417".into()));
    for focus in jobs.into_iter().chain([Focus::Overview, node]) {
        frame(&proxy, &focus);
    }
    let path = stand_in::recording();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut out = flate2::write::GzEncoder::new(std::fs::File::create(path).unwrap(), flate2::Compression::best());
    out.write_all(serde_json::to_string(&*kept.lock().unwrap()).unwrap().as_bytes()).unwrap();
    out.finish().unwrap();
}
