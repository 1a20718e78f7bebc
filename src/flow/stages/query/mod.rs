//! Queries answer questions about tasks and about the service, and change nothing.
//!
//! [`list`] walks the slots for the tasks that a [`filter`] names. [`stats`] describes the whole service from what is counted in
//! memory, `figures` makes metrics of such counts, and [`activity`] tells of one callback. `await_end` waits for ends. [`why`]
//! tells what keeps a task, from what the `examiner` reads. [`forecast`] counts the tasks that are due in the time ahead.

pub mod activity;
pub(in crate::flow) mod await_end;
mod examiner;
pub(in crate::flow) mod figures;
pub mod filed;
pub mod filter;
pub mod forecast;
pub mod list;
pub(in crate::flow) mod page;
pub mod pollers;
pub(in crate::flow) mod remembered;
pub(in crate::flow) mod shares;
pub mod standing;
pub mod stats;
pub(in crate::flow) mod stock;
pub(in crate::flow) mod wheel_walk;
pub mod why;
