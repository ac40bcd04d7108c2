//! What happens on a machine, as a text that people can read, and its reader.
//!
//! ```text
//! # a comment
//! host p5                                     the tree: tests/fixtures/hosts/p5.tree
//! as jobs/p5                                  what scripts/jobs/p5.play says, and besides …
//! lasts 120s
//! seed 3                                      of what is uneven; 1 if it is not named
//! gpus modelled                               what NVML would say of 8 GPUs is made up, and the kernel has a log; else both are off, as below --sysroot
//! expect nic-flapping mlx5_3/1                a finding that must come, with its ports; `expect nothing` where none may
//! allow nic-down mlx5_3/1                     one that may come besides
//! cause rail-imbalance                        what the verdict names in the end
//! follows slow-steps                          what is a consequence in the end; where a cause is named nothing else may be
//! 5s        use job8 …                        any line of a tree, at that time; what it writes is there, what it appends is new
//! 20s..     train var/log/t.log from 1200 every 1.2s busy 0.7 uneven 0.1
//!                                             steps: a line for each in the log (- is none); traffic flows in the busy part of each, and
//!                                             each port and step has up to 10 % more or less
//! 20s..     train … falls 0.003               the loss falls by so much a step; `nan`: it is none
//! 35s       kernel NVRM: Xid (…): 79, …       a line of the kernel's log
//! 35s..     gpus 0..4 waiting                 what modelled GPUs do: training, slowed, waiting, nothing, lost; else they train while steps are made
//! 20s..     traffic rdmap* 62                 Gb/s that these ports send and receive, as a mean over the steps; none without steps
//! 20s..90s  send bond0 8 steady               Gb/s sent, or received (`receive`), steps or none
//! 30s..     slow mlx5_5 0.5                   half of their traffic
//! 30s+0.3s  down mlx5_3                       no link for that long, whoever looks or not
//! 40s       gone rdmap80s0                    the device is removed; with an end it comes back
//! 30s..     count rdmap79s0 retrans_pkts 500  a counter that grows by so much a second, besides
//! 30s..     count eth0 ethtool/rx_prio3_pause 9  one of those of `ethtool -S`, which the file `.ethtool` stands in for
//! 20s..     fabric 2..3 state=2 clique=7       what NVML shows of the NVLink fabric to these GPUs; of what is not named: completed, in
//!                                             clique 1, status 0, mask 0x1aa (all well), cluster 8f1e (- is none)
//! 40s       reset rdmap79s0                   all its counters start from 0, as after a reset of the driver
//! 0s        width port_xmit_data 32           this counter has so many bits on this machine
//! 20s..     runs 4200..4207 1.0               processes use so many CPUs
//! 90s       ends 4200..4207                   processes are gone
//! ```
//!
//! Ports are names of RDMA devices or of interfaces, with commas between them and `*`, `?` and `[…]` as for files.

use super::tree;
use super::worlds::Doing;
use glob::Pattern;
use nccl_top::observe::gpu::{Fabric, GpuHealth};
use std::time::Duration;

/// A script.
pub struct Play {
    pub name: String,
    pub host: String,
    pub lasts: Duration,
    pub seed: u64,
    pub gpus_modelled: bool,
    pub expected: Vec<Expected>,
    pub allowed: Vec<Expected>,
    pub cause: Option<String>,
    pub follows: Vec<String>,
    /// In the order of their beginnings.
    pub cues: Vec<Cue>,
}

/// A finding: rule and ports, as `mlx5_3/1` or the name of an interface; any ports where there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub rule: String,
    pub ports: Vec<String>,
}

/// What happens, and when, ms after the beginning.
pub struct Cue {
    pub from: u64,
    pub to: u64,
    pub what: What,
}

pub enum What {
    /// A line of a tree.
    Tree(String),
    Train(Train),
    Traffic {
        ports: Ports,
        send: f64,
        receive: f64,
        steady: bool,
    },
    Slow {
        ports: Ports,
        share: f64,
    },
    Down {
        ports: Ports,
    },
    Gone {
        ports: Ports,
    },
    Count {
        ports: Ports,
        counter: String,
        per_s: f64,
    },
    Fabric {
        gpus: (u32, u32),
        health: Box<GpuHealth>,
    },
    Reset {
        ports: Ports,
    },
    Width {
        counter: String,
        bits: u32,
    },
    Kernel(String),
    Gpus {
        gpus: (u32, u32),
        doing: Doing,
    },
    Runs {
        pids: (u32, u32),
        cpus: f64,
    },
    Ends {
        pids: (u32, u32),
    },
}

#[derive(Clone, Debug)]
pub struct Train {
    pub log: Option<String>,
    pub from: u64,
    pub every_ms: u64,
    pub busy: f64,
    pub uneven: f64,
    /// By how much the loss falls with each step; `None`: it stays where it is.
    pub falls: Option<f64>,
    pub nan: bool,
}

/// Names of devices, with wildcards.
pub struct Ports(Vec<Pattern>);

impl Ports {
    fn of(text: &str) -> Ports {
        Ports(text.split(',').map(|name| Pattern::new(name).unwrap_or_else(|err| panic!("{text}: {err}"))).collect())
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(name))
    }
}

impl Cue {
    pub fn holds_at(&self, ms: u64) -> bool {
        self.from <= ms && ms < self.to
    }
}

impl Play {
    /// The script `tests/fixtures/hosts/scripts/NAME.play`.
    pub fn named(name: &str) -> Play {
        Play::of(name, &tree::read(&format!("hosts/scripts/{name}.play")))
    }

    /// Reads a script; a line that is none ends the program, with the line.
    pub fn of(name: &str, text: &str) -> Play {
        let mut play = Play {
            name: name.to_owned(),
            host: String::new(),
            lasts: Duration::from_secs(60),
            seed: 1,
            gpus_modelled: false,
            expected: Vec::new(),
            allowed: Vec::new(),
            cause: None,
            follows: Vec::new(),
            cues: Vec::new(),
        };
        play.read(name, text);
        assert!(!play.host.is_empty(), "{name} names no host");
        play.cues.sort_by_key(|cue| cue.from);
        play
    }

    fn read(&mut self, name: &str, text: &str) {
        let lines = text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            self.line(line).unwrap_or_else(|| panic!("{name}: not understood: {line}"));
        }
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (first, rest) = line.split_once(char::is_whitespace)?;
        let rest = rest.trim();
        match first {
            "host" => self.host = rest.to_owned(),
            "as" => self.read(rest, &tree::read(&format!("hosts/scripts/{rest}.play"))),
            "lasts" => self.lasts = Duration::from_millis(ms(rest)?),
            "seed" => self.seed = rest.parse().ok()?,
            "gpus" if rest == "modelled" => self.gpus_modelled = true,
            "expect" if rest == "nothing" => {}
            "expect" => self.expected.push(finding(rest)?),
            "cause" => self.cause = Some(rest.to_owned()),
            "follows" => self.follows.push(rest.to_owned()),
            "allow" => self.allowed.push(finding(rest)?),
            time => {
                let (from, to) = span(time)?;
                self.cues.push(Cue { from, to, what: what(rest)? });
            }
        }
        Some(())
    }
}

fn finding(text: &str) -> Option<Expected> {
    let mut words = text.split_whitespace().map(str::to_owned);
    Some(Expected { rule: words.next()?, ports: words.collect() })
}

/// `5s`, `5s..`, `5s..9s`, `5s+0.3s`.
fn span(text: &str) -> Option<(u64, u64)> {
    match (text.split_once(".."), text.split_once('+')) {
        (Some((from, "")), _) => Some((ms(from)?, u64::MAX)),
        (Some((from, to)), _) => Some((ms(from)?, ms(to)?)),
        (None, Some((from, lasts))) => Some((ms(from)?, ms(from)? + ms(lasts)?)),
        (None, None) => Some((ms(text)?, u64::MAX)),
    }
}

fn ms(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.len().checked_sub(1)?);
    let unit = match unit {
        "s" => 1e3,
        "m" => 60e3,
        "h" => 3600e3,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Some((number * unit).round() as u64)
}

fn what(text: &str) -> Option<What> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<f64>().ok();
    let range = || {
        let (first, last) = words.get(1)?.split_once("..")?;
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    let ports = || words.get(1).map(|names| Ports::of(names));
    Some(match words[0] {
        "train" => What::Train(train(&words)?),
        "traffic" | "send" | "receive" => {
            let bytes_per_s = number(2)? * 1e9 / 8.0;
            let share = |not: &str| if words[0] == not { 0.0 } else { bytes_per_s };
            What::Traffic { ports: ports()?, send: share("receive"), receive: share("send"), steady: words.get(3) == Some(&"steady") }
        }
        "slow" => What::Slow { ports: ports()?, share: number(2)? },
        "down" => What::Down { ports: ports()? },
        "gone" => What::Gone { ports: ports()? },
        "count" => What::Count { ports: ports()?, counter: (*words.get(2)?).to_owned(), per_s: number(3)? },
        "fabric" => What::Fabric { gpus: range()?, health: Box::new(fabric(&words[2..])?) },
        "reset" => What::Reset { ports: ports()? },
        "width" => What::Width { counter: (*words.get(1)?).to_owned(), bits: words.get(2)?.parse().ok()? },
        "kernel" => What::Kernel(text.split_once(' ')?.1.to_owned()),
        "gpus" => What::Gpus { gpus: range()?, doing: Doing::named(words.get(2)?)? },
        "runs" => What::Runs { pids: range()?, cpus: number(2)? },
        "ends" => What::Ends { pids: range()? },
        _ => What::Tree(text.to_owned()),
    })
}

fn train(words: &[&str]) -> Option<Train> {
    let after = |key: &str| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1).copied());
    Some(Train {
        log: words.get(1).filter(|log| **log != "-").map(|log| (*log).to_owned()),
        from: after("from").map_or(Some(0), |n| n.parse().ok())?,
        every_ms: ms(after("every")?)?.max(1),
        busy: after("busy").map_or(Some(1.0), |n| n.parse().ok())?,
        uneven: after("uneven").map_or(Some(0.0), |n| n.parse().ok())?,
        falls: after("falls").and_then(|n| n.parse().ok()),
        nan: words.contains(&"nan"),
    })
}

/// `state=3 clique=1 status=0 mask=0x1aa cluster=8f1e`
fn fabric(words: &[&str]) -> Option<GpuHealth> {
    let mut fabric = Fabric { cluster: Some("8f1e".into()), clique: 1, status: 0, summary: Some(1) };
    let mut health = GpuHealth { fabric_state: Some(3), fabric_health: Some(0x1aa), ..GpuHealth::default() };
    for word in words {
        let (key, value) = word.split_once('=')?;
        match key {
            "state" => health.fabric_state = Some(value.parse().ok()?),
            "mask" => health.fabric_health = Some(u32::from_str_radix(value.strip_prefix("0x")?, 16).ok()?),
            "cluster" => fabric.cluster = (value != "-").then(|| value.to_owned()),
            "clique" => fabric.clique = value.parse().ok()?,
            "status" => fabric.status = value.parse().ok()?,
            _ => return None,
        }
    }
    health.fabric = Some(fabric);
    Some(health)
}
