//! The worker handlers answer the calls of consumers at `/v1/worker`, list by list.

use std::collections::BTreeMap;

use axum::{
    extract::{Request, State},
    response::Response,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::batch::Batch;
use crate::{
    api::{
        problem::Problem,
        worker::{
            ClaimItem, ClaimRequest, ClaimResponse, HeartbeatItem, HeartbeatRequest,
            HeartbeatResponse, SettleItem, SettleRequest, SettleResponse, SubscribeRequest,
            SubscribeResponse, View,
        },
    },
    flow::base::api,
    http::{
        Api,
        access::Caller,
        body,
        convert::{
            Violations, json, name, own,
            worker_calls::{claim_request, heartbeat_request, settle_request, worker_name},
        },
        error::Error,
    },
    limits::{
        BATCH_ITEMS_MAX, BATCH_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX, RESULT_INLINE_BYTES_MAX,
    },
    queue::message::group,
};

/// Makes sure that the topics of some callbacks exist, and says where their tasks arrive.
#[utoipa::path(post, path = "/v1/worker/subscribe", tag = "worker", operation_id = "subscribe",
    request_body = SubscribeRequest,
    responses(
        (status = 200, description = "Topics and groups", body = SubscribeResponse),
        (status = "default", description = "Not done", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn subscribe(
    State(state): State<Api>,
    request: Request,
) -> Result<Response, Error> {
    let caller = Caller::of(&request);
    let text = body::read_worker_text(&state, request, REQUEST_BYTES_MAX).await?;
    let call: SubscribeRequest = json::read(&text)?;
    worker_name(&call.worker)?;
    let mut violations = Violations::default();
    if !(1..=BATCH_ITEMS_MAX).contains(&call.callbacks.len()) {
        let detail = format!("must have 1 to {BATCH_ITEMS_MAX} items");
        violations.add("/callbacks", detail);
    }
    let callbacks: Vec<String> = call
        .callbacks
        .into_iter()
        .take(BATCH_ITEMS_MAX)
        .enumerate()
        .filter_map(|(index, text)| violations.take(&format!("/callbacks/{index}"), name(text)))
        .collect();
    violations.finish()?;
    for callback in &callbacks {
        own::refuse_callback("/callbacks", callback)?;
        caller.allows_callback(callback)?;
    }
    let topics = state.service.subscribe(&callbacks).await?;
    let groups: BTreeMap<String, String> = callbacks
        .into_iter()
        .map(|callback| {
            let group = state.service.queue_name(&group(&callback));
            (callback, group)
        })
        .collect();
    Ok(crate::http::answer::json(&SubscribeResponse {
        topics,
        groups,
    }))
}

/// Claims messages that a worker has consumed. A claim gives it the exclusive right to run the task.
#[utoipa::path(post, path = "/v1/worker/claim", tag = "worker", operation_id = "claim",
    request_body = ClaimRequest,
    responses(
        (status = 200, description = "One result per message, in order", body = ClaimResponse),
        (status = "default", description = "Nothing claimed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn claim(
    State(state): State<Api>,
    request: Request,
) -> Result<Response, Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Call<'a> {
        worker: String,
        #[serde(borrow)]
        messages: json::Items<'a>,
        #[serde(default)]
        view: View,
    }

    state.answers.is_open()?;
    let caller = Caller::of(&request);
    let text = body::read_worker_text(&state, request, BATCH_REQUEST_BYTES_MAX).await?;
    let call: Call<'_> = json::read(&text)?;
    worker_name(&call.worker)?;
    let batch = Batch::read(&call.messages.0, |item| {
        let claim = claim_request(&json::read_item::<ClaimItem>(item)?, call.view)?;
        own::refuse_task(claim.id).map(|_| claim)
    });
    let ids = batch.good().map(|claim| claim.id);
    caller.allows_tasks(&state, ids).await?;
    let worker = call.worker;
    drop(text);
    // Held until the answer counts for itself, since its contents are in memory until then, and again as its text.
    let memory = state.service.memory_to_claim(batch.good()).await;
    let expected = state.answers.expect_bytes(memory.bytes_in_answer())?;
    let results = batch
        .answer(async |items: Vec<api::ClaimRequest>| {
            state.service.claim_within(&worker, items, &memory).await
        })
        .await;
    let answer = crate::http::answer::json(&ClaimResponse { results });
    drop((memory, expected));
    Ok(answer)
}

/// Reports that attempts are alive, and their progress.
#[utoipa::path(post, path = "/v1/worker/heartbeat", tag = "worker", operation_id = "heartbeat",
    request_body = HeartbeatRequest,
    responses(
        (status = 200, description = "One result per attempt, in order", body = HeartbeatResponse),
        (status = "default", description = "Nothing recorded", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn heartbeat(
    State(state): State<Api>,
    request: Request,
) -> Result<Response, Error> {
    let caller = Caller::of(&request);
    let text = body::read_worker_text(&state, request, BATCH_REQUEST_BYTES_MAX).await?;
    let call: TasksCall<'_> = json::read(&text)?;
    worker_name(&call.worker)?;
    let batch = Batch::read(&call.tasks.0, |item| {
        let beat = heartbeat_request(&json::read_item::<HeartbeatItem>(item)?)?;
        own::refuse_task(beat.id).map(|_| beat)
    });
    let ids = batch.good().map(|beat| beat.id);
    caller.allows_tasks(&state, ids).await?;
    let worker = call.worker;
    drop(text);
    let results = batch
        .answer(async |items: Vec<api::HeartbeatRequest>| {
            state.service.heartbeat(&worker, items).await
        })
        .await;
    Ok(crate::http::answer::json(&HeartbeatResponse { results }))
}

/// Reports how attempts ended.
#[utoipa::path(post, path = "/v1/worker/settle", tag = "worker", operation_id = "settle",
    request_body = SettleRequest,
    responses(
        (status = 200, description = "One result per report, in order", body = SettleResponse),
        (status = "default", description = "Nothing recorded", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn settle(
    State(state): State<Api>,
    request: Request,
) -> Result<Response, Error> {
    let caller = Caller::of(&request);
    let text = body::read_worker_text(&state, request, BATCH_REQUEST_BYTES_MAX).await?;
    let call: TasksCall<'_> = json::read(&text)?;
    worker_name(&call.worker)?;
    let batch = Batch::read(&call.tasks.0, |item| {
        let report = settle_request(&json::read_item::<SettleItem>(item)?)?;
        own::refuse_task(report.id).map(|_| report)
    });
    let ids = batch.good().map(|report| report.id);
    caller.allows_tasks(&state, ids).await?;
    let worker = call.worker;
    // Large results keep their share of the memory for bodies until they are stored.
    let is_large = |item: &&RawValue| item.get().len() > RESULT_INLINE_BYTES_MAX;
    let large = call.tasks.0.iter().any(is_large);
    let share = text.into_share();
    let _kept = large.then_some(share);
    let results = batch
        .answer(async |items: Vec<api::SettleRequest>| state.service.settle(&worker, items).await)
        .await;
    Ok(crate::http::answer::json(&SettleResponse { results }))
}

/// A call about attempts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TasksCall<'a> {
    worker: String,
    #[serde(borrow)]
    tasks: json::Items<'a>,
}
