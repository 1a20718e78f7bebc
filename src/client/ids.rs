//! The id maker fixes start and id of a task for the client before it is sent, so that the registration can be repeated.
//!
//! It asks the service for its number of wheels and its time, at the first registration and again once the answer is a
//! minute old. A delay is counted by the time of the service, never by the clock of the client's machine. A service that
//! does not answer this question makes the ids itself, and the registration is not repeated.

use std::{collections::HashMap, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    api::{ids::IdsResponse, task_request::TaskRequest, text::InstantText, time},
    model::{
        client_id,
        draft::Defaults,
        time::{Millis, rfc3339},
    },
    time_source::{Moment, TimeSource},
};

/// How long the time of the service is counted on by the steady clock of the client, and how long a service that cannot
/// answer is not asked again.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// The knowledge about a service.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Its wheels and its time; none when it does not tell.
    facts: Option<(u16, Millis)>,
    /// When it was asked: its time is that or later, so no task is early.
    at: Moment,
    /// How long that is counted on.
    valid_for: Duration,
}

impl Known {
    /// Returns the facts so long after the question. The time of a service that is asked each time is taken as it was told: its
    /// clock is moved by a test, which has to reach a start by moving it by the delay.
    fn at_moment(&self, since: Duration) -> Option<Facts> {
        let is_asked_each_time = self.valid_for.is_zero();
        let now = |(wheels, at): (u16, Millis)| {
            let now = if is_asked_each_time {
                at
            } else {
                at.after(since)
            };
            Facts { wheels, now }
        };
        self.facts.map(now)
    }
}

/// The maker of ids.
#[derive(Debug, Default)]
pub(super) struct Ids {
    known: Mutex<Option<Known>>,
    line: Mutex<Line>,
}

/// The facts by which ids are made at this moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    wheels: u16,
    now: Millis,
}

impl Ids {
    /// Returns what is known; none when the service is to be asked.
    pub(super) fn known(&self, time: &TimeSource) -> Option<Option<Facts>> {
        let known = *self.known.lock();
        let known = known?;
        let since = time.moment().since(known.at);
        (since < known.valid_for).then(|| known.at_moment(since))
    }

    /// Returns the last starts of sequences.
    pub(super) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock()
    }

    /// Takes the answer of a service that was asked at `at`, none when it did not tell, and returns what is known by it now.
    pub(super) fn learn(
        &self,
        answer: Option<&IdsResponse>,
        at: Moment,
        time: &TimeSource,
    ) -> Option<Facts> {
        let read = |answer: &IdsResponse| {
            let now = time::instant(&answer.time).ok()?;
            Some((answer.wheels, now))
        };
        let valid_for = answer.and_then(|answer| answer.valid_for.as_ref()?.duration());
        let known = Known {
            facts: answer.and_then(read),
            at,
            valid_for: valid_for.map_or(KNOWN_FOR, |valid_for| valid_for.min(KNOWN_FOR)),
        };
        *self.known.lock() = Some(known);
        known.at_moment(time.moment().since(at))
    }
}

/// Ordering keys whose last starts are remembered; beyond it those that have passed are forgotten.
const KEYS_MAX: usize = 1024;

/// The last starts of a client, by ordering key.
#[derive(Debug, Default)]
pub(super) struct Line(HashMap<String, Millis>);

impl Line {
    /// Returns the facts for the next task. Those of a sequence that start at once follow each other by a millisecond, so that
    /// they run in the order of the calls.
    pub(super) fn facts(&mut self, request: &TaskRequest, facts: Facts) -> Facts {
        let at_once = request.start_time.is_none() && request.delay.is_none();
        let Some(key) = request.ordering_key.as_ref().filter(|_| at_once) else {
            return facts;
        };
        let next = |before: &Millis| Millis(before.0 + 1).max(facts.now);
        let now = self.0.get(key).map_or(facts.now, next);
        if self.0.len() >= KEYS_MAX {
            self.0.retain(|_, last| *last >= facts.now);
        }
        self.0.insert(key.clone(), now);
        Facts { now, ..facts }
    }
}

/// Fixes start and id of a task, and tells whether the task may be registered twice as it is now.
pub(super) fn fix(request: &mut TaskRequest, facts: Option<Facts>, random: u64) -> bool {
    if request.id.is_some() || request.idempotency_key.is_some() {
        return true;
    }
    let fixed = facts.and_then(|facts| fixed(request, facts));
    let Some((start, claim_timeout, wheels)) = fixed else {
        return false;
    };
    let id = client_id::make(start, claim_timeout, wheels, random);
    request.id = Some(id.to_string());
    request.start_time = Some(InstantText(rfc3339(start)));
    request.delay = None;
    true
}

/// Returns the start, the claim timeout and the number of wheels; none when the service is to make the id, or to refuse the task.
fn fixed(request: &TaskRequest, facts: Facts) -> Option<(Millis, Duration, u16)> {
    // A record has no row: a repetition may publish it again, so nothing is won.
    request.callback.as_ref()?;
    let start = match (&request.start_time, &request.delay) {
        (Some(_), Some(_)) => return None,
        (Some(at), None) => {
            let at = time::instant(at).ok()?;
            // A start that has passed means now, and an expiry counts from there.
            if at < facts.now {
                return None;
            }
            at
        }
        (None, Some(delay)) => facts.now.after(time::duration(delay, Duration::ZERO).ok()?),
        (None, None) => facts.now,
    };
    let claim_timeout = match &request.claim_timeout {
        Some(text) => time::duration(text, Duration::ZERO).ok()?,
        None => Defaults::SERVICE.claim_timeout,
    };
    (start <= time::latest()).then_some((start, claim_timeout, facts.wheels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{client::Task, model::ids::TaskId};

    const FACTS: Facts = Facts {
        wheels: 16,
        now: Millis(1_800_000_000_000),
    };

    fn fixed_of(task: &Task, facts: Option<Facts>) -> (bool, TaskRequest) {
        let mut request = task.request().clone();
        let is_fixed = fix(&mut request, facts, 0xfedc_ba98_7654_3210);
        (is_fixed, request)
    }

    #[test]
    fn a_delay_becomes_a_start_by_the_time_of_the_service() {
        let task = Task::callback("c").delay(Duration::from_secs(90));
        let (is_fixed, request) = fixed_of(&task, Some(FACTS));
        let start = FACTS.now.after(Duration::from_secs(90));
        let id: TaskId = request.id.unwrap().parse().unwrap();
        assert!(is_fixed && request.delay.is_none());
        assert_eq!(request.start_time, Some(InstantText(rfc3339(start))));
        assert_eq!((id.first_start(), id.wheel().get() < 16), (start, true));
        assert_eq!(id.look_step().duration(), Duration::from_secs(68));
    }

    /// An answer that was slow made a task start behind the time to which its test moved the clock.
    #[test]
    fn a_clock_that_is_moved_by_a_delay_reaches_the_start() {
        let since = Duration::from_millis(18);
        for (valid_for, passed) in [(Duration::ZERO, Duration::ZERO), (KNOWN_FOR, since)] {
            let known = Known {
                facts: Some((FACTS.wheels, FACTS.now)),
                at: TimeSource::real().moment(),
                valid_for,
            };
            let facts = known.at_moment(since).unwrap();
            assert_eq!(facts.now, FACTS.now.after(passed), "{valid_for:?}");
        }
    }

    #[test]
    fn tasks_of_a_sequence_that_start_at_once_start_one_after_the_other() {
        let mut line = Line::default();
        let mut starts = Vec::new();
        for key in ["a", "b", "a", "a"] {
            let task = Task::callback("c").ordering_key(key);
            let facts = line.facts(task.request(), FACTS);
            starts.push(fixed(task.request(), facts).unwrap().0.0 - FACTS.now.0);
        }
        let delayed = Task::callback("c").ordering_key("a").delay(Duration::ZERO);
        assert_eq!(line.facts(delayed.request(), FACTS).now, FACTS.now);
        assert_eq!(starts, [0, 0, 1, 2]);
    }

    #[test]
    fn tasks_that_the_service_has_to_name_are_left_as_they_are() {
        let delayed = Task::callback("c").delay(Duration::from_secs(90));
        for (task, facts) in [
            (delayed.clone(), None),
            (Task::kafka("t"), Some(FACTS)),
            (Task::callback("c").start_at("tomorrow"), Some(FACTS)),
            (
                Task::callback("c").start_at("2026-01-01T00:00:00Z"),
                Some(FACTS),
            ),
        ] {
            let written = serde_json::to_value(task.request()).unwrap();
            let (is_fixed, request) = fixed_of(&task, facts);
            assert!(!is_fixed);
            assert_eq!(serde_json::to_value(request).unwrap(), written);
        }
        let marked = delayed.idempotency_key("k");
        let (is_fixed, request) = fixed_of(&marked, Some(FACTS));
        assert!(is_fixed && request.id.is_none());
    }
}
