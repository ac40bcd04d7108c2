//! Finds the texts that may be in a line, whatever their number. Shared with `build.rs`: nothing here may use the rest of the crate.
//!
//! Each text has a key, four bytes of it that few others have. The keys of all are hashed into a table; a line is looked through byte by
//! byte, and most places end at one bit that is not set. The keys of the catalogue that is compiled in are chosen by `build.rs`, so that
//! the start costs little.

use super::entry::{Scope, Signature, Table};
use super::pattern::Pattern;
use std::collections::HashMap;

/// Keys, and which texts have them.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    pub bits: &'static [u64; BIT_WORDS],
    /// Where the keys of a bucket begin; the next one's begin where they end.
    pub buckets: &'static [u16],
    /// With the number of the text.
    pub keys: &'static [(u32, u16)],
}

pub const BIT_WORDS: usize = 1024;
const KEY: usize = 4;

fn hash(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1)
}

/// The hash's first ten bits.
fn bucket(hash: u32) -> usize {
    (hash >> 22) as usize
}

fn mask(hash: u32) -> u64 {
    1 << (hash >> 16 & 63)
}

impl Index {
    /// Makes an index of as many texts as there are keys; texts beyond 65,536 are not found.
    pub fn build(keys: impl Iterator<Item = [u8; KEY]>) -> Index {
        let keys = keys.map(u32::from_le_bytes).zip(0..=u16::MAX);
        let mut keys: Vec<(u32, u16)> = keys.collect();
        keys.sort_by_key(|(key, no)| (bucket(hash(*key)), *key, *no));
        let mut bits = Box::new([0; BIT_WORDS]);
        for (key, _) in &keys {
            bits[bucket(hash(*key))] |= mask(hash(*key));
        }
        let before = |no: usize| keys.partition_point(|(key, _)| bucket(hash(*key)) < no) as u16;
        let buckets = (0..=BIT_WORDS).map(before).collect();
        Index { bits: Box::leak(bits), buckets: Vec::leak(buckets), keys: Vec::leak(keys) }
    }

    /// The texts that have the four bytes for their key.
    pub fn at(&self, key: u32) -> impl Iterator<Item = usize> {
        let bucket = bucket(hash(key));
        let keys = &self.keys[usize::from(self.buckets[bucket])..usize::from(self.buckets[bucket + 1])];
        keys.iter().filter(move |(known, _)| *known == key).map(|(_, no)| usize::from(*no))
    }
}

/// Gives each place of `text` from `from` on, with its four bytes, whose bit is set to `take`, until that returns true.
#[inline]
pub fn search(bits: &[u64; BIT_WORDS], text: &[u8], from: usize, mut take: impl FnMut(usize, u32) -> bool) -> bool {
    /// Eight bytes have so many keys.
    const AT_ONCE: usize = 5;
    let is_set = |key: u32| bits[bucket(hash(key))] & mask(hash(key)) != 0;
    let mut at = from;
    while let Some(eight) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let eight = u64::from_le_bytes(*eight);
        let key = |no: usize| (eight >> (8 * no)) as u32;
        if (0..AT_ONCE).fold(false, |any, no| any | is_set(key(no))) && (0..AT_ONCE).any(|no| is_set(key(no)) && take(at + no, key(no))) {
            return true;
        }
        at += AT_ONCE;
    }
    let rest = text.get(at..).unwrap_or_default().windows(KEY).enumerate();
    rest.filter_map(|(no, four)| Some((no, u32::from_le_bytes(*four.first_chunk()?)))).any(|(no, key)| is_set(key) && take(at + no, key))
}

/// The texts that have been tried on a line: each is tried once, however often its key stands there.
#[derive(Default)]
pub struct Tried(Vec<u64>);

impl Tried {
    pub fn is_first(&mut self, no: usize) -> bool {
        if self.0.len() <= no / 64 {
            self.0.resize(no / 64 + 1, 0);
        }
        let is_first = self.0[no / 64] & 1 << (no % 64) == 0;
        self.0[no / 64] |= 1 << (no % 64);
        is_first
    }
}

/// A text of the catalogue, and where its key stands.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub table: u8,
    pub row: u16,
    pub text: u8,
    /// The piece of the text with the key, and where in that piece the key begins.
    pub piece: u8,
    pub at: u16,
}

/// Texts of the catalogue, and how they are found.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    pub index: Index,
    pub slots: &'static [Slot],
}

/// Every way in which texts of the catalogue are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Indexes {
    pub tables: &'static [&'static Table],
    /// Messages of NCCL, and lines of everybody else.
    pub nccl: Slots,
    pub line: Slots,
    /// What makes a line worth a look. No key has a digit, so that lines with other digits have it, too.
    pub gate: Slots,
}

impl Indexes {
    pub fn of(tables: &'static [&'static Table]) -> Indexes {
        let rows = |no: usize, table: &'static Table| table.rows.iter().enumerate().map(move |(row, s)| (no, row, s));
        let rows = || tables.iter().enumerate().flat_map(move |(no, table)| rows(no, table));
        let texts = |(no, row, s): (usize, usize, &'static Signature)| (0..s.texts.len()).map(move |text| (no, row, text, s));
        let pieces = rows().flat_map(|(_, _, s)| s.texts.iter().flat_map(Pattern::pieces).chain(s.examples.iter().copied()));
        let keys = Keys::of(pieces);
        let slots = |which: &dyn Fn(usize, &Signature) -> bool, digits: bool| {
            let slot = |(table, row, text, s): (usize, usize, usize, &'static Signature)| {
                let (piece, at, key) = keys.best(s.texts[text].pieces(), digits)?;
                Some((Slot { table: table as u8, row: row as u16, text: text as u8, piece: piece as u8, at: at as u16 }, key))
            };
            let all = rows().flat_map(texts).filter(|(_, _, text, s)| which(*text, s));
            let (slots, keys): (Vec<Slot>, Vec<[u8; KEY]>) = all.filter_map(slot).unzip();
            Slots { index: Index::build(keys.into_iter()), slots: Vec::leak(slots) }
        };
        Indexes {
            tables,
            nccl: slots(&|_, s| s.scope == Scope::Nccl, true),
            line: slots(&|_, s| s.scope == Scope::Line, true),
            // NCCL's WARN needs no key.
            gate: slots(&|text, s| text < s.alone && (s.scope == Scope::Line || s.is_fact), false),
        }
    }

    /// Of tables whose keys have been chosen: the slots of `nccl`, `line` and `gate`. `None` where one of them names no text.
    pub fn with(tables: &'static [&'static Table], slots: [&'static [Slot]; 3]) -> Option<Indexes> {
        let key = |slot: &Slot| {
            let pattern = tables.get(usize::from(slot.table))?.rows.get(usize::from(slot.row))?.texts.get(usize::from(slot.text))?;
            let piece = pattern.pieces().nth(usize::from(slot.piece))?;
            piece.as_bytes().get(usize::from(slot.at)..)?.first_chunk::<KEY>().copied()
        };
        let with_keys = |slots: &'static [Slot]| {
            let keys: Option<Vec<[u8; KEY]>> = slots.iter().map(key).collect();
            Some(Slots { index: Index::build(keys?.into_iter()), slots })
        };
        let [nccl, line, gate] = slots.map(with_keys);
        Some(Indexes { tables, nccl: nccl?, line: line?, gate: gate? })
    }

    pub fn get(&self, slot: Slot) -> (&'static Signature, &'static Pattern) {
        let signature = &self.tables[usize::from(slot.table)].rows[usize::from(slot.row)];
        (signature, &signature.texts[usize::from(slot.text)])
    }
}

/// Whether a word stands in a line whose byte at `at` is the word's at `key_at`; `any_digits`: its digits may be others.
#[inline]
pub fn stands(word: &[u8], line: &[u8], at: usize, key_at: usize, any_digits: bool) -> bool {
    let from = at.checked_sub(key_at);
    let there = from.and_then(|from| line.get(from..from + word.len()));
    there.is_some_and(|there| match any_digits {
        false => there == word,
        true => there.iter().zip(word).all(|(a, b)| a == b || (a.is_ascii_digit() && b.is_ascii_digit())),
    })
}

/// Chooses keys: how many texts have each four bytes.
pub struct Keys(HashMap<[u8; KEY], usize>);

impl Keys {
    pub fn of<'a>(pieces: impl Iterator<Item = &'a str>) -> Keys {
        let mut counts = HashMap::new();
        for key in pieces.flat_map(|piece| piece.as_bytes().windows(KEY)).filter_map(|key| key.try_into().ok()) {
            *counts.entry(key).or_default() += 1;
        }
        Keys(counts)
    }

    /// The rarest four bytes of some pieces, with the piece and where in it they stand; without digits, where those are not wanted.
    pub fn best<'a>(&self, pieces: impl Iterator<Item = &'a str>, digits: bool) -> Option<(usize, usize, [u8; KEY])> {
        let of = |(no, piece): (usize, &'a str)| piece.as_bytes().windows(KEY).enumerate().map(move |(at, key)| (no, at, key));
        let keys = pieces.enumerate().flat_map(of).filter_map(|(no, at, key)| Some((no, at, <[u8; KEY]>::try_from(key).ok()?)));
        keys.filter(|(_, _, key)| digits || !key.iter().any(u8::is_ascii_digit)).min_by_key(|(_, _, key)| self.cost(key))
    }

    /// The more, the more lines will have it.
    fn cost(&self, key: &[u8; KEY]) -> usize {
        // A piece of two words is rarer than a word.
        let letters = key.iter().filter(|b| b.is_ascii_lowercase()).count() * 3 + key.iter().filter(|b| b"etaoinsrl".contains(b)).count();
        letters + 2 * self.0.get(key).copied().unwrap_or(0)
    }
}
