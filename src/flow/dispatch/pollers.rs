//! The pollers remember for people which workers have polled this node, and for which callbacks.
//!
//! The figure is kept in memory and bounded; nothing rests on it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

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
    /// How long ago.
    pub ago: Duration,
}

/// How often those that are forgotten are looked for while there is no room: a flood of names must not make each poll walk
/// over all of them.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// The workers of each callback, and when each polled last.
#[derive(Debug, Default)]
struct Seen {
    by_name: HashMap<String, BTreeMap<String, Moment>>,
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
    pub fn polled(&self, worker: &str, callbacks: &[String]) {
        let now = self.time.moment();
        let mut seen = self.lock();
        for callback in callbacks {
            if let Some(workers) = seen.by_name.get_mut(callback) {
                note(workers, worker, now);
            } else if seen.has_room(now) {
                let first = [(worker.to_owned(), now)].into();
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
        let polled = workers.map(|(worker, at)| Polled {
            worker: worker.clone(),
            ago: now.since(*at),
        });
        polled.filter(|polled| polled.ago <= KEPT).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
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
            let is_kept = |at: &Moment| now.since(*at) <= KEPT;
            self.by_name
                .retain(|_, workers| workers.values().any(is_kept));
        }
        self.by_name.len() < POLLED_NAMES_MAX
    }
}

fn note(workers: &mut BTreeMap<String, Moment>, worker: &str, now: Moment) {
    if let Some(at) = workers.get_mut(worker) {
        *at = now;
        return;
    }
    if workers.len() >= CALLBACK_WORKERS_MAX {
        workers.retain(|_, at| now.since(*at) <= KEPT);
    }
    if workers.len() < CALLBACK_WORKERS_MAX {
        workers.insert(worker.to_owned(), now);
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
        pollers.polled("one", &mail);
        tokio::time::advance(KEPT / 2).await;
        pollers.polled("two", &mail);
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
            pollers.polled(&format!("w{number}"), &mail);
        }
        assert_eq!(pollers.of("mail").len(), CALLBACK_WORKERS_MAX);
    }
}
