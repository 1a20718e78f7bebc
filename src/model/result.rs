//! The result of a task tells stages and stores what its callback returned, and where its bytes are kept.
//!
//! A small one is in the row of its task. A larger one is kept apart, under a key that is made of the task and the attempt
//! ([`key`]). It is durable before the row names it, so a row never names bytes that were not there.

use bytes::Bytes;
use uuid::Uuid;

use super::{ids::TaskId, preference::mix};

/// The value that the callback of a task returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskResult {
    /// The media type; empty is JSON.
    pub content_type: String,
    /// The bytes, or where they are.
    pub place: Place,
}

/// Where the bytes of a result are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Here.
    Inline(Bytes),
    /// In the body table, under the key of the task and this attempt.
    Apart {
        /// The attempt that returned it.
        attempt: u32,
        /// How many bytes it has.
        bytes: u64,
    },
}

impl TaskResult {
    /// Returns the bytes that are here; none when they are kept apart.
    #[must_use]
    pub const fn bytes(&self) -> Option<&Bytes> {
        match &self.place {
            Place::Inline(bytes) => Some(bytes),
            Place::Apart { .. } => None,
        }
    }

    /// Returns the attempt under which the bytes are kept apart, and how many there are; none when they are here.
    #[must_use]
    pub const fn apart(&self) -> Option<(u32, u64)> {
        match &self.place {
            Place::Inline(_) => None,
            Place::Apart { attempt, bytes } => Some((*attempt, *bytes)),
        }
    }
}

/// Largest result that is shown among those of several tasks: a worker that needs more reads it by its task.
pub const SHOWN_BYTES_MAX: usize = 4096;

/// Bytes of the results of several tasks that are shown together.
pub const SHOWN_TOGETHER_BYTES_MAX: usize = 256 * 1024;

/// The view of the results of several tasks: small ones, as long as there is room, and the lengths of the others.
#[derive(Debug, Default)]
pub struct Bounded {
    taken: usize,
}

impl Bounded {
    /// Returns the result, or one that says how long it is.
    pub fn shown(&mut self, result: &TaskResult) -> TaskResult {
        let Place::Inline(bytes) = &result.place else {
            return result.clone();
        };
        let taken = self.taken + bytes.len();
        if bytes.len() <= SHOWN_BYTES_MAX && taken <= SHOWN_TOGETHER_BYTES_MAX {
            self.taken = taken;
            return result.clone();
        }
        TaskResult {
            content_type: result.content_type.clone(),
            place: Place::Apart {
                attempt: 0,
                bytes: bytes.len() as u64,
            },
        }
    }
}

/// A JSON value, as text.
impl From<Bytes> for TaskResult {
    fn from(json: Bytes) -> Self {
        Self {
            content_type: String::new(),
            place: Place::Inline(json),
        }
    }
}

/// Returns the key under which the result of an attempt is kept apart. It is no id of a task: its version is another one, so it
/// never names the content of a task.
#[must_use]
pub fn key(id: TaskId, attempt: u32) -> TaskId {
    const VERSION: u64 = 9;
    key_of_version(id, attempt, VERSION)
}

/// Returns a key of an attempt, in the form of an id of this version, which is that of no task.
pub(super) fn key_of_version(id: TaskId, attempt: u32, version: u64) -> TaskId {
    let (high, low) = id.uuid().as_u64_pair();
    let hash = mix(mix(high ^ mix(low)) ^ u64::from(attempt));
    let high = high & !(0xf << 12) | (version << 12);
    let low = (0b10 << 62) | (hash & (u64::MAX >> 2));
    TaskId::bound(Uuid::from_u64_pair(high, low))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::fixtures;

    #[test]
    fn results_of_several_tasks_are_shown_within_both_bounds() {
        let mut bounded = Bounded::default();
        let result = |bytes: usize| TaskResult::from(Bytes::from(vec![b'1'; bytes]));
        let length = |shown: &TaskResult| shown.apart().map(|(_, bytes)| bytes);
        assert_eq!(length(&bounded.shown(&result(4097))), Some(4097));
        for _ in 0..64 {
            assert_eq!(bounded.shown(&result(4096)), result(4096));
        }
        assert_eq!(length(&bounded.shown(&result(1))), Some(1));
        let apart = TaskResult {
            content_type: String::new(),
            place: Place::Apart {
                attempt: 3,
                bytes: 70_000,
            },
        };
        assert_eq!(bounded.shown(&apart), apart);
    }

    #[test]
    fn keys_of_results_are_apart_from_each_other_and_from_ids() {
        let id = fixtures::id();
        let keys: BTreeSet<TaskId> = (1..1000).map(|attempt| key(id, attempt)).collect();
        assert_eq!(keys.len(), 999);
        let is_id = |key: &TaskId| TaskId::from_uuid(key.uuid()).is_some();
        assert!(!keys.iter().any(is_id));
        assert!(keys.iter().all(|key| key.wheel() == id.wheel()));
        assert_eq!(key(id, 3), key(id, 3));
    }
}
