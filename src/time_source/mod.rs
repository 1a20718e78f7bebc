//! The time source gives a node its clocks, its sleep and its randomness.
//!
//! It is the only place that reads a real clock, sleeps, or draws real randomness; all other code gets them
//! from here. Sleeping and monotonic time are tokio's, so that a paused runtime (`tokio::time::pause`) runs
//! the whole service in virtual time. Only the wall clock differs between [`TimeSource::real`] and a
//! simulated one, which builds for users do not have.

#![allow(clippy::disallowed_methods, reason = "this is the one place that may")]

mod hand;
#[cfg(any(test, debug_assertions, feature = "testing"))]
mod simulated;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use uuid::Uuid;

use self::hand::Hand;
#[cfg(any(test, debug_assertions, feature = "testing"))]
use self::simulated::Simulated;
use crate::model::{record::Mark, time::Millis};

/// How often a sleeper checks the wall clock, which may be set.
const WALL_LOOK_EVERY: Duration = Duration::from_secs(1);

/// A point of the monotonic clock; comparable only within one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(tokio::time::Instant);

impl Moment {
    /// Returns the moment `duration` later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }

    /// Returns the moment `duration` earlier, or the clock's beginning.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.checked_sub(duration).unwrap_or(self.0))
    }

    /// Returns the moment as the standard library has it, for callbacks.
    #[cfg(feature = "worker")]
    #[must_use]
    pub fn instant(self) -> std::time::Instant {
        self.0.into_std()
    }

    /// Returns how long after `earlier` this moment is; zero when it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

#[derive(Debug)]
enum Wall {
    /// The machine's clock.
    System,
    /// Virtual: an epoch plus the runtime's (paused) clock.
    #[cfg(any(test, debug_assertions, feature = "testing"))]
    Simulated(Simulated),
}

/// Clocks, sleep and randomness of one node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TimeSource {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    wall: Wall,
    /// The error of the wall clock: zero, unless a drill or a test sets it.
    error_ms: AtomicI64,
    /// Moves the wall clock in tests of users; none of other services.
    hand: Option<Hand>,
    last_stamp: AtomicI64,
    random: Mutex<StdRng>,
}

impl TimeSource {
    /// Returns the machine's clocks and randomness.
    #[must_use]
    pub fn real() -> Self {
        Self::new(Wall::System, None, StdRng::from_os_rng())
    }

    /// Returns the machine's clocks, with a wall clock that tests of users move forward ([`TimeSource::move_to`]).
    #[must_use]
    pub fn by_hand() -> Self {
        Self::new(Wall::System, Some(Hand::default()), StdRng::from_os_rng())
    }

    fn new(wall: Wall, hand: Option<Hand>, random: StdRng) -> Self {
        let shared = Shared {
            wall,
            error_ms: AtomicI64::new(0),
            hand,
            last_stamp: AtomicI64::new(0),
            random: Mutex::new(random),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Sets the error of this wall clock: in simulations, and in drills of real processes.
    pub fn set_wall_error_ms(&self, error_ms: i64) {
        self.shared.error_ms.store(error_ms, Ordering::Relaxed);
    }

    /// Tells whether the wall clock is moved by hand.
    #[must_use]
    pub fn is_by_hand(&self) -> bool {
        self.shared.hand.is_some()
    }

    /// Moves a wall clock that is moved by hand forward to `at`, and wakes all that wait for it. A clock that shows that already
    /// stays, and so do all others.
    pub fn move_to(&self, at: Millis) {
        let Some(hand) = &self.shared.hand else {
            return;
        };
        hand.moves(at, || {
            let ahead = at.0.saturating_sub(self.now().0);
            if ahead > 0 {
                self.shared.error_ms.fetch_add(ahead, Ordering::Relaxed);
            }
            ahead > 0
        });
    }

    /// Returns the time to which the wall clock was moved by hand last; none if it never was.
    #[must_use]
    pub fn moved_to(&self) -> Option<Millis> {
        self.shared.hand.as_ref()?.moved_to()
    }

    /// Returns how often the wall clock was moved by hand.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.shared.hand.as_ref().map_or(0, Hand::count)
    }

    /// Sleeps, or until the wall clock is moved by hand once more than `moves` times. Cancel-safe.
    pub async fn sleep_unless_moved(&self, duration: Duration, moves: u64) {
        let Some(hand) = &self.shared.hand else {
            return self.sleep(duration).await;
        };
        tokio::select! {
            biased;
            () = hand.moved(moves) => {}
            () = self.sleep(duration) => {}
        }
    }

    /// Returns at once while the process runs: always, unless it is simulated. A simulated one returns at its
    /// continuation while it is stopped, and never when it is dead.
    pub async fn running(&self) {
        match &self.shared.wall {
            Wall::System => {}
            #[cfg(any(test, debug_assertions, feature = "testing"))]
            Wall::Simulated(simulated) => simulated.running().await,
        }
    }

    /// Returns the wall clock.
    #[must_use]
    pub fn now(&self) -> Millis {
        Millis(self.wall_micros().div_euclid(1000))
    }

    /// Returns the monotonic clock.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment(tokio::time::Instant::now())
    }

    /// Returns a write time in microseconds: the wall clock, but never the same or an earlier one twice.
    #[must_use]
    pub fn stamp(&self) -> i64 {
        let wall = self.wall_micros();
        let last = &self.shared.last_stamp;
        let previous = last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |previous| {
                Some(wall.max(previous + 1))
            })
            .unwrap_or(wall);
        wall.max(previous + 1)
    }

    /// Makes every later write time later than `at`, independently of the clock.
    pub fn stamp_behind(&self, at: Millis) {
        let micros = at.0.saturating_mul(1000);
        self.shared.last_stamp.fetch_max(micros, Ordering::Relaxed);
    }

    /// Returns 64 random bits.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.shared.random.lock().random()
    }

    /// Returns a random id that names a write or a process.
    #[must_use]
    pub fn random_uuid(&self) -> Uuid {
        let bits = (u128::from(self.random()) << 64) | u128::from(self.random());
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
    }

    /// Returns the nonce and the time of a conditional write.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            nonce: self.random_uuid(),
            stamp: self.stamp(),
        }
    }

    /// Sleeps until a moment. Cancel-safe.
    pub async fn sleep_until(&self, moment: Moment) {
        tokio::time::sleep_until(moment.0).await;
        self.running().await;
    }

    /// Sleeps until a moment, or for ever without one. Cancel-safe.
    pub async fn sleep_until_next(&self, moment: Option<Moment>) {
        match moment {
            Some(moment) => self.sleep_until(moment).await,
            None => std::future::pending().await,
        }
    }

    /// Sleeps. Cancel-safe.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
        self.running().await;
    }

    /// Sleeps until the wall clock shows `at`, or not at all when it already does. Wakes at most a
    /// millisecond late, and at most a second late when the wall clock is set forward meanwhile; at once when it is moved by
    /// hand.
    pub async fn sleep_until_wall(&self, at: Millis) {
        loop {
            let moves = self.moves();
            let micros = at.0.saturating_mul(1000).saturating_sub(self.wall_micros());
            let Ok(micros @ 1..) = u64::try_from(micros) else {
                return;
            };
            let wait = Duration::from_micros(micros).min(WALL_LOOK_EVERY);
            self.sleep_unless_moved(wait, moves).await;
        }
    }

    /// Waits for a future, but no longer than `limit`. Returns none when the time is up; the future is
    /// dropped then.
    pub async fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        match &self.shared.wall {
            Wall::System => tokio::time::timeout(limit, future).await.ok(),
            #[cfg(any(test, debug_assertions, feature = "testing"))]
            Wall::Simulated(_) => tokio::select! {
                biased;
                output = future => Some(output),
                () = self.sleep(limit) => None,
            },
        }
    }

    fn wall_micros(&self) -> i64 {
        let micros = match &self.shared.wall {
            Wall::System => {
                let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                i64::try_from(since.map_or(0, |since| since.as_micros())).unwrap_or(i64::MAX)
            }
            #[cfg(any(test, debug_assertions, feature = "testing"))]
            Wall::Simulated(simulated) => simulated.wall_micros(),
        };
        let error = self.shared.error_ms.load(Ordering::Relaxed);
        micros.saturating_add(error.saturating_mul(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleeper_wakes_when_its_time_has_come_also_by_a_step_of_the_clock() {
        let time = TimeSource::simulated(Millis(1_000_000), 1);
        let began = time.moment();
        time.sleep_until_wall(Millis(1_002_500)).await;
        assert_eq!(time.now(), Millis(1_002_500));
        let (sleeper, hour_ms) = (time.clone(), 3_600_000);
        let sleeps = tokio::spawn(async move {
            sleeper.sleep_until_wall(Millis(1_002_500 + hour_ms)).await;
            sleeper.moment()
        });
        time.sleep(Duration::from_secs(5)).await;
        assert!(!sleeps.is_finished());
        time.set_wall_error_ms(hour_ms);
        let took = sleeps.await.unwrap().since(began);
        assert!(took <= Duration::from_millis(8_500), "{took:?}");
        // When the clock is set back, it keeps waiting.
        time.set_wall_error_ms(0);
        time.sleep_until_wall(Millis(1_010_000)).await;
        assert_eq!(time.now(), Millis(1_010_000));
    }

    #[tokio::test(start_paused = true)]
    async fn stamps_never_go_back_and_begin_behind_what_they_are_told() {
        let time = TimeSource::simulated(Millis(1_000), 1);
        let first = time.stamp();
        time.stamp_behind(Millis(5_000));
        let second = time.stamp();
        assert!(first < second && second > 5_000_000);
        time.stamp_behind(Millis(2_000));
        time.set_wall_error_ms(-500);
        assert!(time.stamp() > second);
    }
}
