//! The host limits let each host have a few calls of a node at once, so that a host that is dead delays only its own tasks.
//!
//! A task whose host has no free place is given back, and comes again when a place is probably free: the times at which places
//! become free are given out one by one. So a backlog for a slow host comes back at the rate that the host can take, and not all
//! at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::time_source::{Moment, TimeSource};

/// Calls to one host at once.
const CALLS_MAX: u32 = 8;

/// Hosts that are remembered. Beyond it those without calls are forgotten.
const HOSTS_MAX: usize = 4096;

/// A call to a host that was never called is taken to last so long.
const CALL_USUAL: Duration = Duration::from_secs(1);

/// Shortest and longest time after which a task comes again.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct Host {
    running: u32,
    /// How long its calls last.
    usual: Duration,
    /// When the next place is free that was not given out yet.
    next: Moment,
}

/// The hosts that a node calls. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    hosts: Arc<Mutex<HashMap<String, Host>>>,
    time: TimeSource,
}

/// A place for a call. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    hosts: Hosts,
    host: String,
    began: Moment,
}

impl Hosts {
    pub(super) fn new(time: TimeSource) -> Self {
        Self {
            hosts: Arc::default(),
            time,
        }
    }

    /// Takes a place for a call, or returns when to ask again.
    pub(super) fn enter(&self, name: &str) -> Result<Place, Duration> {
        let now = self.time.moment();
        let mut hosts = self.lock();
        if hosts.len() >= HOSTS_MAX && !hosts.contains_key(name) {
            hosts.retain(|_, host| host.running > 0);
        }
        let host = hosts.entry(name.to_owned()).or_insert(Host {
            running: 0,
            usual: CALL_USUAL,
            next: now,
        });
        if host.running < CALLS_MAX {
            host.running += 1;
            return Ok(Place {
                hosts: self.clone(),
                host: name.to_owned(),
                began: now,
            });
        }
        let apart = host.usual / CALLS_MAX;
        let latest = now.after(AGAIN_MAX);
        host.next = host.next.max(now).after(apart).min(latest);
        Err(host.next.since(now).max(AGAIN_MIN))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let took = self.hosts.time.moment().since(self.began);
        let mut hosts = self.hosts.lock();
        if let Some(host) = hosts.get_mut(&self.host) {
            host.running = host.running.saturating_sub(1);
            host.usual = (host.usual * 7 + took) / 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Millis;

    #[tokio::test(start_paused = true)]
    async fn a_host_without_a_place_delays_its_own_tasks_only() {
        let hosts = Hosts::new(TimeSource::simulated(Millis(0), 1));
        let held: Vec<Place> = (0..CALLS_MAX)
            .map(|_| hosts.enter("dead").unwrap())
            .collect();
        assert!(hosts.enter("dead").is_err());
        assert!(hosts.enter("alive").is_ok());
        drop(held);
        assert!(hosts.enter("dead").is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_backlog_comes_back_at_the_rate_of_its_host() {
        let time = TimeSource::simulated(Millis(0), 1);
        let hosts = Hosts::new(time.clone());
        for _ in 0..8 {
            let held: Vec<Place> = (0..CALLS_MAX)
                .map(|_| hosts.enter("slow").unwrap())
                .collect();
            time.sleep(Duration::from_secs(16)).await;
            drop(held);
        }
        let _held: Vec<Place> = (0..CALLS_MAX)
            .map(|_| hosts.enter("slow").unwrap())
            .collect();
        let waits: Vec<Duration> = (0..100).map(|_| hosts.enter("slow").unwrap_err()).collect();
        assert!(
            waits.is_sorted() && waits[99] > Duration::from_secs(60),
            "{waits:?}"
        );
        for _ in 0..10_000 {
            assert!(hosts.enter("slow").unwrap_err() <= AGAIN_MAX);
        }
    }
}
