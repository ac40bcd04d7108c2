//! What a program was doing when it raised: by the names of the functions in its traceback.

/// A part of a run that is not a step of training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    SettingUp,
    LoadingCheckpoint,
    LoadingModel,
    SavingCheckpoint,
    Evaluating,
    Generating,
    SendingWeights,
}

/// A part of a step, or of what comes before the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    ReadingArguments,
    Importing,
    BuildingExtension,
    Tracking,
    MakingData,
    MakingModel,
    MakingDraftModel,
    MakingEngine,
    Serving,
    WrappingModel,
    StartingWorkers,
    WaitingForServer,
    ProfilingMemory,
    CapturingGraphs,
    Compiling,
    ReadingData,
    Forward,
    Backward,
    Optimizing,
}

/// The innermost frames that say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doing {
    /// With the function that is called so.
    pub task: Option<(Task, String)>,
    /// The same of what every training goes through.
    pub stage: Option<(Stage, String)>,
    /// A frame is of what comes once, before the first step.
    pub starts: bool,
    /// The function of a trainer's loop that was called last: `_inner_training_loop`.
    pub training_loop: Option<String>,
    /// The function of PyTorch's distributed package that was called last: `barrier`.
    pub call: Option<String>,
}

impl Task {
    pub fn words(self) -> &'static str {
        match self {
            Task::SettingUp => "setting up its process group",
            Task::LoadingCheckpoint => "loading a checkpoint",
            Task::LoadingModel => "loading a model",
            Task::SavingCheckpoint => "saving a checkpoint",
            Task::Evaluating => "evaluating",
            Task::Generating => "generating",
            Task::SendingWeights => "sending weights",
        }
    }
}

impl Stage {
    pub fn words(self) -> &'static str {
        match self {
            Stage::ReadingArguments => "while reading its arguments",
            Stage::Importing => "while importing a module",
            Stage::BuildingExtension => "while building an extension",
            Stage::Tracking => "while talking to its experiment tracker",
            Stage::MakingData => "while setting up its data",
            Stage::MakingModel => "while making its model",
            Stage::MakingDraftModel => "while making its draft model",
            Stage::MakingEngine => "while making its engine",
            Stage::Serving => "while serving",
            Stage::WrappingModel => "while wrapping its model for data parallelism",
            Stage::StartingWorkers => "while starting its workers",
            Stage::WaitingForServer => "while waiting for its server to start",
            Stage::ProfilingMemory => "while measuring how much memory is left",
            Stage::CapturingGraphs => "while capturing CUDA graphs",
            Stage::Compiling => "while compiling",
            Stage::ReadingData => "while reading its data",
            Stage::Forward => "in the forward pass",
            Stage::Backward => "in the backward pass",
            Stage::Optimizing => "in the step of its optimizer",
        }
    }

    /// Comes in each step: one that is called in a loop of the training is of that.
    pub fn is_of_a_step(self) -> bool {
        matches!(self, Stage::ReadingData | Stage::Forward | Stage::Backward | Stage::Optimizing | Stage::Compiling)
    }

    /// Comes once, before the first step. Data and models are made for an evaluation, too.
    fn is_of_the_start(self) -> bool {
        use Stage::{MakingEngine, ReadingArguments, StartingWorkers, WaitingForServer, WrappingModel};
        matches!(self, ReadingArguments | MakingEngine | WrappingModel | StartingWorkers | WaitingForServer)
    }
}

impl Doing {
    /// Takes a frame: what stands behind `File "`.
    pub fn add(&mut self, tail: &str) {
        let Some((file, tail)) = tail.split_once('"') else { return };
        let Some((_, function)) = tail.split_once(", in ") else { return };
        let function = function.trim();
        // Trackers wrap what a program calls: its own frame below one says that it is about something else.
        let of_library = ["-packages/", "/lib/python", "<frozen "].iter().any(|part| file.contains(part));
        if !of_library && self.stage.as_ref().is_some_and(|(stage, _)| *stage == Stage::Tracking) {
            self.stage = None;
        }
        // A model runs within nearly all else: what else is going on says more. Lightning gives an optimizer its forward pass to run.
        let outer = self.stage.as_ref().map(|(stage, _)| *stage);
        let is_new = |stage: Stage| match stage {
            Stage::Forward => matches!(outer, None | Some(Stage::Optimizing | Stage::Tracking)),
            Stage::MakingModel | Stage::MakingEngine => outer != Some(Stage::MakingDraftModel),
            _ => true,
        };
        let stage = stage_of(file, function);
        if OF_TRAINING.contains(&function.trim_start_matches('_')) {
            self.training_loop = Some(function.to_owned());
        }
        self.starts |= stage.is_some_and(Stage::is_of_the_start);
        // A function that a program calls says more than one that this one calls.
        let is_inner = |stage: Stage| function.starts_with('_') && self.stage.as_ref().is_some_and(|(told, _)| *told == stage);
        if let Some(stage) = stage.filter(|stage| is_new(*stage) && !is_inner(*stage)) {
            self.stage = Some((stage, crate::base::clean::clip(function, 60).into_owned()));
        }
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

/// `while making its engine (initialize)`; of a pass through the model the function says nothing more.
pub fn stage_words(stage: &(Stage, String)) -> String {
    let (stage, function) = stage;
    let says_it =
        matches!(stage, Stage::Forward | Stage::Backward | Stage::Optimizing | Stage::Importing) || function.starts_with(['<', '_']);
    if says_it { stage.words().to_owned() } else { format!("{} ({function})", stage.words()) }
}

/// What trainers call the loops of their steps, without the first `_`.
const OF_TRAINING: &[&str] = &[
    "inner_training_loop",
    "training_loop",
    "train_loop",
    "train_one_epoch",
    "train_epoch",
    "training_epoch",
    "training_step",
    "train_step",
    "train_batch",
    "standard_train_step",
];

/// By the libraries' own files first, then by the names that programs give to their functions.
fn stage_of(file: &str, function: &str) -> Option<Stage> {
    let file = file.replace('\\', "/");
    let of = |parts: &[&str]| parts.iter().any(|part| file.contains(part));
    let by_file = || match function {
        _ if of(&["/argparse.py", "/hf_argparser.py", "/absl/flags/"]) => Some(Stage::ReadingArguments),
        _ if file.starts_with("<frozen importlib") => Some(Stage::Importing),
        _ if of(&["/torch/utils/cpp_extension.py", "/deepspeed/ops/op_builder/"]) => Some(Stage::BuildingExtension),
        _ if of(&["/wandb/", "/mlflow/", "/comet_ml/", "/neptune/", "/clearml/", "/swanlab/"]) => Some(Stage::Tracking),
        _ if of(&["/torch/_dynamo/convert_frame.py", "/torch/_inductor/compile_fx.py", "/triton/compiler/"]) => Some(Stage::Compiling),
        "__init__" if of(&["/deepspeed/runtime/engine.py", "/deepspeed/inference/engine.py"]) => Some(Stage::MakingEngine),
        "__init__" if of(&["/vllm/v1/engine/", "/vllm/engine/", "/sglang/srt/managers/"]) => Some(Stage::MakingEngine),
        "__init__" | "init_worker" if of(&["/sglang/srt/speculative/", "/vllm/spec_decode/", "/vllm/v1/spec_decode/"]) => {
            Some(Stage::MakingDraftModel)
        }
        "initialize" | "init_inference" if of(&["/deepspeed/__init__.py"]) => Some(Stage::MakingEngine),
        "__init__" if of(&["/torch/nn/parallel/distributed.py", "/torch/distributed/fsdp/"]) => Some(Stage::WrappingModel),
        "fully_shard" | "_auto_wrap" | "_recursive_wrap" if of(&["/torch/distributed/"]) => Some(Stage::WrappingModel),
        "prepare" | "_prepare_deepspeed" if of(&["/accelerate/accelerator.py"]) => Some(Stage::MakingEngine),
        "setup" | "setup_module" | "_setup_model" if of(&["/lightning/fabric/", "/lightning_fabric/"]) => Some(Stage::MakingEngine),
        "backward" if of(&["/torch/autograd/", "/torch/_tensor.py", "/accelerate/", "/deepspeed/runtime/"]) => Some(Stage::Backward),
        "step" if of(&["/lr_scheduler.py"]) => None,
        "step" if of(&["/torch/optim/", "/accelerate/optimizer.py", "/deepspeed/runtime/"]) => Some(Stage::Optimizing),
        "_call_impl" | "_wrapped_call_impl" if of(&["/torch/nn/modules/module.py"]) => Some(Stage::Forward),
        "__next__" | "_next_data" | "fetch" if of(&["/torch/utils/data/"]) => Some(Stage::ReadingData),
        _ => None,
    };
    let by_name = || match function.trim_start_matches('_') {
        "profile_run" | "determine_available_memory" | "determine_num_available_blocks" | "profile_max_num_token" => {
            Some(Stage::ProfilingMemory)
        }
        "capture_model" | "capture_cuda_graphs" | "init_cuda_graphs" | "init_device_graphs" | "capture_one_batch_size" => {
            Some(Stage::CapturingGraphs)
        }
        "wait_for_server" | "wait_until_ready" | "wait_for_engine_startup" | "wait_for_server_ready" | "wait_until_server_ready" => {
            Some(Stage::WaitingForServer)
        }
        "run_busy_loop" | "event_loop_normal" | "event_loop_overlap" | "forward_batch_generation" | "run_engine_loop" => {
            Some(Stage::Serving)
        }
        "init_workers" | "init_workers_ray" | "start_workers" | "launch_workers" => Some(Stage::StartingWorkers),
        "load_dataset"
        | "load_datasets"
        | "prepare_data"
        | "prepare_dataset"
        | "build_dataset"
        | "build_datasets"
        | "get_dataset"
        | "get_datasets"
        | "make_dataset"
        | "get_dataloader"
        | "get_dataloaders"
        | "build_dataloader"
        | "build_train_valid_test_datasets"
        | "build_train_valid_test_data_loaders"
        | "build_train_valid_test_data_iterators"
        | "train_valid_test_datasets_provider" => Some(Stage::MakingData),
        "get_model"
        | "build_model"
        | "create_model"
        | "make_model"
        | "setup_model"
        | "init_model"
        | "model_provider"
        | "setup_model_and_optimizer"
        | "configure_model"
        | "configure_sharded_model" => Some(Stage::MakingModel),
        _ => None,
    };
    by_file().or_else(by_name)
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
        // A pretrained one, or that of a server: nothing of an earlier run.
        "load_model" | "from_pretrained" | "load_weights" => Some(Task::LoadingModel),
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
            ("while loading a model (from_pretrained)", &["/x/transformers/modeling_utils.py\", line 5, in from_pretrained"]),
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

    #[test]
    fn the_stage_of_a_run_is_that_of_the_innermost_frame_that_has_one() {
        let main = "/w/train.py\", line 9, in main";
        let call = "/x/torch/nn/modules/module.py\", line 1518, in _call_impl";
        let cases: &[(&str, &[&str])] = &[
            ("", &[main]),
            ("in the forward pass", &[main, call, "/w/model.py\", line 3, in forward"]),
            ("in the backward pass", &[main, "/x/torch/autograd/__init__.py\", line 200, in backward", call]),
            (
                "while making its engine (initialize)",
                &["/x/deepspeed/__init__.py\", line 171, in initialize", "/x/deepspeed/runtime/engine.py\", line 9, in __init__"],
            ),
            ("while making its engine (initialize)", &[main, "/x/deepspeed/__init__.py\", line 171, in initialize"]),
            (
                "while building an extension (load)",
                &["/x/deepspeed/__init__.py\", line 1, in initialize", "/x/torch/utils/cpp_extension.py\", line 1, in load"],
            ),
            ("while measuring how much memory is left (profile_run)", &["/x/vllm/w.py\", line 1, in profile_run", call]),
            ("while reading its data", &[main, "/x/torch/utils/data/dataloader.py\", line 7, in __next__"]),
            ("while setting up its data (load_dataset)", &["/x/datasets/load.py\", line 7, in load_dataset"]),
            ("in the step of its optimizer", &["/x/torch/optim/adamw.py\", line 7, in step"]),
        ];
        for (want, frames) in cases {
            let mut doing = Doing::default();
            frames.iter().for_each(|frame| doing.add(frame));
            assert_eq!(doing.stage.as_ref().map_or(String::new(), stage_words), *want, "{frames:?}");
        }
    }
}
