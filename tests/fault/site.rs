//! `Site` holds everything that runs in a drill: servers, nodes and workers, in a folder and a
//! network of its own.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tickwheel::time_source::TimeSource;
use tokio::sync::watch;

use crate::{
    journal::Journal,
    members::{Kind, Member},
    net::Net,
    process::Process,
    servers::{self, BROKER_PORT, STORE_PORT},
};

const NODE_PORT: u16 = 7420;
pub(crate) const KEYSPACE: &str = "drill";
pub(crate) const CALLBACK: &str = "drill";

/// The callback whose gate is closed now and then.
pub(crate) const GATED: &str = "drill-gated";

/// The wheels are few and small, so that they wrap every eight seconds.
pub(crate) const WHEELS: i16 = 4;
pub(crate) const SLOTS: i64 = 8;
pub(crate) const TURN: Duration = Duration::from_secs(8);

/// A server on a busy machine needs tens of seconds to start, and minutes beside builds; one that has crashed reads its log
/// first.
const READY_WAIT_MAX: Duration = Duration::from_secs(400);

/// Which records are registered beside the usual tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// None.
    Usual,
    /// Many for the topic that takes all.
    Healthy,
    /// As many for the topic that wants all of its copies in sync.
    Sick,
}

/// All members of a drill. The processes that it starts die with this process.
pub(crate) struct Site {
    processes: BTreeMap<Member, Process>,
    pub(crate) net: Net,
    pub(crate) root: PathBuf,
    pub(crate) journal: Journal,
    pub(crate) time: TimeSource,
    pub(crate) http: reqwest::Client,
    pub(crate) load: watch::Sender<Load>,
}

/// The file with a node's clock error.
pub(crate) fn offset_file(root: &Path, node: Member) -> PathBuf {
    root.join(format!("{node}.offset"))
}

fn log_of(root: &Path, member: Member) -> File {
    let log = root.join(format!("{member}.log"));
    let file = File::options().create(true).append(true).open(log);
    file.expect("a log can be opened")
}

impl Site {
    /// Prepares everything and starts nothing.
    pub(crate) fn prepare(root: PathBuf, net: Net) -> Self {
        let mut site = Self {
            processes: BTreeMap::new(),
            net,
            journal: Journal::open(&root, "driver"),
            root,
            time: TimeSource::real(),
            http: reqwest::Client::builder()
                .timeout(Duration::from_secs(10))
                .connect_timeout(Duration::from_secs(3))
                .build()
                .expect("a client can be built"),
            load: watch::channel(Load::Usual).0,
        };
        for member in Member::all() {
            let process = site.process(member);
            site.processes.insert(member, process);
        }
        site
    }

    fn process(&self, member: Member) -> Process {
        let root = self.root.clone();
        // The command of the first life is the recipe of all lives; only a worker is told which life it is.
        let recipe = match member.kind {
            Kind::Store | Kind::Broker => {
                servers::describe(&root, &self.net, member);
                servers::command(&root, &self.net, member)
            }
            Kind::Node => self.node_command(member),
            Kind::Worker => self.worker_command(member),
        };
        let journal = self.journal.clone();
        Process::new(member, journal, move |life| {
            let mut command = Command::new(recipe.get_program());
            command.args(recipe.get_args()).stdin(Stdio::null());
            match member.kind {
                Kind::Store | Kind::Broker => command.stdout(Stdio::null()).stderr(Stdio::null()),
                Kind::Node => command.stdout(Stdio::null()).stderr(log_of(&root, member)),
                Kind::Worker => command
                    .args(["--life", &life.to_string()])
                    .stdout(Stdio::null())
                    .stderr(log_of(&root, member)),
            };
            command
        })
    }

    fn node_command(&self, node: Member) -> Command {
        let mut command = self.net.command(node, env!("CARGO_BIN_EXE_tickwheel"));
        let listen = format!("{}:{NODE_PORT}", self.net.address(node));
        command.args(["serve", "--queue", "kafka", "--listen", &listen]);
        // Their network has no one else in it.
        command.arg("--insecure");
        command.args(["--node-name", &node.to_string(), "--clock-offset-file"]);
        command.arg(offset_file(&self.root, node));
        command.args(self.where_servers_are());
        command
    }

    fn worker_command(&self, worker: Member) -> Command {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = self.net.command(worker, &program.display().to_string());
        // Workers use both sources of tasks, and each begins with another node.
        let mut nodes: Vec<String> = Kind::Node.members().map(|node| self.url(node)).collect();
        nodes.rotate_left(usize::from(worker.number) % 3);
        let source = if worker.number.is_multiple_of(2) {
            "poll".to_owned()
        } else {
            self.net.addresses(Kind::Broker, BROKER_PORT)
        };
        command.args(["worker", "--name", &worker.to_string(), "--source", &source]);
        command.args(["--servers", &nodes.join(","), "--directory"]);
        command.arg(&self.root);
        command
    }

    fn where_servers_are(&self) -> Vec<String> {
        let stores = self.net.addresses(Kind::Store, STORE_PORT);
        let brokers = self.net.addresses(Kind::Broker, BROKER_PORT);
        let words = [
            "--store",
            "cassandra",
            "--keyspace",
            KEYSPACE,
            "--cassandra",
        ];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        words.extend([stores, "--kafka".to_owned(), brokers]);
        words
    }

    pub(crate) fn url(&self, node: Member) -> String {
        format!("http://{}:{NODE_PORT}", self.net.address(node))
    }

    pub(crate) fn get(&mut self, member: Member) -> &mut Process {
        self.processes.get_mut(&member).expect("everybody is there")
    }

    /// Starts servers, creates the schema, starts nodes and workers.
    pub(crate) async fn start(&mut self) {
        let servers = || Kind::Store.members().chain(Kind::Broker.members());
        for server in servers() {
            self.get(server).start();
        }
        self.ready(servers()).await;
        say!("servers are ready");
        self.init().await;
        for member in Kind::Node.members().chain(Kind::Worker.members()) {
            self.get(member).start();
        }
        self.ready(Kind::Node.members()).await;
        say!("nodes are ready");
    }

    async fn init(&self) {
        let mut init = Command::new(env!("CARGO_BIN_EXE_tickwheel"));
        init.arg("init").args(self.where_servers_are());
        init.args(["--replication-factor", "3", "--tick", "1s"]);
        init.args([
            "--wheels",
            &WHEELS.to_string(),
            "--slots",
            &SLOTS.to_string(),
        ]);
        // The servers of the ring may not know each other yet.
        for _ in 0..10 {
            let output = init.output().expect("the program can be run");
            if output.status.success() {
                return;
            }
            say!("init: {}", String::from_utf8_lossy(&output.stderr).trim());
            self.time.sleep(Duration::from_secs(2)).await;
        }
        panic!("the schema cannot be created");
    }

    /// Waits until each of them serves; a process that has ended by itself is started again, as
    /// an init system does.
    pub(crate) async fn ready(&mut self, members: impl Iterator<Item = Member>) {
        let until = self.time.moment().after(READY_WAIT_MAX);
        for member in members {
            while !self.is_ready(member).await {
                self.get(member).reap();
                self.get(member).start();
                let root = self.root.display();
                assert!(
                    self.time.moment() < until,
                    "{member} is not ready; its log is below {root}"
                );
                self.time.sleep(Duration::from_millis(200)).await;
            }
        }
    }

    async fn is_ready(&self, member: Member) -> bool {
        match member.kind {
            Kind::Store | Kind::Broker => servers::answers(&self.net, member, &self.time).await,
            Kind::Node => {
                let url = format!("{}/readyz", self.url(member));
                let asked = self.http.get(url).timeout(Duration::from_secs(2)).send();
                asked.await.is_ok_and(|answer| answer.status().is_success())
            }
            // A worker logs its start, and the lack of its work shows at the end.
            Kind::Worker => true,
        }
    }

    /// Tells the clients and the checker which load begins.
    pub(crate) fn set_load(&self, load: Load) {
        let kind = format!("{load:?}").to_lowercase();
        self.journal.note(json!({"what": "load", "kind": kind}));
        self.load.send_replace(load);
    }

    /// Writes a node's clock error.
    pub(crate) fn set_clock(&self, node: Member, offset_ms: i64) {
        let who = node.to_string();
        self.journal
            .note(json!({"what": "offset", "who": who, "ms": offset_ms}));
        fs::write(offset_file(&self.root, node), offset_ms.to_string())
            .expect("a file can be written");
    }

    /// Asks one node after the other; none when no node has a good answer.
    pub(crate) async fn ask(&self, path: &str) -> Option<Value> {
        for node in Kind::Node.members() {
            let asked = self.http.get(format!("{}{path}", self.url(node))).send();
            let Ok(answer) = asked.await else { continue };
            let status = answer.status().as_u16();
            if let Ok(body) = answer.bytes().await
                && let Ok(body) = serde_json::from_slice::<Value>(&body)
                && (status == 200 || status == 404)
            {
                return Some(json!({"status": status, "body": body}));
            }
        }
        None
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // All processes go first: a namespace must be empty when it goes.
        self.processes.clear();
    }
}
