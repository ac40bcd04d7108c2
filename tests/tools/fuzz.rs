//! Feeds the parsers of `check` with damaged, odd and huge input, and watches for panics, for time and memory that grow faster than
//! the input.
//!
//! `cargo build --profile fuzz --example fuzz && target/fuzz/examples/fuzz PARSER [--for 10m] [--seed N] [--out DIR] [--only N]`
//!
//! The same seed and number make the same input: `--only N` runs one again, `--file PATH` what a file holds.

#![allow(unsafe_code, clippy::print_stdout, clippy::unwrap_used)]

#[path = "fuzz/bounds.rs"]
mod bounds;
#[path = "fuzz/make.rs"]
mod make;
#[path = "fuzz/parsers.rs"]
mod parsers;
#[path = "fuzz/tree.rs"]
mod tree;

use bounds::{Cost, Trouble};
use make::{Input, Maker, Rng};
use parsers::{PARSERS, Parser};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: bounds::Counting = bounds::Counting;

struct Args {
    parser: &'static Parser,
    time: Duration,
    seed: u64,
    out: PathBuf,
    from: u64,
    only: Option<u64>,
    files: Vec<PathBuf>,
    trace: bool,
}

fn args() -> Args {
    let mut given = std::env::args().skip(1);
    let names: Vec<&str> = PARSERS.iter().map(|p| p.name).collect();
    let name = given.next().unwrap_or_else(|| panic!("name a parser: {}", names.join(", ")));
    let parser = PARSERS.iter().find(|p| p.name == name).unwrap_or_else(|| panic!("no parser {name}: {}", names.join(", ")));
    let mut args = Args {
        parser,
        time: Duration::from_secs(600),
        seed: 1,
        out: std::env::temp_dir().join("fuzz"),
        from: 0,
        only: None,
        files: Vec::new(),
        trace: false,
    };
    while let Some(flag) = given.next() {
        let mut value = || given.next().expect("a value for the flag");
        match flag.as_str() {
            "--for" => args.time = span(&value()),
            "--seed" => args.seed = value().parse().expect("a number"),
            "--out" => args.out = value().into(),
            "--from" => args.from = value().parse().expect("a number"),
            "--only" => args.only = Some(value().parse().expect("a number")),
            "--file" => args.files.push(value().into()),
            "--trace" => args.trace = true,
            other => panic!("unknown flag {other}"),
        }
    }
    args
}

/// `90`, `90s`, `10m`
fn span(text: &str) -> Duration {
    let (number, unit) = text.strip_suffix('m').map_or((text.trim_end_matches('s'), 1), |minutes| (minutes, 60));
    Duration::from_secs(number.parse::<u64>().expect("seconds or minutes") * unit)
}

fn main() {
    let args = args();
    std::fs::create_dir_all(&args.out).expect("the directory of --out");
    bounds::keep_panics();
    let at = Arc::new(AtomicU64::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let (watched, over) = (at.clone(), done.clone());
    let stack = std::thread::Builder::new().stack_size(2 << 20);
    let work = stack.spawn(move || {
        Run::new(args, watched).go();
        over.store(true, Ordering::Relaxed);
    });
    let work = work.expect("a thread");
    // An input that never ends would end the run in silence.
    let (mut last, mut since) = (u64::MAX, Instant::now());
    while !done.load(Ordering::Relaxed) && !work.is_finished() {
        std::thread::sleep(Duration::from_millis(200));
        let now = at.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > Duration::from_secs(180) {
            println!("STUCK at input {now}: run it again with --only {now}");
            std::process::exit(3);
        }
    }
    work.join().expect("the run");
}

struct Run {
    args: Args,
    maker: Maker,
    at: Arc<AtomicU64>,
    inputs: u64,
    bytes: u64,
    probes: u64,
    /// ns per byte, of inputs of 4 KiB and more.
    worst: f64,
    worst_fixed: Duration,
    worst_growth: f64,
    worst_memory: f64,
    found: HashMap<String, u64>,
}

impl Run {
    fn new(args: Args, at: Arc<AtomicU64>) -> Run {
        let maker = Maker::new(args.parser);
        println!("{}: {} seeds, {} lines", args.parser.name, maker.files.len(), maker.lines.len());
        Run {
            args,
            maker,
            at,
            inputs: 0,
            bytes: 0,
            probes: 0,
            worst: 0.0,
            worst_fixed: Duration::ZERO,
            worst_growth: 0.0,
            worst_memory: 0.0,
            found: HashMap::new(),
        }
    }

    fn go(&mut self) {
        // What is made once, like the catalogue's index, is no input's fault.
        for seed in self.maker.files.iter().take(200) {
            let _ = bounds::run(self.args.parser, std::slice::from_ref(seed));
        }
        if !self.args.files.is_empty() {
            let input: Input = self.args.files.iter().map(|path| std::fs::read(path).expect("the file")).collect();
            for _ in 0..3 {
                let (cost, trouble) = bounds::run(self.args.parser, &input);
                println!("{} bytes: {cost:?} {}", size(&input), trouble.map_or(String::new(), |t| t.to_string()));
            }
            return;
        }
        if let Some(no) = self.args.only {
            let input = self.maker.make(&mut Rng::of(self.args.seed, no));
            for (i, file) in input.iter().enumerate() {
                let path = self.args.out.join(format!("only-{no}.{i}"));
                std::fs::write(&path, file).expect("the file");
                println!("{}", path.display());
            }
            let (cost, trouble) = bounds::run(self.args.parser, &input);
            println!("{} bytes: {cost:?} {}", size(&input), trouble.map_or(String::new(), |t| t.to_string()));
            return self.probe(no);
        }
        let start = Instant::now();
        let mut told = start;
        let mut no = self.args.from;
        while start.elapsed() < self.args.time {
            self.at.store(no, Ordering::Relaxed);
            if self.args.trace {
                println!("{no}");
            }
            if no % 40 == 39 {
                self.probe(no);
            } else {
                self.one(no);
            }
            no += 1;
            if told.elapsed() >= Duration::from_secs(60) {
                told = Instant::now();
                self.tell(start, no);
            }
        }
        println!("END {}", self.args.parser.name);
        self.tell(start, no);
    }

    fn tell(&self, start: Instant, no: u64) {
        println!(
            "{:.0} s: at {no}, {} inputs, {} growth probes, {} MB; worst {:.0} ns/byte (4 KiB and more), {:?} (smaller), growth {:.1} for 8 times the input, {:.0} bytes of memory per byte; findings {:?}",
            start.elapsed().as_secs_f64(),
            self.inputs,
            self.probes,
            self.bytes / 1_000_000,
            self.worst,
            self.worst_fixed,
            self.worst_growth,
            self.worst_memory,
            self.found,
        );
    }

    fn one(&mut self, no: u64) {
        let input = self.maker.make(&mut Rng::of(self.args.seed, no));
        let (mut cost, mut trouble) = bounds::run(self.args.parser, &input);
        self.inputs += 1;
        self.bytes += size(&input) as u64;
        // Time may have been lost to something else.
        for _ in 0..3 {
            if matches!(trouble, Some(Trouble::Slow(_))) || cost.time > Duration::from_millis(2) && self.is_record(&cost) {
                let (again, still) = bounds::run(self.args.parser, &input);
                cost.time = cost.time.min(again.time);
                trouble = trouble.and(still);
            }
        }
        let record = self.is_record(&cost);
        if cost.bytes >= 4096 {
            self.worst = self.worst.max(cost.per_byte());
            self.worst_memory = self.worst_memory.max(cost.peak as f64 / cost.bytes as f64);
        } else {
            self.worst_fixed = self.worst_fixed.max(cost.time);
        }
        if record && self.inputs > 2000 {
            self.save(&input, if cost.bytes >= 4096 { "worst" } else { "worst-small" });
        }
        if let Some(trouble) = trouble {
            self.report(no, input, &trouble);
        }
    }

    fn is_record(&self, cost: &Cost) -> bool {
        if cost.bytes >= 4096 { cost.per_byte() > self.worst } else { cost.time > self.worst_fixed }
    }

    /// The same shape in two sizes: eight times the input may take eight times as long.
    fn probe(&mut self, no: u64) {
        let sizes = [(6 << 10, 48 << 10), (32 << 10, 256 << 10), (128 << 10, 1 << 20)];
        let pick = (no / 40 % 16) as usize;
        let (few, many) = sizes[if pick == 15 { 2 } else { pick % 2 }];
        let of = |size: usize| self.maker.grown(&mut Rng::of(self.args.seed, no), size);
        let (small, large) = (of(few), of(many));
        let ratio = size(&large) as f64 / size(&small).max(1) as f64;
        let (cost, trouble) = bounds::run(self.args.parser, &large);
        self.inputs += 1;
        self.probes += 1;
        self.bytes += size(&large) as u64;
        if let Some(trouble) = trouble.filter(|t| !matches!(t, Trouble::Slow(_))) {
            self.report(no, large, &trouble);
            return;
        }
        if cost.time < Duration::from_millis(4) {
            return;
        }
        let best = |input: &Input, times: usize| (0..times).map(|_| bounds::run(self.args.parser, input).0.time).min().unwrap();
        let (mut a, mut b) = (best(&small, 3), cost.time.min(best(&large, 1)));
        let growth = |a: Duration, b: Duration| b.as_secs_f64() / a.as_secs_f64().max(50e-6) / ratio * 8.0;
        if growth(a, b) > 16.0 {
            a = a.min(best(&small, 5));
            b = b.min(best(&large, 3));
        }
        let per_byte = b.as_nanos() as f64 / size(&large) as f64;
        if per_byte > self.worst {
            self.worst = per_byte;
            self.save(&large, "worst");
        }
        if growth(a, b) > self.worst_growth {
            self.worst_growth = growth(a, b);
            self.save(&large, "growth");
        }
        // A reader may give up a record after so many lines, and each line costs more from there on: that grows no further.
        let goes_on = || {
            let larger = of(many * 2);
            let twice = size(&larger) as f64 / size(&large).max(1) as f64;
            best(&larger, 3).as_secs_f64() / b.as_secs_f64() > 1.4 * twice
        };
        if growth(a, b) > 20.0 && goes_on() {
            let trouble = Trouble::Slow(format!("{} bytes in {a:?}, {} bytes in {b:?}", size(&small), size(&large)));
            self.report(no, large, &trouble);
        } else if let Some(limit) = bounds::too_slow(b, size(&large)) {
            self.report(no, large, &Trouble::Slow(limit));
        }
    }

    fn report(&mut self, no: u64, input: Input, trouble: &Trouble) {
        let kind = trouble.kind();
        let count = self.found.entry(kind.clone()).or_default();
        *count += 1;
        // A kind of slowness has many causes, a place that panics has one.
        let most = if matches!(trouble, Trouble::Panic(..)) { 2 } else { 12 };
        if *count > most {
            return;
        }
        let least = bounds::minimise(self.args.parser, input.clone(), trouble);
        let name = format!("{}-{no}", if matches!(trouble, Trouble::Panic(..)) { "panic" } else { "bound" });
        self.save(&input, &format!("{name}.whole"));
        let path = self.save(&least, &name);
        println!("FOUND at {no}: {trouble}\n  {} bytes, least {}: {}", size(&input), size(&least), path.display());
    }

    fn save(&self, input: &Input, name: &str) -> PathBuf {
        let dir: &Path = &self.args.out;
        for (i, file) in input.iter().enumerate() {
            std::fs::write(dir.join(format!("{}-{name}.{i}", self.args.parser.name)), file).expect("the file");
        }
        dir.join(format!("{}-{name}.0", self.args.parser.name))
    }
}

fn size(input: &[Vec<u8>]) -> usize {
    input.iter().map(Vec::len).sum()
}
