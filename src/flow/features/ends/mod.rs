//! Tasks that follow the end of another one: they tell it, act on it or continue it.
//!
//! ```text
//! end steps --notice--> outbox --> registry --entry--> [slots] ... [queue] --> executor (in `src/app`)
//! ```
//!
//! - `orders` waits until the outbox has registered what it was given. [`crate::flow::stages::ends`] is the stage that does so.
//! - `report` asks for all that follows the end of a task.
//! - [`actions`] makes the tasks that do the actions and the checks of another one.
//! - `follow_ups` has the tasks registered that a client wants to follow another one.
//! - [`notices`] makes the task that tells the end of another one, or of its tree.
//! - [`dead_letter_topic`] makes the task that publishes the record of a dead one.
//!
//! Code that asks for an internal task waits until that is durable, and does not finish its own work before. So a crash repeats
//! the work. Ids of internal tasks are computed, so the repetition registers nothing twice.

pub mod actions;
pub mod dead_letter_topic;
pub(in crate::flow) mod follow_ups;
pub mod notices;
pub(in crate::flow) mod orders;
pub(in crate::flow) mod report;
