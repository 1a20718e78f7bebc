//! Queries answer questions about tasks and about the service, and change nothing.
//!
//! [`find`] looks a task up by its id and [`list`] walks the slots. [`stats`] describes the whole service from what
//! [`pending`] and [`recent`] count in memory. `places` bounds the reads that clients cause at one time.

pub mod find;
pub mod list;
pub mod pending;
pub(in crate::flow) mod places;
pub mod recent;
pub(in crate::flow) mod remembered;
pub mod stats;
