//! How many registrations may be under way at once, learned from how long they take.
//!
//! A queue that stands makes everybody late and nobody faster. So: while registrations take little longer than they did when
//! there was no queue, the bound is wide, and a burst passes. Once they take longer window after window, the node is
//! overloaded: from then on the bound follows their time closely, down to where there is next to no queue (by Little's law the
//! number under way is in proportion to the time), and step by step up again; until so few come that they do not reach it. The
//! time without a queue is the least of the last minutes, so a slow disk is not taken for a queue.

use std::time::Duration;

use crate::{limits, time_source::Moment};

/// Over which registrations are averaged: longer than a sync of a slow disk, shorter than what a person notices.
const WINDOW: Duration = Duration::from_millis(100);

/// How long a queue may stand. The thousands that come at once, or have come while a disk stalled or a server collected its
/// garbage, are done by then (the stall itself is one window), and only who comes all the time finds the door closed.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long the bound of an overloaded node is not reached before the door is open again.
const CALM: Duration = Duration::from_secs(2);

/// The least time is that of one to two of these.
const MEMORY: Duration = Duration::from_secs(60);

/// What is no queue: the scheduling of a busy machine, a merge of the store.
const SLACK: Duration = Duration::from_millis(10);

/// The same of an overloaded node, where whoever is let in waits for it: the scheduling alone.
const SLACK_OVERLOADED: Duration = Duration::from_millis(1);

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
    phase: Phase,
    /// The least mean of a window, in this span and in the one before.
    least: [Option<Duration>; 2],
    remembers_since: Moment,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// As many as come; since when they have taken too long.
    Open { queues_since: Option<Moment> },
    /// As many as get done in time; since when fewer come.
    Overloaded { calm_since: Option<Moment> },
}

const OPEN: Phase = Phase::Open { queues_since: None };

impl Pace {
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            max: limits::REGISTRATIONS_IN_FLIGHT_MAX,
            began: now,
            sum: Duration::ZERO,
            count: 0,
            peak: 0,
            phase: OPEN,
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
        let forgets = self.remember(now, mean);
        let windows = now.since(self.began).as_millis() / WINDOW.as_millis();
        let windows = usize::try_from(windows).unwrap_or(usize::MAX);
        let next = match self.phase {
            Phase::Open { queues_since } => self.while_open(queues_since, now, mean, windows),
            // One look at how long they take without a queue, before that is forgotten while there is one, and the target
            // creeps up.
            Phase::Overloaded { .. } if forgets => limits::REGISTRATIONS_IN_FLIGHT_MIN,
            Phase::Overloaded { calm_since } => self.while_overloaded(calm_since, now, mean),
        };
        self.max = next.clamp(
            limits::REGISTRATIONS_IN_FLIGHT_MIN,
            limits::REGISTRATIONS_IN_FLIGHT_MAX,
        );
        (self.began, self.sum, self.count, self.peak) = (now, Duration::ZERO, 0, 0);
        Some(self.max)
    }

    /// Returns the bound after so many windows; an idle service lets many pass without noticing.
    fn while_open(
        &mut self,
        queues_since: Option<Moment>,
        now: Moment,
        mean: Duration,
        windows: usize,
    ) -> usize {
        // With so few under way there is no queue that could be brought down.
        if mean <= self.target(SLACK) || self.peak < limits::REGISTRATIONS_IN_FLIGHT_MIN {
            self.phase = OPEN;
            let step = (self.max / 16).max(8);
            return self.max.saturating_add(step.saturating_mul(windows));
        }
        let since = queues_since.unwrap_or(now);
        if now.since(since) < PATIENCE {
            self.phase = Phase::Open {
                queues_since: Some(since),
            };
            return self.max;
        }
        self.phase = Phase::Overloaded { calm_since: None };
        self.in_proportion(self.target(SLACK_OVERLOADED), mean)
    }

    fn while_overloaded(
        &mut self,
        calm_since: Option<Moment>,
        now: Moment,
        mean: Duration,
    ) -> usize {
        let target = self.target(SLACK_OVERLOADED);
        if mean > target {
            self.phase = Phase::Overloaded { calm_since: None };
            return self.in_proportion(target, mean);
        }
        // Above three quarters somebody is refused now and then.
        if self.peak >= self.max / 4 * 3 {
            self.phase = Phase::Overloaded { calm_since: None };
            return self.max + self.max / 32 + 1;
        }
        let since = calm_since.unwrap_or(now);
        self.phase = if now.since(since) < CALM {
            Phase::Overloaded {
                calm_since: Some(since),
            }
        } else {
            OPEN
        };
        self.max
    }

    /// Returns how many would take so long, when those that were under way took the mean.
    fn in_proportion(&self, wanted: Duration, mean: Duration) -> usize {
        let share = wanted.as_secs_f64() / mean.as_secs_f64();
        (self.peak.min(self.max) as f64 * share) as usize
    }

    /// How long a registration may take on average.
    fn target(&self, slack: Duration) -> Duration {
        (self.least() * 2 + slack).min(TARGET_MAX)
    }

    fn least(&self) -> Duration {
        let least = self.least.iter().flatten().min().copied();
        least.unwrap_or_default()
    }

    /// Takes note of a mean; tells whether an older span is forgotten with it.
    fn remember(&mut self, now: Moment, mean: Duration) -> bool {
        let forgets = now.since(self.remembers_since) > MEMORY;
        if forgets {
            let [this, _] = self.least;
            self.least = [None, this];
            self.remembers_since = now;
        }
        let [this, _] = &mut self.least;
        *this = Some(this.map_or(mean, |least| least.min(mean)));
        forgets
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
        // Four thousand are done by then.
        overloaded(&mut pace, &time, 40_000, PATIENCE - WINDOW).await;
        assert_eq!(pace.max, MOST, "a burst is no overload");
        rest(&mut pace).await;
        overloaded(&mut pace, &time, 40_000, PATIENCE + WINDOW * 3).await;
        for _ in 0..120 {
            let took = overloaded(&mut pace, &time, 40_000, Duration::from_secs(5)).await;
            assert!(took <= Duration::from_millis(13), "{took:?}");
        }
        assert!(pace.max > 300, "it does what it can: {}", pace.max);
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
            pace.note(time.moment(), Duration::from_secs(5), pace.max);
        }
        assert_eq!(pace.max, LEAST);
    }
}
