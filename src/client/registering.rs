//! Registrations and cancels of concurrent callers travel together.

use std::sync::Arc;

use bytes::Bytes;
use reqwest::Method;

use super::{
    Client, Error, Registered,
    answers::{not_ours, one_each, registered},
    together::{Batcher, Travels, list_of},
};
use crate::api::task_response::{
    BatchCancelResponse, BatchCreateResponse, CancelResponse, TaskResponse,
};

/// The lines of a client.
#[derive(Debug, Default)]
pub(super) struct Lines {
    registrations: Arc<Batcher<Registered>>,
    cancels: Arc<Batcher<CancelResponse>>,
}

impl Travels for Registered {
    fn line(client: &Client) -> &Arc<Batcher<Self>> {
        &client.lines.registrations
    }

    async fn send(client: &Client, item: Bytes) -> Result<Self, Error> {
        let task: TaskResponse = client.register_at("/v1/tasks", item, true).await?;
        registered(task)
    }

    async fn send_all(client: &Client, items: &[Bytes]) -> Result<Vec<Result<Self, Error>>, Error> {
        let (path, body) = ("/v1/tasks:batchCreate", list_of("tasks", items));
        let answer: BatchCreateResponse = client.register_at(path, body, true).await?;
        let results = one_each(answer.results, items.len())?.into_iter();
        let results = results.map(|result| match (result.task, result.error) {
            (Some(mut task), None) => {
                task.outcome = result.outcome;
                registered(task)
            }
            (None, Some(problem)) => Err(Error::of_item(problem)),
            _ => Err(not_ours("a result without task and error".to_owned())),
        });
        Ok(results.collect())
    }
}

impl Travels for CancelResponse {
    fn line(client: &Client) -> &Arc<Batcher<Self>> {
        &client.lines.cancels
    }

    async fn send(client: &Client, item: Bytes) -> Result<Self, Error> {
        // The item is a text of JSON, and an id has nothing that is escaped.
        let id = String::from_utf8_lossy(&item);
        let path = format!("/v1/tasks/{}/cancel", id.trim_matches('"'));
        client.call(Method::POST, &path, None, true).await
    }

    async fn send_all(client: &Client, items: &[Bytes]) -> Result<Vec<Result<Self, Error>>, Error> {
        let (path, body) = ("/v1/tasks:batchCancel", list_of("ids", items));
        let answer: BatchCancelResponse = client.call(Method::POST, path, Some(body), true).await?;
        let results = one_each(answer.results, items.len())?.into_iter();
        let results = results.map(|result| match (result.outcome, result.task, result.error) {
            (Some(outcome), Some(task), None) => Ok(Self {
                outcome,
                reason: result.reason,
                task,
            }),
            (None, None, Some(problem)) => Err(Error::of_item(problem)),
            _ => Err(not_ours("a result without outcome and error".to_owned())),
        });
        Ok(results.collect())
    }
}
