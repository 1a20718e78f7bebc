//! The host limits let each host have a few calls of a node at once, so that a host that is dead delays only its own tasks.
//!
//! A host that answers quickly, or well, may have more calls ([`host_share`](crate::model::host_share)), unless its callback says
//! how many it may have. A few of its tasks wait for a place here, where a place is free in a moment. Any other task is given
//! back, and comes again when a place is probably free: the times at which places become free are given out one by one. So a
//! backlog for a slow host comes back at the rate that the host can take, and not all at once.
//!
//! Slow hosts together have half of the places of the executor, so that many of them leave room for all others. One slow host has
//! as many of these as are still free, two a third each, and so on.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::{
    limits,
    model::host_share::{Answered, HostShare},
    time_source::{Moment, TimeSource},
};

/// A host whose calls usually last longer, or that has not answered one for so long, is slow.
const SLOW: Duration = Duration::from_secs(1);

/// Calls to slow hosts at once.
const SLOW_CALLS_MAX: u32 = limits::EXECUTOR_TASKS_MAX as u32 / 2;

/// A task waits for a place if it will probably have one by then, and gives up at twice that. The host may have died meanwhile.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Hosts that are remembered. Beyond it those without calls are forgotten.
const HOSTS_MAX: usize = 4096;

/// Shortest and longest time after which a task comes again.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct Host {
    /// When each call that runs began.
    running: Vec<Moment>,
    /// Tasks that wait here for a place.
    waiting: u32,
    /// Wakes one of them.
    freed: Arc<Notify>,
    /// How many calls it may have, and how long they last.
    share: HostShare,
    /// When the next place is free that was not given out yet.
    next: Moment,
}

impl Host {
    fn new(now: Moment, since: Duration) -> Self {
        Self {
            running: Vec::new(),
            waiting: 0,
            freed: Arc::default(),
            share: HostShare::new(since),
            next: now,
        }
    }

    /// Returns how many calls it may have: as many as its callback says, or its share.
    fn calls_max(&self, set: Option<u32>) -> u32 {
        set.unwrap_or_else(|| self.share.calls())
    }

    fn running(&self) -> u32 {
        u32::try_from(self.running.len()).unwrap_or(u32::MAX)
    }

    fn is_slow(&self, now: Moment) -> bool {
        let lasts = |began: &Moment| now.since(*began) > SLOW;
        self.share.usual() > SLOW || self.running.iter().any(lasts)
    }

    /// Tells whether one more task will probably not wait for long.
    fn is_free_soon(&self, set: Option<u32>, now: Moment) -> bool {
        let turn = self.share.usual() * (self.waiting + 1) / self.calls_max(set);
        turn <= WAIT_MAX && !self.is_slow(now)
    }

    /// Returns when a task that found no place is to come again.
    fn again(&mut self, set: Option<u32>, now: Moment) -> Duration {
        let apart = self.share.usual() / self.calls_max(set);
        let latest = now.after(AGAIN_MAX);
        self.next = self.next.max(now).after(apart).min(latest);
        self.next.since(now).max(AGAIN_MIN)
    }
}

/// The hosts that a node calls. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    hosts: Arc<Mutex<HashMap<String, Host>>>,
    time: TimeSource,
    /// When this began, from which the times of shares count.
    begun: Moment,
}

/// A place for a call. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    hosts: Hosts,
    host: String,
    began: Moment,
    /// Whether the host answered well; none while there is no answer.
    is_good: Option<bool>,
}

/// A task that waits for a place. Dropping it ends the wait.
#[derive(Debug)]
struct Wait {
    hosts: Hosts,
    host: String,
    set: Option<u32>,
    freed: Arc<Notify>,
}

/// The answer to a task that asks for a place.
enum Asked {
    Place(Place),
    Wait(Wait),
    Again(Duration),
}

impl Hosts {
    pub(super) fn new(time: TimeSource) -> Self {
        Self {
            hosts: Arc::default(),
            begun: time.moment(),
            time,
        }
    }

    /// Takes a place for a call, or returns when to ask again. Waits for a moment where a place is free soon. Dropping the call
    /// ends the wait. `set` is how many calls the host may have at once by the callback of the task.
    pub(super) async fn enter(&self, name: &str, set: Option<u32>) -> Result<Place, Duration> {
        let wait = match self.ask(name, set) {
            Asked::Place(place) => return Ok(place),
            Asked::Again(again) => return Err(again),
            Asked::Wait(wait) => wait,
        };
        let until = self.time.moment().after(WAIT_MAX * 2);
        loop {
            let in_time = tokio::select! {
                biased;
                () = wait.freed.notified() => true,
                () = self.time.sleep_until(until) => false,
            };
            let now = self.time.moment();
            let mut hosts = self.lock();
            let host = self.known(&mut hosts, name, now);
            if let Some(place) = self.place(name, host, set, now) {
                return Ok(place);
            }
            if !in_time {
                return Err(host.again(set, now));
            }
        }
    }

    fn ask(&self, name: &str, set: Option<u32>) -> Asked {
        let now = self.time.moment();
        let mut hosts = self.lock();
        if hosts.len() >= HOSTS_MAX && !hosts.contains_key(name) {
            hosts.retain(|_, host| host.running() + host.waiting > 0);
        }
        let crowded = is_crowded(&hosts, name, now);
        let host = self.known(&mut hosts, name, now);
        if crowded {
            return Asked::Again(host.again(set, now));
        }
        if let Some(place) = self.place(name, host, set, now) {
            return Asked::Place(place);
        }
        if host.is_free_soon(set, now) {
            host.waiting += 1;
            return Asked::Wait(Wait {
                hosts: self.clone(),
                host: name.to_owned(),
                set,
                freed: Arc::clone(&host.freed),
            });
        }
        Asked::Again(host.again(set, now))
    }

    fn place(&self, name: &str, host: &mut Host, set: Option<u32>, now: Moment) -> Option<Place> {
        if host.running() >= host.calls_max(set) {
            return None;
        }
        host.running.push(now);
        Some(Place {
            hosts: self.clone(),
            host: name.to_owned(),
            began: now,
            is_good: None,
        })
    }

    /// Returns a host, which is remembered from now on.
    fn known<'a>(
        &self,
        hosts: &'a mut HashMap<String, Host>,
        name: &str,
        now: Moment,
    ) -> &'a mut Host {
        let host = hosts.entry(name.to_owned());
        host.or_insert_with(|| Host::new(now, now.since(self.begun)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Host>> {
        self.hosts.lock()
    }
}

/// Tells whether a host is slow and has its share of the places of slow hosts.
fn is_crowded(hosts: &HashMap<String, Host>, name: &str, now: Moment) -> bool {
    let Some(host) = hosts.get(name).filter(|host| host.is_slow(now)) else {
        return false;
    };
    let slow = hosts.values().filter(|host| host.is_slow(now));
    let taken: u32 = slow.map(Host::running).sum();
    host.running() >= SLOW_CALLS_MAX.saturating_sub(taken)
}

impl Place {
    /// Frees the place behind an answer, or the failure to get one.
    pub(super) fn answered(mut self, is_good: bool) {
        self.is_good = Some(is_good);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let now = self.hosts.time.moment();
        let mut hosts = self.hosts.lock();
        let Some(host) = hosts.get_mut(&self.host) else {
            return;
        };
        let was = host.share.calls();
        let was_full = host.running() >= was;
        let place = host.running.iter().position(|began| *began == self.began);
        place.map(|place| host.running.swap_remove(place));
        if let Some(is_good) = self.is_good {
            let took = now.since(self.began);
            let answered = Answered {
                took,
                is_good,
                was_full,
            };
            host.share.learn(now.since(self.hosts.begun), answered);
        }
        host.freed.notify_one();
        if host.share.calls() > was {
            host.freed.notify_one();
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut hosts = self.hosts.lock();
        if let Some(host) = hosts.get_mut(&self.host) {
            host.waiting = host.waiting.saturating_sub(1);
            // This one may have used up the call that was meant for the next one.
            if host.waiting > 0 && host.running() < host.calls_max(self.set) {
                host.freed.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;
    use crate::model::{
        host_share::{CALLS_FIRST, CALLS_MOST},
        time::Millis,
    };

    async fn places(hosts: &Hosts, name: &str, count: u32) -> Vec<Place> {
        let all = join_all((0..count).map(|_| hosts.enter(name, None))).await;
        all.into_iter().map(Result::unwrap).collect()
    }

    fn fail(places: Vec<Place>) {
        for place in places {
            place.answered(false);
        }
    }

    /// Returns hosts of which `quick` is known as one whose calls last 4 ms.
    async fn with_a_quick_host() -> (TimeSource, Hosts) {
        let time = TimeSource::simulated(Millis(0), 1);
        let hosts = Hosts::new(time.clone());
        for _ in 0..64 {
            let place = hosts.enter("quick", None).await.unwrap();
            time.sleep(Duration::from_millis(4)).await;
            place.answered(true);
        }
        (time, hosts)
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_without_a_place_delays_its_own_tasks_only() {
        let hosts = Hosts::new(TimeSource::simulated(Millis(0), 1));
        let held = places(&hosts, "dead", CALLS_FIRST).await;
        assert!(hosts.enter("dead", None).await.is_err());
        assert!(hosts.enter("alive", None).await.is_ok());
        drop(held);
        assert!(hosts.enter("dead", None).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_host_that_answers_well_has_more_calls_and_its_tasks_wait_for_them() {
        let time = TimeSource::simulated(Millis(0), 1);
        let (hosts, end) = (Hosts::new(time.clone()), time.moment().after(SLOW * 10));
        let executor = (0..64).map(|_| async {
            let mut calls = 0;
            while time.moment() < end {
                match hosts.enter("slow", None).await {
                    Ok(place) => {
                        time.sleep(Duration::from_millis(200)).await;
                        place.answered(true);
                        calls += 1;
                    }
                    Err(again) => time.sleep(again).await,
                }
            }
            calls
        });
        let calls: u32 = join_all(executor).await.into_iter().sum();
        // 32 at once are 160 a second.
        assert!((1100..=1640).contains(&calls), "{calls} in ten seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_callback_says_how_many_calls_its_host_may_have() {
        let hosts = Hosts::new(TimeSource::simulated(Millis(0), 1));
        let mut held = Vec::new();
        for _ in 0..60 {
            held.push(hosts.enter("host", Some(60)).await.unwrap());
        }
        assert!(hosts.enter("host", Some(60)).await.is_err());
        assert!(hosts.enter("host", None).await.is_err(), "all calls count");
        held.truncate(1);
        assert!(hosts.enter("host", Some(1)).await.is_err());
        assert!(hosts.enter("host", Some(2)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_backlog_comes_back_at_the_rate_of_its_host() {
        let time = TimeSource::simulated(Millis(0), 1);
        let hosts = Hosts::new(time.clone());
        for _ in 0..8 {
            let held = places(&hosts, "slow", CALLS_FIRST).await;
            time.sleep(Duration::from_secs(16)).await;
            fail(held);
        }
        let _held = places(&hosts, "slow", CALLS_FIRST).await;
        let mut waits = Vec::new();
        for _ in 0..100 {
            waits.push(hosts.enter("slow", None).await.unwrap_err());
        }
        assert!(
            waits.is_sorted() && waits[99] > Duration::from_secs(60),
            "{waits:?}"
        );
        for _ in 0..10_000 {
            assert!(hosts.enter("slow", None).await.unwrap_err() <= AGAIN_MAX);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_of_a_quick_host_wait_for_their_places_and_all_come() {
        let (time, hosts) = with_a_quick_host().await;
        let calls = (0..300).map(|_| async {
            let place = hosts.enter("quick", None).await;
            time.sleep(Duration::from_millis(4)).await;
            place.map(|place| place.answered(true)).is_ok()
        });
        assert!(join_all(calls).await.into_iter().all(|came| came));
        assert_eq!(hosts.lock()["quick"].waiting, 0);
        assert_eq!(hosts.lock()["quick"].running(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_host_that_dies_lets_go_of_those_that_wait() {
        let (time, hosts) = with_a_quick_host().await;
        let held = places(&hosts, "quick", CALLS_MOST).await;
        let began = time.moment();
        let waiting = join_all((0..64).map(|_| hosts.enter("quick", None))).await;
        assert!(waiting.iter().all(Result::is_err));
        assert_eq!(time.moment().since(began), WAIT_MAX * 2);
        // Its calls end when they have taken too long: it is a slow host then, and nobody waits for it any more.
        time.sleep(Duration::from_secs(15)).await;
        fail(held);
        let _held = places(&hosts, "quick", CALLS_FIRST).await;
        let began = time.moment();
        assert!(hosts.enter("quick", None).await.is_err());
        assert_eq!(time.moment().since(began), Duration::ZERO);
        assert_eq!(hosts.lock()["quick"].waiting, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_leaves_its_place_to_the_next_one() {
        let (_, hosts) = with_a_quick_host().await;
        let mut held = places(&hosts, "quick", CALLS_MOST).await;
        let mut given_up = Box::pin(hosts.enter("quick", None));
        assert!(futures_util::poll!(&mut given_up).is_pending());
        let mut next = Box::pin(hosts.enter("quick", None));
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(held.pop());
        drop(given_up);
        assert!(next.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_hosts_leave_half_of_the_places_to_others() {
        let time = TimeSource::simulated(Millis(0), 1);
        let hosts = Hosts::new(time.clone());
        let name = |number: u32| format!("slow-{number}");
        for number in 0..100 {
            let place = hosts.enter(&name(number), None).await.unwrap();
            time.sleep(Duration::from_millis(200)).await;
            place.answered(true);
        }
        // They are slow from now on. Each has taken one place before that is known.
        let mut held = Vec::new();
        for number in 0..16 {
            held.extend(hosts.enter(&name(number), None).await);
        }
        time.sleep(SLOW + Duration::from_millis(1)).await;
        for _ in 0..CALLS_FIRST {
            for number in 0..16 {
                held.extend(hosts.enter(&name(number), None).await);
            }
        }
        let slow = held.len() as u32;
        assert!(
            (SLOW_CALLS_MAX * 3 / 4..=SLOW_CALLS_MAX).contains(&slow),
            "{slow}"
        );
        let each = hosts.lock()["slow-0"].running();
        assert!((3..=4).contains(&each), "{each}");
        // Another host is called as ever, also one more that is not known to be slow.
        let _others = places(&hosts, "other", CALLS_FIRST).await;
        assert!(hosts.enter("slow-50", None).await.is_ok());
        // A place that is free goes to a host that has few.
        drop(held);
        assert!(hosts.enter("slow-0", None).await.is_ok());
    }
}
