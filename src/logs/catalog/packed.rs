//! The catalogue as bytes, as `build.rs` puts it into the program. Shared with `build.rs`: nothing here may use the rest of the crate.
//!
//! As constants of Rust each text of the tables is an address that the loader mends at the start, and the compiler takes long over them.

use super::entry::{Part, Scope, Signature, Table, Words};
use super::format::{CONFIDENCES, PARTS, SCOPES, SEVERITIES};
use super::grams::{Indexes, Slot};
use super::pattern::{Atom, Pattern};
use super::template::{Piece, Template};
use super::{Confidence, Severity};

/// The catalogue that is built in.
pub struct Builtin {
    pub tables: &'static [&'static Table],
    pub words: &'static [Words],
    pub indexes: Indexes,
}

impl Builtin {
    pub fn pack(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.tables.put(&mut out);
        self.words.put(&mut out);
        [&self.indexes.nccl, &self.indexes.line, &self.indexes.gate].iter().for_each(|way| way.slots.put(&mut out));
        out
    }

    /// `None` if the bytes are not those of [`Builtin::pack`].
    pub fn unpack(mut from: &'static [u8]) -> Option<Builtin> {
        let (tables, words) = (Packed::get(&mut from)?, Packed::get(&mut from)?);
        let slots = [Packed::get(&mut from)?, Packed::get(&mut from)?, Packed::get(&mut from)?];
        Some(Builtin { tables, words, indexes: Indexes::with(tables, slots)? })
    }
}

/// What can be written as bytes and read from them.
trait Packed: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(from: &mut &'static [u8]) -> Option<Self>;
}

/// Seven bits to a byte, the lowest first.
impl Packed for usize {
    fn put(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn get(from: &mut &'static [u8]) -> Option<usize> {
        let mut number = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let (first, rest) = from.split_first()?;
            *from = rest;
            number |= usize::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

/// What is written as a number: the number of it, and what a number is.
macro_rules! as_number {
    ($($type:ty: $number:expr, $of:expr;)*) => {$(
        impl Packed for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let number: fn($type) -> usize = $number;
                number(*self).put(out);
            }

            fn get(from: &mut &'static [u8]) -> Option<$type> {
                let of: fn(usize) -> Option<$type> = $of;
                of(usize::get(from)?)
            }
        }
    )*};
}

as_number! {
    u8: usize::from, |no| no.try_into().ok();
    u16: usize::from, |no| no.try_into().ok();
    bool: usize::from, |no| Some(no != 0);
    Severity: |s| s as usize, |no| named(SEVERITIES, |s| s as usize == no);
    Part: |p| p as usize, |no| named(PARTS, |p| p as usize == no);
    Scope: |s| s as usize, |no| named(SCOPES, |s| s as usize == no);
    Confidence: |c| c as usize, |no| named(CONFIDENCES, |c| c as usize == no);
}

fn named<T: Copy>(all: &[(&str, T)], is_it: impl Fn(T) -> bool) -> Option<T> {
    all.iter().map(|(_, one)| *one).find(|one| is_it(*one))
}

impl Packed for &'static str {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend(self.bytes());
    }

    fn get(from: &mut &'static [u8]) -> Option<&'static str> {
        let len = usize::get(from)?;
        let (text, rest) = from.split_at_checked(len)?;
        *from = rest;
        std::str::from_utf8(text).ok()
    }
}

impl<T: Packed> Packed for &'static [T] {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|one| one.put(out));
    }

    fn get(from: &mut &'static [u8]) -> Option<&'static [T]> {
        let all: Option<Vec<T>> = (0..usize::get(from)?).map(|_| T::get(from)).collect();
        all.map(|all| &*all.leak())
    }
}

impl<T: Packed> Packed for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|one| one.put(out));
    }

    fn get(from: &mut &'static [u8]) -> Option<Option<T>> {
        Some(if bool::get(from)? { Some(T::get(from)?) } else { None })
    }
}

impl<A: Packed, B: Packed> Packed for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(from: &mut &'static [u8]) -> Option<(A, B)> {
        Some((A::get(from)?, B::get(from)?))
    }
}

impl Packed for &'static Table {
    fn put(&self, out: &mut Vec<u8>) {
        (*self).put(out);
    }

    fn get(from: &mut &'static [u8]) -> Option<&'static Table> {
        Some(Box::leak(Box::new(Table::get(from)?)))
    }
}

/// What is written as its fields, all of them.
macro_rules! as_fields {
    ($($type:ident: $($field:ident)*;)*) => {$(
        impl Packed for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn get(from: &mut &'static [u8]) -> Option<$type> {
                $(let $field = Packed::get(from)?;)*
                Some($type { $($field),* })
            }
        }
    )*};
}

as_fields! {
    Table: title file is_users rows;
    Words: name words;
    Signature: id scope rule severity part texts alone site captures headline thing ranks follows confidence yields_to explains causes hints hint
        is_fact code name means next source versions examples muted;
    Pattern: text atoms at_start at_end;
    Template: pieces;
    Slot: table row text piece at;
}

impl Packed for Atom {
    fn put(&self, out: &mut Vec<u8>) {
        let (kind, text): (usize, &'static str) = match *self {
            Atom::Text(text) => (0, text),
            Atom::Any(name) => (1, name),
            Atom::Digits(name) => (2, name),
            Atom::Word(name) => (3, name),
            Atom::Pci(name) => (4, name),
        };
        (kind, text).put(out);
    }

    fn get(from: &mut &'static [u8]) -> Option<Atom> {
        let (kind, text): (usize, &'static str) = Packed::get(from)?;
        let kinds = [Atom::Text, Atom::Any, Atom::Digits, Atom::Word, Atom::Pci];
        Some(kinds.get(kind)?(text))
    }
}

impl Packed for Piece {
    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Piece::Text(text) => (0_usize, text).put(out),
            Piece::Value(name, how) => (1_usize, (name, how)).put(out),
            Piece::Optional(either) => (2_usize, either).put(out),
        }
    }

    fn get(from: &mut &'static [u8]) -> Option<Piece> {
        match usize::get(from)? {
            0 => Some(Piece::Text(Packed::get(from)?)),
            1 => Some(Piece::Value(Packed::get(from)?, Packed::get(from)?)),
            2 => Some(Piece::Optional(Packed::get(from)?)),
            _ => None,
        }
    }
}
