//! Agendas: lists in memory of what a node is to do at once, or at a time, each thing once.
//!
//! - [`pokes`] are the parents that a node is to check soon, [`joins`] the tasks that wait for others.
//! - [`handed`] has the sequences whose next task is to go out, and those whose tasks have waited for long. `ahead` tells which
//!   tasks need not go out before their turn.
//! - [`outbox`] brings the service's own tasks from the code that asks for them to the stage that registers them.
//! - [`watches`] hands the rows that this node writes to readers that follow a task or a callback.
//! - `expiries` remembers when tasks expire, `end_waits` who waits for the end of a task; `notes` is the list below them.
//!
//! An agenda is a hint. It is lost with its node, and the look of the task does the same later.

pub(in crate::flow) mod ahead;
pub(in crate::flow) mod end_waits;
pub(in crate::flow) mod expiries;
pub mod handed;
pub mod joins;
pub(in crate::flow) mod notes;
pub mod outbox;
pub mod pokes;
pub mod watches;
