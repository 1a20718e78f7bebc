//! The waiting message is one that a worker has received and has not claimed yet.

use bytes::Bytes;

use crate::{
    model::{task::Priority, time::Millis},
    queue::{
        message::TaskMessage,
        ready::{self, ReadyQueue},
    },
};

/// Where a message came from: topic, partition, offset.
pub(super) type Origin = (String, i32, i64);

/// A message that waits for its claim.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) origin: Origin,
    /// The record's value as it came.
    pub(super) value: Bytes,
    pub(super) message: TaskMessage,
    /// It must not be claimed before this time.
    pub(super) due: Millis,
    /// How often a claim of it failed on the side of the service.
    pub(super) failures: u32,
}

/// The messages that wait. The receiver limits their number.
pub(super) type Intake = ReadyQueue<Waiting>;

#[doc(hidden)]
impl ready::Waiting for Waiting {
    fn not_before(&self) -> Millis {
        self.due
    }

    fn start(&self) -> Millis {
        self.message.dispatch.start
    }

    fn priority(&self) -> Priority {
        self.message.spec.priority
    }

    fn bytes(&self) -> usize {
        self.value.len()
    }
}
