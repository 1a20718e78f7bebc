//! The messages of an attempt hold for people what its worker has told with its heartbeats, the last ones, within bounds.

use std::time::Duration;

use bytes::Bytes;

use super::{dead_letter::DEAD_RETENTION, ids::TaskId, result, task::Spec, time::Millis};

/// Messages of an attempt that can be read; older ones are dropped.
pub const MESSAGES_MAX: usize = 20;

/// Bytes of the messages of an attempt, of which the last one may be a quarter: they are written anew with each message.
pub const MESSAGES_BYTES_MAX: usize = 16 * 1024;

/// How old messages get before they are written again though the worker tells the same: their life counts from their last write.
pub const MESSAGES_RENEWED: Duration = Duration::from_secs(24 * 3600);

/// A note that a worker told, and when it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// When the service received it.
    pub at: Millis,
    /// The progress that was told, as JSON.
    pub note: Bytes,
}

/// Adds a message behind those that are there, unless it says the same as the last one, and drops the oldest ones that find no
/// room.
#[must_use]
pub fn with(mut messages: Vec<Message>, message: Message) -> Vec<Message> {
    if messages
        .last()
        .is_some_and(|last| last.note == message.note)
    {
        return messages;
    }
    messages.push(message);
    let mut bytes: usize = messages.iter().map(|message| message.note.len()).sum();
    let is_over = |count: usize, bytes: usize| count > MESSAGES_MAX || bytes > MESSAGES_BYTES_MAX;
    let mut dropped = 0;
    for oldest in &messages {
        let count = messages.len() - dropped;
        if count <= 1 || !is_over(count, bytes) {
            break;
        }
        bytes -= oldest.note.len();
        dropped += 1;
    }
    messages.drain(..dropped);
    messages
}

/// Returns how long messages live from their last write: as long as their task can be read if it ended then, and until they are
/// written again.
#[must_use]
pub fn kept(spec: &Spec) -> Duration {
    let dead = spec.dead_retention.unwrap_or(DEAD_RETENTION);
    spec.retention.max(dead) + MESSAGES_RENEWED * 2
}

/// Returns the key under which the messages of an attempt are kept. It is no id of a task, and no key of a result.
#[must_use]
pub fn key(id: TaskId, attempt: u32) -> TaskId {
    const VERSION: u64 = 10;
    result::key_of_version(id, attempt, VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;

    fn message(at: i64, bytes: usize) -> Message {
        let letter = b'a' + u8::try_from(at.rem_euclid(26)).unwrap();
        Message {
            at: Millis(at),
            note: vec![letter; bytes].into(),
        }
    }

    #[test]
    fn the_last_messages_stay_within_both_bounds() {
        let mut messages = Vec::new();
        for at in 0..100 {
            messages = with(messages, message(at, 10));
        }
        let times: Vec<i64> = messages.iter().map(|message| message.at.0).collect();
        assert_eq!(times, (80..100).collect::<Vec<_>>());
        for at in 100..110 {
            messages = with(messages, message(at, 4096));
        }
        let times: Vec<i64> = messages.iter().map(|message| message.at.0).collect();
        assert_eq!(times, [106, 107, 108, 109]);
    }

    #[test]
    fn a_message_that_says_the_same_is_none() {
        let one = with(Vec::new(), message(1, 7));
        let same = Message {
            at: Millis(2),
            ..one[0].clone()
        };
        assert_eq!(with(one.clone(), same), one);
    }

    #[test]
    fn keys_are_apart_from_ids_and_results() {
        let id = fixtures::id();
        assert_ne!(key(id, 1), key(id, 2));
        assert_ne!(key(id, 1), result::key(id, 1));
        assert_eq!(TaskId::from_uuid(key(id, 1).uuid()), None);
        assert_eq!(key(id, 1).wheel(), id.wheel());
    }
}
