//! The tree calls let programs look at a task with all below it, cancel it, run its failed part again, and reopen it.

use reqwest::Method;

use super::{Client, Error, json};
use crate::{
    api::{
        task_response::TaskResponse,
        tree::{
            CancelRequest, CancelTreeResponse, ReopenRequest, ReopenResponse, RetryFailedRequest,
            RetryFailedResponse, TreeResponse,
        },
    },
    model::ids::TaskId,
};

impl Client {
    /// Reads a task with the tasks below it, down to so many levels; none is all of them. At most 1000 tasks are shown.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id.
    pub async fn tree(&self, id: TaskId, depth: Option<usize>) -> Result<TreeResponse, Error> {
        let depth = depth.map(|depth| format!("?depth={depth}"));
        self.tree_of(id, &depth.unwrap_or_default()).await
    }

    /// Reads a tree as [`Client::tree`] does, with the results of its tasks: those of up to 4 KiB, 256 KiB of them in all. Of the
    /// others it has the length.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id.
    pub async fn tree_with_results(
        &self,
        id: TaskId,
        depth: Option<usize>,
    ) -> Result<TreeResponse, Error> {
        let depth = depth.map(|depth| format!("&depth={depth}"));
        let query = format!("?view=FULL{}", depth.unwrap_or_default());
        self.tree_of(id, &query).await
    }

    async fn tree_of(&self, id: TaskId, query: &str) -> Result<TreeResponse, Error> {
        let path = format!("/v1/tasks/{id}/tree{query}");
        self.call(Method::GET, &path, None, true).await
    }

    /// Cancels a task with all below it that have not ended: its tree takes no more tasks, and ends as cancelled. Tasks that
    /// follow the cancel in it run. A large tree takes several calls, which this makes; the counts are of all of them.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id. Cancels stay, and another call goes on.
    pub async fn cancel_tree(&self, id: TaskId) -> Result<CancelTreeResponse, Error> {
        let path = format!("/v1/tasks/{id}/cancel");
        let (mut cancelled, mut requested, mut first) = (0, 0, None);
        loop {
            let body = json(&CancelRequest { tree: true })?;
            let mut answer: CancelTreeResponse =
                self.call(Method::POST, &path, Some(body), true).await?;
            cancelled += answer.cancelled;
            requested += answer.cancel_requested;
            // A later call finds the task as the first one left it.
            let (outcome, reason) =
                first.get_or_insert_with(|| (answer.outcome, answer.reason.take()));
            if answer.complete {
                answer.outcome = *outcome;
                answer.reason = reason.take();
                answer.cancelled = cancelled;
                answer.cancel_requested = requested;
                return Ok(answer);
            }
        }
    }

    /// Runs the failed part of a tree again: this task and those below it that failed, died or expired. Trees above it that have
    /// ended go on, too. A large tree takes several calls, which this makes; the counts are of all of them. A call whose answer
    /// was lost is repeated, and does not count what the lost one did.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id, [`Error::Refused`] when the task is in no tree, goes on, or did not fail.
    /// Tasks that run again do so, and another call goes on.
    pub async fn retry_failed(&self, id: TaskId) -> Result<RetryFailedResponse, Error> {
        let path = format!("/v1/tasks/{id}/retry-failed");
        let (mut retried, mut left) = (0, 0);
        let mut wish = RetryFailedRequest::default();
        loop {
            let body = json(&wish)?;
            let mut answer: RetryFailedResponse =
                self.call(Method::POST, &path, Some(body), true).await?;
            retried += answer.retried;
            left = left.max(answer.left);
            if answer.complete {
                answer.retried = retried;
                answer.left = left;
                return Ok(answer);
            }
            wish.failed_before = answer.failed_before;
        }
    }
    /// Lets a task of a tree that has succeeded begin a new round: it runs again at once, and the trees that it is in go on. With
    /// an attempt the task stays as it is if that is not its last one. A call whose answer was lost is repeated, and refused
    /// where the task has begun its next attempt since.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id, [`Error::Refused`] when it is in no tree, has not succeeded, has had another
    /// attempt since, or its tree was cancelled.
    pub async fn reopen(&self, id: TaskId, attempt: Option<u32>) -> Result<ReopenResponse, Error> {
        let body = json(&ReopenRequest { attempt })?;
        let path = format!("/v1/tasks/{id}/reopen");
        self.call(Method::POST, &path, Some(body), true).await
    }
    /// Says that all children of a task were added, whose tree [`Task::children_within`](super::Task::children_within) holds open
    /// for them. Returns the task. A call whose answer was lost is repeated.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id, [`Error::Refused`] when its tree is not held open, has ended or was
    /// cancelled.
    pub async fn complete_children(&self, id: TaskId) -> Result<TaskResponse, Error> {
        let path = format!("/v1/tasks/{id}/children-complete");
        self.call(Method::POST, &path, None, true).await
    }
}
