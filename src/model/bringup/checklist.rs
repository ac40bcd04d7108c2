//! The checklist of a bring-up: ten questions, each answered with the line that proves it.

use super::trouble::{Facts, Trouble};
use super::{Bringup, Distinct, Item, MAX_VALUE, Path, Seen};
use crate::base::clean;
use crate::base::severity::Confidence;
use crate::base::units::counted;
use crate::base::units::seconds;
use crate::logs::{Ofi, PluginState};
use crate::model::Model;
use crate::model::job::Job;
use crate::model::port::Link;
use crate::observe::port::PortKind;

fn item(id: &'static str, label: &'static str) -> Item {
    Item { id, label, state: Seen::NotSeen, value: String::new(), proof: None, advice: None }
}

impl Item {
    fn with(mut self, told: &Trouble) -> Item {
        self.state = if told.fails { Seen::Fail } else { Seen::Warn };
        self.value = clean::clip(&told.summary, MAX_VALUE).into_owned();
        self.advice = Some(told.advice.clone());
        self.proof = told.proofs.first().cloned().or(self.proof);
        self
    }
}

impl Bringup {
    /// The rows of the NCCL pane, always the same, in this order. What no line says is [`Seen::NotSeen`].
    pub fn items(&self, model: &Model, job: &Job) -> Vec<Item> {
        self.checklist(model, job, job.ended_at.is_some())
    }

    /// Like [`Bringup::items`]; `ended` says that no more lines will come.
    pub fn checklist(&self, model: &Model, job: &Job, ended: bool) -> Vec<Item> {
        let facts = Facts { bringup: self, model, job, ended };
        let items = [
            self.version(model),
            self.net_plugin_item(model),
            self.network(&facts),
            self.socket_ifname(&facts),
            self.gpu_paths(&facts),
            self.init(&facts),
            self.no_warnings(),
            self.no_errors(model, job),
            self.env_settings(&facts),
            self.ranks_agree(&facts),
        ];
        items.into()
    }

    /// [`Seen::Pass`] where all lines agree.
    fn agreed<T: PartialEq + Clone>(id: &'static str, label: &'static str, said: &Distinct<T>, word: impl Fn(&T) -> String) -> Item {
        let state = match said.first() {
            None => Seen::NotSeen,
            Some(_) if said.is_one() => Seen::Pass,
            Some(_) => Seen::Warn,
        };
        // Where lines differ, the line that does not say what the first one says.
        let proof = said.said.get(1).or(said.first()).map(|s| s.proof.clone());
        let advice =
            (state == Seen::Warn).then(|| "look at the lines that differ: nodes with another image, hardware or environment".into());
        Item { state, value: said.words(word), proof, advice, ..item(id, label) }
    }

    fn version(&self, model: &Model) -> Item {
        // Programs that load NCCL say its version without that of CUDA.
        let said: Vec<_> = super::trouble::whole(&self.nccl_versions.said).into_iter().cloned().collect();
        let versions = Distinct { said, others: self.nccl_versions.others };
        let mut item = Self::agreed("nccl-version", "NCCL version", &versions, String::clone);
        if let (Seen::NotSeen, Some(version)) = (item.state, &model.ras.nccl_version) {
            (item.state, item.value) = (Seen::Pass, format!("{} (RAS)", clean::clip(version, MAX_VALUE)));
        }
        item
    }

    /// Not to find one is usual, but for EFA, which NCCL cannot use without.
    fn net_plugin_item(&self, model: &Model) -> Item {
        let item = item("net-plugin", "Net plugin");
        let of = |state| self.net_plugin(state).and_then(Distinct::first);
        let names = |state| {
            let said = self.net_plugin(state).map_or(&[][..], |d| &d.said);
            said.iter().map(|s| s.value.as_str()).filter(|n| !n.is_empty()).collect::<Vec<_>>().join(", ")
        };
        let socket = self.networks.said.iter().any(|s| s.value == "Socket") && !self.is_one_node();
        for state in [PluginState::FailedToLoad, PluginState::Unsupported] {
            if let Some(said) = of(state) {
                let word = if state == PluginState::Unsupported { "does not fit this NCCL" } else { "could not be loaded" };
                return Item {
                    state: Seen::Fail,
                    value: format!("{} {word}", names(state)).trim_start().to_owned(),
                    proof: Some(said.proof.clone()),
                    advice: Some(
                        "ldd of the plugin's library says what it lacks; LD_LIBRARY_PATH must hold it and its dependencies".into(),
                    ),
                    ..item
                };
            }
        }
        let efa = |o: &Ofi| matches!(o, Ofi::Topology { .. } | Ofi::NoProvider) || matches!(o, Ofi::Platform(p) if p == "AWS");
        let told = self.ofi.said.iter().find(|o| efa(&o.value));
        let port = model.ports.values().any(|p| p.info.kind == PortKind::Efa && p.link.now == Link::Up);
        let advice = Some("mount /dev/infiniband and aws-ofi-nccl into the container; fi_info -p efa must list devices".to_owned());
        if let Some(told) = told.filter(|_| socket) {
            let proof = Some(told.proof.clone());
            return Item { state: Seen::Fail, value: "EFA was named, and NCCL uses sockets".into(), proof, advice, ..item };
        }
        let loaded = of(PluginState::Loaded).or(of(PluginState::LibraryLoaded));
        let absent = of(PluginState::NotFound).or(of(PluginState::Internal));
        match (loaded, absent) {
            (Some(said), _) => {
                let value = Some(names(PluginState::Loaded)).filter(|n| !n.is_empty()).unwrap_or_else(|| said.value.clone());
                Item { state: Seen::Pass, value, proof: Some(said.proof.clone()), ..item }
            }
            (None, Some(said)) if port && !self.is_one_node() => {
                let (value, proof) = ("none found, and an EFA port is up".to_owned(), Some(said.proof.clone()));
                Item { state: Seen::Fail, value, proof, advice, ..item }
            }
            (None, Some(said)) => Item { state: Seen::Pass, value: "none found".into(), proof: Some(said.proof.clone()), ..item },
            // Old NCCLs do not say what they load, but aws-ofi-nccl says that it is there.
            (None, None) => match self.ofi.said.iter().find_map(|o| Some((o, of_ofi(&o.value)?))) {
                Some((said, value)) => Item { state: Seen::Pass, value, proof: Some(said.proof.clone()), ..item },
                None => item,
            },
        }
    }

    /// Sockets are right where there is nothing faster, and do not matter inside one node.
    fn network(&self, facts: &Facts) -> Item {
        let mut item = Self::agreed("network", "Network", &self.networks, String::clone);
        if let Some(told) = facts.mixed_networks().or_else(|| facts.sockets()) {
            return item.with(&told);
        }
        if item.value == "IB" && !self.devices.said.is_empty() {
            const NAMED: usize = 4;
            let names: Vec<&str> = self.devices.said.iter().take(NAMED).map(|said| said.value.as_str()).collect();
            let kinds: Vec<&str> = self.links.said.iter().map(|said| said.value.as_str()).collect();
            let more = if self.devices.said.len() > NAMED { ", …" } else { "" };
            item.value = format!("IB ({}: {}{more})", kinds.join(" and "), names.join(", "));
        }
        if let Some(told) = facts.plain_sockets() {
            item = item.with(&told);
            item.value = "Socket between nodes".into();
        }
        item
    }

    /// Hosts may differ in the names of their interfaces.
    fn socket_ifname(&self, facts: &Facts) -> Item {
        // Without the subsystem BOOTSTRAP only the interfaces for data are named; they are chosen in the same way.
        let said = if self.bootstraps.said.is_empty() { &self.sockets } else { &self.bootstraps };
        let mut item = Self::agreed("socket-ifname", "Bootstrap interface", said, String::clone);
        if item.state == Seen::Warn {
            item.advice =
                Some("set NCCL_SOCKET_IFNAME where hosts have several interfaces, so that all take the one that joins them".into());
        }
        if let Some(set) = self.env.get("NCCL_SOCKET_IFNAME") {
            let set_to = format!("NCCL_SOCKET_IFNAME={}", set.words(String::clone));
            item.value = if item.value.is_empty() { set_to } else { format!("{} ({set_to})", item.value) };
            item.proof = item.proof.or(set.first().map(|s| s.proof.clone()));
        }
        match facts.interfaces().iter().max_by_key(|t| t.fails) {
            Some(told) => item.with(told),
            None => item,
        }
    }

    fn gpu_paths(&self, facts: &Facts) -> Item {
        let mut paths: Vec<(&String, &Path)> = self.paths.iter().collect();
        paths.sort_by_key(|(_, p)| std::cmp::Reverse(p.channels()));
        let others = (self.other_paths > 0).then(|| format!("{} x others", self.other_paths));
        let words: Vec<String> = paths.iter().map(|(kind, p)| format!("{} x {kind}", p.channels())).chain(others).collect();
        let mut item = Item {
            state: if paths.is_empty() { Seen::NotSeen } else { Seen::Pass },
            value: words.join(", "),
            proof: paths.first().map(|(_, p)| p.proof.clone()),
            ..item("gpu-paths", "GPU paths")
        };
        // The receiver reads over NVLink, as NCCL does on A100.
        if paths.iter().any(|(kind, _)| kind.ends_with("/read")) {
            item.value += " (read: the receiver reads directly)";
        }
        match facts.transports().into_iter().next() {
            Some(told) => {
                let value = std::mem::take(&mut item.value);
                let mut item = item.with(&told);
                item.value = clean::clip(&format!("{}: {value}", told.summary), MAX_VALUE).into_owned();
                item
            }
            None => item,
        }
    }

    /// About the communicator that hangs, else the largest one.
    fn init(&self, facts: &Facts) -> Item {
        let mut item = item("init-complete", "Init");
        if let Some(told) = facts.init() {
            return item.with(&told);
        }
        // The first of the largest ones: the newest of all would change with every split.
        let of_job = self.inits.iter().filter_map(|(hash, lines)| Some((facts.model.comms.get(hash)?, lines)));
        let Some((comm, lines)) = of_job.max_by_key(|(c, _)| (c.nranks, std::cmp::Reverse(c.init_from))) else {
            let Some((size, (ranks, newest))) = self.nameless.last_key_value() else { return item };
            let all = if ranks.len() < *size as usize { ", all that are logged here" } else { "" };
            item.state = Seen::Pass;
            item.value = format!("{} of {size} ranks{all}", ranks.len());
            item.proof = newest.clone();
            return item;
        };
        let (done, all) = (comm.init_complete.len(), comm.nranks);
        item.value = format!("{done} of {all} ranks");
        let pending = comm.init_started.iter().any(|r| !comm.init_complete.contains(r));
        if !pending && done > 0 {
            item.state = Seen::Pass;
            // Lines that were there before us all have one time.
            let took = comm.init_from.zip(comm.init_to).filter(|(from, to)| to > from);
            item.value += &took.map_or(String::new(), |(from, to)| format!(" in {}", seconds(to.secs_since(from))));
            if done < all as usize {
                item.value += ", all that are logged here";
            }
            item.proof = lines.newest_complete.clone();
        } else {
            item.proof = lines.newest_complete.clone().or(lines.first_start.clone());
        }
        item
    }

    /// Without a line of level INFO it is not known whether WARN lines would be printed.
    fn no_warnings(&self) -> Item {
        let item = item("no-warnings", "WARN lines");
        match (&self.first_warning, &self.first_info) {
            (Some(first), _) => Item {
                state: Seen::Warn,
                value: counted(self.warnings, "line"),
                proof: Some(first.clone()),
                advice: Some("the first WARN in time is usually the cause of the others".into()),
                ..item
            },
            // A finding that rests on a line of level INFO must not seem to be denied here.
            (None, Some(info)) => Item {
                state: Seen::Pass,
                value: if self.first_noted.is_none() { "none".into() } else { "none (INFO only)".into() },
                proof: Some(self.first_noted.as_ref().unwrap_or(info).clone()),
                ..item
            },
            (None, None) => item,
        }
    }

    fn no_errors(&self, model: &Model, job: &Job) -> Item {
        let item = item("no-errors", "Errors");
        match &self.first_error {
            Some(first) => Item {
                state: Seen::Fail,
                value: counted(self.errors, "line"),
                proof: Some(first.clone()),
                advice: Some("the first error in time is usually the cause of the others".into()),
                ..item
            },
            None if model.files_of(&job.id).any(|f| f.lines > 0) => Item { state: Seen::Pass, value: "none".into(), ..item },
            None => item,
        }
    }

    fn env_settings(&self, facts: &Facts) -> Item {
        let mut item = item("env-settings", "Settings");
        let told: Vec<Trouble> = facts.env_mismatch().into_iter().chain(facts.env_no_effect()).collect();
        if let Some(first) = told.iter().max_by_key(|t| (t.fails, t.confidence)).filter(|t| t.confidence > Confidence::Possible) {
            return item.with(first);
        }
        let Some(first) = self.env.values().filter_map(Distinct::first).min_by_key(|s| s.proof.at) else { return item };
        item.state = Seen::Pass;
        /// More are counted.
        const MOST: usize = 6;
        let set = self.env.iter().filter_map(|(name, values)| Some(format!("{name}={}", values.first()?.value)));
        let mut words: Vec<String> = set.take(MOST).collect();
        if self.env.len() > MOST {
            words.push(format!("{} more", self.env.len() - MOST));
        }
        item.value = words.join(", ");
        item.proof = Some(first.proof.clone());
        item
    }

    fn ranks_agree(&self, facts: &Facts) -> Item {
        let mut item = item("ranks-agree", "Versions of ranks");
        if let Some(told) = facts.versions().iter().max_by_key(|t| t.fails) {
            return item.with(told);
        }
        let Some(version) = self.nccl_versions.first() else { return item };
        // Before 2.22 one rank alone says it.
        let many = version.who.len() > 1 || self.drivers.first().is_some_and(|d| d.who.len() > 1);
        item.proof = Some(version.proof.clone());
        if many {
            item.state = Seen::Pass;
            item.value = format!("same on all {} that report it", version.who.len().max(1));
        } else {
            item.value = "reported by one process".into();
        }
        item
    }
}

/// `aws-ofi-nccl 1.5.0aws`
fn of_ofi(said: &Ofi) -> Option<String> {
    match said {
        Ofi::Version(version) => Some(format!("aws-ofi-nccl {version}")),
        _ => None,
    }
}
