//! The catalogue: what every text of NCCL, PyTorch, CUDA, the kernel and the launchers means that says that something is wrong, or seems to.
//!
//! It is data: `assets/catalog/*.toml`, a file for each kind of program, an entry for each text; `build.rs` reads it and packs
//! it. **To add a text**: an entry in the file of the program that prints it, with an example line, which a test reads. Nothing
//! else is needed: that the line is looked at follows from the entry's own text. Users add theirs in the same format: see [`user`].
//!
//! The format is in [`format`], the language of texts in [`pattern`], that of headlines in [`template`].

pub mod entry;
pub mod format;
pub(super) mod grams;
// What `build.rs` alone calls.
#[allow(dead_code)]
mod packed;
pub mod pattern;
mod tell;
pub mod template;
pub mod user;

use crate::base::severity::{Confidence, Role, Severity};
pub use entry::{Part, Scope, Signature, Table, Words};
use flate2::read::GzDecoder;
use grams::{Indexes, Tried};
use packed::Builtin;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Read;
use std::sync::LazyLock;
pub use tell::Told;
use user::users;

/// What `build.rs` has made of `assets/catalog/*.toml`.
fn builtin() -> &'static Builtin {
    static BUILTIN: LazyLock<Builtin> = LazyLock::new(|| {
        let mut bytes = Vec::new();
        let read = GzDecoder::new(&include_bytes!(concat!(env!("OUT_DIR"), "/catalog.gz"))[..]).read_to_end(&mut bytes);
        read.ok().and_then(|_| Builtin::unpack(bytes.leak())).expect("the catalogue that is built in")
    });
    &BUILTIN
}

/// Texts are kept up to here.
pub const MAX_TEXT: usize = 600;

impl Part {
    pub fn role(self) -> Role {
        match self {
            Part::Cause | Part::Messenger => Role::Root,
            Part::Victim => Role::Cascade,
            Part::Teardown => Role::Teardown,
            Part::Harmless => Role::Context,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Part::Cause => "may be the cause",
            Part::Messenger => "tells of a wait for somebody else",
            Part::Victim => "follows from another failure",
            Part::Teardown => "part of the job's end",
            Part::Harmless => "harmless",
        }
    }
}

/// All tables, the user's last. What the user replaced stands in the user's table only.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    builtin().tables.iter().chain(&users().tables).copied()
}

/// All signatures, with their tables.
pub fn all() -> impl Iterator<Item = (&'static Table, &'static Signature)> {
    tables().flat_map(|table| rows(table).map(move |s| (table, s)))
}

/// The signatures of a table, as the user's settings have them.
pub fn rows(table: &'static Table) -> impl Iterator<Item = &'static Signature> {
    table.rows.iter().filter(|s| table.is_users || users().is_in_use(s)).map(|s| users().changed(s))
}

pub fn by_id(id: &str) -> Option<(&'static Table, &'static Signature)> {
    all().find(|(_, s)| s.id == id)
}

/// The signature of a text: of all that match the one with most literal text; the first in the tables if there are several.
pub fn find(scope: Scope, text: &str) -> Option<&'static Signature> {
    find_of(scope, "", text)
}

/// As [`find`], for a WARN of NCCL, whose source file may say more than its text.
pub fn find_warn(site: Option<&str>, text: &str) -> Option<&'static Signature> {
    find_of(Scope::Nccl, site.unwrap_or(""), text)
}

fn find_of(scope: Scope, site: &str, text: &str) -> Option<&'static Signature> {
    thread_local!(static NEWEST: RefCell<VecDeque<Found>> = const { RefCell::new(VecDeque::new()) });
    NEWEST.with_borrow_mut(|newest| {
        if let Some(found) = newest.iter().find(|f| f.scope == Some(scope) && f.text == text && f.site == site) {
            return found.signature;
        }
        let signature = look_up(scope, site, text);
        let mut found = if newest.len() < NEWEST_KEPT { None } else { newest.pop_front() }.unwrap_or_default();
        for (kept, new) in [(&mut found.text, text), (&mut found.site, site)] {
            kept.clear();
            kept.push_str(new);
        }
        (found.scope, found.signature) = (Some(scope), signature);
        newest.push_back(found);
        signature
    })
}

/// What was looked up: each reader and rule that a line meets asks for the same text again.
#[derive(Default)]
struct Found {
    scope: Option<Scope>,
    site: String,
    text: String,
    signature: Option<&'static Signature>,
}

const NEWEST_KEPT: usize = 4;

fn look_up(scope: Scope, site: &str, text: &str) -> Option<&'static Signature> {
    let users = users();
    // The first of two that weigh the same counts, and the user's count before all.
    let of_users = users.indexes.as_ref().and_then(|indexes| heaviest(indexes, scope, site, text, &|_| true));
    let built_in = heaviest(&builtin().indexes, scope, site, text, &|s| users.is_in_use(s));
    let best = match (of_users, built_in) {
        (Some((mine, _)), Some((other, s))) if other > mine => Some(s),
        (mine, other) => mine.or(other).map(|(_, s)| s),
    };
    best.map(|s| users.changed(s))
}

/// Of the patterns that match the one with most literal text, and how much it has.
fn heaviest(
    indexes: &Indexes,
    scope: Scope,
    site: &str,
    text: &str,
    is_in_use: &dyn Fn(&Signature) -> bool,
) -> Option<(usize, &'static Signature)> {
    let found = if scope == Scope::Nccl { &indexes.nccl } else { &indexes.line };
    // The number stands for the place in the tables.
    let mut best: Option<(usize, usize, &Signature)> = None;
    let mut tried = Tried::default();
    grams::search(found.index.bits, text.as_bytes(), 0, |_, key| {
        for no in found.index.at(key) {
            let (signature, pattern) = indexes.get(found.slots[no]);
            let weight = pattern.weight() + signature.site.len();
            let is_better = best.is_none_or(|(most, first, _)| weight > most || (weight == most && no < first));
            let may_be = is_better && site.starts_with(signature.site) && is_in_use(signature) && tried.is_first(no);
            if may_be && pattern.is_match(text) {
                best = Some((weight, no, signature));
            }
        }
        false
    });
    best.map(|(weight, _, signature)| (weight, signature))
}

/// What the user may have meant, for an id that there is not.
pub fn nearest(id: &str, rules: impl Iterator<Item = &'static str>) -> String {
    let id = id.to_lowercase();
    let ids = rules.chain(all().map(|(_, s)| s.id));
    let is_near = |known: &&str| known.contains(&id) || id.split('-').any(|word| word.len() > 3 && known.contains(word));
    let near: Vec<&str> = ids.filter(is_near).take(8).collect();
    if near.is_empty() { "nccl-top rules lists them".into() } else { format!("did you mean {}?", near.join(", ")) }
}

/// A table of words for headlines.
pub fn words(name: &str) -> Option<&'static Words> {
    builtin().words.iter().chain(users().words.iter().copied()).find(|w| w.name == name)
}

/// What makes a line worth a look, where an entry's text does.
pub mod gate {
    use super::grams::{BIT_WORDS, Indexes, Tried, stands};
    use super::pattern::Pattern;
    use super::{Scope, Signature, builtin, users};
    use crate::logs::prefix;

    fn indexes() -> impl Iterator<Item = (bool, &'static Indexes)> {
        std::iter::once((true, &builtin().indexes)).chain(users().indexes.as_ref().map(|indexes| (false, indexes)))
    }

    /// The bits of all keys, those of users' entries among them.
    pub fn bits() -> [u64; BIT_WORDS] {
        let mut bits = [0; BIT_WORDS];
        for (_, indexes) in indexes() {
            bits.iter_mut().zip(indexes.gate.index.bits).for_each(|(all, own)| *all |= own);
        }
        bits
    }

    /// Texts that are looked for in one line.
    #[derive(Default)]
    pub struct Search {
        built_in: Tried,
        of_users: Tried,
    }

    impl Search {
        /// Gives the texts to `take` that may be in the line, which has the four bytes at `at`, each once; `any_digits`: or would be with
        /// other digits.
        pub fn each(
            &mut self,
            key: u32,
            line: &[u8],
            at: usize,
            any_digits: bool,
            mut take: impl FnMut(&'static Signature, &'static Pattern),
        ) {
            for (is_built_in, indexes) in indexes() {
                let tried = if is_built_in { &mut self.built_in } else { &mut self.of_users };
                for no in indexes.gate.index.at(key) {
                    let slot = indexes.gate.slots[no];
                    let (signature, pattern) = indexes.get(slot);
                    let piece = pattern.pieces().nth(usize::from(slot.piece)).unwrap_or_default().as_bytes();
                    let is_in_use = !is_built_in || users().is_in_use(signature);
                    if stands(piece, line, at, usize::from(slot.at), any_digits) && is_in_use && tried.is_first(no) {
                        take(signature, pattern);
                    }
                }
            }
        }
    }

    /// Whether a line has a text; prefixes are still there, and several records may stand in it.
    pub fn has(line: &str, scope: Scope, pattern: &Pattern) -> bool {
        const INFO: &str = " NCCL INFO ";
        if !pattern.pieces().all(|piece| line.contains(piece)) {
            return false;
        }
        let mut pieces = line.split('\r').flat_map(prefix::records);
        match scope {
            // What NCCL says is its own.
            Scope::Line if pattern.at_start => pieces.filter(|p| !p.contains(INFO)).any(|p| starts(p).any(|text| pattern.is_match(text))),
            Scope::Line => pieces.filter(|p| !p.contains(INFO)).any(|p| pattern.is_match(p)),
            Scope::Nccl => pieces.any(|p| p.split(INFO).skip(1).any(|message| pattern.is_match(message))),
        }
    }

    /// Wherever the text may begin behind a prefix.
    fn starts(line: &str) -> impl Iterator<Item = &str> {
        let behind = line.match_indices([' ', ']', ':']).map(|(at, _)| &line[at + 1..]);
        std::iter::once(line).chain(behind)
    }

    /// Texts of NCCL that are looked for in its INFO, by users.
    pub fn of_users() -> impl Iterator<Item = &'static Pattern> {
        let rows = users().tables.iter().flat_map(|table| table.rows).filter(|s| s.scope == Scope::Nccl && s.is_fact);
        rows.flat_map(|s| &s.texts[..s.alone])
    }
}
