//! Agendas: lists in memory of what a node is to do at once, or at a time, each thing once ([`agenda`] is the list).
//!
//! - One has the parents that a node is to check soon; [`joins`] has those of the tasks that wait for others.
//! - [`turn_queue`] has the sequences whose next task is to go out, and those whose tasks have waited for long. `ahead` tells
//!   which tasks need not go out before their turn.
//! - [`outbox`] brings the service's own tasks from the code that asks for them to the stage that registers them.
//! - [`watches`] hands the rows that this node writes to readers that follow a task or a callback.
//! - `expiries` remembers when tasks expire: it is bounded in bytes, and the nearest have the room. `end_waits` has the requests
//!   that wait for the end of a task, `notes` counts tasks that wait.
//!
//! An agenda is a hint. It is lost with its node, and the look of the task does the same later.

pub mod agenda;
pub(in crate::flow) mod ahead;
pub mod end_waits;
pub(in crate::flow) mod expiries;
pub mod joins;
pub(in crate::flow) mod notes;
pub mod outbox;
pub mod turn_queue;
pub mod watches;
