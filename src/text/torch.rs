//! Placeholder.

/// Lines that only make sense together: tracebacks, the failure table.
#[derive(Default)]
pub struct State {}
