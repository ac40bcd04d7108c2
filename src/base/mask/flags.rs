//! Options of programs: `--password x`, and `-p x` where it is a password and not a port, a partition or a project.

use super::names::{self, Class};
use super::values::{is_secret, looks_random};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

/// A program with the short option that takes its password, and whether the value may follow without a blank.
const TAKERS: &[(&str, &str, bool)] = &[
    ("sshpass", "-p", true),
    ("mysql", "-p", true),
    ("mysqldump", "-p", true),
    ("mysqladmin", "-p", true),
    ("mariadb", "-p", true),
    ("mongo", "-p", false),
    ("mongosh", "-p", false),
    ("mongodump", "-p", false),
    ("login", "-p", false),
    ("7z", "-p", true),
    ("htpasswd", "-p", false),
    ("clickhouse-client", "-p", false),
    ("snmpwalk", "-a", false),
    ("redis-cli", "-a", false),
    ("ldapsearch", "-w", false),
    ("ldapadd", "-w", false),
    ("ldapmodify", "-w", false),
    ("mosquitto_pub", "-p", false),
    ("ipmitool", "-p", false),
    ("zip", "-p", false),
    ("unzip", "-p", false),
    ("sqlcmd", "-p", false),
];

/// Programs whose `-p` is something else.
const OTHERS: &str = "\
    bash cp docker find git gdb install journalctl kill make mkdir mpirun nc ncat nmap nsys numactl patch perf ping pip podman ps \
    psql py-spy pytest rsync salloc sbatch scancel scp screen sed sftp sh sinfo squeue srun ssh ssh-keygen strace tar taskset tee \
    tmux top torchrun touch xargs";

static OTHER_NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| OTHERS.split(' ').collect());

/// So many words before an option are looked at for its program.
const MOST_WORDS: usize = 32;

/// Programs to which `-u user:password` is a login.
const LOGINS: &[&str] = &["curl", "http", "https", "wget", "oc", "jf"];

const USER_OPTIONS: &[&str] = &["-u", "-U", "--user", "--username", "--login", "-l"];

/// The name of the program that a word is, without its folder.
fn program(word: &str) -> &str {
    let word = word.trim_matches(['"', '\'', '(', '$', '`', ';', '[', ',']);
    word.rsplit('/').next().unwrap_or(word)
}

/// The part of a value that a short option takes which is secret, by the words before it.
fn taken<'a>(before: impl DoubleEndedIterator<Item = &'a str> + Clone, option: &str, value: &str, attached: bool) -> Option<Range<usize>> {
    let before = before.rev().take(MOST_WORDS);
    let programs = || before.clone().map(program);
    let small = option.to_ascii_lowercase();
    if matches!(small.as_str(), "-u" | "--user") {
        let (user, password) = value.split_once(':')?;
        let is_login = programs().any(|p| LOGINS.contains(&p)) && password.bytes().any(|b| !b.is_ascii_digit());
        return (option == small && is_login && !password.is_empty()).then_some(user.len() + 1..value.len());
    }
    let all = (!value.is_empty() && !value.starts_with('-') && is_secret(value, Class::Password, true)).then_some(0..value.len())?;
    let is_taker = |p: &str| TAKERS.iter().any(|(taker, flag, near)| *taker == p && *flag == small && (*near || !attached));
    if let Some(p) = programs().find(|p| is_taker(p) || OTHER_NAMES.contains(p)) {
        // `mysql -P 3306` is a port, and what is no taker has another meaning for it.
        let is_port = option == "-P" && value.bytes().all(|b| b.is_ascii_digit());
        return (is_taker(p) && !is_port).then_some(all);
    }
    let is_number = value.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b'-' | b',' | b'.' | b'/'));
    let is_place = value.starts_with(['/', '.', '~']) || value.contains("=");
    let has_user = before.clone().any(|word| USER_OPTIONS.contains(&word));
    let has_both = value.len() >= 6 && (looks_random(value, 6) || value.bytes().any(|b| b"!@#$%^&*".contains(&b)));
    (option == "-p" && !attached && !is_number && !is_place && (has_user || has_both)).then_some(all)
}

/// In a text: ` -p x`.
pub fn short(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let before = text[..hit.start].rsplit(['\n', '|']).next()?;
    let option = text[hit.clone()].trim();
    let mut rest = &text[hit.start + 1 + option.len()..];
    if option.starts_with("--") {
        rest = rest.strip_prefix('=').or_else(|| rest.starts_with(' ').then_some(rest))?;
    }
    let attached = !rest.starts_with(' ');
    let value = rest.trim_start_matches(' ');
    let at = text.len() - value.len();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (from, len) = match quote {
        Some(quote) => (at + 1, value[1..].find([quote, '\n']).unwrap_or(value.len() - 1)),
        None => (at, value.find([' ', '\n', '"', '\'', ';', '`', '\\']).unwrap_or(value.len())),
    };
    let range = taken(before.split_whitespace(), option, &text[from..from + len], attached)?;
    Some(from + range.start..from + range.end)
}

/// What is secret in an argument as a whole, by itself and by the ones before it. `None`: it is a text like any other.
pub fn argument(before: &[String], arg: &str) -> Option<Range<usize>> {
    let last = before.last().map_or("", String::as_str);
    let name = last.trim_end_matches(':');
    let is_scheme = |word: &str| ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    // `Authorization: Bearer x` as three arguments.
    if is_scheme(name) {
        return (!arg.starts_with("--")).then_some(0..arg.len());
    }
    let names_next = !last.contains(['=', ' ']) && (last.starts_with('-') || last.ends_with(':'));
    if names_next && !arg.starts_with("--") && !is_scheme(arg) {
        let class = names::class(name, &(0..name.len()));
        if class != Class::Plain && is_secret(arg, class, true) {
            return Some(0..arg.len());
        }
    }
    if let Some(range) = assigned(arg) {
        return Some(range);
    }
    let words = before.iter().flat_map(|arg| arg.split_whitespace());
    let behind = |arg: &str, option: &str| {
        let at = option.len();
        taken(words.clone(), option.trim_end_matches('='), &arg[at..], true).map(|range| range.start + at..range.end + at)
    };
    match (arg.get(..2), last) {
        (_, "-p" | "-P" | "-a" | "-w" | "-u" | "--user") => taken(words.clone(), last, arg, false),
        (Some(option @ ("-p" | "-u")), _) if arg.len() > 2 => behind(arg, option),
        (Some("--"), _) if arg.starts_with("--user=") => behind(arg, "--user="),
        _ => None,
    }
}

/// `--api-key=…` and `--env=HF_TOKEN=…` as one argument: all behind the sign is the value.
fn assigned(arg: &str) -> Option<Range<usize>> {
    let has_blank = arg.contains(char::is_whitespace);
    for (equals, _) in arg.match_indices('=') {
        let name = arg[..equals].bytes().rev().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
        let start = equals - name;
        // A script has more to show behind it.
        if has_blank && !(start == 0 && arg.starts_with("--")) {
            return None;
        }
        let class = names::class(arg, &(start..equals));
        // A quote, or the next field of a list: the text's own rules find its end.
        let is_whole = !arg[equals + 1..].starts_with(['"', '\'', '[', '{', '$']) && !arg[..equals].contains(['?', '{', '(']);
        if class != Class::Plain && is_whole && is_secret(&arg[equals + 1..], class, false) {
            return Some(equals + 1..arg.len());
        }
    }
    None
}
