//! The calls of the test clock let tests move the clock of a service that was started for them.

use std::time::{Duration, SystemTime};

use reqwest::Method;

use super::{Client, Error, json, transport::Call};
use crate::api::test_clock::{
    AdvanceClockRequest, AdvanceClockResponse, ClockResponse, SetClockRequest,
};

/// How long a call that moves the clock may take beyond its wait for workers.
const MOVE_LIMIT: Duration = Duration::from_secs(120);

impl Client {
    /// Reads the clock of a service that tests move: `tickwheel dev --test-clock`.
    ///
    /// # Errors
    /// [`Error::NotFound`] at every other service.
    pub async fn test_clock(&self) -> Result<ClockResponse, Error> {
        self.call(Method::GET, "/v1/dev/clock", None, true).await
    }

    /// Moves the clock to a time, and stops at each due time on the way. The answer says whether it came there: if not, call
    /// again.
    ///
    /// # Errors
    /// As [`Client::test_clock`].
    pub async fn advance_test_clock(
        &self,
        request: &AdvanceClockRequest,
    ) -> Result<AdvanceClockResponse, Error> {
        let call = Call {
            method: Method::POST,
            path: "/v1/dev/clock:advance".to_owned(),
            body: Some(json(request)?),
            // The way to a time may be gone twice.
            repeatable: request.by.is_none(),
            limit: self.limit + MOVE_LIMIT,
        };
        self.transport.call(call).await
    }

    /// Moves the clock to a time at once, as if the service had been off meanwhile.
    ///
    /// # Errors
    /// As [`Client::test_clock`]; [`Error::Refused`] for a time that has passed.
    pub async fn set_test_clock(&self, to: SystemTime) -> Result<ClockResponse, Error> {
        let body = json(&SetClockRequest { time: to.into() })?;
        self.call(Method::POST, "/v1/dev/clock:set", Some(body), false)
            .await
    }
}
