//! Operations on single tasks: one file for each thing that a client or a worker can do to a task.
//!
//! Clients register, cancel and reschedule; workers claim and settle. [`transition`] is the conditional write behind all of
//! them, and `finish` does what follows when a task has come to its end. [`deadlines`] watches the leases of running tasks,
//! and `limiter` lets no more of a callback be claimed than its limits allow.

mod again;
pub mod asked;
mod attempt_span;
mod below;
pub mod cancel;
pub mod claim;
mod claim_answers;
mod claim_calls;
pub(in crate::flow) mod claim_room;
pub mod claimed;
mod complete;
pub mod deadlines;
pub(in crate::flow) mod end_waits;
pub(in crate::flow) mod ended;
mod enter;
pub mod erase;
pub(in crate::flow) mod finish;
mod heartbeat;
pub(in crate::flow) mod idempotent;
pub(in crate::flow) mod keys;
mod limit_pool;
pub(in crate::flow) mod limiter;
mod line;
pub mod plant;
mod prepare;
pub(in crate::flow) mod put;
pub(in crate::flow) mod redeliver;
pub mod register;
mod release;
mod replace;
pub mod reschedule;
pub(in crate::flow) mod results;
pub mod settle;
pub(in crate::flow) mod standing;
pub mod transition;
pub(in crate::flow) mod unfinished;
mod watched;
mod way;
mod whole;
pub(in crate::flow) mod withdraw;
