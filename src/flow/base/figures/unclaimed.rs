//! Demand counts for operators the due tasks that no worker has taken: how many, of which callbacks, for how
//! long, and whether anybody asks for them.
//!
//! The figure is for people; it is kept in memory and bounded. Where the queue is this node's own, the figure
//! is exact: every publication is noted before it is made, and taken back by the claim, the cancel or the
//! move that ends it. On a cluster the figure is a lower bound, because any node may answer a claim. There
//! only looks tell that a task still waits, and each look counts until the next one. The next look of a task
//! corrects what either way has missed.
//!
//! Every few seconds the rows of some are read, so that tasks that went elsewhere do not count for long. A task without a row
//! was never claimed, or is forgotten: its note ends unless its next look repeats it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use super::retrying::Retrying;
use crate::{
    flow::base::{
        agendas::{
            expiries::Expiries,
            notes::{Note, Notes},
        },
        context::Context,
        labels,
        rows::beats,
    },
    limits,
    model::{ids::TaskId, local_quota::Bound, look, state::State, time::Millis},
    store::{self, Freshness},
    time_source::Moment,
};

/// How often the figures are made metrics and log lines.
const LOOKED_AT: Duration = Duration::from_secs(5);

/// How long a callback that was polled is remembered.
const POLLED_KEPT: Duration = Duration::from_secs(600);

/// How long no second line is written about a callback.
const SILENT: Duration = Duration::from_secs(600);

/// How long a task that a look has found waiting counts beyond the next look.
const LATE_LOOK: Duration = Duration::from_secs(60);

/// The cause that due tasks of a callback wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// No worker takes them: none asks, or all are busy.
    Worker,
    /// The rate of the callback.
    Rate,
    /// The most attempts of the callback at once.
    InFlight,
}

impl Cause {
    /// Returns the name that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Rate => "rate",
            Self::InFlight => "max_in_flight",
        }
    }

    const fn of(bound: Option<Bound>) -> Self {
        match bound {
            None => Self::Worker,
            Some(Bound::Rate) => Self::Rate,
            Some(Bound::InFlight) => Self::InFlight,
        }
    }
}

/// Due tasks of one callback that no worker has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The callback.
    pub callback: String,
    /// How many.
    pub tasks: u64,
    /// Since when the oldest is due.
    pub oldest: Millis,
    /// How long ago a worker last asked this node for tasks of it; none: not within ten minutes.
    pub polled: Option<Duration>,
    /// Why they wait, as far as this node knows: a limit is known where the callback is polled.
    pub cause: Cause,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unclaimed {
    /// By callback, the most first; those behind the first [`limits::CALLBACKS_TOLD_MAX`] are only in the sum.
    pub callbacks: Vec<Waiting>,
    /// Tasks of all callbacks.
    pub tasks: u64,
    /// Those of them that wait for a limit.
    pub limited: u64,
    /// No other task waits: the figure is exact.
    pub exact: bool,
}

#[derive(Debug, Default)]
struct Known {
    notes: Notes,
    polled: HashMap<String, Moment>,
    /// Until when tasks that there was no room for may wait without being known.
    missed_until: Option<Moment>,
}

impl Known {
    fn has_missed(&self, now: Moment) -> bool {
        self.missed_until.is_some_and(|until| now <= until)
    }
}

/// The tasks that wait, as a node knows them. Cheap to clone; clones are the same knowledge.
#[derive(Debug, Clone)]
pub struct Demand {
    ctx: Arc<Context>,
    retrying: Retrying,
    expiries: Expiries,
    known: Arc<Mutex<Known>>,
    /// The queue is this node's own.
    alone: bool,
}

impl Demand {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        Self {
            alone: ctx.underway.is_some() || ctx.time.is_by_hand(),
            known: Arc::default(),
            retrying: Retrying::default(),
            expiries: Expiries::default(),
            ctx,
        }
    }

    /// Returns the record of the tasks that wait for their next attempt.
    pub(in crate::flow) const fn retrying(&self) -> &Retrying {
        &self.retrying
    }

    /// Returns the memory of the tasks that may expire before their next looks.
    pub(in crate::flow) const fn expiries(&self) -> &Expiries {
        &self.expiries
    }

    /// Notes tasks that are about to be handed to the queue: id, callback, due time.
    pub(in crate::flow) fn publishing<'a>(
        &self,
        tasks: impl Iterator<Item = (TaskId, &'a str, Millis)>,
    ) {
        if !self.alone {
            return;
        }
        let mut known = self.lock();
        let mut missed = false;
        for (id, callback, due) in tasks {
            let note = self.note(due, look::noted_for(id));
            missed |= !known.notes.put(id, callback, note, limits::UNCLAIMED_MAX);
        }
        if missed {
            // Each has a look within twice the longest interval.
            let longest = look::INTERVAL_MAX * 2;
            known.missed_until = Some(self.ctx.time.moment().after(longest));
        }
    }

    /// Notes that a look has found a task waiting, which looks again at `again`.
    pub(in crate::flow) fn waits(&self, id: TaskId, callback: &str, due: Millis, again: Millis) {
        let lasts = if self.alone {
            look::noted_for(id)
        } else {
            again.since(self.ctx.now()) + LATE_LOOK
        };
        let (note, max) = (self.note(due, lasts), limits::UNCLAIMED_MAX);
        self.lock().notes.put(id, callback, note, max);
    }

    fn note(&self, due: Millis, lasts: Duration) -> Note {
        let seen = self.ctx.time.moment();
        let until = seen.after(lasts);
        Note { due, until, seen }
    }

    /// Finds out what was claimed at other nodes, or has ended unseen: reads the rows of some that are thought to wait.
    async fn check(&self) {
        let (now, moment) = (self.ctx.now(), self.ctx.time.moment());
        let ids = {
            let mut known = self.lock();
            known.notes.expire(moment);
            let before = moment.before(LOOKED_AT);
            known.notes.seen_before(before, limits::STEP_ENTRIES_MAX)
        };
        if ids.is_empty() {
            return;
        }
        let rows = self.ctx.store.tasks_each(&ids, Freshness::Quorum).await;
        let read = rows.iter().filter_map(|row| row.as_ref().ok()?.as_ref());
        let lost = beats::lost(&self.ctx, read, now).await;
        let mut known = self.lock();
        for (id, row) in ids.iter().zip(rows) {
            let row = match row {
                Ok(row) => row,
                // Its look sets it aside.
                Err(store::Error::Corrupt { .. }) => {
                    known.notes.forget(*id);
                    continue;
                }
                // A read that fails is made the next time.
                Err(_) => continue,
            };
            // Without a row it was never claimed, or is forgotten: that makes no note longer.
            let until = row.as_ref().map(|_| moment.after(look::noted_for(*id)));
            let waits = row.is_none_or(|row| {
                let waits = matches!(row.state, State::New | State::Retrying);
                waits && row.next <= now || lost.contains(id)
            });
            if waits {
                known.notes.seen(*id, moment, until);
            } else {
                known.notes.forget(*id);
            }
        }
    }

    /// Finds out which tasks wait for others no more since another node let them go: reads the rows of some.
    async fn check_waiters(&self) {
        let moment = self.ctx.time.moment();
        let ids = {
            let mut waiting = self.ctx.joins.waiting();
            waiting.expire(moment);
            if self.alone {
                return;
            }
            waiting.seen_before(moment.before(LOOKED_AT), limits::STEP_ENTRIES_MAX)
        };
        if ids.is_empty() {
            return;
        }
        let rows = self.ctx.store.tasks_each(&ids, Freshness::Quorum).await;
        for (id, row) in ids.into_iter().zip(rows) {
            match row {
                Ok(Some(row)) if row.waits_for_tasks() => {
                    self.ctx.joins.waiting().seen(id, moment, None);
                }
                Ok(_) | Err(store::Error::Corrupt { .. }) => self.ctx.joins.leave(id),
                Err(_) => {}
            }
        }
    }

    /// Tells whether a message of a task needs no proof that there is such a task: on a cluster another node may have published
    /// it; where the queue is this node's own, it noted the task before it handed the message over.
    pub(in crate::flow) fn may_have_published(&self, id: TaskId) -> bool {
        !self.alone || self.lock().notes.has(id)
    }

    /// Notes that a task does not wait for a worker: it was claimed, moved, has ended, or could not be handed over.
    pub(in crate::flow) fn taken(&self, id: TaskId) {
        self.lock().notes.forget(id);
    }

    /// Notes that somebody asks this node for tasks of callbacks.
    pub(in crate::flow) fn asked<'a>(&self, callbacks: impl Iterator<Item = &'a str>) {
        let moment = self.ctx.time.moment();
        let mut known = self.lock();
        for callback in callbacks {
            if let Some(at) = known.polled.get_mut(callback) {
                *at = moment;
            } else if known.polled.len() < limits::POLLED_NAMES_MAX {
                known.polled.insert(callback.to_owned(), moment);
            }
        }
    }

    /// Returns what waits now; `bound` tells which limit keeps tasks of a callback back.
    #[must_use]
    pub fn tally(&self, bound: impl Fn(&str) -> Option<Bound>) -> Unclaimed {
        let (mut callbacks, exact) = self.all_waiting();
        // Behind the lock: the limiter has one of its own.
        for waiting in &mut callbacks {
            waiting.cause = Cause::of(bound(&waiting.callback));
        }
        let tasks = callbacks.iter().map(|waiting| waiting.tasks).sum();
        let limited = callbacks.iter().filter(|one| one.cause != Cause::Worker);
        let limited = limited.map(|waiting| waiting.tasks).sum();
        callbacks.truncate(limits::CALLBACKS_TOLD_MAX);
        Unclaimed {
            callbacks,
            tasks,
            limited,
            exact,
        }
    }

    /// Returns the tasks that wait, as if for workers, and whether no others do.
    fn all_waiting(&self) -> (Vec<Waiting>, bool) {
        let (now, moment) = (self.ctx.now(), self.ctx.time.moment());
        let known = self.lock();
        let waiting = known.notes.counts(now).into_iter().map(|count| {
            let polled = known.polled.get(&*count.callback);
            Waiting {
                polled: polled.map(|at| moment.since(*at)),
                cause: Cause::Worker,
                callback: count.callback.to_string(),
                tasks: count.tasks,
                oldest: count.oldest,
            }
        });
        (waiting.collect(), self.alone && !known.has_missed(moment))
    }

    /// Returns the tasks that wait at `at`, with their callbacks.
    pub(in crate::flow) fn waiting_at(&self, at: Millis) -> Vec<(TaskId, Arc<str>)> {
        self.lock().notes.due(at)
    }

    /// Returns how long ago a worker last asked this node for tasks of a callback, if it has.
    pub(in crate::flow) fn polled(&self, callback: &str) -> Option<Duration> {
        let now = self.ctx.time.moment();
        let known = self.lock();
        known.polled.get(callback).map(|at| now.since(*at))
    }

    /// Returns how many tasks of a callback wait now, since when the oldest is due, and whether no others do.
    #[must_use]
    pub fn of(&self, callback: &str) -> (u64, Option<Millis>, bool) {
        let known = self.lock();
        let (tasks, oldest) = known.notes.of(callback, self.ctx.now());
        let missed = known.has_missed(self.ctx.time.moment());
        (tasks, oldest, self.alone && !missed)
    }

    /// Makes metrics and log lines of what waits, until `stop`; `bound` is as in [`Self::tally`].
    pub(in crate::flow) async fn run(
        self,
        bound: impl Fn(&str) -> Option<Bound>,
        stop: CancellationToken,
    ) {
        let (mut shown, mut said) = (BTreeSet::new(), HashMap::new());
        while !stop.is_cancelled() {
            self.check().await;
            self.check_waiters().await;
            let tally = self.tally(&bound);
            show(&tally, self.ctx.now(), &mut shown);
            self.say(&tally, &mut said);
            let moment = self.ctx.time.moment();
            self.lock()
                .polled
                .retain(|_, at| moment.since(*at) < POLLED_KEPT);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.ctx.time.sleep(LOOKED_AT) => {}
            }
        }
    }

    /// Says of which callbacks tasks wait that nobody asks for.
    fn say(&self, tally: &Unclaimed, said: &mut HashMap<String, Moment>) {
        let (now, moment) = (self.ctx.now(), self.ctx.time.moment());
        said.retain(|_, at| moment.since(*at) < SILENT);
        let warn = limits::UNCLAIMED_WARN;
        for waiting in &tally.callbacks {
            let asked = waiting.polled.is_some_and(|ago| ago < warn);
            let asked = asked || waiting.cause != Cause::Worker;
            if asked || now.since(waiting.oldest) < warn || said.contains_key(&waiting.callback) {
                continue;
            }
            said.insert(waiting.callback.clone(), moment);
            let text = line(waiting, tally.exact);
            tracing::warn!(
                callback = waiting.callback,
                tasks = waiting.tasks,
                oldest_s = now.since(waiting.oldest).as_secs(),
                "{text}"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}

/// The line about a callback that nobody asks for.
fn line(waiting: &Waiting, exact: bool) -> String {
    let (callback, tasks) = (&waiting.callback, waiting.tasks);
    let seconds = limits::UNCLAIMED_WARN.as_secs();
    let many = match tasks {
        1 => "1 task waits".to_owned(),
        many => format!("{many} tasks wait"),
    };
    if exact {
        format!("no worker has polled `{callback}` for {seconds} s; {many}")
    } else {
        format!(
            "no worker has polled `{callback}` at this node for {seconds} s; at least {many}, or did when they were looked at"
        )
    }
}

/// The label of a callback, and the cause that its tasks wait.
type Labels = (String, Cause);

/// Sets the gauges; those of callbacks that wait no more, or for another cause, fall to zero.
fn show(tally: &Unclaimed, now: Millis, shown: &mut BTreeSet<Labels>) {
    let mut figures: BTreeMap<Labels, (u64, Duration)> = BTreeMap::new();
    for waiting in &tally.callbacks {
        let labels = (labels::label(&waiting.callback), waiting.cause);
        let (tasks, age) = figures.entry(labels).or_default();
        *tasks += waiting.tasks;
        *age = now.since(waiting.oldest).max(*age);
    }
    let gone = std::mem::take(shown);
    for labels in gone.iter().filter(|labels| !figures.contains_key(*labels)) {
        gauges(labels, 0, Duration::ZERO);
    }
    for (labels, (tasks, age)) in figures {
        gauges(&labels, tasks, age);
        shown.insert(labels);
    }
}

fn gauges((callback, cause): &Labels, tasks: u64, age: Duration) {
    let (callback, cause) = (callback.to_owned(), cause.name());
    metrics::gauge!("tickwheel_unclaimed_tasks", "callback" => callback.clone(), "cause" => cause)
        .set(tasks as f64);
    metrics::gauge!("tickwheel_unclaimed_age_seconds", "callback" => callback, "cause" => cause)
        .set(age.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_of_what_and_how_many() {
        let waiting = Waiting {
            callback: "x".to_owned(),
            tasks: 40,
            oldest: Millis(0),
            polled: None,
            cause: Cause::Worker,
        };
        assert_eq!(
            line(&waiting, true),
            "no worker has polled `x` for 60 s; 40 tasks wait"
        );
    }
}
