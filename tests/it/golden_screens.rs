//! Golden screens: the overview and each pane at several sizes, over recordings and worlds made by hand. Below the text of a screen
//! stands, for some, what each cell looks like: one letter per role of the theme, in colour and without.

use crate::support::worlds;
use nccl_top::session::Session;
use nccl_top::time::Zone;
use nccl_top::tui::keys::Action;
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::ui::Ui;
use nccl_top::tui::view;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Style;

const SIZES: [(u16, u16); 4] = [(39, 9), (80, 24), (120, 40), (220, 60)];

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
    let plain = |style: Style| (style.fg, style.bg, style.add_modifier);
    rows(buf, |cell| {
        if cell.symbol() == " " && cell.modifier.is_empty() && cell.bg == ratatui::style::Color::Reset {
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

/// The screen as text, and its looks in colour and without.
fn with_looks(session: &Session, set: impl Fn(&mut Ui), size: (u16, u16)) -> String {
    let mut out = String::new();
    for (name, theme) in [("colour", Theme::load("colorblind", Depth::Indexed).unwrap()), ("mono", Theme::mono())] {
        let mut ui = Ui::new(Zone::UTC);
        ui.size = size;
        set(&mut ui);
        let buf = draw(session, &mut ui, &theme, size);
        if out.is_empty() {
            out = text(&buf);
        } else {
            assert!(out.starts_with(&text(&buf)), "the text depends on the theme");
        }
        out.push_str(&format!("--- {name}\n{}", styles(&buf, &theme)));
    }
    out
}

fn golden(name: &str, session: &Session, set: impl Fn(&mut Ui)) {
    for size in SIZES {
        let name = format!("{name}-{}x{}", size.0, size.1);
        if size == (80, 24) || size == (120, 40) {
            insta::assert_snapshot!(name, with_looks(session, &set, size));
        } else {
            let mut ui = Ui::new(Zone::UTC);
            ui.size = size;
            set(&mut ui);
            insta::assert_snapshot!(name, text(&draw(session, &mut ui, &Theme::mono(), size)));
        }
    }
}

fn pane(id: &str) -> impl Fn(&mut Ui) {
    let index = view::pane_index(id);
    move |ui| {
        ui.focus = index;
        ui.zoom = Some(index);
    }
}

#[test]
fn overview() {
    golden("overview-healthy", &worlds::healthy(), |_| {});
    golden("overview-hang", &worlds::hang(), |_| {});
    golden("overview-straggler", &worlds::straggler(), |_| {});
    // Whose a row is, is told where it could be another's.
    golden("overview-two-jobs", &worlds::two_jobs(), |_| {});
    golden("overview-p5", &worlds::p5(), |_| {});
    golden("overview-no-gpu", &worlds::no_gpu(), |_| {});
    golden("overview-absent", &worlds::absent(), |_| {});
    golden("overview-ranks-640", &worlds::ranks_640(), |_| {});
    // The culprit is on another node.
    let (elsewhere, _) = worlds::elsewhere(30, |n| worlds::ras_json(16, |rank| Some(if rank == 5 { n - 12 } else { n })));
    golden("overview-elsewhere", &elsewhere, |_| {});
}

/// Wider than anything is worth: nothing is stretched.
#[test]
fn overview_of_a_huge_terminal() {
    let mut ui = Ui::new(Zone::UTC);
    let buf = draw(&worlds::p5(), &mut ui, &Theme::mono(), (300, 80));
    insta::assert_snapshot!("overview-p5-300x80", text(&buf));
}

#[test]
fn each_pane_alone() {
    let (hang, p5) = (worlds::hang(), worlds::p5());
    golden("training", &p5, pane("training"));
    golden("gpus", &hang, pane("gpus"));
    golden("network", &p5, pane("network"));
    golden("nccl", &worlds::ranks_640(), pane("nccl"));
    golden("nccl-1024", &worlds::ranks_1024(), pane("nccl"));
    golden("nccl-8", &p5, pane("nccl"));
    let two_jobs = worlds::two_jobs();
    for id in ["gpus", "nccl", "log", "processes"] {
        golden(&format!("{id}-two-jobs"), &two_jobs, pane(id));
    }
    golden("findings", &hang, pane("findings"));
    golden("processes", &hang, pane("processes"));
    golden("sources", &worlds::absent(), pane("sources"));
}

#[test]
fn the_log_alone_searched_filtered_and_hostile() {
    let session = worlds::busy_log();
    golden("log", &session, pane("log"));
    let theme = Theme::mono();
    let search = |ui: &mut Ui, keys: &str| {
        for c in keys.chars() {
            let code = if c == '\n' { crossterm::event::KeyCode::Enter } else { crossterm::event::KeyCode::Char(c) };
            let key = crossterm::event::KeyEvent::new(code, crossterm::event::KeyModifiers::NONE);
            ui.input(&crossterm::event::Event::Key(key), &session, &theme);
        }
    };
    golden("log-search", &session, |ui| {
        pane("log")(ui);
        search(ui, "/warn\nNN");
    });
    golden("log-filter", &session, |ui| {
        pane("log")(ui);
        search(ui, "w");
        search(ui, "f!traceback file:rank\n");
    });
}

#[test]
fn help_and_prompt() {
    let session = worlds::healthy();
    let theme = Theme::mono();
    golden("help", &session, |ui| {
        ui.act(Action::Help, &worlds_session(), &theme);
    });
    let mut ui = Ui::new(Zone::UTC);
    ui.act(Action::Filter, &session, &theme);
    let buf = draw(&session, &mut ui, &theme, (80, 24));
    assert!(text(&buf).ends_with(" only lines with: █\n"), "{}", text(&buf));
}

/// Help needs no world.
fn worlds_session() -> Session {
    Session::default()
}
