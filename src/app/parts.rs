//! The parts give a node its store and its queue, of any kind.

use std::{path::PathBuf, sync::Arc};

use super::servers;
use crate::{
    flow::stages::wheel::recover,
    http,
    model::{ids::NodeId, wheel::Shape},
    queue::{self, Publisher, Subscriptions, embedded as embedded_queue, embedded::EmbeddedQueue},
    store::{self, Store, Underway, embedded},
    time_source::TimeSource,
};

/// The store that keeps tasks.
#[derive(Debug, Clone)]
pub enum StoreOptions {
    /// Cassandra or Scylla.
    Cassandra(Box<servers::StoreSettings>),
    /// A store in this process.
    Embedded(Box<embedded::Settings>),
}

impl StoreOptions {
    /// Returns its kind, and the directory or the contact points.
    pub(super) fn named(&self) -> (&'static str, String) {
        match self {
            Self::Cassandra(settings) => ("cassandra", servers::addresses(settings)),
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
    Kafka(Box<servers::QueueSettings>),
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
pub(super) struct Connected {
    pub(super) store: Arc<dyn Store>,
    pub(super) shape: Shape,
    /// The same store, where it is this process's own; none where nodes share it.
    embedded: Option<Arc<embedded::Store>>,
}

impl Connected {
    /// Connects once.
    pub(super) async fn to(
        options: &StoreOptions,
        time: &TimeSource,
    ) -> Result<Self, store::Error> {
        match options {
            StoreOptions::Cassandra(settings) => {
                let (store, shape) = servers::connect(settings, time).await?;
                Ok(Self {
                    store,
                    shape,
                    embedded: None,
                })
            }
            StoreOptions::Embedded(settings) => {
                let (settings, time) = (settings.clone(), time.clone());
                let open = move || embedded::Store::open(*settings, &time);
                let opened = tokio::task::spawn_blocking(open).await;
                let store = opened.map_err(|error| store::Error::Corrupt {
                    operation: "open the data directory",
                    reason: error.to_string(),
                })??;
                Ok(Self {
                    shape: store.shape(),
                    store: Arc::clone(&store) as Arc<dyn Store>,
                    embedded: Some(store),
                })
            }
        }
    }

    /// Takes over from the process before, if this one is alone with the store, so that no task waits for
    /// leases of a dead process.
    pub(super) async fn take_over(&self, time: &TimeSource) -> Result<(), store::Error> {
        match &self.embedded {
            None => Ok(()),
            Some(store) => recover::free_wheels(&**store, &self.shape, time).await,
        }
    }

    /// Returns the maker of copies; none for a cluster.
    pub(super) fn copies(&self) -> Option<http::Copies> {
        let store = Arc::clone(self.embedded.as_ref()?);
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
        match queue {
            QueueOptions::Kafka(_) => None,
            QueueOptions::Embedded(_) => {
                let store = Arc::clone(self.embedded.as_ref()?);
                Some(store as Arc<dyn Underway>)
            }
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
        me: NodeId,
    ) -> Result<Self, queue::Error> {
        match options {
            QueueOptions::Kafka(settings) => {
                let (publisher, subscriptions) = servers::queue(settings, shape, time, me)?;
                Ok(Self {
                    publisher,
                    subscriptions,
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
