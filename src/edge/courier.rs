//! Brings a message to a program of the user and to an address, in a thread of its own: neither may hold up anything.

use crate::base::words::{io_words, wrap};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// A program has so long, and an address.
const RUN_LIMIT: Duration = Duration::from_secs(10);
const POST_LIMIT: Duration = Duration::from_secs(5);
/// What waits while one is being delivered; more is lost, and that is reported.
const MOST_WAITING: usize = 8;
/// Of one variable of the environment.
const MOST_CHARS: usize = 4096;

/// The program that gets a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Run {
    #[default]
    Off,
    /// A line for `sh -c`.
    Shell(String),
    /// A program with its arguments, without a shell.
    Args(Vec<String>),
}

/// Where messages go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    pub run: Run,
    /// POST goes there; empty: nowhere.
    pub url: String,
}

impl Routes {
    pub fn is_off(&self) -> bool {
        self.run == Run::Off && self.url.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// One JSON document: the program's standard input, and the body of the POST.
    pub json: String,
    /// For the program's environment.
    pub variables: Vec<(&'static str, String)>,
}

/// The host of an address: what stands behind it is often a secret.
pub fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

/// Delivers now, and returns when that is done or has failed.
///
/// # Errors
/// What could not be delivered, and why.
pub fn deliver(routes: &Routes, message: &Message) -> Result<(), String> {
    let ran = match &routes.run {
        Run::Off => Ok(()),
        Run::Shell(line) => run(Command::new("/bin/sh").arg("-c").arg(line), message),
        Run::Args(words) => match words.split_first() {
            Some((program, arguments)) => run(Command::new(program).args(arguments), message),
            None => Ok(()),
        },
    };
    let posted = if routes.url.is_empty() { Ok(()) } else { post(&routes.url, message) };
    let wrong = [
        ran.err().map(|why| format!("alert.command: {why}")),
        posted.err().map(|why| format!("alert.url ({}): {why}", host_of(&routes.url))),
    ];
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn run(command: &mut Command, message: &Message) -> Result<(), String> {
    let input = in_memory(&message.json).map_err(|err| io_words(&err))?;
    let variables = message.variables.iter().map(|(name, value)| (name, value.chars().take(MOST_CHARS).collect::<String>()));
    // A group of its own, so that it ends with all that it has started.
    let started = command.envs(variables).stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn();
    let mut child = started.map_err(|err| format!("it cannot be started: {}", io_words(&err)))?;
    let until = Instant::now() + RUN_LIMIT;
    loop {
        match child.try_wait().map_err(|err| io_words(&err))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let code = status.code().map(|code| format!("it ended with exit code {code}"));
                return Err(code.unwrap_or_else(|| format!("it was killed by signal {}", status.signal().unwrap_or(0))));
            }
            None if Instant::now() >= until => {
                if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                return Err(format!("it took longer than {} s, and was ended", RUN_LIMIT.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A file without a name, which a program reads without anybody having to wait for it.
fn in_memory(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("nccl-top-alert", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn post(url: &str, message: &Message) -> Result<(), String> {
    let config = ureq::Agent::config_builder().timeout_global(Some(POST_LIMIT)).max_redirects(0).http_status_as_error(false).build();
    let request = ureq::Agent::new_with_config(config).post(url).header("Content-Type", "application/json");
    match request.send(message.json.as_str()) {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(format!("the answer is {}", answer.status())),
        // Its words may hold the address.
        Err(ureq::Error::Timeout(_)) => Err(format!("no answer within {} s", POST_LIMIT.as_secs())),
        Err(ureq::Error::Io(err)) => Err(io_words(&err)),
        Err(ureq::Error::HostNotFound) => Err("no such host".into()),
        Err(ureq::Error::Rustls(err)) => Err(wrap(&format!("TLS: {err}"), 200).swap_remove(0)),
        Err(_) => Err("it is no address to post to, or what answers speaks no HTTP".into()),
    }
}

type Tell = Arc<dyn Fn(Result<(), String>) + Send + Sync>;

/// Delivers messages one after the other.
pub struct Courier {
    queue: Option<SyncSender<(Routes, Message)>>,
    tell: Tell,
    under_way: Arc<AtomicUsize>,
}

impl Courier {
    /// `tell` gets what became of each message, in the courier's thread.
    pub fn new(tell: impl Fn(Result<(), String>) + Send + Sync + 'static) -> Courier {
        Courier { queue: None, tell: Arc::new(tell), under_way: Arc::default() }
    }

    pub fn send(&mut self, routes: Routes, message: Message) {
        let queue = self.queue.get_or_insert_with(|| {
            let (tx, rx) = sync_channel::<(Routes, Message)>(MOST_WAITING);
            let (tell, under_way) = (self.tell.clone(), self.under_way.clone());
            let work = move || {
                for (routes, message) in rx {
                    tell(deliver(&routes, &message));
                    under_way.fetch_sub(1, Ordering::SeqCst);
                }
            };
            // Without a thread the channel has no other end, which is reported below.
            let _ = std::thread::Builder::new().name("alert".into()).spawn(work);
            tx
        });
        self.under_way.fetch_add(1, Ordering::SeqCst);
        if queue.try_send((routes, message)).is_err() {
            self.under_way.fetch_sub(1, Ordering::SeqCst);
            (self.tell)(Err("an alert was not sent: those before it are not delivered yet".into()));
        }
    }

    /// Waits for what is under way, but not longer than this.
    pub fn wait(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        while self.under_way.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
