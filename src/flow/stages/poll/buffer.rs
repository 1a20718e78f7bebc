//! The buffered message is one that this node has received for its polls and that is not yet claimed.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::{
    flow::features::limit::limiter::{Admitted, Limiter, Permit},
    model::{
        dispatch::Dispatch,
        task::{Priority, Spec},
        time::Millis,
    },
    queue::ready::{ReadyQueue, Waiting},
};

/// Where a message came from: topic, partition, offset.
pub(super) type Origin = (String, i32, i64);

/// A message that waits for a poll.
#[derive(Debug)]
pub(super) struct Item {
    /// None where it is handled in the queue already.
    pub(super) origin: Option<Origin>,
    pub(super) dispatch: Dispatch,
    /// When the message was handed to the queue.
    pub(super) published: Millis,
    /// Not to be claimed before this.
    pub(super) not_before: Millis,
    pub(super) spec: Arc<Spec>,
    /// About how long it is in an answer.
    pub(super) bytes: usize,
    /// While it is out for a claim, the right to be claimed, if its callback has limits.
    pub(super) permit: Option<Permit>,
}

/// The messages of one callback. The feed bounds how many there may be.
pub(super) type Buffer = ReadyQueue<Item>;

/// Takes up to `max` ready messages of a callback, as many as its limits let go; `wanted` is how many the polls would take. Once
/// more may go, `signal` is told.
pub(super) fn take_admitted(
    buffer: &mut Buffer,
    limiter: &Limiter,
    callback: &str,
    (max, wanted): (usize, usize),
    bytes_max: usize,
    signal: &Arc<Notify>,
) -> Vec<Item> {
    let ready = buffer.ready();
    let asked = max.min(ready);
    if asked == 0 {
        return Vec::new();
    }
    let waiting = ready.min(wanted).max(asked);
    match limiter.admit(callback, asked, waiting, signal) {
        Admitted::All => buffer.take(asked, bytes_max),
        // Permits that are left go back.
        Admitted::Some(permits) => {
            let mut taken = buffer.take(permits.len(), bytes_max);
            for (item, permit) in taken.iter_mut().zip(permits) {
                item.permit = Some(permit);
            }
            taken
        }
    }
}

impl Waiting for Item {
    fn not_before(&self) -> Millis {
        self.not_before
    }

    fn start(&self) -> Millis {
        self.dispatch.start
    }

    fn priority(&self) -> Priority {
        self.spec.priority
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
