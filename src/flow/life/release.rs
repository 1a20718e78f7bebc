//! The release starts for checks a task that waits for the own run of its parent, or for other tasks.
//!
//! It is a move of a task that has no entry but a look: the entry of the new generation is written first, then the row.

use std::{sync::Arc, time::Duration};

use super::{reschedule::Rescheduler, restart_kind::Wanted};
use crate::{
    flow::base::{api::Fault, entries::near_record::near_record, rows::stored},
    limits,
    model::{
        dispatch::Dispatch,
        ids::TaskId,
        state::{State, TaskRow},
        task::Spec,
        time::Millis,
    },
};

impl Rescheduler {
    /// Puts a look at a task that was released before and did not begin: the node that released it may have died between its
    /// entry, which came up too soon, and the look behind that.
    async fn look_at_released(&self, row: &TaskRow) -> Result<(), Fault> {
        if row.state != State::New || row.attempt > 0 {
            return Ok(());
        }
        let opened = self.watermarks.opened(row.id.wheel()).await?;
        let dispatch = Dispatch::next_of(row);
        if self.ctx.tick().tick_of(dispatch.start) > opened {
            return Ok(());
        }
        let look = near_record(&self.ctx, dispatch, &row.detail.spec, opened);
        let placed = self.entry_writer.place(vec![look]).await;
        placed.into_iter().try_for_each(|placed| placed.map(drop))
    }

    /// Releases a task that waits for the own run of its parent, or for others: it starts at this time. One that waits no more
    /// stays as it is.
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
            let row = stored::row(&self.ctx, id).await?;
            if let Some(released) = row.as_ref().filter(|row| !row.waits()) {
                return self.look_at_released(released).await;
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
