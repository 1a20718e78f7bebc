//! The rows of ended tasks let the lister find, for people, tasks that have ended, where the store cannot list them by its rows.
//!
//! A row lies in the partition of callback, state and day of the end. It is one plain write of the end steps, behind the row of
//! the task: a crash in between leaves a task without it, and the look of the task repeats the steps, which write under the same
//! place. It ends when the task can be read no more. The deletion of the task removes it. A task that was redriven, or has ended
//! again on another day, leaves it behind, and whoever reads it looks at the task and removes it then.
//!
//! Tasks that succeed have rows only where their callback asks for that: they are the many.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::rows_by_id::{self, sort};
use crate::{
    flaw::{self, Flaw},
    flow::{api::Fault, context::Context},
    model::{
        dead_letter,
        ids::TaskId,
        row::{State, TaskRow},
        time::Millis,
    },
    store::{
        self,
        index::{IndexKind, IndexPut, IndexRemoval, IndexRow, Partition, Place, Refused},
    },
};

const DAY_MS: i64 = 24 * 3600 * 1000;

/// The states that are filed, in the order in which a day is read.
pub(in crate::flow) const FILED: [State; 5] = [
    State::Dead,
    State::Failed,
    State::Expired,
    State::Cancelled,
    State::Succeeded,
];

/// The tasks of a callback that ended in one state on one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) struct Part<'a> {
    pub(in crate::flow) callback: &'a str,
    pub(in crate::flow) state: State,
    /// Days since 1970.
    pub(in crate::flow) day: i64,
}

/// Returns the day of an instant, as a number since 1970.
pub(in crate::flow) const fn day_of(at: Millis) -> i64 {
    at.0.div_euclid(DAY_MS)
}

/// Writes the row of a task that has ended, where the store needs one, and removes that of a task that was deleted. Others cost
/// nothing.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn file(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let (Some(callback), Some(end)) = (row.detail.spec.callback(), row.detail.end_time) else {
        return Ok(());
    };
    if ctx.store.lists_ended_tasks() || !FILED.contains(&row.state) {
        return Ok(());
    }
    let part = Part {
        callback,
        state: row.state,
        day: day_of(end),
    };
    let place = Place::new(partition(part)?, sort(row.id))?;
    let written = ctx.time.stamp();
    if row.detail.erased {
        let removal = [IndexRemoval { place, written }];
        return done(ctx.store.remove_index(&removal).await);
    }
    if row.state == State::Succeeded && !lists_succeeded(ctx, callback).await? {
        return Ok(());
    }
    // The end of a task that may have children is that of its tree.
    let end = row.ended_at().unwrap_or(end).after(dead_letter::kept(row));
    let put = IndexPut::new(place, Bytes::new(), written)?.until(end);
    let written = ctx.store.put_index(&[put]).await;
    if flaw::is(Flaw::EndedRowLeft) {
        return Ok(());
    }
    done(written)
}

fn done(results: Vec<Result<(), store::Error>>) -> Result<(), Fault> {
    let all: Result<(), store::Error> = results.into_iter().collect();
    Ok(all?)
}

/// Tells whether tasks of a callback that succeed have rows.
///
/// # Errors
/// When the configuration cannot be read.
pub(in crate::flow) async fn lists_succeeded(ctx: &Context, callback: &str) -> Result<bool, Fault> {
    let policy = ctx.configured.policy(&*ctx.store, callback).await?;
    Ok(policy.is_some_and(|policy| policy.list_succeeded))
}

/// Reads the ids of a part behind `after`. Also returns behind which id there may be more.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn read(
    ctx: &Context,
    part: Part<'_>,
    after: TaskId,
    rows_max: usize,
) -> Result<(Vec<(TaskId, IndexRow)>, Option<TaskId>), Fault> {
    rows_by_id::read(ctx, partition(part)?, after, rows_max).await
}

/// Removes a row that was read and whose task is not as it says. A failure is left to the next reader.
pub(in crate::flow) async fn forget(ctx: &Context, part: Part<'_>, row: &IndexRow) {
    rows_by_id::forget(ctx, partition(part), row).await;
}

fn partition(part: Part<'_>) -> Result<Partition, Refused> {
    let mut name = BytesMut::new();
    name.put_i64(part.day);
    name.put_i8(part.state.number());
    name.put_slice(part.callback.as_bytes());
    Partition::new(IndexKind::Ended, name.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_other_callbacks_states_and_days_lie_apart() {
        let part = Part {
            callback: "mail",
            state: State::Dead,
            day: day_of(Millis(1_800_000_000_000)),
        };
        let place = |part| partition(part).unwrap();
        for other in [
            Part {
                callback: "mai",
                ..part
            },
            Part {
                state: State::Failed,
                ..part
            },
            Part {
                day: part.day + 1,
                ..part
            },
        ] {
            assert_ne!(place(part), place(other));
        }
        assert_eq!((day_of(Millis(-1)), day_of(Millis(0))), (-1, 0));
        let terminal = State::ALL.into_iter().filter(|state| state.is_terminal());
        assert!(terminal.clone().all(|state| FILED.contains(&state)));
        assert_eq!(terminal.count(), FILED.len());
    }
}
