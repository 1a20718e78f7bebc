//! The draft holds a registration for the service as its client wrote it: fields that were not given are absent.
//!
//! Registration completes it from [`Defaults`] before the id of the task is made, because the id carries what
//! follows from the spec. A field that was given always wins: where a default contradicts it, the default
//! gives way.

use std::time::Duration;

use super::{
    action::Actions,
    after::Asked,
    backoff::{Backoff, Jitter},
    chain::FollowUp,
    http_call,
    kin::Kin,
    notify::Notify,
    target::Target,
    task::{Body, Priority, Scheduled, Spec},
    time::Millis,
};

/// The values of fields that a registration leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// The queue of the callback.
    pub priority: Priority,
    /// How often a tracked task may be tried.
    pub max_attempts: u32,
    /// Waits between attempts.
    pub backoff: Backoff,
    /// How long a published task may stay unclaimed.
    pub claim_timeout: Duration,
    /// How long an attempt lives after a sign of life; none follows from the target ([`Target::lease`]).
    pub heartbeat_timeout: Option<Duration>,
    /// How long a call over HTTP may take that names no time limit.
    pub call_timeout: Duration,
    /// How long an attempt may take; none is for ever.
    pub attempt_timeout: Option<Duration>,
    /// How long after its start the task is still useful; none is for ever.
    pub expire_after: Option<Duration>,
    /// How long a terminal task can be read.
    pub retention: Duration,
    /// How long a dead task can be read, if that is longer; none is the default of the service.
    pub dead_retention: Option<Duration>,
}

impl Defaults {
    /// The defaults of the service.
    pub const SERVICE: Self = Self {
        priority: Priority::Normal,
        // With the waits between them they span two days.
        max_attempts: 10,
        backoff: Backoff::DEFAULT,
        // Longer than a rebalance of consumers usually takes.
        claim_timeout: Duration::from_secs(60),
        heartbeat_timeout: None,
        call_timeout: http_call::TIMEOUT_DEFAULT,
        attempt_timeout: None,
        expire_after: None,
        // A task that failed on Friday can be read on Monday.
        retention: Duration::from_secs(72 * 3600),
        dead_retention: None,
    };
}

/// The waits between attempts, as far as they were given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackoffDraft {
    /// Wait after the first failed attempt.
    pub initial: Option<Duration>,
    /// Factor between waits, in thousandths.
    pub factor_milli: Option<u32>,
    /// Longest wait.
    pub max: Option<Duration>,
    /// How waits are spread.
    pub jitter: Option<Jitter>,
}

impl BackoffDraft {
    /// Completes the rule. A longest wait that was given caps the default of the first wait, and a first wait
    /// that was given raises the default of the longest.
    #[must_use]
    pub fn complete(self, default: &Backoff) -> Backoff {
        let capped = || {
            self.max
                .map_or(default.initial, |max| default.initial.min(max))
        };
        let initial = self.initial.unwrap_or_else(capped);
        Backoff {
            initial,
            factor_milli: self.factor_milli.unwrap_or(default.factor_milli),
            max: self.max.unwrap_or_else(|| default.max.max(initial)),
            jitter: self.jitter.unwrap_or(default.jitter),
        }
    }
}

/// A task to register, without its id. See [`Spec`] for the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDraft {
    /// Where it goes.
    pub target: Target,
    /// Label for a subset of a callback's tasks.
    pub collection: Option<String>,
    /// Which queue of the callback.
    pub priority: Option<Priority>,
    /// How often it may be tried; at least 1.
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    pub backoff: BackoffDraft,
    /// How long it may stay unclaimed.
    pub claim_timeout: Option<Duration>,
    /// How long an attempt lives after a sign of life.
    pub heartbeat_timeout: Option<Duration>,
    /// How long an attempt may take.
    pub attempt_timeout: Option<Duration>,
    /// How long after its start it is still useful.
    pub expire_after: Option<Duration>,
    /// How long it can be read once it has ended.
    pub retention: Option<Duration>,
    /// How long it can be read once it is dead.
    pub dead_retention: Option<Duration>,
    /// When the registration was received.
    pub create_time: Millis,
    /// The start that was requested, if that had passed; else none.
    pub asked_start: Option<Millis>,
    /// The time of a schedule that it stands for.
    pub scheduled: Option<Box<Scheduled>>,
    /// The name that its client chose, of which at most one task of the callback is live.
    pub key: Option<String>,
    /// The key of its sequence, of which one task runs at a time.
    pub ordering_key: Option<String>,
    /// Where its end is told.
    pub notify: Option<Notify>,
    /// Things that the service does when it ends, and at times.
    pub actions: Option<Box<Actions>>,
    /// Its place in a tree.
    pub kin: Option<Box<Kin>>,
    /// The tasks that it waits for.
    pub after: Option<Box<Asked>>,
    /// Tasks that are registered when it ends.
    pub then: Vec<FollowUp<Self>>,
    /// The content, or where it is.
    pub body: Body,
}

impl TaskDraft {
    /// Completes the draft. Its follow-ups get the same defaults: one of another callback is to be complete before.
    #[must_use]
    pub fn complete(self, defaults: &Defaults) -> Spec {
        let lease = self.heartbeat_timeout.or(defaults.heartbeat_timeout);
        Spec {
            heartbeat_timeout: lease.unwrap_or_else(|| self.target.lease(defaults.call_timeout)),
            target: self.target,
            collection: self.collection.unwrap_or_default(),
            priority: self.priority.unwrap_or(defaults.priority),
            max_attempts: self.max_attempts.unwrap_or(defaults.max_attempts),
            backoff: self.backoff.complete(&defaults.backoff),
            claim_timeout: self.claim_timeout.unwrap_or(defaults.claim_timeout),
            attempt_timeout: self.attempt_timeout.or(defaults.attempt_timeout),
            expire_after: self.expire_after.or(defaults.expire_after),
            retention: self.retention.unwrap_or(defaults.retention),
            dead_retention: self.dead_retention.or(defaults.dead_retention),
            create_time: self.create_time,
            asked_start: self.asked_start,
            scheduled: self.scheduled,
            key: self.key,
            // Named once the labels of its callback are known.
            indexed: Vec::new(),
            ordering_key: self.ordering_key,
            notify: self.notify,
            actions: self.actions,
            kin: self.kin,
            after: self.after.map(|asked| Box::new(asked.after)),
            then: follow_ups(self.then, |task| task.complete(defaults)),
            body: self.body,
        }
    }
}

/// Gives follow-ups another form.
fn follow_ups<T, U>(then: Vec<FollowUp<T>>, form: impl Fn(T) -> U) -> Vec<FollowUp<U>> {
    then.into_iter().map(|follow| follow.map(&form)).collect()
}

/// A draft in which everything is given.
impl From<Spec> for TaskDraft {
    fn from(spec: Spec) -> Self {
        let Backoff {
            initial,
            factor_milli,
            max,
            jitter,
        } = spec.backoff;
        Self {
            target: spec.target,
            collection: Some(spec.collection),
            priority: Some(spec.priority),
            max_attempts: Some(spec.max_attempts),
            backoff: BackoffDraft {
                initial: Some(initial),
                factor_milli: Some(factor_milli),
                max: Some(max),
                jitter: Some(jitter),
            },
            claim_timeout: Some(spec.claim_timeout),
            heartbeat_timeout: Some(spec.heartbeat_timeout),
            attempt_timeout: spec.attempt_timeout,
            expire_after: spec.expire_after,
            retention: Some(spec.retention),
            dead_retention: spec.dead_retention,
            create_time: spec.create_time,
            asked_start: spec.asked_start,
            scheduled: spec.scheduled,
            key: spec.key,
            ordering_key: spec.ordering_key,
            notify: spec.notify,
            actions: spec.actions,
            kin: spec.kin,
            // A copy of the task waits for nothing.
            after: None,
            then: follow_ups(spec.then, Self::from),
            body: spec.body,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_draft_in_which_everything_is_given_is_completed_as_it_is() {
        let spec = fixtures::spec();
        let draft = TaskDraft::from(spec.clone());
        assert_eq!(draft.complete(&Defaults::SERVICE), spec);
    }

    #[test]
    fn fields_that_are_absent_get_the_defaults_that_are_given() {
        let spec = fixtures::spec();
        let draft = TaskDraft {
            collection: None,
            priority: None,
            max_attempts: None,
            backoff: BackoffDraft::default(),
            claim_timeout: None,
            heartbeat_timeout: None,
            attempt_timeout: None,
            expire_after: None,
            retention: None,
            dead_retention: None,
            ..TaskDraft::from(spec.clone())
        };
        let defaults = Defaults {
            priority: Priority::Low,
            max_attempts: 3,
            backoff: Backoff::QUICK,
            claim_timeout: SECOND * 7,
            heartbeat_timeout: Some(SECOND * 8),
            call_timeout: SECOND * 12,
            attempt_timeout: Some(SECOND * 13),
            expire_after: Some(SECOND * 9),
            retention: SECOND * 10,
            dead_retention: Some(SECOND * 14),
        };
        let expected = Spec {
            collection: String::new(),
            priority: Priority::Low,
            max_attempts: 3,
            backoff: Backoff::QUICK,
            claim_timeout: SECOND * 7,
            heartbeat_timeout: SECOND * 8,
            attempt_timeout: Some(SECOND * 13),
            expire_after: Some(SECOND * 9),
            retention: SECOND * 10,
            dead_retention: Some(SECOND * 14),
            ..spec
        };
        assert_eq!(draft.complete(&defaults), expected);
    }

    #[test]
    fn a_call_gives_its_attempt_the_lease_unless_somebody_names_one() {
        let lease = |call: Option<Duration>, task: Option<Duration>, defaults: Defaults| {
            let mut draft = TaskDraft::from(fixtures::laden());
            draft.heartbeat_timeout = task;
            let Target::Http { call: http, .. } = &mut draft.target else {
                panic!("{:?}", draft.target)
            };
            http.timeout = call;
            draft.complete(&defaults).heartbeat_timeout
        };
        let service = Defaults::SERVICE;
        assert_eq!(lease(None, None, service), SECOND * 17);
        assert_eq!(lease(Some(SECOND * 60), None, service), SECOND * 62);
        // As long as the shortest lease that a client may name.
        let milli = Duration::from_millis(1);
        let least = crate::limits::HEARTBEAT_TIMEOUT_MIN;
        assert_eq!(lease(Some(milli), None, service), least);
        assert_eq!(lease(Some(SECOND), None, service), least);
        let more = SECOND + milli;
        assert_eq!(lease(Some(more), None, service), SECOND * 3 + milli);
        let callback = Defaults {
            call_timeout: SECOND * 20,
            ..service
        };
        assert_eq!(lease(None, None, callback), SECOND * 22);
        assert_eq!(lease(Some(SECOND * 5), None, callback), SECOND * 7);
        assert_eq!(lease(None, Some(SECOND * 9), callback), SECOND * 9);
        let named = Defaults {
            heartbeat_timeout: Some(SECOND * 8),
            ..callback
        };
        assert_eq!(lease(None, None, named), SECOND * 8);
        let worker = TaskDraft {
            heartbeat_timeout: None,
            ..TaskDraft::from(fixtures::spec())
        };
        assert_eq!(worker.complete(&service).heartbeat_timeout, SECOND * 45);
    }

    #[test]
    fn a_default_gives_way_to_a_wait_that_was_given() {
        let default = Backoff::DEFAULT;
        let waits = |initial: Option<Duration>, max: Option<Duration>| {
            let draft = BackoffDraft {
                initial,
                max,
                ..BackoffDraft::default()
            };
            let backoff = draft.complete(&default);
            (backoff.initial, backoff.max)
        };
        assert_eq!(waits(None, None), (default.initial, default.max));
        assert_eq!(waits(None, Some(SECOND)), (SECOND, SECOND));
        let day = SECOND * 24 * 3600;
        assert_eq!(waits(Some(day), None), (day, day));
    }
}
