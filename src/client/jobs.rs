//! The job calls let programs do bulk work over a filter, follow it, and pause, resume and end it.

use reqwest::Method;

use super::{Client, Error, json, list::with_query};
use crate::api::job::{JobRequest, JobResponse, ListJobsResponse};

/// The pages of a list of jobs.
#[derive(Debug)]
pub struct JobPages {
    client: Client,
    /// Where the next page begins; none once the last was read.
    next: Option<String>,
}

impl JobPages {
    /// Reads the next page, the newest job first. Returns none when the list has ended.
    ///
    /// # Errors
    /// See [`Error`]; the next call asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<JobResponse>>, Error> {
        let Some(token) = self.next.clone() else {
            return Ok(None);
        };
        let path = with_query("/v1/jobs", [("page_token", Some(token))]);
        let page: ListJobsResponse = self.client.call(Method::GET, &path, None, true).await?;
        self.next = page.next_page_token;
        Ok(Some(page.jobs))
    }
}

impl Client {
    /// Registers bulk work over a filter. The call is repeated when its answer is lost, and is still one job: a request
    /// without an idempotency key gets one.
    ///
    /// # Errors
    /// [`Error::Refused`] names the mistakes in the request, and fields that its kind of job cannot honour.
    pub async fn create_job(&self, request: &JobRequest) -> Result<JobResponse, Error> {
        let mut request = request.clone();
        if request.idempotency_key.is_none() {
            let key = self.transport.time().random_uuid().to_string();
            request.idempotency_key = Some(key);
        }
        self.register_at("/v1/jobs", json(&request)?, true).await
    }

    /// Reads a job: its state, its progress, and the first tasks of a dry run.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such job, or it ended days ago.
    pub async fn job(&self, id: &str) -> Result<JobResponse, Error> {
        self.call(Method::GET, &path(id)?, None, true).await
    }

    /// Lists jobs, the newest first.
    #[must_use]
    pub fn jobs(&self) -> JobPages {
        JobPages {
            client: self.clone(),
            next: Some(String::new()),
        }
    }

    /// Pauses a job. The tasks that are being worked on are finished.
    ///
    /// # Errors
    /// [`Error::Refused`] when it has ended.
    pub async fn pause_job(&self, id: &str) -> Result<JobResponse, Error> {
        self.order(id, "pause").await
    }

    /// Lets a paused job go on.
    ///
    /// # Errors
    /// [`Error::Refused`] when it has ended.
    pub async fn resume_job(&self, id: &str) -> Result<JobResponse, Error> {
        self.order(id, "resume").await
    }

    /// Ends a job. Its work so far stays done.
    ///
    /// # Errors
    /// [`Error::Refused`] when it has ended in another way.
    pub async fn cancel_job(&self, id: &str) -> Result<JobResponse, Error> {
        self.order(id, "cancel").await
    }

    /// An order that is given twice is as one.
    async fn order(&self, id: &str, order: &str) -> Result<JobResponse, Error> {
        let path = format!("{}/{order}", path(id)?);
        self.call(Method::POST, &path, None, true).await
    }
}

/// Returns the path of a job. An id with other characters would be another path.
fn path(id: &str) -> Result<String, Error> {
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        let detail = format!("{id:?} is not the id of a job: it consists of 0-9, a-f and `-`");
        return Err(Error::Invalid(detail));
    }
    Ok(format!("/v1/jobs/{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_would_be_another_path_is_refused() {
        assert_eq!(path("0198c2a4-7c51").unwrap(), "/v1/jobs/0198c2a4-7c51");
        for id in ["", "a/cancel", "a?b", "..", "x y"] {
            assert!(matches!(path(id), Err(Error::Invalid(_))), "{id}");
        }
    }
}
