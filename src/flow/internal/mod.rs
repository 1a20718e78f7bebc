//! Internal tasks are the work that the service gives to itself: at a time, at least once, and never twice at once.
//!
//! ```text
//! end steps --notice--> outbox --> registry --entry--> [slots] ... [queue] --> executor (in `src/app`)
//! ```
//!
//! - [`outbox`] brings internal tasks from the stages that ask for them to the stage that registers them.
//! - `orders` waits for it, and `registry` is that stage.
//! - `ends` asks for all that follows the end of a task.
//! - [`actions`] makes the tasks that do the actions and the checks of another one, and [`outcomes`] tells how they went.
//! - `follow_ups` has the tasks registered that a client wants to follow another one.
//! - [`notices`] makes the task that tells the end of another one, or of its tree.
//! - [`dead_letter_topic`] makes the task that publishes the record of a dead one.
//!
//! A stage that asks for an internal task waits until that is durable, and does not finish its own work before. So a crash
//! repeats the work. Ids of internal tasks are computed, so the repetition registers nothing twice.

pub mod actions;
pub mod dead_letter_topic;
pub(in crate::flow) mod ends;
pub(in crate::flow) mod follow_ups;
pub mod notices;
pub(in crate::flow) mod orders;
pub mod outbox;
pub mod outcomes;
pub(in crate::flow) mod registry;
