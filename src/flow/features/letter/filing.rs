//! The filing writes and removes the letters of dead tasks for their end steps, their looks and their redrives.
//!
//! Everything is named by the death: the place of a letter, and the time of its write. So a repeated write changes nothing,
//! and a removal, which has the time of the write that it removes, is final however late that write arrives. A task that dies
//! again has another letter.
//!
//! A letter is written after the row of its task, and removed after the row has moved on. A crash in between is repaired by
//! the look of the task, which every dead task and every redriven one has ahead: it repeats the step.

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        tables::letters::{Part, Scope, Spot},
    },
    model::{
        dead_letter::{self, Letter},
        ids::TaskId,
        state::TaskRow,
    },
    schema,
    store::{
        self,
        index::{IndexPut, IndexRemoval, Place, Refused},
    },
};

/// Writes the letter of a task, if it is dead.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn file(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let Some(letter) = dead_letter::letter(row) else {
        return Ok(());
    };
    let rows = puts(row.id, &letter)?;
    done(ctx.store.put_index(&rows).await)
}

/// Removes the letter of the last death that is over, if the task had one.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn withdraw(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let (Some(stamp), Some(callback)) = (row.detail.died, row.detail.spec.callback()) else {
        return Ok(());
    };
    remove(ctx, row.id, callback, stamp).await
}

/// Removes a letter.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn remove(
    ctx: &Context,
    id: TaskId,
    callback: &str,
    stamp: i64,
) -> Result<(), Fault> {
    let removal = |scope| {
        let place = letter_at(id, stamp, &scope)?;
        Ok(IndexRemoval {
            place,
            written: stamp,
        })
    };
    let rows: Result<Vec<IndexRemoval>, Refused> =
        scopes(callback).into_iter().map(removal).collect();
    let rows = rows?;
    done(ctx.store.remove_index(&rows).await)
}

/// The rows of a letter: those of the directories, which come first, and the letter in both scopes.
fn puts(id: TaskId, letter: &Letter) -> Result<Vec<IndexPut>, Refused> {
    let part = Part::of(id, letter.time);
    let mut rows = Vec::with_capacity(4);
    for scope in scopes(&letter.callback) {
        let (place, end) = part.entry(&scope, letter)?;
        // All writes of this row are the same, in all lives of all nodes.
        let written = part.day;
        rows.push(IndexPut::new(place, bytes::Bytes::new(), written)?.until(end));
    }
    for scope in scopes(&letter.callback) {
        let value = schema::encode_letter(letter, scope.names_callbacks());
        let place = letter_at(id, letter.stamp, &scope)?;
        let end = letter.time.after(letter.kept);
        rows.push(IndexPut::new(place, value, letter.stamp)?.until(end));
    }
    Ok(rows)
}

fn scopes(callback: &str) -> [Scope; 2] {
    [Scope::All, Scope::Callback(callback.to_owned())]
}

fn letter_at(id: TaskId, stamp: i64, scope: &Scope) -> Result<Place, Refused> {
    let time = dead_letter::time_of(stamp);
    let spot = Spot {
        time,
        id: id.uuid(),
    };
    Place::new(Part::of(id, time).partition(scope)?, spot.sort())
}

fn done(results: Vec<Result<(), store::Error>>) -> Result<(), Fault> {
    let all: Result<(), store::Error> = results.into_iter().collect();
    Ok(all?)
}
