//! Elastic restarts: which attempt runs, and how many steps were lost with the one before.

use super::Model;
use super::job::Job;

/// An attempt of an elastic launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// From 1.
    pub no: u32,
    /// How many the launcher makes, where its environment has it.
    pub most: Option<u32>,
}

impl Attempt {
    /// `2 of 4`
    pub fn words(self) -> String {
        self.most.map_or(self.no.to_string(), |most| format!("{} of {most}", self.no))
    }
}

impl Model {
    /// The attempt, by what torchrun sets for its ranks; else by the steps that came after a failure in the log.
    pub fn attempt_of(&self, job: &Job) -> Option<Attempt> {
        self.attempt_by_env(job).or_else(|| {
            let restarts = self.files_of(&job.id).map(|file| file.progress.restarts).max().filter(|n| *n > 0)?;
            Some(Attempt { no: restarts.saturating_add(1), most: None })
        })
    }

    /// How often the ranks were started anew: by the environment, else by the log or by what was seen, and besides by Slurm.
    pub fn restarts_of(&self, job: &Job) -> u32 {
        let by_env = self.attempt_by_env(job).map(|attempt| attempt.no - 1);
        let by_log = || self.attempt_of(job).map_or(0, |attempt| attempt.no - 1);
        let ranks = job.ranks.values().filter_map(|pid| self.processes.get(pid));
        let requeued = ranks.filter_map(|p| p.env_number(&["SLURM_RESTART_COUNT"])).max().unwrap_or(0);
        by_env.unwrap_or_else(|| by_log().max(job.restarts)).saturating_add(requeued)
    }

    fn attempt_by_env(&self, job: &Job) -> Option<Attempt> {
        let ranks = || job.ranks.values().filter_map(|pid| self.processes.get(pid)).filter(|p| p.is_alive());
        let restarts = ranks().filter_map(|p| p.env_number(&["TORCHELASTIC_RESTART_COUNT"])).max()?;
        let most = ranks().find_map(|p| p.env_number(&["TORCHELASTIC_MAX_RESTARTS"]));
        let no = restarts.saturating_add(1);
        Some(Attempt { no, most: most.map(|most| most.saturating_add(1)).filter(|most| *most >= no) })
    }

    /// The last step before a restart, and the first one after it, where that is less: what lies between is done again.
    pub fn went_back(&self, job: &Job) -> Option<(u64, u64)> {
        let progress = self.progress_of(&job.id)?;
        let seen = job.step_before_restart.zip(progress.first_counted).or(progress.restarted_from);
        let (before, now) = seen?;
        (now < before).then_some((before, now))
    }
}
