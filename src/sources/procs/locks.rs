//! Who holds a lock of a file that another process waits for: `/proc/locks`, which the kernel writes for everybody.

use super::bounded;
use super::read::Reader;
use crate::observe::process::Holder;

const MAX_CHARS: usize = 64;

/// `None`: the kernel does not list it. Locks of another namespace of processes, and those that a server of files keeps, are not there.
pub fn holder(reader: &mut Reader, waits: u32) -> Option<Holder> {
    let pid = held_by(&reader.roots().table("/proc/locks").ok()?, waits)?;
    let comm = reader.read(pid, "comm").ok().map(|comm| bounded(comm.trim_ascii(), MAX_CHARS));
    Some(Holder { pid, comm })
}

/// A lock has a line, and below it one for each process that waits for it, which repeats its number:
///
/// ```text
/// 7: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF
/// 7: -> FLOCK  ADVISORY  WRITE 4712 fe:00:131 0 EOF
/// ```
fn held_by(text: &str, waits: u32) -> Option<u32> {
    let mut held = None;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(no), Some(mut kind)) = (words.next(), words.next()) else { continue };
        let is_waiter = kind == "->";
        if is_waiter {
            kind = words.next().unwrap_or("");
        }
        // Kind, whether it is advisory, what for, and then whose: -1 for a lock of an open file, which belongs to nobody.
        let of_process = matches!(kind, "FLOCK" | "POSIX");
        let pid: i64 = words.nth(2).and_then(|pid| pid.parse().ok()).filter(|_| of_process).unwrap_or(-1);
        match (is_waiter, held) {
            (false, _) => held = Some((no, pid)),
            (true, Some((of, holder))) if of == no && pid == i64::from(waits) => {
                return u32::try_from(holder).ok().filter(|holder| *holder > 0);
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_listed_below_who_holds() {
        let text = "1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 4712 fe:00:131 0 EOF\n\
                    1:  -> FLOCK  ADVISORY  WRITE 4713 fe:00:131 0 EOF\n2: POSIX  ADVISORY  READ 800 00:2d:12 0 EOF\n\
                    3: OFDLCK ADVISORY  WRITE -1 fe:00:9 0 EOF\n3: -> OFDLCK ADVISORY  WRITE -1 fe:00:9 0 EOF\n\
                    4: FLOCK  ADVISORY  WRITE 900 fe:00:132 0 EOF\n4: -> FLOCK  ADVISORY  WRITE 4711 fe:00:132 0 EOF\n";
        assert_eq!(held_by(text, 4712), Some(4711));
        assert_eq!(held_by(text, 4713), Some(4711));
        assert_eq!(held_by(text, 4711), Some(900), "behind a lock of another kind");
        assert_eq!(held_by(text, 900), None);
        let itself = "1: FLOCK  ADVISORY  WRITE 7 fe:00:131 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 7 fe:00:131 0 EOF\n";
        assert_eq!(held_by(itself, 7), Some(7), "by another open file");
        assert_eq!(held_by("1: FLOCK", 1), None);
    }
}
