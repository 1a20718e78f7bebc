//! These rules of the look stage hold publications back for it: of tasks behind gates that are not open, of tasks of
//! sequences that wait for their turns, and of tasks that are still waiting in the queue.
//!
//! Each such task is looked at again instead, and keeps what is known of its last publication.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    flow::{
        base::{context::Context, records::callbacks::Passage},
        features::{gate::gatekeeper::Gates, sequence::turn::SequenceLock},
        life::sending::{Sending, Unsent},
    },
    model::{
        decision::{Decision, Publish},
        dispatch::Dispatch,
        entry::{Entry, Kind},
        ids::TaskId,
        look::Grid,
        ordering::Sequence,
        state::{State, TaskRow},
        time::Millis,
    },
    queue::{Probe, message},
};

/// Holds back tasks behind gates that are not open, and returns what is to be held. A look of such a task backs off as it does
/// for one that waits for a worker, and keeps what is known of its publication.
pub(super) fn hold_gated(
    gates: &Gates,
    grid: impl Fn(&Entry) -> Grid,
    looks: &[&Entry],
    decisions: &mut [Decision],
    rows: &[Option<TaskRow>],
    now: Millis,
) -> Vec<(Sending, Unsent)> {
    let mut gated = Vec::new();
    for ((look, decision), row) in looks.iter().zip(decisions).zip(rows) {
        let Decision::Publish(publish) = decision else {
            continue;
        };
        let Passage::Held(gate) = gates.passage(&look.spec) else {
            continue;
        };
        let sending = Sending {
            dispatch: Dispatch::asked(look.key.id, publish),
            spec: Arc::clone(&look.spec),
            first: is_first(look, row.as_ref()),
            opened: None,
        };
        *decision = Decision::LookAgain {
            at: grid(look).backed_off(now, now.since(publish.start)),
            generation: publish.generation,
        };
        gated.push((sending, Unsent::Gated(gate)));
    }
    gated
}

/// Holds back tasks of sequences while another task has the turn, and returns which. They are looked at again a step later: the
/// end of the other task publishes the next one, and the look is for the case that this is lost.
pub(super) async fn hold_behind(
    turns: &SequenceLock,
    grid: impl Fn(&Entry) -> Grid,
    looks: &[&Entry],
    decisions: &mut [Decision],
    now: Millis,
) -> Vec<TaskId> {
    let asks = looks.iter().zip(decisions.iter());
    let asks = asks.filter(|(_, decision)| matches!(decision, Decision::Publish(_)));
    let sequences: BTreeSet<Sequence> = asks
        .filter_map(|(look, _)| Sequence::of(&look.spec))
        .collect();
    if sequences.is_empty() {
        return Vec::new();
    }
    let sequences: Vec<Sequence> = sequences.into_iter().collect();
    let holders = turns.holders(&sequences).await;
    let mut behind = Vec::new();
    for (look, decision) in looks.iter().zip(decisions) {
        let Decision::Publish(publish) = decision else {
            continue;
        };
        let id = look.key.id;
        let holder = Sequence::of(&look.spec).and_then(|sequence| holders.get(&sequence));
        if holder.is_some_and(|holder| *holder != id) {
            *decision = Decision::LookAgain {
                at: grid(look).one_step_after(now),
                generation: publish.generation,
            };
            behind.push(id);
        }
    }
    behind
}

/// Holds back tasks that are certainly still waiting in the queue. Consumers that are merely slow must
/// not be sent their whole backlog again at every look. Such a task is looked at again, and keeps the
/// time of the publication that waits. If it were taken for published now, a message that is lost behind
/// a backlog would look queued for ever.
pub(super) async fn hold_queued(ctx: &Context, looks: &[&Entry], decisions: &mut [Decision]) {
    let probe = |(look, decision): (&&Entry, &Decision)| {
        let Decision::Publish(publish) = decision else {
            return None;
        };
        let queue = look.spec.queue()?;
        Some(Probe {
            topic: message::topic(queue, look.spec.priority),
            group: message::group(queue),
            wheel: look.key.wheel(),
            since: publish.unless_queued_since?,
        })
    };
    let probes: Vec<Option<Probe>> = looks.iter().zip(decisions.iter()).map(probe).collect();
    let asked: Vec<Probe> = probes.iter().flatten().cloned().collect();
    if asked.is_empty() {
        return;
    }
    let mut queued = ctx.publisher.still_queued(&asked).await.into_iter();
    for (decision, probe) in decisions.iter_mut().zip(probes) {
        let waits = probe.is_some() && queued.next().unwrap_or(false);
        if let (
            true,
            Decision::Publish(Publish {
                look_at: Some(at),
                generation,
                ..
            }),
        ) = (waits, &*decision)
        {
            *decision = Decision::LookAgain {
                at: *at,
                generation: *generation,
            };
        }
    }
}

/// Tells whether what a look publishes goes out for the first time in its generation.
pub(super) fn is_first(look: &Entry, row: Option<&TaskRow>) -> bool {
    let unpublished = matches!(
        look.kind,
        Kind::Look {
            published: None,
            ..
        }
    );
    unpublished && row.is_none_or(|row| row.state == State::New)
}
