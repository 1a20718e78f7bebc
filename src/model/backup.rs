//! The backup rule tells the registering node where to put the backup entry of a record that it sends from memory.
//!
//! The backup remains if that node dies. If it is marked in time, it never acts. Its slot must not be read before the
//! record has gone out and the mark is written, or the record goes out twice. This time does not depend on the length
//! of a tick, so the distance is a time.

use std::time::Duration;

use super::{
    time::{Millis, Tick, TickLength},
    wheel::Shape,
};

/// Least time between the start of a record and the moment in which its backup may be read. A publication and its
/// mark take milliseconds, or some hundred with a slow broker. The clock of the reading node may be a second ahead.
const DISTANCE: Duration = Duration::from_secs(3);

/// Ticks over which the backups of one moment are spread, so that they do not fill one slot.
const SPREAD_TICKS: u64 = 3;

/// Returns how many ticks cover the distance; one at least.
#[must_use]
pub fn distance_ticks(tick: TickLength) -> i64 {
    let tick_ms = u128::from(tick.millis().unsigned_abs()).max(1);
    i64::try_from(DISTANCE.as_millis().div_ceil(tick_ms)).unwrap_or(i64::MAX)
}

/// Returns the due time of the backup of a record that starts at `start`, in a wheel that is closed up to `opened`: the end of a
/// tick, chosen among three by `chance`. Slots are read `look_ahead` ticks ahead.
#[must_use]
pub fn due(shape: &Shape, opened: Tick, start: Millis, look_ahead: i64, chance: u64) -> Millis {
    let tick = shape.tick();
    let read_late = tick.tick_of(start.after(DISTANCE)).plus(look_ahead);
    // The hand of a wheel may be ahead of the clock of this node.
    let behind_hand = opened.plus(distance_ticks(tick));
    let jitter = i64::try_from(chance % SPREAD_TICKS).unwrap_or(0);
    tick.end_of(read_late.max(behind_hand).plus(jitter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Millis = Millis(1_800_000_000_437);
    const LOOK_AHEAD: i64 = 2;

    /// For ticks of this length: from start to when the slot is read, and to when the backup goes out, at least and at most.
    fn read_and_due_ms(tick: Duration) -> [(i64, i64); 2] {
        let shape = Shape::new(2, TickLength::new(tick).unwrap(), 1_000).unwrap();
        let tick = shape.tick();
        let (mut read, mut goes_out) = ((i64::MAX, i64::MIN), (i64::MAX, i64::MIN));
        // Cases: from a task whose tick has just been closed, to one that is due at once.
        for ahead in 0..=LOOK_AHEAD {
            for chance in 0..SPREAD_TICKS {
                let opened = tick.tick_of(START).plus(ahead);
                let due = due(&shape, opened, START, LOOK_AHEAD, chance);
                let slot = tick.tick_of(due);
                assert!(slot > opened && tick.end_of(slot) == due);
                // It is opened when this tick has ended.
                let read_at = tick.end_of(slot.plus(-LOOK_AHEAD));
                let (after, out) = (read_at.0 - START.0, due.0 - START.0);
                read = (read.0.min(after), read.1.max(after));
                goes_out = (goes_out.0.min(out), goes_out.1.max(out));
            }
        }
        [read, goes_out]
    }

    #[test]
    fn a_backup_is_read_three_seconds_after_the_start_whatever_a_tick_is() {
        for tick in [TickLength::MIN, Duration::from_secs(1), TickLength::MAX] {
            let [read, goes_out] = read_and_due_ms(tick);
            let tick_ms = i64::try_from(tick.as_millis()).unwrap();
            assert!(read.0 >= 3_000, "{tick:?}: read after {read:?} ms");
            // A node that dies delays a record by the distance and a few ticks.
            let most = 3_000 + tick_ms * (1 + LOOK_AHEAD + 2 + 1);
            assert!(
                goes_out.1 <= most,
                "{tick:?}: out after {goes_out:?} ms, at most {most}"
            );
        }
    }
}
