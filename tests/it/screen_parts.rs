//! The parts that screens are drawn with: words and cells, sparklines, charts, themes, filters, and what a terminal is sent.

mod widgets {
    use nccl_top::base::words::wrap;
    use nccl_top::tui::widgets::put::Put;
    use nccl_top::tui::widgets::{Pen, first_shown, shorten};
    use proptest::prelude::*;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    proptest! {
        /// Letters, wide ones, accents of their own, controls, joined signs, in any mixture.
        #[test]
        fn text_is_put_where_ratatui_puts_it(
            text in proptest::collection::vec(
                prop_oneof!["[a-z0-9 ]{1,5}", Just("測".to_owned()), Just("e\u{301}".to_owned()), Just("\t\r\n".to_owned()), Just("│·é".to_owned()), Just("👩‍🚀".to_owned())],
                0..12,
            ),
            (x, room) in (0u16..20, 0usize..30),
        ) {
            let text = text.concat();
            let blank = || Buffer::filled(Rect::new(0, 0, 20, 1), ratatui::buffer::Cell::new("."));
            let (mut ours, mut theirs) = (blank(), blank());
            let ends = (ours.put(x, 0, &text, room, Style::new().bold()), theirs.set_stringn(x, 0, &text, room, Style::new().bold()));
            prop_assert_eq!(ours, theirs);
            prop_assert_eq!(ends.0, ends.1);
        }
    }

    #[test]
    fn both_ends_of_a_long_path_stay() {
        assert_eq!(shorten("/fsx/out", 8), "/fsx/out");
        assert_eq!(shorten("/fsx/team/run-17/out", 10), "/fs…17/out");
        assert_eq!(shorten("測試測試測試", 7), "測…測試");
        assert_eq!([0, 1, 2].map(|width| shorten("abcdef", width)), ["…", "…", "…f"]);
    }

    #[test]
    fn words_that_are_too_wide_are_cut() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("測試測試", 3), ["測", "試", "測", "試"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("測", 0), ["測"]);
    }

    #[test]
    fn what_does_not_fit_says_so() {
        let row = |texts: &[&str], width| {
            let area = Rect::new(1, 0, width, 1);
            let mut buf = Buffer::empty(Rect::new(0, 0, 12, 1));
            let mut pen = Pen::new(&mut buf, area);
            texts.iter().for_each(|t| pen.put(t, Style::new()));
            buf.content().iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned()
        };
        assert_eq!(row(&["one", " two"], 10), " one two");
        assert_eq!(row(&["one", " two", "three"], 6), " one t…");
        assert_eq!(row(&["測試測試"], 4), " 測 …", "a wide character has two cells");
        assert_eq!(row(&["one"], 0), "");
    }

    #[test]
    fn the_selected_row_stays_in_sight() {
        assert_eq!(first_shown(100, Some(50), 10), 45);
        assert_eq!(first_shown(100, Some(99), 10), 90);
        assert_eq!(first_shown(5, Some(4), 10), 0);
        assert_eq!(first_shown(100, None, 10), 0);
    }
}

mod chart {
    use nccl_top::tui::widgets::chart::Chart;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style;
    fn draw(values: &[Option<f32>], width: u16, height: u16) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        Chart { values, range: None, span: ("last 1 min", "now"), word: |v| format!("{v:.1}"), line: Style::new(), scale: Style::new() }
            .draw(area, &mut buf);
        let rows =
            buf.content().chunks(usize::from(width).max(1)).map(|r| r.iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned());
        rows.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_line_falls_and_a_gap_stays_a_gap() {
        let falling: Vec<Option<f32>> = (0..16).map(|i| (i != 8).then_some(16.0 - i as f32)).collect();
        assert_eq!(
            draw(&falling, 30, 3),
            "    16.0 ⠉⠒⠤⣀ ⢀\n     1.0     ⠈⠒⠤⣀\n         last 1 min        now".replace("⣀ ⢀", "⣀").as_str()
        );
    }

    #[test]
    fn any_size_and_any_value_is_survived() {
        for width in 0..20 {
            for height in 0..5 {
                draw(&[Some(f32::MAX), Some(f32::MIN), None, Some(f32::NAN), Some(0.0)], width, height);
            }
        }
        let flat = draw(&[Some(2.0); 8], 20, 3);
        assert!(flat.contains("⠉⠉⠉⠉") && flat.contains("2.0"), "{flat}");
    }
}

mod spark {
    use nccl_top::base::time::Stamp;
    use nccl_top::tui::widgets::spark::{Axis, draw};
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style;
    use std::time::Duration;

    fn row(values: &[Option<f32>], max: f32) -> String {
        let mut buf = Buffer::empty(Rect::new(0, 0, values.len() as u16, 1));
        draw(&mut buf, 0, 0, values, max, Style::new());
        buf.content().iter().map(|c| c.symbol()).collect()
    }

    #[test]
    fn zero_is_drawn_and_absence_is_not() {
        assert_eq!(row(&[None, Some(0.0), Some(50.0), Some(100.0), Some(1e9), None], 100.0), " ▁▄▇▇ ");
        assert_eq!(row(&[Some(f32::NAN), Some(-3.0), Some(1.0)], 0.0), "▁▁▁");
    }

    #[test]
    fn the_axis_moves_by_whole_columns() {
        let at = |ms: i64| Axis::new(Stamp(ms * 1_000_000), Duration::from_secs(120), 60);
        assert_eq!((at(10_000).step, at(10_000).columns), (Duration::from_secs(2), 60));
        assert_eq!(at(10_000).end, Stamp(10_000_000_000));
        assert_eq!(at(10_001).end, at(12_000).end);
        assert_eq!(Axis::new(Stamp(0), Duration::from_secs(120), 0).columns, 0);
    }
}

mod plain {
    use nccl_top::tui::plain::{is_utf8, to_ascii};
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn only_ascii_is_left_and_columns_stay() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 30, 1));
        buf.set_string(0, 0, "╭─ ■ 14 °C · 8 × … 測試 ⣿⣀ é", Style::new());
        to_ascii(&mut buf);
        let text: String = buf.content().iter().map(|c| c.symbol()).collect();
        assert_eq!(text, "+- # 14 oC . 8 x ~ ? ?  #. ?  ");
    }

    #[test]
    fn the_locale_decides() {
        let of = |all: &'static str, lang: &'static str| {
            is_utf8(&move |name| match name {
                "LC_ALL" => Some(all.to_owned()),
                "LANG" => Some(lang.to_owned()),
                _ => None,
            })
        };
        assert!(of("", "en_US.UTF-8") && of("C.utf8", "C"));
        assert!(!of("", "") && !of("C", "en_US.UTF-8") && !of("POSIX", ""));
    }
}

mod theme {
    use nccl_top::tui::theme::{Depth, THEMES, Theme, fit};
    use ratatui::style::{Color, Style};
    #[test]
    fn every_theme_of_the_program_is_whole_at_every_depth() {
        for (name, text) in THEMES {
            let file: toml::Table = toml::from_str(text).unwrap();
            // Without colours a row that is suspect looks as that of a culprit.
            assert_eq!(file.len(), if *name == "mono" { 15 } else { 16 }, "{name} names every role");
            for depth in [Depth::None, Depth::Sixteen, Depth::Indexed, Depth::True] {
                let theme = Theme::load(name, depth).unwrap();
                assert_ne!(theme.act, theme.look, "{name} {depth:?}");
                assert_ne!(theme.act, theme.good, "{name} {depth:?}");
                assert_ne!(theme.look, theme.text, "{name} {depth:?}");
                assert_ne!(theme.selected, Style::new(), "{name} {depth:?}");
                let colors = [theme.act.fg, theme.look.fg, theme.selected.bg, theme.found.bg];
                for color in colors.into_iter().flatten() {
                    match depth {
                        Depth::None => panic!("{name}: a colour without colours"),
                        Depth::Sixteen => assert!(!matches!(color, Color::Indexed(_) | Color::Rgb(..)), "{name}: {color}"),
                        Depth::Indexed => assert!(!matches!(color, Color::Rgb(..)), "{name}: {color}"),
                        Depth::True => {}
                    }
                }
            }
        }
    }

    #[test]
    fn a_wrong_theme_is_named_with_its_line() {
        let wrong = |text: &str| Theme::parse(text, "t.toml", Depth::True).unwrap_err();
        assert_eq!(
            wrong("text = {}\nact = { fg = \"crimson\" }\n"),
            "t.toml:2: found \"crimson\", expected \"#rrggbb\", a number from 0 to 255 or a name such as \"red\" or \"bright-red\""
        );
        assert!(wrong("\nacct = {}\n").starts_with("t.toml:2: unknown field `acct`, expected one of"), "{}", wrong("\nacct = {}\n"));
        assert!(Theme::load("neon", Depth::True).unwrap_err().starts_with("no theme \"neon\", expected one of colorblind, dark"));
        assert!(Theme::load("/none/such.toml", Depth::True).unwrap_err().contains("no such file"));
    }

    #[test]
    fn terminals_tell_their_depth() {
        let depth = |term: &'static str, colorterm: Option<&'static str>| {
            Depth::of_terminal(&move |name| match name {
                "TERM" => Some(term.to_owned()),
                _ => colorterm.map(str::to_owned),
            })
        };
        assert_eq!(depth("xterm-256color", Some("truecolor")), Depth::True);
        assert_eq!(depth("screen-256color", None), Depth::Indexed);
        assert_eq!(depth("screen", None), Depth::Sixteen);
        assert_eq!(depth("linux", None), Depth::Sixteen);
        assert_eq!(depth("dumb", None), Depth::None);
    }

    #[test]
    fn the_nearest_color_is_the_nearest() {
        assert_eq!(fit(Color::Rgb(255, 0, 0), Depth::Indexed), Some(Color::Indexed(196)));
        assert_eq!(fit(Color::Rgb(138, 138, 138), Depth::Indexed), Some(Color::Indexed(245)));
        assert_eq!(fit(Color::Indexed(196), Depth::Sixteen), Some(Color::LightRed));
        assert_eq!(fit(Color::Red, Depth::Indexed), Some(Color::Red));
    }
}

mod filter {
    use nccl_top::base::time::Stamp;
    use nccl_top::logs::prefilter::Class;
    use nccl_top::model::log::Kept;
    use nccl_top::tui::filter::Filter;
    use proptest::prelude::*;

    fn line(rank: Option<u32>, class: Class, text: &str) -> Kept {
        Kept { at: Stamp(0), file: 1, no: None, rank, class, backlog: false, text: text.into() }
    }

    fn shows(filter: &str, line: &Kept) -> bool {
        Filter::parse(filter).unwrap().matches(line, "rank_3.log")
    }

    #[test]
    fn all_that_is_asked_must_hold() {
        let warn = line(Some(3), Class::Alarm, "vm:1:1 [3] NCCL WARN Timeout waiting for peer 2");
        for yes in ["", "nccl warn", "TIMEOUT", "!info", "rank:3", "rank:0-7", "file:rank_3", "/peer [0-9]/", "\"waiting for\" !/x{9}/"] {
            assert!(shows(yes, &warn), "{yes}");
        }
        for no in ["info", "!warn", "rank:4", "rank:0-2", "file:other", "/peer x/", "\"for waiting\"", "timeout missing"] {
            assert!(!shows(no, &warn), "{no}");
        }
        assert!(!shows("rank:0", &line(None, Class::Fact, "a line without a rank")));
        let mut severe = Filter::parse("").unwrap();
        severe.least = Class::Alarm;
        assert!(severe.matches(&warn, "") && !severe.matches(&line(None, Class::Fact, "step 1"), ""));
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        assert_eq!(Filter::parse("rank:x").unwrap_err(), "found \"x\", expected a rank such as 3 or a range such as 0-7");
        assert!(Filter::parse_ranks("7-3").is_err());
        assert!(Filter::parse("/(/").unwrap_err().starts_with("/(/ is no regular expression: "));
        assert!(Filter::parse_search("  ").unwrap().is_none());
    }

    #[test]
    fn matches_are_found_where_they_are() {
        let search = Filter::parse_search("loss").unwrap().unwrap();
        assert_eq!(search.places("Loss 1, größer loss 2"), [(0, 4), (17, 21)]);
        assert_eq!(Filter::parse_search("/x*/").unwrap().unwrap().places("abc"), []);
    }

    proptest! {
        #[test]
        fn nothing_typed_and_no_line_can_break_it(typed in "\\PC{0,30}", text in "\\PC{0,60}") {
            for filter in [Filter::parse(&typed).ok(), Filter::parse_search(&typed).ok().flatten()].into_iter().flatten() {
                filter.matches(&line(Some(1), Class::Fact, &text), "f");
                for (start, end) in filter.places(&text) {
                    prop_assert!(text.is_char_boundary(start) && text.is_char_boundary(end), "{typed:?} {text:?}");
                }
            }
        }
    }
}

mod terminal {
    use nccl_top::tui::terminal::{clipboard, note};

    #[test]
    fn text_for_the_clipboard_cannot_end_the_sequence() {
        assert_eq!(clipboard("py-spy\x07"), "\x1b]52;c;cHktc3B5Bw==\x07");
    }

    #[test]
    fn a_note_is_one_short_sequence() {
        assert_eq!(note("rank 3\x1b]52;c;x\x07 is; late\n"), "\x1b]9;nccl-top: rank 3 is late\x07");
        assert!(note(&"x".repeat(1000)).len() < 250);
    }
}
