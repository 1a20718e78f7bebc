//! Queries answer questions about tasks and about the service, and change nothing.
//!
//! [`find`] looks a task up by its id and [`list`] walks the slots for those that a [`filter`] wants. [`stats`] describes the
//! whole service from what [`pending`] and [`recent`] count in memory, and `figures` makes
//! metrics of such counts, and [`activity`] tells of one callback. `await_end` waits for ends. `places` bounds the reads that
//! clients cause at one time.

pub mod activity;
pub(in crate::flow) mod await_end;
mod callback_lateness;
pub(in crate::flow) mod figures;
pub mod filed;
pub mod filter;
pub mod find;
pub mod list;
mod page;
pub mod pending;
pub(in crate::flow) mod places;
pub mod recent;
pub(in crate::flow) mod remembered;
pub mod second;
pub(in crate::flow) mod shares;
pub mod stats;
mod stock;
mod views;
mod wheel_walk;
