//! The calls about causes tell programs why something does not run.

use reqwest::Method;

use super::{Client, Error, list::with_query, schedules};
use crate::{
    api::{schedule_why::ScheduleWhyResponse, text::InstantText, why::WhyResponse},
    model::ids::TaskId,
};

impl Client {
    /// Tells why a task does not run, or what became of it: the causes in the order of time, and one sentence about the first.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id.
    pub async fn why(&self, id: TaskId) -> Result<WhyResponse, Error> {
        let path = format!("/v1/tasks/{id}/why");
        self.call(Method::GET, &path, None, true).await
    }

    /// Tells why a schedule has no run at a time, or which run it has; without a time, at the last of its times that has passed.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the name is none, [`Error::NotFound`] when there is no such schedule.
    pub async fn schedule_why(
        &self,
        name: &str,
        time: Option<InstantText>,
    ) -> Result<ScheduleWhyResponse, Error> {
        let path = format!("{}/why", schedules::path(name)?);
        let path = with_query(&path, [("time", time.map(|time| time.0))]);
        self.call(Method::GET, &path, None, true).await
    }
}
