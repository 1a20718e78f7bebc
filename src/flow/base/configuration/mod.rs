//! The copy of the configuration that a node holds: [`cache`] knows how old it is, `announce` writes changes for all nodes, and
//! [`configured`] answers for code that has the context only.

pub mod announce;
pub mod cache;
pub mod configured;
