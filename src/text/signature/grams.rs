//! Finds the patterns that may be in a text, whatever their number. Shared with `build.rs`: nothing here may use the rest of the crate.
//!
//! Each pattern has a key, a short piece of its literal text. The four-byte grams of all keys are hashed into a table; a text is looked
//! through gram by gram, and most grams end at one bit that is not set. The tables of the catalogue that is compiled in are made by
//! `build.rs`, so that the start costs nothing.

use super::entry::{Scope, Signature};
use super::pattern::Pattern;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug)]
pub struct Index {
    /// One bit for each hash of a gram.
    pub bits: &'static [u64],
    /// Where the grams of a bucket begin; the next one's begin where they end.
    pub buckets: &'static [u16],
    pub grams: &'static [Gram],
    pub slots: &'static [Slot],
}

/// Four bytes of a key.
#[derive(Clone, Copy, Debug)]
pub struct Gram {
    pub letters: u32,
    pub slot: u16,
    /// Where in the key they stand.
    pub offset: u16,
}

/// A pattern, and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    pub signature: &'static Signature,
    /// Which of its texts.
    pub text: usize,
    pub key: &'static [u8],
}

impl Slot {
    pub fn pattern(&self) -> &'static Pattern {
        &self.signature.texts[self.text]
    }
}

/// Every way in which patterns are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Indexes {
    /// Of messages of NCCL, and of lines of everybody else, at every place of a text.
    pub nccl: Index,
    pub line: Index,
    /// What a line must have to be worth a look, at each fourth place.
    pub gate: Index,
    /// Patterns that are too short for that, by their text's place: another way to look for them is needed.
    pub unseen: &'static [(&'static Signature, usize)],
}

impl Indexes {
    pub fn of(rows: &[&'static Signature]) -> Indexes {
        let every = || rows.iter().flat_map(|row| (0..row.texts.len()).map(move |text| (*row, text)));
        let keys = Keys::of(every().map(|(row, text)| &row.texts[text]));
        let slot = |(signature, text): (&'static Signature, usize), key: Option<&'static [u8]>| Some(Slot { signature, text, key: key? });
        let short = |scope: Scope| {
            let of_scope = every().filter(|(row, _)| row.scope == scope);
            Index::build(of_scope.filter_map(|at| slot(at, keys.short(&at.0.texts[at.1]))).collect(), true)
        };
        // NCCL's WARN needs no key.
        let gated = || every().filter(|(row, text)| *text < row.alone && (row.scope == Scope::Line || row.is_fact));
        let (seen, unseen): (Vec<_>, Vec<_>) = gated().map(|at| (at, keys.long(&at.0.texts[at.1]))).partition(|(_, key)| key.is_some());
        Indexes {
            nccl: short(Scope::Nccl),
            line: short(Scope::Line),
            gate: Index::build(seen.into_iter().filter_map(|(at, key)| slot(at, key)).collect(), false),
            unseen: Vec::leak(unseen.into_iter().map(|(at, _)| at).collect()),
        }
    }
}

const GRAM: usize = 4;
const BIT_WORDS: usize = 1024;
const BUCKETS: usize = 1 << 10;
/// A run of so many bytes has a whole gram in each of a row of places that are [`GRAM`] apart, wherever it stands.
pub const STRIDE_KEY: usize = 2 * GRAM - 1;

fn hash(letters: u32) -> u32 {
    letters.wrapping_mul(0x9e37_79b1)
}

fn bit(hash: u32) -> (usize, u64) {
    ((hash >> 22) as usize, 1 << (hash >> 16 & 63))
}

fn letters_at(text: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*text.get(at..)?.first_chunk()?))
}

impl Index {
    /// Makes an index; with `every_place` a text is looked through at each byte, else at each fourth.
    pub fn build(slots: Vec<Slot>, every_place: bool) -> Index {
        let mut grams = Vec::new();
        for (no, slot) in slots.iter().enumerate() {
            for offset in 0..if every_place { 1 } else { GRAM } {
                if let (Some(letters), Ok(slot)) = (letters_at(slot.key, offset), u16::try_from(no)) {
                    grams.push(Gram { letters, slot, offset: offset as u16 });
                }
            }
        }
        let bucket = |gram: &Gram| (hash(gram.letters) >> 22) as usize;
        grams.sort_by_key(|gram| (bucket(gram), gram.letters, gram.slot, gram.offset));
        let mut bits = vec![0; BIT_WORDS];
        for gram in &grams {
            let (word, mask) = bit(hash(gram.letters));
            bits[word] |= mask;
        }
        let buckets = (0..=BUCKETS).map(|no| grams.partition_point(|gram| bucket(gram) < no) as u16).collect();
        Index { bits: Vec::leak(bits), buckets: Vec::leak(buckets), grams: Vec::leak(grams), slots: Vec::leak(slots) }
    }

    /// Gives each pattern whose key stands in the text to `take`, until that returns true; some may come twice. `step` is 1 for an index
    /// that was built for every place, else 4.
    #[inline]
    pub fn search(&self, text: &[u8], step: usize, mut take: impl FnMut(usize, &'static Slot) -> bool) -> bool {
        if self.slots.is_empty() {
            return false;
        }
        let mut at = 0;
        while let Some(letters) = letters_at(text, at) {
            let hash = hash(letters);
            let (word, mask) = bit(hash);
            if self.bits[word] & mask != 0 && self.look(text, at, letters, hash, &mut take) {
                return true;
            }
            at += step;
        }
        false
    }

    #[cold]
    fn look(&self, text: &[u8], at: usize, letters: u32, hash: u32, take: &mut impl FnMut(usize, &'static Slot) -> bool) -> bool {
        let bucket = (hash >> 22) as usize;
        let grams = &self.grams[usize::from(self.buckets[bucket])..usize::from(self.buckets[bucket + 1])];
        grams.iter().filter(|gram| gram.letters == letters).any(|gram| {
            let no = usize::from(gram.slot);
            let slot = &self.slots[no];
            let key = at.checked_sub(usize::from(gram.offset)).and_then(|from| text.get(from..from + slot.key.len()));
            key == Some(slot.key) && take(no, slot)
        })
    }
}

/// Finds keys: short pieces of patterns that few texts and few other patterns have.
pub struct Keys(HashMap<&'static [u8], usize>);

impl Keys {
    pub fn of<'a>(patterns: impl Iterator<Item = &'a Pattern>) -> Keys {
        let mut counts = HashMap::new();
        for gram in patterns.flat_map(|pattern| pattern.pieces()).flat_map(|piece| piece.as_bytes().windows(GRAM)) {
            *counts.entry(gram).or_default() += 1;
        }
        Keys(counts)
    }

    /// A key of four bytes, for an index that is looked through at each place.
    pub fn short(&self, pattern: &Pattern) -> Option<&'static [u8]> {
        self.best(pattern, GRAM, false)
    }

    /// A key for an index that is looked through at each fourth place; digits are not in it, so that it tells of lines with any digits.
    pub fn long(&self, pattern: &Pattern) -> Option<&'static [u8]> {
        self.best(pattern, STRIDE_KEY, true)
    }

    fn best(&self, pattern: &Pattern, len: usize, without_digits: bool) -> Option<&'static [u8]> {
        let keys = pattern.pieces().flat_map(|piece| piece.as_bytes().windows(len));
        keys.filter(|key| !without_digits || !key.iter().any(u8::is_ascii_digit)).min_by_key(|key| self.cost(key))
    }

    /// The more, the more texts will have it.
    fn cost(&self, key: &[u8]) -> usize {
        // A piece of two words is rarer than a word.
        let letters = key.iter().filter(|b| b.is_ascii_lowercase()).count() * 3 + key.iter().filter(|b| b"etaoinsrl".contains(b)).count();
        let patterns: usize = key.windows(GRAM).map(|gram| self.0.get(gram).copied().unwrap_or(0)).sum();
        letters + 2 * patterns
    }
}
