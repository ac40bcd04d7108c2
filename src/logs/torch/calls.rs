//! The way from a program's own functions to the one that raised, through which libraries, by the frames of its traceback.

use super::traceback::{is_of_library, is_of_python};
use crate::base::clean;

/// Frames of one library that follow each other are one place, by the first and the last of their functions.
#[derive(Clone, Default, PartialEq)]
pub struct Calls {
    places: Vec<Place>,
    /// Places were left out behind the first ones.
    is_cut: bool,
    /// Processes without a prefix have mixed their frames.
    is_mixed: bool,
}

#[derive(Clone, PartialEq)]
struct Place {
    /// `deepspeed`, or `train.py:88` of the program itself.
    at: String,
    is_own: bool,
    first: String,
    last: Option<String>,
}

/// Places that are told: where it began, and where it ended.
const FIRST: usize = 3;
const LAST: usize = 5;
/// Fewer say no more than the last frame.
const FEWEST: usize = 3;

/// What stands around a function and says nothing of what it does, without the signs at both ends of `<module>` and `__call__`.
const WRAPPERS: &[&str] = &[
    "wrapper",
    "inner",
    "wrapped",
    "inner_wrapper",
    "wrapped_func",
    "wrapped_fn",
    "wrapper_func",
    "log_wrapper",
    "decorate_context",
    "decorate_autocast",
    "call_impl",
    "wrapped_call_impl",
    "fn",
    "func",
    "new_forward",
    "module",
    "listcomp",
    "genexpr",
    "dictcomp",
    "lambda",
    "call",
    "enter",
    "exit",
    "inner_fn",
    "convert_outputs_to_fp32",
    "resume_span",
    "instrumented",
    "compile_wrapper",
    "nonrecursive_disable_wrapper",
];

/// What stands around another function.
pub fn is_wrapper(function: &str) -> bool {
    WRAPPERS.contains(&function.trim_matches(['_', '<', '>']))
}

impl Calls {
    /// Takes a frame: what stands behind `File "`.
    pub fn add(&mut self, tail: &str) {
        let Some((file, rest)) = tail.split_once("\", line ") else { return };
        let Some((line, function)) = rest.split_once(", in ") else { return };
        let function = function.trim();
        if is_of_python(tail) || is_wrapper(function) || !is_name(function) || file.starts_with('<') {
            return;
        }
        let file = file.replace('\\', "/");
        let is_own = !is_of_library(tail);
        let name = file.rsplit('/').next().unwrap_or(&file);
        let at = if is_own { format!("{name}:{line}") } else { library(&file) };
        let function = clean::clip(function, 60).into_owned();
        match self.places.last_mut() {
            Some(place) if !is_own && place.at == at => place.last = Some(function).filter(|last| *last != place.first),
            // A model calls its layers, and they call theirs.
            Some(place) if is_own && place.is_own && place.first == function => place.at = at,
            _ => self.places.push(Place { at: clean::clip(&at, 60).into_owned(), is_own, first: function, last: None }),
        }
        if self.places.len() > FIRST + LAST {
            self.places.remove(FIRST);
            self.is_cut = true;
        }
    }

    /// Another traceback begins within this one.
    pub fn mix(&mut self) {
        self.is_mixed = true;
    }

    /// `main (train.py:163) > train … prepare (transformers) > initialize … _broadcast_model (deepspeed)`; empty where that is no more than
    /// the last frame says.
    pub fn words(&self) -> String {
        // Of two that are both the program's, or both of libraries, nobody else tells the first.
        let is_news = self.places.len() == 2 && self.places[0].is_own == self.places[1].is_own;
        if self.places.len() < FEWEST && !is_news || self.is_mixed {
            return String::new();
        }
        let mut words: Vec<String> = self.places.iter().map(Place::words).collect();
        if self.is_cut {
            words.insert(FIRST, "…".into());
        }
        words.join(" > ")
    }
}

impl Place {
    fn words(&self) -> String {
        let last = self.last.as_ref().map_or(String::new(), |last| format!(" … {last}"));
        format!("{}{last} ({})", self.first, self.at)
    }
}

/// What Python allows as the name of a function; in other lines with these words anything may stand.
fn is_name(function: &str) -> bool {
    !function.is_empty() && function.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'<' | b'>' | b'.'))
}

/// `deepspeed` of `/usr/lib/python3/dist-packages/deepspeed/comm/comm.py`; PyTorch is large enough to be told by its parts.
fn library(file: &str) -> String {
    let tail = file.rsplit_once("-packages/").map_or(file, |(_, tail)| tail);
    let mut parts = tail.split('/').map(|part| part.strip_suffix(".py").unwrap_or(part));
    let first = parts.next().unwrap_or_default();
    match (first, parts.next()) {
        ("torch", Some(part @ ("distributed" | "utils" | "optim" | "autograd" | "nn" | "cuda"))) => format!("torch.{part}"),
        _ => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(frames: &[&str]) -> String {
        let mut calls = Calls::default();
        frames.iter().for_each(|frame| calls.add(frame));
        calls.words()
    }

    #[test]
    fn a_way_goes_through_libraries() {
        let frames = [
            "/w/train.py\", line 163, in <module>",
            "/w/train.py\", line 136, in main",
            "/x/site-packages/transformers/trainer.py\", line 2325, in train",
            "/x/site-packages/transformers/trainer.py\", line 2480, in _inner_training_loop",
            "/x/site-packages/accelerate/accelerator.py\", line 1547, in prepare",
            "/x/site-packages/deepspeed/__init__.py\", line 203, in initialize",
            "/x/site-packages/deepspeed/runtime/engine.py\", line 1327, in _broadcast_model",
            "/x/site-packages/deepspeed/comm/comm.py\", line 118, in log_wrapper",
            "/x/site-packages/torch/distributed/c10d_logger.py\", line 81, in wrapper",
            "/x/site-packages/torch/distributed/distributed_c10d.py\", line 2824, in broadcast",
        ];
        let want = "main (train.py:136) > train … _inner_training_loop (transformers) > prepare (accelerate) > \
                    initialize … _broadcast_model (deepspeed) > broadcast (torch.distributed)";
        assert_eq!(words(&frames), want);
        assert_eq!(words(&frames[..4]), "", "no more than two places");
    }

    #[test]
    fn a_long_way_is_told_by_its_ends() {
        let frames: Vec<String> = (0..40).map(|i| format!("/w/a{i}.py\", line {i}, in f{i}")).collect();
        let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
        let want = "f0 (a0.py:0) > f1 (a1.py:1) > f2 (a2.py:2) > … > f35 (a35.py:35) > f36 (a36.py:36) > f37 (a37.py:37) > f38 (a38.py:38) > f39 (a39.py:39)";
        assert_eq!(words(&frames), want);
    }

    #[test]
    fn what_is_no_name_of_a_function_is_no_place() {
        let frames = ["/w/a.py\", line 1, in a b c", "/w/b.py\", line 2, in \u{1b}[31mx", "/w/c.py\", line 3, in c", "no frame", ""];
        assert_eq!(words(&frames), "");
    }
}
