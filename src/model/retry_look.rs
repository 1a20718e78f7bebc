//! The rule for the look behind a retry tells the settle stage whether the look that a task has anyway comes soon enough.
//!
//! A retry that goes out from memory is lost with that memory, or when the queue does not answer for seconds. The
//! task's look then comes back to it. This look may lie at the end of a lease of hours, or it may be far ahead
//! because the task had waited long for a worker and its looks are rare. Then the settle stage writes another.

use super::state::TaskRow;

/// Tells whether the look of a task that was claimed lies about one claim timeout ahead at most, as far as its row shows.
#[must_use]
pub fn comes_soon(row: &TaskRow) -> bool {
    let step = row.id.look_step().duration();
    let (detail, start) = (&row.detail, row.detail.start);
    let waited = detail.claim_time.unwrap_or(start).since(start);
    // Intervals of looks are doubled from four steps of waiting on.
    detail.spec.heartbeat_timeout <= step && waited < step * 4
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::model::{
        fixtures, ids::TaskId, look_step::LookStep, state, time::Millis, wheel::WheelNumber,
    };

    #[test]
    fn long_leases_and_long_waits_want_a_look_of_their_own() {
        let step = LookStep::covering(Duration::from_secs(10)).duration();
        let ms = Duration::from_millis(1);
        for (lease, waited, soon) in [
            (step, Duration::ZERO, true),
            (step + ms, Duration::ZERO, false),
            (step, step * 4 - ms, true),
            (step, step * 4, false),
        ] {
            let start = Millis(1_800_000_000_000);
            let id = TaskId::new(start, WheelNumber::from_low_bits(0), 7)
                .with_look_step(LookStep::covering(Duration::from_secs(10)));
            let mut spec = fixtures::spec();
            spec.heartbeat_timeout = lease;
            let mut row = state::unwritten(id, &Arc::new(spec));
            row.detail.claim_time = Some(start.after(waited));
            assert_eq!(comes_soon(&row), soon, "{lease:?} {waited:?}");
        }
    }
}
