//! The backup call lets programs read a copy of the store of one machine while its service goes on.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;

use super::{Client, Error, json, transport::Call};
use crate::api::backup::BackupRequest;

/// How long the service may take for the next piece of a copy.
const PIECE_LIMIT: Duration = Duration::from_secs(60);

/// A copy that is being read. It is whole when [`Backup::next`] has returned none, and only then. Dropping it ends the copy.
#[derive(Debug)]
pub struct Backup {
    client: Client,
    server: String,
    response: reqwest::Response,
}

impl Client {
    /// Begins to read a copy of the store as it is now, no faster than so many bytes a second if a number is given.
    ///
    /// # Errors
    /// [`Error::Refused`] when the store is a cluster, [`Error::Unavailable`] while another copy is being made.
    pub async fn backup(&self, bytes_per_second: Option<u64>) -> Result<Backup, Error> {
        let call = Call {
            body: Some(json(&BackupRequest { bytes_per_second })?),
            ..self.plain(Method::POST, "/v1/backup", None, true)
        };
        let (server, response) = self.transport.begin(&call).await?;
        Ok(Backup {
            server: server.to_owned(),
            client: self.clone(),
            response,
        })
    }
}

impl Backup {
    /// Reads the next bytes. Returns none behind the last. Not cancel-safe: bytes that were under way are lost, and with them
    /// the copy.
    ///
    /// # Errors
    /// [`Error::Transport`] when the copy was broken off. It has to be made anew.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let time = self.client.transport.time().clone();
        let broken = |reason| Error::Transport {
            server: self.server.clone(),
            reason,
            sent: true,
        };
        match time.within(PIECE_LIMIT, self.response.chunk()).await {
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(error)) => Err(broken(format!("the copy was broken off: {error}"))),
            None => Err(broken(format!("nothing came for {PIECE_LIMIT:?}"))),
        }
    }
}
