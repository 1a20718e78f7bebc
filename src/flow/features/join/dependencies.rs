//! The dependencies of a waiter are read here for its claim: how each has ended, and with which result.
//!
//! They are read anew at each claim and stored nowhere: a task that waits for a thousand others stays as small as any. A row
//! whose retention has passed counts as long as the store has it. Of a task whose row is gone, or was deleted, the row of the
//! waiter says how it ended.

use std::sync::Arc;

use crate::{
    flow::base::{
        api::{Dependency, Fault, VisibleState},
        context::Context,
        read::find::view_of_row,
        rows::stored,
        tables::joins::{self, Joined},
    },
    limits::DEPENDENCIES_READ_AT_ONCE,
    model::{
        ids::TaskId,
        result::{Bounded, TaskResult},
        row::{State, TaskRow},
        time::Millis,
    },
    schema::DependencyRow,
};

/// Reads what a task waited for, in the order of the ids. Empty for a task that waited for none.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn read(
    ctx: &Context,
    waiter: TaskId,
) -> Result<Arc<[Dependency]>, Fault> {
    let joined = joins::dependencies(ctx, waiter).await?;
    let (mut bounded, now) = (Bounded::default(), ctx.now());
    let mut all = Vec::with_capacity(joined.len());
    for some in joined.chunks(DEPENDENCIES_READ_AT_ONCE) {
        let ids: Vec<TaskId> = some.iter().map(|one| one.id).collect();
        for (one, row) in some.iter().zip(stored::rows_each(ctx, &ids).await) {
            let row = match row {
                Ok(row) => row.filter(|row| !row.detail.erased),
                Err(error) if error.is_of_a_row() => {
                    tracing::warn!(task = %waiter, dependency = %one.id, %error, "a dependency cannot be understood, and counts as gone");
                    None
                }
                Err(error) => return Err(error.into()),
            };
            all.push(dependency(one, row, &mut bounded, now));
        }
    }
    Ok(all.into())
}

/// Returns about how many bytes dependencies take in an answer.
pub(in crate::flow) fn bytes(dependencies: &[Dependency]) -> usize {
    /// An id, a state and the names of the fields.
    const EACH: usize = 128;
    let of_result = |result: &TaskResult| {
        let bytes = result.bytes().map_or(0, |bytes| bytes.len());
        bytes + result.content_type.len()
    };
    let results = dependencies.iter().filter_map(|one| one.result.as_ref());
    EACH * dependencies.len() + results.map(of_result).sum::<usize>()
}

fn dependency(
    joined: &Joined,
    row: Option<TaskRow>,
    bounded: &mut Bounded,
    now: Millis,
) -> Dependency {
    let Some(row) = row else {
        let ended = match joined.row {
            DependencyRow::Ended(outcome) => Some(outcome),
            DependencyRow::Open { .. } => None,
        };
        return Dependency {
            id: joined.id,
            state: ended.and_then(|outcome| ended_as(outcome.state)),
            tree: None,
            result: None,
            gone: true,
        };
    };
    let result = row.detail.result.as_ref();
    let result = result.map(|result| bounded.shown(result));
    let view = view_of_row(row, None, now);
    Dependency {
        id: view.id,
        state: Some(view.state),
        tree: view.tree.map(|tree| tree.outcome),
        result,
        gone: false,
    }
}

const fn ended_as(state: State) -> Option<VisibleState> {
    Some(match state {
        State::Succeeded => VisibleState::Succeeded,
        State::Failed => VisibleState::Failed,
        State::Cancelled => VisibleState::Cancelled,
        State::Expired => VisibleState::Expired,
        State::Dead => VisibleState::Dead,
        State::New | State::Claimed | State::Retrying => return None,
    })
}
