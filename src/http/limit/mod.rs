//! The limits keep a node's memory and latency bounded for all its clients, however they behave.
//!
//! `admission` counts requests under way and refuses more, and `pace` learns how many registrations may be
//! under way. `answers` counts the bytes of answers that were not read yet, and `refusal_rate` bounds the
//! refusals themselves.

pub(in crate::http) mod admission;
pub(in crate::http) mod answers;
pub(in crate::http) mod pace;
pub(in crate::http) mod refusal_rate;
