//! The flow takes tasks through a node for every caller of the service: from registration to the queue, and to their end.
//!
//! ```text
//! life/register --entry--> [slots]       [clock row: opened, fired, erased]
//!     | near                                   ^ swap             | won
//!     v                                        |                  v
//!   life/near --+                    stages/wheel/owner --term--> scan --page--> fire --+--> look
//!               |                                                                 |     |
//!               +----------> life/send ---record---> [queue] <--------------------+-----+
//!                                                       |
//!                          [rows] <-- life/claim <-- stages/poll --+-- life/settle --retry--> near / slots
//! ```
//!
//! Four storeys stand on each other. A file uses its own storey and those below, and nothing above; the house rules check that
//! (`tests/tidy/storeys.rs`).
//!
//! | storey | what it holds |
//! |---|---|
//! | [`stages`] | the loops of a node, and calls for more than one task: wheels, polls, jobs, schedules, queries |
//! | [`life`] | what happens to one task: register, send, claim, settle, cancel, reschedule, erase |
//! | [`features`] | what a feature adds to that: sequences, joins, trees, letters, lists, ends, keys, gates, limits |
//! | [`base`] | entries, rows, tables, the configuration, counts; no feature, no change of state |
//!
//! A store and a queue are held together only here. The model ([`crate::model`]) decides; the flow puts the effects in such an
//! order that a crash between two of them repeats work and never loses it:
//!
//! - Registration writes the entry, reads the clock, then acknowledges ([`base::entries::entry_writer`] is that loop).
//! - The owner of a wheel swaps the row before it reads, and moves `fired` and `erased` after the work that they report.
//! - A look writes its successor before it publishes.
//! - One conditional write decides every claim, settle, cancel and reschedule (`life::door`).
//! - A poll claims before it answers, and releases what its caller did not take.

pub mod base;
pub mod features;
pub mod life;
pub mod stages;

/// Target of the events in a task's life, below the default level: a line for each task is for trying things out.
pub const TASK_EVENTS: &str = "tickwheel::task";
