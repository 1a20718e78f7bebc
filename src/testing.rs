//! The test kit starts a whole service inside of a test, for programs that register tasks or run callbacks.
//!
//! A [`TestService`] is a node with its real HTTP API on a port of its own, and with a store in memory. Its clock can be moved
//! forward, so a test of a reminder in three days ends within a second or two. Retries, heartbeats, cancels, limits, keys,
//! schedules and trees work as in a service with a disk. It ends when it is dropped; [`TestService::stop`] waits for that.
//!
//! ```
//! use std::time::Duration;
//!
//! use tickwheel::{
//!     client::{Task, TaskState},
//!     testing::TestService,
//!     worker::{Context, Job, Outcome},
//! };
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = TestService::start().await?;
//! let worker = service
//!     .worker()
//!     .callback("remind", |job: Job<String>, _: Context| async move {
//!         assert_eq!(job.payload, "water the plants");
//!         Ok(Outcome::Done)
//!     })
//!     .build()?;
//! let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
//! let working = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
//!
//! let in_three_days = Duration::from_secs(3 * 24 * 3600);
//! let task = Task::callback("remind").delay(in_three_days).json(&"water the plants")?;
//! let id = service.client().register(task).await?.id;
//! service.advance(in_three_days).await?;
//! let task = service.client().get(id).await?;
//! assert_eq!(task.state, TaskState::Succeeded);
//!
//! drop(stop);
//! working.await??;
//! service.stop().await;
//! # Ok(()) }
//! ```
//!
//! The kit leaves to a real service what needs others: tasks over HTTP, notices and actions are kept and not carried out, and
//! topics of Kafka are kept in the directory for temporary files. It needs the feature `testing`.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    client::{self, Client},
    doubles::store::{faulty::Fate, memory::MemoryStore},
    flow::{
        base::context::Context,
        stages::{node::Node, service::Service, walk::Walk},
    },
    http,
    limits::WALK_SETTLE,
    model::{clock::Rules, ids::NodeId, time::TickLength, wheel::Shape},
    queue::embedded::{self, EmbeddedQueue},
    time_source::TimeSource,
    worker::{self, Source, Worker},
};

/// How long the end of a service waits for calls and tasks under way.
const DRAIN: Duration = Duration::from_secs(5);

/// Wheels of the service, and its tick: as few reads as possible while the clock is moved.
const WHEELS: u16 = 1;
const TICK: Duration = Duration::from_secs(60);

/// Ticks of a turn of the wheel.
const SLOTS: i64 = 100_000;

/// The reason why a service for tests did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine has no port, or no room for temporary files.
    #[error("the test service cannot start: {0}")]
    Machine(#[from] std::io::Error),
    /// The queue of the service cannot be opened.
    #[error("the test service cannot start: {0}")]
    Service(String),
    /// The client of the service cannot be made.
    #[error(transparent)]
    Client(#[from] client::Error),
}

/// The events on the way of the clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advanced {
    /// Tasks that were handed out for the first time.
    pub fired: u64,
    /// Attempts that did not end in time, and tasks that their workers did not take in time. They go on.
    pub unsettled: u64,
    /// Tasks that are due, and that no worker asks for.
    pub waiting: u64,
}

/// A service for one test. See the [module](self).
#[derive(Debug)]
pub struct TestService {
    url: String,
    client: Client,
    time: TimeSource,
    walk: Arc<Walk>,
    node: Node,
    serving: JoinHandle<()>,
    /// Dropped, they end the listener and the stages of the node.
    hang_up: DropGuard,
    _stages: [DropGuard; 3],
    _directory: tempfile::TempDir,
}

impl TestService {
    /// Starts a service, which answers when this returns.
    ///
    /// # Errors
    /// [`Error`] when the machine has no port, or no room for temporary files.
    pub async fn start() -> Result<Self, Error> {
        let time = TimeSource::by_hand();
        let directory = tempfile::tempdir()?;
        let shape = TickLength::new(TICK).and_then(|tick| Shape::new(WHEELS, tick, SLOTS));
        let shape = shape.ok_or_else(|| Error::Service("the wheel has no shape".to_owned()))?;
        let queue = EmbeddedQueue::open(
            directory.path(),
            time.clone(),
            embedded::Settings::default(),
        );
        let queue = queue.map_err(|error| Error::Service(error.to_string()))?;
        let context = Context {
            name: "test".to_owned(),
            subscriptions: Some(Arc::new(queue.clone())),
            ..Context::new(
                NodeId(time.random_uuid()),
                MemoryStore::new(shape, time.clone()).handle_with(Arc::new(|_| Fate::Go)),
                Arc::new(queue),
                time.clone(),
                Rules::of(shape),
            )
        };
        let node = Node::start(context, DRAIN);
        let walk = node.walk();
        let walk = walk.ok_or_else(|| Error::Service("its clock cannot be moved".to_owned()))?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let hang_up = CancellationToken::new();
        let mut options = http::Options::new(time.clone(), hang_up.clone());
        options.walk = Some(Arc::clone(&walk));
        let router = http::router(node.service(), options);
        Ok(Self {
            client: Client::connect(&url)?,
            serving: tokio::spawn(http::serve(listener, router, hang_up.clone())),
            _stages: node.guards(),
            url,
            time,
            walk,
            node,
            hang_up: hang_up.drop_guard(),
            _directory: directory,
        })
    }

    /// Returns the address of the API, for programs that are tested as a whole: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a client of the service.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the beginning of a worker that polls the service and has its clock.
    pub fn worker(&self) -> worker::Builder {
        let builder = Worker::builder().source(Source::poll(&self.url));
        builder.time(self.time.clone())
    }

    /// Returns the time that the clock of the service shows. Start times in tests are counted from it.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let since_1970 = u64::try_from(self.time.now().0).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_millis(since_1970)
    }

    /// Moves the clock of the service forward, and stops at each due time on the way: starts, retries, schedules, expiries,
    /// deadlines. At each stop it waits until workers have done what came due, 5 s at most. So nothing is late, and what
    /// handlers register on the way takes part.
    ///
    /// # Errors
    /// [`Error::Service`] when the service cannot go on.
    pub async fn advance(&self, by: Duration) -> Result<Advanced, Error> {
        let to = self.time.now().after(by);
        let mut all = Advanced::default();
        loop {
            let walked = self.walk.advance(to, WALK_SETTLE).await;
            let walked = walked.map_err(|fault| Error::Service(fault.to_string()))?;
            all.fired += walked.fired;
            all.unsettled += walked.unsettled;
            all.waiting = walked.waiting;
            if walked.is_there {
                return Ok(all);
            }
        }
    }

    /// Moves the clock of the service forward at once, as if the service had been off meanwhile: what came due is late then.
    pub async fn jump(&self, by: Duration) {
        self.walk.jump(self.time.now().after(by)).await;
    }

    /// Returns the inside of the service, for tests of the service itself.
    #[doc(hidden)]
    #[must_use]
    pub fn service(&self) -> Arc<Service> {
        self.node.service()
    }

    /// Stops the service, once calls under way are answered: fifteen seconds later at most.
    pub async fn stop(self) {
        self.node.leave();
        drop(self.hang_up);
        drop(self.serving.await);
        self.node.stop(DRAIN).await;
    }
}
