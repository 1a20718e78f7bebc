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
    /// Polls that are waiting.
    waiting: u32,
}

impl Poll {
    fn new(version: Option<&str>, at: Moment) -> Self {
        Self {
            at,
            version: version.map(str::to_owned),
            waiting: 0,
        }
    }

    /// Returns how long ago it was: a poll that waits is one of now.
    fn ago(&self, now: Moment) -> Duration {
        if self.waiting > 0 {
            Duration::ZERO
        } else {
            now.since(self.at)
        }
    }

    fn is_kept(&self, now: Moment) -> bool {
        self.ago(now) <= KEPT
    }
}

/// A poll that waits, until it is dropped.
#[derive(Debug)]
pub(in crate::flow) struct Polling {
    of: Pollers,
    worker: String,
    callbacks: Vec<String>,
}

impl Drop for Polling {
    fn drop(&mut self) {
        let now = self.of.time.moment();
        let mut seen = self.of.lock();
        for callback in &self.callbacks {
            let workers = seen.by_name.get_mut(callback);
            if let Some(poll) = workers.and_then(|workers| workers.get_mut(&self.worker)) {
                (poll.at, poll.waiting) = (now, poll.waiting.saturating_sub(1));
            }
        }
    }
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

    /// Notes that a worker polls for callbacks, as long as the answer is held.
    pub(in crate::flow) fn polls(
        &self,
        worker: &str,
        version: Option<&str>,
        callbacks: &[String],
    ) -> Polling {
        let now = self.time.moment();
        let mut seen = self.lock();
        for callback in callbacks {
            if let Some(poll) = seen.note(callback, (worker, version), now) {
                poll.waiting += 1;
            }
        }
        drop(seen);
        Polling {
            of: self.clone(),
            worker: worker.to_owned(),
            callbacks: callbacks.to_vec(),
        }
    }

    /// Notes that a worker takes tasks of callbacks that it has from the queue itself.
    pub fn claims<'a>(&self, worker: &str, callbacks: impl Iterator<Item = &'a str>) {
        let now = self.time.moment();
        let mut seen = self.lock();
        let mut last = None;
        for callback in callbacks {
            if last.replace(callback) != Some(callback) {
                seen.note(callback, (worker, None), now);
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
            ago: poll.ago(now),
        });
        polled.filter(|polled| polled.ago <= KEPT).collect()
    }

    /// Returns the callbacks for which workers have polled lately, and how long ago the last of them did.
    #[must_use]
    pub fn callbacks(&self) -> Vec<(String, Duration)> {
        let now = self.time.moment();
        let seen = self.lock();
        let last = |workers: &BTreeMap<String, Poll>| {
            let ago = workers.values().map(|poll| poll.ago(now)).min();
            ago.filter(|ago| *ago <= KEPT)
        };
        let names = seen.by_name.iter();
        names
            .filter_map(|(name, workers)| Some((name.clone(), last(workers)?)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }
}

impl Seen {
    /// Notes a poll; none when there is no room for it.
    fn note(
        &mut self,
        callback: &str,
        (worker, version): (&str, Option<&str>),
        now: Moment,
    ) -> Option<&mut Poll> {
        if !self.by_name.contains_key(callback) {
            if !self.has_room(now) {
                return None;
            }
            self.by_name.insert(callback.to_owned(), BTreeMap::new());
        }
        let workers = self.by_name.get_mut(callback)?;
        if !workers.contains_key(worker) {
            if workers.len() >= CALLBACK_WORKERS_MAX {
                workers.retain(|_, poll| poll.is_kept(now));
            }
            if workers.len() >= CALLBACK_WORKERS_MAX {
                return None;
            }
            workers.insert(worker.to_owned(), Poll::new(version, now));
        }
        let poll = workers.get_mut(worker)?;
        poll.at = now;
        if version.is_some() && poll.version.as_deref() != version {
            poll.version = version.map(str::to_owned);
        }
        Some(poll)
    }

    /// Tells whether there is room for another callback, after those that are forgotten have gone.
    fn has_room(&mut self, now: Moment) -> bool {
        let tidied = self
            .tidied
            .is_some_and(|tidied| now.since(tidied) < TIDY_EVERY);
        if self.by_name.len() >= POLLED_NAMES_MAX && !tidied {
            self.tidied = Some(now);
            self.by_name
                .retain(|_, workers| workers.values().any(|poll| poll.is_kept(now)));
        }
        self.by_name.len() < POLLED_NAMES_MAX
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
        drop(pollers.polls("one", Some("1.0"), &mail));
        tokio::time::advance(KEPT / 2).await;
        pollers.claims("two", ["mail", "mail"].into_iter());
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
            drop(pollers.polls(&format!("w{number}"), None, &mail));
        }
        assert_eq!(pollers.of("mail").len(), CALLBACK_WORKERS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_that_waits_is_one_of_now() {
        let pollers = Pollers::new(TimeSource::simulated(Millis(0), 1));
        let mail = ["mail".to_owned()];
        let (first, second) = (
            pollers.polls("one", None, &mail),
            pollers.polls("one", None, &mail),
        );
        tokio::time::advance(KEPT * 2).await;
        let ago = || pollers.callbacks().first().map(|(_, ago)| *ago);
        drop(first);
        assert_eq!(ago(), Some(Duration::ZERO));
        drop(second);
        tokio::time::advance(KEPT).await;
        assert_eq!(ago(), Some(KEPT));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ago(), None);
    }
}
