//! The limiter lets tasks of callbacks with limits go for the polls and the claims of a node, as many as the limits allow.
//!
//! The rules are in [`crate::model::limit`] and [`crate::model::purse`]. The limiter draws from the pool of a callback in the
//! store, by a conditional write, and only when tasks wait for it. Callbacks without limits cost it a look into the copy of the
//! configuration. A callback that waits takes nothing from others: nothing is held while it waits, and each has its own pool.
//!
//! A task that may go has a [`Permit`]. Its attempt is counted by the watch ([`Deadlines`]) from the claim on, also one whose
//! node has died, by the node that gets its next heartbeat.
//!
//! Crash points: a node that dies with tokens has lost them, and its places lapse. So a limit may be used less for seconds, and
//! never more.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{deadlines::Deadlines, transition::Mover};
use crate::{
    flaw::{self, Flaw},
    flow::{context::Context, labels, records::callbacks::Callbacks},
    limits::{LIMIT_CHECKED_MAX, LIMIT_HELD_MAX, LIMIT_RACES_MAX, LIMITS_ASKED_IN_FLIGHT_MAX},
    model::{
        ids::TaskId,
        limit::{Asked, Given, Limits, Pool},
        purse::{Bound, PAUSE, Purse},
        record::{Change, Kind, Mark, Name, Record},
        row::TaskRow,
        state::State,
    },
    schema::{decode_pool, encode_pool},
    store::{Error, Swapped},
    time_source::Moment,
};

/// The knowledge about a callback with limits.
#[derive(Debug, Default)]
struct Entry {
    purse: Purse,
    limits: Limits,
    /// The record as it was read or written last; a conditional write says if it is another.
    seen: Option<Record>,
    /// One question at a time.
    asking: Arc<tokio::sync::Mutex<()>>,
    /// Wakes the feed that may hand out more.
    signal: Option<Arc<Notify>>,
    /// Claims that ask.
    claims: u32,
    /// Until when claims that were refused are held.
    promised: Duration,
}

/// A callback that has something to ask for, and the turns of its questions.
type Due = (Arc<str>, Arc<tokio::sync::Mutex<()>>);

#[derive(Debug, Default)]
struct Shared {
    entries: Mutex<BTreeMap<Arc<str>, Entry>>,
    /// Something is to be asked for.
    wake: Notify,
}

/// The right of a task to be claimed. Dropped, it goes back.
#[derive(Debug)]
pub(in crate::flow) struct Permit {
    shared: Arc<Shared>,
    callback: Arc<str>,
    claimed: bool,
}

impl Permit {
    /// Takes notice that its task is claimed.
    pub(in crate::flow) fn spend(mut self) {
        self.claimed = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut entries = self.shared.lock();
        if let Some(entry) = entries.get_mut(&self.callback) {
            entry.purse.ended(self.claimed);
            if !self.claimed
                && let Some(signal) = entry.signal.take()
            {
                signal.notify_one();
            }
        }
    }
}

/// The tasks of a feed that may go.
#[derive(Debug)]
pub(in crate::flow) enum Admitted {
    /// All: nothing limits them.
    All,
    /// As many as there are permits.
    Some(Vec<Permit>),
}

/// The answer to a claim.
#[derive(Debug)]
pub(in crate::flow) enum Entered {
    /// It may be made; without a permit nothing limits it.
    May(Option<Permit>),
    /// It may be made after so long.
    Later(Duration),
}

/// The limiter of a node. Cheap to clone; clones are the same.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Limiter {
    ctx: Arc<Context>,
    callbacks: Callbacks,
    deadlines: Deadlines,
    mover: Mover,
    shared: Arc<Shared>,
    began: Moment,
}

impl Limiter {
    /// Limits the callbacks whose attempts are watched there.
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        callbacks: Callbacks,
        deadlines: Deadlines,
    ) -> Self {
        Self {
            began: ctx.time.moment(),
            mover: Mover::new(Arc::clone(&ctx)),
            ctx,
            callbacks,
            deadlines,
            shared: Arc::default(),
        }
    }

    /// Lets up to `max` tasks of a feed go, of `ready` that could. When fewer go, `signal` is told once more may.
    pub(in crate::flow) fn admit(
        &self,
        callback: &str,
        max: usize,
        ready: usize,
        signal: &Arc<Notify>,
    ) -> Admitted {
        let Some(limits) = self.limits(callback) else {
            return Admitted::All;
        };
        let (max, ready) = (count(max.min(ready)), count(ready));
        let mut going = self.try_admit(callback, limits, max);
        if going < max {
            // Told first, then tried again: an attempt that ends in between is not missed.
            self.deadlines.tell_when_ended(callback, Arc::clone(signal));
            going += self.try_admit(callback, limits, max - going);
        }
        let (now, running) = (self.now(), self.running(callback));
        let mut entries = self.shared.lock();
        let (name, entry) = entry(&mut entries, callback, limits);
        entry.purse.need(now, ready.saturating_sub(going));
        if going < max {
            entry.signal = Some(Arc::clone(signal));
            note(&name, entry.purse.bound(now, running));
            if entry.purse.asks(now, running, 0).is_some() {
                self.shared.wake.notify_one();
            }
        }
        drop(entries);
        let permits = (0..going).map(|_| self.permit(&name));
        Admitted::Some(permits.collect())
    }

    /// Returns when a feed that waits for its tasks is to come back by itself.
    pub(in crate::flow) fn again_at(&self, callback: &str) -> Option<Moment> {
        let now = self.now();
        let entries = self.shared.lock();
        let again = entries.get(callback)?.purse.again_at(now)?;
        Some(self.began.after(again))
    }

    /// Lets one claim be made, or says how long its message is to be held.
    pub(in crate::flow) async fn enter(&self, callback: &str) -> Entered {
        let Some(limits) = self.limits(callback) else {
            return Entered::May(None);
        };
        if let Some(permit) = self.one(callback, limits) {
            return Entered::May(Some(permit));
        }
        let (asking, claims) = self.queue(callback, limits);
        let turn = asking.lock_owned().await;
        // The question of another may have brought enough for this one.
        let mut permit = self.one(callback, limits);
        if permit.is_none() {
            self.ask(&claims.callback).await;
            permit = self.one(callback, limits);
        }
        drop(turn);
        drop(claims);
        match permit {
            Some(permit) => Entered::May(Some(permit)),
            None => Entered::Later(self.later(callback, limits)),
        }
    }

    /// Asks for what feeds need until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let this = &self;
        while !stop.is_cancelled() {
            let (due, next) = self.due();
            if due.is_empty() {
                let next = next.map(|at| self.began.after(at));
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = self.shared.wake.notified() => {}
                    () = async { self.ctx.time.sleep_until(next.unwrap_or(self.began)).await }, if next.is_some() => {}
                }
                continue;
            }
            let ask = |(name, asking): Due| async move {
                let turn = asking.lock_owned().await;
                this.ask(&name).await;
                drop(turn);
            };
            let asks = stream::iter(due).for_each_concurrent(LIMITS_ASKED_IN_FLIGHT_MAX, ask);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = asks => {}
            }
        }
    }

    /// Returns the limits of a callback; none when it has none.
    fn limits(&self, callback: &str) -> Option<Limits> {
        if flaw::is(Flaw::LimitIgnored) {
            return None;
        }
        self.callbacks.snapshot().limits(callback)
    }

    fn try_admit(&self, callback: &str, limits: Limits, max: u32) -> u32 {
        let (now, running) = (self.now(), self.running(callback));
        let mut entries = self.shared.lock();
        let (_, entry) = entry(&mut entries, callback, limits);
        entry.purse.admit(now, running, max)
    }

    fn one(&self, callback: &str, limits: Limits) -> Option<Permit> {
        (self.try_admit(callback, limits, 1) == 1).then(|| self.permit(&Arc::from(callback)))
    }

    fn permit(&self, callback: &Arc<str>) -> Permit {
        Permit {
            shared: Arc::clone(&self.shared),
            callback: Arc::clone(callback),
            claimed: false,
        }
    }

    /// Counts a claim that asks.
    fn queue(&self, callback: &str, limits: Limits) -> (Arc<tokio::sync::Mutex<()>>, Claiming) {
        let mut entries = self.shared.lock();
        let (name, entry) = entry(&mut entries, callback, limits);
        entry.claims += 1;
        let claiming = Claiming {
            shared: Arc::clone(&self.shared),
            callback: name,
        };
        (Arc::clone(&entry.asking), claiming)
    }

    /// Returns how long the message of a claim that was refused is to be held: each behind the one before, by the time of a
    /// token, so that they do not come back all at once.
    fn later(&self, callback: &str, limits: Limits) -> Duration {
        let (now, running) = (self.now(), self.running(callback));
        let mut entries = self.shared.lock();
        let (name, entry) = entry(&mut entries, callback, limits);
        note(&name, entry.purse.bound(now, running));
        let step = limits.rate.map_or(PAUSE, |rate| rate.interval());
        let first = entry.purse.again_at(now).unwrap_or(now + PAUSE);
        let until = (entry.promised + step).max(first).min(now + LIMIT_HELD_MAX);
        entry.promised = until;
        until.saturating_sub(now)
    }

    /// Returns the callbacks that have something to ask for now, and when the next one has; forgets those that are idle.
    fn due(&self) -> (Vec<Due>, Option<Duration>) {
        let now = self.now();
        let mut entries = self.shared.lock();
        entries.retain(|name, entry| {
            let idle = entry.purse.is_idle(now) && entry.claims == 0 && entry.signal.is_none();
            !idle || self.running(name) > 0
        });
        let (mut due, mut next) = (Vec::new(), None::<Duration>);
        for (name, entry) in entries.iter() {
            let running = self.running(name);
            if entry.purse.asks(now, running, 0).is_some() {
                due.push((Arc::clone(name), Arc::clone(&entry.asking)));
            } else if let Some(at) = entry.purse.renew_at(now, running) {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        (due, next)
    }

    /// Asks the pool of a callback for what is needed now, if anything is.
    async fn ask(&self, callback: &Arc<str>) {
        let (now, running) = (self.now(), self.running(callback));
        let question = {
            let entries = self.shared.lock();
            entries.get(callback).and_then(|entry| {
                let asked = entry.purse.asks(now, running, entry.claims)?;
                Some((asked, entry.limits, entry.seen.clone()))
            })
        };
        let Some((asked, limits, seen)) = question else {
            return;
        };
        let drawn = self.draw(callback, limits, seen, asked).await;
        if self.take(callback, limits, now, asked, drawn) {
            self.forget_ended(callback).await;
        }
    }

    /// Takes what was drawn on the question that was asked at `began`, and wakes the feed. Tells whether tasks wait for places.
    fn take(
        &self,
        callback: &str,
        limits: Limits,
        began: Duration,
        asked: Asked,
        drawn: Result<(Given, Option<Record>), Error>,
    ) -> bool {
        let (chance, running) = (self.ctx.time.random(), self.running(callback));
        let mut entries = self.shared.lock();
        let Some(entry) = entries
            .get_mut(callback)
            .filter(|entry| entry.limits == limits)
        else {
            return false;
        };
        match drawn {
            Ok((given, record)) => {
                entry.seen = record;
                entry.purse.take(began, self.now(), asked, given, chance);
            }
            Err(error) => {
                tracing::debug!(callback, %error, "the limits of a callback cannot be read now");
                entry.seen = None;
                entry.purse.failed(self.now());
            }
        }
        if let Some(signal) = entry.signal.take() {
            signal.notify_one();
        }
        asked.wanted > asked.running
            && entry.purse.bound(self.now(), running) == Some(Bound::InFlight)
    }

    /// Forgets attempts that have ended at other nodes. Only where tasks wait for their places, and with a question to the
    /// pool, so once a second or so. One process has all reports.
    async fn forget_ended(&self, callback: &str) {
        if self.ctx.underway.is_some() {
            return;
        }
        let attempts = self.deadlines.some_of(callback, LIMIT_CHECKED_MAX);
        let ids: Vec<TaskId> = attempts.iter().map(|(id, _)| *id).collect();
        let rows = self.mover.rows_each(&ids).await;
        for ((id, attempt), row) in attempts.into_iter().zip(rows) {
            // A row that cannot be read, or is gone already, says nothing: its lease ends some time.
            let ended = |row: TaskRow| row.state != State::Claimed || row.attempt > attempt;
            if let Ok(Some(row)) = row
                && ended(row)
            {
                self.deadlines.forget_attempt(id, attempt);
            }
        }
    }

    /// Draws from the pool of a callback; also returns its record as it is then.
    async fn draw(
        &self,
        callback: &str,
        limits: Limits,
        mut there: Option<Record>,
        asked: Asked,
    ) -> Result<(Given, Option<Record>), Error> {
        let unsuitable = |refused: crate::model::record::Refused| Error::Unsuitable {
            reason: refused.to_string(),
        };
        let name = Name::new(Kind::Limit, callback).map_err(unsuitable)?;
        for _ in 0..LIMIT_RACES_MAX {
            let now = self.ctx.now();
            let before = read(there.as_ref());
            let mut pool = before.clone();
            let given = pool.ask(limits, self.ctx.me, now, asked);
            if pool == before {
                return Ok((given, there));
            }
            let mark = Mark {
                nonce: self.ctx.time.random_uuid(),
                stamp: self.ctx.time.stamp(),
            };
            let (value, expires) = (encode_pool(&pool), Some(pool.forgotten_at(now)));
            let change = Change::put(name.clone(), there.as_ref(), value, expires, mark);
            let change = change.map_err(unsuitable)?;
            match self.ctx.store.put_if(&change).await? {
                Swapped::Applied => return Ok((given, Some(change.record().clone()))),
                Swapped::Conflict(other) => there = other,
                // It may have been written: then what it gave is lost, and nobody uses it twice.
                Swapped::Unknown => break,
            }
        }
        Err(Error::Unavailable {
            operation: "draw from the limits of a callback",
            reason: "others were first, or the outcome is not known".to_owned(),
        })
    }

    fn running(&self, callback: &str) -> u32 {
        count(self.deadlines.running(callback))
    }

    fn now(&self) -> Duration {
        self.ctx.time.moment().since(self.began)
    }
}

/// A claim that asks; it counts as long as this lives.
struct Claiming {
    shared: Arc<Shared>,
    callback: Arc<str>,
}

impl Drop for Claiming {
    fn drop(&mut self) {
        if let Some(entry) = self.shared.lock().get_mut(&self.callback) {
            entry.claims = entry.claims.saturating_sub(1);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the entry of a callback, with its limits as they are now.
fn entry<'a>(
    entries: &'a mut BTreeMap<Arc<str>, Entry>,
    callback: &str,
    limits: Limits,
) -> (Arc<str>, &'a mut Entry) {
    let known = entries.get_key_value(callback);
    let name = known.map_or_else(|| Arc::from(callback), |(name, _)| Arc::clone(name));
    let entry = entries.entry(Arc::clone(&name)).or_default();
    entry.limits = limits;
    entry.purse.set(limits);
    (name, entry)
}

/// Reads a pool. One that cannot be read is begun anew: a limit that is exceeded once is less bad than tasks that never go.
fn read(record: Option<&Record>) -> Pool {
    let Some(value) = record.and_then(|record| record.value.clone()) else {
        return Pool::default();
    };
    decode_pool(value).unwrap_or_else(|error| {
        tracing::error!(%error, "the limits of a callback cannot be read: they begin anew");
        Pool::default()
    })
}

/// Counts that tasks of a callback wait for a limit.
fn note(callback: &str, bound: Option<Bound>) {
    let limit = match bound {
        Some(Bound::Rate) => "rate",
        Some(Bound::InFlight) => "max_in_flight",
        None => return,
    };
    let callback = labels::label(callback);
    metrics::counter!("tickwheel_limited_total", "callback" => callback, "limit" => limit)
        .increment(1);
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
