//! The supervisor tells systemd when a node is ready, that it lives, and that it stops: the protocol of `sd_notify(3)`.
//!
//! systemd names a socket in the environment; without it nothing is told. A node whose runtime hangs sends no sign of life, and
//! systemd starts it again after `WatchdogSec`.

use std::{
    io,
    net::SocketAddr,
    os::unix::net::{SocketAddr as UnixAddress, UnixDatagram},
    time::Duration,
};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::time_source::TimeSource;

/// Signs of life in the time within which one must come, so that a single late one does no harm.
const SIGNS: u32 = 3;

/// The one who has started the process, and wants to know how it is.
#[derive(Debug)]
pub(super) struct Supervisor {
    socket: UnixDatagram,
    address: UnixAddress,
    /// The time within which it wants a sign of life; none is never.
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// Returns the one that the environment names. A socket that cannot be used is a warning: the service works without it.
    pub(super) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let name = variable("NOTIFY_SOCKET").filter(|name| !name.is_empty())?;
        let opened = address(&name).and_then(|address| Ok((UnixDatagram::unbound()?, address)));
        let (socket, address) = opened
            .inspect_err(|error| tracing::warn!(%error, name, "NOTIFY_SOCKET cannot be used"))
            .ok()?;
        let for_us = variable("WATCHDOG_PID").is_none_or(|id| id.parse() == Ok(std::process::id()));
        let microseconds = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        let microseconds = microseconds.filter(|number| for_us && *number > 0);
        Some(Self {
            socket,
            address,
            watchdog: microseconds.map(Duration::from_micros),
        })
    }

    /// Tells that the node is ready once it is, then that it lives, until `stop`.
    pub(super) async fn tell(
        self,
        time: TimeSource,
        ready: oneshot::Receiver<SocketAddr>,
        stop: CancellationToken,
    ) {
        tokio::select! {
            Ok(address) = ready => self.send(&format!("READY=1\nSTATUS=ready on http://{address}")),
            () = stop.cancelled() => {}
        }
        let pause = self.watchdog.map(|within| within / SIGNS);
        while !stop.is_cancelled() {
            let Some(pause) = pause else {
                stop.cancelled().await;
                break;
            };
            self.send("WATCHDOG=1");
            tokio::select! {
                () = stop.cancelled() => {}
                () = time.sleep(pause) => {}
            }
        }
        self.send("STOPPING=1\nSTATUS=finishing what is under way");
        // The drain has a limit of its own; until it ends the node lives.
        while let Some(pause) = pause {
            self.send("WATCHDOG=1");
            time.sleep(pause).await;
        }
    }

    fn send(&self, text: &str) {
        if let Err(error) = self.socket.send_to_addr(text.as_bytes(), &self.address) {
            tracing::debug!(%error, "systemd was not told");
        }
    }
}

/// Reads the name of a socket: a path, or `@` and a name that is no file.
fn address(name: &str) -> io::Result<UnixAddress> {
    match name.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => <UnixAddress as std::os::linux::net::SocketAddrExt>::from_abstract_name(name),
        #[cfg(not(target_os = "linux"))]
        Some(_) => Err(io::ErrorKind::Unsupported.into()),
        None => UnixAddress::from_pathname(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 200];
        let count = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn systemd_is_told_that_the_node_is_ready_lives_and_stops() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let variable = |name: &str| match name {
            "NOTIFY_SOCKET" => Some(path.to_string_lossy().into_owned()),
            "WATCHDOG_USEC" => Some("30000".to_owned()),
            _ => None,
        };
        let supervisor = Supervisor::of_environment(variable).unwrap();
        assert_eq!(supervisor.watchdog, Some(Duration::from_millis(30)));
        let (stop, (ready, is_ready)) = (CancellationToken::new(), oneshot::channel());
        let told = tokio::spawn(supervisor.tell(TimeSource::real(), is_ready, stop.clone()));
        ready
            .send(SocketAddr::from(([127, 0, 0, 1], 7420)))
            .unwrap();
        assert_eq!(
            received(&socket),
            "READY=1\nSTATUS=ready on http://127.0.0.1:7420"
        );
        assert_eq!(received(&socket), "WATCHDOG=1");
        assert_eq!(received(&socket), "WATCHDOG=1");
        stop.cancel();
        let stopping = (0..100).any(|_| received(&socket).starts_with("STOPPING=1"));
        assert!(stopping);
        assert_eq!(received(&socket), "WATCHDOG=1");
        told.abort();
    }

    #[test]
    fn nothing_is_told_where_nobody_asks_and_the_watchdog_of_another_is_left_alone() {
        assert!(Supervisor::of_environment(|_| None).is_none());
        let variable = |name: &str| match name {
            "NOTIFY_SOCKET" => Some("@tickwheel-test".to_owned()),
            "WATCHDOG_USEC" => Some("30000000".to_owned()),
            "WATCHDOG_PID" => Some("1".to_owned()),
            _ => None,
        };
        let supervisor = Supervisor::of_environment(variable).unwrap();
        assert_eq!(supervisor.watchdog, None);
    }
}
