//! The advance decides what the next write of a schedule's record is: which runs start, are skipped, wait, or were missed.
//!
//! One conditional write moves `seq` and `next` together and adds the runs. So a run is decided on once, whatever nodes do at the
//! same time. Its entry in the wheel is written behind it, again and again until one is acknowledged.
//!
//! Runs are decided on half a minute before they start, so that they start at their millisecond and a crash leaves time for
//! another node. Where the end of the run before decides ([`ScheduleSpec::is_strict`]), a run is decided on ahead only if no
//! other goes on then; else it is decided on at its time.
//!
//! [`ScheduleSpec::is_strict`]: super::life::ScheduleSpec::is_strict

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    hash,
    life::{ChangeMark, Line, Overlap, Pause, Schedule, State},
    missed::{self, WINDOW_MAX},
    plan::Plan,
    run::{self, Namer, Run},
};
use crate::model::{ids::TaskId, time::Millis};

/// A run is decided on at most so long before its time.
pub const AHEAD: Duration = Duration::from_secs(60);

/// A schedule is looked at so long before its next time, and up to [`SPREAD`] earlier.
pub const LEAD: Duration = Duration::from_secs(30);

/// Schedules of one time are looked at within this span.
pub const SPREAD: Duration = Duration::from_millis(SPREAD_MILLIS);
const SPREAD_MILLIS: u64 = 25_000;

/// Most runs that a schedule keeps in sight. With so many that have not started no more are made.
pub const AHEAD_MAX: usize = 64;

/// Most runs that one write adds.
pub const RUNS_A_WRITE_MAX: usize = 16;

/// Most times that one write passes over one by one; the rest comes with the next. Where they can be counted, and behind a missed
/// time, there are fewer of them.
pub const TIMES_A_WRITE_MAX: usize = 512;

/// A time whose run has begun is remembered for so long: a change may be made by a clock that is behind, and a run may begin
/// while a change is made.
const BEGUN_KEPT: Duration = Duration::from_secs(60);

/// Most times that are remembered so: those of a minute, and those of the runs that a change found.
pub const BEGUN_MAX: usize = 2 * AHEAD_MAX;

/// A schedule whose runs do not start, or wait for another, is looked at again after this.
const AGAIN_MIN: Duration = Duration::from_secs(1);

/// A run that waits for another for long is looked at this seldom.
const AGAIN_MAX: Duration = Duration::from_secs(15);

/// The state of a run, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// No attempt of it has begun.
    Unstarted,
    /// An attempt has begun, and it has not ended.
    Active,
    /// It has ended.
    Ended {
        /// It failed for good.
        failed: bool,
    },
    /// It was withdrawn before any attempt.
    Withdrawn,
}

/// The things that a decision needs beside the record.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// The times of the schedule, by the zone data of this node.
    pub plan: &'a Plan,
    /// The version of that data.
    pub zone_data: &'a str,
    /// The names of its runs.
    pub namer: Namer<'a>,
    /// The states of the runs that the record has. Those that are not here are unstarted.
    pub seen: &'a BTreeMap<TaskId, Seen>,
    /// Runs of which it cannot be told yet whether they were entered.
    pub unsure: &'a BTreeSet<TaskId>,
    /// The time.
    pub now: Millis,
    /// The name of the change that a failed run makes.
    pub mark: u128,
}

/// The next write, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advanced {
    /// The record to write.
    pub schedule: Schedule,
    /// Runs that are skipped.
    pub skipped: Vec<Run>,
    /// Runs that are told to stop.
    pub stopped: Vec<Run>,
    /// More is to be decided at once.
    pub more: bool,
}

/// Decides on the next write; none when the record is right as it is. All valid runs of the record were entered into the wheel
/// before, but for unsure ones, and the void ones were withdrawn.
#[must_use]
pub fn advance(old: &Schedule, around: &Around<'_>) -> Option<Advanced> {
    let mut at = Advance {
        around,
        new: old.clone(),
        is_behind: false,
        skipped: Vec::new(),
        stopped: Vec::new(),
    };
    let failed = at.prune();
    let more = if old.state == State::Live {
        match failed.filter(|_| old.spec.pause_on_failure) {
            Some(run) => {
                at.pause(&run);
                true
            }
            None => at.decide(),
        }
    } else {
        false
    };
    if at.new.state != State::Live {
        at.new.wake = at.wake_for_unsure();
    } else if more {
        at.new.wake = Some(around.now);
    } else {
        at.new.wake = at.wake();
    }
    (at.new != *old).then_some(Advanced {
        schedule: at.new,
        skipped: at.skipped,
        stopped: at.stopped,
        more,
    })
}

struct Advance<'a> {
    around: &'a Around<'a>,
    new: Schedule,
    /// The first time that is not decided on was missed.
    is_behind: bool,
    skipped: Vec<Run>,
    stopped: Vec<Run>,
}

impl Advance<'_> {
    fn seen(&self, run: &Run) -> Seen {
        let known = self.around.seen.get(&run.id);
        known.copied().unwrap_or(Seen::Unstarted)
    }

    /// Drops the runs that need no more care; returns one of this generation that failed.
    fn prune(&mut self) -> Option<Run> {
        let strict = self.new.spec.is_strict();
        let is_there = self.new.state != State::Deleted;
        let (mut failed, mut begun) = (None, Vec::new());
        let mut kept = Vec::with_capacity(self.new.ahead.len());
        for run in std::mem::take(&mut self.new.ahead) {
            let is_old = run.generation != self.new.generation;
            let seen = self.seen(&run);
            // One that has begun all the same is a run like any other.
            let late = run.late && matches!(seen, Seen::Unstarted | Seen::Withdrawn);
            let keep = match seen {
                Seen::Withdrawn => {
                    self.new.used = self.new.used.saturating_sub(u64::from(is_old || late));
                    self.new.missed += u64::from(late);
                    false
                }
                Seen::Ended { failed: true } if !is_old => {
                    failed = Some(run);
                    false
                }
                Seen::Ended { .. } => false,
                // It goes on, and the next run has to know of it, even behind a pause or an end.
                Seen::Active => strict && is_there,
                // It cannot start any more: its row would tell nothing of a run before.
                Seen::Unstarted => self.around.now < run.time.after(WINDOW_MAX),
            };
            if matches!(seen, Seen::Active | Seen::Ended { .. }) && (is_old || !keep) {
                begun.push(run.time);
            }
            if keep {
                kept.push(Run {
                    entered: run.entered || !self.around.unsure.contains(&run.id),
                    late,
                    ..run
                });
            }
        }
        self.new.ahead = kept;
        self.remember(begun);
        failed
    }

    /// Remembers the times of runs that have begun. Those that no clock may come to again are forgotten.
    fn remember(&mut self, begun: Vec<Millis>) {
        if begun.is_empty() {
            return;
        }
        let since = self.around.now.before(BEGUN_KEPT);
        let since = self.new.next.map_or(since, |next| next.min(since));
        let since = self.new.line.map_or(since, |line| line.next.min(since));
        let times = &mut self.new.begun;
        times.extend(begun);
        times.retain(|time| *time >= since);
        times.sort_unstable();
        times.dedup();
        let surplus = times.len().saturating_sub(BEGUN_MAX);
        times.drain(..surplus);
    }

    fn pause(&mut self, run: &Run) {
        let now = self.around.now;
        let pause = Pause {
            reason: format!("the run {} failed: pause_on_failure", run.id),
            who: "tickwheel".to_owned(),
            since: now,
        };
        let mark = ChangeMark {
            id: self.around.mark,
            at: now,
        };
        self.new = self.new.changed(State::Paused(pause), mark);
    }

    /// Decides on the times that have come near; tells whether more is left.
    fn decide(&mut self) -> bool {
        self.let_waiting_go();
        let now = self.around.now;
        self.is_behind = self.new.next.is_some_and(|time| missed::is_late(time, now));
        let has_room = self.new.ahead.len() < AHEAD_MAX;
        if self.new.spec.overlap == Overlap::OneByOne {
            if self.line_up() {
                return true;
            }
            self.follow();
        } else {
            self.pass_missed(has_room);
        }
        if has_room && self.decide_each() {
            return true;
        }
        let waits = self.new.waiting.is_some() || self.new.line.is_some();
        if !waits && (self.new.next.is_none() || self.new.is_used_up()) {
            self.new.state = State::Ended;
            self.new.next = None;
        }
        false
    }

    /// Decides on one time after the other; tells whether more is left.
    fn decide_each(&mut self) -> bool {
        let now = self.around.now;
        let (mut added, mut passed) = (0, 0);
        while let Some(time) = self.new.next.filter(|_| !self.new.is_used_up()) {
            if time > now.after(AHEAD) {
                break;
            }
            // Those that passed since a missed time are decided on in the write that passes it.
            let passes = passed < TIMES_A_WRITE_MAX || !missed::is_late(time, now);
            if added == RUNS_A_WRITE_MAX || !passes {
                return true;
            }
            passed += 1;
            let following = self.around.plan.next(time);
            // A run of an older generation has begun.
            if self.new.begun.contains(&time) {
                self.pass(following);
                continue;
            }
            if self.is_behind && missed::is_missed(&self.new.spec, time, following, now) {
                self.new.missed += 1;
                self.pass(following);
                continue;
            }
            let waits = self.new.waiting.is_some() || self.new.line.is_some();
            let is_busy = waits || !self.new.ahead.is_empty();
            if self.new.spec.is_strict() && is_busy {
                if now < time {
                    break;
                }
                if self.new.spec.overlap != Overlap::Allow {
                    self.overlap(time, following);
                    continue;
                }
            }
            if self.new.ahead.len() >= AHEAD_MAX {
                break;
            }
            let run = self.take(time, following);
            self.new.ahead.push(run);
            added += 1;
        }
        false
    }

    /// Starts the run that waits, if no other goes on.
    fn let_waiting_go(&mut self) {
        if self.new.ahead.is_empty() {
            self.new.ahead.extend(self.new.waiting.take());
        }
    }

    /// Passes at once over the missed times that do not run, where they can be counted without a walk.
    fn pass_missed(&mut self, has_room: bool) {
        let (plan, now, spec) = (self.around.plan, self.around.now, &self.new.spec);
        let is_behind = self.is_behind && !self.new.is_used_up();
        let Some(time) = self.new.next.filter(|_| is_behind) else {
            return;
        };
        let until = missed::passed_until(spec, plan, time, now, has_room);
        let Some(until) = until.filter(|until| time < *until) else {
            return;
        };
        let Some(count) = plan.count(time, until) else {
            return;
        };
        // A begun time of an older plan need not be one of this one.
        let is_of_plan = |at: &Millis| plan.next(at.before(Duration::from_millis(1))) == Some(*at);
        let lost = |at: &Millis| (time..until).contains(at) && is_of_plan(at);
        let begun = self.new.begun.iter().filter(|at| lost(at)).count() as u64;
        self.new.missed += count.saturating_sub(begun);
        self.pass(plan.next(until.before(Duration::from_millis(1))));
    }

    /// Decides about a run that is due while another has not ended.
    fn overlap(&mut self, time: Millis, following: Option<Millis>) {
        let run = self.take(time, following);
        let stands_back = match self.new.spec.overlap {
            Overlap::BufferOne if self.new.waiting.is_none() => {
                self.new.waiting = Some(run);
                None
            }
            Overlap::CancelOther => {
                self.stopped.extend(self.new.ahead.iter().copied());
                self.new.waiting.replace(run)
            }
            Overlap::Skip | Overlap::BufferOne | Overlap::Allow | Overlap::OneByOne => Some(run),
        };
        if let Some(run) = stands_back {
            self.new.skipped += 1;
            self.new.used = self.new.used.saturating_sub(1);
            self.skipped.push(run);
        }
    }

    /// Lets missed times, and those that come behind them, wait for each other; tells whether more is to be counted.
    fn line_up(&mut self) -> bool {
        let (plan, now) = (self.around.plan, self.around.now);
        let joins = self.is_behind || self.new.line.is_some();
        if let Some(time) = self.new.next.filter(|time| joins && *time <= now) {
            let line = Line::joined(self.new.line, time, plan, now);
            self.new.line = Some(line);
            self.pass(plan.next(line.last));
        }
        self.is_behind = false;
        if self.new.is_used_up() {
            self.new.line = None;
        }
        let Some(line) = self.new.line else {
            return false;
        };
        let kept = line.kept(plan, &self.new.spec, now);
        self.new.line = kept.line;
        self.new.missed += kept.missed;
        kept.more
    }

    /// Starts the next run of the line, if no other goes on.
    fn follow(&mut self) {
        while let Some(line) = self.new.line.filter(|_| self.new.ahead.is_empty()) {
            self.new.line = line.rest(self.around.plan);
            // A run of an older generation has begun.
            if !self.new.begun.contains(&line.next) {
                let run = self.make(line.next, self.around.plan.next(line.next));
                self.new.ahead.push(run);
            }
        }
    }

    /// Takes the next time, and makes its run.
    fn take(&mut self, time: Millis, following: Option<Millis>) -> Run {
        let run = self.make(time, following);
        self.pass(following);
        run
    }

    /// Makes the run of a time.
    fn make(&mut self, time: Millis, following: Option<Millis>) -> Run {
        let (name, seq) = (self.around.namer.name, self.new.seq + 1);
        let spec = &self.new.spec;
        let rest = spec.end.map_or(spec.jitter, |end| time.until(end));
        let start = run::start(name, seq, time, following, spec.jitter.min(rest));
        let run = self.around.namer.run(self.new.generation, seq, time, start);
        self.new.seq = seq;
        self.new.used += 1;
        run
    }

    fn pass(&mut self, following: Option<Millis>) {
        self.new.next = following;
        if self.new.zone_data != self.around.zone_data {
            self.new.zone_data = self.around.zone_data.to_owned();
        }
    }

    /// Returns when to look again.
    fn wake(&self) -> Option<Millis> {
        let now = self.around.now;
        let next = self.new.next.map(|time| {
            let spread = hash(&[&self.new.incarnation.to_be_bytes()]) % SPREAD_MILLIS;
            let early = time.before(LEAD).before(Duration::from_millis(spread));
            // Another run may have ended by the time itself.
            if early > now {
                early
            } else {
                time.max(now.after(AGAIN_MIN))
            }
        });
        let waits = self.new.waiting.map(|run| {
            let waited = now.since(run.time) / 8;
            now.after(waited.clamp(AGAIN_MIN, AGAIN_MAX))
        });
        let follows = self.new.line.map(|line| {
            let waited = now.since(line.last) / 8;
            now.after(waited.clamp(AGAIN_MIN, AGAIN_MAX))
        });
        let unsure = self.wake_for_unsure();
        let soon = waits.into_iter().chain(follows).chain(unsure);
        next.into_iter().chain(soon).min()
    }

    fn wake_for_unsure(&self) -> Option<Millis> {
        let is_unsure = !self.around.unsure.is_empty();
        is_unsure.then(|| self.around.now.after(AGAIN_MIN))
    }
}
