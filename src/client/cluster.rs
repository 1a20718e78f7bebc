//! The calls about the service itself let programs read the state of its nodes and wheels.

use std::time::Duration;

use reqwest::Method;

use super::{Client, Error, list::with_query};
use crate::api::{
    forecast::ForecastResponse,
    stats::{ClusterResponse, StatsResponse},
    text::DurationText,
};

impl Client {
    /// Reads the state of the service, as the server that is asked sees it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Transport`] when it cannot be read.
    pub async fn stats(&self) -> Result<StatsResponse, Error> {
        self.call(Method::GET, "/v1/stats", None, true).await
    }

    /// Counts the tasks that are due in `count` steps ahead of whole seconds each, of one callback or of all.
    ///
    /// # Errors
    /// [`Error::Refused`] when a step is longer than a day or there are too many of them.
    pub async fn forecast(
        &self,
        callback: Option<&str>,
        step: Duration,
        count: usize,
    ) -> Result<ForecastResponse, Error> {
        let parameters = [
            ("callback", callback.map(str::to_owned)),
            ("step", Some(DurationText::from(step).0)),
            ("count", Some(count.to_string())),
        ];
        let path = with_query("/v1/forecast", parameters);
        self.call(Method::GET, &path, None, true).await
    }

    /// Reads the nodes that have given a sign of life lately, and the clock of each wheel.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Transport`] when it cannot be read.
    pub async fn cluster(&self) -> Result<ClusterResponse, Error> {
        self.call(Method::GET, "/v1/cluster", None, true).await
    }
}
