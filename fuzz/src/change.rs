//! Changes that leave an input what it is: another value somewhere in JSON or in a pickle, or a piece that comes again and again.

use crate::parsers::NEXT_FILE;
use serde_json::{Value, json};

/// splitmix64
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// One such change, where the seed asks for one and the input allows it.
pub fn structured(input: &[u8], max_size: usize, seed: u32) -> Option<Vec<u8>> {
    let mut rng = Rng(u64::from(seed));
    let changed = match rng.below(8) {
        0 => repeated(input, max_size, &mut rng),
        1..=4 => with_a_value_changed(input, &mut rng)?,
        _ => return None,
    };
    (changed.len() <= max_size).then_some(changed)
}

/// A piece of it many times, each with another number if it has one: what does not scale shows.
fn repeated(input: &[u8], max_size: usize, rng: &mut Rng) -> Vec<u8> {
    let from = rng.below(input.len());
    let is_line = |b: &u8| *b == b'\n';
    let from = input[..from].iter().rposition(is_line).map_or(0, |at| at + 1);
    let lines = 1 + rng.below(3);
    let length: usize = input[from..].split_inclusive(is_line).take(lines).map(<[u8]>::len).sum();
    let piece = &input[from..from + length.min(4096)];
    let digits = piece.iter().position(u8::is_ascii_digit).filter(|_| rng.below(2) == 0);
    let after = digits.map_or(0, |at| at + piece[at..].iter().take_while(|b| b.is_ascii_digit()).count());
    let room = rng.below(max_size.saturating_sub(input.len()));
    let mut out = input[..from].to_vec();
    for no in 0..room / piece.len().max(8) {
        match digits {
            Some(at) => out.extend([&piece[..at], no.to_string().as_bytes(), &piece[after..]].concat()),
            None => out.extend_from_slice(piece),
        }
    }
    out.extend_from_slice(&input[from..]);
    out
}

/// Of its files, and of their lines, the first one after a random place that is JSON or a pickle.
fn with_a_value_changed(input: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
    let starts = std::iter::once(0)
        .chain(input.windows(NEXT_FILE.len()).enumerate().filter(|(_, w)| *w == NEXT_FILE).map(|(at, _)| at + NEXT_FILE.len()));
    let files: Vec<usize> = starts.collect();
    let pick = rng.below(files.len());
    let mut from = files[pick];
    // Two separators may share a byte.
    let mut to = files.get(pick + 1).map_or(input.len(), |next| from.max(next - NEXT_FILE.len()));
    let file = &input[from..to];
    let changed = match serde_json::from_slice::<Value>(file) {
        Ok(value) => serde_json::to_vec(&changed(value, rng)).ok()?,
        Err(_) if file.first() == Some(&0x80) => {
            let value: Value = serde_pickle::from_slice(file, serde_pickle::DeOptions::new()).ok()?;
            serde_pickle::to_vec(&changed(value, rng), serde_pickle::SerOptions::new().proto_v2()).ok()?
        }
        Err(_) => {
            let at = from + rng.below(file.len());
            from = input[from..at].iter().rposition(|b| *b == b'\n').map_or(from, |line| from + line + 1);
            to = input[from..to].iter().position(|b| *b == b'\n').map_or(to, |line| from + line);
            serde_json::to_vec(&changed(serde_json::from_slice(&input[from..to]).ok()?, rng)).ok()?
        }
    };
    Some([&input[..from], &changed, &input[to..]].concat())
}

fn changed(mut value: Value, rng: &mut Rng) -> Value {
    (0..1 + rng.below(3)).for_each(|_| change(&mut value, rng));
    value
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn nth<'a>(value: &'a mut Value, n: &mut usize) -> Option<&'a mut Value> {
    if *n == 0 {
        return Some(value);
    }
    *n -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, n)),
        Value::Object(fields) => fields.values_mut().find_map(|item| nth(item, n)),
        _ => None,
    }
}

/// Something that a reader may not expect there.
fn odd(rng: &mut Rng) -> Value {
    const NUMBERS: &[u64] = &[0, 1, 7, 255, 65_536, u32::MAX as u64, 1 << 32, 1 << 53, i64::MAX as u64, u64::MAX - 1, u64::MAX];
    match rng.below(10) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(""),
        3 => json!([[[[[1]]]]]),
        4 => json!({}),
        5 => json!("a\u{1b}[31m\u{0}\u{202e}é"),
        6 => json!("x".repeat(rng.below(2000))),
        7 => json!(*[-1, -2, i64::from(i32::MIN), i64::MIN].get(rng.below(4)).unwrap_or(&0)),
        8 => json!(*[0.5, -0.0, 1e300, 5e-324, 1.8e19].get(rng.below(5)).unwrap_or(&1.0)),
        _ => json!(NUMBERS[rng.below(NUMBERS.len())]),
    }
}

/// One value becomes odd or another one of the same document; an item or a field comes many times, moves, or goes.
fn change(value: &mut Value, rng: &mut Rng) {
    let mut n = rng.below(count(value));
    let other = nth(value, &mut n).cloned().unwrap_or_default();
    let mut n = rng.below(count(value));
    let Some(at) = nth(value, &mut n) else { return };
    let way = rng.below(4);
    match at {
        Value::Array(items) if !items.is_empty() && way > 0 => {
            let i = rng.below(items.len());
            match way {
                1 => drop(items.remove(i)),
                2 => {
                    let item = items[i].clone();
                    items.extend((0..rng.below(30)).map(|no| shifted(item.clone(), no as u64)));
                }
                _ => items.insert(i, other),
            }
        }
        Value::Object(fields) if !fields.is_empty() && way > 0 => {
            let key = fields.keys().nth(rng.below(fields.len())).cloned().unwrap_or_default();
            match way {
                1 => drop(fields.remove(&key)),
                2 => drop(fields.insert(format!("{key}{}", rng.below(9)), other)),
                _ => drop(fields.insert(key, odd(rng))),
            }
        }
        _ if way == 0 => *at = other,
        _ => *at = odd(rng),
    }
}

/// With greater numbers, so that copies differ.
fn shifted(mut value: Value, by: u64) -> Value {
    match &mut value {
        Value::Number(n) => {
            if let Some(n) = n.as_u64() {
                value = json!(n.wrapping_add(by));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = shifted(item.take(), by)),
        Value::Object(fields) => fields.values_mut().for_each(|item| *item = shifted(item.take(), by)),
        _ => {}
    }
    value
}
