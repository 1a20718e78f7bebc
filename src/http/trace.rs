//! The trace names a request: problems in its answer, also those of single items, have the same id, and logs know the request
//! by it.

use std::sync::{Arc, OnceLock};

use tokio::task::futures::TaskLocalFuture;

use crate::time_source::TimeSource;

tokio::task_local! {
    /// The request that this task is answering.
    static CURRENT: Trace;
}

/// The trace of a request. Cheap to clone; clones are the same trace.
#[derive(Debug, Clone)]
pub(super) struct Trace(Arc<Known>);

#[derive(Debug)]
struct Known {
    id: OnceLock<String>,
    time: TimeSource,
}

impl Trace {
    /// Returns the trace with the id that the client gave; without one it gets an id when it is first asked for.
    pub(super) fn new(given: Option<&str>, time: &TimeSource) -> Self {
        let id = given.map_or_else(OnceLock::new, |id| OnceLock::from(id.to_owned()));
        let time = time.clone();
        Self(Arc::new(Known { id, time }))
    }

    /// Returns its id.
    pub(super) fn id(&self) -> String {
        let random = || self.0.time.random_uuid().simple().to_string();
        self.0.id.get_or_init(random).clone()
    }

    /// Answers the request under this trace.
    pub(super) fn over<F: Future>(&self, answering: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self.clone(), answering)
    }
}

/// Returns the id of the request that is being answered; none outside of one.
pub(super) fn current_id() -> Option<String> {
    CURRENT.try_with(Trace::id).ok()
}
