//! The callback holds for every node what a user has set for all tasks of one name: defaults of their fields, and gates.
//!
//! A [`Policy`] has only what was given; an absent field means the default of the service. A task's own field wins over the
//! policy's ([`super::draft`]). Gates are in [`super::gate`]. They are no part of the policy: a change of one leaves the other
//! as it is, and a callback without a policy may have gates.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    draft::{BackoffDraft, Defaults},
    gate::{Closed, Gate, GateState},
    http_call::HttpPolicy,
    limit::Limits,
    notify::Notify,
    task::Priority,
    time::Millis,
};

/// Names that begin so belong to the service.
pub const RESERVED_PREFIX: &str = "tickwheel.";

/// The defaults that a user has set for the tasks of a callback.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// A text for people; empty is none.
    pub description: String,
    /// How often a task may be tried.
    pub max_attempts: Option<u32>,
    /// Waits between attempts.
    pub backoff: BackoffDraft,
    /// How long a published task may stay unclaimed.
    pub claim_timeout: Option<Duration>,
    /// How long an attempt lives after a sign of life.
    pub heartbeat_timeout: Option<Duration>,
    /// How long an attempt may take.
    pub attempt_timeout: Option<Duration>,
    /// How long after its start a task is still useful.
    pub expire_after: Option<Duration>,
    /// How long a task can be read once it has ended.
    pub retention: Option<Duration>,
    /// How long a task can be read once it is dead.
    pub dead_retention: Option<Duration>,
    /// Which queue of the callback.
    pub priority: Option<Priority>,
    /// Labels of every task.
    pub labels: BTreeMap<String, String>,
    /// How many may be claimed in a time, and run at once.
    pub limits: Limits,
    /// The labels by which tasks are found quickly, in the order of their names.
    pub indexed: BTreeSet<String>,
    /// Where the ends of tasks are told that say nothing of it.
    pub notify: Option<Notify>,
    /// The rules for deliveries over HTTP.
    pub http: Option<HttpPolicy>,
    /// The topic of Kafka that has a record of each task that dies; read when it dies.
    pub dead_letter_topic: Option<String>,
    /// Whether a sequence goes on while its first task waits for its next attempt; read when that counts.
    pub skips_retries: Option<bool>,
    /// Whether tasks that succeed are listed for their whole retention on every store; read when they end.
    pub list_succeeded: bool,
}

impl Policy {
    /// Returns the values of fields that a registration leaves out.
    #[must_use]
    pub fn defaults(&self) -> Defaults {
        let service = Defaults::SERVICE;
        Defaults {
            priority: self.priority.unwrap_or(service.priority),
            max_attempts: self.max_attempts.unwrap_or(service.max_attempts),
            backoff: self.backoff.complete(&service.backoff),
            claim_timeout: self.claim_timeout.unwrap_or(service.claim_timeout),
            heartbeat_timeout: self.heartbeat_timeout,
            call_timeout: self.call_timeout().unwrap_or(service.call_timeout),
            attempt_timeout: self.attempt_timeout.or(service.attempt_timeout),
            expire_after: self.expire_after.or(service.expire_after),
            retention: self.retention.unwrap_or(service.retention),
            dead_retention: self.dead_retention.or(service.dead_retention),
        }
    }

    /// Returns the time limit of calls that name none, as far as the callback has one.
    fn call_timeout(&self) -> Option<Duration> {
        self.http.as_ref()?.timeout
    }

    /// Returns those of a task's labels by which it is to be found.
    #[must_use]
    pub fn index(&self, labels: &[(String, String)]) -> Vec<(String, String)> {
        let found = labels
            .iter()
            .filter(|(name, _)| self.indexed.contains(name));
        found.cloned().collect()
    }

    /// Adds the labels that a task lacks, in the order of their names, up to `labels_max` in all. A label of the task wins.
    pub fn label(&self, labels: &mut Vec<(String, String)>, labels_max: usize) {
        for (name, value) in &self.labels {
            if labels.len() >= labels_max {
                return;
            }
            if labels.iter().all(|(own, _)| own != name) {
                labels.push((name.clone(), value.clone()));
            }
        }
    }
}

/// A callback as its record has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Callback {
    /// Its configuration; none where only gates were set.
    pub policy: Option<Policy>,
    /// Its gates, one for each part of its tasks that one was set for.
    pub gates: Vec<Gate>,
}

impl Callback {
    /// Returns the values of fields that a registration leaves out.
    #[must_use]
    pub fn defaults(&self) -> Defaults {
        let policy = self.policy.as_ref();
        policy.map_or(Defaults::SERVICE, Policy::defaults)
    }

    /// Returns its limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let policy = self.policy.as_ref();
        policy.map_or_else(Limits::default, |policy| policy.limits)
    }

    /// Returns how the gates keep a task of a collection (empty is none) from going out at `now`; none when they do not.
    /// The stricter one holds: one that drops before one that pauses. Of two alike that of the whole callback holds.
    #[must_use]
    pub fn closed(&self, collection: &str, now: Millis) -> Option<Closed<'_>> {
        let concerns = |gate: &&Gate| gate.collection.is_empty() || gate.collection == collection;
        let closed = self.gates.iter().filter(concerns).filter_map(|gate| {
            let state = gate.state_at(now);
            (state != GateState::Open).then_some(Closed { gate, state })
        });
        closed.max_by_key(|closed| (closed.state, closed.gate.collection.is_empty()))
    }

    /// Returns the state of the gate of the whole callback at `now`.
    #[must_use]
    pub fn gate(&self, now: Millis) -> GateState {
        let whole = self.gates.iter().find(|gate| gate.collection.is_empty());
        whole.map_or(GateState::Open, |gate| gate.state_at(now))
    }

    /// Tells whether no gate keeps any task from going out at `now`.
    #[must_use]
    pub fn is_open(&self, now: Millis) -> bool {
        let open = |gate: &Gate| gate.state_at(now) == GateState::Open;
        self.gates.iter().all(open)
    }

    /// Tells whether a user has set anything of it that holds at `now`.
    #[must_use]
    pub fn is_known(&self, now: Millis) -> bool {
        self.policy.is_some() || !self.is_open(now)
    }

    /// Tells whether this gate, which would be set at its `since`, is set already. The time and the person may differ.
    #[must_use]
    pub fn has_gate(&self, gate: &Gate) -> bool {
        let same = |one: &&Gate| one.collection == gate.collection;
        match self.gates.iter().find(same) {
            None => gate.state == GateState::Open,
            Some(there) if gate.state == GateState::Open => {
                there.state_at(gate.since) == GateState::Open
            }
            Some(there) => {
                let (since, who) = (there.since, there.who.clone());
                *there
                    == (Gate {
                        since,
                        who,
                        ..gate.clone()
                    })
            }
        }
    }

    /// Sets the gates to these at `now`, and opens all others. Says no as [`Self::set_gate`] does; then some may have been set.
    #[must_use]
    pub fn set_gates(&mut self, gates: Vec<Gate>, now: Millis, gates_max: usize) -> bool {
        let named = |one: &Gate| gates.iter().any(|gate| gate.collection == one.collection);
        let closed = self.gates.iter_mut();
        for gate in closed.filter(|gate| gate.state_at(now) != GateState::Open && !named(gate)) {
            *gate = Gate {
                collection: gate.collection.clone(),
                state: GateState::Open,
                reason: String::new(),
                since: now,
                until: None,
                who: String::new(),
            };
        }
        gates
            .into_iter()
            .all(|gate| self.has_gate(&gate) || self.set_gate(gate, gates_max))
    }

    /// Sets a gate in place of the one for the same part of the tasks. Says no when there is no room among `gates_max`: then
    /// every other gate is closed, or was opened so lately that nodes may still release tasks that it held.
    #[must_use]
    pub fn set_gate(&mut self, gate: Gate, gates_max: usize) -> bool {
        let same = |old: &Gate| old.collection == gate.collection;
        if let Some(old) = self.gates.iter_mut().find(|old| same(old)) {
            *old = gate;
            return true;
        }
        let now = gate.since;
        if self.gates.len() >= gates_max {
            let old = self.gates.iter().position(|old| old.is_forgotten(now));
            let Some(old) = old else {
                return false;
            };
            self.gates.remove(old);
        }
        self.gates.push(gate);
        true
    }
}

/// Tells whether a name belongs to the service.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::draft::TaskDraft;
    use crate::model::{
        backoff::{Backoff, Jitter},
        fixtures,
        gate::OPENED_KEPT,
        task::{Body, Spec},
    };

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Millis = Millis(1_800_000_000_000);

    fn policy() -> Policy {
        Policy {
            indexed: ["tenant".to_owned()].into(),
            description: "mail".to_owned(),
            max_attempts: Some(3),
            backoff: BackoffDraft {
                initial: Some(SECOND),
                factor_milli: Some(1500),
                max: Some(SECOND * 9),
                jitter: Some(Jitter::None),
            },
            claim_timeout: Some(SECOND * 7),
            heartbeat_timeout: Some(SECOND * 8),
            attempt_timeout: Some(SECOND * 13),
            expire_after: Some(SECOND * 10),
            retention: Some(SECOND * 11),
            dead_retention: Some(SECOND * 14),
            priority: Some(Priority::Low),
            labels: [("tenant", "acme"), ("team", "mail")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            limits: Limits::default(),
            notify: None,
            http: Some(HttpPolicy {
                timeout: Some(SECOND * 12),
                ..HttpPolicy::default()
            }),
            dead_letter_topic: None,
            skips_retries: None,
            list_succeeded: false,
        }
    }

    fn gate(collection: &str, state: GateState) -> Gate {
        Gate {
            collection: collection.to_owned(),
            state,
            reason: String::new(),
            since: NOW,
            until: None,
            who: String::new(),
        }
    }

    #[test]
    fn what_is_absent_has_the_default_of_the_service() {
        assert_eq!(Policy::default().defaults(), Defaults::SERVICE);
        assert_eq!(Callback::default().defaults(), Defaults::SERVICE);
        let given = Callback {
            policy: Some(policy()),
            gates: Vec::new(),
        };
        let expected = Defaults {
            priority: Priority::Low,
            max_attempts: 3,
            backoff: Backoff {
                initial: SECOND,
                factor_milli: 1500,
                max: SECOND * 9,
                jitter: Jitter::None,
            },
            claim_timeout: SECOND * 7,
            heartbeat_timeout: Some(SECOND * 8),
            call_timeout: SECOND * 12,
            attempt_timeout: Some(SECOND * 13),
            expire_after: Some(SECOND * 10),
            retention: SECOND * 11,
            dead_retention: Some(SECOND * 14),
        };
        assert_eq!(given.defaults(), expected);
    }

    #[test]
    fn a_field_of_the_task_wins() {
        let spec = fixtures::spec();
        let draft = TaskDraft::from(Spec {
            max_attempts: 77,
            ..spec.clone()
        });
        let completed = draft.complete(&policy().defaults());
        assert_eq!(completed.max_attempts, 77);
        assert_eq!(completed.retention, spec.retention);
        let Body::Inline(content) = spec.body else {
            panic!("inline")
        };
        let mut labels = content.labels;
        labels.push(("team".to_owned(), "own".to_owned()));
        let own = labels.len();
        policy().label(&mut labels, own + 1);
        let value = |name: &str| labels.iter().find(|(n, _)| n == name).map(|(_, v)| &**v);
        assert_eq!(
            (value("team"), value("tenant")),
            (Some("own"), Some("acme"))
        );
        assert_eq!(labels.len(), own + 1);
        let mut full = labels.clone();
        full.retain(|(name, _)| name != "tenant");
        policy().label(&mut full, own);
        assert_eq!(full.len(), own, "there is no room for another");
    }

    #[test]
    fn the_stricter_gate_holds() {
        let callback = |gates: &[Gate]| Callback {
            policy: None,
            gates: gates.to_vec(),
        };
        let states = |callback: &Callback, collection: &str| {
            let closed = callback.closed(collection, NOW);
            closed.map(|closed| (closed.state, closed.gate.collection.clone()))
        };
        let paused = || gate("", GateState::Paused);
        assert_eq!(states(&callback(&[]), "a"), None);
        let all = callback(&[paused(), gate("a", GateState::Open)]);
        assert_eq!(states(&all, "a"), Some((GateState::Paused, String::new())));
        let both = callback(&[paused(), gate("a", GateState::Dropping)]);
        let dropping = Some((GateState::Dropping, "a".to_owned()));
        assert_eq!(states(&both, "a"), dropping);
        assert_eq!(states(&both, ""), Some((GateState::Paused, String::new())));
        let one = callback(&[gate("a", GateState::Paused)]);
        assert_eq!(states(&one, "b"), None);
        assert_eq!((one.gate(NOW), one.is_open(NOW)), (GateState::Open, false));
        let alike = callback(&[gate("a", GateState::Paused), paused()]);
        assert_eq!(
            states(&alike, "a"),
            Some((GateState::Paused, String::new()))
        );
    }

    #[test]
    fn a_gate_that_was_opened_long_ago_makes_room() {
        let mut callback = Callback::default();
        assert!(callback.set_gate(gate("a", GateState::Open), 2));
        assert!(callback.set_gate(gate("b", GateState::Paused), 2));
        assert!(!callback.set_gate(gate("c", GateState::Paused), 2));
        assert!(callback.set_gate(gate("b", GateState::Dropping), 2));
        let later = Gate {
            since: NOW.after(OPENED_KEPT + SECOND),
            ..gate("c", GateState::Paused)
        };
        assert!(callback.set_gate(later, 2));
        let left: Vec<&str> = callback.gates.iter().map(|g| &*g.collection).collect();
        assert_eq!(left, ["b", "c"]);
    }
}
