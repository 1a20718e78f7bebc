//! The commands carry requests of callers to the writer. The caller encodes them, so that the writer only
//! decides and writes.

use fjall::Slice;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{
    model::{
        clock::ClockRow,
        record::{Change, Record},
        state::Expect,
    },
    store::{Error, Swapped, embedded::disk::database::Space},
};

/// A write. Without a value it is a deletion.
#[derive(Debug)]
pub(in crate::store::embedded) struct Write {
    pub(in crate::store::embedded) space: Space,
    pub(in crate::store::embedded) key: Slice,
    pub(in crate::store::embedded) value: Option<Slice>,
}

/// A write that counts only if no newer one is there.
#[derive(Debug)]
pub(in crate::store::embedded) struct Newest {
    pub(in crate::store::embedded) space: Space,
    pub(in crate::store::embedded) key: Slice,
    pub(in crate::store::embedded) written: i64,
    /// None deletes.
    pub(in crate::store::embedded) value: Option<Slice>,
}

/// A conditional write of a task's row.
#[derive(Debug)]
pub(in crate::store::embedded) struct TaskSwap {
    pub(in crate::store::embedded) key: Slice,
    pub(in crate::store::embedded) expect: Expect,
    pub(in crate::store::embedded) nonce: Uuid,
    pub(in crate::store::embedded) value: Slice,
}

pub(in crate::store::embedded) type DoneAnswer = oneshot::Sender<Result<(), Error>>;
pub(in crate::store::embedded) type ClockAnswer = oneshot::Sender<Result<Swapped<ClockRow>, Error>>;
pub(in crate::store::embedded) type TasksAnswer =
    oneshot::Sender<Vec<Result<Swapped<Expect>, Error>>>;
pub(in crate::store::embedded) type RecordAnswer =
    oneshot::Sender<Result<Swapped<Option<Record>>, Error>>;

/// One request to the writer.
#[derive(Debug)]
pub(in crate::store::embedded) enum Act {
    /// Writes without looking at the rows that are there.
    Put {
        writes: Vec<Write>,
        answer: DoneAnswer,
    },
    /// Writes rows that are newer than those that are there.
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
        /// Each of them begins an attempt.
        begins: bool,
        answer: TasksAnswer,
    },
    /// Swaps a record.
    SwapRecord {
        key: Slice,
        change: Box<Change>,
        value: Slice,
        answer: RecordAnswer,
    },
    /// Does nothing. It is answered when everything asked before has been decided and readers can see it.
    Settle { answer: DoneAnswer },
    /// Looks after the database: its health, and expired rows.
    Upkeep,
}

impl Act {
    /// Returns how many rows it may write, which bounds groups.
    pub(in crate::store::embedded) fn rows(&self) -> usize {
        match self {
            Self::Put { writes, .. } => writes.len(),
            Self::PutNewest { writes, .. } => writes.len(),
            Self::SwapTasks { swaps, .. } => swaps.len(),
            Self::SwapClock { .. }
            | Self::SwapRecord { .. }
            | Self::Settle { .. }
            | Self::Upkeep => 1,
        }
    }

    /// Tells whether it begins or drives work, or may be left undone: it waits while the disk has no room.
    pub(in crate::store::embedded) const fn can_wait_for_room(&self) -> bool {
        match self {
            Self::SwapClock { .. } | Self::Upkeep => true,
            Self::SwapTasks { begins, .. } => *begins,
            Self::Put { .. }
            | Self::PutNewest { .. }
            | Self::SwapRecord { .. }
            | Self::Settle { .. } => false,
        }
    }

    /// Tells whether it writes nothing but heartbeats.
    pub(in crate::store::embedded) fn is_sign_of_life(&self) -> bool {
        match self {
            Self::PutNewest { writes, .. } => {
                writes.iter().all(|write| write.space == Space::Clock)
            }
            _ => false,
        }
    }

    /// Returns about how many bytes it writes.
    pub(in crate::store::embedded) fn bytes(&self) -> u64 {
        let of = |value: Option<&Slice>| value.map_or(0, |value| value.len());
        let bytes: usize = match self {
            Self::Put { writes, .. } => writes.iter().map(|one| of(one.value.as_ref())).sum(),
            Self::PutNewest { writes, .. } => writes.iter().map(|one| of(one.value.as_ref())).sum(),
            Self::SwapTasks { swaps, .. } => swaps.iter().map(|swap| swap.value.len()).sum(),
            Self::SwapRecord { value, .. } => value.len(),
            Self::SwapClock { to, .. } => to.len(),
            Self::Settle { .. } | Self::Upkeep => 0,
        };
        bytes as u64
    }

    /// Tells whether its caller waits for it no more.
    pub(in crate::store::embedded) fn is_given_up(&self) -> bool {
        match self {
            Self::Put { answer, .. } | Self::PutNewest { answer, .. } | Self::Settle { answer } => {
                answer.is_closed()
            }
            Self::SwapClock { answer, .. } => answer.is_closed(),
            Self::SwapRecord { answer, .. } => answer.is_closed(),
            Self::SwapTasks { answer, .. } => answer.is_closed(),
            Self::Upkeep => false,
        }
    }

    /// Answers that it was certainly not done.
    pub(in crate::store::embedded) fn refuse(self, error: &Error) {
        match self {
            Self::Put { answer, .. } | Self::PutNewest { answer, .. } | Self::Settle { answer } => {
                tell(answer, Err(error.clone()));
            }
            Self::SwapClock { answer, .. } => tell(answer, Err(error.clone())),
            Self::SwapRecord { answer, .. } => tell(answer, Err(error.clone())),
            Self::SwapTasks { swaps, answer, .. } => {
                tell(answer, swaps.iter().map(|_| Err(error.clone())).collect());
            }
            Self::Upkeep => {}
        }
    }
}

/// Answers a caller, who may have gone.
pub(in crate::store::embedded) fn tell<T>(answer: oneshot::Sender<T>, value: T) {
    drop(answer.send(value));
}
