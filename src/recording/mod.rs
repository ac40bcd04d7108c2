//! What was observed, kept: on tape, in memory for the time axis, and as recordings that come with the program.

mod bounds;
pub mod demo;
pub mod preamble;
pub mod score;
pub mod tape;
pub mod timeline;
pub mod without;
