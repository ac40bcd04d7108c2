//! The catalogue of texts: every example, and users' own entries.

use nccl_top::text::signature::pattern::Pattern;
use nccl_top::text::signature::{Scope, Signature, all, by_id, find};
use nccl_top::text::{Reader, What, gate};

/// The examples of entries that have more than three, by id: `== id` and the example, which may have several lines.
fn more_examples() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/catalog");
    let mut all = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let examples = text.strip_prefix("== ").unwrap().trim_end_matches('\n').split("\n== ");
        all.extend(examples.map(|e| e.split_once('\n').map(|(id, example)| (id.to_owned(), example.to_owned())).unwrap()));
    }
    all
}

/// Each example goes the whole way: through the gate, off with its prefix, to its signature and no other.
#[test]
fn every_example_is_found_as_what_it_is() {
    let more = more_examples();
    let mut wrong: Vec<String> = more.iter().filter(|(id, _)| by_id(id).is_none()).map(|(id, _)| format!("{id}: no such entry")).collect();
    for (_, s) in all() {
        let further = more.iter().filter(|(id, _)| id == s.id).map(|(_, example)| example.as_str());
        let examples: Vec<&str> = s.examples.iter().copied().chain(further).collect();
        wrong.extend(examples.iter().filter_map(|e| check(s, e).err().map(|why| format!("{}: {why}\n    {e}", s.id))));
        for pattern in s.texts {
            // A prefix may stand before the text.
            let bare = Pattern { at_start: false, at_end: false, ..*pattern };
            if !examples.iter().any(|e| bare.is_match(e)) {
                wrong.push(format!("{}: no example shows {:?}", s.id, pattern.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn check(s: &Signature, example: &str) -> Result<(), String> {
    let mut events = Vec::new();
    let mut reader = Reader::default();
    for line in example.split('\n') {
        if !reader.is_inside() && gate::classify(line.as_bytes()) == gate::Class::Noise {
            return Err(format!("the gate lets {line:?} not through"));
        }
        reader.line(line, &mut events);
    }
    reader.idle(&mut events);
    let of_event = |what: &What| match what {
        What::TakingDown { .. } => None,
        // By its own words, whatever NCCL's last error in it is.
        What::Exception(e) => find(Scope::Line, &nccl_top::rules::exception_words(e)),
        what => what.signature(),
    };
    let found: Vec<&str> = events.iter().filter_map(|e| of_event(&e.what)).map(|f| f.id).collect();
    match found.first() {
        Some(id) if *id == s.id => Ok(()),
        // Lines that a reader takes whole (the watchdog's, torchrun's) are known by their text alone.
        None if s.scope == Scope::Line && find(s.scope, &nccl_top::text::clean::clean(example)) == Some(s) => Ok(()),
        _ => Err(format!("found {found:?}")),
    }
}
