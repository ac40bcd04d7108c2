//! Times as log lines write them. Never guesses a year or a zone.

use crate::logs::Written;

/// Walks over bytes; every step either succeeds or leaves the whole reading to fail.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, any_of: &[u8]) -> Option<u8> {
        let b = self.peek()?;
        any_of.contains(&b).then(|| {
            self.at += 1;
            b
        })
    }

    /// `Sep`
    fn month(&mut self) -> Option<u32> {
        let name = self.bytes.get(self.at..self.at + 3)?;
        let month = MONTHS.iter().position(|month| month.as_bytes() == name)? as u32 + 1;
        self.at += 3;
        Some(month)
    }

    /// Exactly `n` digits.
    fn digits(&mut self, n: usize) -> Option<u32> {
        let end = self.at.checked_add(n)?;
        let text = self.bytes.get(self.at..end)?;
        let mut value = 0u32;
        for b in text {
            if !b.is_ascii_digit() {
                return None;
            }
            value = value.checked_mul(10)?.checked_add(u32::from(b - b'0'))?;
        }
        self.at = end;
        Some(value)
    }

    /// The digits behind the point, as nanoseconds.
    fn fraction(&mut self) -> Option<u32> {
        let start = self.at;
        let mut ns = 0u32;
        while let Some(b) = self.peek().filter(u8::is_ascii_digit) {
            if self.at - start < 9 {
                ns = ns * 10 + u32::from(b - b'0');
            }
            self.at += 1;
        }
        let n = self.at - start;
        (n > 0).then(|| ns * 10u32.pow(9 - n.min(9) as u32))
    }

    /// `HH:MM:SS` and an optional fraction.
    fn clock(&mut self, w: &mut Written) -> Option<()> {
        w.hour = self.digits(2)? as u8;
        self.eat(b":")?;
        w.minute = self.digits(2)? as u8;
        self.eat(b":")?;
        w.second = self.digits(2)? as u8;
        if w.hour > 23 || w.minute > 59 || w.second > 60 {
            return None;
        }
        let dot = self.at;
        if self.eat(b".,").is_some() {
            match self.fraction() {
                Some(ns) => w.nanosecond = ns,
                None => self.at = dot,
            }
        }
        Some(())
    }

    /// ` PM` behind a clock of twelve hours.
    fn half(&mut self, w: &mut Written) {
        let Some(half) = self.bytes.get(self.at..self.at + 3).filter(|_| (1..=12).contains(&w.hour)) else { return };
        let ends = !self.bytes.get(self.at + 3).is_some_and(u8::is_ascii_alphanumeric);
        let is_afternoon = match half {
            b" PM" | b" pm" if ends => true,
            b" AM" | b" am" if ends => false,
            _ => return,
        };
        w.hour = w.hour % 12 + if is_afternoon { 12 } else { 0 };
        self.at += half.len();
    }

    fn date(&self, w: &mut Written, month: u32, day: u32) -> Option<()> {
        w.month = u8::try_from(month).ok().filter(|m| (1..=12).contains(m))?;
        w.day = u8::try_from(day).ok().filter(|d| (1..=31).contains(d))?;
        Some(())
    }

    /// `Z`, `+08:00`, `-0700`, also after a space.
    fn zone(&mut self) -> Option<i32> {
        let start = self.at;
        self.eat(b" ");
        let found = (|| match self.eat(b"Z+-")? {
            b'Z' => Some(0),
            sign => {
                let hours = self.digits(2)? as i32;
                self.eat(b":");
                let minutes = self.digits(2)? as i32;
                let s = hours * 3600 + minutes * 60;
                (hours < 24 && minutes < 60 && !self.peek().is_some_and(|b| b.is_ascii_digit())).then_some(if sign == b'-' {
                    -s
                } else {
                    s
                })
            }
        })();
        if found.is_none() {
            self.at = start;
        }
        found
    }
}

fn blank() -> Written {
    Written { year: None, month: 1, day: 1, hour: 0, minute: 0, second: 0, nanosecond: 0, offset_s: None }
}

/// `2026-05-16T16:39:51.208Z`, `2026-11-09 15:39:31.043 +08:00`, `2026-11-21_00:05:26`, `2026-Sep-19 18:57:20.782`; and how many bytes it took.
pub fn iso(text: &str) -> Option<(Written, usize)> {
    let mut walk = Walk { bytes: text.as_bytes(), at: 0 };
    let mut w = blank();
    w.year = Some(walk.digits(4)? as i16).filter(|y| (1970..=2200).contains(y));
    w.year?;
    walk.eat(b"-/")?;
    let month = match walk.digits(2) {
        Some(month) => month,
        None => walk.month()?,
    };
    walk.eat(b"-/")?;
    let day = walk.digits(2)?;
    walk.date(&mut w, month, day)?;
    walk.eat(b"T _")?;
    walk.clock(&mut w)?;
    w.offset_s = walk.zone();
    Some((w, walk.at))
}

/// `09/26/2026 12:00:00`, `09/26/2026 12:00:00 PM`
pub fn american(text: &str) -> Option<(Written, usize)> {
    let mut walk = Walk { bytes: text.as_bytes(), at: 0 };
    let mut w = blank();
    let month = walk.digits(2)?;
    walk.eat(b"/")?;
    let day = walk.digits(2)?;
    walk.eat(b"/")?;
    w.year = Some(walk.digits(4)? as i16);
    walk.date(&mut w, month, day)?;
    walk.eat(b" ")?;
    walk.clock(&mut w)?;
    walk.half(&mut w);
    Some((w, walk.at))
}

/// `11-18 20:27:21`, `08/15 04:02:30`, `08/15 04:02:30 PM`
pub fn month_day(text: &str) -> Option<(Written, usize)> {
    let mut walk = Walk { bytes: text.as_bytes(), at: 0 };
    let mut w = blank();
    let month = walk.digits(2)?;
    walk.eat(b"-/")?;
    let day = walk.digits(2)?;
    walk.date(&mut w, month, day)?;
    walk.eat(b" ")?;
    walk.clock(&mut w)?;
    walk.half(&mut w);
    Some((w, walk.at))
}

/// `1121 00:10:37.678827192`: month and day in one number, the month unpadded in C++ (`710` is July 10) and padded in Python.
pub fn glog(text: &str) -> Option<(Written, usize)> {
    let mut walk = Walk { bytes: text.as_bytes(), at: 0 };
    let mut w = blank();
    let n = text.bytes().take_while(u8::is_ascii_digit).count();
    if !(3..=4).contains(&n) {
        return None;
    }
    let number = walk.digits(n)?;
    walk.date(&mut w, number / 100, number % 100)?;
    walk.eat(b" ")?;
    walk.clock(&mut w)?;
    Some((w, walk.at))
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Nov  2 15:04:05`, as syslog and journalctl stamp.
pub fn syslog(text: &str) -> Option<(Written, usize)> {
    let month = MONTHS.iter().position(|m| text.get(..3) == Some(m))? as u32 + 1;
    let mut walk = Walk { bytes: text.as_bytes(), at: 3 };
    let mut w = blank();
    walk.eat(b" ")?;
    let day = if walk.eat(b" ").is_some() { walk.digits(1)? } else { walk.digits(2)? };
    walk.date(&mut w, month, day)?;
    walk.eat(b" ")?;
    walk.clock(&mut w)?;
    Some((w, walk.at))
}

/// `Mon Jan  2 15:04:05 2026`, as Open MPI stamps.
pub fn ctime(text: &str) -> Option<(Written, usize)> {
    let day_name = text.get(..4)?;
    if !["Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "].contains(&day_name) {
        return None;
    }
    let month = MONTHS.iter().position(|m| text.get(4..7) == Some(m))? as u32 + 1;
    let mut walk = Walk { bytes: text.as_bytes(), at: 7 };
    let mut w = blank();
    walk.eat(b" ")?;
    let day = if walk.eat(b" ").is_some() { walk.digits(1)? } else { walk.digits(2)? };
    walk.date(&mut w, month, day)?;
    walk.eat(b" ")?;
    walk.clock(&mut w)?;
    walk.eat(b" ")?;
    w.year = Some(walk.digits(4)? as i16);
    Some((w, walk.at))
}
