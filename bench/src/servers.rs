//! The servers prepare a run for the scenarios beside Cassandra and Kafka: keyspaces, program, service.
//!
//! They create fresh keyspaces, start the real program as a child process, and start the service in this
//! process.

use std::{
    ffi::OsString,
    fs::File,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use tickwheel::{
    client::Client,
    flow::{
        base::context::{Context, Settings},
        stages::node::Node,
    },
    model::{clock::Rules, ids::NodeId, time::TickLength, wheel::Shape},
    queue::{
        Publisher as _,
        kafka::{self, KafkaPublisher},
    },
    store::cassandra,
    time_source::TimeSource,
};

/// The program's own defaults, so that the figures are those of a node without settings.
const WHEELS: u16 = 16;
const TICK: Duration = Duration::from_secs(1);
const SLOTS: i64 = 100_000_000;
pub(crate) const PARTITIONS: i32 = 8;

/// Longest time for the program to become ready.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Longest time for nodes to drain.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// The addresses and names of a run.
#[derive(Debug, Clone)]
pub(crate) struct Servers {
    pub(crate) cassandra: String,
    pub(crate) kafka: String,
    /// The program under test.
    pub(crate) program: PathBuf,
    /// Keyspace of the service in this run.
    pub(crate) keyspace: String,
    pub(crate) time: TimeSource,
}

impl Servers {
    /// Returns the settings of a keyspace.
    pub(crate) fn settings(&self, keyspace: &str) -> cassandra::Settings {
        let points = self.cassandra.split(',').map(str::to_owned).collect();
        let mut settings = cassandra::Settings::new(points, keyspace);
        settings.replication_factor = 1;
        settings
    }

    /// Returns the keyspace of the raw scenarios: the same tables, with no other writer.
    pub(crate) fn raw_keyspace(&self) -> String {
        format!("{}_raw", self.keyspace)
    }

    /// Creates both keyspaces, as `tickwheel init` does.
    pub(crate) async fn init(&self) -> anyhow::Result<()> {
        for keyspace in [self.keyspace.clone(), self.raw_keyspace()] {
            let settings = self.settings(&keyspace);
            Box::pin(cassandra::init(&settings, shape()?, &self.time)).await?;
        }
        Ok(())
    }

    /// Creates topics as the service does.
    pub(crate) async fn topics(&self, topics: &[String]) -> anyhow::Result<()> {
        let publisher = self.publisher()?;
        publisher.ensure_topics(topics).await?;
        publisher.close(Duration::from_secs(5)).await;
        Ok(())
    }

    fn publisher(&self) -> anyhow::Result<KafkaPublisher> {
        let mut settings = kafka::Settings::new(&self.kafka);
        settings.partitions = PARTITIONS;
        Ok(KafkaPublisher::connect(settings, self.time.clone())?)
    }

    /// Starts the service in this process without a wheel, so that it only takes registrations.
    pub(crate) async fn in_process(&self) -> anyhow::Result<InProcess> {
        let store = Box::pin(cassandra::Store::connect(
            &self.settings(&self.keyspace),
            &self.time,
        ))
        .await?;
        let rules = Rules::of(store.shape());
        let context = Context {
            name: "bench".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            settings: Settings {
                scans: false,
                ..Settings::default()
            },
            ..Context::new(
                NodeId(self.time.random_uuid()),
                store,
                Arc::new(self.publisher()?),
                self.time.clone(),
                rules,
            )
        };
        Ok(InProcess(Node::start(context, STOP_LIMIT)))
    }

    /// Starts `tickwheel serve` on a free port and waits until it is ready.
    pub(crate) async fn serve(&self) -> anyhow::Result<Server> {
        self.serve_with(&[]).await
    }

    /// The same, with more arguments.
    pub(crate) async fn serve_with(&self, more: &[OsString]) -> anyhow::Result<Server> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = std::env::temp_dir().join(format!("{}-{port}.log", self.keyspace));
        let child = Command::new(&self.program)
            .arg("serve")
            .args(["--store", "cassandra", "--cassandra", &self.cassandra])
            .args(["--keyspace", &self.keyspace, "--kafka", &self.kafka])
            .args(["--queue", "kafka", "--listen", &format!("127.0.0.1:{port}")])
            .args(["--log", "warn"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let mut server = Server {
            child,
            url: format!("http://127.0.0.1:{port}"),
        };
        let client = Client::connect(&server.url)?;
        let end = self.time.moment().after(START_LIMIT);
        while client.ready().await.is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended with {status}: see {}", log.display());
            }
            if self.time.moment() >= end {
                bail!("the server was not ready in time: see {}", log.display());
            }
            self.time.sleep(Duration::from_millis(100)).await;
        }
        Ok(server)
    }
}

/// Returns the shape of the wheels: the program's default.
pub(crate) fn shape() -> anyhow::Result<Shape> {
    let tick = TickLength::new(TICK).context("the length of a tick")?;
    Shape::new(WHEELS, tick, SLOTS).context("the shape of the wheels")
}

/// The service in this process.
pub(crate) struct InProcess(Node);

impl InProcess {
    pub(crate) fn service(&self) -> Arc<tickwheel::flow::stages::service::Service> {
        self.0.service()
    }

    pub(crate) async fn stop(self) {
        self.0.stop(STOP_LIMIT).await;
    }
}

/// A running server; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Server {
    /// Returns the id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        let address = self.url.strip_prefix("http://").context("no address")?;
        Ok(address.parse()?)
    }

    /// Asks the server to drain and waits until it has ended.
    pub(crate) async fn stop(mut self, time: &TimeSource) -> anyhow::Result<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        let end = time.moment().after(2 * STOP_LIMIT);
        while self.child.try_wait()?.is_none() {
            if time.moment() >= end {
                bail!("the server did not drain in time");
            }
            time.sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; then there is no work left.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
