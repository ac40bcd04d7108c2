//! What a program was doing when it raised: by the names of the functions in its traceback.

/// A part of a run that is not a step of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    SettingUp,
    LoadingCheckpoint,
    SavingCheckpoint,
    Evaluating,
    Generating,
    SendingWeights,
}

/// The innermost frames that say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doing {
    /// With the function that is called so.
    pub task: Option<(Task, String)>,
    /// The function of PyTorch's distributed package that was called last: `barrier`.
    pub call: Option<String>,
}

impl Task {
    pub fn words(self) -> &'static str {
        match self {
            Task::SettingUp => "setting up its process group",
            Task::LoadingCheckpoint => "loading a checkpoint",
            Task::SavingCheckpoint => "saving a checkpoint",
            Task::Evaluating => "evaluating",
            Task::Generating => "generating",
            Task::SendingWeights => "sending weights",
        }
    }
}

impl Doing {
    /// Takes a frame: what stands behind `File "`.
    pub fn add(&mut self, tail: &str) {
        let Some((file, tail)) = tail.split_once('"') else { return };
        let Some((_, function)) = tail.split_once(", in ") else { return };
        let function = function.trim();
        if file.ends_with("torch/distributed/distributed_c10d.py") {
            if is_call(function) {
                self.call = Some(function.to_owned());
            }
            // How a group is set up, PyTorch's own functions say best.
            if function != "init_process_group" {
                return;
            }
        }
        if let Some(task) = task_of(file, function) {
            self.task = Some((task, crate::base::clean::clip(function, 60).into_owned()));
            self.call = None;
        }
    }

    /// `while saving a checkpoint (save_checkpoint), in barrier`; empty where the frames do not say.
    pub fn words(&self) -> String {
        let task = self.task.as_ref().map(|(task, function)| format!("while {} ({function})", task.words()));
        let call = self.call.as_ref().map(|call| format!("in {call}"));
        task.into_iter().chain(call).collect::<Vec<_>>().join(", ")
    }
}

/// A function that a program calls, and not one that PyTorch wraps around it.
fn is_call(function: &str) -> bool {
    !function.starts_with(['_', '<']) && !matches!(function, "wrapper" | "inner" | "init_process_group" | "decorate_context")
}

fn task_of(file: &str, function: &str) -> Option<Task> {
    let name = function.trim_start_matches('_').to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let of_model = || has(&["checkpoint", "ckpt", "pretrained", "state", "model", "weight"]);
    // What checks settings or data is called so, too.
    let checks = || {
        let path = file.to_ascii_lowercase();
        let name = path.rsplit('/').next().unwrap_or(&path);
        let libraries = ["pydantic", "jsonschema", "omegaconf", "hydra", "traitlets", "pandas", "numexpr"];
        let of_library = libraries.iter().any(|library| path.contains(library));
        of_library || ["config", "arg", "schema", "valid", "param", "setting"].iter().any(|part| name.contains(part))
    };
    match name.as_str() {
        "init_process_group"
        | "init_distributed"
        | "initialize_distributed"
        | "initialize_model_parallel"
        | "initialize_megatron"
        | "init_dist"
        | "init_distributed_mode"
        | "setup_distributed"
        | "distributed_init"
        | "init_distributed_environment" => Some(Task::SettingUp),
        "validate" | "eval" | "evaluate" if checks() => None,
        "eval" | "validate" | "evaluate" | "evaluation" | "validation" => Some(Task::Evaluating),
        "generate" | "rollout" | "generate_sequences" | "generate_rollouts" | "make_experience" => Some(Task::Generating),
        "async_save" => Some(Task::SavingCheckpoint),
        _ if name.starts_with("save") && of_model() || has(&["write_checkpoint", "dump_checkpoint", "write_ckpt"]) => {
            Some(Task::SavingCheckpoint)
        }
        _ if name.starts_with("load") && of_model() || has(&["from_pretrained", "resume_from", "restore_checkpoint"]) => {
            Some(Task::LoadingCheckpoint)
        }
        _ if has(&["update_weight", "sync_weight", "broadcast_to_vllm", "broadcast_weight", "weight_sync", "refit"]) => {
            Some(Task::SendingWeights)
        }
        _ if [
            "eval_",
            "evaluate_",
            "evaluation_",
            "validation_",
            "run_eval",
            "run_validation",
            "log_validation",
            "do_eval",
            "do_valid",
        ]
        .iter()
        .any(|start| name.starts_with(start))
            && !has(&["arg", "config", "frame", "expr"]) =>
        {
            Some(Task::Evaluating)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(frames: &[&str]) -> String {
        let mut doing = Doing::default();
        frames.iter().for_each(|frame| doing.add(frame));
        doing.words()
    }

    #[test]
    fn the_innermost_function_that_says_it_counts() {
        let main = "/w/train.py\", line 9, in <module>";
        let barrier = "/x/torch/distributed/distributed_c10d.py\", line 4159, in barrier";
        let wrapper = "/x/torch/distributed/c10d_logger.py\", line 81, in wrapper";
        let cases: &[(&str, &[&str])] = &[
            ("", &[main, "/w/train.py\", line 80, in train"]),
            ("while saving a checkpoint (save_checkpoint), in barrier", &[main, "/w/r.py\", line 5, in save_checkpoint", wrapper, barrier]),
            ("in barrier", &[main, wrapper, barrier]),
            ("while evaluating (log_validation)", &[main, "/w/t.py\", line 5, in train", "/w/t.py\", line 7, in log_validation"]),
            ("while loading a checkpoint (from_pretrained)", &["/x/transformers/modeling_utils.py\", line 5, in from_pretrained"]),
            (
                "while setting up its process group (init_process_group)",
                &["/x/torch/distributed/distributed_c10d.py\", line 5, in init_process_group"],
            ),
            ("while evaluating (_evaluate)", &["/x/transformers/trainer.py\", line 5, in _evaluate", "/w/m.py\", line 7, in forward"]),
            ("", &["/x/config.py\", line 5, in validate"]),
            ("", &["/x/arguments.py\", line 5, in validate_args"]),
        ];
        for (want, frames) in cases {
            assert_eq!(words(frames), *want, "{frames:?}");
        }
    }
}
