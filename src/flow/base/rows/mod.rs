//! Rows of tasks: `stored` reads them. `content`, `results` and `messages` read what is kept apart, `beats` reads heartbeats, and
//! `whole` runs a request to its end also when its client hangs up.

pub(in crate::flow) mod beats;
pub(in crate::flow) mod content;
pub(in crate::flow) mod messages;
pub(in crate::flow) mod results;
pub(in crate::flow) mod run_to_completion;
pub(in crate::flow) mod stored;
