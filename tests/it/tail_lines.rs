//! How the tailer cuts bytes into lines, and which of them it passes on under pressure.

mod cut {
    use nccl_top::sources::tail::cut::{Cutter, End, LONGEST, Piece};
    type Told = (String, u64, Option<u64>, End);

    fn tell(out: &mut Vec<Told>) -> impl FnMut(Piece<'_>) {
        |p| out.push((String::from_utf8_lossy(p.text).into_owned(), p.offset, p.no, p.end))
    }

    /// Feeds `text` whole and byte by byte; both must tell the same.
    fn cut(text: &[u8]) -> Vec<Told> {
        let (mut whole, mut bytewise) = (Vec::new(), Vec::new());
        Cutter::at_line(0, Some(1)).feed(text, &mut tell(&mut whole));
        let mut cutter = Cutter::at_line(0, Some(1));
        for b in text {
            cutter.feed(&[*b], &mut tell(&mut bytewise));
        }
        assert_eq!(whole, bytewise);
        whole
    }

    fn line(text: &str, offset: u64, no: u64) -> Told {
        (text.into(), offset, Some(no), End::Line)
    }

    fn bar(text: &str, offset: u64, no: u64) -> Told {
        (text.into(), offset, Some(no), End::Return)
    }

    #[test]
    fn lines_are_numbered_and_carry_their_offset() {
        assert_eq!(cut(b"one\n\nthree\r\nfour"), [line("one", 0, 1), line("", 4, 2), line("three", 5, 3)]);
    }

    #[test]
    fn pieces_of_one_physical_line_share_its_number() {
        assert_eq!(cut(b"\r10%\r20%\r30%\nnext\n"), [bar("10%", 1, 1), bar("20%", 5, 1), line("30%", 9, 1), line("next", 13, 2)]);
    }

    #[test]
    fn a_wiped_bar_is_nothing() {
        assert_eq!(cut(b"\r10%\r      \rmessage\n\r\x1b[K\r20%\r "), [bar("10%", 1, 1), line("message", 12, 1), bar("20%", 25, 2)]);
    }

    #[test]
    fn a_line_end_may_have_several_returns() {
        assert_eq!(cut(b"one\r\r\ntwo\r\n"), [line("one", 0, 1), line("two", 6, 2)]);
    }

    #[test]
    fn nul_bytes_vanish_wherever_they_are() {
        assert_eq!(cut(b"a\0b\n\0\0Traceback\nx\r\0\n"), [line("ab", 0, 1), line("Traceback", 4, 2), line("x", 16, 3)]);
    }

    #[test]
    fn a_long_line_is_cut_and_its_successor_is_whole() {
        let mut text = vec![b'x'; LONGEST + 10];
        text.extend_from_slice(b"\nnext\n");
        let told = cut(&text);
        assert_eq!(told[0].0.len(), LONGEST);
        assert_eq!(told[1], line("next", LONGEST as u64 + 11, 2));
    }

    #[test]
    fn a_bar_without_end_is_shown_once_and_told_again_when_complete() {
        let mut out = Vec::new();
        let mut cutter = Cutter::at_line(0, Some(1));
        cutter.feed(b"\r10%", &mut tell(&mut out));
        cutter.glimpse(|_| false, &mut tell(&mut out));
        cutter.glimpse(|_| false, &mut tell(&mut out));
        assert_eq!(out, [bar("10%", 1, 1)]);
        cutter.feed(b" done\n", &mut tell(&mut out));
        assert_eq!(out[1..], [line("10% done", 1, 1)]);
    }

    #[test]
    fn a_bar_that_was_shown_is_not_told_again_by_its_return() {
        let mut out = Vec::new();
        let mut cutter = Cutter::at_line(0, Some(1));
        cutter.feed(b"\r10%", &mut tell(&mut out));
        cutter.glimpse(|_| false, &mut tell(&mut out));
        cutter.feed(b"\r20%", &mut tell(&mut out));
        cutter.glimpse(|_| false, &mut tell(&mut out));
        assert_eq!(out, [bar("10%", 1, 1), bar("20%", 5, 1)]);
    }

    #[test]
    fn a_line_whose_end_does_not_come_is_told_once_and_its_rest_later() {
        let mut cutter = Cutter::at_line(0, Some(1));
        let mut told = Vec::new();
        cutter.feed(b"ValueError: b", &mut tell(&mut told));
        cutter.give_up_waiting(&mut tell(&mut told));
        cutter.give_up_waiting(&mut tell(&mut told));
        cutter.feed(b"ad\nnext\n", &mut tell(&mut told));
        assert_eq!(told, [bar("ValueError: b", 0, 1), line("ad", 13, 1), line("next", 16, 2)]);
    }

    #[test]
    fn what_is_refused_waits_for_its_end() {
        let mut out = Vec::new();
        let mut cutter = Cutter::at_line(0, Some(1));
        cutter.feed(b"\r10% WARN", &mut tell(&mut out));
        cutter.glimpse(|_| true, &mut tell(&mut out));
        assert_eq!(out, []);
        cutter.finish(&mut tell(&mut out));
        assert_eq!(out, [bar("10% WARN", 1, 1)]);
    }

    #[test]
    fn reading_that_begins_inside_a_line_begins_with_the_next_one() {
        let mut out = Vec::new();
        let mut cutter = Cutter::inside_line(100);
        cutter.feed(b"torn\nwhole\n", &mut tell(&mut out));
        assert_eq!(out, [("whole".to_string(), 105, None, End::Line)]);
    }
}

mod sift {
    use nccl_top::logs::prefilter::Class;
    use nccl_top::observe::log::Lines;
    use nccl_top::sources::tail::cut::{End, LONGEST, Piece};
    use nccl_top::sources::tail::sift::{Excess, MOST_LINES, Sift};
    fn by_first_letter(text: &[u8]) -> Class {
        match text.first() {
            Some(b'n') => Class::Noise,
            Some(b'A') => Class::Alarm,
            _ => Class::Fact,
        }
    }

    fn piece(text: &str) -> Piece<'_> {
        Piece { text: text.as_bytes(), offset: 0, len: text.len() as u64 + 1, no: None, end: End::Line }
    }

    fn texts(lines: &Lines) -> Vec<&str> {
        lines.lines.iter().map(|l| l.text.as_str()).collect()
    }

    #[test]
    fn without_pressure_everything_is_told() {
        let mut sift = Sift::with(by_first_letter, Excess::Drop);
        sift.begin(100);
        (0..200).for_each(|i| sift.take(piece(&format!("noise {i}"))));
        assert_eq!(sift.finish(1, false).unwrap().lines.len(), 200);
        assert_eq!(sift.finish(1, false), None);
    }

    #[test]
    fn under_pressure_facts_and_alarms_stay_in_order_and_only_the_last_noise() {
        let mut sift = Sift::with(by_first_letter, Excess::Drop);
        sift.begin(u64::MAX);
        sift.take(piece("first"));
        (0..100).for_each(|i| sift.take(piece(&format!("noise {i}"))));
        sift.take(piece("Alarm"));
        sift.take(piece("noise 100"));
        let lines = sift.finish(7, true).unwrap();
        assert_eq!(lines.lines.len(), 52);
        assert_eq!(texts(&lines)[..2], ["first", "noise 51"]);
        assert_eq!(texts(&lines)[50..], ["Alarm", "noise 100"]);
        assert_eq!((lines.file, lines.dropped_lines, lines.backlog), (7, 51, true));
        assert_eq!(lines.dropped_bytes, 10 * 8 + 41 * 9);
    }

    #[test]
    fn every_alarm_is_told_or_counted() {
        let mut sift = Sift::with(by_first_letter, Excess::Drop);
        sift.begin(u64::MAX);
        (0..10_000).for_each(|i| sift.take(piece(&format!("Alarm {}", i % 3))));
        (0..10_000).for_each(|i| sift.take(piece(&format!("Alarm of its own {i}"))));
        let lines = sift.finish(1, false).unwrap();
        assert_eq!(lines.lines.len(), 2 * MOST_LINES, "as much again for what is no mere warning");
        assert_eq!((lines.folded_alarms, lines.alarms_left_out), (10_000 - 3 * 4, 10_000 + 3 * 4 - 2 * MOST_LINES as u64));
        assert_eq!(lines.dropped_lines, 0);
    }

    #[test]
    fn facts_beyond_the_cap_are_counted_as_dropped_unless_they_can_wait() {
        for (excess, told) in [(Excess::Drop, MOST_LINES), (Excess::Defer, 5000)] {
            let mut sift = Sift::with(by_first_letter, excess);
            sift.begin(u64::MAX);
            (0..5000).for_each(|_| sift.take(piece("fact")));
            assert_eq!(sift.is_full(), excess == Excess::Defer);
            let lines = sift.finish(1, false).unwrap();
            assert_eq!((lines.lines.len(), lines.dropped_lines), (told, (5000 - told) as u64));
        }
    }

    #[test]
    fn only_the_last_of_several_bars_is_told_but_no_alarm_among_them_is_lost() {
        let mut sift = Sift::with(by_first_letter, Excess::Drop);
        sift.begin(100);
        for text in ["10%", "20%", "Alarm 30%", "40%", "50%"] {
            sift.take(Piece { end: End::Return, ..piece(text) });
        }
        sift.take(piece("line"));
        let lines = sift.finish(1, false).unwrap();
        assert_eq!(texts(&lines), ["20%", "Alarm 30%", "50%", "line"]);
        assert!(lines.lines[2].transient && !lines.lines[3].transient);
    }

    #[test]
    fn invalid_bytes_do_not_make_a_line_longer_than_the_cut() {
        let mut sift = Sift::new(Excess::Drop);
        sift.take(Piece { text: &[0xff; 60_000], ..piece("") });
        assert!(sift.finish(1, false).unwrap().lines[0].text.len() <= LONGEST);
    }
}

mod shares {
    use nccl_top::sources::tail::shares;
    #[test]
    fn small_wants_are_met_and_big_ones_share_the_rest() {
        assert_eq!(shares(&[100, 5, 0, 70], 105), [50, 5, 0, 50]);
        assert_eq!(shares(&[1, 2, 3], 100), [1, 2, 3]);
        assert_eq!(shares(&[], 100), [0; 0]);
    }
}
