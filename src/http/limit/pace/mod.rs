//! The pace learns for a node how many registrations may be under way at once, from the time that they take.
//!
//! A standing queue makes all requests late and none faster. As long as registrations take little longer than
//! without a queue, the bound is wide, and a burst passes. Once they take longer window after window, the
//! node is overloaded. From then on the bound follows their time closely: down until there is next to no
//! queue (by Little's law the number under way is in proportion to the time), and step by step up again. The
//! overload ends when so few requests come that they do not reach the bound. The time without a queue is the
//! least of the last minutes, so a slow disk is not taken for a queue.
//!
//! The pace learns from requests for one task only: a batch takes longer with or without a queue.

use std::time::Duration;

use crate::{
    limits::{REGISTRATIONS_IN_FLIGHT_MAX as MOST, REGISTRATIONS_IN_FLIGHT_MIN as LEAST},
    time_source::Moment,
};

/// The span over which registrations are averaged: longer than a sync of a slow disk, shorter than a person
/// notices.
const WINDOW: Duration = Duration::from_millis(100);

/// How long the bound of an overloaded node must stay unreached, or no request come, before the bound is
/// lifted.
const CALM: Duration = Duration::from_secs(2);

/// The span over which the least time is kept; it is the least of one to two such spans.
const MEMORY: Duration = Duration::from_secs(60);

/// Above this time registrations are late, even if they take as long without a queue.
const TARGET_MAX: Duration = Duration::from_secs(1);

/// The share by which a bound rises as a rule: so little that it hardly exceeds the rate that is done in
/// time.
const STEP_CLOSE: usize = 32;

/// The queues that do not count as overload yet.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Tolerance {
    /// How long a queue may stand. Thousands of requests that come at once are done by then or soon after.
    /// Only clients that keep coming are refused for long.
    patience: Duration,
    /// The delay that is no queue: the scheduling of a busy machine, a merge of the store.
    slack: Duration,
    /// The same for an overloaded node, where each accepted request waits that long.
    slack_overloaded: Duration,
    /// The share by which a bound rises where there is next to no queue.
    step: usize,
}

impl Tolerance {
    /// For a store in this process.
    pub(in crate::http) const NEAR: Self = Self {
        patience: Duration::from_millis(200),
        slack: Duration::from_millis(10),
        slack_overloaded: Duration::from_millis(1),
        step: STEP_CLOSE,
    };

    /// For servers over a network: they stop now and then to collect garbage, work faster on many requests
    /// than one by one, and have other clients. A few hundred clients that wait for one answer each are no
    /// overload to them.
    pub(super) const FAR: Self = Self {
        patience: Duration::from_millis(500),
        slack: Duration::from_millis(50),
        slack_overloaded: Duration::from_millis(50),
        // Half as many more still make no queue: so the bound recovers from a pause of the servers.
        step: 2,
    };
}

/// The bound on registrations under way; see the module.
#[derive(Debug)]
pub(in crate::http) struct Pace {
    tolerance: Tolerance,
    phase: Phase,
    window: Window,
    /// When a registration was last done.
    noted: Moment,
    /// When a registration last came.
    came: Moment,
    /// The least mean of a window, in this span and in the one before.
    least: [Option<Duration>; 2],
    remembers_since: Moment,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// No bound; since when registrations have taken too long, if they do.
    Open { queues_since: Option<Moment> },
    /// Only as many as are done in time.
    Overloaded(Bounded),
}

const OPEN: Phase = Phase::Open { queues_since: None };

/// The bound of an overloaded node.
#[derive(Debug, Clone, Copy)]
struct Bounded {
    max: usize,
    /// When it was lowered: registrations that are done soon afterwards were accepted before it.
    lowered: Moment,
    /// Since when it has not been reached.
    calm_since: Option<Moment>,
    /// The bound before it was lowered in order to measure the time without a queue.
    before_look: Option<usize>,
}

/// The registrations that were done since a moment.
#[derive(Debug)]
struct Window {
    began: Moment,
    sum: Duration,
    count: u32,
    /// The most that were under way.
    peak: usize,
    /// Whether one of them was not registered: the time of a failure says nothing.
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
    pub(in crate::http) const fn new(tolerance: Tolerance, now: Moment) -> Self {
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
    pub(in crate::http) const fn max(&self) -> usize {
        match self.phase {
            Phase::Open { .. } => MOST,
            Phase::Overloaded(Bounded { max, .. }) => max,
        }
    }

    /// Takes note of a registration that comes; of a batch it notes only that no single ones come.
    pub(in crate::http) fn comes(&mut self, now: Moment, is_batch: bool) {
        if now.since(self.came) >= CALM {
            self.phase = OPEN;
        }
        if !is_batch {
            self.came = now;
        }
    }

    /// Takes note of a registration that is done, with how many were under way, and whether it succeeded.
    pub(in crate::http) fn note(
        &mut self,
        now: Moment,
        took: Duration,
        under_way: usize,
        registered: bool,
    ) {
        // For a while none was under way: the counts so far belong to another time.
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
        // Whether every registration that is done now was accepted under this bound.
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
            // While there is a queue, the least time would be forgotten, and the target would creep up.
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
        // Above three quarters of the bound, requests are refused now and then.
        if peak >= bounded.max / 4 * 3 {
            let has_no_queue = !self.window.failed && mean <= target / 2;
            let step = if has_no_queue {
                self.tolerance.step
            } else {
                STEP_CLOSE
            };
            let max = (bounded.max + bounded.max / step + 1).min(MOST);
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

    /// Returns how many would be done in time, when those that were under way, at most `max`, took the mean.
    fn in_time(&self, max: usize, mean: Duration) -> usize {
        let share = self.target(self.tolerance.slack_overloaded).as_secs_f64() / mean.as_secs_f64();
        let next = self.window.peak.min(max) as f64 * share;
        (next as usize).clamp(LEAST, MOST)
    }

    /// Returns how long a registration may take on average.
    fn target(&self, slack: Duration) -> Duration {
        let least = self.least.iter().flatten().min().copied();
        (least.unwrap_or_default() * 2 + slack).min(TARGET_MAX)
    }

    /// Takes note of a mean. Tells whether an older span is forgotten with it.
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
mod tests;
