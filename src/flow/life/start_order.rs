//! The line of a request gives its tasks their starts for registration, so that tasks of a sequence run in the order of the
//! request.

use std::collections::HashMap;

use crate::{flow::base::api::NewTask, model::time::Millis};

/// The starts that were given to the tasks of a request, by callback and ordering key.
#[derive(Debug, Default)]
pub(super) struct StartOrder {
    last: HashMap<(String, String), Millis>,
}

impl StartOrder {
    /// Returns the start of the next task of the request: none is before `now`. Those of a sequence that start at once follow
    /// each other by a millisecond.
    pub(super) fn start(&mut self, task: &NewTask, now: Millis) -> Millis {
        let (callback, key) = (task.draft.target.callback(), &task.draft.ordering_key);
        let (Some(callback), Some(key)) = (callback, key) else {
            return task.start.max(now);
        };
        if task.start > now {
            return task.start;
        }
        let last = self.last.entry((callback.to_owned(), key.clone()));
        let last = last.and_modify(|last| *last = Millis(last.0 + 1));
        *last.or_insert(now)
    }
}
