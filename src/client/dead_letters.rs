//! The dead letter calls let programs list, count, redrive and delete tasks that used up their attempts.

use reqwest::Method;

use super::{Client, Error, json, list::with_query};
use crate::{
    api::{
        TaskId,
        dead_letter::{
            DeadLetter, DeadLetterGroup, ListDeadLettersResponse, RedriveRequest, RedriveResponse,
        },
    },
    limits::BATCH_ITEMS_MAX,
};

/// The filter of a list of dead letters. More fields may come: end it with `..DeadLetterFilter::default()`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Those of this callback.
    pub callback: Option<String>,
    /// Those with this class of error; a whole error stands for its class.
    pub error: Option<String>,
    /// Dead letters of a page, 1 to 1000; none means 100.
    pub page_size: Option<usize>,
}

/// The pages of a list of dead letters.
#[derive(Debug)]
pub struct DeadLetterPages {
    client: Client,
    filter: DeadLetterFilter,
    /// Where the next page begins; none once the last was read.
    next: Option<String>,
}

impl DeadLetterPages {
    /// Reads the next page, newest first. Returns none when the list has ended. A page may be empty and not be the last.
    ///
    /// # Errors
    /// See [`Error`]; the next call asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<DeadLetter>>, Error> {
        let Some(token) = &self.next else {
            return Ok(None);
        };
        let path = path(&self.filter, token);
        let page: ListDeadLettersResponse =
            self.client.call(Method::GET, &path, None, true).await?;
        self.next = page.next_page_token;
        Ok(Some(page.dead_letters))
    }
}

impl Client {
    /// Lists dead tasks, newest first.
    #[must_use]
    pub fn dead_letters(&self, filter: DeadLetterFilter) -> DeadLetterPages {
        DeadLetterPages {
            client: self.clone(),
            filter,
            next: Some(String::new()),
        }
    }

    /// Counts dead tasks by callback and class of error, the largest group first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn dead_letter_groups(
        &self,
        callback: Option<&str>,
    ) -> Result<Vec<DeadLetterGroup>, Error> {
        let callback = callback.map(str::to_owned);
        let path = with_query("/v1/dead-letters:groups", [("callback", callback)]);
        self.call(Method::GET, &path, None, true).await
    }

    /// Makes dead tasks run again: up to 1000 ids, or up to 1000 tasks of a filter. With a filter the answer has a token
    /// for the next call as long as there may be more.
    ///
    /// # Errors
    /// [`Error::Refused`] when the request says both or neither. After [`Error::Transport`] with `sent`, repeating does no
    /// harm: tasks that run again are answered as not dead.
    pub async fn redrive(&self, request: &RedriveRequest) -> Result<RedriveResponse, Error> {
        let body = Some(json(request)?);
        let path = "/v1/dead-letters/redrive";
        self.call(Method::POST, path, body, false).await
    }

    /// Makes these dead tasks run again, one result per id, in order; up to 1000.
    ///
    /// # Errors
    /// As [`Client::redrive`]. One bad or unknown id fails only itself.
    pub async fn redrive_ids(&self, ids: &[TaskId]) -> Result<RedriveResponse, Error> {
        if ids.len() > BATCH_ITEMS_MAX {
            let many = format!("{} ids; one call takes {BATCH_ITEMS_MAX}", ids.len());
            return Err(Error::Invalid(many));
        }
        let ids = Some(ids.iter().map(ToString::to_string).collect());
        let request = RedriveRequest {
            ids,
            ..RedriveRequest::default()
        };
        self.redrive(&request).await
    }

    /// Deletes a dead task for good.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no dead task has this id, or it was deleted before.
    pub async fn delete_dead_letter(&self, id: TaskId) -> Result<(), Error> {
        let path = format!("/v1/dead-letters/{id}");
        let call = self.plain(Method::DELETE, &path, None, false);
        self.transport.send(call).await.map(drop)
    }
}

fn path(filter: &DeadLetterFilter, token: &str) -> String {
    let parameters = [
        ("callback", filter.callback.clone()),
        ("error", filter.error.clone()),
        ("page_size", filter.page_size.map(|size| size.to_string())),
        ("page_token", Some(token.to_owned())),
    ];
    with_query("/v1/dead-letters", parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_is_not_in_the_path() {
        assert_eq!(path(&DeadLetterFilter::default(), ""), "/v1/dead-letters");
        let filter = DeadLetterFilter {
            callback: Some("work".to_owned()),
            error: Some("after # ms".to_owned()),
            page_size: Some(5),
        };
        assert_eq!(
            path(&filter, "x"),
            "/v1/dead-letters?callback=work&error=after%20%23%20ms&page_size=5&page_token=x"
        );
    }
}
