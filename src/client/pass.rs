//! The pass hands calls of others on to the service as they are, for the dashboard that stands beside it.

use bytes::Bytes;
use reqwest::{Method, StatusCode, header::HeaderMap};

use super::{Client, Error, transport::Call};

impl Client {
    /// Hands a call on; its headers go with it.
    pub(crate) async fn pass(
        &self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Error> {
        let call = Call {
            method,
            path: path.to_owned(),
            body: (!body.is_empty()).then_some(body),
            repeatable: false,
            limit: self.limit,
        };
        self.transport.pass(&call, headers).await
    }
}
