//! The calls about the service itself let programs read the state of its nodes and wheels.

use reqwest::Method;

use super::{Client, Error};
use crate::api::stats::{ClusterResponse, StatsResponse};

impl Client {
    /// Reads the state of the service, as the server that is asked sees it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Transport`] when it cannot be read.
    pub async fn stats(&self) -> Result<StatsResponse, Error> {
        self.call(Method::GET, "/v1/stats", None, true).await
    }

    /// Reads the nodes that have given a sign of life lately, and the clock of each wheel.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Transport`] when it cannot be read.
    pub async fn cluster(&self) -> Result<ClusterResponse, Error> {
        self.call(Method::GET, "/v1/cluster", None, true).await
    }
}
