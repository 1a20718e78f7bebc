//! The message call lets programs read what the worker of an attempt has told.

use reqwest::Method;

use super::{Client, Error};
use crate::{api::messages::MessagesResponse, model::ids::TaskId};

impl Client {
    /// Reads what the worker of an attempt told with its heartbeats, or that of the last attempt: up to 20 messages, the oldest
    /// first.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id.
    pub async fn messages(
        &self,
        id: TaskId,
        attempt: Option<u32>,
    ) -> Result<MessagesResponse, Error> {
        let mut path = format!("/v1/tasks/{id}/messages");
        if let Some(attempt) = attempt {
            path.push_str(&format!("?attempt={attempt}"));
        }
        self.call(Method::GET, &path, None, true).await
    }
}
