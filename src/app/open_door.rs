//! The look at the keys keeps a node from listening beyond its machine for everybody, unless its operator says so.

use std::{net::SocketAddr, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{flow::base::records::api_keys::ApiKeys, time_source::TimeSource};

/// Tells whether the node would let everybody in: it listens beyond this machine, and there is no key of the API. It asks until
/// the store answers or the node is told to stop. Until then the node only says that it is not ready.
pub(super) async fn is_too_open(
    keys: &ApiKeys,
    address: SocketAddr,
    insecure: bool,
    time: &TimeSource,
    stop: &CancellationToken,
) -> bool {
    const PAUSE: Duration = Duration::from_secs(1);
    let is_local = address.ip().is_loopback();
    loop {
        match keys.exist().await {
            Ok(true) => {
                tracing::info!("the API asks for keys");
                return false;
            }
            Ok(false) if is_local => {
                tracing::info!("there is no API key: the API is open, to this machine alone");
                return false;
            }
            Ok(false) if insecure => {
                tracing::warn!(
                    %address,
                    "the API listens beyond this machine and asks nobody for a key: whoever reaches this address can read, \
                     register and cancel all tasks; let only a network or a proxy that you trust reach it"
                );
                return false;
            }
            Ok(false) => return true,
            Err(_) if is_local || stop.is_cancelled() => return false,
            Err(fault) => {
                tracing::warn!(%fault, "cannot tell whether there is an API key; trying again")
            }
        }
        time.sleep(PAUSE).await;
    }
}
