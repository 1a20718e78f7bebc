//! The admission bounds the load that the API accepts at once, for the memory and the latency of the node.
//!
//! A request beyond the bounds is refused at once, with the time to try again. Under overload a queue only
//! makes all requests late. With these bounds, accepted requests are answered about as fast as ever, and the
//! memory of the process has a ceiling. The bounds follow the speed of the service. Fewer requests are
//! accepted while those for one task take longer than without a queue ([`Pace`]). Fewer tasks are accepted
//! while batches take longer than they should (additive increase, multiplicative decrease, as in TCP). A
//! request is refused without a look at its body, and in turn ([`RefusalRate`]), since that costs the least. A task
//! that was read takes memory until the store has it, so the bytes of these are bounded, too, apart from those of
//! bodies on their way: neither slow clients nor a slow store keep out what is small. Calls of workers share the
//! bound of bodies only, and a part of it is theirs alone: a flood of registrations must
//! not keep running tasks from being settled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    pace::{Pace, Tolerance},
    refusal_rate::RefusalRate,
};
use crate::{
    http::error::{Code, Error},
    limits,
    time_source::{Moment, TimeSource},
};

/// How long a registration should take at most. At rest a full batch takes some tens of milliseconds, also on
/// a slow disk. A client that would wait longer than this is better told to come back.
const TARGET: Duration = Duration::from_secs(1);

/// When to try again: long enough to let the load go elsewhere, or down.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The kind of sender of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Sender {
    /// A client that registers, cancels or moves tasks.
    Client,
    /// A worker: tasks that run wait for it.
    Worker,
}

/// The bounds of a node.
#[derive(Debug)]
pub(in crate::http) struct Admission {
    time: TimeSource,
    registrations: Arc<Bound>,
    pace: Arc<Mutex<Pace>>,
    tasks: Arc<Bound>,
    contents: Arc<Bound>,
    bodies: Arc<Bound>,
    turns: RefusalRate,
}

/// The shares of a registration that is under way.
#[derive(Debug)]
pub(in crate::http) struct Admitted {
    time: TimeSource,
    began: Moment,
    request: Share,
    pace: Arc<Mutex<Pace>>,
    tasks: Share,
    #[allow(dead_code, reason = "held, not read")]
    contents: Share,
    registered: bool,
}

impl Admitted {
    /// Takes note that it was registered: the time that it took tells how fast the service is.
    pub(in crate::http) const fn registered(&mut self) {
        self.registered = true;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let now = self.time.moment();
        let took = now.since(self.began);
        self.tasks.bound.learn(self.tasks.amount, took);
        // A batch takes longer than a task, queue or not.
        if self.tasks.amount == 1 {
            let requests = &self.request.bound;
            let under_way = requests.used.load(Ordering::Relaxed);
            let mut pace = self.pace.lock();
            pace.note(now, took, under_way, self.registered);
            requests.max.store(pace.max(), Ordering::Relaxed);
        }
    }
}

impl Admission {
    /// `is_far` tells that the store is reached over a network.
    pub(in crate::http) fn new(time: TimeSource, is_far: bool) -> Self {
        let tolerance = if is_far {
            Tolerance::FAR
        } else {
            Tolerance::NEAR
        };
        Self {
            pace: Arc::new(Mutex::new(Pace::new(tolerance, time.moment()))),
            turns: RefusalRate::new(time.clone()),
            time,
            registrations: Bound::of(limits::REGISTRATIONS_IN_FLIGHT_MAX),
            tasks: Bound::of(limits::REGISTERING_TASKS_MAX),
            contents: Bound::of(limits::REGISTERING_BYTES_MAX),
            bodies: Bound::of(limits::BODIES_BYTES_MAX),
        }
    }

    /// Fails while no further registration is accepted. It is asked once for each request, before any part of
    /// it is read.
    ///
    /// # Errors
    /// As of [`Self::registration`].
    pub(in crate::http) fn is_open(&self, is_batch: bool) -> Result<(), Error> {
        let Bound { used, max } = &*self.registrations;
        {
            let mut pace = self.pace.lock();
            pace.comes(self.time.moment(), is_batch);
            max.store(pace.max(), Ordering::Relaxed);
        }
        if used.load(Ordering::Relaxed) < max.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(self.too_many())
        }
    }

    /// Waits until a refusal may be answered.
    pub(in crate::http) async fn refusal(&self) {
        self.turns.wait().await;
    }

    fn too_many(&self) -> Error {
        refused(&format!(
            "{} registrations are under way at this node, as many as it gets done in time",
            self.registrations.max.load(Ordering::Relaxed)
        ))
    }

    /// Lets a registration of so many tasks in, which take so many bytes. Hold the returned value until the
    /// registration is done.
    ///
    /// # Errors
    /// 429 when too much is under way.
    pub(in crate::http) fn registration(
        &self,
        tasks: usize,
        bytes: usize,
    ) -> Result<Admitted, Error> {
        let shares = [(&self.registrations, 1), (&self.tasks, tasks)].map(|(bound, amount)| {
            let mut share = Share::of(bound);
            share.grow(amount).then_some(share)
        });
        match shares {
            [Some(request), Some(tasks)] => Ok(Admitted {
                time: self.time.clone(),
                began: self.time.moment(),
                contents: self.contents(bytes)?,
                request,
                pace: Arc::clone(&self.pace),
                tasks,
                registered: false,
            }),
            [None, _] => Err(self.too_many()),
            [_, None] => Err(refused(&format!(
                "{} tasks are being registered at this node, as many as it gets done in time",
                self.tasks.used.load(Ordering::Relaxed)
            ))),
        }
    }

    /// Takes the bytes of what was read from a body and waits for the store. The length of its text stands for them: a content
    /// is no longer than that. Hold the returned value until the store has answered.
    ///
    /// # Errors
    /// 429 when too much waits for the store.
    pub(in crate::http) fn contents(&self, bytes: usize) -> Result<Share, Error> {
        let mut share = Share::of(&self.contents);
        if bytes <= limits::REGISTRATION_BYTES_UNCOUNTED {
            // The bounds of requests cover it.
            return Ok(share);
        }
        let kept = if bytes > limits::REGISTRATION_BYTES_LARGE {
            limits::REGISTERING_BYTES_KEPT
        } else {
            0
        };
        let most = limits::REGISTERING_BYTES_MAX - kept;
        if share.grow_within(bytes, most) {
            Ok(share)
        } else {
            Err(refused(&format!(
                "registrations of {} MiB wait for the store of this node",
                self.contents.used.load(Ordering::Relaxed) / (1024 * 1024)
            )))
        }
    }

    /// Returns the share of a body; it grows with the body.
    pub(in crate::http) fn body(&self, sender: Sender) -> Share {
        let most = match sender {
            Sender::Worker => limits::BODIES_BYTES_MAX,
            Sender::Client => limits::BODIES_BYTES_MAX - limits::BODIES_BYTES_WORKERS,
        };
        let mut share = Share::of(&self.bodies);
        share.most = most;
        share
    }
}

/// Says that there is no room for a body.
pub(in crate::http) fn no_room() -> Error {
    refused(&format!(
        "requests of {} MiB are under way at this node",
        limits::BODIES_BYTES_MAX / (1024 * 1024)
    ))
}

/// Says that a bound of the node is reached.
pub(in crate::http) fn refused(what: &str) -> Error {
    Error {
        retry_after: Some(RETRY_AFTER),
        ..Error::new(
            Code::TooManyRequests,
            format!("{what}: it takes on no more; this request had no effect"),
        )
    }
}

/// An amount that several holders share.
#[derive(Debug)]
pub(in crate::http) struct Bound {
    used: AtomicUsize,
    max: AtomicUsize,
}

impl Bound {
    pub(in crate::http) fn of(max: usize) -> Arc<Self> {
        Arc::new(Self {
            used: AtomicUsize::new(0),
            max: AtomicUsize::new(max),
        })
    }

    /// Tells whether anything is left.
    pub(in crate::http) fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) < self.max.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(in crate::http) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Moves the bound of tasks after so many of them took so long together. A lost update costs one step.
    fn learn(&self, tasks: usize, took: Duration) {
        let max = self.max.load(Ordering::Relaxed);
        let next = if took > TARGET {
            // In proportion: a bound that is used up once is a quarter lower afterwards.
            max.saturating_sub(tasks / 4)
        } else {
            max.saturating_add(tasks / 16)
        };
        let bounds = (limits::REGISTERING_TASKS_MIN, limits::REGISTERING_TASKS_MAX);
        self.max
            .store(next.clamp(bounds.0, bounds.1), Ordering::Relaxed);
    }
}

/// A part of a bound; given back when it is dropped.
#[derive(Debug)]
pub(in crate::http) struct Share {
    bound: Arc<Bound>,
    amount: usize,
    /// Up to where this share may use the bound.
    most: usize,
}

impl Share {
    /// Returns an empty share.
    pub(in crate::http) fn of(bound: &Arc<Bound>) -> Self {
        Self {
            bound: Arc::clone(bound),
            amount: 0,
            most: usize::MAX,
        }
    }

    /// Takes more. Returns false when not that much is left.
    pub(in crate::http) fn grow(&mut self, more: usize) -> bool {
        let Bound { used, max } = &*self.bound;
        let most = max.load(Ordering::Relaxed).min(self.most);
        // Taken first and given back if it was too much, so that two requests at once cannot both take the
        // last part.
        if used.fetch_add(more, Ordering::Relaxed).saturating_add(more) > most {
            used.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.amount += more;
        true
    }

    /// The same, as long as at most so much of the bound is used.
    pub(super) fn grow_within(&mut self, more: usize, most: usize) -> bool {
        self.most = most;
        self.grow(more)
    }

    /// Takes more, even beyond the bound.
    pub(super) fn grow_anyway(&mut self, more: usize) {
        self.bound.used.fetch_add(more, Ordering::Relaxed);
        self.amount += more;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.bound.used.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Millis;

    fn admission() -> Admission {
        Admission::new(TimeSource::simulated(Millis(0), 1), false)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_much_is_refused_and_what_ends_makes_room() {
        let admission = admission();
        let most = limits::REGISTRATIONS_IN_FLIGHT_MAX;
        let mut held: Vec<Admitted> = (0..most)
            .map(|_| admission.registration(1, 0).unwrap())
            .collect();
        let refused = admission.registration(1, 0).unwrap_err();
        assert_eq!(refused.code, Code::TooManyRequests);
        assert!(refused.retry_after.is_some() && refused.detail.contains("4096 registrations"));
        held.pop();
        drop(admission.registration(1, 0).unwrap());
        held.clear();
        let _much = admission
            .registration(limits::REGISTERING_TASKS_MAX, 0)
            .unwrap();
        let refused = admission.registration(1, 0).unwrap_err();
        assert!(refused.detail.contains("50000 tasks"), "{}", refused.detail);
        // A refusal leaves nothing behind.
        assert_eq!(admission.registrations.used.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_slow_takes_on_less_and_one_that_is_not_more_again() {
        let admission = admission();
        for _ in 0..200 {
            let slow = admission.registration(1000, 0).unwrap();
            admission.time.sleep(TARGET * 2).await;
            drop(slow);
        }
        let least = limits::REGISTERING_TASKS_MIN;
        let held = admission.registration(least, 0).unwrap();
        assert!(admission.registration(1, 0).is_err());
        drop(held);
        for _ in 0..2000 {
            drop(admission.registration(1000, 0).unwrap());
        }
        drop(
            admission
                .registration(limits::REGISTERING_TASKS_MAX, 0)
                .unwrap(),
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_on_which_requests_wait_lets_fewer_in_and_says_so_before_it_reads_them() {
        let admission = admission();
        let some = |count| {
            let held = (0..count).map(|_| admission.registration(1, 0).unwrap());
            held.collect::<Vec<Admitted>>()
        };
        let least = limits::REGISTRATIONS_IN_FLIGHT_MIN;
        let until = admission.time.moment().after(Duration::from_secs(5));
        while admission.time.moment() < until {
            assert!(admission.is_open(false).is_ok());
            let slow = some(least);
            admission.time.sleep(Duration::from_millis(50)).await;
            drop(slow);
        }
        let held = some(least);
        let refused = admission.is_open(false).unwrap_err();
        assert!(refused.retry_after.is_some(), "{refused:?}");
        assert!(
            refused.detail.contains("64 registrations"),
            "{}",
            refused.detail
        );
        assert!(admission.registration(1, 0).is_err());
        drop(held);
        assert!(admission.is_open(false).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_takes_what_has_arrived_of_it() {
        let admission = admission();
        let clients = limits::BODIES_BYTES_MAX - limits::BODIES_BYTES_WORKERS;
        let mut one = admission.body(Sender::Client);
        assert!(one.grow(clients - 10));
        let mut other = admission.body(Sender::Client);
        assert!(other.grow(10) && !other.grow(1));
        let mut worker = admission.body(Sender::Worker);
        assert!(worker.grow(limits::BODIES_BYTES_WORKERS) && !worker.grow(1));
        drop(worker);
        drop(one);
        assert!(other.grow(1));
        drop(other);
        assert_eq!(admission.bodies.used.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pace_of_single_registrations_is_not_learned_from_batches() {
        let admission = admission();
        let single = async || {
            let mut single = admission.registration(1, 0).unwrap();
            admission.time.sleep(Duration::from_millis(1)).await;
            single.registered();
        };
        // The time that one takes without a queue.
        for _ in 0..500 {
            single().await;
        }
        let until = admission.time.moment().after(Duration::from_secs(5));
        while admission.time.moment() < until {
            assert!(admission.is_open(true).is_ok());
            let under_way = limits::REGISTRATIONS_IN_FLIGHT_MIN;
            let held = (0..under_way).map(|_| admission.registration(2, 0).unwrap());
            let held = held.collect::<Vec<Admitted>>();
            // Long for one task, usual for a batch.
            for _ in 0..50 {
                single().await;
            }
            for mut batch in held {
                batch.registered();
            }
        }
        let max = admission.registrations.max.load(Ordering::Relaxed);
        assert_eq!(max, limits::REGISTRATIONS_IN_FLIGHT_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_the_store_is_bounded_in_bytes_and_small_requests_pass() {
        let admission = admission();
        let large = limits::BATCH_REQUEST_BYTES_MAX;
        let all = limits::REGISTERING_BYTES_MAX;
        let many = (all - limits::REGISTERING_BYTES_KEPT) / large;
        let mut held: Vec<Admitted> = (0..many)
            .map(|_| admission.registration(15, large).unwrap())
            .collect();
        let refused = admission.registration(15, large).unwrap_err();
        assert_eq!(refused.code, Code::TooManyRequests);
        assert!(refused.retry_after.is_some() && refused.detail.contains("48 MiB"));
        // The last part is for what is not large.
        let usual = limits::REGISTRATION_BYTES_LARGE;
        while let Ok(admitted) = admission.registration(100, usual) {
            held.push(admitted);
        }
        assert!(admission.contents.used() > all - usual && admission.contents.used() <= all);
        let small = limits::REGISTRATION_BYTES_UNCOUNTED;
        assert!(admission.registration(1, small).is_ok() && admission.contents(small).is_ok());
        held.clear();
        for bound in [
            &admission.contents,
            &admission.tasks,
            &admission.registrations,
        ] {
            assert_eq!(bound.used(), 0);
        }
    }
}
