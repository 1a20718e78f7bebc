//! The flow takes tasks through a node for every caller of the service: from registration to the queue, and to their end.
//!
//! ```text
//! tasks/register --entry--> [slots]        [clock row: opened, fired, erased]
//!     | near                                    ^ swap          | won
//!     v                                         |               v
//!   dispatch/near --+                     wheel/owner ---term--> scan --page--> fire --+--> dispatch/look
//!                   |                                                            |     |
//!                   +------------> dispatch/send ---record---> [queue] <---------+-----+
//!                                                                 |
//!                               [rows] <-- tasks/claim <-- poll --+-- tasks/settle --retry--> near / slots
//! ```
//!
//! Each room holds the stages of one part of that way:
//!
//! - [`entries`] writes entries into slots so that none is lost.
//! - [`wheel`] is the work of the owner of one wheel: it moves the clock, reads, fires and erases.
//! - [`dispatch`] brings due tasks to the queue.
//! - [`tasks`] holds one file for each thing that a caller can do to a task.
//! - [`poll`] gives workers their tasks.
//! - [`query`] answers questions and changes nothing.
//! - [`cluster`] watches the other nodes and the wall clock.
//! - [`dead_letters`] lists dead tasks, and redrives or deletes them.
//! - [`records`] keeps a copy of the configuration.
//! - [`jobs`] does bulk work over a filter.
//! - [`ordering`] lets tasks of one ordering key run one at a time.
//! - [`joins`] lets tasks go that wait for others.
//! - [`internal`] registers the service's own tasks.
//!
//! A stage is made of what it needs. Its `step` does one bounded batch and says whether more remains. Its `run` waits, steps,
//! logs and stops. A store and a queue are held together only here. The model ([`crate::model`]) decides; a stage puts the
//! effects in such an order that a crash between two of them repeats work and never loses it:
//!
//! - Registration writes the entry, reads the clock, then acknowledges ([`entries::entry_writer`] is that loop).
//! - The owner of a wheel swaps the row before it reads, and moves `fired` and `erased` after the work that they report.
//! - A look writes its successor before it publishes.
//! - One conditional write decides every claim, settle, cancel and reschedule ([`tasks::transition`]).
//! - A poll claims before it answers, and releases what its caller did not take.

pub mod api;
pub mod budget;
pub mod cluster;
pub mod context;
pub mod dead_letters;
pub mod dispatch;
pub mod entries;
pub mod family;
pub mod internal;
pub mod jobs;
pub mod joins;
mod labels;
mod makers;
pub mod node;
pub mod ordering;
pub mod panics;
pub mod poll;
pub mod query;
pub mod records;
pub mod schedules;
pub mod service;
pub mod tasks;
pub mod wheel;

/// Target of the events in a task's life, below the default level: a line for each task is for trying things out.
pub const TASK_EVENTS: &str = "tickwheel::task";
