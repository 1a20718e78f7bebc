//! The call holds for the publisher what it knows of the records of one request, as far as they have come.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::{delivery::Batch, lanes::Lane};
use crate::{queue::Record, time_source::Moment};

/// How far a record has come.
pub(super) enum Sent {
    /// It is on its way, or it has its answer.
    Done,
    /// Its topic is asked for.
    TopicUnknown,
    /// The first record of the producer to its partition has to come back first.
    First,
}

/// One call, as far as it has come.
pub(super) struct Call<'a> {
    pub(super) records: &'a [Record],
    pub(super) batch: Arc<Batch>,
    pub(super) begun: Moment,
    /// The end of the time that every record has.
    pub(super) until: Moment,
    /// Lanes in which a record of this call waits for the first one: later ones wait behind it.
    pub(super) held: Mutex<Vec<Arc<Lane>>>,
}

impl Call<'_> {
    pub(super) fn held(&self) -> MutexGuard<'_, Vec<Arc<Lane>>> {
        self.held.lock()
    }
}
