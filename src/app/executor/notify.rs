//! The delivery tells the end of a task, or of its tree, to those who want to know it, for the executor.
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
        notification::{ClaimNotification, Ended, Notification, TreeNotification},
        task_response::TaskResponse,
        worker::View,
    },
    flow::{features::ends::notices, stages::service::Service},
    http::convert::{
        http_call::callback_of,
        notify::{end_state, tree_outcome},
        task_view::with_attempts,
    },
    limits::NOTIFY_TRIED_FOR,
    model::{
        action::End, ids::TaskId, kin::TreeEnd, notice::Notice, notify::Destination, row::State,
        time::rfc3339,
    },
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
        Done::Again(after, error) if time.now().since(notice.end.at()) < NOTIFY_TRIED_FOR => {
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
        Ok(message) => send(service, delivery, notice, (job.attempt, message)).await,
        Err(reason) => Ok(Done::Refused(reason)),
    }
}

/// A message: its name, its kind and its JSON.
struct Told {
    id: String,
    kind: String,
    body: Bytes,
}

/// Makes the message.
async fn message(
    service: &Service,
    id: TaskId,
    notice: &Notice,
) -> Result<Result<Told, String>, Failure> {
    let task = service.notices().task(notice).await?;
    let task = task.map(|task| with_attempts(&task, View::Basic));
    match notice.end {
        End::Run(State::Claimed, _) => of_claim(id, notice, task).map(Ok),
        End::Run(state, _) => of_run(id, notice, state, task),
        End::Tree(end) => of_tree(id, notice, end, task).map(Ok),
    }
}

/// Makes the message about the end of the own run of a task.
fn of_run(
    id: TaskId,
    notice: &Notice,
    state: State,
    task: Option<TaskResponse>,
) -> Result<Result<Told, String>, Failure> {
    let Some(state) = end_state(state) else {
        return Ok(Err("its state is no end".to_owned()));
    };
    let ended = Ended::new(
        notice.task.to_string(),
        (state, notice.end.at().into()),
        (notice.attempt, notice.generation),
        task,
    );
    let message = Notification::new(id.to_string(), ended);
    let body = serde_json::to_vec(&message)?.into();
    let Notification { id, kind, .. } = message;
    Ok(Ok(Told { id, kind, body }))
}

/// Makes the message about the first claim of a task.
fn of_claim(id: TaskId, notice: &Notice, task: Option<TaskResponse>) -> Result<Told, Failure> {
    let message = ClaimNotification::new(
        id.to_string(),
        notice.task.to_string(),
        (notice.generation, notice.end.at().into()),
        task,
    );
    let body = serde_json::to_vec(&message)?.into();
    let ClaimNotification { id, kind, .. } = message;
    Ok(Told { id, kind, body })
}

/// Makes the message about the end of the tree of a task.
fn of_tree(
    id: TaskId,
    notice: &Notice,
    end: TreeEnd,
    task: Option<TaskResponse>,
) -> Result<Told, Failure> {
    let state = tree_outcome(end.outcome);
    let message = TreeNotification::new(
        id.to_string(),
        notice.task.to_string(),
        (state, end.at.into()),
        task,
    );
    let body = serde_json::to_vec(&message)?.into();
    let TreeNotification { id, kind, .. } = message;
    Ok(Told { id, kind, body })
}

async fn send(
    service: &Service,
    delivery: &Delivery,
    notice: &Notice,
    (attempt, message): (u32, Told),
) -> Result<Done, Failure> {
    Ok(match &notice.to {
        Destination::Kafka { topic } => {
            let published = service.publish(record(topic, notice, message)).await;
            match published {
                Ok(()) => Done::Succeeded,
                Err(error) => Done::Again(None, format!("topic {topic}: {error}")),
            }
        }
        Destination::Http(call) => {
            let message = Message {
                id: message.id,
                attempt,
                content_type: "application/json".to_owned(),
                trace_parent: None,
                body: message.body,
                previous: None,
            };
            delivery
                .send(&message, &callback_of(call), call)
                .await?
                .into()
        }
    })
}

/// The record of a message: a CloudEvent in binary mode, whose value is the JSON.
fn record(topic: &str, notice: &Notice, message: Told) -> Record {
    let header = |name: &'static str, value: String| (Cow::Borrowed(name), Bytes::from(value));
    let task = notice.task.to_string();
    let headers: Headers = vec![
        header("ce_specversion", "1.0".to_owned()),
        header("ce_id", message.id),
        header("ce_source", "/tickwheel".to_owned()),
        header("ce_type", format!("tickwheel.{}", message.kind)),
        header("ce_subject", task.clone()),
        header("ce_time", rfc3339(notice.end.at())),
        header("ce_partitionkey", task.clone()),
        header("content-type", "application/json".to_owned()),
    ];
    Record {
        topic: topic.to_owned(),
        create_topic: false,
        partition: Partition::ByKey,
        key: Some(task.into()),
        value: message.body,
        headers,
    }
}
