//! `Server` runs the real program with the embedded store and queue for tests: one process on one
//! data directory.

#![allow(
    dead_code,
    reason = "shared by two test programs, each of which uses its part"
)]

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use tickwheel::time_source::TimeSource;

/// A debug build on a busy machine needs a second or two.
pub(crate) const READY_WAIT_MAX: Duration = Duration::from_secs(60);

/// A running server; killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
    data: PathBuf,
    /// The place in the log where this life begins.
    log_from: usize,
    pub(crate) url: String,
}

/// Runs the program to its end.
pub(crate) fn program(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
    let output = command.args(arguments).stdin(Stdio::null()).output();
    output.expect("the program can be run")
}

/// Sends a request and returns its answer, which must be a success.
pub(crate) async fn post(url: &str, path: &str, body: &Value) -> Value {
    let request = reqwest::Client::new()
        .post(format!("{url}{path}"))
        .header("content-type", "application/json")
        .body(body.to_string());
    let answer = request.send().await.expect("an answer");
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    let body = answer.bytes().await.expect("a whole answer");
    serde_json::from_slice(&body).expect("an answer is JSON")
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

impl Server {
    /// Starts a server with its data below `directory`; its log is beside it and survives it.
    pub(crate) fn spawn(directory: &Path, port: u16, more: &[&str]) -> Self {
        Self::spawn_to_die(directory, port, more, None)
    }

    /// The same, but the server dies by itself at a named place: `published:40` is at the fortieth passage.
    pub(crate) fn spawn_to_die(
        directory: &Path,
        port: u16,
        more: &[&str],
        place: Option<String>,
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
        if let Some(place) = place {
            command.env("TICKWHEEL_DIE_AT", place);
            // With a small buffer tables are written and merged all the time.
            command.env("TICKWHEEL_BUFFER_BYTES", "16384");
        }
        Self::spawn_by(command, directory, &directory.join("data"), port, more)
    }

    /// Starts a server by a command that becomes the program, with its data elsewhere.
    pub(crate) fn spawn_by(
        mut command: Command,
        directory: &Path,
        data: &Path,
        port: u16,
        more: &[&str],
    ) -> Self {
        let log = directory.join("log");
        let file = File::options().create(true).append(true).open(&log);
        let log_from = fs::metadata(&log).map_or(0, |found| found.len());
        let child = command
            .args([
                "serve",
                "--listen",
                &format!("127.0.0.1:{port}"),
                "--data-dir",
            ])
            .arg(data)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file.expect("the log can be written"))
            .spawn();
        Self {
            child: child.expect("the program can be run"),
            log,
            data: data.to_owned(),
            log_from: usize::try_from(log_from).expect("a log fits into memory"),
            url: format!("http://127.0.0.1:{port}"),
        }
    }

    /// Starts a server and waits until it is ready.
    pub(crate) async fn start(directory: &Path, more: &[&str]) -> Self {
        let mut server = Self::spawn(directory, free_port(), more);
        server.ready().await;
        server
    }

    /// Waits until it says that it is ready.
    pub(crate) async fn ready(&mut self) {
        let time = TimeSource::real();
        let until = time.moment().after(READY_WAIT_MAX);
        while !self.log().contains("ready on http") {
            let ended = self.child.try_wait().expect("the child can be asked");
            assert!(ended.is_none(), "it ended: {ended:?}: {}", self.log());
            assert!(time.moment() < until, "not ready: {}", self.log());
            time.sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until it answers calls, also if it is not ready to work.
    pub(crate) async fn answers(&mut self) {
        let time = TimeSource::real();
        let until = time.moment().after(READY_WAIT_MAX);
        loop {
            let answer = reqwest::get(format!("{}/v1/stats", self.url)).await;
            if answer.is_ok_and(|answer| answer.status() != 503) {
                return;
            }
            assert!(self.lives(), "it ended: {}", self.log());
            assert!(time.moment() < until, "no answer: {}", self.log());
            time.sleep(Duration::from_millis(20)).await;
        }
    }

    /// The log of this life.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(&self.log).expect("the log can be read");
        let own = bytes.get(self.log_from..).unwrap_or_default();
        String::from_utf8_lossy(own).into_owned()
    }

    /// Tells whether it lives.
    pub(crate) fn lives(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("the child can be asked")
            .is_none()
    }

    /// The folder of its database.
    pub(crate) fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child can be waited for");
    }

    /// Asks it to stop, with SIGTERM.
    pub(crate) fn terminate(&self) {
        let status = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill can be run").success());
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.child.wait().expect("the child can be waited for")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already: nothing is left to do then.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
