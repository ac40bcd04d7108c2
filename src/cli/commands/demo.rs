//! `nccl-top demo`: an incident, recorded or modelled, that comes with the program.

use super::{Env, Outcome, out, replay};
use crate::base::words::wrap;
use crate::cli::arguments::Play;
use crate::recording::demo::{DEMOS, Demo};
use anyhow::Result;
use std::io::{self, BufRead, IsTerminal};

pub fn run(env: &Env, name: Option<&str>, list: bool, options: &Play) -> Result<Outcome> {
    if list {
        out(&listed(|d| format!("{:<9} ", d.name)))?;
        return Ok(Outcome::Clean);
    }
    let can_ask = !options.headless && io::stdout().is_terminal() && io::stdin().is_terminal();
    let demo = match name {
        Some(name) => named(name).ok_or_else(|| anyhow::anyhow!("no demo {name:?}; there are {}", names()))?,
        None if can_ask => match choose(&mut io::stdin().lock())? {
            Some(demo) => demo,
            None => return Ok(Outcome::Clean),
        },
        None => &DEMOS[0],
    };
    if options.headless {
        return replay::from(env, demo.open()?, demo.name, options, false);
    }
    env.screen(demo.open()?, options, Some(demo))
}

/// A line for each demo, behind what `head` makes of it.
fn listed(head: impl Fn(&Demo) -> String) -> String {
    let note = |modelled| if modelled { " (modelled)" } else { "" };
    /// What goes into a pipe is one line each.
    const PIPE: usize = 1000;
    let known = crossterm::terminal::size().ok().filter(|_| io::stdout().is_terminal());
    let columns = known.map_or(PIPE, |(columns, _)| usize::from(columns)).max(40);
    let entry = |d: &Demo| {
        let head = head(d);
        let lines = wrap(&format!("{}{}", d.title, note(d.modelled)), columns.saturating_sub(head.len()).max(20));
        format!("{head}{}\n", lines.join(&format!("\n{:1$}", "", head.len())))
    };
    DEMOS.iter().map(entry).collect()
}

fn names() -> String {
    DEMOS.iter().map(|d| d.name).collect::<Vec<_>>().join(", ")
}

fn named(name: &str) -> Option<&'static Demo> {
    DEMOS.iter().find(|d| d.name == name)
}

/// Asks which demo to show, until the answer is one; `None` to leave.
fn choose(answers: &mut impl BufRead) -> Result<Option<&'static Demo>> {
    let number = |demo: &Demo| DEMOS.iter().position(|d| d.name == demo.name).map_or(0, |at| at + 1);
    out(&format!(
        "Incidents to look at, half a minute each, from the middle:\n\n{}\n",
        listed(|d| format!("  {}  {:<9} ", number(d), d.name))
    ))?;
    loop {
        out("Which one? A number or a name; Enter shows the first, q leaves: ")?;
        let mut answer = String::new();
        if answers.read_line(&mut answer)? == 0 {
            out("\n")?;
            return Ok(None);
        }
        let answer = answer.trim();
        let by_number = answer.parse::<usize>().ok().and_then(|n| DEMOS.get(n.checked_sub(1)?));
        match by_number.or_else(|| named(answer)) {
            Some(demo) => return Ok(Some(demo)),
            None if answer.is_empty() => return Ok(DEMOS.first()),
            None if matches!(answer, "q" | "quit") => return Ok(None),
            None => _ = out(&format!("There is no demo {answer:?}. "))?,
        }
    }
}
