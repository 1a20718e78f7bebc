//! The pollers remember for people which workers have polled this node, and for which callbacks.
//!
//! The figure is kept in memory and bounded; nothing rests on it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    limits::{CALLBACK_WORKERS_MAX, POLLED_NAMES_MAX},
    time_source::{Moment, TimeSource},
};

/// How long a worker that has polled is remembered.
const KEPT: Duration = Duration::from_secs(600);

/// A worker that has polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polled {
    /// Its name.
    pub worker: String,
    /// The version of its program, if it says so.
    pub version: Option<String>,
    /// How long ago.
    pub ago: Duration,
}

/// How often those that are forgotten are looked for while there is no room: a flood of names must not make each poll walk
/// over all of them.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// The last poll of a worker.
#[derive(Debug, Clone)]
struct Poll {
    at: Moment,
    version: Option<String>,
}

/// The workers of each callback, and the last poll of each.
#[derive(Debug, Default)]
struct Seen {
    by_name: HashMap<String, BTreeMap<String, Poll>>,
    tidied: Option<Moment>,
}

/// The workers that have polled a node. Cheap to clone; clones are the same knowledge.
#[derive(Debug, Clone)]
pub struct Pollers {
    time: TimeSource,
    seen: Arc<Mutex<Seen>>,
}

impl Pollers {
    /// Knows none yet.
    #[must_use]
    pub fn new(time: TimeSource) -> Self {
        Self {
            time,
            seen: Arc::default(),
        }
    }

    /// Notes that a worker polls for callbacks.
    pub fn polled(&self, worker: &str, version: Option<&str>, callbacks: &[String]) {
        let now = self.time.moment();
        let mut seen = self.lock();
        for callback in callbacks {
            if let Some(workers) = seen.by_name.get_mut(callback) {
                note(workers, worker, version, now);
            } else if seen.has_room(now) {
                let first = [(worker.to_owned(), Poll::new(version, now))].into();
                seen.by_name.insert(callback.clone(), first);
            }
        }
    }

    /// Returns the workers that have polled lately for a callback, by name.
    #[must_use]
    pub fn of(&self, callback: &str) -> Vec<Polled> {
        let now = self.time.moment();
        let seen = self.lock();
        let workers = seen.by_name.get(callback).into_iter().flatten();
        let polled = workers.map(|(worker, poll)| Polled {
            worker: worker.clone(),
            version: poll.version.clone(),
            ago: now.since(poll.at),
        });
        polled.filter(|polled| polled.ago <= KEPT).collect()
    }

    /// Returns the callbacks for which workers have polled lately.
    #[must_use]
    pub fn callbacks(&self) -> Vec<String> {
        let now = self.time.moment();
        let seen = self.lock();
        let is_kept = |poll: &Poll| now.since(poll.at) <= KEPT;
        let kept = seen.by_name.iter();
        kept.filter(|(_, workers)| workers.values().any(is_kept))
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }
}

impl Seen {
    /// Tells whether there is room for another callback, after those that are forgotten have gone.
    fn has_room(&mut self, now: Moment) -> bool {
        let tidied = self
            .tidied
            .is_some_and(|tidied| now.since(tidied) < TIDY_EVERY);
        if self.by_name.len() >= POLLED_NAMES_MAX && !tidied {
            self.tidied = Some(now);
            let is_kept = |poll: &Poll| now.since(poll.at) <= KEPT;
            self.by_name
                .retain(|_, workers| workers.values().any(is_kept));
        }
        self.by_name.len() < POLLED_NAMES_MAX
    }
}

impl Poll {
    fn new(version: Option<&str>, at: Moment) -> Self {
        let version = version.map(str::to_owned);
        Self { at, version }
    }
}

fn note(workers: &mut BTreeMap<String, Poll>, worker: &str, version: Option<&str>, now: Moment) {
    if let Some(poll) = workers.get_mut(worker) {
        poll.at = now;
        if poll.version.as_deref() != version {
            poll.version = version.map(str::to_owned);
        }
        return;
    }
    if workers.len() >= CALLBACK_WORKERS_MAX {
        workers.retain(|_, poll| now.since(poll.at) <= KEPT);
    }
    if workers.len() < CALLBACK_WORKERS_MAX {
        workers.insert(worker.to_owned(), Poll::new(version, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::Millis;

    #[tokio::test(start_paused = true)]
    async fn workers_are_remembered_for_ten_minutes_and_are_bounded() {
        let pollers = Pollers::new(TimeSource::simulated(Millis(0), 1));
        let mail = ["mail".to_owned()];
        pollers.polled("one", Some("1.0"), &mail);
        tokio::time::advance(KEPT / 2).await;
        pollers.polled("two", None, &mail);
        let versions = pollers.of("mail").into_iter().map(|polled| polled.version);
        assert_eq!(versions.collect::<Vec<_>>(), [Some("1.0".to_owned()), None]);
        let ago = |polled: Vec<Polled>| -> Vec<(String, Duration)> {
            polled.into_iter().map(|p| (p.worker, p.ago)).collect()
        };
        let expected = [("one", KEPT / 2), ("two", Duration::ZERO)];
        let expected = expected.map(|(worker, ago)| (worker.to_owned(), ago));
        assert_eq!(ago(pollers.of("mail")), expected);
        assert_eq!(pollers.of("other"), []);
        tokio::time::advance(KEPT / 2 + Duration::from_secs(1)).await;
        assert_eq!(pollers.of("mail").len(), 1);
        for number in 0..=CALLBACK_WORKERS_MAX {
            pollers.polled(&format!("w{number}"), None, &mail);
        }
        assert_eq!(pollers.of("mail").len(), CALLBACK_WORKERS_MAX);
    }
}
