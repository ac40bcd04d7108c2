//! Many nodes at once: what `nccl-top export` gives to Prometheus, read back, put together and judged.
//!
//! A frame is one moment: all its questions ([`queries`]) are asked at the same time, [`client`] brings the answers, [`model`] makes a
//! [`model::Fleet`] of them, and [`rules`] judge what only several nodes together can show. What a single node has judged is taken as it
//! judged it. Model and rules are pure: the same answers give the same findings, now or at an earlier moment.

pub mod answer;
pub mod asking;
pub mod client;
pub mod http_config;
pub mod model;
pub mod queries;
pub mod rules;
