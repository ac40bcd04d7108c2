//! Placeholder.

use super::{Setup, Source, SourceError};
use crate::observe::Body;
use std::time::Duration;

struct Nothing;

impl Source for Nothing {
    fn every(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn poll(&mut self, _out: &mut Vec<Body>) -> Result<(), SourceError> {
        Err(SourceError::Absent("not built yet".into()))
    }
}

pub fn make(_setup: &mut Setup) -> Box<dyn Source> {
    Box::new(Nothing)
}
