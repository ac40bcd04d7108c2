//! Times, durations, counts and units in words.

use nccl_top::base::exit_code::exit_words;
use nccl_top::base::units::group;
use nccl_top::base::words::rank_words;

mod time {
    use nccl_top::base::time::{Stamp, Zone, parse_duration, span};
    use std::time::Duration;
    #[test]
    fn durations_are_read_as_users_write_them() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        for bad in ["", "2", "s", "2 parsecs", "-1s", "1e9h", "99999999999999h"] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn spans_read_like_speech() {
        let said: Vec<String> = [0, 14, 125, 65_040, 266_400].map(|s| span(Duration::from_secs(s))).to_vec();
        assert_eq!(said, ["0 s", "14 s", "2 m 05 s", "18 h 04 m", "3 d 02 h"]);
    }

    #[test]
    fn stamps_are_shown_in_the_zone_of_the_tape() {
        let at = Stamp(1_795_220_968_682_416_200);
        assert_eq!(Zone::UTC.rfc3339(at), "2026-11-21T00:29:28.682+00:00");
        assert_eq!(Zone { offset_s: 19_800 }.rfc3339(at), "2026-11-21T05:59:28.682+05:30");
    }
}

mod units {
    use nccl_top::base::units::{all_here, counted, line_rate, scaled, seconds, sentence, so_many, the_other};
    #[test]
    fn counts_are_worded_as_people_say_them() {
        assert_eq!([1u32, 2, 24].map(|n| counted(n, "rank")), ["1 rank", "2 ranks", "24 ranks"]);
        assert_eq!([1u64, 2].map(|n| counted(n, "process")), ["1 process", "2 processes"]);
        assert_eq!([1, 2].map(|n| so_many(n, "GPU", "spin")), ["1 GPU spins", "2 GPUs spin"]);
        let here = ["the only rank on this node waits", "both ranks on this node wait", "all 8 ranks on this node wait"];
        assert_eq!([1, 2, 8].map(|n| all_here(n, "wait")), here);
        assert_eq!([1, 3].map(|n| the_other(n, "rank", "wait")), ["the other rank waits", "the other 3 wait"]);
    }

    #[test]
    fn a_sentence_ends_in_one_full_stop() {
        let texts = ["it waits", "ignoring (GPU 3).", "may be off to a …", "is it?", "CPU affinity = 0-63). "];
        assert_eq!(texts.map(sentence), ["it waits.", "ignoring (GPU 3).", "may be off to a …", "is it?", "CPU affinity = 0-63)."]);
    }

    #[test]
    fn three_digits_are_enough() {
        assert_eq!([0.0, 0.04, 7.0, 831.4, 2_729_113.0, 98.4e9].map(scaled), ["0", "0", "7", "831", "2.7M", "98.4G"]);
        assert_eq!([100e9 as u64, 25e9 as u64, 2_500_000_000].map(line_rate), ["100G", "25G", "2.5G"]);
        assert_eq!([0.0119, 1.31, 125.0].map(seconds), ["11.9 ms", "1.31 s", "2 m 05 s"]);
    }
}

#[test]
fn ranks_are_named_up_to_eight() {
    assert_eq!(rank_words(&[3]), "rank 3");
    assert_eq!(rank_words(&[3, 5, 7]), "ranks 3, 5 and 7");
    assert_eq!(rank_words(&(0..24).collect::<Vec<_>>()), "24 ranks (0, 1, …)");
}

#[test]
fn exit_codes_are_said_as_signals_where_they_are() {
    assert_eq!(exit_words(-9), "killed by signal 9 (SIGKILL)");
    assert_eq!(exit_words(137), "killed by signal 9 (SIGKILL)");
    assert_eq!(exit_words(1), "exit code 1");
    assert_eq!(exit_words(i32::MIN), "killed by signal 2147483648");
}

#[test]
fn thousands_are_grouped() {
    assert_eq!([0, 999, 1240, 50_000, 1_234_567].map(group), ["0", "999", "1,240", "50,000", "1,234,567"]);
}
