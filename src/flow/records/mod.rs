//! The record rooms keep the configuration for one node: [`cache`] holds a copy of it and knows how old the copy is,
//! [`announce`] writes changes of it for all nodes, [`callbacks`] says what is set for a callback, by a `snapshot`,
//! [`api_keys`] which keys there are, [`key_changes`] changes these, [`audit`] says who has changed what, [`refusals`]
//! whose calls were refused, and [`configured`] says it to stages that have the context only.

pub mod announce;
pub mod api_keys;
pub mod audit;
pub mod cache;
pub mod callbacks;
pub mod configured;
pub mod key_changes;
pub mod refusals;
pub(in crate::flow) mod snapshot;
