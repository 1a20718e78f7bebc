//! Rows of tasks: [`transition`] is the conditional write behind every change of state. `content`, `results` and `messages`
//! read what is kept apart, `beats` reads heartbeats, `attempt_span` reports attempts as spans, and `whole` runs a request to its
//! end also when its client hangs up.

pub(in crate::flow) mod attempt_span;
pub(in crate::flow) mod beats;
pub(in crate::flow) mod content;
pub(in crate::flow) mod end_note;
pub(in crate::flow) mod messages;
pub(in crate::flow) mod results;
pub mod transition;
pub(in crate::flow) mod whole;
