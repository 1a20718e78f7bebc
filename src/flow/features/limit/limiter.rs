//! The limiter lets tasks of callbacks with limits go for the polls and the claims of a node, as many as the limits allow.
//!
//! The rules are in [`crate::model::limit`] and [`crate::model::quota`]. The limiter draws from the pool of a callback in the
//! store, by a conditional write, and only when tasks wait for it. Callbacks without limits cost it a look into the copy of the
//! configuration. A callback that waits takes nothing from others: nothing is held while it waits, and each has its own pool.
//!
//! A task that may go has a [`Permit`]. Its attempt is counted by the watch ([`Deadlines`]) from the claim on, also one whose
//! node has died, by the node that gets its next heartbeat.
//!
//! Crash points: a node that dies with tokens has lost them, and its places lapse. So a limit may be used less for seconds, and
//! never more.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{deadlines::Deadlines, limit_pool};
use crate::{
    flaw::{self, Flaw},
    flow::base::{context::Context, labels, records::callbacks::Callbacks, rows::stored},
    limits::{LIMIT_CHECKED_MAX, LIMIT_HELD_MAX, LIMITS_ASKED_IN_FLIGHT_MAX},
    model::{
        ids::TaskId,
        limit::{Asked, Given, Limits, PLACES_RENEWED},
        local_quota::{Bound, LocalQuota, PAUSE},
        record::Record,
        row::TaskRow,
        state::State,
    },
    store::Error,
    time_source::Moment,
};

/// The knowledge about a callback with limits.
#[derive(Debug, Default)]
struct Entry {
    quota: LocalQuota,
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
            entry.quota.ended(self.claimed);
            // A task that is claimed counted twice for a moment: as let go, and as running.
            if let Some(signal) = entry.signal.take() {
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
            ctx,
            callbacks,
            deadlines,
            shared: Arc::default(),
        }
    }

    /// Tells whether a callback has limits now.
    pub(in crate::flow) fn has_limits(&self, callback: &str) -> bool {
        self.limits(callback).is_some()
    }

    /// Tells which limit keeps tasks of a callback back that would go from here if they could; none if none does, or if neither a
    /// poll nor a claim asks for them here.
    pub(in crate::flow) fn bound(&self, callback: &str) -> Option<Bound> {
        self.limits(callback)?;
        let now = self.now();
        let entries = self.shared.lock();
        let entry = entries.get(callback)?;
        // A feed that was refused waits to be told.
        let waits = entry.signal.is_some() || entry.claims > 0 || entry.promised > now;
        entry.quota.keeps_back(now, self.running(callback), waits)
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
        let now = self.now();
        let mut entries = self.shared.lock();
        let running = self.running(callback);
        let (name, entry) = entry(&mut entries, callback, limits);
        entry.quota.need(now, ready.saturating_sub(going));
        if going < max {
            entry.signal = Some(Arc::clone(signal));
            note(&name, entry.quota.bound(now, running));
            if entry.quota.asks(now, running, 0).is_some() {
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
        let again = entries.get(callback)?.quota.again_at(now)?;
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
            let asked = self.ask_apart(turn, claims).await;
            permit = self.one(callback, limits);
            drop(asked);
        }
        match permit {
            Some(permit) => Entered::May(Some(permit)),
            None => Entered::Later(self.later(callback, limits)),
        }
    }

    /// Asks for a claim, to the end also where the caller is cancelled: what was drawn would be lost. Returns its turn, none
    /// if the asking panicked.
    async fn ask_apart(
        &self,
        turn: tokio::sync::OwnedMutexGuard<()>,
        claims: Claiming,
    ) -> Option<(tokio::sync::OwnedMutexGuard<()>, Claiming)> {
        let this = self.clone();
        let asked = tokio::spawn(async move {
            this.ask(&claims.callback).await;
            (turn, claims)
        });
        asked.await.ok()
    }

    /// Asks for what feeds need until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let this = &self;
        let ask = |(name, asking): Due| async move {
            let turn = asking.lock_owned().await;
            this.ask(&name).await;
            drop(turn);
            name
        };
        // A slow question keeps no other callback waiting.
        let (mut asks, mut asked) = (FuturesUnordered::new(), BTreeSet::new());
        while !stop.is_cancelled() {
            let (due, next) = self.due();
            for one in due {
                if asks.len() < LIMITS_ASKED_IN_FLIGHT_MAX && asked.insert(Arc::clone(&one.0)) {
                    asks.push(ask(one));
                }
            }
            let next = self.began.after(next);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(name) = asks.next(), if !asks.is_empty() => {
                    asked.remove(&name);
                }
                () = self.shared.wake.notified() => {}
                () = self.ctx.time.sleep_until(next) => {}
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
        let now = self.now();
        let mut entries = self.shared.lock();
        // Read under the lock: a permit that is spent meanwhile counts as one of the two.
        let running = self.running(callback);
        let (_, entry) = entry(&mut entries, callback, limits);
        entry.quota.admit(now, running, max)
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
    /// token or of a place, so that they do not come back all at once.
    fn later(&self, callback: &str, limits: Limits) -> Duration {
        let now = self.now();
        let mut entries = self.shared.lock();
        let running = self.running(callback);
        let (name, entry) = entry(&mut entries, callback, limits);
        note(&name, entry.quota.bound(now, running));
        // Without a rate as many come back together as there are places.
        let by_places = PAUSE / entry.quota.places().max(1);
        let step = limits.rate.map_or(by_places, |rate| rate.interval());
        let first = entry.quota.again_at(now).unwrap_or(now + PAUSE);
        let until = (entry.promised + step).max(first).min(now + LIMIT_HELD_MAX);
        entry.promised = until;
        until.saturating_sub(now)
    }

    /// Returns the callbacks that have something to ask for now, and when to look again; forgets those that are idle.
    ///
    /// Attempts that run need their places, however they came here: by a claim, or by a heartbeat after another node died.
    fn due(&self) -> (Vec<Due>, Duration) {
        let (now, snapshot) = (self.now(), self.callbacks.snapshot());
        let running = self.deadlines.callbacks();
        let mut entries = self.shared.lock();
        for name in running {
            if !flaw::is(Flaw::LimitIgnored)
                && let Some(limits) = snapshot.limits(&name)
                && limits.in_flight.is_some()
            {
                entry(&mut entries, &name, limits);
            }
        }
        entries.retain(|name, entry| {
            let idle = entry.quota.is_idle(now) && entry.claims == 0 && entry.signal.is_none();
            !idle || self.running(name) > 0
        });
        let (mut due, mut next) = (Vec::new(), now + PLACES_RENEWED);
        for (name, entry) in entries.iter() {
            let running = self.running(name);
            if entry.quota.asks(now, running, 0).is_some() {
                due.push((Arc::clone(name), Arc::clone(&entry.asking)));
            } else if let Some(at) = entry.quota.renew_at(now, running) {
                next = next.min(at.max(now));
            }
        }
        (due, next)
    }

    /// Asks the pool of a callback for what is needed now, if anything is.
    async fn ask(&self, callback: &Arc<str>) {
        let now = self.now();
        let question = {
            let mut entries = self.shared.lock();
            let running = self.running(callback);
            entries.get_mut(callback).and_then(|entry| {
                let asked = entry.quota.asks(now, running, entry.claims)?;
                entry.quota.asking(asked);
                Some((asked, entry.limits, entry.seen.clone()))
            })
        };
        let Some((asked, limits, seen)) = question else {
            return;
        };
        let drawn = limit_pool::draw(&self.ctx, callback, limits, seen, asked).await;
        if self.take(callback, limits, now, asked, drawn) {
            self.forget_ended(callback).await;
        }
    }

    /// Takes what was drawn on the question that was asked at `began`, and wakes the feed. Tells whether tasks wait for places,
    /// here or at another node.
    fn take(
        &self,
        callback: &str,
        limits: Limits,
        began: Duration,
        asked: Asked,
        drawn: Result<(Given, Option<Record>), Error>,
    ) -> bool {
        let chance = self.ctx.time.random();
        let mut entries = self.shared.lock();
        let running = self.running(callback);
        let Some(entry) = entries
            .get_mut(callback)
            .filter(|entry| entry.limits == limits)
        else {
            return false;
        };
        let mut others_wait = false;
        match drawn {
            Ok((given, record)) => {
                others_wait = given.others_wait;
                entry.seen = record;
                entry.quota.take(began, self.now(), asked, given, chance);
            }
            Err(error) => {
                tracing::debug!(callback, %error, "the limits of a callback cannot be read now");
                entry.seen = None;
                entry.quota.failed(self.now());
            }
        }
        if let Some(signal) = entry.signal.take() {
            signal.notify_one();
        }
        let waits = asked.wanted > asked.running
            && entry.quota.bound(self.now(), running) == Some(Bound::InFlight);
        waits || (others_wait && running > 0)
    }

    /// Forgets attempts that have ended at other nodes. Only where tasks wait for their places, and with a question to the
    /// pool, so once a second or so. One process has all reports.
    async fn forget_ended(&self, callback: &str) {
        if self.ctx.underway.is_some() {
            return;
        }
        let attempts = self.deadlines.some_of(callback, LIMIT_CHECKED_MAX);
        let ids: Vec<TaskId> = attempts.iter().map(|(id, _)| *id).collect();
        let rows = stored::rows_each(&self.ctx, &ids).await;
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
        self.entries.lock()
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
    entry.quota.set(limits);
    (name, entry)
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
