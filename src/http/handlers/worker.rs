//! The worker handlers answer the calls of consumers at `/v1/worker`, most of them list by list.

use axum::{extract::State, response::Response};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{batch::Batch, trees};
use crate::{
    api::{
        problem::Problem,
        tree::ReopenResponse,
        worker::{
            ClaimItem, ClaimRequest, ClaimResponse, HeartbeatItem, HeartbeatRequest,
            HeartbeatResponse, SettleItem, SettleRequest, SettleResponse, SubscribeRequest,
            SubscribeResponse, View, WorkerReopenRequest,
        },
    },
    flow::base::api::{SettleAnswer, SettleRequest as Report},
    http::{
        Api,
        access::Caller,
        answer,
        convert::{
            Violations, json, name, own,
            worker_calls::{claim_request, heartbeat_request, settle_request, worker_name},
        },
        error::Error,
        extract::{BatchOfWorker, RoomToAnswer, Text, WorkerJson, task_id},
    },
    limits::{BATCH_ITEMS_MAX, RESULT_INLINE_BYTES_MAX},
    queue::message::group,
};

/// Makes sure that the topics of some callbacks exist, and says where their tasks arrive.
#[utoipa::path(post, path = "/v1/worker/subscribe", tag = "worker", operation_id = "subscribe",
    request_body = SubscribeRequest,
    responses(
        (status = 200, description = "Topics and groups", body = SubscribeResponse),
        (status = "default", description = "Not done", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn subscribe(
    State(api): State<Api>,
    caller: Caller,
    WorkerJson(call): WorkerJson<SubscribeRequest>,
) -> Result<Response, Error> {
    worker_name(&call.worker)?;
    let callbacks = callbacks(call.callbacks)?;
    for callback in &callbacks {
        own::refuse_callback("/callbacks", callback)?;
        caller.allows_callback(callback)?;
    }
    let topics = api.service.subscribe(&callbacks).await?;
    let groups = callbacks.into_iter().map(|callback| {
        let group = api.service.queue_name(&group(&callback));
        (callback, group)
    });
    Ok(answer::json(&SubscribeResponse {
        topics,
        groups: groups.collect(),
    }))
}

/// Checks the names of callbacks.
fn callbacks(names: Vec<String>) -> Result<Vec<String>, Error> {
    let mut violations = Violations::default();
    if !(1..=BATCH_ITEMS_MAX).contains(&names.len()) {
        let detail = format!("must have 1 to {BATCH_ITEMS_MAX} items");
        violations.add("/callbacks", detail);
    }
    let names = names.into_iter().take(BATCH_ITEMS_MAX).enumerate();
    let checked =
        names.filter_map(|(at, text)| violations.take(&format!("/callbacks/{at}"), name(text)));
    let checked = checked.collect();
    violations.finish().map(|()| checked)
}

/// Claims messages that a worker has consumed. A claim gives it the exclusive right to run the task.
#[utoipa::path(post, path = "/v1/worker/claim", tag = "worker", operation_id = "claim",
    request_body = ClaimRequest,
    responses(
        (status = 200, description = "One result per message, in order", body = ClaimResponse),
        (status = "default", description = "Nothing claimed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn claim(
    State(api): State<Api>,
    _: RoomToAnswer,
    caller: Caller,
    text: Text<BatchOfWorker>,
) -> Result<Response, Error> {
    let call: ClaimCall<'_> = text.read()?;
    worker_name(&call.worker)?;
    let batch = Batch::read(&call.messages.0, |item| {
        let claim = claim_request(&json::read_item::<ClaimItem>(item)?, call.view)?;
        own::refuse_task(claim.id).map(|_| claim)
    });
    let ids = batch.good().map(|claim| claim.id);
    caller.allows_tasks(&api, ids).await?;
    let worker = call.worker;
    drop(text);
    // Held until the answer counts for itself, since its contents are in memory until then, and again as its text.
    let memory = api.service.memory_to_claim(batch.good()).await;
    let expected = api.answers.expect_bytes(memory.bytes_in_answer())?;
    let claim = async |items| api.service.claim_within(&worker, items, &memory).await;
    let results = batch.answer(claim).await;
    let answer = answer::json(&ClaimResponse { results });
    drop((memory, expected));
    Ok(answer)
}

/// A [`ClaimRequest`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimCall<'a> {
    worker: String,
    #[serde(borrow)]
    messages: json::Items<'a>,
    #[serde(default)]
    view: View,
}

/// Reports that attempts are alive, and their progress.
#[utoipa::path(post, path = "/v1/worker/heartbeat", tag = "worker", operation_id = "heartbeat",
    request_body = HeartbeatRequest,
    responses(
        (status = 200, description = "One result per attempt, in order", body = HeartbeatResponse),
        (status = "default", description = "Nothing recorded", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn heartbeat(
    State(api): State<Api>,
    caller: Caller,
    text: Text<BatchOfWorker>,
) -> Result<Response, Error> {
    let call: AttemptsCall<'_> = text.read()?;
    worker_name(&call.worker)?;
    let batch = Batch::read(&call.tasks.0, |item| {
        let beat = heartbeat_request(&json::read_item::<HeartbeatItem>(item)?)?;
        own::refuse_task(beat.id).map(|_| beat)
    });
    let ids = batch.good().map(|beat| beat.id);
    caller.allows_tasks(&api, ids).await?;
    let worker = call.worker;
    drop(text);
    let heartbeat = async |items| api.service.heartbeat(&worker, items).await;
    let results = batch.answer(heartbeat).await;
    Ok(answer::json(&HeartbeatResponse { results }))
}

/// Reports how attempts ended.
#[utoipa::path(post, path = "/v1/worker/settle", tag = "worker", operation_id = "settle",
    request_body = SettleRequest,
    responses(
        (status = 200, description = "One result per report, in order", body = SettleResponse),
        (status = "default", description = "Nothing recorded", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn settle(
    State(api): State<Api>,
    caller: Caller,
    text: Text<BatchOfWorker>,
) -> Result<Response, Error> {
    let call: AttemptsCall<'_> = text.read()?;
    worker_name(&call.worker)?;
    let batch = Batch::read(&call.tasks.0, |item| {
        let item = json::read_item::<SettleItem>(item)?;
        let report = settle_request(&item)?;
        own::refuse_task(report.id).map(|_| (report, item.children_complete))
    });
    let ids = batch.good().map(|(report, _)| report.id);
    caller.allows_tasks(&api, ids).await?;
    let worker = call.worker;
    // Large results keep their share of the memory for bodies until they are stored.
    let is_large = |item: &&RawValue| item.get().len() > RESULT_INLINE_BYTES_MAX;
    let large = call.tasks.0.iter().any(is_large);
    let share = text.into_share();
    let _kept = large.then_some(share);
    let settle = async |items| settled(&api, &worker, items).await;
    let results = batch.answer(settle).await;
    Ok(answer::json(&SettleResponse { results }))
}

/// Settles attempts. A parent takes note before that all its children were added, where its run says so: that run may not be
/// there any more to repeat it.
async fn settled(api: &Api, worker: &str, items: Vec<(Report, bool)>) -> Vec<SettleAnswer> {
    let (mut reports, mut faults) = (Vec::with_capacity(items.len()), Vec::new());
    for (place, (report, complete)) in items.into_iter().enumerate() {
        if complete {
            let (id, attempt) = (report.id, Some(report.attempt));
            // A task whose tree is not held open ends as all others do, and a report of another attempt has no effect.
            if let Err(fault) = api.service.trees().complete(id, attempt).await {
                faults.push((place, SettleAnswer::Fault(fault)));
                continue;
            }
        }
        reports.push(report);
    }
    let mut answers = api.service.settle(worker, reports).await;
    for (place, fault) in faults {
        answers.insert(place, fault);
    }
    answers
}

/// Takes up a task of a tree again that this worker had and that has succeeded: it begins a new round, and is handed out as any
/// other. `POST /v1/tasks/{id}/reopen` says what follows.
#[utoipa::path(post, path = "/v1/worker/reopen", tag = "worker", operation_id = "reopen",
    request_body = WorkerReopenRequest,
    responses(
        (status = 200, description = "It is open", body = ReopenResponse),
        (status = 409, description = "`other_attempt`: the attempt is not its last one, or another worker had it. The others are those of the call for clients", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`not_in_a_tree`: it has neither a parent nor children", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not reopened", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn reopen(
    State(api): State<Api>,
    caller: Caller,
    WorkerJson(call): WorkerJson<WorkerReopenRequest>,
) -> Result<Response, Error> {
    worker_name(&call.worker)?;
    let id = own::refuse_task(task_id(&call.id)?)?;
    caller.allows_tasks(&api, [id]).await?;
    trees::reopened(&api, id, Some(call.attempt), Some(&call.worker)).await
}

/// A call about attempts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttemptsCall<'a> {
    worker: String,
    #[serde(borrow)]
    tasks: json::Items<'a>,
}
