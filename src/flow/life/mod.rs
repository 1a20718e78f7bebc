//! The life of a task, one file for each thing that happens to it: registered, sent, claimed, settled, moved, ended, erased.
//!
//! Clients register, cancel and reschedule; workers claim and settle. `door` is the conditional write behind all of them: the
//! only way in which a row changes, with the payment of what the change owes, in the order of [`crate::flow::features`]. [`send`]
//! publishes due tasks, and [`near`] holds those that are due before a wheel could hand them
//! out. Rows that cannot be understood are set aside (`undelivered`).
//!
//! `docs/writes.md` has the order of durable writes of each path, and what a crash behind each leaves. A change of an order
//! changes that page. `docs/states.md` has the states.

pub(in crate::flow) mod add;
pub(in crate::flow) mod adopt;
pub(in crate::flow) mod again;
pub mod asked;
pub mod cancel;
pub mod claim;
pub(in crate::flow) mod claim_answers;
pub(in crate::flow) mod claim_room;
pub mod claimed;
pub(in crate::flow) mod complete;
pub(in crate::flow) mod descendants;
pub(in crate::flow) mod door;
pub(in crate::flow) mod enter;
pub mod erase;
pub(in crate::flow) mod existence;
pub(in crate::flow) mod gauges;
pub(in crate::flow) mod heartbeat;
pub(in crate::flow) mod incoming;
pub(in crate::flow) mod late_runs;
pub(in crate::flow) mod look_entries;
pub mod near;
pub(in crate::flow) mod prepare;
pub(in crate::flow) mod put;
pub mod record;
pub(in crate::flow) mod redeliver;
pub mod register;
pub mod register_tree;
pub(in crate::flow) mod related;
pub(in crate::flow) mod release;
pub(in crate::flow) mod replace;
pub(in crate::flow) mod replaced;
pub mod reschedule;
pub(in crate::flow) mod restart_kind;
pub mod send;
pub(in crate::flow) mod sending;
pub mod settle;
pub(in crate::flow) mod start_order;
pub mod topics;
pub(in crate::flow) mod undelivered;
pub(in crate::flow) mod unfinished;
pub(in crate::flow) mod withdraw;
