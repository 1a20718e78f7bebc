//! The record rooms keep the configuration for one node: [`cache`] holds a copy of it and knows how old the copy is,
//! and [`announce`] writes changes of it for all nodes.

pub mod announce;
pub mod cache;
