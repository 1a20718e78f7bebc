//! The Cassandra store keeps the contract of [`crate::store`] for a cluster of nodes, on Cassandra 4.1 or later
//! or Scylla, through the `scylla` driver.
//!
//! # What it rests on
//! - Consistency is QUORUM, and SERIAL for the rounds of conditional writes, everywhere and explicitly. The
//!   driver's defaults are the LOCAL ones, and mixing the two loses linearizability.
//! - A table is written either conditionally or plainly, never both (`schemas/cassandra/tables.cql` says
//!   which).
//! - The driver repeats nothing by itself: its default policy sends a conditional write again that may
//!   already have been applied. Plain writes are repeated by the caller, with the same timestamp; conditional
//!   ones are not.
//! - Plain writes carry their own timestamps, so that a late repetition never wins over a later write.
//! - Every request ends within [`Settings::request_timeout`], and waits no longer than that for its turn. A
//!   row that shares a request with others' rows waits for them before that, for
//!   [`crate::limits::GATHERED_WAIT_MAX`] at most.
//!
//! # What is where
//! | file | holds |
//! |---|---|
//! | `link` | the driver's session: timeouts, bounds, errors |
//! | `statements` | every statement, prepared |
//! | `pack` | plain writes, grouped by partition and by servers |
//! | `gather` | requests of several callers in one |
//! | `wheel`, `clock`, `task`, `node` | one trait of the seam each |
//! | `record`, `index` | records, and rows of the index |
//! | `body` | contents and what was set aside, for `wheel` |
//! | `group` | conditional writes of tasks that share a partition |
//! | `columns` | the partition of a task's rows |
//! | `ttl` | how long rows live |
//! | `setup` | creating the keyspace, and reading what it was made with |
//! | `place` | which servers are asked first |
//! | `tls`, `refused` | encrypted connections, and what it means that there is none |
//! | `smoke` | proving that the server does what is needed |

mod body;
mod clock;
mod columns;
pub mod conditions;
mod gather;
mod group;
mod index;
mod link;
mod node;
mod pack;
mod place;
mod record;
mod refused;
mod setup;
mod smoke;
mod statements;
mod task;
mod tls;
mod ttl;
mod wheel;

use std::{fmt, sync::Arc, time::Duration};

pub use setup::{Initialized, init, servers};

use self::{
    clock::Clocks, link::Link, pack::Writer, statements::Statements, task::HeartbeatValues,
    wheel::EntryValues,
};
use super::Error;
use crate::{
    model::{ids::TaskId, server_access::ServerAccess, wheel::Shape},
    time_source::{Moment, TimeSource},
};

/// The way to reach a keyspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Servers to ask first, as `host:port`.
    pub contact_points: Vec<String>,
    /// Name of the keyspace: letters, digits and underscores, in lower case.
    pub keyspace: String,
    /// Copies of every row, when the keyspace is created. Later the operator may change it.
    pub replication_factor: u8,
    /// The place where the node runs, to prefer servers nearby. It does not change who must agree: a quorum
    /// of all copies.
    pub local_datacenter: Option<String>,
    /// The rack there whose servers are asked first.
    pub local_rack: Option<String>,
    /// The user, and the terms of encryption.
    pub access: ServerAccess,
    /// When a request is given up.
    pub request_timeout: Duration,
}

impl Settings {
    /// Longest time that a request is worth waiting for; the server gives up at the same time.
    pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
    /// Copies that survive the loss of one server with quorums.
    const REPLICATION_FACTOR: u8 = 3;

    /// Returns settings with the defaults for everything that has one.
    #[must_use]
    pub fn new(contact_points: Vec<String>, keyspace: impl Into<String>) -> Self {
        Self {
            contact_points,
            keyspace: keyspace.into(),
            replication_factor: Self::REPLICATION_FACTOR,
            local_datacenter: None,
            local_rack: None,
            access: ServerAccess::default(),
            request_timeout: Self::REQUEST_TIMEOUT,
        }
    }

    /// Checks the settings that go into statements as text.
    fn check(&self) -> Result<(), Error> {
        let unsuitable = |reason: String| Err(Error::Unsuitable { reason });
        let name = &self.keyspace;
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_lowercase())
            || !name.chars().all(letters)
            || name.len() > 48
        {
            return unsuitable(format!(
                "{name:?} cannot name a keyspace: use at most 48 lower-case letters, digits and underscores, a \
                 letter first"
            ));
        }
        if self.contact_points.is_empty() {
            return unsuitable(
                "no contact point is configured: name at least one host:port".into(),
            );
        }
        if self.replication_factor == 0 {
            return unsuitable("a replication factor of 0 keeps nothing: use 1 to 5".into());
        }
        Ok(())
    }
}

/// A connection to an initialised keyspace.
pub struct Store {
    link: Arc<Link>,
    statements: Statements,
    entries: Writer<EntryValues>,
    heartbeats: Writer<HeartbeatValues>,
    clocks: Clocks,
    shape: Shape,
    time: TimeSource,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("keyspace", &self.statements.keyspace)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Connects to a keyspace that [`init`] has made.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no server answers: try again later. [`Error::Unsuitable`] when the
    /// keyspace is not there, not finished, or of another version; the reason says what to do.
    pub async fn connect(settings: &Settings, time: &TimeSource) -> Result<Arc<Self>, Error> {
        settings.check()?;
        // Boxed, because many requests in a row make a future that is too large for a caller's stack.
        Box::pin(Self::connect_checked(settings, time)).await
    }

    async fn connect_checked(settings: &Settings, time: &TimeSource) -> Result<Arc<Self>, Error> {
        let link = Link::open(settings, time).await?;
        let meta = setup::read_meta(&link, &settings.keyspace).await?;
        let shape = meta.usable(&settings.keyspace)?;
        let store = Self::assemble(link, settings, shape, time).await?;
        Ok(Arc::new(store))
    }

    async fn assemble(
        link: Link,
        settings: &Settings,
        shape: Shape,
        time: &TimeSource,
    ) -> Result<Self, Error> {
        let statements = Statements::prepare(&link, &settings.keyspace).await?;
        let link = Arc::new(link);
        Ok(Self {
            entries: Writer::new(&link, "put entries", &statements.put_entry, time),
            heartbeats: Writer::new(&link, "put heartbeats", &statements.put_heartbeat, time),
            clocks: Clocks::new(&link, &statements, time),
            link,
            statements,
            shape,
            time: time.clone(),
        })
    }

    /// Returns the shape of the wheels, which was fixed when the keyspace was initialised.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Records, when the value is dropped, how long an operation took.
    fn timed(&self, operation: &'static str) -> Timed<'_> {
        Timed {
            operation,
            time: &self.time,
            started: self.time.moment(),
        }
    }

    /// Returns the partition of a task's row and heartbeats.
    fn home(&self, id: TaskId) -> (i16, i64) {
        columns::home(id, &self.shape)
    }
}

/// An operation under way. It is recorded even when its caller gives up.
struct Timed<'a> {
    operation: &'static str,
    time: &'a TimeSource,
    started: Moment,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let took = self.time.moment().since(self.started);
        metrics::histogram!("tickwheel_store_operation_duration_seconds", "op" => self.operation)
            .record(took.as_secs_f64());
    }
}
