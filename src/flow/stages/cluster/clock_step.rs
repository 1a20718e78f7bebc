//! The clock watch reports steps of the wall clock for operators. A step is no fault of Tickwheel, but an
//! operator who sees late tasks must be able to find it.
//!
//! Tasks fire by the wall clock, and everything that waits reads the clock again, so a step needs no repair.
//! After a step forward, tasks that are due by the new time go out at once. Claims seem older than they are,
//! so an attempt may be taken for dead (its worker is fenced). After a step back, a task waits until the
//! clock shows its start again, never early, and attempts whose worker died are missed that much later.

use std::time::Duration;

use crate::{model::time::Millis, time_source::Moment};

/// How far the two clocks may come apart between two looks: NTP slews far less, and a step below it is a step's usual delay.
const APART_MAX: Duration = Duration::from_secs(1);

/// A step of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) enum Step {
    Forward(Duration),
    Back(Duration),
}

/// The values of both clocks at the last look.
#[derive(Debug, Default)]
pub(in crate::flow) struct Watch {
    last: Option<(Millis, Moment)>,
}

impl Watch {
    /// Compares how far both clocks have moved since the last look.
    pub(in crate::flow) fn look(&mut self, wall: Millis, moment: Moment) -> Option<Step> {
        let (last_wall, last_moment) = self.last.replace((wall, moment))?;
        let expected = last_wall.after(moment.since(last_moment));
        let (ahead, behind) = (wall.since(expected), expected.since(wall));
        if ahead > APART_MAX {
            Some(Step::Forward(ahead))
        } else if behind > APART_MAX {
            Some(Step::Back(behind))
        } else {
            None
        }
    }
}

impl Step {
    /// Says and counts it.
    pub(in crate::flow) fn report(self) {
        let (direction, by, follows) = match self {
            Self::Forward(by) => (
                "forward",
                by,
                "what is due by the new time goes out now; attempts that run may be taken for dead and run again",
            ),
            Self::Back(by) => (
                "back",
                by,
                "tasks wait until the clock shows their start again; attempts whose worker dies are missed that much later",
            ),
        };
        metrics::counter!("tickwheel_clock_steps_total", "direction" => direction).increment(1);
        let by_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(
            direction,
            by_ms,
            follows,
            "the wall clock was set, or the machine slept"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_source::TimeSource;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_step_is_seen_once_with_its_size_and_drift_is_not() {
        let time = TimeSource::simulated(Millis(1_800_000_000_000), 1);
        let mut watch = Watch::default();
        let mut look = async |error_ms, pause| {
            time.sleep(pause).await;
            time.set_wall_error_ms(error_ms);
            watch.look(time.now(), time.moment())
        };
        let hour = 3600 * SECOND;
        assert_eq!(look(0, SECOND).await, None);
        assert_eq!(look(900, 5 * SECOND).await, None, "slewed");
        assert_eq!(
            look(900 + 3_600_000, SECOND).await,
            Some(Step::Forward(hour))
        );
        assert_eq!(look(900 + 3_600_000, hour).await, None);
        assert_eq!(look(900, SECOND).await, Some(Step::Back(hour)));
        assert_eq!(look(-50, SECOND).await, None);
    }
}
