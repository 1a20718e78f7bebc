//! The standing check tells the stages that register whether a task needs no registration any more.
//!
//! A task stands when its row is there, when a mark says how it ended, or when an entry of it lies in a slot that is still
//! open. On a cluster that entry is written once more, as it may lie on one replica alone. The slot is looked at after that, so
//! its scanner will see the entry: the same order by which a registration is acknowledged. An entry in a slot that is closed
//! proves nothing. Its writer may have died before it looked at the clock, and the reader of the slot may have gone before the
//! entry came.

use std::{slice, sync::Arc};

use futures_util::future::join_all;

use crate::{
    flow::{
        base::{
            api::{Fault, TaskView, View},
            context::Context,
            entries::watermarks::Watermarks,
            read::find::{Finder, Subject, unwritten_view, view_of_row},
        },
        features::sequence::place,
    },
    model::{
        dispatch::Dispatch,
        entry::{DoneReason, Entry, Kind},
        ids::TaskId,
        look::Grid,
        row::State,
        task::Spec,
        time::Tick,
    },
};

/// The check.
#[derive(Debug, Clone)]
pub(in crate::flow) struct ExistenceCheck {
    ctx: Arc<Context>,
    watermarks: Watermarks,
    finder: Finder,
}

impl ExistenceCheck {
    /// Reads through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        watermarks: Watermarks,
        finder: Finder,
    ) -> Self {
        Self {
            ctx,
            watermarks,
            finder,
        }
    }

    /// Returns each task as it is now if it stands; none when it has to be registered (again).
    pub(in crate::flow) async fn find(
        &self,
        ids: &[TaskId],
    ) -> Vec<Result<Option<TaskView>, Fault>> {
        if ids.is_empty() {
            return Vec::new();
        }
        let subjects = self.finder.subjects(ids).await;
        let finds = ids.iter().zip(subjects);
        join_all(finds.map(|(id, subject)| self.view(*id, subject))).await
    }

    /// Returns a task as it is now if it stands.
    pub(in crate::flow) async fn one(&self, id: TaskId) -> Result<Option<TaskView>, Fault> {
        let subject = self.finder.subjects(&[id]).await.pop();
        self.view(id, subject.unwrap_or(Ok(None))).await
    }

    async fn view(
        &self,
        id: TaskId,
        subject: Result<Option<Subject>, Fault>,
    ) -> Result<Option<TaskView>, Fault> {
        let Some(Subject { row, spec, entry }) = subject? else {
            return Ok(None);
        };
        let told = row
            .as_ref()
            .is_some_and(|row| spec.target.is_tracked() || row.state == State::Cancelled);
        if !told {
            let stands = match &entry {
                Some(entry) => self.is_safe(entry).await?,
                None => false,
            };
            if !stands {
                return Ok(None);
            }
            self.keep_place(id, &spec).await?;
        }
        if let Some(view) = self.finder.get(id, View::Basic).await? {
            return Ok(Some(view));
        }
        // Its retention has passed, or it went away between the reads: what was seen is the answer.
        let now = self.ctx.now();
        Ok(Some(match row {
            Some(row) => view_of_row(row, None, now),
            None => unwritten_view(id, &spec, id.first_start()),
        }))
    }

    /// Makes the place of a task in its sequence sure. The request that wrote its entry may have died, or lost the store, before
    /// that, and whoever asks again is told that the task stands.
    async fn keep_place(&self, id: TaskId, spec: &Spec) -> Result<(), Fault> {
        // One that waits for others gets its place when it is released.
        if spec.awaits() {
            return Ok(());
        }
        let dispatch = Dispatch::first(id, id.first_start());
        let place = place::announce_one(&self.ctx, spec, dispatch).await?;
        place::confirm_one(&self.ctx, place).await
    }

    /// Tells whether nothing more has to be done for an entry that was read before this call.
    async fn is_safe(&self, entry: &Entry) -> Result<bool, Fault> {
        match entry.kind {
            Kind::Done {
                reason: DoneReason::Cancelled | DoneReason::Published,
                ..
            } => Ok(true),
            Kind::Done {
                reason: DoneReason::Moved { .. },
                ..
            } => Ok(false),
            Kind::Due { .. } | Kind::Look { .. } => {
                let opened = self.watermarks.opened(entry.key.wheel()).await?;
                if self.is_open(entry, opened) && self.is_kept(entry).await? {
                    return Ok(true);
                }
                if entry.spec.target.is_tracked() {
                    self.has_look(entry.key.id).await
                } else {
                    Ok(false)
                }
            }
        }
    }

    /// Makes an entry durable that was read, and tells whether its slot is open still. The read may have seen what one replica
    /// has alone, as its writer got no answer, and the scanner of the slot may read the others. It is written as it was: what
    /// was written later about the task stays.
    async fn is_kept(&self, entry: &Entry) -> Result<bool, Fault> {
        if self.ctx.underway.is_some() {
            return Ok(true);
        }
        for written in self.ctx.store.put_entries(slice::from_ref(entry)).await {
            written?;
        }
        let opened = self.watermarks.opened(entry.key.wheel()).await?;
        Ok(self.is_open(entry, opened))
    }

    fn is_open(&self, entry: &Entry, opened: Tick) -> bool {
        self.ctx.tick().tick_of(entry.key.due) > opened
    }

    /// Tells whether a look of a task lies ahead. From its first publication on there is one.
    ///
    /// # Errors
    /// When the store is away.
    pub(super) async fn has_look(&self, id: TaskId) -> Result<bool, Fault> {
        let grid = Grid::of(id, self.ctx.shape());
        let ahead = self.ctx.rules.look_ahead;
        let mut points = grid.points_around(self.ctx.now());
        points.extend(grid.near_points(id.first_start(), self.ctx.shape(), ahead));
        points.sort_unstable();
        points.dedup();
        let found = self.ctx.store.find_entries(id, &points).await?;
        let opened = self.watermarks.opened(id.wheel()).await?;
        let is_ahead =
            |entry: &&Entry| matches!(entry.kind, Kind::Look { .. }) && self.is_open(entry, opened);
        match found.iter().find(is_ahead) {
            Some(look) => self.is_kept(look).await,
            None => Ok(false),
        }
    }
}
