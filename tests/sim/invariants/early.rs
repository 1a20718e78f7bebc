//! I2: nothing runs before its start, by the clock of the node that gave it out. (Google's cron service and every user of a
//! timer: early is wrong, late is late.)
//!
//! An attempt that follows one which was given out in time is not judged: the start has been, and a node whose clock is
//! behind may give out the next one. Which follows which say their numbers: the poll that is answered with the second may
//! have begun before the first was given out.
//!
//! A record is held against the earliest start its task ever had: the service says of a record that is moved in the instant
//! in which its slot closes that it may go out twice, at the old time and at the new one (`src/flow/change.rs`).
//!
//! A clock that is slow is set back a little four times a second: what a node decided before may be answered behind that, so
//! as much is allowed while there is such a clock in the plan. Real clocks that are slow do not go back.

use super::{Ended, Findings};
use crate::seeded::{
    faults::correction,
    history::{Claimed, Registered, Story, Told},
    plan::{Fault, Request},
};

pub(super) fn check(ended: &Ended<'_>, findings: &mut Findings) {
    let set_back = ended
        .plan
        .faults
        .iter()
        .filter_map(|fault| match fault.what {
            Fault::ClockDrift { ppm, .. } => Some(-correction(ppm)),
            _ => None,
        });
    let set_back = set_back.max().unwrap_or(0).max(0);
    for (registered, story, plan) in ended.registered() {
        if plan.record {
            for at in ended.records.get(&registered.id).into_iter().flatten() {
                let earliest = earliest(registered, story);
                let ahead = ended.history.ahead_within(at - 30_000, *at);
                if at + ahead < earliest {
                    let (number, id) = (registered.number, registered.id);
                    findings.add(format!(
                        "record {number} ({id}) went out at {at}, start {earliest}"
                    ));
                }
            }
            continue;
        }
        for claim in &story.claims {
            let start = start_at(registered, story, claim);
            let begun = story
                .claims
                .iter()
                .any(|earlier| earlier.attempt < claim.attempt && earlier.wall >= start);
            if claim.wall + set_back < start && !begun {
                let (number, id, attempt) = (registered.number, registered.id, claim.attempt);
                let (wall, at) = (claim.wall, claim.answered);
                findings.add(format!(
                    "task {number} ({id}) was given out at {at} (node's clock {wall}), attempt {attempt}, start {start}"
                ));
            }
        }
    }
}

/// The earliest start that may have been in force while a claim was made: the last one that a client was told before it, or
/// one that was asked for since, or whose answer is not known.
fn start_at(registered: &Registered, story: &Story, claim: &Claimed) -> i64 {
    let mut start = registered.start;
    for call in &story.calls {
        let to = match call.request {
            Request::Reschedule(to) => to.cast_signed(),
            // Now, by the clock of a node.
            Request::Run => i64::MIN,
            Request::Cancel => continue,
        };
        if call.asked > claim.answered {
            break;
        }
        start = match call.told {
            Told::Rescheduled(told) if call.answered <= claim.asked => told,
            Told::TooLate | Told::NotFound => start,
            Told::Rescheduled(told) => start.min(told),
            _ => start.min(to),
        };
    }
    start
}

fn earliest(registered: &Registered, story: &Story) -> i64 {
    let moved = story.calls.iter().filter_map(|call| match call.request {
        Request::Reschedule(to) => Some(to.cast_signed()),
        Request::Run => Some(call.asked),
        Request::Cancel => None,
    });
    moved.chain([registered.start]).min().unwrap_or(0)
}
