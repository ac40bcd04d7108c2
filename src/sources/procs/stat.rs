//! The text of /proc/PID/stat, status, io and cgroup. Reads no files; bytes that make no sense give `None`, never a panic.

/// What is used of /proc/PID/stat (man 5 proc_pid_stat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat<'a> {
    pub comm: &'a [u8],
    pub state: char,
    pub ppid: u32,
    pub kernel_thread: bool,
    /// utime + stime.
    pub cpu_ticks: u64,
    pub threads: u32,
    pub start_ticks: u64,
    /// Field 52: 0 for every process that we may not trace.
    pub wait_status: Option<i32>,
}

const PF_KTHREAD: u64 = 0x0020_0000;

impl<'a> Stat<'a> {
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        // The name is not escaped and may itself hold ") (": only the last parenthesis closes it.
        let open = memchr::memchr(b'(', text)?;
        let close = memchr::memrchr(b')', text).filter(|close| *close > open)?;
        let mut fields = [&text[..0]; 50];
        let words = text[close + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        for (field, word) in fields.iter_mut().zip(words) {
            *field = word;
        }
        // The manual counts from 1 and includes pid and name.
        let field = |number: usize| fields[number - 3];
        Some(Stat {
            comm: &text[open + 1..close],
            state: field(3).first().copied().filter(u8::is_ascii_alphabetic)?.into(),
            ppid: number(field(4))?,
            kernel_thread: number::<u64>(field(9))? & PF_KTHREAD != 0,
            cpu_ticks: number::<u64>(field(14))?.checked_add(number(field(15))?)?,
            threads: number(field(20))?,
            start_ticks: number(field(22))?,
            wait_status: number(field(52)),
        })
    }

    /// Dead, if perhaps not yet reaped. A leader that left with pthread_exit is also a Z, but its threads still work.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'X' | 'x') || self.state == 'Z' && self.threads <= 1
    }
}

/// A wait status as people say it: the exit code, or minus the signal.
pub fn exit_code(wait_status: i32) -> i32 {
    match wait_status & 0x7f {
        0 => wait_status >> 8 & 0xff,
        signal => -signal,
    }
}

/// What is used of /proc/PID/status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub uid: Option<u32>,
    /// The pid in the innermost namespace.
    pub ns_pid: Option<u32>,
    pub rss_bytes: Option<u64>,
    /// Effective capabilities, a bit each.
    pub capabilities: Option<u64>,
}

impl Status {
    pub fn parse(text: &[u8]) -> Self {
        let mut status = Status::default();
        for (key, value) in keyed_lines(text) {
            let mut words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            match key {
                b"Uid" => status.uid = words.next().and_then(number),
                b"NSpid" => status.ns_pid = words.next_back().and_then(number),
                b"VmRSS" => status.rss_bytes = words.next().and_then(number::<u64>).and_then(|kib| kib.checked_mul(1024)),
                b"CapEff" => {
                    status.capabilities = words.next().and_then(|hex| u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok())
                }
                _ => {}
            }
        }
        status
    }
}

/// /proc/PID/io: bytes through read and write calls, and bytes that reached storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    pub rchar: u64,
    pub wchar: u64,
    pub read: u64,
    pub write: u64,
}

impl Io {
    pub fn parse(text: &[u8]) -> Option<Self> {
        let value = |wanted: &[u8]| keyed_lines(text).find(|(key, _)| *key == wanted).and_then(|(_, value)| number(value.trim_ascii()));
        Some(Io { rchar: value(b"rchar")?, wchar: value(b"wchar")?, read: value(b"read_bytes")?, write: value(b"write_bytes")? })
    }

    pub fn plus(self, other: Io) -> Io {
        Io {
            rchar: self.rchar.saturating_add(other.rchar),
            wchar: self.wchar.saturating_add(other.wchar),
            read: self.read.saturating_add(other.read),
            write: self.write.saturating_add(other.write),
        }
    }
}

/// The second of the three numbers of /proc/PID/schedstat: ns in which it was ready to run and waited for a CPU.
pub fn run_delay(text: &[u8]) -> Option<u64> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(1).and_then(number)
}

/// The one path of /proc/PID/cgroup that says most: version 2, or the memory hierarchy of version 1, unless it is the root.
pub fn cgroup(text: &[u8]) -> Option<String> {
    let lines = || {
        text.split(|b| *b == b'\n').filter_map(|line| {
            let mut parts = line.splitn(3, |b| *b == b':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            (!path.is_empty()).then_some((controllers, path))
        })
    };
    let told = || lines().filter(|(_, path)| *path != b"/");
    let best = told()
        .find(|(controllers, _)| controllers.is_empty())
        .or_else(|| told().find(|(controllers, _)| controllers.split(|b| *b == b',').any(|c| c == b"memory")))
        .or_else(|| told().next())
        .or_else(|| lines().next())?;
    Some(super::printable(best.1))
}

fn keyed_lines(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|b| *b == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], &line[colon + 1..]))
    })
}

pub fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
