//! Text of logs is made harmless and short.

use nccl_top::base::clean::{clean, clip};
use proptest::prelude::*;
use std::borrow::Cow;

/// What is not drawn, or turns round what is drawn beside it.
fn hides(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
        || c.is_control()
}

#[test]
fn plain_text_is_borrowed() {
    for line in ["", "step 1 | loss 2.0", "[rank0]: hello", " 17%|█▋        | 5/30 [00:02<00:07,  3.28it/s]", "größer"] {
        assert!(matches!(clean(line), Cow::Borrowed(_)), "{line}");
    }
}

#[test]
fn escape_sequences_disappear() {
    assert_eq!(clean("\x1b[31mstep: 200  \x1b[38;2;180;60;0mloss:  6.1\x1b[39m"), "step: 200  loss:  6.1");
    assert_eq!(clean("\x1b]0;title\x07text"), "text");
    assert_eq!(clean("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "link");
    assert_eq!(clean("\x1bP1$r0m\x1b\\dcs"), "dcs");
    assert_eq!(clean("\x1b(Btext\x1b7\x1b8"), "text");
    assert_eq!(clean("\u{9b}31mred"), "red");
    assert_eq!(clean("\\x1b[31mred\\x1b[0m C:\\path"), "red C:\\path");
}

#[test]
fn a_colour_that_lost_its_escape_goes_from_the_start_of_a_line_only() {
    assert_eq!(clean("[36m(RayWorker pid=4009)"), "(RayWorker pid=4009)");
    assert_eq!(clean("[0m[31mx"), "x");
    assert_eq!(clean("[3] x"), "[3] x");
    assert_eq!(clean("a [0m"), "a [0m");
}

#[test]
fn an_unfinished_sequence_hides_nothing() {
    assert_eq!(clean("\x1b]0;CUDA error: x"), "0;CUDA error: x");
    assert_eq!(clean("\x1b["), "");
    assert_eq!(clean("\x1b"), "");
}

#[test]
fn what_hides_or_reorders_is_dropped() {
    assert_eq!(clean("a\0b\u{202e}c\u{200b}d\u{feff}e\u{2066}f\tg\u{7f}h\u{85}i"), "abcdef ghi");
}

#[test]
fn clip_counts_characters() {
    assert_eq!(clip("grün", 4), "grün");
    assert_eq!(clip("grüner", 4), "grü…");
    assert_eq!(clip("x", 0), "…");
    assert_eq!(clip("", 0), "");
}

proptest! {
    #[test]
    fn the_result_is_safe(s in "(?:\\PC|\x1b|\x1b\\[|\u{9b}|\\[3|m|;|\t|\u{202e}|\u{200b}|\r|\0|\x07|\\\\x1b\\[|\u{85}){0,40}") {
        let c = clean(&s);
        prop_assert!(!c.chars().any(hides), "{c:?}");
        prop_assert!(!c.contains('\x1b'));
    }

    #[test]
    fn any_characters_are_safe(s in any::<String>()) {
        let c = clean(&s);
        prop_assert!(!c.chars().any(hides));
    }

    #[test]
    fn clip_keeps_its_promise(s in any::<String>(), n in 0usize..20) {
        prop_assert!(clip(&s, n).chars().count() <= n.max(1));
    }
}
