//! `nccl-top fleet`: many nodes, read back from Prometheus.

use super::{Env, Outcome, out};
use crate::base::time::{Clock, Stamp, Zone, parse_duration};
use crate::cli::arguments::FleetArgs;
use crate::edge::diagnostics::complain;
use crate::fleet::asking::{Asker, Focus};
use crate::fleet::client::Client;
use crate::fleet::http_config::HttpConfig;
use crate::output::fleet;
use crate::tui::options::Options as _;
use anyhow::{Context as _, Result};

pub fn run(env: &Env, args: &FleetArgs) -> Result<Outcome> {
    let config = match &args.config_file {
        Some(path) => HttpConfig::load(path).map_err(anyhow::Error::msg).context("--prometheus.config.file")?,
        None => HttpConfig::default(),
    };
    let client = Client::new(&args.prometheus, &config).map_err(anyhow::Error::msg).context("--prometheus")?;
    let now = Clock::start().now();
    let at = args.at.as_deref().map(|text| moment(text, now)).transpose().map_err(anyhow::Error::msg).context("--at")?;
    let zone = env.zone(Zone::of_host(now));
    let mut asker = Asker::new(client, args.matchers.trim().trim_end_matches(',').to_owned());
    if !args.json {
        return crate::tui::fleet::run(&env.options(zone).settings(), asker, at).map(|()| Outcome::Clean);
    }
    let frame = match asker.frame(at.unwrap_or(now), &Focus::Overview) {
        Ok(frame) => frame,
        Err(why) => {
            complain(&format!("{}: {why}", asker.server()));
            return Ok(Outcome::CannotJudge);
        }
    };
    out(&format!("{:#}\n", fleet::json(&frame, &asker.server(), zone)))?;
    Ok(match fleet::verdict(&frame) {
        "fail" => Outcome::Findings,
        "warn" if args.strict => Outcome::Findings,
        _ => Outcome::Clean,
    })
}

/// A moment as a user writes it.
fn moment(text: &str, now: Stamp) -> Result<Stamp, String> {
    if let Some(ago) = text.strip_prefix('-') {
        return parse_duration(ago).map(|ago| now.minus(ago));
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return Ok(Stamp::from_secs_f64(seconds));
    }
    let known = text.parse::<jiff::Timestamp>().ok().and_then(|at| i64::try_from(at.as_nanosecond()).ok());
    known.map(Stamp).ok_or_else(|| format!("found {text:?}, expected a time such as 2026-11-21T10:04:09Z, seconds since 1970, or -10m"))
}
