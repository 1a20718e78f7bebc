//! The wire types: what requests and answers look like as JSON, and how they become what the domain means.
//!
//! Every type can be written and read, so that the service and its clients share one definition. Reading is strict
//! where a person may have mistyped (requests), and lenient where a newer service may have added a field (answers).
//!
//! Types: [`task_request`], [`task_response`], [`task_list`], [`worker`], [`target`], [`text`], [`problem`]. Conversions:
//! [`new_task`], [`task_view`], [`worker_calls`], [`time`], [`page_token`], and [`poll`], which is both; nothing of
//! a request is believed before one of them has seen it.

mod content;
pub mod json;
mod message_spec;
pub mod new_task;
mod object;
pub mod page_token;
pub mod poll;
pub mod problem;
mod read_target;
pub mod stats;
pub mod target;
pub mod task_list;
pub mod task_request;
pub mod task_response;
pub mod task_view;
pub mod text;
pub mod time;
mod violations;
pub mod worker;
pub mod worker_calls;

pub(in crate::http) use content::is_json;
pub(in crate::http) use violations::{Violations, name, shorten, unknown};

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod mutation_tests;
#[cfg(test)]
mod request_tests;
