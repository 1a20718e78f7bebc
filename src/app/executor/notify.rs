//! The delivery tells the end of a task to those who want to know it, for the executor.
//!
//! It reads the task when it delivers, so that the message has its result and its attempts. A delivery that is not acknowledged
//! is repeated: the message may come several times, with the same name each time.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    done::Done,
    http::{Delivery, Message},
};
use crate::{
    api::{
        notification::{Ended, Notification},
        worker::View,
    },
    flow::{internal::notices, service::Service},
    http::convert::{http_call::callback_of, notify::end_state, task_view::with_attempts},
    limits::NOTIFY_TRIED_FOR,
    model::{ids::TaskId, notice::Notice, notify::Destination, time::rfc3339},
    queue::{Headers, Partition, Record},
    time_source::TimeSource,
    worker::{Failure, Job, Outcome, Raw},
};

/// Delivers one notice.
pub(super) async fn deliver(
    service: &Service,
    delivery: &Delivery,
    time: &TimeSource,
    job: &Job<Raw>,
) -> Result<Outcome, Failure> {
    let notice = match notices::read(&job.payload.0) {
        Ok(notice) => notice,
        Err(reason) => {
            return Ok(Outcome::Fail(format!(
                "the notice cannot be read: {reason}"
            )));
        }
    };
    let outcome = match tell(service, delivery, job, &notice).await? {
        Done::Succeeded => Outcome::Done,
        Done::Busy(again) => Outcome::Snooze(again),
        Done::Again(after, error) if time.now().since(notice.end) < NOTIFY_TRIED_FOR => {
            // The waits of the task are at most a minute.
            after.map_or_else(
                || Outcome::Retry(error.clone()),
                |after| Outcome::RetryAfter(after, error.clone()),
            )
        }
        Done::Again(_, error) | Done::Refused(error) => Outcome::Fail(error),
    };
    let to = notice.to.kind();
    let label = match &outcome {
        Outcome::Done => "delivered",
        Outcome::Fail(error) => {
            tracing::warn!(task = %notice.task, to, error, "the end of a task was not told: given up");
            "given_up"
        }
        _ => "retried",
    };
    metrics::counter!("tickwheel_notices_total", "to" => to, "outcome" => label).increment(1);
    Ok(outcome)
}

/// Tells an end once.
pub(super) async fn tell(
    service: &Service,
    delivery: &Delivery,
    job: &Job<Raw>,
    notice: &Notice,
) -> Result<Done, Failure> {
    match message(service, job.id, notice).await? {
        Ok(message) => send(service, delivery, notice, (job.attempt, &message)).await,
        Err(reason) => Ok(Done::Refused(reason)),
    }
}

/// Makes the message.
async fn message(
    service: &Service,
    id: TaskId,
    notice: &Notice,
) -> Result<Result<Notification, String>, Failure> {
    let Some(state) = end_state(notice.state) else {
        return Ok(Err("its state is no end".to_owned()));
    };
    let task = service
        .notices()
        .task(notice.task, notice.generation)
        .await?;
    let task = task.map(|task| with_attempts(&task, View::Basic));
    let ended = Ended::new(
        notice.task.to_string(),
        (state, notice.end.into()),
        (notice.attempt, notice.generation),
        task,
    );
    Ok(Ok(Notification::new(id.to_string(), ended)))
}

async fn send(
    service: &Service,
    delivery: &Delivery,
    notice: &Notice,
    (attempt, message): (u32, &Notification),
) -> Result<Done, Failure> {
    let body = Bytes::from(serde_json::to_vec(message)?);
    Ok(match &notice.to {
        Destination::Kafka { topic } => {
            let published = service.publish(record(topic, notice, message, body)).await;
            match published {
                Ok(()) => Done::Succeeded,
                Err(error) => Done::Again(None, format!("topic {topic}: {error}")),
            }
        }
        Destination::Http(call) => {
            let message = Message {
                id: message.id.clone(),
                attempt,
                content_type: "application/json".to_owned(),
                trace_parent: None,
                body,
            };
            delivery
                .send(&message, &callback_of(call), call)
                .await?
                .into()
        }
    })
}

/// The record of a message: a CloudEvent in binary mode, whose value is the JSON.
fn record(topic: &str, notice: &Notice, message: &Notification, value: Bytes) -> Record {
    let header = |name: &'static str, value: String| (Cow::Borrowed(name), Bytes::from(value));
    let task = notice.task.to_string();
    let headers: Headers = vec![
        header("ce_specversion", "1.0".to_owned()),
        header("ce_id", message.id.clone()),
        header("ce_source", "/tickwheel".to_owned()),
        header("ce_type", format!("tickwheel.{}", message.kind)),
        header("ce_subject", task.clone()),
        header("ce_time", rfc3339(notice.end)),
        header("ce_partitionkey", task.clone()),
        header("content-type", "application/json".to_owned()),
    ];
    Record {
        topic: topic.to_owned(),
        create_topic: false,
        partition: Partition::ByKey,
        key: Some(task.into()),
        value,
        headers,
    }
}
