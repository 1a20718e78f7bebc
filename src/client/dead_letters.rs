//! The dead letter calls let programs list, count, redrive and delete tasks that used up their attempts.

use reqwest::Method;

use super::{Client, Error, json, list::with_query};
use crate::{
    api::{
        TaskId,
        dead_letter::{
            DeadLetter, DeadLetterGroup, ListDeadLettersResponse, RedriveRequest, RedriveResponse,
        },
        job::JobResponse,
    },
    limits::BATCH_ITEMS_MAX,
};

const REDRIVE: &str = "/v1/dead-letters/redrive";

/// The filter of a list of dead letters. More fields may come: end it with `..DeadLetterFilter::default()`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Those of this callback; with `*` at its end, such as `mail.*`, of those whose names begin so.
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

    /// Has all dead tasks of a filter run again, by a job that goes on in the service; [`Client::job`] shows its progress. With
    /// `dry_run` the job counts them and shows the first.
    ///
    /// # Errors
    /// [`Error::Refused`] when the request names no filter, or ids as well. After [`Error::Transport`] with `sent`, repeating
    /// does no harm: a second job finds nothing dead.
    pub async fn redrive(&self, request: &RedriveRequest) -> Result<JobResponse, Error> {
        if request.ids.is_some() {
            let ids = "ids are redriven at once: use redrive_ids";
            return Err(Error::Invalid(ids.to_owned()));
        }
        self.call(Method::POST, REDRIVE, Some(json(request)?), false)
            .await
    }

    /// Makes these dead tasks run again, one result per id, in order; up to 1000.
    ///
    /// # Errors
    /// [`Error::Invalid`] for too many. One bad or unknown id fails only itself. After [`Error::Transport`] with `sent`,
    /// repeating does no harm: tasks that run again are answered as not dead.
    pub async fn redrive_ids(&self, ids: &[TaskId]) -> Result<RedriveResponse, Error> {
        self.of_ids(ids, false).await
    }

    /// Tells how many of these tasks are dead, and shows the first of them; up to 1000.
    ///
    /// # Errors
    /// As [`Client::redrive_ids`], but one bad id fails the call.
    pub async fn preview_redrive(&self, ids: &[TaskId]) -> Result<RedriveResponse, Error> {
        self.of_ids(ids, true).await
    }

    async fn of_ids(&self, ids: &[TaskId], dry_run: bool) -> Result<RedriveResponse, Error> {
        if ids.len() > BATCH_ITEMS_MAX {
            let many = format!("{} ids; one call takes {BATCH_ITEMS_MAX}", ids.len());
            return Err(Error::Invalid(many));
        }
        let ids = Some(ids.iter().map(ToString::to_string).collect());
        let request = RedriveRequest {
            ids,
            dry_run,
            ..RedriveRequest::default()
        };
        self.call(Method::POST, REDRIVE, Some(json(&request)?), false)
            .await
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
