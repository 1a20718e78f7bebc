//! The types that travel over HTTP, for the service, its clients and its workers.
//!
//! Every type can be written and read, so both ends share one definition. Requests are read strictly, because a person may
//! have mistyped a field. Answers are read leniently, because a newer service may have added one; they are
//! `non_exhaustive` for the same reason. Instants and durations travel as the texts of [`text`].
//!
//! A program seldom names this module: [`crate::client`] and [`crate::worker`] export the types that they take and return.

pub mod action;
pub mod api_key;
pub mod backup;
pub mod callback;
pub mod configuration;
pub mod dead_letter;
pub mod dependency;
pub mod event;
pub mod forecast;
pub mod ids;
pub mod job;
pub mod join;
pub mod messages;
pub mod notification;
pub mod notify;
pub(crate) mod object;
pub mod poll;
pub mod previous;
pub mod problem;
pub mod schedule;
pub mod schedule_response;
pub mod schedule_why;
pub mod stats;
pub mod target;
pub mod task_list;
pub mod task_request;
pub mod task_response;
pub mod task_state;
pub mod test_clock;
pub mod text;
// The readers of the service, with its bounds. Clients use the methods of the texts.
#[doc(hidden)]
pub mod time;
pub mod tree;
pub mod why;
pub mod worker;

#[doc(inline)]
pub use crate::model::ids::{NotATaskId, TaskId};
