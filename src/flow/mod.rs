//! The flow of tasks through a node: one file per stage, all of one shape.
//!
//! ```text
//! register --entry--> [slots]        [clock row: opened, fired, erased]
//!     | near                              ^ swap          | won
//!     v                                   |               v
//!   near --+                            clock ---term--> read --page--> publish --+--> look
//!          |                                                            |         |
//!          +-----------------------> send ---record---> [queue] <-------+---------+
//!                                                          |
//!                                    [rows] <-- claim <----+---- settle --retry--> near / slots
//! ```
//!
//! A stage is made of what it needs, `step` does one bounded batch and says whether more remains, `run` waits, steps, logs and
//! stops. Only here are a store and a queue held at once. What decides is in [`crate::model`]; what is done here is the order
//! of effects, chosen so that a crash between any two repeats work and never loses it:
//!
//! - [`register`]: entry, then clock, then acknowledgement. [`place`] is that loop for every writer of entries.
//! - [`clock`]: swap, then read; acknowledge, then move `fired`; delete, then move `erased`.
//! - [`look`]: successor, then publication.
//! - [`claim`], [`settle`], [`cancel`], [`change`]: one conditional write is the decision ([`swap`]).
//! - [`poll`]: claim, then answer; an answer that is not taken is released.

mod ahead;
pub mod api;
mod aside;
pub mod budget;
pub mod cancel;
mod catch_up;
pub mod change;
pub mod claim;
mod claim_room;
pub mod claimed;
pub mod clock;
pub mod context;
pub mod deadlines;
mod deferred;
mod end;
mod ended;
mod erase;
pub mod find;
mod follow;
pub mod hand;
mod labels;
pub mod leftovers;
pub mod list;
pub mod look;
pub mod members;
pub mod near;
pub mod node;
pub mod pending;
pub mod place;
mod places;
pub mod poll;
mod publish;
pub mod pulse;
mod read;
pub mod recover;
pub mod register;
mod remembered;
pub mod send;
pub mod service;
pub mod settle;
pub mod stages;
pub mod stats;
pub mod swap;
mod term;
pub mod topics;
mod turns;
pub mod unclaimed;
mod wall;
mod withdraw;

/// Target of the events in a task's life, below the default level: a line for each task is for trying things out.
pub const TASK_EVENTS: &str = "tickwheel::task";
