//! `nccl-top demo`: an incident, recorded or modelled, that comes with the program.

use super::{Env, Outcome, out, replay};
use crate::cli::arguments::Play;
use crate::recording::demo::DEMOS;
use anyhow::Result;

pub fn run(env: &Env, name: Option<&str>, list: bool, options: &Play) -> Result<Outcome> {
    if list {
        let note = |modelled| if modelled { " (modelled counters)" } else { "" };
        out(&DEMOS.iter().map(|d| format!("{:<9} {}{}\n", d.name, d.title, note(d.modelled))).collect::<String>())?;
        return Ok(Outcome::Clean);
    }
    let name = name.unwrap_or(DEMOS[0].name);
    let known = || DEMOS.iter().map(|d| d.name).collect::<Vec<_>>().join(", ");
    let demo = DEMOS.iter().find(|d| d.name == name).ok_or_else(|| anyhow::anyhow!("no demo {name:?}; there are {}", known()))?;
    if options.headless {
        return replay::from(env, demo.open()?, demo.name, options, false);
    }
    env.screen(demo.open()?, options, Some(demo))
}
