//! systemd is told by a node that it is ready, that it lives and that it stops, over a socket as systemd has one.

use std::{os::unix::net::UnixDatagram, path::Path, process::Command, time::Duration};

use tempfile::TempDir;

use crate::server::{Server, free_port};

const LIMIT: Duration = Duration::from_secs(60);

/// Starts a server with a socket of systemd and this environment. Its first message says that it is ready.
fn started(directory: &Path, environment: &[(&str, &str)]) -> (Server, UnixDatagram) {
    let path = directory.join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
    command
        .env("NOTIFY_SOCKET", &path)
        .envs(environment.iter().copied());
    let (data, port) = (directory.join("data"), free_port());
    let server = Server::spawn_by(command, directory, &data, port, &[]);
    let ready = format!("READY=1\nSTATUS=ready on {}\n", server.url);
    assert_eq!(received(&socket), ready, "{}", server.log());
    (server, socket)
}

fn received(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 200];
    let count = socket.recv(&mut bytes).expect("a message within the limit");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

const STOPPING: &str = "STOPPING=1\nSTATUS=finishing what is under way\n";

#[test]
fn systemd_is_told_that_a_node_is_ready_lives_and_stops() {
    let directory = TempDir::new().expect("a directory");
    let (mut server, socket) = started(directory.path(), &[("WATCHDOG_USEC", "300000")]);
    for _ in 0..3 {
        assert_eq!(received(&socket), "WATCHDOG=1\n");
    }
    server.terminate();
    let stops = |message: String| {
        assert!([STOPPING, "WATCHDOG=1\n"].contains(&&*message), "{message}");
        message == STOPPING
    };
    assert!(
        (0..100).any(|_| stops(received(&socket))),
        "{}",
        server.log()
    );
    assert!(server.ended().success(), "{}", server.log());
}

#[test]
fn a_watchdog_of_another_process_is_left_alone() {
    let directory = TempDir::new().expect("a directory");
    let environment = [("WATCHDOG_USEC", "3000"), ("WATCHDOG_PID", "1")];
    let (mut server, socket) = started(directory.path(), &environment);
    let short = Some(Duration::from_millis(300));
    socket.set_read_timeout(short).expect("a limit");
    let next = socket.recv(&mut [0; 200]);
    assert!(next.is_err(), "no sign of life is wanted: {next:?}");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    server.terminate();
    assert_eq!(received(&socket), STOPPING);
    assert!(server.ended().success(), "{}", server.log());
}

#[test]
fn a_socket_that_is_not_there_is_a_warning() {
    let directory = TempDir::new().expect("a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
    command.env("NOTIFY_SOCKET", directory.path().join("nothing"));
    let (data, port) = (directory.path().join("data"), free_port());
    let mut server = Server::spawn_by(command, directory.path(), &data, port, &[]);
    let says = (0..3000).any(|_| {
        std::thread::park_timeout(Duration::from_millis(20));
        assert!(server.lives(), "{}", server.log());
        server.log().contains("NOTIFY_SOCKET cannot be used")
    });
    assert!(says, "{}", server.log());
    server.terminate();
    assert!(server.ended().success(), "{}", server.log());
}
