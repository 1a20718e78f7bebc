//! The pure core: every rule of the protocol, and nothing that acts.
//!
//! What is here takes values and returns values. Time and randomness are arguments, there is no I/O, no async, no
//! lock and no log, so that each rule can be read alone and tested exhaustively. `tests/tidy.rs` keeps it so.
//!
//! | file | decides |
//! |---|---|
//! | [`time`] | instants, ticks, rounding |
//! | [`wheel`] | which wheel, tick and slot a task waits in |
//! | [`ids`] | what an id carries |
//! | [`task`] | what a client registered |
//! | [`entry`] | what a firing entry means: entry + task row + now -> decision |
//! | [`entry_life`] | how long a store that expires rows keeps an entry |
//! | [`look`] | when a task is looked at again |
//! | [`look_step`] | how far apart those looks are, as the id carries it |
//! | [`event`] | what can happen to a task, and why it may be refused |
//! | [`state`] | the life cycle: one match of (state, event) |
//! | [`clock`] | the clock row's next value, whatever the reason |
//! | [`listing`] | which of its entries a task is listed at |
//! | [`ledger`] | how far a wheel has been fired, from acknowledgements in any order |
//! | [`due_queue`] | the in-memory wheel of one millisecond |
//! | [`lanes`] | in what turns callbacks leave that wheel |
//! | [`preference`] | which node should own which wheel |
//! | [`backoff`] | when a failed attempt is tried again |

pub mod backoff;
pub mod backup;
pub mod clock;
pub mod due_queue;
pub mod entry;
pub mod entry_life;
pub mod event;
pub mod ids;
pub mod lanes;
pub mod ledger;
pub mod listing;
pub mod look;
pub mod look_step;
pub mod preference;
pub mod restart;
pub mod retry_look;
pub mod state;
pub mod task;
pub mod time;
pub mod wheel;

#[cfg(test)]
mod clock_law_tests;
#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod state_law_tests;
