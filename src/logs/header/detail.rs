//! A number or a name of the job that its programs print once, and how it stands in a line.

use serde::Deserialize;

/// A number or a name that is told in a row of the report.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detail {
    /// `parallel`
    pub row: String,
    /// `tensor {}`
    words: String,
    /// The same where the number stands in the section of an evaluation.
    #[serde(default)]
    of_evaluation: Option<String>,
    #[serde(default)]
    before: Vec<String>,
    /// The texts stand behind the value: `2.3 B     Total params`.
    #[serde(default)]
    after: Vec<String>,
    #[serde(default)]
    is: Kind,
    /// One of these stands behind the number.
    #[serde(default)]
    units: Vec<String>,
    /// Its texts are options of a command line, too, behind which a blank stands.
    #[serde(default)]
    is_option: bool,
}

/// What the value is.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Number,
    /// The name of a model, with its owner: `Qwen/Qwen2.5-7B`.
    Model,
    /// The name of a GPU as its driver prints it: `H100 80GB HBM3`.
    Gpu,
    /// A type of numbers: `bfloat16`.
    Dtype,
    /// So many things, where no unit stands behind the number and no word in front of the text that makes it one of something else.
    Count,
    /// Any name: `AdamW`.
    Name,
    /// The number of a job, as it stands.
    Id,
    /// The setting is on: `True`, `true`.
    On,
}

/// Types of numbers that a model is trained or served in, as programs write them.
const DTYPES: &[&str] = &[
    "bfloat16",
    "float16",
    "float32",
    "bf16",
    "fp16",
    "fp32",
    "fp8",
    "tf32",
    "bf16-mixed",
    "16-mixed",
    "bf16-true",
    "16-true",
    "32-true",
    "fp8_e4m3",
    "fp8_e5m2",
    "int8",
    "half",
];

impl Detail {
    /// `{} examples`, with a place for the value.
    pub fn words(&self, is_of_evaluation: bool) -> &str {
        self.of_evaluation.as_deref().filter(|_| is_of_evaluation).unwrap_or(&self.words)
    }

    /// The texts that tell of it.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.before.iter().chain(&self.after).map(String::as_str)
    }

    /// The value, in a line whose text in the middle was found: `2` of `: 2,`, `...... 2`; `354871296`; `7.24B`; `Qwen/Qwen2.5-7B` of
    /// `='Qwen/Qwen2.5-7B',`.
    pub fn value(&self, front: &str, behind: &str, separates: bool) -> Option<String> {
        /// The dots of a table stand between.
        const FAR: usize = 64;
        if !self.after.is_empty() {
            return in_front(front);
        }
        let tail = behind.trim_start_matches([' ', '.', '=', ':', '"', '\'', '|', '`']);
        let between = &behind[..behind.len() - tail.len()];
        // Behind a blank alone stands a value of the command line, or the next word.
        let is_set = separates || between.contains(['=', ':', '|']) || between.contains("..") || between == " " && self.is_option;
        // A usage of a command, `[--optimizer OPTIMIZER]`, and a default of a shell, `${SLURM_NTASKS:=1}`, set nothing.
        let is_form = front.ends_with('[') || front.ends_with("${");
        if between.len() > FAR || !is_set || is_form {
            return None;
        }
        let end =
            tail.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '|' | ')' | ']' | '}' | '`')).unwrap_or(tail.len());
        let word = tail[..end].trim_end_matches([',', '.', ':']);
        match self.is {
            // Behind a comma stands the next thing: `139814, K size: 5.33 GB`.
            Kind::Number if self.units.is_empty() => number(word, if word.len() == end { &tail[end..] } else { "" }),
            Kind::Number => self.with_unit(tail),
            Kind::Model => model(word),
            Kind::Gpu => gpu(tail),
            Kind::Count => count(front, word, &tail[end..]),
            Kind::Name => name(word),
            Kind::Id => Some(word.trim_end_matches([':', '.', '>']).to_owned())
                .filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit())),
            Kind::On => word.eq_ignore_ascii_case("true").then(String::new),
            Kind::Dtype => {
                Some(word.strip_prefix("torch.").unwrap_or(word).to_ascii_lowercase()).filter(|name| DTYPES.contains(&name.as_str()))
            }
        }
    }

    /// `13.9281 GB`, `13.93 GiB` of `13.93GiB; …`
    fn with_unit(&self, tail: &str) -> Option<String> {
        let digits = tail.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let behind = tail[digits..].trim_start_matches(' ');
        let unit = self.units.iter().find(|unit| {
            behind.strip_prefix(unit.as_str()).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/'))
        })?;
        number(&tail[..digits], "").map(|number| format!("{number} {unit}"))
    }
}

/// `52,002`, but neither `12.5 GB` nor what `Validation dataset size: ` says.
fn count(front: &str, word: &str, behind: &str) -> Option<String> {
    const OTHER: &[&str] =
        &["val", "valid", "validation", "eval", "evaluation", "dev", "test", "average", "avg", "mean", "max", "maximum", "min", "input"];
    let before = front.trim_end().rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase();
    let next = behind.trim_start_matches(' ').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let is_plain = word.bytes().all(|b| b.is_ascii_digit() || matches!(b, b',' | b'_'));
    let is_alone =
        next.is_empty() || matches!(next, "examples" | "samples" | "tokens") || behind.starts_with(['|', ')', ']', '}', '"', '\'']);
    (is_plain && is_alone && !OTHER.contains(&before.as_str())).then(|| number(word, "")).flatten()
}

/// A name as programs give it to a method: not a word of the language that says there is none.
fn name(word: &str) -> Option<String> {
    let word = word.trim_end_matches(['>', ',']);
    const LONGEST: usize = 32;
    let is_name = word.len() <= LONGEST && word.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    let is_none = ["none", "null", "true", "false", "the", "a", "not", "is", "str", "string", "int", "float", "bool", "optional"]
        .contains(&word.to_ascii_lowercase().as_str());
    (is_name && is_plain && !is_none).then(|| word.to_owned())
}

fn model(word: &str) -> Option<String> {
    const LONGEST: usize = 80;
    // A word of the language is no name, nor is a directory; and a path leads to somebody's files.
    let is_name = word.len() <= LONGEST && word.contains('/') && word.bytes().any(|b| b.is_ascii_digit());
    let is_plain = word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.matches('/').count() <= 1;
    (is_name && is_plain && !word.contains(['=', '<', '$', ','])).then(|| word.to_owned())
}

/// `8030261248` of `8,030,261,248`; `7.24B`; `15319 MiB` is one without its unit.
fn number(word: &str, behind: &str) -> Option<String> {
    let unit = word.len() - word.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let (number, unit) = word.split_at(word.len() - unit);
    let digits: String = number.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    let value: f64 = digits.parse().ok().filter(|n: &f64| *n >= 0.0 && n.is_finite() && digits.len() <= 20)?;
    let unit = match unit {
        "" => scale_behind(behind),
        "K" | "k" | "M" | "m" | "B" | "b" | "T" => unit,
        // A ratio: `6.49x`.
        "x" => return Some(digits),
        _ => return None,
    };
    let is_whole = value.fract() == 0.0 && value < 1e15;
    Some(if unit.is_empty() && is_whole { crate::base::units::group(value as u64) } else { format!("{digits}{}", unit.to_uppercase()) })
}

/// `2.3B` of `2.3 B     `, a row of a table whose name stands behind it, and of `size: 2.3B`.
fn in_front(front: &str) -> Option<String> {
    let mut words = front.split_whitespace().rev();
    let last = words.next()?;
    let (digits, scale) = if last.bytes().all(|b| b.is_ascii_alphabetic()) { (words.next()?, last) } else { (last, "") };
    // `Model llama3 8B size: 8,030,261,248 total parameters`
    let is_alone = words.next().is_none_or(|name| name.ends_with(':'));
    let scale = matches!(scale, "" | "K" | "M" | "B" | "T").then_some(scale)?;
    digits.bytes().next().filter(u8::is_ascii_digit)?;
    number(&format!("{digits}{scale}"), "").filter(|_| is_alone)
}

/// `H100 80GB HBM3` of `H100 80GB HBM3, 79.10 GiB`; `RTX A6000`; `MI300X`. Who asks for `H100 or newer` has none.
fn gpu(tail: &str) -> Option<String> {
    const MOST_WORDS: usize = 6;
    // `GeForce RTX 4070` is `RTX 4070`.
    let tail = ["GeForce ", "Tesla "].iter().find_map(|series| tail.trim_start().strip_prefix(series)).unwrap_or(tail);
    let is_series = |word: &str| matches!(word, "GeForce" | "RTX" | "GTX" | "Tesla" | "Quadro" | "TITAN" | "Instinct" | "PRO");
    // `H100`, `A100-SXM4-80GB`, `GB200`, `L40S`; behind a series `4090`, too.
    let is_number = |word: &str, behind_series: bool| {
        let head = word.split('-').next().unwrap_or(word);
        let letters = head.bytes().take_while(u8::is_ascii_uppercase).count();
        let digits = head[letters..].bytes().take_while(u8::is_ascii_digit).count();
        let is_whole = head.len() - letters - digits <= 1 && !word.contains("..");
        let is_named = letters > 0 && digits >= 2 && !word.starts_with("CX") || behind_series && digits == 4;
        letters <= 2 && digits <= 4 && is_whole && is_named
    };
    let is_kind = |word: &str| {
        let size = word.strip_suffix("GB").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        size || matches!(
            word,
            "HBM3" | "HBM3e" | "HBM2e" | "HBM2" | "PCIe" | "PCIE" | "NVL" | "SXM4" | "SXM5" | "Ti" | "SUPER" | "Ada" | "Generation"
        )
    };
    let mut name: Vec<&str> = Vec::new();
    let mut is_known = false;
    for word in tail.split_whitespace().take(MOST_WORDS) {
        let bare = word.trim_end_matches([',', ')', ']', ';', ':', '"', '\'', '|', '.']);
        let is_its = is_number(bare, !name.is_empty());
        let fits = if is_known { is_kind(bare) } else { is_series(bare) || is_its };
        if !fits {
            // What a sentence goes on with: `or newer`, `GPUs are needed`.
            let is_prose = word.starts_with(|c: char| c.is_ascii_lowercase()) && !matches!(word, "with" | "on") || word.starts_with("GPU");
            return (is_known && !is_prose).then(|| name.join(" "));
        }
        is_known |= is_its;
        name.push(bare);
        if bare.len() < word.len() {
            break;
        }
    }
    is_known.then(|| name.join(" "))
}

/// `B` of ` billion` and ` B`.
fn scale_behind(text: &str) -> &'static str {
    match text.split_whitespace().next().unwrap_or("").trim_end_matches([',', '.', ')']) {
        "billion" | "B" => "B",
        "million" | "M" => "M",
        "thousand" | "K" => "K",
        _ => "",
    }
}
