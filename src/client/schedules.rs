//! The schedule calls let programs start tasks at the times of a clock: they set, pause, preview and list schedules.

use reqwest::Method;

use super::{Client, Error, StartTime, json, list::with_query};
use crate::api::{
    job::JobResponse,
    schedule::{
        BackfillRequest, ExportSchedulesResponse, ImportScheduleResult, ImportSchedulesRequest,
        ImportSchedulesResponse, ListRunsResponse, NamedSchedule, PauseRequest, PreviewResponse,
        RunResponse, ScheduleRequest,
    },
    schedule_response::{ListSchedulesResponse, ScheduleResponse},
    task_response::TaskResponse,
    text::InstantText,
};

/// The pages of a list of schedules.
#[derive(Debug)]
pub struct SchedulePages {
    client: Client,
    /// Where the next page begins; none once the last was read.
    next: Option<String>,
}

/// The pages of an export of schedules.
#[derive(Debug)]
pub struct ExportPages {
    client: Client,
    /// Where the next page begins; none once the last was read.
    next: Option<String>,
}

/// The pages of a list of the runs of a schedule.
#[derive(Debug)]
pub struct RunPages {
    client: Client,
    path: String,
    /// Where the next page begins; none once the last was read.
    next: Option<String>,
}

impl Client {
    /// Sets a schedule: creates it, or replaces what was set as a whole. From the answer on no run begins that was decided on by
    /// the settings before.
    ///
    /// # Errors
    /// [`Error::Refused`] names the mistakes in it.
    pub async fn set_schedule(
        &self,
        name: &str,
        schedule: &ScheduleRequest,
    ) -> Result<ScheduleResponse, Error> {
        let body = Some(json(schedule)?);
        // Twice the same settings are as once.
        self.call(Method::PUT, &path(name)?, body, true).await
    }

    /// Reads a schedule: what was set, where it stands, and its next times.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such schedule.
    pub async fn schedule(&self, name: &str) -> Result<ScheduleResponse, Error> {
        self.call(Method::GET, &path(name)?, None, true).await
    }

    /// Deletes a schedule. Its runs that have begun go on.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such schedule, or not any more.
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        let call = self.plain(Method::DELETE, &path(name)?, None, false);
        self.transport.send(call).await?;
        Ok(())
    }

    /// Pauses a schedule: it starts no runs until it is resumed.
    ///
    /// # Errors
    /// [`Error::Refused`] when it has ended.
    pub async fn pause_schedule(
        &self,
        name: &str,
        pause: &PauseRequest,
    ) -> Result<ScheduleResponse, Error> {
        let path = format!("{}/pause", path(name)?);
        self.call(Method::POST, &path, Some(json(pause)?), true)
            .await
    }

    /// Lets a paused schedule go on, from the next of its times.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such schedule.
    pub async fn resume_schedule(&self, name: &str) -> Result<ScheduleResponse, Error> {
        let path = format!("{}/resume", path(name)?);
        self.call(Method::POST, &path, None, true).await
    }

    /// Starts a run of a schedule now, and returns its task. The call is not repeated when its answer is lost: it may have
    /// started one.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such schedule.
    pub async fn trigger_schedule(&self, name: &str) -> Result<TaskResponse, Error> {
        let path = format!("{}/trigger", path(name)?);
        self.call(Method::POST, &path, None, false).await
    }

    /// Starts a run for each time of a schedule in a span that has passed, as a job. The call is not repeated when its answer is
    /// lost: it may have begun.
    ///
    /// # Errors
    /// [`Error::Refused`] when the span has no time, or too many, or has not passed.
    pub async fn backfill_schedule(
        &self,
        name: &str,
        span: &BackfillRequest,
    ) -> Result<JobResponse, Error> {
        let path = format!("{}/backfill", path(name)?);
        self.call(Method::POST, &path, Some(json(span)?), false)
            .await
    }

    /// Shows the next times of a schedule, at most 100, from a time on; from now on without one.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such schedule.
    pub async fn preview_schedule(
        &self,
        name: &str,
        count: usize,
        from: Option<StartTime>,
    ) -> Result<PreviewResponse, Error> {
        let count = Some(count.to_string());
        let from = from.map(|StartTime(InstantText(text))| text);
        let path = format!("{}/preview", path(name)?);
        let path = with_query(&path, [("count", count), ("from", from)]);
        self.call(Method::GET, &path, None, true).await
    }

    /// Checks settings without storing them, and shows the times of a schedule of this name.
    ///
    /// # Errors
    /// [`Error::Refused`] names the mistakes in them.
    pub async fn check_schedule(
        &self,
        name: &str,
        schedule: &ScheduleRequest,
        count: usize,
    ) -> Result<PreviewResponse, Error> {
        path(name)?;
        let path = format!("/v1/schedules:preview?name={name}&count={count}");
        self.call(Method::POST, &path, Some(json(schedule)?), true)
            .await
    }

    /// Lists schedules by name.
    #[must_use]
    pub fn schedules(&self) -> SchedulePages {
        SchedulePages {
            client: self.clone(),
            next: Some(String::new()),
        }
    }

    /// Reads all schedules as they were set, by name, for [`Client::import_schedules`].
    #[must_use]
    pub fn export_schedules(&self) -> ExportPages {
        ExportPages {
            client: self.clone(),
            next: Some(String::new()),
        }
    }

    /// Sets schedules together, at most 1000; one bad schedule fails only itself. Returns a result for each, in order.
    ///
    /// # Errors
    /// See [`Error`]. Some may have been set; sent again, they are as they are.
    pub async fn import_schedules(
        &self,
        schedules: Vec<NamedSchedule>,
    ) -> Result<Vec<ImportScheduleResult>, Error> {
        let body = Some(json(&ImportSchedulesRequest { schedules })?);
        let path = "/v1/schedules:import";
        let answer: ImportSchedulesResponse = self.call(Method::POST, path, body, true).await?;
        Ok(answer.results)
    }

    /// Lists the runs of a schedule with their tasks, the newest first.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name is none.
    pub fn schedule_runs(&self, name: &str) -> Result<RunPages, Error> {
        Ok(RunPages {
            client: self.clone(),
            path: format!("{}/runs", path(name)?),
            next: Some(String::new()),
        })
    }
}

impl SchedulePages {
    /// Reads the next page. Returns none when the list has ended. A page may be empty and not be the last.
    ///
    /// # Errors
    /// See [`Error`]; the next call asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<ScheduleResponse>>, Error> {
        let Some(token) = self.next.clone() else {
            return Ok(None);
        };
        let path = with_query("/v1/schedules", [("page_token", Some(token))]);
        let page: ListSchedulesResponse = self.client.call(Method::GET, &path, None, true).await?;
        self.next = page.next_page_token;
        Ok(Some(page.schedules))
    }
}

impl ExportPages {
    /// Reads the next page. Returns none when all were read. A page may be empty and not be the last.
    ///
    /// # Errors
    /// See [`Error`]; the next call asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<NamedSchedule>>, Error> {
        let Some(token) = self.next.clone() else {
            return Ok(None);
        };
        let path = with_query("/v1/schedules:export", [("page_token", Some(token))]);
        let page: ExportSchedulesResponse =
            self.client.call(Method::GET, &path, None, true).await?;
        self.next = page.next_page_token;
        Ok(Some(page.schedules))
    }
}

impl RunPages {
    /// Reads the next page. Returns none when the list has ended. A page may be empty and not be the last.
    ///
    /// # Errors
    /// See [`Error`]; the next call asks for the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<RunResponse>>, Error> {
        let Some(token) = self.next.clone() else {
            return Ok(None);
        };
        let path = with_query(&self.path, [("page_token", Some(token))]);
        let page: ListRunsResponse = self.client.call(Method::GET, &path, None, true).await?;
        self.next = page.next_page_token;
        Ok(Some(page.runs))
    }
}

/// Returns the path of a schedule. A name with other characters would be another path.
pub(super) fn path(name: &str) -> Result<String, Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || !name.chars().all(fits) {
        return Err(Error::Invalid(format!(
            "{name:?} is not the name of a schedule: it consists of A-Z, a-z, 0-9, `.`, `_` and `-`"
        )));
    }
    Ok(format!("/v1/schedules/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_be_another_path_is_refused() {
        assert_eq!(path("nightly.2").unwrap(), "/v1/schedules/nightly.2");
        for name in ["", "a/pause", "a?b", "a b", "%2e"] {
            assert!(matches!(path(name), Err(Error::Invalid(_))), "{name}");
        }
    }
}
