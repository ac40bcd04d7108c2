//! Many nodes on one screen.

use crate::base::time::Stamp;
use crate::fleet::asking::Asker;
use anyhow::Result;

pub fn run(_: &super::Settings, _: Asker, _: Option<Stamp>) -> Result<()> {
    anyhow::bail!("not yet")
}
