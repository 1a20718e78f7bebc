//! This module gives tests a real server without other servers: a node on the store in memory and the
//! embedded queue, with a real socket and the real clock. It shows what virtual time cannot: other processes,
//! broken connections, latency.

use std::{sync::Arc, time::Duration};

use tickwheel::{
    app::{
        self,
        executor::{Executor, mail::Mailer},
    },
    client::Client,
    flow::{
        budget::Budget,
        context::{Context, Settings},
        internal::outbox::Outbox,
        node::Node,
    },
    http,
    model::{address::Allowed, ids::NodeId, time::TickLength, wheel::Shape},
    queue::embedded::{self, EmbeddedQueue},
    store::{faulty::Fate, memory::MemoryStore},
    time_source::TimeSource,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

const DRAIN: Duration = Duration::from_secs(5);

pub(crate) struct Local {
    pub(crate) url: String,
    pub(crate) client: Client,
    node: Node,
    hang_up: CancellationToken,
    serving: JoinHandle<()>,
    executor: Option<(CancellationToken, JoinHandle<()>)>,
    _dir: tempfile::TempDir,
}

impl Local {
    pub(crate) async fn start() -> Self {
        let time = TimeSource::real();
        let tick = TickLength::new(Duration::from_secs(1)).unwrap();
        let shape = Shape::new(4, tick, 100_000).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let queue =
            EmbeddedQueue::open(dir.path(), time.clone(), embedded::Settings::default()).unwrap();
        let node = Node::start(
            Context {
                underway: None,
                me: NodeId(time.random_uuid()),
                name: "local".to_owned(),
                address: String::new(),
                store: MemoryStore::new(shape, time.clone()).handle_with(Arc::new(|_| Fate::Go)),
                publisher: Arc::new(queue.clone()),
                subscriptions: Some(Arc::new(queue)),
                time: time.clone(),
                rules: app::rules(shape),
                contents: Budget::default(),
                handed: Default::default(),
                pokes: Default::default(),
                outbox: Outbox::default(),
                configured: Default::default(),
                settings: Settings::default(),
            },
            DRAIN,
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let hang_up = CancellationToken::new();
        let options = http::Options::new(time.clone(), hang_up.clone());
        let router = http::router(node.service(), options);
        Self {
            client: Client::connect(&url).unwrap(),
            serving: tokio::spawn(http::serve(listener, router, hang_up.clone())),
            executor: None,
            url,
            node,
            hang_up,
            _dir: dir,
        }
    }

    /// A server that runs the service's own tasks, and delivers also to these addresses.
    pub(crate) async fn executing(allowed: &[&str]) -> Self {
        Self::executing_with(allowed, None).await
    }

    /// A server that runs the service's own tasks, and sends e-mails.
    pub(crate) async fn executing_with(allowed: &[&str], mail: Option<Arc<dyn Mailer>>) -> Self {
        let local = Self::start().await;
        let ranges = allowed.iter().map(|range| range.parse().unwrap());
        let executor = Executor {
            service: local.node.service(),
            node: "local".to_owned(),
            time: TimeSource::real(),
            drain_limit: Duration::from_secs(1),
            allowed: Allowed::these(ranges.collect()),
            mail,
        };
        let stop = CancellationToken::new();
        let running = tokio::spawn(executor.run(stop.clone()));
        Self {
            executor: Some((stop, running)),
            ..local
        }
    }

    /// Stops as the program does on SIGTERM.
    pub(crate) async fn stop(self) {
        if let Some((stop, running)) = self.executor {
            stop.cancel();
            running.await.unwrap();
        }
        self.node.leave();
        self.hang_up.cancel();
        self.serving.await.unwrap();
        self.node.stop(DRAIN).await;
    }
}
