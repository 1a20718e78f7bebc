//! The codec of the kin converts the places of tasks in trees, and the ends of trees, to and from messages.

use std::time::Duration;

use uuid::Uuid;

use super::{Malformed, v1};
use crate::model::{
    ids::TaskId,
    kin::{Kin, Rounds, TreeEnd, TreeOutcome},
    time::{Millis, whole_millis},
};

pub(super) fn to_message(kin: &Kin) -> v1::Kin {
    let parent = kin.parent.map(|parent| parent.uuid().as_bytes().to_vec());
    v1::Kin {
        parent: parent.unwrap_or_default().into(),
        is_parent: kin.is_parent,
        after_parent: kin.after_parent,
        undoes: kin.undoes,
        children_within_ms: kin.children_within.map(millis),
    }
}

pub(super) fn from_message(message: Option<&v1::Kin>) -> Result<Option<Box<Kin>>, Malformed> {
    let Some(message) = message else {
        return Ok(None);
    };
    let wrong = || Malformed::OutOfRange("kin.parent");
    let parent = if message.parent.is_empty() {
        None
    } else {
        let id = Uuid::from_slice(&message.parent).map_err(|_| wrong())?;
        Some(TaskId::from_uuid(id).ok_or_else(wrong)?)
    };
    Ok(Some(Box::new(Kin {
        parent,
        is_parent: message.is_parent,
        after_parent: message.after_parent,
        undoes: message.undoes,
        children_within: message.children_within_ms.map(duration),
    })))
}

/// A duration beyond the reach of instants is for ever, and is written so again.
fn duration(millis: u64) -> Duration {
    Duration::from_millis(millis.min(i64::MAX.unsigned_abs()))
}

fn millis(duration: Duration) -> u64 {
    whole_millis(duration).unsigned_abs()
}

/// Converts the end of a tree to its message.
#[must_use]
pub fn tree_end_to_message(end: &TreeEnd) -> v1::TreeEnd {
    v1::TreeEnd {
        outcome: end.outcome.number(),
        at_ms: end.at.0,
    }
}

/// Reads the end of a tree from its message.
///
/// # Errors
/// [`Malformed`] when nobody knows how it ended.
pub fn tree_end_from_message(message: v1::TreeEnd) -> Result<TreeEnd, Malformed> {
    Ok(TreeEnd {
        outcome: outcome_from(message.outcome, "tree.outcome")?,
        at: Millis(message.at_ms),
    })
}

/// Reads how a tree ended.
pub(super) fn outcome_from(number: i32, field: &'static str) -> Result<TreeOutcome, Malformed> {
    TreeOutcome::from_number(number).ok_or(Malformed::OutOfRange(field))
}

/// Converts the rounds of a task to their message; none when it never began again.
#[must_use]
pub fn rounds_to_message(rounds: Rounds) -> Option<v1::Rounds> {
    let Rounds {
        round,
        opened,
        awaits,
    } = rounds;
    let message = v1::Rounds {
        round,
        opened,
        awaits,
    };
    (rounds != Rounds::default()).then_some(message)
}

/// Reads the rounds of a task from their message.
#[must_use]
pub fn rounds_from_message(message: Option<v1::Rounds>) -> Rounds {
    let message = message.unwrap_or_default();
    Rounds {
        round: message.round,
        opened: message.opened,
        awaits: message.awaits,
    }
}
