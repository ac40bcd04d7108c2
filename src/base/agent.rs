//! Launchers that wait for other nodes before they start ranks, by their arguments.

use super::clean::{clean, clip};

/// The arguments of torchrun, `python -m torch.distributed.run` or `accelerate launch`.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a>(&'a [String]);

const AGENTS: &[&str] = &["torchrun", "torch.distributed.run", "torch.distributed.launch"];

/// Whether a process of this name may be such a launcher; its arguments tell.
pub fn may_be_agent(comm: &str) -> bool {
    is_python(comm) || AGENTS.contains(&comm) || comm == "accelerate"
}

impl<'a> Agent<'a> {
    /// `None`: the arguments are those of another program.
    pub fn of(args: &'a [String]) -> Option<Agent<'a>> {
        let target = base_name(python_target(args)?);
        let is_accelerate = || target == "accelerate" && args.iter().any(|arg| arg == "launch");
        (AGENTS.contains(&target) || is_accelerate()).then_some(Agent(args))
    }

    /// The nodes that it waits for, as its arguments have them: `2`, `1:4`. `None`: it was started for one.
    pub fn nodes(&self) -> Option<&'a str> {
        let nodes = self.value(&["nnodes", "num-machines"])?;
        (!matches!(nodes, "1" | "1:1")).then_some(nodes)
    }

    /// Where the nodes meet: `10.0.0.1:29500`.
    pub fn meets_at(&self) -> Option<String> {
        let endpoint = self.value(&["rdzv-endpoint"]).map(str::to_owned);
        endpoint.or_else(|| {
            let host = self.value(&["master-addr", "main-process-ip"])?;
            Some(format!("{host}:{}", self.value(&["master-port", "main-process-port"]).unwrap_or("29500")))
        })
    }

    /// `torchrun waits at 10.0.0.1:29500 for the other nodes (--nnodes 2)`
    pub fn words(&self) -> String {
        let at = self.meets_at().map_or(String::new(), |at| format!(" at {}", clip(&clean(&at), 80)));
        match self.nodes() {
            Some(nodes) => {
                let (name, nodes) = (self.name(), clip(&clean(nodes), 20).into_owned());
                let option = if name == "accelerate" { "--num_machines" } else { "--nnodes" };
                format!("{name} waits{at} for the other nodes ({option} {nodes})")
            }
            None => format!("{} has started no rank yet", self.name()),
        }
    }

    /// What its users call it.
    fn name(&self) -> &'static str {
        match python_target(self.0).map(base_name) {
            Some("accelerate") => "accelerate",
            _ => "torchrun",
        }
    }

    /// The value of the first of these options, which may be written with `-` or `_`.
    fn value(&self, names: &[&str]) -> Option<&'a str> {
        let option = |arg: &str| arg.strip_prefix("--").map(|name| name.replace('_', "-"));
        let mut rest = self.0.iter().map(String::as_str);
        while let Some(arg) = rest.next() {
            let (name, value) = arg.split_once('=').map_or((arg, None), |(name, value)| (name, Some(value)));
            if option(name).is_some_and(|name| names.contains(&name.as_str())) {
                return value.or_else(|| rest.next());
            }
        }
        None
    }
}

/// Whether a process of this name is an interpreter of Python.
pub fn is_python(comm: &str) -> bool {
    // PyTorch names its main thread, and with it the process, pt_main_thread.
    comm.starts_with("python") || comm.starts_with("pypy") || comm == "pt_main_thread" || comm == "ipython"
}

/// The last part of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The script or module that an interpreter runs.
pub fn python_target(args: &[String]) -> Option<&str> {
    let mut rest = args.iter().map(String::as_str);
    // argv[0] may be the script itself where comm says python.
    let first = rest.next()?;
    if !is_python(base_name(first)) {
        return Some(first);
    }
    while let Some(arg) = rest.next() {
        match arg {
            "-m" => return rest.next(),
            "-c" => return None,
            "-X" | "-W" => drop(rest.next()),
            _ if arg.starts_with('-') => {
                // `-um module`: flags and -m in one.
                if !arg.starts_with("--") && arg.ends_with('m') {
                    return rest.next();
                }
            }
            _ => return Some(arg),
        }
    }
    None
}
