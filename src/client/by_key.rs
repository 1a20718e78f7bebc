//! The calls by key read, cancel and move tasks for a program that knows them by callback and key.

use reqwest::Method;

use super::{
    CancelResponse, Client, Error, NewStart, RescheduleResponse, StartTime, TaskResponse, json,
    list::escape,
};
use crate::api::{
    task_list::ListTasksResponse,
    task_request::{KeyRequest, KeyRescheduleRequest},
};

fn named(callback: &str, key: &str) -> KeyRequest {
    KeyRequest {
        callback: callback.to_owned(),
        key: key.to_owned(),
    }
}

impl Client {
    /// Reads the task that a key of a callback names: the live one, or the last; none when no task has the key.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_by_key(
        &self,
        callback: &str,
        key: &str,
    ) -> Result<Option<TaskResponse>, Error> {
        let mut path = "/v1/tasks?callback=".to_owned();
        escape(&mut path, callback);
        path.push_str("&key=");
        escape(&mut path, key);
        let list: ListTasksResponse = self.call(Method::GET, &path, None, true).await?;
        Ok(list.tasks.into_iter().next())
    }

    /// Cancels the task that a key of a callback names.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has the key.
    pub async fn cancel_by_key(&self, callback: &str, key: &str) -> Result<CancelResponse, Error> {
        let body = Some(json(&named(callback, key))?);
        // A repetition might cancel the next task of the key.
        self.call(Method::POST, "/v1/tasks:cancel", body, false)
            .await
    }

    /// Moves the start of the task that a key of a callback names.
    ///
    /// # Errors
    /// As [`Client::reschedule`].
    pub async fn reschedule_by_key(
        &self,
        callback: &str,
        key: &str,
        start: impl Into<NewStart>,
    ) -> Result<RescheduleResponse, Error> {
        let KeyRequest { callback, key } = named(callback, key);
        let (start_time, delay) = match start.into() {
            NewStart::At(StartTime(at)) => (Some(at), None),
            NewStart::In(delay) => (None, Some(delay)),
        };
        let request = KeyRescheduleRequest {
            callback,
            key,
            start_time,
            delay,
        };
        let body = Some(json(&request)?);
        self.call(Method::POST, "/v1/tasks:reschedule", body, false)
            .await
    }

    /// Starts the task that a key of a callback names now.
    ///
    /// # Errors
    /// As [`Client::reschedule`].
    pub async fn run_by_key(&self, callback: &str, key: &str) -> Result<RescheduleResponse, Error> {
        let body = Some(json(&named(callback, key))?);
        self.call(Method::POST, "/v1/tasks:run", body, false).await
    }
}
