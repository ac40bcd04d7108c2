//! What a log says of the run itself, mostly before it trains: versions of programs, how many processes on how many nodes, and who started
//! them. None of it is a failure, and any program may print it: it is told beside what else a line says.
//!
//! **To teach it a text**: `assets/header.toml`. That the line is looked at follows from it.

use super::{Origin, TextEvent, What};
use crate::base::units::counted;
use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;
use std::sync::LazyLock;

/// What one line says of how the job was started. Absent is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// `torchrun`
    pub launcher: Option<&'static str>,
    pub world: Option<u32>,
    pub nodes: Option<u32>,
    pub per_node: Option<u32>,
    /// Where the ranks meet: `10.0.0.1:29500`.
    pub endpoint: Option<String>,
    /// How often the launcher may start the ranks again.
    pub restarts: Option<u32>,
}

impl Launch {
    /// What was said first stays. Libraries call a group of ranks the world, too: the largest is that of the job.
    pub fn learn(&mut self, said: &Launch) {
        self.launcher = self.launcher.or(said.launcher);
        self.world = self.world.max(said.world);
        self.nodes = self.nodes.or(said.nodes);
        self.per_node = self.per_node.or(said.per_node);
        self.restarts = self.restarts.or(said.restarts);
        if self.endpoint.is_none() {
            self.endpoint.clone_from(&said.endpoint);
        }
    }

    /// The number of ranks: of all nodes, else as a line says.
    pub fn ranks(&self) -> Option<u32> {
        self.nodes.zip(self.per_node).and_then(|(nodes, each)| nodes.checked_mul(each)).or(self.world)
    }

    /// `torchrun, 2 nodes of 8 processes, rendezvous at 10.0.0.1:29500, up to 3 restarts`
    pub fn words(&self) -> Vec<String> {
        let processes = |n| counted(n, "process");
        let size = match (self.nodes, self.per_node, self.world) {
            (Some(nodes), Some(each), _) => Some(format!("{} of {}", counted(nodes, "node"), processes(each))),
            (Some(nodes), None, Some(world)) => Some(format!("{} on {}", processes(world), counted(nodes, "node"))),
            (Some(nodes), None, None) => Some(counted(nodes, "node")),
            (None, Some(each), _) => Some(format!("{} a node", processes(each))),
            (None, None, world) => world.map(|world| format!("world size {world}")),
        };
        let endpoint = self.endpoint.as_ref().map(|at| format!("rendezvous at {at}"));
        let restarts = self.restarts.filter(|n| *n > 0).map(|n| format!("up to {}", counted(n, "restart")));
        self.launcher.map(str::to_owned).into_iter().chain(size).chain(endpoint).chain(restarts).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    software: Vec<Software>,
    count: Vec<Count>,
    saved: Saved,
    joined: Joined,
    block: Block,
    launcher: Vec<Launcher>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Software {
    name: String,
    before: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Count {
    of: Of,
    before: Vec<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Of {
    World,
    Nodes,
    PerNode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    texts: Vec<String>,
}

/// What stands in front of a rank that has begun, and of how many there are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Joined {
    text: String,
    members: String,
}

/// The names of the fields that an agent prints, one on a line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    head: String,
    nodes: [String; 2],
    per_node: String,
    endpoint: String,
    restarts: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Launcher {
    name: String,
    has: Vec<String>,
}

static TEXTS: LazyLock<Texts> = LazyLock::new(|| toml::from_str(include_str!("../../assets/header.toml")).expect("header.toml"));

/// What a text that was found means.
enum Meaning {
    Version(&'static str),
    Count(Of),
    Saved,
    Joined,
    Block,
    Launcher(&'static str),
}

/// All texts, and what each means.
static MEANINGS: LazyLock<Vec<(&'static str, Meaning)>> = LazyLock::new(|| {
    let texts = &*TEXTS;
    let software = texts.software.iter().flat_map(|s| s.before.iter().map(|text| (text.as_str(), Meaning::Version(s.name.as_str()))));
    let counts = texts.count.iter().flat_map(|c| c.before.iter().map(|text| (text.as_str(), Meaning::Count(c.of))));
    let launchers = texts.launcher.iter().flat_map(|l| l.has.iter().map(|text| (text.as_str(), Meaning::Launcher(l.name.as_str()))));
    let saved = texts.saved.texts.iter().map(|text| (text.as_str(), Meaning::Saved));
    let single = [(texts.block.head.as_str(), Meaning::Block), (texts.joined.text.as_str(), Meaning::Joined)];
    software.chain(counts).chain(saved).chain(single).chain(launchers).collect()
});

/// The texts that make a line worth a look. Lines that show a launcher are those of failures, which are looked at anyway.
pub fn words() -> impl Iterator<Item = &'static str> {
    MEANINGS.iter().filter(|(_, meaning)| !matches!(meaning, Meaning::Launcher(_))).map(|(text, _)| *text)
}

/// What the lines of one file leave for the next.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    /// Fields of the block that an agent prints follow; what they have said so far.
    block: Option<Launch>,
    /// The launcher that a line has shown.
    launcher: Option<&'static str>,
    /// Versions and numbers of processes that were told: each line of a log may say them again.
    told: Vec<What>,
    looked_at: u32,
}

/// Behind so many lines that are worth a look a header does not begin any more.
const MOST_LOOKED_AT: u32 = 20_000;
/// A configuration in one line is longer, and says it elsewhere, too.
const LONGEST: usize = 2048;
const MOST_TOLD: usize = 32;

impl State {
    /// The next lines may be fields of a block, although they look like noise.
    pub fn is_inside(&self) -> bool {
        self.block.is_some()
    }

    /// A further run begins.
    pub fn restart(&mut self) {
        *self = State::default();
    }

    pub fn read(&mut self, rest: &str, origin: &Origin, out: &mut Vec<TextEvent>) {
        static ANY: LazyLock<AhoCorasick> = LazyLock::new(|| {
            let texts = MEANINGS.iter().map(|(text, _)| *text);
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts).expect("texts")
        });
        let State { block, launcher, told, .. } = self;
        let mut tell = |what: What| {
            let again = matches!(what, What::Saved { .. } | What::Joined { .. });
            if again || told.len() < MOST_TOLD && !told.contains(&what) {
                if !again {
                    told.push(what.clone());
                }
                out.push(TextEvent { origin: origin.clone(), what, said_at: None });
            }
        };
        if let Some(said) = block {
            match field(rest) {
                Some((name, value)) => return learn(said, name, value),
                None => block.take().filter(|said| *said != Launch::default()).into_iter().for_each(|said| tell(What::Launch(said))),
            }
        }
        if self.looked_at >= MOST_LOOKED_AT || rest.len() > LONGEST {
            return;
        }
        self.looked_at += 1;
        let mut launch = Launch::default();
        for found in ANY.find_iter(rest) {
            let behind = &rest[found.end()..];
            let is_word = !rest[..found.start()].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            match &MEANINGS[found.pattern().as_usize()].1 {
                Meaning::Version(name) => {
                    if let Some(version) = version(behind) {
                        tell(What::Software { name, version });
                    }
                }
                Meaning::Count(of) if is_word => launch.count(*of, behind),
                Meaning::Saved => saved(&rest[found.start()..]).into_iter().for_each(&mut tell),
                Meaning::Joined => joined(behind).into_iter().for_each(&mut tell),
                Meaning::Block => *block = Some(Launch::default()),
                Meaning::Launcher(name) if launcher.is_none() => {
                    *launcher = Some(name);
                    launch.launcher = Some(name);
                }
                Meaning::Count(_) | Meaning::Launcher(_) => {}
            }
        }
        if launch != Launch::default() {
            tell(What::Launch(launch));
        }
    }

    /// The file has ended or is silent.
    pub fn idle(&mut self, out: &mut Vec<TextEvent>) {
        if let Some(said) = self.block.take().filter(|said| *said != Launch::default()) {
            out.push(TextEvent { origin: Origin::default(), what: What::Launch(said), said_at: None });
        }
    }
}

impl Launch {
    fn count(&mut self, of: Of, behind: &str) {
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        // `1:3` is from one to three.
        let ends = !behind[digits..].starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '_'));
        let Some(n) = behind[..digits].parse().ok().filter(|n| ends && (1..=1 << 20).contains(n)) else { return };
        let field = match of {
            Of::World => &mut self.world,
            Of::Nodes => &mut self.nodes,
            Of::PerNode => &mut self.per_node,
        };
        field.get_or_insert(n);
    }
}

/// `  nproc_per_node   : 2`
fn field(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.trim().split_once(" : ").or_else(|| text.trim().split_once(": "))?;
    let name = name.trim_end();
    (!name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')).then_some((name, value.trim()))
}

fn learn(launch: &mut Launch, name: &str, value: &str) {
    let block = &TEXTS.block;
    let number = || value.parse::<u32>().ok();
    if name == block.nodes[0] {
        launch.nodes = number();
    } else if name == block.nodes[1] {
        // As many as there are is no number.
        launch.nodes = launch.nodes.filter(|least| Some(*least) == number());
    } else if name == block.per_node {
        launch.per_node = number();
    } else if name == block.endpoint {
        launch.endpoint = Some(crate::base::clean::clip(value, 120).into_owned()).filter(|value| !value.is_empty());
    } else if name == block.restarts {
        launch.restarts = number();
    }
}

/// `Saving checkpoint to exp/epoch-14.pt`, where it says which.
fn saved(text: &str) -> Option<What> {
    const LONGEST: usize = 160;
    let says_which = text.contains('/') || text.bytes().any(|b| b.is_ascii_digit());
    // Those that are saved every so many steps are settings.
    let is_plan = text.contains("heckpoints ") || text.contains("every") || text.contains("=");
    (says_which && !is_plan).then(|| What::Saved { text: crate::base::clean::clip(text.trim(), LONGEST).into_owned() })
}

/// `1, MEMBER: 2/8`
fn joined(behind: &str) -> Option<What> {
    let (rank, tail) = behind.split_once(TEXTS.joined.members.as_str())?;
    let (_, members) = tail.split_once('/')?;
    let digits = members.bytes().take_while(u8::is_ascii_digit).count();
    Some(What::Joined { rank: rank.parse().ok()?, members: members[..digits].parse().ok()? })
}

/// `2.4.0+cu121`, of which the end is left out: a program's own version is a number.
fn version(behind: &str) -> Option<String> {
    // The dots of a table, and the path in it, stand between.
    let behind = behind.trim_start_matches(['.', ' ', 'v', '"', '\'']);
    let n = behind.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let version = behind[..n].trim_end_matches('.');
    let is_one = version.contains('.') && version.len() <= 24 && version.split('.').all(|part| !part.is_empty());
    is_one.then(|| version.to_owned())
}
