//! Exit codes of processes, and the signals in them.

/// The signal behind an exit code: negative as here and in Python, 128 + n as a shell hands it on.
pub fn signal_of(exit_code: i32) -> Option<u32> {
    match exit_code {
        ..0 => Some(exit_code.unsigned_abs()),
        129..=159 => Some(exit_code.unsigned_abs() - 128),
        _ => None,
    }
}

/// Exit codes as torchrun prints them: negative is a signal, 128 + n the same through a shell.
pub fn exit_words(code: i32) -> String {
    match signal_of(code) {
        Some(n) => {
            let name = signal_name(n).map_or(String::new(), |name| format!(" ({name})"));
            format!("killed by signal {n}{name}")
        }
        None => match by_python(code) {
            Some(n) => format!("exit code {code}, which is -{n}: {}", exit_words(-n)),
            None => format!("exit code {code}{}", of_python(code)),
        },
    }
}

/// The signal in 247: a launcher in Python ended itself with the -9 of its child, of which a byte is left. Only those that end jobs: another
/// program may mean something else by the number, so that it is told, and nothing is decided by it.
fn by_python(code: i32) -> Option<i32> {
    (241..=250).contains(&code).then(|| 256 - code).filter(|n| matches!(n, 6 | 7 | 9 | 11 | 15))
}

/// CPython's own code, since 3.6: at its end it could not write what was left for its output.
fn of_python(code: i32) -> &'static str {
    if code == 120 { " (Python could not write the rest of its output: a pipe was closed, or a disk is full)" } else { "" }
}

fn signal_name(signal: u32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        _ => return None,
    })
}

/// `SIGSEGV`, `signal 34`
pub fn signal_words(signal: u32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// `exited with code 1`, `was killed by SIGSEGV`
pub fn ended_words(exit_code: i32) -> String {
    match signal_of(exit_code) {
        Some(signal) => format!("was killed by {}", signal_words(signal)),
        None => format!("exited with code {exit_code}{}", of_python(exit_code)),
    }
}
