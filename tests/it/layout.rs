//! The layout over all sizes, with real contents: nothing overlaps, nothing is drawn outside its place, and hostile text moves nothing.

use crate::support::worlds;
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::tui::choices::{Content, Sheet, Ui};
use nccl_top::tui::layout;
use nccl_top::tui::panes::{Ctx, PANES};
use nccl_top::tui::theme::{Depth, THEMES, Theme};
use nccl_top::tui::view;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::num::NonZeroU16;
use std::sync::LazyLock;
use unicode_width::UnicodeWidthStr;

static WORLDS: LazyLock<Vec<Session>> = LazyLock::new(|| {
    vec![
        worlds::hang(),
        worlds::p5(),
        worlds::no_gpu(),
        worlds::absent(),
        worlds::ranks_640(),
        worlds::busy_log(),
        worlds::two_jobs(),
        Session::default(),
        wide(),
    ]
});

/// Names and texts of characters that take two cells each.
fn wide() -> Session {
    let mut session = worlds::hang();
    let name = || "統計情報".repeat(4);
    session.model.host = name();
    for process in session.model.processes.values_mut() {
        (process.info.comm, process.info.cmdline) = (name(), vec![name(); 3]);
    }
    for (log, no) in session.model.files.values_mut().zip(1..) {
        log.info.path = format!("/{}/{no}", name());
    }
    for source in session.model.sources.values_mut() {
        source.detail = Some(name());
    }
    for verdict in session.verdicts.values_mut() {
        verdict.summary = name();
    }
    session
}

fn ui(world: &Session, size: (u16, u16)) -> Ui {
    let mut ui = Ui::new(Zone::UTC);
    ui.size = size;
    // As if the user had moved about.
    ui.lists.iter_mut().for_each(|list| list.index = 3);
    ui.log.at = world.model.logbook.end().checked_sub(20);
    ui
}

/// What a pane alone, drawn at `area` of a larger screen, has put outside of it.
fn outside(session: &Session, pane: usize, area: Rect, zoomed: bool) -> Option<ratatui::layout::Position> {
    let whole = Rect::new(0, 0, area.width + 12, area.height + 12);
    let mut buf = Buffer::filled(whole, ratatui::buffer::Cell::new("~"));
    let mut ui = ui(session, (whole.width, whole.height));
    ui.zoom = zoomed.then_some(pane);
    let ctx = Ctx { session, ui: &ui, theme: &Theme::mono(), pane, zoomed, focused: true };
    (PANES[pane].draw)(&ctx, area, &mut buf);
    let is_untouched = |at| buf[at].symbol() == "~" && buf[at].modifier.is_empty();
    // The margin of its rows is the pane's.
    let is_mark =
        |at: ratatui::layout::Position| at.x + 1 == area.x && (area.top()..area.bottom()).contains(&at.y) && buf[at].symbol() == "►";
    whole.positions().find(|at| !area.contains(*at) && !is_untouched(*at) && !is_mark(*at))
}

/// Where little fits, labels and columns have less room than they usually take.
#[test]
fn no_pane_draws_outside_a_narrow_place() {
    for (world, session) in WORLDS.iter().enumerate() {
        for (pane, spec) in PANES.iter().enumerate() {
            for width in [1, 2, 3, 5, 8, 11, 12, 13, 14, 20, 30] {
                for height in [1, 2, 3, 5, 8, 13, 16, 17, 24] {
                    for zoomed in [false, true] {
                        let area = Rect { x: 2, y: 3, width, height };
                        let at = outside(session, pane, area, zoomed);
                        assert_eq!(at, None, "{} of world {world} in {area}, zoomed {zoomed}", spec.id);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_pane_draws_outside_its_place(
        world in 0..WORLDS.len(), pane in 0..PANES.len(), x in 0u16..6, y in 0u16..6, width in 1u16..=400, height in 1u16..=120, zoomed: bool,
    ) {
        let area = Rect { x, y, width, height };
        prop_assert_eq!(outside(&WORLDS[world], pane, area, zoomed), None, "{} in {}", PANES[pane].id, area);
    }

    #[test]
    fn every_size_is_drawn_and_every_pane_has_its_least(
        world in 0..WORLDS.len(), zoom in prop::option::of(0..PANES.len()), width in 1u16..=400, height in 1u16..=120, help: bool, popup: bool,
    ) {
        let session = &WORLDS[world];
        let theme = Theme::mono();
        let mut ui = ui(session, (width, height));
        ui.zoom = zoom;
        ui.sheet = help.then(|| Sheet::of(Content::Help));
        ui.popup = popup.then(|| ("Sent".into(), "py-spy dump --nonblocking --pid 1453".into()));
        ui.caption = popup.then_some("what happens now");
        let screen = Rect::new(0, 0, width, height);
        view::draw(&mut Buffer::empty(screen), session, &ui, &theme);
        let places = view::places(session, &ui, &theme);
        for (i, place) in places.iter().enumerate() {
            prop_assert_eq!(place.area.intersection(screen), place.area);
            for other in &places[i + 1..] {
                prop_assert!(place.area.intersection(other.area).is_empty(), "{:?} {:?}", place, other);
            }
            if zoom.is_none() {
                let pane = view::pane_index(place.pane);
                let ctx = Ctx { session, ui: &ui, theme: &theme, pane, zoomed: false, focused: false };
                let inside = view::inside(&ui, place.area);
                let want = (PANES[pane].want)(&ctx, inside.width).expect("it has a place");
                prop_assert!(inside.width >= want.width && inside.height >= want.least.min(want.all), "{place:?} {want:?}");
            }
        }
    }
}

/// From one cell to more than any terminal has: every width at some heights, every height at some widths.
#[test]
fn every_size_can_be_drawn() {
    let (heights, widths) = ([1, 9, 10, 24, 40, 80], [1, 39, 40, 80, 99, 100, 169, 170, 300]);
    let across = (1..=300u16).flat_map(|width| heights.map(|height| (width, height)));
    let down = (1..=80u16).flat_map(|height| widths.map(|width| (width, height)));
    let theme = Theme::mono();
    for (i, size) in across.chain(down).enumerate() {
        // Each size shows another world, in turn the overview and each pane.
        let session = &WORLDS[i % WORLDS.len()];
        let mut ui = ui(session, size);
        ui.zoom = Some(i / WORLDS.len() % (PANES.len() + 1)).filter(|pane| *pane < PANES.len());
        let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
        view::draw(&mut buf, session, &ui, &theme);
        assert!(size.0 < 9 || buf.content().iter().any(|cell| cell.symbol() != " "), "nothing at {size:?}");
    }
}

/// With each theme and each sheet on top, where hardly anything fits.
#[test]
fn every_theme_and_sheet_is_drawn_at_every_small_size() {
    let themes = THEMES.iter().flat_map(|(name, _)| [Depth::None, Depth::Sixteen, Depth::True].map(|depth| (*name, depth)));
    for (i, (name, depth)) in themes.enumerate() {
        let theme = Theme::load(name, depth).unwrap();
        for width in 1..=84 {
            for height in [1, 2, 5, 9, 10, 11, 24] {
                let session = &WORLDS[(usize::from(width) + i) % WORLDS.len()];
                let mut ui = ui(session, (width, height));
                ui.zoom = Some(usize::from(width + height) % (PANES.len() + 1)).filter(|pane| *pane < PANES.len());
                ui.sheet = (width % 2 == 0).then(|| Sheet::of(Content::Help));
                ui.popup = (width % 3 == 0).then(|| ("Sent".into(), "py-spy dump --nonblocking --pid 1453".into()));
                view::draw(&mut Buffer::empty(Rect::new(0, 0, width, height)), session, &ui, &theme);
            }
        }
    }
}

#[test]
fn what_is_most_important_is_there_at_every_usual_size() {
    let theme = Theme::mono();
    for size in [(80, 24), (100, 30), (120, 40), (220, 60), (300, 80)] {
        for (name, session) in [("hang", worlds::hang()), ("p5", worlds::p5()), ("ranks", worlds::ranks_640())] {
            let ui = ui(&session, size);
            let shown: Vec<&str> = view::places(&session, &ui, &theme).iter().map(|p| p.pane).collect();
            for pane in ["training", "gpus", "findings", "log"] {
                assert!(shown.contains(&pane), "{name} at {size:?} lacks {pane}: {shown:?}");
            }
        }
    }
    let all: Vec<&str> = PANES.iter().map(|p| p.id).collect();
    for arrangement in layout::ARRANGEMENTS {
        for (pane, _) in arrangement.bands.iter().flat_map(|b| b.iter()) {
            assert!(all.contains(pane), "{pane} is no pane");
        }
    }
}

/// Through a real terminal's eyes: the frame stands where it should on every row, whatever the log says.
#[test]
fn hostile_text_moves_nothing() {
    let session = &WORLDS[5];
    let theme = Theme::load("dark", Depth::True).unwrap();
    for (width, height) in [(60, 30), (80, 24), (97, 31), (120, 40), (181, 50)] {
        for back in [0u64, 20, 400, 1500, 3000] {
            let mut ui = Ui::new(Zone::UTC);
            ui.size = (width, height);
            ui.zoom = Some(view::pane_index("log"));
            ui.log.at = session.model.logbook.end().checked_sub(back + 1);
            let mut bytes = Vec::new();
            {
                let backend = CrosstermBackend::new(&mut bytes);
                let viewport = ratatui::Viewport::Fixed(Rect::new(0, 0, width, height));
                let mut terminal = Terminal::with_options(backend, ratatui::TerminalOptions { viewport }).unwrap();
                terminal.draw(|frame| view::draw(frame.buffer_mut(), session, &ui, &theme)).unwrap();
            }
            let mut parser = vt100::Parser::new(NonZeroU16::new(height).unwrap(), NonZeroU16::new(width).unwrap(), 0);
            parser.process(&bytes);
            let screen = parser.screen();
            assert!(!screen.bracketed_paste());
            let place = view::places(session, &ui, &theme)[0].area;
            for (row, text) in screen.rows(0, width).enumerate().skip(usize::from(place.y) + 1).take(usize::from(place.height) - 2) {
                assert_eq!(text.width(), usize::from(width), "row {row} at {width}x{height}: {text}");
                assert!(text.starts_with('│') && text.ends_with('│'), "row {row} at {width}x{height}: {text}");
            }
        }
    }
}

mod sharing {
    use nccl_top::tui::layout::{Layout, PRESETS, Want, chrome, inside, place, share};
    use proptest::prelude::*;
    use ratatui::layout::Rect;

    fn want(least: u16, all: u16, priority: u8) -> Want {
        Want { width: 20, least, comfort: least + 3, all, priority, late: false, grows: false }
    }

    #[test]
    fn the_important_ones_get_their_room_first() {
        let wants = [want(1, 1, 0), want(2, 8, 1), want(1, 30, 3), Want { grows: true, ..want(3, 500, 2) }];
        assert_eq!(share(100, 1, &wants), [2, 9, 31, 58], "the log takes what the others leave");
        assert_eq!(share(5, 1, &wants), [2, 3, 0, 0]);
        let late = [want(1, 4, 0), Want { late: true, ..want(2, 9, 1) }, Want { grows: true, ..want(3, 99, 2) }];
        assert_eq!(share(16, 1, &late), [5, 0, 11], "no room for the late one until the log has its comfort");
        assert_eq!(share(20, 1, &late), [5, 8, 7]);
    }

    fn inside_of(outer: Rect, inner: Rect) -> bool {
        inner.x >= outer.x && inner.y >= outer.y && inner.right() <= outer.right() && inner.bottom() <= outer.bottom()
    }

    proptest! {
        #[test]
        fn nothing_overlaps_nothing_is_outside_and_minima_are_kept(
            width in 1u16..=400, height in 1u16..=120, x in 0u16..5, y in 0u16..5,
            wants in prop::collection::vec((0u16..60, 0u16..12, 0u16..12, 0u16..200, 0u8..9, any::<(bool, bool)>()), 9),
            preset in 0..PRESETS.len(),
        ) {
            let area = Rect { x, y, width, height };
            let ids = ["training", "gpus", "network", "nccl", "findings", "log", "processes", "sources"];
            let want = |pane: &str, _: u16| {
                let i = ids.iter().position(|id| *id == pane)?;
                let (width, least, more, all, priority, (late, grows)) = wants[i];
                (all > 0).then_some(Want { width, least, comfort: least + more, all, priority, late, grows })
            };
            let layout = Layout::preset(PRESETS[preset].name);
            let framed = layout.is_framed(width);
            let (across, down) = chrome(framed);
            let places = place(area, &layout.bands(width), framed, &want);
            for (i, a) in places.iter().enumerate() {
                prop_assert!(inside_of(area, a.area), "{a:?} in {area:?}");
                let asked = want(a.pane, a.area.width).unwrap();
                prop_assert!(a.area.width >= asked.width + across, "{a:?} {asked:?}");
                prop_assert!(a.area.height >= asked.least.min(asked.all) + down, "{a:?} {asked:?}");
                prop_assert!(inside_of(a.area, inside(a.area, framed)));
                for b in &places[i + 1..] {
                    prop_assert!(a.area.intersection(b.area).is_empty(), "{a:?} {b:?}");
                    prop_assert!(a.pane != b.pane);
                }
            }
        }
    }
}
