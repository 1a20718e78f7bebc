//! The simulated clocks give tests of the whole service virtual time, seeded randomness, and processes that stop.
//!
//! Builds for users do not have them.

use parking_lot::Mutex;
use rand::{SeedableRng, rngs::StdRng};

use super::{Moment, TimeSource, Wall};
use crate::model::time::Millis;

/// A virtual wall clock, and the state of the process that has it.
#[derive(Debug)]
pub(super) struct Simulated {
    epoch: Millis,
    started: Moment,
    held: Mutex<Held>,
}

/// The state of a simulated process.
#[derive(Debug, Clone, Copy, Default)]
enum Held {
    #[default]
    Free,
    /// It is stopped, as by SIGSTOP: time goes on, and no part of it wakes before this moment.
    Until(Moment),
    /// It is dead: no part of it ever wakes.
    ForEver,
}

impl Simulated {
    fn new(epoch: Millis, started: Moment) -> Self {
        Self {
            epoch,
            started,
            held: Mutex::default(),
        }
    }

    pub(super) fn wall_micros(&self) -> i64 {
        let now = Moment(tokio::time::Instant::now());
        let passed = i64::try_from(now.since(self.started).as_micros()).unwrap_or(i64::MAX);
        self.epoch.0.saturating_mul(1000).saturating_add(passed)
    }

    pub(super) async fn running(&self) {
        loop {
            let now = *self.held.lock();
            match now {
                Held::Free => return,
                Held::Until(Moment(moment)) if moment <= tokio::time::Instant::now() => return,
                Held::Until(Moment(moment)) => tokio::time::sleep_until(moment).await,
                Held::ForEver => std::future::pending::<()>().await,
            }
        }
    }

    fn hold(&self, until: Option<Moment>) {
        let mut held = self.held.lock();
        *held = match (*held, until) {
            (Held::ForEver, _) | (_, None) => Held::ForEver,
            (Held::Until(earlier), Some(until)) => Held::Until(earlier.max(until)),
            (Held::Free, Some(until)) => Held::Until(until),
        };
    }
}

impl TimeSource {
    /// Returns virtual clocks that begin at `epoch`, and randomness from a seed. Needs a paused tokio runtime.
    #[must_use]
    pub fn simulated(epoch: Millis, seed: u64) -> Self {
        let started = Moment(tokio::time::Instant::now());
        let wall = Wall::Simulated(Simulated::new(epoch, started));
        Self::new(wall, None, StdRng::seed_from_u64(seed))
    }

    /// Returns a node's own view of the same virtual time: own randomness, own wall clock error.
    #[must_use]
    pub fn simulated_peer(&self, seed: u64) -> Self {
        match &self.shared.wall {
            Wall::System => Self::real(),
            Wall::Simulated(Simulated { epoch, started, .. }) => {
                let wall = Wall::Simulated(Simulated::new(*epoch, *started));
                Self::new(wall, None, StdRng::seed_from_u64(seed))
            }
        }
    }

    /// Stops a simulated process until a moment, or for ever; does nothing to a real one. No sleeper of these
    /// clocks wakes before. Code that holds messages back from the process asks [`TimeSource::running`].
    pub fn hold(&self, until: Option<Moment>) {
        if let Wall::Simulated(simulated) = &self.shared.wall {
            simulated.hold(until);
        }
    }
}
