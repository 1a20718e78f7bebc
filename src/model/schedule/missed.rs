//! The missed times: which of the times that have passed run all the same.
//!
//! A time is missed when its run could not start within [`MISSED_AFTER`]. The times that have passed since a missed one are
//! decided on together with it: one of them runs at most, the last, unless the user wants all.

use std::time::Duration;

use super::{
    life::{Missed, ScheduleSpec},
    plan::Plan,
};
use crate::model::time::Millis;

/// A time that passed longer ago than this was missed.
pub const MISSED_AFTER: Duration = Duration::from_secs(30);

/// Longest window in which a missed time can be made up for. The row of a task that has ended lives more than twice as long,
/// so a run that is registered again within it finds its row.
pub const WINDOW_MAX: Duration = Duration::from_secs(3 * 24 * 3600);

/// Tells whether a time passed so long ago that a run of it is late.
#[must_use]
pub fn is_late(time: Millis, now: Millis) -> bool {
    now.since(time) > MISSED_AFTER
}

/// Tells whether a late time may be made up for.
pub(super) fn is_made_up_for(spec: &ScheduleSpec, time: Millis, now: Millis) -> bool {
    spec.missed != Missed::Skip && now.since(time) <= spec.window.min(WINDOW_MAX)
}

/// Tells whether a time that comes behind a missed one, or is one, does not run. `following` is the time behind it.
pub(super) fn is_missed(
    spec: &ScheduleSpec,
    time: Millis,
    following: Option<Millis>,
    now: Millis,
) -> bool {
    let is_last = following.is_none_or(|following| following > now);
    let is_first_choice = spec.missed == Missed::All || is_last;
    let runs = is_first_choice && (!is_late(time, now) || is_made_up_for(spec, time, now));
    time <= now && !runs
}

/// Returns the time up to which all times from `time` on are passed at once: none before it runs. `time` was missed. Where there
/// is no room for a run, one missed time is left, so that those behind it are still decided on together with it.
pub(super) fn passed_until(
    spec: &ScheduleSpec,
    plan: &Plan,
    time: Millis,
    now: Millis,
    has_room: bool,
) -> Option<Millis> {
    match spec.missed {
        Missed::All => Some(now.before(spec.window.min(WINDOW_MAX).max(MISSED_AFTER))),
        Missed::Latest | Missed::Skip if has_room => plan.last(time, now),
        Missed::Latest | Missed::Skip => {
            plan.last(time, now.before(MISSED_AFTER + Duration::from_millis(1)))
        }
    }
}
