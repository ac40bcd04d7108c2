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

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(comm: &str, state: char, threads: u32, wait_status: i32) -> Vec<u8> {
        let mut text = format!("4711 ({comm}) {state} 12 4711 4711 0 -1 4194304 9 0 0 0 150 25 0 0 20 0 {threads} 0 987654 1 2");
        text.push_str(&" 0".repeat(27));
        text.push_str(&format!(" {wait_status}\n"));
        text.into_bytes()
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = stat("a) (b) R 1", 'S', 7, 0);
        let stat = Stat::parse(&text).unwrap();
        assert_eq!(stat.comm, b"a) (b) R 1");
        assert_eq!((stat.state, stat.ppid, stat.threads, stat.start_ticks), ('S', 12, 7, 987_654));
        assert_eq!(stat.cpu_ticks, 175);
        assert_eq!(stat.wait_status, Some(0));
        assert!(!stat.kernel_thread);
    }

    #[test]
    fn the_wait_status_is_field_52() {
        assert_eq!(Stat::parse(&stat("x", 'Z', 1, 9)).unwrap().wait_status, Some(9));
        assert_eq!(exit_code(9), -9);
        assert_eq!(exit_code(139), -11, "a core dump is still signal 11");
        assert_eq!(exit_code(1 << 8), 1);
        assert_eq!(exit_code(0), 0);
    }

    #[test]
    fn a_leader_that_left_its_threads_behind_is_not_dead() {
        assert!(Stat::parse(&stat("x", 'Z', 1, 0)).unwrap().is_dead());
        assert!(!Stat::parse(&stat("x", 'Z', 5, 0)).unwrap().is_dead());
        assert!(!Stat::parse(&stat("x", 'T', 1, 0)).unwrap().is_dead());
    }

    #[test]
    fn the_innermost_pid_is_the_last() {
        let status = Status::parse(b"Name:\tpython\nUid:\t1000\t0\t0\t0\nNSpid:\t9001\t20\t7\nVmRSS:\t  2048 kB\n");
        assert_eq!(status, Status { uid: Some(1000), ns_pid: Some(7), rss_bytes: Some(2 << 20) });
    }

    #[test]
    fn io_is_all_or_nothing() {
        let text = b"rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 1\nread_bytes: 30\nwrite_bytes: 40\ncancelled_write_bytes: 0\n";
        assert_eq!(Io::parse(text), Some(Io { rchar: 10, wchar: 20, read: 30, write: 40 }));
        assert_eq!(Io::parse(b"rchar: 10\n"), None);
    }

    #[test]
    fn the_telling_cgroup_wins() {
        assert_eq!(cgroup(b"0::/system.slice/job_7\n").as_deref(), Some("/system.slice/job_7"));
        assert_eq!(cgroup(b"12:cpuset:/\n4:memory:/slurm/job_7/step_0\n1:name=systemd:/x\n0::/\n").as_deref(), Some("/slurm/job_7/step_0"));
        assert_eq!(cgroup(b"0::/\n").as_deref(), Some("/"));
        assert_eq!(cgroup(b"garbage"), None);
    }
}
