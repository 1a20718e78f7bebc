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

/// By which part of it a bound is opened as a rule: so little that it hardly passes what gets done in time.
const STEP_CLOSE: usize = 32;

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
    /// By which part of it a bound is opened where there is next to no queue.
    step: usize,
}

impl Tolerance {
    /// Of a store in this process.
    pub(super) const NEAR: Self = Self {
        patience: Duration::from_millis(200),
        slack: Duration::from_millis(10),
        slack_overloaded: Duration::from_millis(1),
        step: STEP_CLOSE,
    };

    /// Of servers over a network: they stop now and then to collect garbage, do more at once than one by one, and others keep
    /// them busy, too. A few hundred clients that wait for one answer each are no overload to them.
    pub(super) const FAR: Self = Self {
        patience: Duration::from_millis(500),
        slack: Duration::from_millis(50),
        slack_overloaded: Duration::from_millis(50),
        // Half as many more still make no queue: that is how a pause of theirs is over.
        step: 2,
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
mod tests;
