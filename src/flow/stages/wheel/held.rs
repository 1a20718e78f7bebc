//! The held entry is an entry that the reader of a wheel has put into memory for the other stages.

use crate::{
    model::{entry::Entry, ledger::Number, time::Millis},
    time_source::Moment,
};

/// Where it is noted that an entry is not done yet.
#[derive(Debug, Clone, Copy)]
pub(in crate::flow) enum Noted {
    /// In the ledger of the reader.
    InOrder(Number),
    /// In the ledger of entries that the reader has passed over.
    Deferred(Number),
}

/// An entry that was read ahead.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Held {
    /// Its number in a ledger.
    pub(in crate::flow) number: Noted,
    /// The entry.
    pub(in crate::flow) entry: Entry,
    /// When handing it over failed first.
    pub(super) failing_since: Option<Moment>,
    /// It was read before it was due, so it can be handed over in time.
    pub(super) timely: bool,
    /// The copy that was to be put further on; it is not known whether it is there.
    pub(in crate::flow) copy: Option<Box<Entry>>,
}

impl Held {
    /// An entry that is read at `now`.
    pub(super) fn new(number: Noted, entry: Entry, now: Millis) -> Self {
        Self {
            number,
            timely: entry.key.due > now,
            entry,
            failing_since: None,
            copy: None,
        }
    }
}

/// Returns about how much memory an entry takes that is held, with its task. A content that is kept apart takes none until it is
/// read, and then it is counted by the node's budget.
pub(in crate::flow) fn weight(entry: &Entry) -> u64 {
    (size_of::<Held>() + entry.spec.weight()) as u64
}

/// Returns about how much memory a batch takes.
pub(super) fn weight_of(batch: &[Held]) -> u64 {
    batch.iter().map(|held| weight(&held.entry)).sum()
}
