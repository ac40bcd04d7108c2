//! What a log says of the run itself, mostly before it trains: versions of programs, how many processes on how many nodes, and who started
//! them. None of it is a failure, and any program may print it: it is told beside what else a line says.
//!
//! **To teach it a text**: `assets/header.toml`. That the line is looked at follows from it.

mod detail;

use self::detail::Detail;
use super::catalog::pattern::Pattern;
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
    /// The least and the most nodes of an elastic job.
    pub between: Option<(u32, u32)>,
    pub per_node: Option<u32>,
    /// Where the ranks meet: `10.0.0.1:29500`.
    pub endpoint: Option<String>,
    /// The name of the job in its rendezvous.
    pub run_id: Option<String>,
    /// How often the launcher may start the ranks again.
    pub restarts: Option<u32>,
}

/// Heads that end right in front of a time: it is that of an epoch or an evaluation, not of the run.
const PARTS: &[&str] = &["epoch", "valid", "test", "eval"];

/// `Epoch: [20] `, `Validate: `
fn is_head_of_part(before: &str) -> bool {
    let before = before.trim_end();
    let head = before[before.len() - before.bytes().rev().take(24).take_while(u8::is_ascii).count()..].to_ascii_lowercase();
    before.ends_with([':', ']']) && PARTS.iter().any(|part| head.contains(part))
}

impl Launch {
    /// What was said first stays. Libraries call a group of ranks the world, too: the largest is that of the job.
    pub fn learn(&mut self, said: &Launch) {
        self.launcher = self.launcher.or(said.launcher);
        self.world = self.world.max(said.world);
        self.nodes = self.nodes.or(said.nodes);
        self.between = self.between.or(said.between);
        self.per_node = self.per_node.or(said.per_node);
        self.restarts = self.restarts.or(said.restarts);
        if self.endpoint.is_none() {
            self.endpoint.clone_from(&said.endpoint);
        }
        if self.run_id.is_none() {
            self.run_id.clone_from(&said.run_id);
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
        let size = match self.between {
            Some((least, most)) => Some(format!("{least} to {most} nodes{}", size.map_or(String::new(), |size| format!(", {size}")))),
            None => size,
        };
        let named = self.run_id.as_ref().map_or(String::new(), |id| format!(", id {id}"));
        let endpoint = self.endpoint.as_ref().map(|at| format!("rendezvous at {at}{named}"));
        let restarts = self.restarts.filter(|n| *n > 0).map(|n| format!("up to {}", counted(n, "restart")));
        self.launcher.map(str::to_owned).into_iter().chain(size).chain(endpoint).chain(restarts).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    software: Vec<Software>,
    count: Vec<Count>,
    saved: Told,
    resumed: Told,
    evaluated: Told,
    result: Told,
    present: Told,
    joined: Joined,
    section: Vec<Section>,
    block: Block,
    launcher: Vec<Launcher>,
    detail: Vec<Detail>,
    last: Vec<Last>,
}

/// What is told in the words of the log, in a row of its own, as it was said last.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    row: String,
    texts: Vec<String>,
    /// Told instead of the text, of processes whose numbers stand in front of it; `{}` is how many.
    #[serde(default)]
    words: Option<String>,
    /// A number in front of the text that belongs to it, with its name: the row begins there.
    #[serde(default)]
    from: Option<String>,
}

impl Last {
    /// Where the row begins whose text was found there.
    fn begin(&self, line: &str, at: usize) -> usize {
        const NEAR: usize = 40;
        let is_word = |first: usize| !line[..first].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let first = || line[..at].rfind(self.from.as_deref()?).filter(|first| at - first <= NEAR && is_word(*first));
        first().unwrap_or(at)
    }
}

/// What stands above a few numbers, and says what they are of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    is_of_evaluation: bool,
    texts: Vec<String>,
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
    /// What stands behind the number, where the text in front of it may mean something else.
    #[serde(default)]
    behind: Option<String>,
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
struct Told {
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
    run_id: String,
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
    Count(&'static Count),
    Saved,
    Resumed,
    Evaluated,
    Result,
    /// A rank says who it is, in one of the forms of [`PRESENT`].
    Present,
    Joined,
    /// Numbers of an evaluation follow, or those of the training.
    Section(bool),
    Block,
    Launcher(&'static str),
    /// The second: the text itself ends with what separates it from its value.
    Detail(&'static Detail, bool),
    Last(&'static Last),
}

static PRESENT: LazyLock<Vec<Pattern>> =
    LazyLock::new(|| TEXTS.present.texts.iter().map(|text| Pattern::parse(text, &[]).expect("a pattern of header.toml")).collect());

/// All texts, and what each means.
static MEANINGS: LazyLock<Vec<(&'static str, Meaning)>> = LazyLock::new(|| {
    let texts = &*TEXTS;
    let software = texts.software.iter().flat_map(|s| s.before.iter().map(|text| (text.as_str(), Meaning::Version(s.name.as_str()))));
    let counts = texts.count.iter().flat_map(|c| c.before.iter().map(|text| (text.as_str(), Meaning::Count(c))));
    let launchers = texts.launcher.iter().flat_map(|l| l.has.iter().map(|text| (text.as_str(), Meaning::Launcher(l.name.as_str()))));
    let present =
        PRESENT.iter().map(|pattern| (pattern.pieces().max_by_key(|piece| piece.len()).expect("text in a pattern"), Meaning::Present));
    let single = [(texts.block.head.as_str(), Meaning::Block), (texts.joined.text.as_str(), Meaning::Joined)];
    let separates = |text: &str| !text.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ')'));
    let details = texts.detail.iter().flat_map(move |d| d.texts().map(move |text| (text, Meaning::Detail(d, separates(text)))));
    let sections = texts.section.iter().flat_map(|s| s.texts.iter().map(|text| (text.as_str(), Meaning::Section(s.is_of_evaluation))));
    software.chain(sections).chain(counts).chain(present).chain(single).chain(launchers).chain(details).chain(late()).collect()
});

/// What may be told as long as a job runs.
fn late() -> impl Iterator<Item = (&'static str, Meaning)> {
    let texts = &*TEXTS;
    let told = |told: &'static Told, meaning: fn() -> Meaning| told.texts.iter().map(move |text| (text.as_str(), meaning()));
    let evaluated = told(&texts.evaluated, || Meaning::Evaluated);
    let resumed = told(&texts.resumed, || Meaning::Resumed);
    let last = texts.last.iter().flat_map(|last| last.texts.iter().map(move |text| (text.as_str(), Meaning::Last(last))));
    last.chain(told(&texts.saved, || Meaning::Saved)).chain(resumed).chain(evaluated).chain(told(&texts.result, || Meaning::Result))
}

/// Those of [`late`] alone.
static LATE: LazyLock<Vec<(&'static str, Meaning)>> = LazyLock::new(|| late().collect());

fn searcher(meanings: &[(&'static str, Meaning)]) -> AhoCorasick {
    let texts = meanings.iter().map(|(text, _)| *text);
    AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts).expect("texts")
}

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
    /// The numbers that follow are those of an evaluation.
    evaluates: bool,
    /// Versions and numbers of processes that were told: each line of a log may say them again.
    told: Vec<What>,
    looked_at: u32,
}

/// Behind so many lines that are worth a look a header does not begin any more.
const MOST_LOOKED_AT: u32 = 20_000;
/// A configuration in one line is longer, and says it elsewhere, too.
const LONGEST: usize = 2048;
const MOST_TOLD: usize = 96;

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
        static ANY: LazyLock<AhoCorasick> = LazyLock::new(|| searcher(&MEANINGS));
        static ANY_LATE: LazyLock<AhoCorasick> = LazyLock::new(|| searcher(&LATE));
        let State { block, launcher, told, evaluates, .. } = self;
        let mut tell = |what: What| {
            let again = matches!(
                what,
                What::Saved { .. }
                    | What::Resumed { .. }
                    | What::Evaluated { .. }
                    | What::Result { .. }
                    | What::Last { .. }
                    | What::Present(_)
                    | What::Joined { .. }
            );
            // What is told of each thing is its first value; nodes may differ in their GPUs.
            let is_told = |known: &What| match (known, &what) {
                (What::Detail { row, of, .. }, What::Detail { row: new, of: new_of, .. }) if *row != "GPUs" => (row, of) == (new, new_of),
                _ => *known == what,
            };
            if again || told.len() < MOST_TOLD && !told.iter().any(is_told) {
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
        if rest.len() > LONGEST {
            return;
        }
        let is_late = self.looked_at >= MOST_LOOKED_AT;
        self.looked_at += u32::from(!is_late);
        let (any, meanings) = if is_late { (&*ANY_LATE, &*LATE) } else { (&*ANY, &*MEANINGS) };
        let mut launch = Launch::default();
        let mut present = Present::default();
        // What follows on the line belongs to the first of its kind.
        let mut is_told = false;
        for found in any.find_iter(rest) {
            let behind = &rest[found.end()..];
            // What stands between backticks is advice: `--num_processes=1`.
            let is_word = !rest[..found.start()].ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '`'));
            match &meanings[found.pattern().as_usize()].1 {
                // Of packages that pip takes away, or names as wanted.
                Meaning::Version(_) if is_package(&rest[found.range()]) && (!is_word || is_of_pip(rest)) => {}
                Meaning::Version(name) => {
                    if let Some(version) = version(behind).or_else(|| (*name == "NCCL").then(|| of_number(behind)).flatten()) {
                        tell(What::Software { name, version });
                    }
                }
                Meaning::Count(count) if is_word => {
                    launch.count(count, rest, behind);
                    // Who says how many there are may say who it is.
                    if matches!(count.of, Of::World) && launch.world.is_some() {
                        present.rank = present.rank.or_else(|| rank_beside(&rest[..found.start()]));
                    }
                }
                Meaning::Saved => saved(&rest[found.start()..]).into_iter().for_each(&mut tell),
                // Where from is what counts.
                Meaning::Resumed if says_which(behind) && !is_of_evaluator(&rest[..found.start()]) => {
                    tell(What::Resumed { text: told_text(&rest[found.start()..]) })
                }
                Meaning::Resumed => {}
                meaning @ (Meaning::Evaluated | Meaning::Result) => {
                    let text = told_text(&rest[found.start()..]);
                    // `train_runtime.py` is a file.
                    let is_file = behind.starts_with('.') && behind[1..].starts_with(|c: char| c.is_ascii_alphabetic());
                    // `Validate: Total time: 0:00:18` is the time of a part.
                    let is_part = matches!(meaning, Meaning::Result) && is_head_of_part(&rest[..found.start()]);
                    if is_word && !is_file && !is_part && has_number(behind) && !std::mem::replace(&mut is_told, true) {
                        tell(if matches!(meaning, Meaning::Result) { What::Result { text } } else { What::Evaluated { text } });
                    }
                }
                Meaning::Last(Last { row, words: Some(words), .. }) => {
                    if rest[..found.start()].trim_end().ends_with(|c: char| c.is_ascii_digit()) {
                        tell(What::Last { row, text: words.clone() });
                    }
                }
                Meaning::Last(last) if is_word && has_number(behind) => {
                    tell(What::Last { row: &last.row, text: told_text(&rest[last.begin(rest, found.start())..]) });
                }
                Meaning::Present => present.learn(rest),
                Meaning::Section(is_of_evaluation) => *evaluates = *is_of_evaluation,
                Meaning::Joined => joined(behind).into_iter().for_each(&mut tell),
                Meaning::Block => *block = Some(Launch::default()),
                Meaning::Launcher(name) if launcher.is_none() => {
                    *launcher = Some(name);
                    launch.launcher = Some(name);
                }
                Meaning::Detail(detail, separates) if is_word && !is_advice(rest, found.start()) => {
                    if let Some(value) = detail.value(&rest[..found.start()], behind, *separates) {
                        tell(What::Detail { row: &detail.row, of: detail.words(*evaluates), value });
                    }
                }
                Meaning::Count(_) | Meaning::Launcher(_) | Meaning::Detail(..) | Meaning::Last(_) => {}
            }
        }
        present.members = present.members.or(launch.world);
        if launch != Launch::default() {
            tell(What::Launch(launch));
        }
        if present.rank.is_some() {
            tell(What::Present(present));
        }
    }

    /// The file has ended or is silent.
    pub fn idle(&mut self, out: &mut Vec<TextEvent>) {
        if let Some(said) = self.block.take().filter(|said| *said != Launch::default()) {
            out.push(TextEvent { origin: Origin::default(), what: What::Launch(said), said_at: None });
        }
    }
}

/// `torch-` and `jax==` stand in front of the version of a package.
fn is_package(text: &str) -> bool {
    text.ends_with(['-', '='])
}

fn is_of_pip(line: &str) -> bool {
    ["ninstall", "requires ", "Found existing", "Collecting ", "Downloading ", "Using cached ", "Would remove"]
        .iter()
        .any(|words| line.contains(words))
}

/// The rows of details, in the order in which they are told.
pub fn detail_rows() -> impl Iterator<Item = &'static str> {
    let rows = TEXTS.detail.iter().map(|detail| detail.row.as_str());
    rows.scan("", |last, row| Some((std::mem::replace(last, row) != row).then_some(row))).flatten()
}

/// The rows of what was said last, in the order in which they are told.
pub fn last_rows() -> impl Iterator<Item = &'static str> {
    TEXTS.last.iter().map(|last| last.row.as_str())
}

/// What an error or a hint proposes is not what the run has; nor is what engines for rollouts have beside the training.
fn is_advice(line: &str, at: usize) -> bool {
    const NEAR: usize = 80;
    let before = line[..at].to_ascii_lowercase();
    let near = before.char_indices().rev().take(NEAR).last().map_or("", |(from, _)| &before[from..]);
    ["error", "warning", "try ", "use ", "lower ", "reduce ", "increase ", "set ", "should ", "please"]
        .iter()
        .any(|word| before.contains(word))
        || near.contains("rollout")
}

impl Launch {
    fn count(&mut self, count: &Count, line: &str, behind: &str) {
        let of = count.of;
        // The dots of a table.
        let behind = if behind.starts_with('.') { behind.trim_start_matches(['.', ' ']) } else { behind };
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        // `1:3` is from one to three.
        let tail = behind[digits..].trim_end().trim_end_matches(':');
        let ends = !tail.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '_'));
        let is_its = count.behind.as_ref().is_none_or(|words| behind[digits..].starts_with(words.as_str()));
        let Some(n) = behind[..digits].parse().ok().filter(|n| ends && is_its && (1..=1 << 20).contains(n)) else { return };
        // argparse's default, before anything was asked.
        if matches!(of, Of::World) && n == 1 && line.contains("rank=-1") {
            return;
        }
        let field = match of {
            Of::World => &mut self.world,
            Of::Nodes => &mut self.nodes,
            Of::PerNode => &mut self.per_node,
        };
        field.get_or_insert(n);
    }
}

/// A rank says who it is. Absent is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Present {
    pub rank: Option<u32>,
    pub host: Option<String>,
    pub members: Option<u32>,
}

impl Present {
    fn learn(&mut self, text: &str) {
        for (name, value) in PRESENT.iter().find_map(|pattern| pattern.captures(text)).into_iter().flatten() {
            match name {
                "rank" => self.rank = value.parse().ok(),
                "members" => self.members = value.parse().ok(),
                _ => self.host = Some(value.to_owned()),
            }
        }
    }
}

/// `3` of `rank: 3, `, which stands in front of how many there are.
fn rank_beside(before: &str) -> Option<u32> {
    const NEAR: usize = 24;
    let near = before.char_indices().rev().take(NEAR).last().map_or(before.len(), |(at, _)| at);
    let (head, tail) = before[near..].rsplit_once("ank")?;
    // `node_rank`, `lora rank` and `local rank` are others.
    let front = head.strip_suffix(['r', 'R'])?.to_ascii_lowercase();
    let word = front.trim_end_matches([' ', '_']);
    let is_global = word.is_empty() || word.ends_with("global") || !word.ends_with(|c: char| c.is_ascii_alphanumeric());
    let tail = tail.trim_start_matches([' ', '=', ':', '\'', '"']);
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    let is_all = tail[digits..].chars().all(|c| matches!(c, ' ' | ',' | ';' | '|' | '/' | '\'' | '"'));
    tail[..digits].parse().ok().filter(|_| is_global && is_all)
}

/// A number stands right behind the words, or a few words later.
fn has_number(behind: &str) -> bool {
    const NEAR: usize = 80;
    behind.char_indices().take_while(|(at, _)| *at < NEAR).any(|(_, c)| c.is_ascii_digit())
}

/// What is told in the words of the log.
fn told_text(text: &str) -> String {
    const LONGEST: usize = 300;
    let text = text.split(['}', '\r']).next().unwrap_or(text);
    let plain: String = text.chars().filter(|c| !matches!(c, '\'' | '"' | '{')).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    crate::base::clean::clip(words.join(" ").trim_matches([',', '|', ' ']), LONGEST).into_owned()
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
        let least = launch.nodes.take_if(|least| Some(*least) != number());
        launch.between = least.zip(number());
    } else if name == block.per_node {
        launch.per_node = number();
    } else if name == block.endpoint {
        launch.endpoint = Some(crate::base::clean::clip(value, 120).into_owned()).filter(|value| !value.is_empty());
    } else if name == block.run_id {
        // torchrun's own for a job that has none.
        launch.run_id = Some(crate::base::clean::clip(value, 120).into_owned()).filter(|id| !id.is_empty() && id != "none");
    } else if name == block.restarts {
        launch.restarts = number();
    }
}

/// Ignite's engines for evaluations begin, as they say, where the training is.
fn is_of_evaluator(before: &str) -> bool {
    before.contains("Evaluator")
}

/// A path, or a number.
fn says_which(text: &str) -> bool {
    text.contains('/') || text.bytes().any(|b| b.is_ascii_digit())
}

/// `Saving checkpoint to exp/epoch-14.pt`, where it says which.
fn saved(text: &str) -> Option<What> {
    const LONGEST: usize = 240;
    let says_which = says_which(text);
    // Those that are saved every so many steps are settings.
    let is_plan =
        text.contains("heckpoints ") || text.contains("every") || text.contains("=") || text.contains(" took ") && !text.contains('/');
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

/// `22902` behind a text: NCCL's number for its version.
fn of_number(behind: &str) -> Option<String> {
    let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
    behind[..digits].parse().ok().filter(|n| (2000..100_000).contains(n)).map(nccl_version)
}

/// `22902` is 2.29.2, `2708` is 2.7.8 (NCCL_VERSION in nccl.h.in).
pub fn nccl_version(number: u32) -> String {
    let major = if number < 10_000 { 1000 } else { 10_000 };
    format!("{}.{}.{}", number / major, number % major / 100, number % 100)
}
