//! Dispatch brings due tasks to the queue for the wheels and for the memory of near tasks.
//!
//! [`send`] publishes their records, which [`record`] makes. [`near`] holds tasks that are due before a wheel could hand
//! them out.
//! [`gatekeeper`] holds tasks behind gates that are not open. `late_runs` asks schedules about runs that would be late.
//! [`look`] examines tasks that went out, and publishes again those that were lost. [`unclaimed`] tells operators which tasks no
//! worker has taken, and [`pollers`] which workers ask. Rows that cannot be understood are set aside (`undelivered`). `beats`
//! reads heartbeats for looks.
//! `expirer` ends tasks that nobody took in time, which `expiries` remembers.

mod beats;
pub(in crate::flow) mod expirer;
pub(in crate::flow) mod expiries;
pub mod gatekeeper;
mod gauges;
mod held_back;
pub(in crate::flow) mod late_runs;
pub mod look;
pub(in crate::flow) mod look_entries;
pub mod near;
pub(in crate::flow) mod notes;
pub mod pollers;
pub mod record;
pub(in crate::flow) mod republish;
pub(in crate::flow) mod retrying;
pub mod send;
pub(in crate::flow) mod sending;
pub mod topics;
pub mod unclaimed;
pub(in crate::flow) mod undelivered;
