//! The counts of what waits for something else than its start or a worker, by callback, for the overview.

use crate::{
    api::stats::StatsResponse,
    http::ui::parts::{
        frame::part,
        text::{grouped, visible},
    },
};

/// The tasks of a callback that wait for something else than their start or a worker.
pub(super) struct Waits {
    pub(super) callback: String,
    /// The page of the callback; empty where there is none.
    pub(super) path: String,
    pub(super) counts: [String; 5],
}

/// Returns the callbacks with the most tasks that wait for something else than their start or a worker.
pub(super) fn by_callback(stats: &StatsResponse) -> Vec<Waits> {
    const SHOWN: usize = 8;
    let some = stats.tasks.callbacks.iter().map(|one| {
        let counts = [one.retrying, one.waiting, one.limited, one.held, one.dead];
        (one, counts)
    });
    let some = some.filter(|(_, counts)| counts.iter().any(|count| *count > 0));
    let rows = some.take(SHOWN).map(|(one, counts)| Waits {
        path: if one.callback == "(other)" {
            String::new()
        } else {
            format!("/callbacks/{}", part(&one.callback))
        },
        callback: visible(&one.callback),
        counts: counts.map(grouped),
    });
    rows.collect()
}
