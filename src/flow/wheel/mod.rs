//! The wheel stages do the work of one term for the owner of a wheel, from the swap of the clock row to the
//! deletion of fired entries.
//!
//! [`owner`] swaps the row each tick and holds the term. `scan` reads the slots that the row has opened into memory, `fire`
//! hands out what is due, and `erase` deletes behind it.
//! `release` lets held tasks go once their gate has opened. `catch_up` keeps reads of missed ticks behind those of tasks that
//! can be in time. Sending is left to [`super::dispatch`].

pub(in crate::flow) mod catch_up;
pub(in crate::flow) mod cursor;
pub(in crate::flow) mod deferred;
pub(in crate::flow) mod erase;
pub(in crate::flow) mod fire;
pub(in crate::flow) mod follow;
pub(in crate::flow) mod held;
pub mod owner;
pub(in crate::flow) mod prefetch;
pub(in crate::flow) mod read_permits;
pub mod recover;
pub(in crate::flow) mod release;
pub(in crate::flow) mod scan;
pub mod stages;
pub(in crate::flow) mod term;
