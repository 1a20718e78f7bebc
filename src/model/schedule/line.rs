//! The line of a schedule has the missed times whose runs are to follow each other, as the first of them and the last.
//!
//! The times between are those of the plan, so a line of thousands takes no more room in the record than one of two. Its runs
//! start one by one, each behind the end of the one before. A time that comes while there is a line joins it. Times older than
//! the window, or beyond [`LINE_MAX`], are missed for good: the oldest first.

use std::time::Duration;

use super::{
    life::{Line, ScheduleSpec},
    missed::{MISSED_AFTER, WINDOW_MAX},
    plan::Plan,
};
use crate::model::time::Millis;

/// Most times of a line: months of an hourly schedule, and hours of one that runs each second.
pub const LINE_MAX: u64 = 10_000;

/// Most times that are counted one by one as missed in a write, where only a walk can count them.
const COUNTED_MAX: usize = 512;

const LEAST: Duration = Duration::from_millis(1);

/// The part of a line that still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The line; none when nothing of it runs.
    pub line: Option<Line>,
    /// Times that are missed for good.
    pub missed: u64,
    /// More of them are to be counted at once.
    pub more: bool,
}

impl Line {
    /// Returns the line with the times from `time` to `now`, of which none is decided on. The first of them is behind its last.
    #[must_use]
    pub fn joined(line: Option<Self>, time: Millis, plan: &Plan, now: Millis) -> Self {
        Self {
            next: line.map_or(time, |line| line.next),
            last: plan.last(time, now).unwrap_or(time),
        }
    }

    /// Returns the line behind its next run.
    #[must_use]
    pub fn rest(self, plan: &Plan) -> Option<Self> {
        let next = plan.next(self.next).filter(|next| *next <= self.last)?;
        Some(Self { next, ..self })
    }

    /// Leaves out what is too old, or too much.
    #[must_use]
    pub fn kept(self, plan: &Plan, spec: &ScheduleSpec, now: Millis) -> Kept {
        let window = spec.window.min(WINDOW_MAX).max(MISSED_AFTER);
        let (mut from, behind) = (self.next.max(now.before(window)), self.last.after(LEAST));
        if plan.count_at_most(from, behind) > LINE_MAX {
            // Of these times there are too many from the first on, and not from the second.
            let (mut many, mut few) = (from, behind);
            while many.after(LEAST) < few {
                let middle = Millis(many.0 + (few.0 - many.0) / 2);
                if plan.count_at_most(middle, behind) > LINE_MAX {
                    many = middle;
                } else {
                    few = middle;
                }
            }
            from = few;
        }
        let next = if from > self.next {
            let next = plan.next(from.before(LEAST));
            next.filter(|next| *next <= self.last)
        } else {
            Some(self.next)
        };
        let line = next.map(|next| Self { next, ..self });
        let until = next.unwrap_or(behind);
        match plan.count(self.next, until) {
            Some(missed) => Kept {
                line,
                missed,
                more: false,
            },
            None => self.walked(plan, line, until),
        }
    }

    /// Counts the times before `until` one by one, within a bound.
    fn walked(self, plan: &Plan, kept: Option<Self>, until: Millis) -> Kept {
        let (mut at, mut missed) = (Some(self.next), 0);
        while let Some(time) = at.filter(|time| *time < until) {
            if missed == COUNTED_MAX as u64 {
                let line = Some(Self { next: time, ..self });
                return Kept {
                    line,
                    missed,
                    more: true,
                };
            }
            missed += 1;
            at = plan.next(time);
        }
        Kept {
            line: kept,
            missed,
            more: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::model::schedule::{
        advance::Seen,
        advance_tests::{BEGIN, ENDED, Life, MINUTE, SECOND, spec},
        life::{ChangeMark, Missed, Overlap, Pause, State},
        plan,
    };

    const HOUR: Duration = Duration::from_secs(3600);

    fn plan(texts: &[&str]) -> Plan {
        Plan {
            rules: texts
                .iter()
                .map(|text| plan::read(text, 1).unwrap().rule)
                .collect(),
            zone: TimeZone::UTC,
            anchor: Millis(0),
            start: None,
            end: None,
        }
    }

    fn hourly() -> ScheduleSpec {
        ScheduleSpec {
            window: Duration::from_secs(24 * 3600),
            ..spec(Duration::from_secs(3600))
        }
    }

    #[test]
    fn a_line_has_the_times_of_its_plan_one_after_the_other() {
        let plan = plan(&["@every 1h"]);
        let hour = 3_600_000;
        let now = Millis(5 * hour + 7);
        let line = Line::joined(None, Millis(2 * hour), &plan, now);
        assert_eq!(line.last, Millis(5 * hour));
        let times = std::iter::successors(Some(line), |line| line.rest(&plan));
        let times: Vec<i64> = times.map(|line| line.next.0 / hour).collect();
        assert_eq!(times, [2, 3, 4, 5]);
        let later = Line::joined(Some(line), Millis(6 * hour), &plan, Millis(7 * hour));
        assert_eq!((later.next, later.last), (line.next, Millis(7 * hour)));
        let kept = later.kept(&plan, &hourly(), Millis(7 * hour));
        let whole = Kept {
            line: Some(later),
            missed: 0,
            more: false,
        };
        assert_eq!(kept, whole);
    }

    #[test]
    fn times_before_the_window_are_missed() {
        let hour = 3_600_000;
        for texts in [&["@every 1h"][..], &["@hourly"], &["@every 1h", "@hourly"]] {
            let plan = plan(texts);
            let now = Millis(100 * hour + 1);
            let line = Line::joined(None, Millis(10 * hour), &plan, now);
            let kept = line.kept(&plan, &hourly(), now);
            // From hour 77 on.
            let rest = kept.line.unwrap();
            assert_eq!(
                (rest.next, kept.missed),
                (Millis(77 * hour), 67),
                "{texts:?}"
            );
            let over = line.kept(&plan, &hourly(), Millis(200 * hour));
            assert_eq!((over.line, over.missed), (None, 91), "{texts:?}");
        }
    }

    #[test]
    fn the_oldest_beyond_the_most_are_missed() {
        let most = i64::try_from(LINE_MAX).unwrap();
        for texts in [&["@every 1s"][..], &["* * * * * *"]] {
            let plan = plan(texts);
            let now = Millis((most + 5) * 1000);
            let line = Line::joined(None, Millis(1000), &plan, now);
            let kept = line.kept(&plan, &hourly(), now);
            let rest = kept.line.unwrap();
            assert_eq!((rest.next, kept.missed), (Millis(6000), 5), "{texts:?}");
            let count = plan.count(rest.next, rest.last.after(LEAST));
            assert_eq!(count, Some(LINE_MAX), "{texts:?}");
        }
    }

    #[test]
    fn times_that_only_a_walk_counts_are_counted_in_several_writes() {
        let plan = plan(&["@every 1s", "* * * * * *"]);
        let now = Millis(200_000_000);
        let mut at = Some(Line::joined(None, Millis(1000), &plan, now));
        let (mut missed, mut writes) = (0, 0);
        loop {
            let kept = at.unwrap().kept(&plan, &hourly(), now);
            (at, missed, writes) = (kept.line, missed + kept.missed, writes + 1);
            assert!(kept.missed <= 512);
            if !kept.more {
                break;
            }
        }
        // Both rules count, though their times are the same.
        let first = at.unwrap().next.0 / 1000;
        assert_eq!(first, 195_001);
        assert_eq!(missed, 195_000);
        assert_eq!(writes, 381);
    }
    fn life(window: Duration) -> Life {
        Life::new(ScheduleSpec {
            overlap: Overlap::OneByOne,
            missed: Missed::All,
            window,
            ..spec(HOUR)
        })
    }

    /// Ends the run that goes on; returns the hour of the one that follows.
    fn next(life: &mut Life) -> Option<u64> {
        if let [run] = life.at.ahead.as_slice() {
            life.see(run.seq, ENDED);
        }
        life.now = life.now.after(MINUTE);
        life.look();
        let hour = |time: Millis| time.since(BEGIN).as_secs() / 3600;
        life.at.ahead.first().map(|run| hour(run.time))
    }

    #[test]
    fn missed_runs_follow_each_other_and_later_times_wait_behind_them() {
        let mut life = life(24 * HOUR);
        life.look_at(HOUR * 3 + MINUTE * 5);
        // Nothing was there for three hours. Each run waits for the end of the one before.
        assert_eq!(
            (life.seqs(), life.at.missed, life.at.skipped),
            (vec![1], 0, 0)
        );
        let wake = life.at.wake.unwrap();
        assert!(wake > life.now && wake <= life.now.after(SECOND * 15));
        // The mark of its entry is written once.
        life.look();
        assert_eq!(life.once(), None, "the first run has not ended");
        assert_eq!(next(&mut life), Some(2));
        // The fourth comes due while the second goes on.
        life.look_at(HOUR * 4);
        assert_eq!((life.seqs(), life.at.skipped), (vec![2], 0));
        assert_eq!(next(&mut life), Some(3));
        assert_eq!(next(&mut life), Some(4));
        assert_eq!(next(&mut life), None);
        assert_eq!((life.at.line, life.at.used, life.at.missed), (None, 4, 0));
        // There is no line any more: a run that is not over keeps the next one from running, as by default.
        life.look_at(HOUR * 5);
        assert_eq!(life.seqs(), [5]);
        life.see(5, Seen::Active);
        life.look_at(HOUR * 6);
        assert_eq!((life.seqs(), life.at.skipped), (vec![5], 1));
    }

    #[test]
    fn what_has_waited_beyond_the_window_is_missed() {
        let mut life = life(3 * HOUR);
        life.look_at(HOUR * 10 + MINUTE);
        // Of ten hours the last three are made up for: 8, 9 and 10.
        assert_eq!((life.seqs(), life.at.missed), (vec![1], 7));
        life.look_at(HOUR * 12 + MINUTE);
        // Nine has waited for too long by now, and the run of eight still goes on.
        assert_eq!((life.seqs(), life.at.missed), (vec![1], 8));
        assert_eq!(next(&mut life), Some(10));
    }

    #[test]
    fn a_limit_a_change_and_a_pause_end_a_line() {
        let mut limited = life(24 * HOUR);
        limited.at.spec.limit = Some(2);
        limited.look_at(HOUR * 5 + MINUTE);
        assert_eq!(next(&mut limited), Some(2));
        assert_eq!((next(&mut limited), limited.at.line), (None, None));
        assert_eq!((&limited.at.state, limited.at.used), (&State::Ended, 2));
        let mut paused = life(24 * HOUR);
        paused.look_at(HOUR * 5 + MINUTE);
        assert!(paused.at.line.is_some());
        let mark = ChangeMark {
            id: 7,
            at: paused.now,
        };
        let paused = paused.at.paused(Pause::default(), mark).unwrap();
        assert_eq!(paused.line, None);
    }
}
