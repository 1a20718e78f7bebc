//! Demand counts for operators the due tasks that no worker has taken: how many, of which callbacks, for how
//! long, and whether anybody asks for them.
//!
//! The figure is for people; it is kept in memory and bounded. Where the queue is this node's own, the figure
//! is exact: every publication is noted before it is made, and taken back by the claim, the cancel or the
//! move that ends it. On a cluster the figure is a lower bound, because any node may answer a claim. There
//! only looks tell that a task still waits, and each look counts until the next one. The next look of a task
//! corrects what either way has missed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::{beats, expiries::Expiries, retrying::Retrying};
use crate::{
    flow::{context::Context, labels},
    limits,
    model::{ids::TaskId, state::State, time::Millis},
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
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unclaimed {
    /// By callback, the most first; those behind the first [`limits::CALLBACKS_TOLD_MAX`] are only in the sum.
    pub callbacks: Vec<Waiting>,
    /// Tasks of all callbacks.
    pub tasks: u64,
    /// No other task waits: the figure is exact.
    pub exact: bool,
}

#[derive(Debug, Clone, Copy)]
struct One {
    /// Where its callback is.
    callback: usize,
    due: Millis,
    /// It is known to wait until then.
    until: Millis,
    /// When it was last known to wait.
    seen: Millis,
}

#[derive(Debug)]
struct Callback {
    name: Arc<str>,
    tasks: usize,
}

#[derive(Debug, Default)]
struct Known {
    tasks: HashMap<TaskId, One>,
    callbacks: Vec<Callback>,
    /// Where callbacks are that have tasks.
    places: HashMap<Arc<str>, usize>,
    /// Places of callbacks that have none any more.
    free: Vec<usize>,
    polled: HashMap<String, Moment>,
    /// Until when tasks that there was no room for may wait without being known.
    missed_until: Option<Millis>,
}

impl Known {
    fn note(&mut self, id: TaskId, callback: &str, found: One, max: usize) -> bool {
        if let Some(known) = self.tasks.get_mut(&id) {
            known.due = known.due.max(found.due);
            (known.until, known.seen) = (found.until, found.seen);
            return true;
        }
        if self.tasks.len() >= max {
            return false;
        }
        let callback = self.place(callback);
        if let Some(callback) = self.callbacks.get_mut(callback) {
            callback.tasks += 1;
        }
        self.tasks.insert(id, One { callback, ..found });
        true
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let name: Arc<str> = Arc::from(name);
        let callback = Callback {
            name: Arc::clone(&name),
            tasks: 0,
        };
        let place = self.free.pop().unwrap_or(self.callbacks.len());
        match self.callbacks.get_mut(place) {
            Some(old) => *old = callback,
            None => self.callbacks.push(callback),
        }
        self.places.insert(name, place);
        place
    }

    fn forget(&mut self, id: TaskId) {
        let Some(known) = self.tasks.remove(&id) else {
            return;
        };
        if let Some(callback) = self.callbacks.get_mut(known.callback) {
            callback.tasks -= 1;
            if callback.tasks == 0 {
                self.places.remove(&callback.name);
                self.free.push(known.callback);
            }
        }
    }

    /// Forgets what is not known to wait any more.
    fn expire(&mut self, now: Millis) {
        let old = self.tasks.iter().filter(|(_, one)| one.until < now);
        let old: Vec<TaskId> = old.map(|(id, _)| *id).collect();
        for id in old {
            self.forget(id);
        }
    }

    /// Returns tasks that were seen to wait before `before`, at most `max`.
    fn seen_before(&self, before: Millis, max: usize) -> Vec<TaskId> {
        let old = self.tasks.iter().filter(|(_, one)| one.seen < before);
        let mut old: Vec<(Millis, TaskId)> = old.map(|(id, one)| (one.seen, *id)).collect();
        old.sort_unstable();
        old.truncate(max);
        old.into_iter().map(|(_, id)| id).collect()
    }

    fn tally(&self, now: Millis, moment: Moment) -> Vec<Waiting> {
        let mut waiting: Vec<(u64, Millis)> = vec![(0, now); self.callbacks.len()];
        for one in self.tasks.values().filter(|one| one.due <= now) {
            if let Some((tasks, oldest)) = waiting.get_mut(one.callback) {
                *tasks += 1;
                *oldest = one.due.min(*oldest);
            }
        }
        let polled = |callback: &str| self.polled.get(callback).map(|at| moment.since(*at));
        let counted = self.callbacks.iter().zip(waiting);
        let mut waiting: Vec<Waiting> = counted
            .filter(|(_, (tasks, _))| *tasks > 0)
            .map(|(callback, (tasks, oldest))| Waiting {
                callback: callback.name.to_string(),
                tasks,
                oldest,
                polled: polled(&callback.name),
            })
            .collect();
        waiting.sort_by(|one, other| {
            let order = other.tasks.cmp(&one.tasks);
            order.then_with(|| one.callback.cmp(&other.callback))
        });
        waiting
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
            alone: ctx.underway.is_some(),
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
            let found = self.found(due, Millis::MAX);
            missed |= !known.note(id, callback, found, limits::UNCLAIMED_MAX);
        }
        if missed {
            // Each has a look within twice the longest interval.
            let longest = crate::model::look::INTERVAL_MAX * 2;
            known.missed_until = Some(self.ctx.now().after(longest));
        }
    }

    /// Notes that a look has found a task waiting, which looks again at `again`.
    pub(in crate::flow) fn waits(&self, id: TaskId, callback: &str, due: Millis, again: Millis) {
        let until = if self.alone {
            Millis::MAX
        } else {
            again.after(LATE_LOOK)
        };
        let found = self.found(due, until);
        self.lock().note(id, callback, found, limits::UNCLAIMED_MAX);
    }

    fn found(&self, due: Millis, until: Millis) -> One {
        One {
            callback: 0,
            due,
            until,
            seen: self.ctx.now(),
        }
    }

    /// Finds out what was claimed at other nodes: reads the rows of some that are thought to wait.
    async fn check(&self) {
        let now = self.ctx.now();
        let ids = {
            let mut known = self.lock();
            known.expire(now);
            known.seen_before(now.before(LOOKED_AT), limits::STEP_ENTRIES_MAX)
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
                    known.forget(*id);
                    continue;
                }
                // A read that fails is made the next time.
                Err(_) => continue,
            };
            let waits = row.is_none_or(|row| {
                let waits = matches!(row.state, State::New | State::Retrying);
                waits && row.next <= now || lost.contains(id)
            });
            match known.tasks.get_mut(id) {
                Some(one) if waits => one.seen = now,
                Some(_) => known.forget(*id),
                None => {}
            }
        }
    }

    /// Tells whether a message of a task needs no proof that there is such a task: on a cluster another node may have published
    /// it; where the queue is this node's own, it noted the task before it handed the message over.
    pub(in crate::flow) fn may_have_published(&self, id: TaskId) -> bool {
        !self.alone || self.lock().tasks.contains_key(&id)
    }

    /// Notes that a task does not wait for a worker: it was claimed, moved, has ended, or could not be handed over.
    pub(in crate::flow) fn taken(&self, id: TaskId) {
        self.lock().forget(id);
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

    /// Returns what waits now.
    #[must_use]
    pub fn tally(&self) -> Unclaimed {
        let (now, moment) = (self.ctx.now(), self.ctx.time.moment());
        let known = self.lock();
        let mut callbacks = known.tally(now, moment);
        let tasks = callbacks.iter().map(|waiting| waiting.tasks).sum();
        callbacks.truncate(limits::CALLBACKS_TOLD_MAX);
        let missed = known.missed_until.is_some_and(|until| now <= until);
        Unclaimed {
            callbacks,
            tasks,
            exact: self.alone && !missed,
        }
    }

    /// Returns how many tasks of a callback wait now, since when the oldest is due, and whether no others do.
    #[must_use]
    pub fn of(&self, callback: &str) -> (u64, Option<Millis>, bool) {
        let now = self.ctx.now();
        let known = self.lock();
        let missed = known.missed_until.is_some_and(|until| now <= until);
        let place = known.places.get(callback).copied();
        let tasks = known.tasks.values();
        let due = tasks.filter(|one| Some(one.callback) == place && one.due <= now);
        let (tasks, oldest) = due.fold((0, None), |(tasks, oldest), one| {
            let oldest: Option<Millis> = oldest;
            let older = oldest.map_or(one.due, |oldest| oldest.min(one.due));
            (tasks + 1, Some(older))
        });
        (tasks, oldest, self.alone && !missed)
    }

    /// Makes metrics and log lines of what waits, until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let (mut shown, mut said) = (BTreeSet::new(), HashMap::new());
        while !stop.is_cancelled() {
            if !self.alone {
                self.check().await;
            }
            let tally = self.tally();
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
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Sets the gauges; those of callbacks that wait no more fall to zero.
fn show(tally: &Unclaimed, now: Millis, shown: &mut BTreeSet<String>) {
    let mut figures: BTreeMap<String, (u64, Duration)> = BTreeMap::new();
    for waiting in &tally.callbacks {
        let label = labels::label(&waiting.callback);
        let (tasks, age) = figures.entry(label).or_default();
        *tasks += waiting.tasks;
        *age = now.since(waiting.oldest).max(*age);
    }
    let gone = std::mem::take(shown);
    for label in gone.iter().filter(|label| !figures.contains_key(*label)) {
        gauges(label, 0, Duration::ZERO);
    }
    for (label, (tasks, age)) in figures {
        gauges(&label, tasks, age);
        shown.insert(label);
    }
}

fn gauges(callback: &str, tasks: u64, age: Duration) {
    let callback = callback.to_owned();
    metrics::gauge!("tickwheel_unclaimed_tasks", "callback" => callback.clone()).set(tasks as f64);
    metrics::gauge!("tickwheel_unclaimed_age_seconds", "callback" => callback)
        .set(age.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::wheel::WheelNumber, time_source::TimeSource};

    fn id(number: u64) -> TaskId {
        TaskId::new(Millis(0), WheelNumber::new(0).unwrap(), number)
    }

    #[test]
    fn a_task_counts_once_and_until_it_is_taken() {
        let mut known = Known::default();
        let moment = TimeSource::real().moment();
        let found = |due, until| One {
            callback: 0,
            due: Millis(due),
            until: Millis(until),
            seen: Millis(due),
        };
        for (number, due) in [(1, 100), (2, 200), (2, 150), (3, 300)] {
            assert!(known.note(id(number), "mail", found(due, i64::MAX), 4));
        }
        assert!(known.note(id(4), "bill", found(50, 1000), 4));
        assert!(!known.note(id(5), "bill", found(50, i64::MAX), 4));
        assert_eq!(known.seen_before(Millis(101), 9), [id(4), id(1)]);
        let counts = |waiting: Vec<Waiting>| -> Vec<(String, u64, i64)> {
            let of = |one: Waiting| (one.callback, one.tasks, one.oldest.0);
            waiting.into_iter().map(of).collect()
        };
        let seen = counts(known.tally(Millis(900), moment));
        assert_eq!(
            seen,
            [("mail".to_owned(), 3, 100), ("bill".to_owned(), 1, 50)]
        );
        known.forget(id(1));
        known.forget(id(1));
        known.expire(Millis(1001));
        let seen = counts(known.tally(Millis(1001), moment));
        assert_eq!(seen, [("mail".to_owned(), 2, 200)]);
        assert_eq!((known.places.len(), known.free.len()), (1, 1));
        assert!(known.note(id(6), "ship", found(50, i64::MAX), 4));
        assert_eq!(known.callbacks.len(), 2, "places are used again");
    }

    #[test]
    fn the_line_says_of_what_and_how_many() {
        let waiting = Waiting {
            callback: "x".to_owned(),
            tasks: 40,
            oldest: Millis(0),
            polled: None,
        };
        assert_eq!(
            line(&waiting, true),
            "no worker has polled `x` for 60 s; 40 tasks wait"
        );
    }
}
