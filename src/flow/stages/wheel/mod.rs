//! The work of one term of the owner of a wheel, from the swap of the clock row to the deletion of fired entries.
//!
//! [`owner`] swaps the row each tick and holds the term. `scan` reads the slots that the row has opened into memory, `fire`
//! hands out what is due, and `erase` deletes behind it. `release` lets held tasks go once their gate has opened. `look`
//! examines tasks that went out, and publishes again those that were lost. `lapses` does so for attempts whose leases have
//! lapsed, `expirer` ends tasks that no worker took in time, and `heir` takes over what dead nodes held in memory.
//! `flow::base::permits` keeps reads of missed ticks behind those of tasks that can be in time. Sending is left to
//! [`crate::flow::life::send`].

pub(in crate::flow) mod cursor;
pub(in crate::flow) mod deferred;
pub(in crate::flow) mod erase;
pub(in crate::flow) mod expirer;
pub(in crate::flow) mod fire;
pub(in crate::flow) mod follow;
pub(in crate::flow) mod heir;
pub(in crate::flow) mod held;
pub(in crate::flow) mod held_back;
pub(in crate::flow) mod lapses;
pub mod look;
pub mod owner;
pub(in crate::flow) mod prefetch;
pub mod recover;
pub(in crate::flow) mod release;
pub(in crate::flow) mod republish;
pub(in crate::flow) mod scan;
pub mod stages;
pub(in crate::flow) mod term;
pub(in crate::flow) mod terms;
