//! I18: from two seconds after the acknowledgement of a gate that is not open no attempt of its tasks begins, until
//! the gate is asked to open. Behind the opening all of them run (I15), and without faults they do so within
//! seconds.
//!
//! Events in the first and in the last instant of that time may lie before or behind it: a run may have no latencies, and
//! then a task is released and claimed in the instant in which its gate is asked to open.

use tickwheel::model::gate::GateState;

use super::{Ended, Findings, scenes::Task};
use crate::seeded::{
    history::Claimed,
    scene::{ScenePlan, Step},
};

/// A gate is in force everywhere so long after its acknowledgement.
const IN_FORCE_MS: i64 = 2000;

/// A held task begins so long after its gate was opened: two seconds as promised, and the way through the queue.
const RELEASED_MS: i64 = 4500;

/// A time in which a gate was closed for certain.
struct Closed {
    collection: Option<u8>,
    from: i64,
    to: i64,
}

impl Closed {
    /// Tells whether a claim lies in it for certain, from its request to its answer.
    const fn has(&self, claim: &Claimed) -> bool {
        claim.asked > self.from + IN_FORCE_MS && claim.answered < self.to
    }
}

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let tasks = ended.scene_tasks();
    for scene in &ended.plan.scenes {
        let of_scene = || {
            tasks
                .iter()
                .filter(|task| task.scene.number == scene.number)
        };
        for closed in closed(ended, scene) {
            let concerns = |task: &&Task<'_>| {
                closed
                    .collection
                    .is_none_or(|of| of == task.item.collection)
            };
            for task in of_scene().filter(concerns) {
                let begun = task.claims().iter().find(|claim| closed.has(claim));
                if let Some(claim) = begun {
                    findings.add(format!(
                        "{} was claimed at {}, and its gate was closed from {} to {}",
                        task.name(),
                        claim.answered,
                        closed.from,
                        closed.to
                    ));
                }
            }
        }
        let plan = ended.plan;
        if plan.is_calm() && plan.buffers >= 1000 && plan.skew_ms <= 100 && has_gates(scene) {
            for task in of_scene() {
                late(ended, task, findings);
            }
        }
    }
}

fn has_gates(scene: &ScenePlan) -> bool {
    let mut steps = scene.steps.iter();
    steps.any(|step| matches!(step.what, Step::Gate(..)))
}

fn closed(ended: &Ended<'_>, scene: &ScenePlan) -> Vec<Closed> {
    let orders = ended.orders(scene);
    let gates = |place: usize| {
        let order = &orders[place];
        let Step::Gate(collection, state) = order.step else {
            return None;
        };
        let next = orders.iter().skip(place + 1);
        let next = next.filter(|next| matches!(next.step, Step::Gate(of, _) if of == collection));
        let to = next.map(|next| next.asked).next().unwrap_or(ended.now);
        (order.done && state != GateState::Open).then_some(Closed {
            collection,
            from: order.answered,
            to,
        })
    };
    (0..orders.len()).filter_map(gates).collect()
}

/// A task that was held begins soon after the last opening.
fn late(ended: &Ended<'_>, task: &Task<'_>, findings: &mut Findings) {
    let (Some(known), Some(first)) = (task.known, task.runs().first()) else {
        return;
    };
    if !task.item.calls.is_empty() {
        return;
    }
    let opened = ended.orders(task.scene).iter().map(|order| order.answered);
    let due = known.max(task.item.start.cast_signed());
    // Any gate may have held it.
    let due = opened
        .filter(|opened| *opened <= first.began)
        .fold(due, i64::max);
    if first.began > due + RELEASED_MS {
        let (name, began) = (task.name(), first.began);
        findings.add(format!(
            "{name} began at {began}, and nothing held it since {due}"
        ));
    }
}

#[test]
fn claims_in_the_instant_of_a_change_are_not_judged() {
    let closed = Closed {
        collection: None,
        from: 1000,
        to: 9000,
    };
    let judged = |asked, answered| {
        closed.has(&Claimed {
            attempt: 1,
            asked,
            answered,
            wall: answered,
            body: None,
        })
    };
    assert!(judged(3001, 3001) && judged(3001, 8999) && judged(8999, 8999));
    assert!(!judged(3000, 3000), "the copy of a node may be as old");
    assert!(!judged(9000, 9000), "it was released at once");
    assert!(!judged(8999, 9000));
}
