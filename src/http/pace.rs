//! How many registrations may be under way at once, learned from how long they take.
//!
//! A queue that stands makes everybody late and nobody faster. So: as long as registrations take little longer than they did
//! when there was no queue, the bound is wide, and a burst passes. Once they take longer window after window, the node is
//! overloaded: from then on the bound follows their time closely, down to where there is next to no queue (by Little's law the
//! number under way is in proportion to the time), and step by step up again; until so few come that they do not reach it. The
//! time without a queue is the least of the last minutes, so a slow disk is not taken for a queue.
//!
//! Learned from requests for one task: a batch takes longer, queue or not.

use std::time::Duration;

use crate::{
    limits::{REGISTRATIONS_IN_FLIGHT_MAX as MOST, REGISTRATIONS_IN_FLIGHT_MIN as LEAST},
    time_source::Moment,
};

/// Over which registrations are averaged: longer than a sync of a slow disk, shorter than what a person notices.
const WINDOW: Duration = Duration::from_millis(100);

/// How long the bound of an overloaded node is not reached, or nobody comes, before the door is open again.
const CALM: Duration = Duration::from_secs(2);

/// The least time is that of one to two of these.
const MEMORY: Duration = Duration::from_secs(60);

/// Above it they are late whatever the time without a queue was.
const TARGET_MAX: Duration = Duration::from_secs(1);

/// What is no overload yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerance {
    /// How long a queue may stand: the thousands that come at once are done by then, or soon after, and only who comes all the
    /// time finds the door closed for long.
    patience: Duration,
    /// What is no queue: the scheduling of a busy machine, a merge of the store.
    slack: Duration,
    /// The same of an overloaded node, where whoever is let in waits for it.
    slack_overloaded: Duration,
}

impl Tolerance {
    /// Of a store in this process.
    pub(super) const NEAR: Self = Self {
        patience: Duration::from_millis(200),
        slack: Duration::from_millis(10),
        slack_overloaded: Duration::from_millis(1),
    };

    /// Of servers over a network: they stop now and then to collect garbage, do more at once than one by one, and others keep
    /// them busy, too. A few hundred clients that wait for one answer each are no overload to them.
    pub(super) const FAR: Self = Self {
        patience: Duration::from_millis(500),
        slack: Duration::from_millis(50),
        slack_overloaded: Duration::from_millis(50),
    };
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pace {
    tolerance: Tolerance,
    phase: Phase,
    window: Window,
    /// When one was done last.
    noted: Moment,
    /// When one came last.
    came: Moment,
    /// The least mean of a window, in this span and in the one before.
    least: [Option<Duration>; 2],
    remembers_since: Moment,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// As many as come; since when they have taken too long.
    Open { queues_since: Option<Moment> },
    /// As many as get done in time.
    Overloaded(Bounded),
}

const OPEN: Phase = Phase::Open { queues_since: None };

/// The bound of an overloaded node.
#[derive(Debug, Clone, Copy)]
struct Bounded {
    max: usize,
    /// When it was lowered: what is done before long was let in before that.
    lowered: Moment,
    /// Since when it has not been reached.
    calm_since: Option<Moment>,
    /// What it was before it was lowered for a look at how long they take without a queue.
    before_look: Option<usize>,
}

/// What was done since a moment.
#[derive(Debug)]
struct Window {
    began: Moment,
    sum: Duration,
    count: u32,
    /// The most that were under way.
    peak: usize,
    /// Whether one of them was not registered: how long that takes says nothing.
    failed: bool,
}

impl Window {
    const fn from(began: Moment) -> Self {
        Self {
            began,
            sum: Duration::ZERO,
            count: 0,
            peak: 0,
            failed: false,
        }
    }
}

impl Pace {
    pub(super) const fn new(tolerance: Tolerance, now: Moment) -> Self {
        Self {
            tolerance,
            phase: OPEN,
            window: Window::from(now),
            noted: now,
            came: now,
            least: [None; 2],
            remembers_since: now,
        }
    }

    /// Returns how many may be under way.
    pub(super) const fn max(&self) -> usize {
        match self.phase {
            Phase::Open { .. } => MOST,
            Phase::Overloaded(Bounded { max, .. }) => max,
        }
    }

    /// Takes note of one that comes; of a batch it only notices that no others do.
    pub(super) fn comes(&mut self, now: Moment, is_batch: bool) {
        if now.since(self.came) >= CALM {
            self.phase = OPEN;
        }
        if !is_batch {
            self.came = now;
        }
    }

    /// Takes note of one that is done, with how many were under way, and whether it was registered.
    pub(super) fn note(&mut self, now: Moment, took: Duration, under_way: usize, registered: bool) {
        // Nothing was under way for a while: what was counted before it is of another time.
        if now.since(self.noted) >= took + WINDOW {
            self.window = Window::from(now);
            if let Phase::Open { queues_since } = &mut self.phase {
                *queues_since = None;
            }
        }
        self.noted = now;
        let window = &mut self.window;
        window.sum += took;
        window.count += 1;
        window.peak = window.peak.max(under_way);
        window.failed |= !registered;
        if now.since(window.began) < WINDOW {
            return;
        }
        let mean = window.sum / window.count;
        let forgets = !window.failed && self.remember(now, mean);
        self.phase = match self.phase {
            Phase::Open { queues_since } => self.while_open(queues_since, now, mean),
            Phase::Overloaded(bounded) => self.while_overloaded(bounded, now, mean, forgets),
        };
        self.window = Window::from(now);
    }

    fn while_open(&self, queues_since: Option<Moment>, now: Moment, mean: Duration) -> Phase {
        // With so few under way there is no queue that could be brought down.
        if mean <= self.target(self.tolerance.slack) || self.window.peak < LEAST {
            return OPEN;
        }
        let since = queues_since.unwrap_or(now);
        if now.since(since) < self.tolerance.patience {
            return Phase::Open {
                queues_since: Some(since),
            };
        }
        Phase::Overloaded(Bounded {
            max: self.in_time(MOST, mean),
            lowered: now,
            calm_since: None,
            before_look: None,
        })
    }

    fn while_overloaded(
        &self,
        bounded: Bounded,
        now: Moment,
        mean: Duration,
        forgets: bool,
    ) -> Phase {
        let busy = Bounded {
            calm_since: None,
            ..bounded
        };
        // Whether all that is done now was let in under this bound.
        let settled = now.since(bounded.lowered) >= mean + WINDOW;
        let lowered = |max| Bounded {
            max,
            lowered: now,
            ..busy
        };
        if let Some(before) = bounded.before_look {
            let back = Bounded {
                before_look: None,
                ..lowered(before)
            };
            return Phase::Overloaded(if settled { back } else { busy });
        }
        if forgets {
            // While there is a queue the least time would be forgotten, and the target creep up.
            return Phase::Overloaded(Bounded {
                before_look: Some(bounded.max),
                ..lowered(LEAST)
            });
        }
        let (peak, target) = (
            self.window.peak,
            self.target(self.tolerance.slack_overloaded),
        );
        if mean > target && peak >= LEAST {
            let next = lowered(self.in_time(bounded.max, mean));
            return Phase::Overloaded(if settled { next } else { busy });
        }
        // Above three quarters somebody is refused now and then.
        if peak >= bounded.max / 4 * 3 {
            // Where there is next to no queue, half as many more still make none: that is how a pause of the store is over.
            let share = if !self.window.failed && mean <= target / 2 {
                2
            } else {
                32
            };
            let max = (bounded.max + bounded.max / share + 1).min(MOST);
            return Phase::Overloaded(Bounded { max, ..busy });
        }
        let since = bounded.calm_since.unwrap_or(now);
        if now.since(since) >= CALM {
            return OPEN;
        }
        Phase::Overloaded(Bounded {
            calm_since: Some(since),
            ..bounded
        })
    }

    /// Returns how many get done in time when those that were under way, at most `max`, took the mean.
    fn in_time(&self, max: usize, mean: Duration) -> usize {
        let share = self.target(self.tolerance.slack_overloaded).as_secs_f64() / mean.as_secs_f64();
        let next = self.window.peak.min(max) as f64 * share;
        (next as usize).clamp(LEAST, MOST)
    }

    /// How long a registration may take on average.
    fn target(&self, slack: Duration) -> Duration {
        let least = self.least.iter().flatten().min().copied();
        (least.unwrap_or_default() * 2 + slack).min(TARGET_MAX)
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
    use std::collections::VecDeque;

    use super::*;
    use crate::{model::time::Millis, time_source::TimeSource};

    const STEP: Duration = Duration::from_millis(1);

    /// A service that does so many a millisecond, none in less than its least time.
    struct Service {
        time: TimeSource,
        pace: Pace,
        under_way: VecDeque<Moment>,
        per_step: usize,
        least: Duration,
        done: usize,
        longest: Duration,
    }

    impl Service {
        fn new(per_step: usize, least: Duration) -> Self {
            Self::with(Tolerance::NEAR, per_step, least)
        }

        fn with(tolerance: Tolerance, per_step: usize, least: Duration) -> Self {
            let time = TimeSource::simulated(Millis(0), 1);
            Self {
                pace: Pace::new(tolerance, time.moment()),
                time,
                under_way: VecDeque::new(),
                per_step,
                least,
                done: 0,
                longest: Duration::ZERO,
            }
        }

        /// Works for a while at no more than so many at once, all of whom come again when they are done or refused.
        async fn work(&mut self, span: Duration, clients: usize) {
            (self.done, self.longest) = (0, Duration::ZERO);
            let until = self.time.moment().after(span);
            while self.time.moment() < until {
                let now = self.time.moment();
                while self.under_way.len() < clients.min(self.pace.max()) {
                    self.pace.comes(now, false);
                    self.under_way.push_back(now);
                }
                // Who is refused comes, too.
                self.pace.comes(now, false);
                self.time.sleep(STEP).await;
                self.answer();
            }
        }

        /// Answers until nothing is under way.
        async fn drain(&mut self) {
            while !self.under_way.is_empty() {
                self.time.sleep(STEP).await;
                self.answer();
            }
        }

        fn answer(&mut self) {
            let now = self.time.moment();
            for _ in 0..self.per_step {
                let ready = |began: &&Moment| now.since(**began) >= self.least;
                let Some(began) = self.under_way.front().filter(ready).copied() else {
                    break;
                };
                let took = now.since(began);
                let under_way = self.under_way.len();
                self.pace.note(now, took, under_way, true);
                self.under_way.pop_front();
                self.done += 1;
                self.longest = self.longest.max(took);
            }
        }

        fn is_open(&self) -> bool {
            matches!(self.pace.phase, Phase::Open { .. })
        }
    }

    const fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_stands_is_brought_down_and_stays_down_and_the_service_is_used() {
        let (near, far) = (Tolerance::NEAR, Tolerance::FAR);
        for (tolerance, per_step, least) in [
            (near, 10, ms(5)),
            (near, 4, ms(100)),
            (near, 2, ms(20)),
            (far, 20, ms(2)),
        ] {
            let mut service = Service::with(tolerance, per_step, least);
            service.work(ms(2000), 10).await;
            assert!(service.is_open(), "ten at once are no overload");
            service.work(ms(4000), 10_000).await;
            assert!(!service.is_open());
            let target = least * 2 + tolerance.slack_overloaded;
            service.work(ms(70_000), 10_000).await;
            // After a look as many as may be come at once.
            assert!(
                service.longest <= (target + least) * 11 / 10 + STEP,
                "{:?}, {least:?}",
                service.longest
            );
            let could = per_step * 70_000;
            assert!(
                service.done * 100 >= could * 97,
                "{} of {could}, {least:?}",
                service.done
            );
            service.work(ms(2500), 10).await;
            assert!(service.is_open(), "and it is over");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bursts_pass_and_silence_opens() {
        let mut service = Service::new(10, ms(5));
        for _ in 0..20 {
            service.work(ms(500), 10).await;
            // Of 1,500 at once the last has waited for 150 ms.
            service.work(STEP, 1500).await;
            service.drain().await;
            service.time.sleep(CALM * 5).await;
        }
        assert!(service.is_open());
        service.work(ms(4000), 10_000).await;
        assert!(!service.is_open());
        service.time.sleep(CALM).await;
        let now = service.time.moment();
        service.pace.comes(now, true);
        assert!(service.is_open(), "batches notice it, too");
    }

    #[tokio::test(start_paused = true)]
    async fn fewer_on_a_service_that_has_become_slow_are_no_overload() {
        let mut service = Service::new(10, ms(5));
        service.work(ms(2000), 10).await;
        service.work(ms(4000), 10_000).await;
        assert!(!service.is_open());
        service.least = ms(400);
        service.work(ms(4000), 40).await;
        assert!(service.is_open());
        // Slow is no queue.
        service.work(MEMORY * 3, 40).await;
        service.work(ms(4000), 1000).await;
        assert!(service.is_open());
    }

    /// Lets hardly anything through for a while, as servers do that collect garbage.
    async fn pause(service: &mut Service, steps: usize) {
        for _ in 0..steps {
            service.time.sleep(ms(100)).await;
            let now = service.time.moment();
            service.pace.comes(now, false);
            service.answer();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_hundred_clients_of_servers_that_pause_now_and_then_are_no_overload() {
        let mut of_process = Service::with(Tolerance::NEAR, 20, ms(2));
        let mut of_servers = Service::with(Tolerance::FAR, 20, ms(2));
        for service in [&mut of_process, &mut of_servers] {
            service.work(ms(2000), 800).await;
            pause(service, 4).await;
        }
        // Eight hundred that wait for twenty a millisecond are a queue of 40 ms.
        assert!(!of_process.is_open());
        assert!(of_servers.is_open());
        // Seconds of hardly anything end in a bound, which is wide again two seconds later.
        pause(&mut of_servers, 40).await;
        assert!(of_servers.pace.max() < 200, "{}", of_servers.pace.max());
        of_servers.work(ms(2000), 800).await;
        assert!(of_servers.pace.max() >= 800, "{}", of_servers.pace.max());
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_at_once_does_not_open_the_door() {
        let mut service = Service::with(Tolerance::FAR, 2, ms(20));
        service.work(ms(8000), 10_000).await;
        assert!(!service.is_open());
        let before = service.pace.max();
        service.drain().await;
        for _ in 0..1000 {
            service.time.sleep(STEP).await;
            let now = service.time.moment();
            let under_way = service.pace.max();
            service.pace.comes(now, false);
            service.pace.note(now, STEP, under_way, false);
        }
        let after = service.pace.max();
        assert!(after <= before * 2, "{before}, {after}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_at_once_is_not_how_long_one_takes() {
        let mut service = Service::new(10, ms(20));
        for _ in 0..5000 {
            service.time.sleep(STEP).await;
            let now = service.time.moment();
            service.pace.note(now, Duration::from_micros(20), 1, false);
        }
        service.work(ms(5000), 100).await;
        assert!(service.is_open());
    }
}
