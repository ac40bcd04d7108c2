//! What several tests share, and the tools and benches with them.

// Tools and benches take a part.
#![allow(dead_code)]

pub mod parsers;
pub mod screen;
pub mod svg;
pub mod tree;
pub mod worlds;
