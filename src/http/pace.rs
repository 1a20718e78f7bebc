//! How many registrations may be under way at once, learned from how long they take.
//!
//! A queue that stands makes everybody late and nobody faster. So: while registrations take little longer than they did when
//! there was no queue, the bound is wide, and a burst passes; once they take longer for seconds, it is brought down
//! to where there would be none (by Little's law: the number under way is in proportion to the time), and then opens again
//! step by step. The time without a queue is the least of the last minutes, so a slow disk is not taken for a queue.

use std::time::Duration;

use crate::{limits, time_source::Moment};

/// Over which registrations are averaged: longer than a sync of a slow disk, shorter than what a person notices.
const WINDOW: Duration = Duration::from_millis(100);

/// How long a queue may stand: many clients at once, a disk that stalls, a server that collects its garbage. What has come
/// by then is done, and only who comes all the time finds the door closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The least time is that of one to two of these.
const MEMORY: Duration = Duration::from_secs(60);

/// What is no queue: the scheduling of a busy machine, a merge of the store.
const SLACK: Duration = Duration::from_millis(10);

/// Above it they are late whatever the time without a queue was.
const TARGET_MAX: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(super) struct Pace {
    max: usize,
    began: Moment,
    sum: Duration,
    count: u32,
    /// The most that were under way in this window.
    peak: usize,
    /// Since when registrations have taken too long.
    queues_since: Option<Moment>,
    /// The least mean of a window, in this span and in the one before.
    least: [Option<Duration>; 2],
    remembers_since: Moment,
}

impl Pace {
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            max: limits::REGISTRATIONS_IN_FLIGHT_MAX,
            began: now,
            sum: Duration::ZERO,
            count: 0,
            peak: 0,
            queues_since: None,
            least: [None; 2],
            remembers_since: now,
        }
    }

    /// Takes note of one that is done, with how many were under way; returns the new bound at the end of a window.
    pub(super) fn note(&mut self, now: Moment, took: Duration, under_way: usize) -> Option<usize> {
        self.sum += took;
        self.count += 1;
        self.peak = self.peak.max(under_way);
        if now.since(self.began) < WINDOW {
            return None;
        }
        let mean = self.sum / self.count;
        self.remember(now, mean);
        let windows = now.since(self.began).as_millis() / WINDOW.as_millis();
        let windows = usize::try_from(windows).unwrap_or(usize::MAX);
        self.max = self.next(now, mean, windows).clamp(
            limits::REGISTRATIONS_IN_FLIGHT_MIN,
            limits::REGISTRATIONS_IN_FLIGHT_MAX,
        );
        (self.began, self.sum, self.count, self.peak) = (now, Duration::ZERO, 0, 0);
        Some(self.max)
    }

    /// Returns the bound after so many windows; an idle service lets many pass without noticing.
    fn next(&mut self, now: Moment, mean: Duration, windows: usize) -> usize {
        let target = self.target();
        // With so few under way there is no queue that could be brought down.
        if mean <= target || self.peak < limits::REGISTRATIONS_IN_FLIGHT_MIN {
            self.queues_since = None;
            let step = (self.max / 16).max(8);
            return self.max.saturating_add(step.saturating_mul(windows));
        }
        let since = *self.queues_since.get_or_insert(now);
        if now.since(since) < PATIENCE {
            return self.max;
        }
        // To no queue at all: else the least time would be forgotten while it goes on, and the target creep up.
        let in_time = self.least().as_secs_f64() / mean.as_secs_f64();
        (self.peak.min(self.max) as f64 * in_time) as usize
    }

    /// How long a registration may take on average.
    fn target(&self) -> Duration {
        (self.least() * 2 + SLACK).min(TARGET_MAX)
    }

    fn least(&self) -> Duration {
        let least = self.least.iter().flatten().min().copied();
        least.unwrap_or_default()
    }

    fn remember(&mut self, now: Moment, mean: Duration) {
        if now.since(self.remembers_since) > MEMORY {
            let [this, _] = self.least;
            self.least = [None, this];
            self.remembers_since = now;
        }
        let [this, _] = &mut self.least;
        *this = Some(this.map_or(mean, |least| least.min(mean)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::time::Millis, time_source::TimeSource};

    const MOST: usize = limits::REGISTRATIONS_IN_FLIGHT_MAX;
    const LEAST: usize = limits::REGISTRATIONS_IN_FLIGHT_MIN;

    /// A service that does so many a second and is offered as many as it lets in, for so long.
    async fn overloaded(
        pace: &mut Pace,
        time: &TimeSource,
        rate: usize,
        span: Duration,
    ) -> Duration {
        let (mut bound, mut took) = (pace.max, Duration::ZERO);
        let until = time.moment().after(span);
        while time.moment() < until {
            took =
                Duration::from_secs_f64(bound as f64 / rate as f64).max(Duration::from_millis(5));
            time.sleep(WINDOW / 10).await;
            for _ in 0..rate / 100 {
                bound = pace.note(time.moment(), took, bound).unwrap_or(bound);
            }
        }
        took
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_and_a_queue_that_stands_is_brought_down_and_stays_down() {
        let time = TimeSource::simulated(Millis(0), 1);
        let mut pace = Pace::new(time.moment());
        let rest = async |pace: &mut Pace| {
            for _ in 0..1000 {
                time.sleep(WINDOW / 10).await;
                pace.note(time.moment(), Duration::from_millis(5), 10);
            }
        };
        rest(&mut pace).await;
        assert_eq!(pace.max, MOST, "at rest everything passes");
        overloaded(&mut pace, &time, 40_000, PATIENCE - WINDOW).await;
        assert_eq!(pace.max, MOST, "a burst is no overload");
        rest(&mut pace).await;
        let took = overloaded(&mut pace, &time, 40_000, PATIENCE + WINDOW * 3).await;
        assert!(took <= Duration::from_millis(25), "{took:?}");
        for _ in 0..60 {
            let took = overloaded(&mut pace, &time, 40_000, Duration::from_secs(5)).await;
            assert!(took <= Duration::from_millis(60), "{took:?}");
        }
        rest(&mut pace).await;
        assert_eq!(pace.max, MOST, "and it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_disk_is_no_queue_and_a_service_that_does_not_get_on_takes_the_least() {
        let time = TimeSource::simulated(Millis(0), 1);
        let mut pace = Pace::new(time.moment());
        for _ in 0..10_000 {
            time.sleep(WINDOW / 10).await;
            pace.note(time.moment(), Duration::from_millis(400), 1000);
        }
        assert_eq!(pace.max, MOST);
        for _ in 0..10_000 {
            time.sleep(WINDOW / 10).await;
            pace.note(time.moment(), Duration::from_secs(5), 1000);
        }
        assert_eq!(pace.max, LEAST);
    }
}
