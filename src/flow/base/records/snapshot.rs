//! The snapshot tells the stages of a node what is set for callbacks, as the node's copy had it at one moment.

use std::{collections::HashMap, sync::Arc};

use crate::model::{callback::Callback, gate::Gate, limit::Limits, task::Spec, time::Millis};

/// Whether a task may go out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flow) enum Passage {
    /// It may.
    Open,
    /// It is held at the gate of this collection; empty is the gate of the whole callback.
    Held(String),
    /// It cannot be told now.
    Unknown,
}

/// The callbacks as the copy of a node has them.
#[derive(Debug, Default)]
pub(in crate::flow) struct Snapshot {
    /// The number of the copy's last change that it has.
    pub(super) changes: Option<u64>,
    /// None stands for a record that this version cannot read.
    pub(super) by_name: HashMap<String, Option<Arc<Callback>>>,
}

impl Snapshot {
    /// Tells whether a task may go out at `now`. A task that is not tracked always may.
    pub(in crate::flow) fn passage(&self, spec: &Spec, now: Millis) -> Passage {
        let Some(name) = spec.callback() else {
            return Passage::Open;
        };
        match self.by_name.get(name) {
            None => Passage::Open,
            // It may be paused.
            Some(None) => Passage::Unknown,
            Some(Some(callback)) => callback
                .closed(&spec.collection, now)
                .map_or(Passage::Open, |closed| {
                    Passage::Held(closed.gate.collection.clone())
                }),
        }
    }

    /// Returns the limits of a callback; none when it has none.
    pub(in crate::flow) fn limits(&self, callback: &str) -> Option<Limits> {
        let callback = self.by_name.get(callback)?.as_ref()?;
        let limits = callback.limits();
        (!limits.is_none()).then_some(limits)
    }

    /// Tells whether tasks of a callback are found by a label.
    pub(in crate::flow) fn is_indexed(&self, callback: &str, label: &str) -> bool {
        let known = self.by_name.get(callback).and_then(Option::as_ref);
        let policy = known.and_then(|callback| callback.policy.as_ref());
        policy.is_some_and(|policy| policy.indexed.contains(label))
    }

    /// Returns the number of the copy's last change that it has.
    pub(in crate::flow) const fn changes(&self) -> Option<u64> {
        self.changes
    }

    /// Returns every gate that was ever set and is remembered, with the name of its callback, in the order of the names.
    pub(in crate::flow) fn gates(&self) -> Vec<(String, Gate)> {
        let known = self.by_name.iter();
        let known = known.filter_map(|(name, callback)| Some((name, callback.as_ref()?)));
        let gates = known.flat_map(|(name, callback)| {
            let gates = callback.gates.iter();
            gates.map(|gate| (name.clone(), gate.clone()))
        });
        let mut gates: Vec<(String, Gate)> = gates.collect();
        // Those of one callback stay in their order.
        gates.sort_by(|(one, _), (other, _)| one.cmp(other));
        gates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gate::GateState;

    #[test]
    fn gates_come_in_the_order_of_their_callbacks() {
        let gate = |collection: &str| Gate {
            collection: collection.to_owned(),
            state: GateState::Paused,
            reason: String::new(),
            since: Millis(0),
            until: None,
            who: String::new(),
        };
        let callback = || Callback {
            gates: vec![gate("b"), gate("a")],
            ..Callback::default()
        };
        let names = || (10..30).map(|number| format!("c{number}"));
        let snapshot = Snapshot {
            changes: None,
            by_name: names()
                .map(|name| (name, Some(Arc::new(callback()))))
                .collect(),
        };
        let found = snapshot.gates().into_iter();
        let found: Vec<_> = found.map(|(name, gate)| (name, gate.collection)).collect();
        let of = |name: String| ["b", "a"].map(|gate| (name.clone(), gate.to_owned()));
        assert_eq!(found, names().flat_map(of).collect::<Vec<_>>());
    }
}
