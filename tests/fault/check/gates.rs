//! The checks of I17 judge the tasks of a callback whose gate is closed now and then.

use super::{
    history::{History, Task},
    pieces::Closed,
};

/// A pause holds from two seconds after its acknowledgement on; clocks may differ by one, and a run begins a
/// moment after its claim.
const HOLDS_AFTER_MS: i64 = 3_000;

/// Time with an open gate and without faults in which a task begins. Promised are two seconds; the rest is for
/// a machine of two busy cores.
const RELEASED_MAX_MS: i64 = 10_000;

/// The same where a fault has touched the task: it may wait for its look and for what others wait, too.
const RELEASED_AFTER_FAULT_MAX_MS: i64 = 90_000;

const KINDS: [&str; 1] = ["gated"];

fn tasks(history: &History) -> impl Iterator<Item = &Task> {
    let pieces = history.pieces.of_kind(&KINDS);
    pieces.flat_map(|piece| history.tasks_of(piece))
}

/// I17. No run begins while the gate is closed for sure.
pub(super) fn held(history: &History) -> Vec<String> {
    let found = tasks(history).flat_map(|task| {
        task.runs.iter().filter_map(move |run| {
            let closed = history.pieces.closed.iter().find(|closed| {
                closed.told.saturating_add(HOLDS_AFTER_MS) < run.begin && run.begin < closed.opening
            })?;
            let behind = run.begin - closed.told;
            (!run.was_held_up()).then(|| {
                format!(
                    "{}: began {behind} ms after the pause of {closed:?}: {run:?}",
                    task.id
                )
            })
        })
    });
    found.collect()
}

/// I17. Each task begins soon after the gate is open.
pub(super) fn released(history: &History) -> Vec<String> {
    let found = tasks(history).filter_map(|task| {
        let begin = task.runs.first()?.begin;
        let waited = waited_ms(history, task)?;
        let touched = task.faults(history, begin).next().is_some();
        let bound = if touched {
            RELEASED_AFTER_FAULT_MAX_MS
        } else {
            RELEASED_MAX_MS
        };
        (waited > bound).then(|| {
            format!(
                "{}: waited {waited} ms with an open gate and nothing broken, until {begin}",
                task.id
            )
        })
    });
    found.collect()
}

/// How long a task waited for its first run while the gate was open and nothing was broken.
pub(super) fn waited_ms(history: &History, task: &Task) -> Option<i64> {
    let run = task.runs.first()?;
    let from = task.start.max(task.registered.unwrap_or(task.start));
    let gates = history.pieces.closed.iter();
    let gates = gates.map(|closed: &Closed| (closed.asked, closed.opened));
    let faults = history
        .faults
        .iter()
        .map(|fault| (fault.from, fault.healed));
    let mut stops: Vec<(i64, i64)> = gates.chain(faults).collect();
    stops.sort_unstable();
    let (mut waited, mut at) = (0, from.min(run.begin));
    for (stop, goes_on) in stops {
        waited += (stop.min(run.begin) - at).max(0);
        at = at.max(goes_on);
    }
    Some(waited + (run.begin - at).max(0))
}
