//! The server accepts connections for the API and bounds them in number, time and bytes.
//!
//! [`serve`](serve::serve) runs the listener, and `form` refuses heads that HTTP does not allow. `stall` and `traffic` watch
//! single connections, `leftover` takes in what a client still sends behind an early answer, `wrap` counts and times requests,
//! and `span` traces them. [`starting`] answers for a node that is not connected yet. `tls` encrypts connections.

pub(in crate::http) mod files;
mod form;
pub(in crate::http) mod leftover;
pub(in crate::http) mod serve;
mod span;
pub(in crate::http) mod stall;
pub mod starting;
pub mod tls;
pub(in crate::http) mod traffic;
pub(in crate::http) mod wrap;
