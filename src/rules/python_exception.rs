//! A rank ended with a Python exception.

use super::area::Area;
use super::chain::Chain;
use super::{Implies, ONCE, Rule, TextContext};
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::words::rank_words;
use crate::logs::catalog::{self, Part, Scope, Signature};
use crate::logs::{Exception, What, error_words};
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "python-exception",
    severity: Severity::Error,
    title: "A process of the job ended with a Python exception",
    says: "ended with a Python exception",
    how: "A traceback in the log, taken whole: the class and message of its last line, the place of its last frame",
    advice: "Read the traceback of the first rank that has one. Connection resets, NCCL remote errors and ChildFailedError on other ranks are \
             consequences of a rank that went before",
    life: ONCE,
    implies: Implies::Failed,
    chain: Chain { is_of_its_writer: true, ..Chain::ENDS_ITS_RANK },
    on_text: Some(check),
    ..Rule::PLAIN
};

/// What files, sockets and signals raise, whatever the program does.
const OF_THE_SYSTEM: &[&str] = &[
    "OSError",
    "IOError",
    "ConnectionError",
    "TimeoutError",
    "PipeError",
    "InterruptedError",
    "MemoryError",
    "KeyboardInterrupt",
    "SystemExit",
    "DistBackendError",
    "DistNetworkError",
    "DistStoreError",
    "DistError",
];

/// ` in save_checkpoint (dist_ckpt_io.py)`: all that an exception without words says.
fn called_in(exception: &Exception) -> String {
    let place = || {
        let (file, tail) = exception.place.as_deref()?.strip_prefix("File \"")?.split_once('"')?;
        let (_, function) = tail.split_once(", in ")?;
        Some(format!(" in {function} ({})", file.rsplit('/').next()?))
    };
    place().unwrap_or_default()
}

/// `, in collate (data.py:88)`: the last of the program's own functions.
fn own_call(exception: &Exception) -> String {
    let own = || {
        let (file, tail) = exception.called_from.as_ref().or(exception.place.as_ref())?.strip_prefix("File \"")?.split_once('"')?;
        let (line, function) = tail.strip_prefix(", line ")?.split_once(", in ")?;
        let is_code = !function.starts_with('<') && !file.starts_with('<');
        is_code.then(|| format!(", in {} ({}:{line})", crate::base::clean::clip(function, 60), file.rsplit('/').next().unwrap_or(file)))
    };
    own().unwrap_or_default()
}

/// `raised at File "…/conv.py", line 549, in forward, called from File "train.py", line 486, in main`
fn raised_words(exception: &Exception, source: Option<&String>) -> String {
    let at = exception.place.as_ref().map_or("a traceback in the log".into(), |place| format!("raised at {place}"));
    let from = exception.called_from.as_ref().map_or(String::new(), |own| format!(", called from {own}"));
    let loader = if exception.in_loader { ", in a data loader" } else { "" };
    let after = match exception.handed_on() {
        Some(_) => format!("; it came out as {}", crate::base::clean::clip(&error_words::exception_words(exception), 160)),
        None if !because(exception, "").is_empty() => String::new(),
        None => exception.after.as_ref().map_or(String::new(), |first| format!("; before it came {first}")),
    };
    // An assertion without words is its source.
    let source = source.filter(|_| exception.assertion.is_none()).map_or(String::new(), |source| format!(": `{source}`"));
    let thread = if exception.in_thread { ", in a thread that it ended; its process may go on" } else { "" };
    format!("{at}{from}{source}{loader}{thread}{after}")
}

const OF_A_THREAD: &str = "thread";

/// It ended a thread: whether the job has failed, the next seconds say.
pub fn ended_a_thread(f: &Finding) -> bool {
    f.rule == RULE.id && f.subject == OF_A_THREAD
}

/// The program's own frame; where only a library's are known, what that library was given.
fn where_to_look(exception: &Exception) -> Option<String> {
    let library = |place: &str| {
        let (_, tail) = place.split_once("-packages/")?;
        let name = tail.split(['/', '.']).next()?;
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then(|| name.to_owned())
    };
    let place = exception.called_from.as_ref().or(exception.place.as_ref())?;
    let whose = if exception.in_loader { "the loader's part of the traceback" } else { "the traceback" };
    Some(match library(place) {
        Some(name) if exception.called_from.is_none() => format!(
            "no frame of the program stands in {whose}: look at what {name} was given or set to, and for these words with its version (`pip show {name}`)"
        ),
        _ => format!("look at {place}"),
    })
}

/// A message is cut here, and the one that led to it.
const LONGEST: usize = 220;
const LONGEST_CAUSE: usize = 160;

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let What::Exception(exception) = &ctx.seen.event.what else { return };
    if ctx.signature().is_some() {
        return;
    }
    if ctx.repeats(exception) {
        return;
    }
    let words = error_words::exception_words(exception);
    let entry = catalog::find(Scope::Line, &words);
    // Who only hands on what others failed with names them.
    let named = entry.filter(|entry| entry.part == Part::Messenger).and_then(|entry| entry.tell(&words, None).ranks);
    let who = named.as_ref().map_or_else(|| ctx.who(), |ranks| format!("{}: ", rank_words(ranks)));
    let message = error_words::point(&exception.message);
    let message = crate::base::clean::clip(&message, LONGEST);
    // What only follows from something does not stand for what that is.
    let follows = |entry: &&Signature| matches!(entry.part, Part::Messenger | Part::Victim);
    let subject = match entry.filter(follows) {
        _ if exception.victim => "victim",
        Some(_) => "messenger",
        None if exception.in_thread => OF_A_THREAD,
        None => "first",
    };
    let mut found = ctx.found(
        &RULE,
        subject,
        match error_words::nccl_words(&error_words::exception_words(exception)) {
            Some(words) => format!("{who}{words}"),
            None if exception.class.is_empty() => {
                let handled = exception.after.as_deref().filter(|_| !exception.is_because);
                let handled = handled.map_or(String::new(), |first| {
                    format!("; it came while another was handled: {}", crate::base::clean::clip(first, LONGEST_CAUSE))
                });
                format!("{who}an exception{}; the log ends before it is named{handled}", called_in(exception))
            }
            None if exception.handed_on().is_some() => format!("{who}{}", exception.handed_on().unwrap_or_default()),
            None if exception.assertion.is_some() => format!("{who}{}: {}", exception.class, exception.assertion.as_deref().unwrap_or("")),
            None if message.is_empty() => format!("{who}{}{}", exception.class, called_in(exception)),
            None => format!("{who}{}: {message}", exception.class),
        },
    );
    found.confidence = Confidence::Certain;
    found.why = raised_words(exception, ctx.seen.event.said_at.as_ref().and_then(|said| said.source.as_ref()));
    found.next = where_to_look(exception);
    ctx.sign(&mut found, &words);
    if let Some(ranks) = named {
        (found.ranks, found.gpus) = (ranks, Vec::new());
    }
    let of_the_system = OF_THE_SYSTEM.iter().any(|name| exception.class.ends_with(name));
    let told = found.signature.is_some_and(Area::told_by);
    let area = if exception.in_loader { Area::Input } else { Area::Code };
    found.area = (!exception.victim && !of_the_system && !told && !exception.class.is_empty()).then_some(area);
    // Whatever else is known says more than that there was one.
    if exception.class.is_empty() {
        found.part = Some(Part::Messenger);
    }
    if exception.victim {
        (found.part, found.role) = (Some(Part::Victim), Role::Cascade);
    }
    ctx.tell_doing(&mut found);
    // Where the program itself was says what it was about.
    let names_call = || found.summary.ends_with(')') && found.summary.contains(" in ");
    if !exception.class.is_empty() && !names_call() && !exception.victim {
        found.summary = format!("{}{}", found.summary.trim_end_matches(['.', ':', ' ']), own_call(exception));
    }
    found.summary.push_str(&because(exception, &found.summary));
    out.push(found);
}

/// `, because of ManifestError: row 7 lacks column 'dur'`, where the program raised it from that one and does not repeat it; or
/// `, while it handled …`, where a handler failed by its own mistake, so that what it handled is what somebody asks for.
fn because(exception: &Exception, told: &str) -> String {
    let link = match exception.is_because {
        true => "because of",
        false if is_mistake_of_handler(exception) => "while it handled",
        false => return String::new(),
    };
    let after = exception.after.as_deref().filter(|_| exception.handed_on().is_none() && !exception.victim);
    let words = |text: &str| text.split_once(": ").map_or(text, |(_, message)| message).to_owned();
    let repeats = |cause: &str| words(cause).lines().next().is_none_or(|first| first.len() < 4 || told.contains(first));
    match after.filter(|cause| !repeats(cause)) {
        Some(cause) => format!(", {link} {}", crate::base::clean::clip(&error_words::point(cause), LONGEST_CAUSE)),
        None => String::new(),
    }
}

/// Of exceptions that a program's code is wrong by: in a handler they hide what it handled.
const MISTAKES: &[&str] = &["TypeError", "AttributeError", "NameError", "UnboundLocalError"];
/// What is tried as a matter of course, to see whether something is there: what comes behind is what the program does where it is not.
const TRIED: &[&str] = &[
    "KeyError",
    "AttributeError",
    "ImportError",
    "ModuleNotFoundError",
    "StopIteration",
    "IndexError",
    "TypeError",
    "Empty",
    "LookupError",
    "FileNotFoundError",
    "OSError",
];

fn is_mistake_of_handler(exception: &Exception) -> bool {
    let tried = |first: &String| TRIED.iter().any(|class| first.split(':').next().is_some_and(|name| name.ends_with(class)));
    MISTAKES.contains(&exception.class.as_str()) && exception.after.as_ref().is_some_and(|first| !tried(first))
}
