//! The conversions turn requests into values of the domain, and its answers into wire types ([`crate::api`])
//! for handlers.
//!
//! No value of a request is trusted before a conversion has checked it. A conversion reports all mistakes of
//! a request at once.

pub mod action;
pub(in crate::http) mod action_view;
pub(in crate::http) mod api_key;
pub mod asked;
pub(in crate::http) mod callback;
pub(in crate::http) mod chain;
pub(in crate::http) mod configuration;
mod content;
pub mod dead_letter_token;
pub(in crate::http) mod event;
pub(in crate::http) mod family;
pub(in crate::http) mod forecast;
mod foreign;
pub mod http_call;
pub(crate) mod http_url;
pub(in crate::http) mod job;
pub(in crate::http) mod join;
pub mod json;
pub(in crate::http) mod masked;
mod message_spec;
pub mod new_task;
pub mod notify;
pub(in crate::http) mod own;
pub mod page_token;
pub mod read_poll;
pub(in crate::http) mod schedule;
pub(in crate::http) mod schedule_view;
pub(in crate::http) mod schedule_why;
pub mod stats_view;
mod target;
pub mod task_view;
mod template;
pub(in crate::http) mod test_clock;
pub(in crate::http) mod tree_view;
mod violations;
pub(in crate::http) mod why;
pub mod worker_calls;

pub(in crate::http) use content::is_json;
pub(crate) use content::media_type;
pub(in crate::http) use violations::{
    Callbacks, Violations, callback as any_callback, callbacks, checked_name, name, unknown,
};

#[cfg(test)]
mod action_tests;
#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod mutation_tests;
#[cfg(test)]
mod request_tests;
