//! Places bound how many reads of one kind a node makes at once for its clients.
//!
//! A request that finds no free place waits a moment in line, and is then told to come back. A line that only
//! grows makes every client late, and would read for clients that have given up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{flow::base::api::Fault, limits, time_source::TimeSource};

/// When to try again: long enough for the line to move.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The places of one kind. Cheap to clone; clones are the same places.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Places {
    time: TimeSource,
    free: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    at_once: usize,
    wait_max: Duration,
    /// The name of the work done there, for people.
    name: &'static str,
}

/// One that waits; it counts until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Places {
    /// Returns places for which a request may wait as long as [`limits::PLACE_WAIT_MAX`].
    pub(in crate::flow) fn new(time: TimeSource, at_once: usize, name: &'static str) -> Self {
        Self {
            time,
            free: Arc::new(Semaphore::new(at_once.max(1))),
            waiting: Arc::default(),
            at_once,
            wait_max: limits::PLACE_WAIT_MAX,
            name,
        }
    }

    /// Limits the wait for a place to this time.
    pub(super) const fn waiting_for(mut self, wait_max: Duration) -> Self {
        self.wait_max = wait_max;
        self
    }

    /// Takes a place, at once or after a wait.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] when there is none.
    pub(in crate::flow) async fn enter(&self) -> Result<OwnedSemaphorePermit, Fault> {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return Ok(place);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if before >= limits::PLACES_WAITING_MAX {
            return Err(self.refused());
        }
        let place = Arc::clone(&self.free).acquire_owned();
        let place = self.time.within(self.wait_max, place).await;
        place.and_then(Result::ok).ok_or_else(|| self.refused())
    }

    fn refused(&self) -> Fault {
        Fault::Unavailable {
            reason: format!(
                "{} {} are under way at this node, as many as it makes at once",
                self.at_once, self.name
            ),
            retry_after: RETRY_AFTER,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::model::time::Millis;

    #[tokio::test(start_paused = true)]
    async fn those_who_find_no_place_wait_a_moment_and_not_too_many_of_them() {
        let time = TimeSource::simulated(Millis(0), 1);
        let places = Places::new(time.clone(), 2, "lists");
        let first = places.enter().await.unwrap();
        let _second = places.enter().await.unwrap();
        let mut third = Box::pin(places.enter());
        assert!((&mut third).now_or_never().is_none());
        drop(first);
        let third = third.now_or_never().unwrap().unwrap();
        let began = time.now();
        let refused = places.enter().await.unwrap_err();
        assert!(
            refused.to_string().contains("2 lists are under way"),
            "{refused}"
        );
        assert_eq!(time.now().since(began), limits::PLACE_WAIT_MAX);
        let mut line: Vec<_> = (0..limits::PLACES_WAITING_MAX)
            .map(|_| Box::pin(places.enter()))
            .collect();
        for waiting in &mut line {
            assert!(waiting.now_or_never().is_none());
        }
        let beyond = places.enter().now_or_never().expect("it does not wait");
        assert!(beyond.is_err());
        drop((line, third));
        assert!(
            places
                .enter()
                .now_or_never()
                .is_some_and(|place| place.is_ok())
        );
    }
}
