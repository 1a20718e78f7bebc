//! The readers of answers check for the client that an answer is one of this service.

use super::{Error, Registered};
use crate::api::task_response::TaskResponse;

/// Reads the id of a task that was registered.
pub(super) fn registered(task: TaskResponse) -> Result<Registered, Error> {
    let id = task.id.parse();
    let id = id.map_err(|error| not_ours(format!("{:?} is {error}", task.id)))?;
    Ok(Registered { id, task })
}

/// Returns the results of a batch, when there is one of each item.
pub(super) fn one_each<T>(results: Vec<T>, count: usize) -> Result<Vec<T>, Error> {
    let got = results.len();
    if got == count {
        Ok(results)
    } else {
        Err(not_ours(format!("{got} results for {count} items")))
    }
}

pub(super) fn not_ours(reason: String) -> Error {
    Error::Unexpected {
        server: "the server".to_owned(),
        reason,
    }
}
