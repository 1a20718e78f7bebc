//! This module gives tests real processes: the stack that `make test` has started, and nodes of
//! the real program on it.

#![allow(
    dead_code,
    reason = "shared by two test programs, each of which uses its part"
)]

use std::{
    fs::File,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tickwheel::time_source::TimeSource;

/// The servers under test.
pub(crate) struct Stack {
    pub(crate) cassandra: String,
    pub(crate) kafka: String,
    dir: PathBuf,
}

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `make test`, which starts real servers, or `tests/stack/stack run -- cargo test`")
    })
}

impl Stack {
    /// Finds the stack that was started for the tests.
    pub(crate) fn of_this_run() -> Self {
        Self {
            cassandra: variable("TICKWHEEL_TEST_CASSANDRA"),
            kafka: variable("TICKWHEEL_TEST_KAFKA"),
            dir: variable("TICKWHEEL_TEST_STACK_DIR").into(),
        }
    }

    /// Stops or starts one of the servers, as `tests/stack/stack` does.
    pub(crate) fn command(&self, verb: &str, server: &str, options: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stack/stack");
        let status = Command::new(script)
            .args([verb, server, "--dir"])
            .arg(&self.dir)
            .args(options)
            .stdin(Stdio::null())
            .status()
            .expect("the stack script can be run");
        assert!(status.success(), "stack {verb} {server}: {status}");
    }
}

/// A keyspace of its own, and the nodes on it.
pub(crate) struct Cluster {
    stack: Stack,
    keyspace: String,
    logs: PathBuf,
    pub(crate) time: TimeSource,
}

/// A running node; killed when it is dropped.
pub(crate) struct Node {
    child: Child,
    pub(crate) number: u16,
    pub(crate) url: String,
    port: u16,
}

impl Cluster {
    /// Creates a keyspace with the program's own `init`.
    pub(crate) fn init(stack: Stack, wheels: u16) -> Self {
        let keyspace = format!("t{:016x}", TimeSource::real().random());
        Self::init_on(stack, keyspace, wheels)
    }

    /// The same with a name, where there may be a keyspace already.
    pub(crate) fn init_on(stack: Stack, keyspace: String, wheels: u16) -> Self {
        let time = TimeSource::real();
        let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&keyspace);
        std::fs::create_dir_all(&logs).expect("the folder for logs can be made");
        let cluster = Self {
            stack,
            keyspace,
            logs,
            time,
        };
        let mut init = cluster.program("init");
        init.args(["--replication-factor", "1", "--wheels", &wheels.to_string()]);
        let output = init.output().expect("the program can be run");
        assert!(
            output.status.success(),
            "init: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        cluster
    }

    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The program with what every verb needs to reach the servers.
    pub(crate) fn program(&self, verb: &str) -> Command {
        self.program_in(&self.keyspace, verb)
    }

    /// The same, on another keyspace.
    pub(crate) fn program_in(&self, keyspace: &str, verb: &str) -> Command {
        // Another build of the program, to compare with.
        let other = std::env::var("TICKWHEEL_TEST_PROGRAM");
        let mut command = Command::new(other.as_deref().unwrap_or(env!("CARGO_BIN_EXE_tickwheel")));
        command
            .arg(verb)
            .args(["--store", "cassandra", "--cassandra", &self.stack.cassandra])
            .args(["--keyspace", keyspace, "--kafka", &self.stack.kafka])
            // Tests run side by side on one Kafka: the service's own tasks of one must not reach another.
            .args(["--kafka-topic-prefix", keyspace])
            .stdin(Stdio::null());
        command
    }

    /// Starts a node on a free port and waits until it says that it is ready.
    pub(crate) async fn node(&self, number: u16) -> Node {
        let port = free_port();
        self.node_at(number, port).await
    }

    /// The same, with further arguments.
    pub(crate) async fn node_with(&self, number: u16, more: &[&str]) -> Node {
        self.node_at_with(number, free_port(), more).await
    }

    /// Starts a node again where one has ended, with further arguments.
    pub(crate) async fn restart_with(&self, node: &Node, more: &[&str]) -> Node {
        self.node_at_with(node.number, node.port, more).await
    }

    async fn node_at_with(&self, number: u16, port: u16, more: &[&str]) -> Node {
        let from = self.logged(number);
        let mut node = self.spawn_with(number, port, more);
        self.ready(&mut node, from).await;
        node
    }

    /// Starts a node again where a killed one was.
    pub(crate) async fn restart(&self, node: &Node) -> Node {
        self.node_at(node.number, node.port).await
    }

    async fn node_at(&self, number: u16, port: u16) -> Node {
        self.node_at_with(number, port, &[]).await
    }

    /// Starts a node on a free port, ready or not.
    pub(crate) fn spawn(&self, number: u16) -> Node {
        self.spawn_at(number, free_port())
    }

    fn log(&self, number: u16) -> PathBuf {
        self.logs.join(format!("node-{number}.log"))
    }

    fn logged(&self, number: u16) -> u64 {
        std::fs::metadata(self.log(number)).map_or(0, |metadata| metadata.len())
    }

    fn spawn_at(&self, number: u16, port: u16) -> Node {
        self.spawn_with(number, port, &[])
    }

    fn spawn_with(&self, number: u16, port: u16, more: &[&str]) -> Node {
        let file = File::options()
            .create(true)
            .append(true)
            .open(self.log(number));
        let child = self
            .program("serve")
            .args(["--queue", "kafka", "--listen", &format!("127.0.0.1:{port}")])
            .args(more)
            .stdout(Stdio::null())
            .stderr(file.expect("the log can be written"))
            .spawn()
            .expect("the program can be run");
        Node {
            child,
            number,
            url: format!("http://127.0.0.1:{port}"),
            port,
        }
    }

    /// Waits until a node says that it is ready, in what it has logged behind `from`.
    pub(crate) async fn ready(&self, node: &mut Node, from: u64) {
        let log = self.log(node.number);
        for _ in 0..600 {
            if said_ready(&log, from) {
                return;
            }
            let exited = node.child.try_wait().expect("the child can be asked");
            assert!(
                exited.is_none(),
                "node {} ended: {exited:?}; see {}",
                node.number,
                log.display()
            );
            self.time.sleep(Duration::from_millis(100)).await;
        }
        panic!(
            "node {} was not ready within a minute; see {}",
            node.number,
            log.display()
        );
    }
}

fn said_ready(log: &Path, from: u64) -> bool {
    use std::io::Seek;
    let mut file = File::open(log).expect("the log can be read");
    file.seek(std::io::SeekFrom::Start(from))
        .expect("the log can be read");
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .any(|line| line.starts_with("ready on http://"))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

impl Node {
    /// Kills the process as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child can be waited for");
    }

    /// Sends the process a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status();
        assert!(status.expect("kill can be run").success());
    }

    /// Asks the process to stop (SIGTERM) and returns its exit status.
    pub(crate) fn terminate(&mut self) -> std::process::ExitStatus {
        self.signal("TERM");
        self.child.wait().expect("the child can be waited for")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already: nothing is left to do then.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
