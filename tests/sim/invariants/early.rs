//! I2: a task never runs before its start, by the clock of the node that gave it out. (Google's cron service
//! and every user of a timer: an early run is wrong, a late run is only late.)
//!
//! An attempt after one that was given out in time is not judged: the start has passed, and a node whose
//! clock is behind may give out the next one. The numbers of the attempts give their order, since the poll
//! that got the second may have begun before the first was given out.
//!
//! A record is compared with the earliest start that its task ever had. A record that is moved in the instant
//! in which its slot closes may go out twice, at the old time and at the new one, as the service says
//! (`src/flow/life/reschedule.rs`).
//!
//! The plan sets a slow clock back a little four times a second. The answer to an earlier decision may show a
//! time after such a step, so as much is allowed while the plan has such a clock. Real slow clocks do not go
//! back.

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

/// The earliest start that may have been in force during a claim: the last one that a client was told before
/// it, or one that was asked for since, or one whose answer is not known.
fn start_at(registered: &Registered, story: &Story, claim: &Claimed) -> i64 {
    let mut start = registered.start;
    for call in &story.calls {
        let to = match call.request {
            Request::Reschedule(to) => to.cast_signed(),
            // To now, by the clock of a node.
            Request::Run => i64::MIN,
            Request::Cancel => continue,
        };
        if call.asked > claim.answered {
            break;
        }
        start = match call.told {
            Told::Rescheduled(told) if call.answered <= claim.asked => told,
            Told::TooLate | Told::NotFound => start,
            // A try before the one that was answered may have moved it, to now by the clock of another node.
            Told::Rescheduled(told) => start.min(told).min(to),
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
