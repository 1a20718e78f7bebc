//! Task rows become columns, and columns task rows, for every store.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Undecodable, malformed, there, to_i32, to_u32};
use crate::{
    model::{
        history::{Answered, Attempt, Ending, History},
        ids::TaskId,
        result::{Place, TaskResult},
        state::{Detail, Expect, State, TaskRow},
        task::Spec,
        time::Millis,
    },
    schema::{
        Malformed, holder_from_message, holder_to_message, rounds_from_message, rounds_to_message,
        spec_from_message, spec_to_message, spec_to_short_message, tree_end_from_message,
        tree_end_to_message, v1,
    },
};

/// The stored columns of a task beside its id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskColumns {
    /// The state's number.
    pub state: Option<i8>,
    /// Reschedules.
    pub generation: Option<i32>,
    /// Claims.
    pub attempt: Option<i32>,
    /// Whether a cancel was requested.
    pub cancel_requested: Option<bool>,
    /// Claims that count as tries.
    pub tries: Option<i32>,
    /// Not before.
    pub next_ms: Option<i64>,
    /// Latest entry.
    pub last_ms: Option<i64>,
    /// The name of the last write.
    pub nonce: Option<Uuid>,
    /// The rest, as a message.
    pub detail: Option<Bytes>,
}

impl TaskColumns {
    /// Returns the columns of a row: all of them are there.
    #[must_use]
    pub fn of(row: &TaskRow) -> Self {
        Self::with_detail(row, encode_detail(&row.detail, spec_to_message))
    }

    /// Returns the columns of a row. Usual values in its spec are left out.
    #[must_use]
    pub fn short(row: &TaskRow) -> Self {
        Self::with_detail(row, encode_detail(&row.detail, spec_to_short_message))
    }

    fn with_detail(row: &TaskRow, detail: Bytes) -> Self {
        let TaskRow {
            id: _,
            state,
            generation,
            attempt,
            tries,
            next,
            last,
            cancel_requested,
            nonce,
            detail: _,
        } = row;
        Self {
            state: Some(state.number()),
            generation: Some(to_i32(*generation)),
            attempt: Some(to_i32(*attempt)),
            cancel_requested: Some(*cancel_requested),
            tries: Some(to_i32(*tries)),
            next_ms: Some(next.0),
            last_ms: Some(last.0),
            nonce: Some(*nonce),
            detail: Some(detail),
        }
    }

    /// Reads a row back.
    ///
    /// # Errors
    /// [`Undecodable`] with the first defect.
    pub fn into_row(self, id: Uuid) -> Result<TaskRow, Undecodable> {
        Ok(TaskRow {
            id: TaskId::from_uuid(id).ok_or(Undecodable::NotATaskId(id))?,
            state: to_state(there(self.state, "state")?)?,
            generation: to_u32(self.generation, "generation")?,
            attempt: to_u32(self.attempt, "attempt")?,
            tries: to_u32(self.tries, "tries")?,
            next: Millis(there(self.next_ms, "next_ms")?),
            last: Millis(there(self.last_ms, "last_ms")?),
            cancel_requested: there(self.cancel_requested, "cancel_requested")?,
            nonce: there(self.nonce, "nonce")?,
            detail: decode_detail(there(self.detail, "detail")?)?,
        })
    }
}

/// The columns that a conditional write of a task's row names: those that it must find, or those that it
/// found instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpectColumns {
    /// The state's number; missing is an absent row.
    pub state: Option<i8>,
    /// The generation.
    pub generation: Option<i32>,
    /// The attempt.
    pub attempt: Option<i32>,
    /// The cancel flag.
    pub cancel_requested: Option<bool>,
    /// The name of the write that made the row.
    pub nonce: Option<Uuid>,
}

impl ExpectColumns {
    /// Returns the columns of an expectation.
    #[must_use]
    pub fn of(expect: &Expect) -> Self {
        match *expect {
            Expect::Absent => Self::default(),
            Expect::Row {
                state,
                generation,
                attempt,
                cancel_requested,
                nonce,
            } => Self {
                state: Some(state.number()),
                generation: Some(to_i32(generation)),
                attempt: Some(to_i32(attempt)),
                cancel_requested: Some(cancel_requested),
                nonce: Some(nonce),
            },
        }
    }

    /// Reads the columns that were found.
    ///
    /// # Errors
    /// [`Undecodable`] with the first defect.
    pub(in crate::store) fn into_expect(self) -> Result<Expect, Undecodable> {
        if self == Self::default() {
            return Ok(Expect::Absent);
        }
        Ok(Expect::Row {
            state: to_state(there(self.state, "state")?)?,
            generation: to_u32(self.generation, "generation")?,
            attempt: to_u32(self.attempt, "attempt")?,
            cancel_requested: there(self.cancel_requested, "cancel_requested")?,
            nonce: there(self.nonce, "nonce")?,
        })
    }
}

fn to_state(number: i8) -> Result<State, Undecodable> {
    let last = State::ALL.iter().map(|state| state.number()).max();
    State::from_number(number)
        .ok_or_else(|| Undecodable::unknown("state", number, last.unwrap_or_default()))
}

fn encode_detail(detail: &Detail, to_message: fn(&Spec) -> v1::TaskSpec) -> Bytes {
    let Detail {
        spec,
        start,
        fire_time,
        claim_time,
        end_time,
        worker,
        result,
        error,
        died,
        erased,
        tree,
        children_time_passed,
        rounds,
        lived,
        history,
        next,
    } = detail;
    let History {
        attempts,
        dropped,
        answered,
    } = history;
    let message = v1::TaskDetail {
        spec: Some(to_message(spec)),
        start_time_ms: start.0,
        claim_time_ms: claim_time.map(|at| at.0),
        end_time_ms: end_time.map(|at| at.0),
        worker: worker.clone(),
        result: result.as_ref().and_then(TaskResult::bytes).cloned(),
        result_content_type: result
            .as_ref()
            .map(|result| result.content_type.clone())
            .unwrap_or_default(),
        result_apart: result
            .as_ref()
            .and_then(TaskResult::apart)
            .map(|(attempt, bytes)| v1::ResultApart { attempt, bytes }),
        error: error.clone(),
        fire_time_ms: fire_time.map(|at| at.0),
        death_stamp: *died,
        erased: *erased,
        tree: tree.as_ref().map(tree_end_to_message),
        children_time_passed: *children_time_passed,
        rounds: rounds_to_message(*rounds),
        lived: *lived,
        attempts: attempts.iter().map(attempt_message).collect(),
        attempts_dropped: *dropped,
        answered: answered.as_ref().map(answered_message),
        next: next.as_deref().map(holder_to_message),
    };
    message.encode_to_vec().into()
}

fn decode_detail(bytes: Bytes) -> Result<Detail, Undecodable> {
    let read = |bytes: Bytes| -> Result<Detail, Malformed> {
        let message = v1::TaskDetail::decode(bytes)?;
        let spec: Spec = spec_from_message(message.spec.ok_or(Malformed::Missing("spec"))?)?;
        Ok(Detail {
            spec: Arc::new(spec),
            start: Millis(message.start_time_ms),
            fire_time: message.fire_time_ms.map(Millis),
            claim_time: message.claim_time_ms.map(Millis),
            end_time: message.end_time_ms.map(Millis),
            worker: message.worker,
            result: result(
                message.result,
                message.result_apart,
                message.result_content_type,
            ),
            error: message.error,
            died: message.death_stamp,
            erased: message.erased,
            tree: message.tree.map(tree_end_from_message).transpose()?,
            children_time_passed: message.children_time_passed,
            rounds: rounds_from_message(message.rounds),
            lived: message.lived,
            history: History {
                attempts: message.attempts.into_iter().map(attempt).collect(),
                dropped: message.attempts_dropped,
                answered: message.answered.map(to_answered),
            },
            next: message
                .next
                .map(holder_from_message)
                .transpose()?
                .map(Arc::new),
        })
    };
    read(bytes).map_err(|cause| malformed("detail", cause))
}

/// Reads a result from its parts; none when there is none.
fn result(
    inline: Option<Bytes>,
    apart: Option<v1::ResultApart>,
    content_type: String,
) -> Option<TaskResult> {
    let place = match (inline, apart) {
        (_, Some(v1::ResultApart { attempt, bytes })) => Place::Apart { attempt, bytes },
        (Some(bytes), None) => Place::Inline(bytes),
        (None, None) => return None,
    };
    Some(TaskResult {
        content_type,
        place,
    })
}

fn attempt_message(attempt: &Attempt) -> v1::Attempt {
    let Attempt {
        attempt,
        worker,
        claimed,
        ended,
        ending,
        error,
        answered,
    } = attempt;
    v1::Attempt {
        attempt: *attempt,
        worker: worker.clone(),
        claim_time_ms: claimed.map(|at| at.0),
        end_time_ms: ended.map(|at| at.0),
        outcome: ending.map_or(0, |ending| i32::from(ending.number())),
        error: error.clone(),
        answered: answered.as_ref().map(answered_message),
    }
}

fn answered_message(answered: &Answered) -> v1::Answered {
    v1::Answered {
        status: answered.status.into(),
        response: answered.response.clone(),
    }
}

fn to_answered(message: v1::Answered) -> Answered {
    Answered {
        status: u16::try_from(message.status).unwrap_or_default(),
        response: message.response,
    }
}

/// An outcome that only a later version knows is shown as none: people read it, and no rule depends on it.
fn attempt(message: v1::Attempt) -> Attempt {
    Attempt {
        attempt: message.attempt,
        worker: message.worker,
        claimed: message.claim_time_ms.map(Millis),
        ended: message.end_time_ms.map(Millis),
        ending: Ending::from_number(message.outcome),
        error: message.error,
        answered: message.answered.map(to_answered),
    }
}
