//! The dead letter topic has for the end steps a record of each death published, where the callback asks for it
//! ([`crate::model::dead_letter_record`]).
//!
//! The configuration is read when the task dies. Repeated end steps find the same internal task.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    flow::base::{
        agendas::outbox,
        api::Fault,
        budget::Portion,
        context::Context,
        rows::{content, stored},
    },
    limits,
    model::{
        dead_letter_record::{self, DeadLetterRecord},
        ids::TaskId,
        row::TaskRow,
        task::{Body, Content, Spec},
        time::Millis,
    },
};

/// The payload of such a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Payload {
    /// The dead task.
    task: Uuid,
    /// Its generation at its death.
    generation: u32,
    /// When it died, in milliseconds since 1970.
    end_ms: i64,
    /// Its attempts.
    attempt: u32,
    /// Its last error.
    error: String,
    /// Where the record goes.
    topic: String,
}

/// Has the record of a death published, if its callback names a topic: the internal task is durable then. Others cost nothing.
///
/// # Errors
/// When the task that publishes it may not be durable; repeating it is safe.
pub(in crate::flow) async fn file(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    if !dead_letter_record::may_have_one(row) {
        return Ok(());
    }
    let callback = row.detail.spec.callback().unwrap_or_default();
    let policy = ctx.configured.policy(&*ctx.store, callback).await?;
    let topic = policy.and_then(|policy| policy.dead_letter_topic);
    let record = topic.and_then(|topic| DeadLetterRecord::of(row, &topic));
    let Some(record) = record else {
        return Ok(());
    };
    let registered = ctx.outbox.register(record.task(write(&record)));
    let registered = ctx.time.within(limits::OUTBOX_WAIT_MAX, registered).await;
    registered.unwrap_or_else(|| Err(outbox::unanswered()))
}

/// The reader of tasks that have died, for their records.
#[derive(Debug)]
pub struct Deaths {
    ctx: Arc<Context>,
}

impl Deaths {
    /// Reads through these.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// Reads what a task consists of, whatever has become of it since its death. None when it was deleted or is gone. Hold the
    /// portion of the node's memory that comes with it until the queue has answered: many deaths may be read at once.
    ///
    /// # Errors
    /// When the store is away, or there is no memory for the content in time.
    pub async fn read(
        &self,
        id: TaskId,
    ) -> Result<Option<(Arc<Spec>, Content, Option<Portion>)>, Fault> {
        let row = stored::row(&self.ctx, id).await?;
        let Some(row) = row.filter(|row| !row.detail.erased) else {
            return Ok(None);
        };
        let spec = row.detail.spec;
        let (content, room) = match &spec.body {
            Body::Inline(content) => (Some(content.clone()), None),
            Body::Apart { bytes } => {
                // Twice: the queue may copy it, as for every record.
                let taken = self.ctx.contents.take(2 * bytes);
                let room = self.ctx.time.within(limits::CONTENTS_WAIT_MAX, taken).await;
                let room = room.ok_or_else(no_memory)?;
                (content::read(&self.ctx, id).await?, Some(room))
            }
        };
        // A task may have died because its content is missing: its record has none, either.
        Ok(Some((spec, content.unwrap_or_default(), room)))
    }
}

fn no_memory() -> Fault {
    Fault::Unavailable {
        reason:
            "the contents that are on their way at this node take all the memory that they may take"
                .to_owned(),
        retry_after: limits::CONTENTS_WAIT_MAX,
    }
}

fn write(record: &DeadLetterRecord) -> Bytes {
    let payload = Payload {
        task: record.task.uuid(),
        generation: record.generation,
        end_ms: record.end.0,
        attempt: record.attempt,
        error: record.error.clone(),
        topic: record.topic.clone(),
    };
    // Numbers, texts and a uuid can always be written.
    serde_json::to_vec(&payload).unwrap_or_default().into()
}

/// Reads the payload of a task that publishes a record.
///
/// # Errors
/// A text about what is wrong with it.
pub fn read(payload: &[u8]) -> Result<DeadLetterRecord, String> {
    let payload: Payload = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    Ok(DeadLetterRecord {
        task: TaskId::from_uuid(payload.task).ok_or("its task is no id of a task")?,
        generation: payload.generation,
        end: Millis(payload.end_ms),
        attempt: payload.attempt,
        error: payload.error,
        topic: payload.topic,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wheel::WheelNumber;

    #[test]
    fn a_record_survives_the_payload_of_its_task_which_travels_with_it() {
        let record = DeadLetterRecord {
            task: TaskId::new(Millis(7), WheelNumber::from_low_bits(1), 9),
            generation: 3,
            end: Millis(1_800_000_000_000),
            attempt: 2,
            error: "\u{1}".repeat(dead_letter_record::ERROR_CHARS_MAX),
            topic: "t".repeat(128),
        };
        let payload = write(&record);
        assert_eq!(read(&payload), Ok(record));
        // Control characters are the longest in JSON.
        assert!(
            payload.len() <= 2 * limits::INLINE_BYTES_MAX,
            "{}",
            payload.len()
        );
        assert!(read(b"{}").is_err());
    }
}
