//! The parts give a node its store and its queue, of any kind.

use std::{path::PathBuf, sync::Arc};

use crate::{
    flow::wheel::recover,
    http,
    model::wheel::Shape,
    queue::{
        self, Publisher, Subscriptions,
        embedded::{self as embedded_queue, EmbeddedQueue},
        kafka::{self, KafkaPublisher, KafkaSubscriptions},
    },
    store::{self, Store, Underway, cassandra, embedded},
    time_source::TimeSource,
};

/// The store that keeps tasks.
#[derive(Debug, Clone)]
pub enum StoreOptions {
    /// Cassandra or Scylla.
    Cassandra(Box<cassandra::Settings>),
    /// A store in this process.
    Embedded(Box<embedded::Settings>),
}

impl StoreOptions {
    /// Returns its kind, and the directory or the contact points.
    pub(super) fn named(&self) -> (&'static str, String) {
        match self {
            Self::Cassandra(settings) => ("cassandra", settings.contact_points.join(",")),
            Self::Embedded(settings) => {
                let directory = &settings.directory;
                // The meaning of a relative path depends on where the program was started.
                let whole = std::path::absolute(directory);
                let whole = whole.unwrap_or_else(|_| directory.clone());
                ("embedded", whole.display().to_string())
            }
        }
    }
}

/// The queue that carries due tasks to workers.
#[derive(Debug, Clone)]
pub enum QueueOptions {
    /// Kafka.
    Kafka(Box<kafka::Settings>),
    /// A queue in this process; messages that do not fit into memory go to this directory.
    Embedded(PathBuf),
}

impl QueueOptions {
    /// Returns its kind.
    pub(super) const fn named(&self) -> &'static str {
        match self {
            Self::Kafka(_) => "kafka",
            Self::Embedded(_) => "embedded",
        }
    }
}

/// A store that was connected to.
#[derive(Debug)]
pub(super) enum Connected {
    Cassandra(Arc<cassandra::Store>),
    Embedded(Arc<embedded::Store>),
}

impl Connected {
    /// Connects once.
    pub(super) async fn to(
        options: &StoreOptions,
        time: &TimeSource,
    ) -> Result<Self, store::Error> {
        match options {
            StoreOptions::Cassandra(settings) => Ok(Self::Cassandra(
                cassandra::Store::connect(settings, time).await?,
            )),
            StoreOptions::Embedded(settings) => {
                let (settings, time) = (settings.clone(), time.clone());
                let open = move || embedded::Store::open(*settings, &time);
                let opened = tokio::task::spawn_blocking(open).await;
                let store = opened.map_err(|error| store::Error::Corrupt {
                    operation: "open the data directory",
                    reason: error.to_string(),
                })??;
                Ok(Self::Embedded(store))
            }
        }
    }

    pub(super) fn shape(&self) -> Shape {
        match self {
            Self::Cassandra(store) => store.shape(),
            Self::Embedded(store) => store.shape(),
        }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Cassandra(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// Takes over from the process before, if this one is alone with the store, so that no task waits for
    /// leases of a dead process.
    pub(super) async fn take_over(&self, time: &TimeSource) -> Result<(), store::Error> {
        match self {
            Self::Cassandra(_) => Ok(()),
            Self::Embedded(store) => recover::free_wheels(&**store, &store.shape(), time).await,
        }
    }

    /// Returns the maker of copies; none for a cluster.
    pub(super) fn copies(&self) -> Option<http::Copies> {
        let Self::Embedded(store) = self else {
            return None;
        };
        let store = Arc::clone(store);
        let begin = move || -> Result<http::CopyPieces, String> {
            let pieces = store.backup().map_err(|error| error.to_string())?;
            Ok(Box::new(
                pieces.map(|piece| piece.map_err(|error| error.to_string())),
            ))
        };
        Some(Arc::new(begin))
    }

    /// Returns the store for a recovery, if the queue loses its messages when the process ends.
    pub(super) fn underway(&self, queue: &QueueOptions) -> Option<Arc<dyn Underway>> {
        match (self, queue) {
            (Self::Embedded(store), QueueOptions::Embedded(_)) => {
                Some(Arc::clone(store) as Arc<dyn Underway>)
            }
            (Self::Embedded(_) | Self::Cassandra(_), _) => None,
        }
    }
}

/// A queue's two sides.
pub(super) struct Queue {
    pub(super) publisher: Arc<dyn Publisher>,
    pub(super) subscriptions: Arc<dyn Subscriptions>,
}

impl Queue {
    /// Begins to connect, without waiting for a cluster.
    pub(super) fn to(
        options: &QueueOptions,
        shape: &Shape,
        time: &TimeSource,
    ) -> Result<Self, queue::Error> {
        match options {
            QueueOptions::Kafka(settings) => {
                let mut settings = *settings.clone();
                settings.partitions = settings.partitions.min(i32::from(shape.wheels()));
                let subscriptions = KafkaSubscriptions::new(settings.clone(), time.clone());
                Ok(Self {
                    publisher: Arc::new(KafkaPublisher::connect(settings, time.clone())?),
                    subscriptions: Arc::new(subscriptions),
                })
            }
            QueueOptions::Embedded(directory) => {
                let settings = embedded_queue::Settings::default();
                let queue = EmbeddedQueue::open(directory, time.clone(), settings)?;
                Ok(Self {
                    publisher: Arc::new(queue.clone()),
                    subscriptions: Arc::new(queue),
                })
            }
        }
    }
}
