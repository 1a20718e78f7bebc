//! The release starts for the checks of trees a task that waits for the own run of its parent.
//!
//! It is a move of a task that has no entry: the entry of the new generation is written first, then the row.

use std::{sync::Arc, time::Duration};

use super::{reschedule::Changer, way::Wanted};
use crate::{
    flow::api::Fault,
    limits,
    model::{ids::TaskId, task::Spec, time::Millis},
};

impl Changer {
    /// Releases a task that waits for the own run of its parent: it starts at this time. One that waits no more stays as it is.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(in crate::flow) async fn release(
        &self,
        id: TaskId,
        spec: &Arc<Spec>,
        start: Millis,
    ) -> Result<(), Fault> {
        for _ in 0..limits::RACES_MAX {
            let row = self.mover.row(id).await?;
            if row.as_ref().is_some_and(|row| !row.waits_for_parent()) {
                return Ok(());
            }
            let wanted = Wanted::Released(start);
            if self.move_tracked(id, row, spec, wanted).await?.is_some() {
                return Ok(());
            }
        }
        Err(Fault::Unavailable {
            reason: format!("task {id} is being changed by many at once"),
            retry_after: Duration::from_secs(1),
        })
    }
}
