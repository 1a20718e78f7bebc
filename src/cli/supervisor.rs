//! The supervisor tells systemd when a node is ready, that it lives, and that it stops: the protocol of `sd_notify(3)`.
//!
//! systemd names a socket in the environment; without it nothing is told. A node whose runtime hangs sends no sign of life, and
//! systemd starts it again after `WatchdogSec`.

use std::net::SocketAddr;

use sd_notify::NotifyState;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::time_source::TimeSource;

/// Signs of life in the time within which one must come, so that a single late one does no harm.
const SIGNS: u32 = 3;

/// Tells that the node is ready once it is, then that it lives, until `stop`. It ends with the process.
pub(super) async fn tell(
    time: TimeSource,
    ready: oneshot::Receiver<SocketAddr>,
    stop: CancellationToken,
) {
    let watchdog = sd_notify::watchdog_enabled().filter(|within| !within.is_zero());
    let pause = watchdog.map(|within| within / SIGNS);
    tokio::select! {
        Ok(address) = ready => {
            let status = format!("ready on http://{address}");
            // A socket that cannot be used is a warning: the service works without it.
            if let Err(error) = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&status)]) {
                tracing::warn!(%error, "NOTIFY_SOCKET cannot be used");
            }
        }
        () = stop.cancelled() => {}
    }
    while !stop.is_cancelled() {
        let Some(pause) = pause else {
            stop.cancelled().await;
            break;
        };
        send(&[NotifyState::Watchdog]);
        tokio::select! {
            () = stop.cancelled() => {}
            () = time.sleep(pause) => {}
        }
    }
    let status = NotifyState::Status("finishing what is under way");
    send(&[NotifyState::Stopping, status]);
    // The drain has a limit of its own; until it ends the node lives.
    while let Some(pause) = pause {
        send(&[NotifyState::Watchdog]);
        time.sleep(pause).await;
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd was not told");
    }
}
