//! The record rooms keep the configuration for one node: [`cache`] holds a copy of it and knows how old the copy is,
//! [`announce`] writes changes of it for all nodes, and [`callbacks`] says what is set for a callback, by a `snapshot`.

pub mod announce;
pub mod cache;
pub mod callbacks;
pub(in crate::flow) mod snapshot;
