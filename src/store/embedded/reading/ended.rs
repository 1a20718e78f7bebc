//! The walk over the rows of tasks finds the tasks that have ended for lists: their entries are gone after
//! ten minutes.
//!
//! Rows lie in the order of ids, which begin with the first start, in one keyspace, so one ordered read
//! passes them. No index is kept; rows of tasks that have not ended are passed over.

use crate::{
    model::{ids::TaskId, time::Millis},
    store::{
        EndedPage, Error,
        embedded::{
            disk::database::{Open, Space},
            faults::fault,
            key::{self, family},
            value,
        },
    },
};

/// Reads up to `rows_max` rows behind an id, and returns those of tasks that have ended.
pub(in crate::store::embedded) fn page(
    open: &Open,
    behind: TaskId,
    rows_max: usize,
    now: Millis,
) -> Result<EndedPage, Error> {
    let (operation, now) = ("list tasks that have ended", open.expired_by(now));
    let from = [&*key::task(behind), &[0]].concat();
    let rows = open
        .space(Space::Row)
        .range(from..vec![family::TASK + 1])
        .take(rows_max.max(1));
    let mut page = EndedPage::default();
    for (count, row) in rows.enumerate() {
        let (key, found) = row.into_inner().map_err(|cause| fault(operation, &cause))?;
        let id = key::task_of(&key).ok_or_else(|| Error::Corrupt {
            operation,
            reason: "the key of a row is cut short".to_owned(),
        })?;
        if count + 1 >= rows_max.max(1) {
            page.reached = Some(id);
        }
        if !value::is_live(&found, now) {
            continue;
        }
        match value::parse_task(id, &found) {
            Ok(row) if row.state.is_terminal() => page.rows.push(row),
            Ok(_) => {}
            // The others are listed. A read of the task by its id says what is wrong with it.
            Err(cause) => {
                tracing::debug!(task = %id, %cause, "a row is left out of a list");
                page.unread.push(id);
            }
        }
    }
    Ok(page)
}
