//! The rate of refusals bounds how many requests a second the node refuses, for those that it accepted.
//!
//! A refusal costs about half of a registration. A client that comes again at once would be refused as often
//! as it can ask, at the cost of the accepted requests. A connection that waits for its answer asks for
//! nothing, so a refusal waits for its turn. It does not wait while few are refused, and never so long that a
//! client takes the server for dead.

use std::time::Duration;

use parking_lot::Mutex;

use crate::{
    limits,
    time_source::{Moment, TimeSource},
};

/// Hands out turns to refusals.
#[derive(Debug)]
pub(in crate::http) struct RefusalRate {
    time: TimeSource,
    next: Mutex<Moment>,
}

impl RefusalRate {
    pub(in crate::http) fn new(time: TimeSource) -> Self {
        let next = Mutex::new(time.moment());
        Self { time, next }
    }

    /// Waits for the next turn. Giving up the wait costs only the turn.
    pub(in crate::http) async fn wait(&self) {
        let wait = self.take(self.time.moment());
        if !wait.is_zero() {
            self.time.sleep(wait).await;
        }
    }

    fn take(&self, now: Moment) -> Duration {
        let mut next = self.next.lock();
        let turn = (*next).max(now).min(now.after(limits::REFUSAL_WAIT_MAX));
        *next = turn.after(Duration::from_secs(1) / limits::REFUSALS_PER_SECOND);
        turn.since(now)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::time::Millis;

    /// How long the last of so many waits takes when all come at once.
    async fn last_of(turns: &Arc<RefusalRate>, count: u32) -> Duration {
        let began = turns.time.moment();
        let waits = (0..count).map(|_| turns.wait());
        futures_util::future::join_all(waits).await;
        turns.time.moment().since(began)
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_are_told_at_once_and_many_at_a_rate_and_none_waits_for_long() {
        let time = TimeSource::simulated(Millis(0), 1);
        let turns = Arc::new(RefusalRate::new(time.clone()));
        assert_eq!(last_of(&turns, 1).await, Duration::ZERO);
        time.sleep(Duration::from_secs(1)).await;
        let some = limits::REFUSALS_PER_SECOND / 10;
        let took = last_of(&turns, some).await.as_millis();
        assert!((95..=105).contains(&took), "{took} ms");
        let took = last_of(&turns, 20 * some).await;
        assert!(
            took <= limits::REFUSAL_WAIT_MAX + Duration::from_millis(2),
            "{took:?}"
        );
    }
}
