//! The schedule tells the service when the runs of a user's schedule start, and what becomes of those that cannot.
//!
//! | file | decides |
//! |---|---|
//! | [`field`] | which numbers a field of a cron expression means |
//! | [`day`] | which days an expression means |
//! | [`cron`] | what an expression means, and when it is due next in a zone |
//! | `count` | how many times of cron expressions lie in a span |
//! | [`plan`] | when a schedule is due: its expressions, its zone, its start and end |
//! | [`words`] | how an expression is described to people |
//! | [`run`] | the id and the start of a run |
//! | [`life`] | what a schedule is, and how users change it |
//! | [`missed`] | which of the times that have passed run all the same |
//! | [`mod@line`] | which missed times follow each other, and which are too many |
//! | [`advance`] | which runs the next write of a schedule starts, skips or counts as missed |
//! | [`again`] | which runs were missed after they were decided on |
//! | [`why`] | what people are told of a time without a run |
//!
//! All nodes agree about runs because they take their times from the record of the schedule. Only the write that adds a run
//! computes its time. So a node with other data about time zones never makes a second run.

pub mod advance;
pub mod again;
mod count;
pub mod cron;
pub mod day;
pub mod field;
pub mod life;
pub mod line;
pub mod missed;
pub mod plan;
pub mod run;
pub mod why;
pub mod words;

#[cfg(test)]
mod advance_tests;
#[cfg(test)]
mod again_tests;
#[cfg(test)]
mod cron_tests;
#[cfg(test)]
mod walk_tests;

/// The mistake in an expression, in words for its author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mistake(pub String);

impl Mistake {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Hashes bytes to 64 bits, the same in every release and on every node: FNV-1a, then a finalizer.
#[must_use]
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut state: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        // The length keeps ("a", "bc") and ("ab", "c") apart.
        for byte in part.len().to_be_bytes().iter().chain(*part) {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    super::preference::mix(state)
}
