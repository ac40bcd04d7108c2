//! What several tests share.

pub mod tree;
