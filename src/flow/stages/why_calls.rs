//! The calls of the service that tell people why something does not run, what comes, and what becomes of tasks.

use super::{
    query::{
        forecast::{Ahead, Steps},
        why::Why,
    },
    service::Service,
};
use crate::{
    flow::base::{
        agendas::watches::{Watch, Watched},
        api::Fault,
    },
    model::ids::TaskId,
};

impl Service {
    /// Tells what keeps a task from running; none when there is no such task.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn why(&self, id: TaskId) -> Result<Option<Why>, Fault> {
        self.explainer.explain(id).await
    }

    /// Counts the tasks that are due in steps ahead, of one callback or of all.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn forecast(&self, callback: Option<&str>, steps: Steps) -> Result<Ahead, Fault> {
        self.forecaster.ahead(callback, steps).await
    }

    /// Follows a task, or the tasks of a callback, by the rows that this node writes; none when there are too many readers.
    #[must_use]
    pub fn watch(&self, watched: Watched) -> Option<Watch> {
        self.ctx.watches.add(watched)
    }

    /// Returns the name of the node, and whether it writes the rows of all tasks.
    #[must_use]
    pub fn node(&self) -> (&str, bool) {
        (&self.ctx.name, self.ctx.underway.is_some())
    }
}
