//! What callers ask the writer to do, encoded by the caller so that the writer only decides and writes.

use fjall::Slice;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::database::Space;
use crate::{
    model::{clock::ClockRow, state::Expect},
    store::{Error, Swapped},
};

/// A write; without a value a deletion.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) space: Space,
    pub(super) key: Slice,
    pub(super) value: Option<Slice>,
}

/// A write that counts only if nothing newer is there.
#[derive(Debug)]
pub(super) struct Newest {
    pub(super) space: Space,
    pub(super) key: Slice,
    pub(super) written: i64,
    /// None deletes.
    pub(super) value: Option<Slice>,
}

/// A conditional write of a task's row.
#[derive(Debug)]
pub(super) struct TaskSwap {
    pub(super) key: Slice,
    pub(super) expect: Expect,
    pub(super) nonce: Uuid,
    pub(super) value: Slice,
}

pub(super) type DoneAnswer = oneshot::Sender<Result<(), Error>>;
pub(super) type ClockAnswer = oneshot::Sender<Result<Swapped<ClockRow>, Error>>;
pub(super) type TasksAnswer = oneshot::Sender<Vec<Result<Swapped<Expect>, Error>>>;

/// One request to the writer.
#[derive(Debug)]
pub(super) enum Act {
    /// Writes without looking at what is there.
    Put {
        writes: Vec<Write>,
        answer: DoneAnswer,
    },
    /// Writes what is newer than what is there.
    PutNewest {
        writes: Vec<Newest>,
        /// Whether the answer promises that the disk has it.
        synced: bool,
        answer: DoneAnswer,
    },
    /// Swaps a clock.
    SwapClock {
        key: Slice,
        from: Box<ClockRow>,
        to: Slice,
        answer: ClockAnswer,
    },
    /// Swaps tasks, each on its own.
    SwapTasks {
        swaps: Vec<TaskSwap>,
        answer: TasksAnswer,
    },
    /// Does nothing: answered when everything asked before it has been decided, and is known to readers.
    Settle { answer: DoneAnswer },
    /// Looks after the database: its health, and what has expired.
    Upkeep,
}

impl Act {
    /// Returns how many rows it may write, which bounds groups.
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Put { writes, .. } => writes.len(),
            Self::PutNewest { writes, .. } => writes.len(),
            Self::SwapTasks { swaps, .. } => swaps.len(),
            Self::SwapClock { .. } | Self::Settle { .. } | Self::Upkeep => 1,
        }
    }

    /// Answers that it was certainly not done.
    pub(super) fn refuse(self, error: &Error) {
        match self {
            Self::Put { answer, .. } | Self::PutNewest { answer, .. } | Self::Settle { answer } => {
                tell(answer, Err(error.clone()));
            }
            Self::SwapClock { answer, .. } => tell(answer, Err(error.clone())),
            Self::SwapTasks { swaps, answer } => {
                tell(answer, swaps.iter().map(|_| Err(error.clone())).collect());
            }
            Self::Upkeep => {}
        }
    }
}

/// Answers a caller, who may have gone.
pub(super) fn tell<T>(answer: oneshot::Sender<T>, value: T) {
    drop(answer.send(value));
}
