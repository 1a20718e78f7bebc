//! The put is what the reschedule stage writes for a new start before the row of the task.

use crate::model::entry::Entry;

/// The durable stand-in for a new start.
#[derive(Debug)]
pub(super) enum Put {
    /// An entry in its slot.
    Slot(Entry),
    /// The durable record of a task that is due too soon for its slot, and goes out from memory.
    Near(Entry),
}

impl Put {
    /// Returns it.
    pub(super) const fn entry(&self) -> &Entry {
        match self {
            Self::Slot(entry) | Self::Near(entry) => entry,
        }
    }
}
