//! This conversion writes a task that is a draft as the request that registers it, for schedules and follow-ups.

use std::time::Duration;

use super::{
    action_view,
    content::{self, Parts},
    http_call, notify, target,
};
use crate::{
    api::{
        target::{CallbackTarget, HttpTarget, KafkaHeaders, KafkaTarget, TargetResponse},
        task_request::{RetryPolicy, TaskRequest},
        text::DurationText,
    },
    model::{
        action::Actions,
        backoff,
        draft::{BackoffDraft, TaskDraft},
        target::Target,
        task::{Body, Content},
    },
};

/// Returns the request that registers a task, without its start and without the tasks that follow it.
pub(super) fn task_request(task: &TaskDraft) -> TaskRequest {
    let content = match &task.body {
        Body::Inline(content) => content.clone(),
        Body::Apart { .. } => Content::default(),
    };
    let Parts {
        payload,
        payload_base64,
        content_type,
    } = content::write(&content.payload, &content.content_type);
    let (callback, http) = target_of(task);
    let kafka = record_of(task, &content);
    let readable = |duration: Option<Duration>| duration.map(DurationText::readable);
    // A request without it has this one.
    let usual = if payload.is_some() {
        content::JSON
    } else {
        content::BYTES
    };
    let content_type = content_type.filter(|text| text != usual);
    let labels = content.labels;
    TaskRequest {
        callback,
        http,
        kafka,
        notify: task.notify.as_ref().map(notify::response),
        actions: given(task, action_view::actions_given),
        checks: given(task, action_view::checks_given),
        ordering_key: task.ordering_key.clone(),
        collection: task.collection.clone().filter(|text| !text.is_empty()),
        payload,
        payload_base64,
        content_type,
        priority: task.priority.map(Into::into),
        max_attempts: task.max_attempts,
        retry: retry(&task.backoff),
        claim_timeout: readable(task.claim_timeout),
        heartbeat_timeout: readable(task.heartbeat_timeout),
        attempt_timeout: readable(task.attempt_timeout),
        expire_after: readable(task.expire_after),
        retention: readable(task.retention),
        dead_retention: readable(task.dead_retention),
        labels: (!labels.is_empty()).then(|| labels.into_iter().collect()),
        ..TaskRequest::default()
    }
}

/// Returns actions or checks of the runs; none when there are none.
fn given<T>(task: &TaskDraft, list: fn(&Actions) -> Vec<T>) -> Option<Vec<T>> {
    let list = list(task.actions.as_deref()?);
    (!list.is_empty()).then_some(list)
}

/// Returns the callback and the URL of the runs.
fn target_of(task: &TaskDraft) -> (Option<CallbackTarget>, Option<HttpTarget>) {
    let named = |name: &str| Some(CallbackTarget::Name(name.to_owned()));
    match &task.target {
        Target::Callback { name } => (named(name), None),
        Target::Http { callback, call } => {
            let own = *callback == http_call::callback_of(call);
            let callback = if own { None } else { named(callback) };
            (callback, Some(http_call::shown_call(call)))
        }
        Target::Kafka { .. } => (None, None),
    }
}

/// Returns the topic of the runs.
fn record_of(task: &TaskDraft, content: &Content) -> Option<KafkaTarget> {
    match target::response(&task.target, Some(content)) {
        TargetResponse::Callback { .. } | TargetResponse::Http { .. } => None,
        TargetResponse::Kafka {
            topic,
            partition,
            key,
            key_base64,
            headers,
        } => {
            let headers = (!headers.is_empty()).then_some(KafkaHeaders::List(headers));
            let target = KafkaTarget {
                topic,
                key,
                key_base64,
                headers,
                partition,
            };
            Some(target)
        }
    }
}

fn retry(draft: &BackoffDraft) -> Option<RetryPolicy> {
    (*draft != BackoffDraft::default()).then(|| RetryPolicy {
        initial: draft.initial.map(DurationText::readable),
        factor: draft.factor_milli.map(|milli| f64::from(milli) / 1000.0),
        max: draft.max.map(DurationText::readable),
        jitter: draft.jitter.map(|jitter| match jitter {
            backoff::Jitter::Full => crate::api::task_request::Jitter::Full,
            backoff::Jitter::None => crate::api::task_request::Jitter::None,
        }),
    })
}
