//! The awaiter answers requests that wait for the end of a task (`?wait=`).
//!
//! An end that this node writes wakes the request at once. One that another node writes is found by reading the task again: the
//! reads are the closer, the fewer wait at the node, and seldom as long as the task cannot have ended but by a cancel. A process
//! whose store is its own writes every end itself, and reads again for the case alone that the outcome of a write was unknown.

use std::{sync::Arc, time::Duration};

use crate::{
    flow::base::{
        api::{Fault, TaskView, View},
        context::Context,
        read::find::Finder,
    },
    limits::{END_READ_APART, END_READ_FIRST, END_READ_MAX, END_READ_MIN},
    model::{expiry, ids::TaskId, task::Spec, time::Millis},
};

/// The awaiter. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Awaiter {
    ctx: Arc<Context>,
    finder: Finder,
}

impl Awaiter {
    /// Reads by this finder.
    #[must_use]
    pub(in crate::flow) fn new(ctx: Arc<Context>, finder: Finder) -> Self {
        Self { ctx, finder }
    }

    /// Reads a task once it is terminal, or as it is when `wait` has passed; none when there is no such task. A caller that is
    /// cancelled leaves nothing behind.
    ///
    /// # Errors
    /// When the store is away.
    pub(in crate::flow) async fn get(
        &self,
        id: TaskId,
        view: View,
        wait: Duration,
    ) -> Result<Option<TaskView>, Fault> {
        let until = self.ctx.time.moment().after(wait);
        let waiting = self.ctx.end_waits.add(id);
        let (mut pause, mut open) = (END_READ_FIRST, None);
        loop {
            // Before the read: an end that comes behind it is not missed.
            let ended = waiting.next();
            let left = until.since(self.ctx.time.moment());
            let goes_on = match &open {
                Some(open) if !left.is_zero() => self.goes_on(id, open).await?,
                Some(_) | None => None,
            };
            let next = match goes_on {
                Some(next) => next,
                None => {
                    let task = self.finder.get(id, view).await?;
                    let Some(there) = task.as_ref().filter(|task| !task.state.is_terminal()) else {
                        return Ok(task);
                    };
                    if left.is_zero() {
                        return Ok(task);
                    }
                    open = Some((Arc::clone(&there.spec), there.start));
                    there.effective_start
                }
            };
            let ahead = self.ctx.now().until(next);
            let read = pause_of(pause, ahead, self.longest()).min(left);
            tokio::select! {
                biased;
                () = ended => {}
                () = self.ctx.time.sleep(read) => pause = (pause * 3 / 2).min(END_READ_MAX),
            }
        }
    }

    /// Returns when a task that was open acts next, by its row alone; none if it may have ended, and is to be read whole. A
    /// search for the entry of a task that nobody has claimed yet costs more than a row, and cannot find an end.
    async fn goes_on(
        &self,
        id: TaskId,
        (spec, start): &(Arc<Spec>, Millis),
    ) -> Result<Option<Millis>, Fault> {
        let over = expiry::of(spec, *start).is_some_and(|at| at <= self.ctx.now());
        // The entry of a record tells its end.
        if over || !spec.target.is_tracked() {
            return Ok(None);
        }
        let row = self.finder.row(id).await?;
        Ok(match row {
            None => Some(id.first_start()),
            Some(row) if row.state.is_terminal() && !row.waits_for_children() => None,
            Some(row) => Some(row.next),
        })
    }

    /// Returns the longest pause between two reads of a request, for as many as wait now.
    fn longest(&self) -> Duration {
        if self.ctx.underway.is_some() {
            return END_READ_MAX;
        }
        let waits = u32::try_from(self.ctx.end_waits.len()).unwrap_or(u32::MAX);
        END_READ_APART
            .saturating_mul(waits)
            .clamp(END_READ_MIN, END_READ_MAX)
    }
}

/// Returns how long a request waits for its next read, whose task starts in `ahead`: a task that starts later cannot have ended
/// before, unless it was cancelled.
fn pause_of(pause: Duration, ahead: Duration, longest: Duration) -> Duration {
    pause.min(longest).max(ahead.min(END_READ_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn reads_are_seldom_until_a_task_starts_and_close_from_then_on() {
        let pause = |first, ahead, longest| pause_of(MS * first, MS * ahead, MS * longest);
        assert_eq!(pause(20, 0, 50), MS * 20);
        assert_eq!(pause(500, 0, 50), MS * 50);
        // The first read behind the start is right behind it.
        assert_eq!(pause(50, 120, 50), MS * 120);
        assert_eq!(pause(50, 49, 50), MS * 50);
        assert_eq!(pause(50, 90_000, 50), END_READ_MAX);
    }
}
