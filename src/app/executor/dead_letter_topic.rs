//! The publisher of dead letters writes for the executor the record of a task that died to the topic of its callback.
//!
//! Value and payload are the same bytes. Headers are those that tools for dead letter topics know (`kafka_dlt-...`), and
//! Tickwheel's own. A record that is not acknowledged is published again: it may come several times, with the same `ce_id`.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;

use crate::{
    flow::{features::ends::dead_letter_topic, stages::service::Service},
    limits::NOTIFY_TRIED_FOR,
    model::{
        dead_letter_record::DeadLetterRecord,
        error_class::error_class,
        ids::TaskId,
        task::{Content, Spec},
        time::rfc3339,
    },
    queue::{Headers, Partition, PublishError, Record, message},
    time_source::TimeSource,
    worker::{Failure, Job, Outcome, Raw},
};

/// Publishes one record.
pub(super) async fn publish(
    service: &Service,
    time: &TimeSource,
    job: &Job<Raw>,
) -> Result<Outcome, Failure> {
    let death = match dead_letter_topic::read(&job.payload.0) {
        Ok(death) => death,
        Err(reason) => {
            return Ok(Outcome::Fail(format!("the death cannot be read: {reason}")));
        }
    };
    let Some((spec, content, _room)) = service.deaths().read(death.task).await? else {
        counted("deleted");
        return Ok(Outcome::Fail(
            "the task was deleted before its record went out".to_owned(),
        ));
    };
    let topic = &death.topic;
    let error = match service
        .publish(record(service, job.id, &death, &spec, content))
        .await
    {
        Ok(()) => {
            counted("published");
            return Ok(Outcome::Done);
        }
        Err(error) => error,
    };
    let final_error = matches!(error, PublishError::Refused(_));
    let error = format!("topic {topic}: {error}");
    if !final_error && time.now().since(death.end) < NOTIFY_TRIED_FOR {
        counted("retried");
        return Ok(Outcome::Retry(error));
    }
    tracing::warn!(task = %death.task, error, "the record of a dead task was not published: given up");
    counted("given_up");
    Ok(Outcome::Fail(error))
}

fn counted(outcome: &'static str) {
    metrics::counter!("tickwheel_dead_letter_records_total", "outcome" => outcome).increment(1);
}

/// The record of a death. Offset and partition of the task's own message are not known any more, and are left out.
fn record(
    service: &Service,
    id: TaskId,
    death: &DeadLetterRecord,
    spec: &Arc<Spec>,
    content: Content,
) -> Record {
    let header = |name: &'static str, value: String| (Cow::Borrowed(name), Bytes::from(value));
    let task = death.task.to_string();
    let callback = spec.callback().unwrap_or_default();
    let queue = spec.queue().unwrap_or_default();
    let content_type = if content.content_type.is_empty() {
        "application/json".to_owned()
    } else {
        content.content_type
    };
    let started = death.task.first_start().0.to_be_bytes();
    let mut headers: Headers = vec![
        header(
            "kafka_dlt-original-topic",
            service.queue_name(&message::topic(queue, spec.priority)),
        ),
        (
            Cow::Borrowed("kafka_dlt-original-timestamp"),
            Bytes::copy_from_slice(&started),
        ),
        header(
            "kafka_dlt-original-consumer-group",
            service.queue_name(&message::group(queue)),
        ),
        header("kafka_dlt-exception-fqcn", error_class(&death.error)),
        header("kafka_dlt-exception-message", death.error.clone()),
        header("ce_specversion", "1.0".to_owned()),
        header("ce_id", id.to_string()),
        header("ce_source", "/tickwheel".to_owned()),
        header("ce_type", "tickwheel.task.dead".to_owned()),
        header("ce_subject", callback.to_owned()),
        header("ce_time", rfc3339(death.end)),
        header("ce_partitionkey", task.clone()),
        header("content-type", content_type),
        header(message::TASK_ID_HEADER, task.clone()),
        header("tickwheel-callback", callback.to_owned()),
        header("tickwheel-attempts", death.attempt.to_string()),
        header("tickwheel-generation", death.generation.to_string()),
    ];
    headers.extend(
        content
            .trace_parent
            .map(|parent| header("traceparent", parent)),
    );
    Record {
        topic: death.topic.clone(),
        create_topic: false,
        partition: Partition::ByKey,
        key: Some(task.into()),
        value: content.payload,
        headers,
    }
}
