//! The list of rules: what each says of itself, its limits and settings, and its words.

use nccl_top::base::limit::Settings;
use nccl_top::base::words::rank_words;
use nccl_top::fleet::rules::RULES as FLEET_RULES;
use nccl_top::logs::error_words::{first_sentences, last_error};
use nccl_top::rules::settings::{set, toml};
use nccl_top::rules::{RULES, Rule, rule};

fn all() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().chain(FLEET_RULES.iter().map(|rule| &rule.about))
}

#[test]
fn every_rule_says_what_it_means_how_it_is_known_and_what_to_do() {
    let mut ids = std::collections::BTreeSet::new();
    for rule in all() {
        assert!(ids.insert(rule.id), "{} stands twice", rule.id);
        for text in [rule.title, rule.how, rule.advice] {
            assert!(text.len() > 20, "{}: {text:?}", rule.id);
        }
    }
}

#[test]
fn what_is_set_is_what_a_rule_has() {
    let mut settings = Settings::default();
    assert_eq!(set(&mut settings, rule, "hang-rank-absent", "after", "15s"), Ok(()));
    assert_eq!(set(&mut settings, rule, "straggler", "mute", "true"), Ok(()));
    assert_eq!(set(&mut settings, rule, "slow-steps", "severity", "info"), Ok(()));
    let toml = toml(&settings, rule);
    assert!(toml.contains("[rules.hang-rank-absent]\nafter = \"15s\"\n") && toml.contains("mute = true"), "{toml}");
    for (id, key, value, why) in [
        ("hang-rank-absnt", "after", "15s", "no rule"),
        ("hang-rank-absent", "aftr", "15s", "expected one of after,"),
        ("hang-rank-absent", "after", "soon", "soon"),
        ("hang-rank-absent", "after", "1ms", "expected a duration from"),
        ("hang-rank-absent", "severity", "bad", "expected \"info\""),
        ("straggler", "lag", "200", "from 0 to 100"),
    ] {
        let err = set(&mut settings, rule, id, key, value).unwrap_err();
        assert!(err.contains(why), "{err}");
    }
}

#[test]
fn every_limit_of_a_rule_is_its_own_and_explained() {
    for rule in all() {
        for limit in rule.limits {
            assert_eq!(limit.rule, rule.id, "{}", limit.key);
            assert!(limit.meaning.len() > 15 && !matches!(limit.key, "mute" | "severity"), "{} {}", rule.id, limit.key);
            assert_eq!(limit.parse(limit.default_text().trim_matches('"')), Ok(limit.value()), "{} {}", rule.id, limit.key);
        }
    }
}

#[test]
fn errors_of_nccl_are_told_by_their_reason() {
    let text = "RuntimeError: NCCL error in: /b/P.cpp:12, internal error, NCCL version 2.14.3\nncclInternalError: Internal check failed.\nLast error:\nno such thing";
    assert_eq!(first_sentences(text), "no such thing (ncclInternalError)");
    assert_eq!(first_sentences(text.split("\nLast").next().unwrap()), "NCCL 2.14.3: internal error");
    assert_eq!(first_sentences("a  wide     gap. Two. Three"), "a wide gap. Two");
    assert_eq!(last_error("Last error:\n"), None);
}

#[test]
fn ranks_are_named_up_to_eight() {
    assert_eq!(rank_words(&[3]), "rank 3");
    assert_eq!(rank_words(&[3, 5, 7]), "ranks 3, 5 and 7");
    assert_eq!(rank_words(&(0..24).collect::<Vec<_>>()), "24 ranks (0, 1, …)");
}
