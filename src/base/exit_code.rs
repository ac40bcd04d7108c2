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
        None => format!("exit code {code}"),
    }
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
        None => format!("exited with code {exit_code}"),
    }
}
