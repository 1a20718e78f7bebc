//! The builder assembles a worker for a program from callbacks, a source of messages, and a server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    Error, Worker,
    context::Context,
    handler::{Handler, erase},
    heartbeater::Place,
    job::{Job, Payload},
    outcome::{Failure, Outcome},
    server::Server,
    source::Source,
};
use crate::{
    client::{Access, Client},
    time_source::TimeSource,
};

/// Address of the service unless another is given.
pub(crate) const SERVER_DEFAULT: &str = "http://127.0.0.1:7420";

/// Tasks of one callback that run at once, unless another number is given.
const CONCURRENCY_DEFAULT: usize = 64;

/// Most tasks of one callback that may run at once: as many messages wait in memory, each of up to a
/// megabyte.
const CONCURRENCY_MAX: usize = 10_000;

/// How long running callbacks may take to end when the worker stops, unless another time is given: within the
/// 30 s that Kubernetes grants.
const DRAIN_LIMIT_DEFAULT: Duration = Duration::from_secs(20);

/// How long an attempt may take, unless another time is given: longer than nearly all callbacks need, and short enough that
/// somebody notices one that hangs.
const ATTEMPT_TIMEOUT_DEFAULT: Option<Duration> = Some(Duration::from_secs(600));

/// Assembles a worker from callbacks, the source of their messages, and a server.
#[derive(Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    callbacks: BTreeMap<String, Handler>,
    twice: Option<String>,
    source: Option<Source>,
    servers: Vec<String>,
    access: Access,
    server: Option<Arc<dyn Server>>,
    name: Option<String>,
    version: Option<String>,
    concurrency: Option<usize>,
    drain_limit: Option<Duration>,
    attempt_timeout: Option<Option<Duration>>,
    time: Option<TimeSource>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("callbacks", &self.callbacks.keys())
            .field("source", &self.source)
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Adds a callback, which runs for each task of this name.
    ///
    /// An error or a panic is a retry. A payload that is not a `T` fails the task for good.
    pub fn callback<T, F, R>(mut self, name: impl Into<String>, callback: F) -> Self
    where
        T: Payload,
        F: Fn(Job<T>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, Failure>> + Send + 'static,
    {
        let name = name.into();
        if self
            .callbacks
            .insert(name.clone(), erase(callback))
            .is_some()
        {
            self.twice = Some(name);
        }
        self
    }

    /// Sets where messages come from.
    pub fn source(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }

    /// Adds a server of the service (or several, separated by commas). When one is away, the next is asked.
    /// Without any, it is `http://127.0.0.1:7420`.
    pub fn server(mut self, server: impl Into<String>) -> Self {
        self.servers.push(server.into());
        self
    }

    /// Sets the API key that every call carries, `twk_...`: one of the role worker, for all callbacks of this worker.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.access.api_key = Some(key.into());
        self
    }

    /// Sets the authorities, in PEM form, one of which signed the certificates of the servers. Those of the machine are
    /// not believed then. Needs the feature `tls`.
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.access.ca = Some(pem.into());
        self
    }

    /// Sets the certificate that the worker shows servers that ask for one, and its private key, both in PEM form.
    /// Needs the feature `tls`.
    pub fn identity(
        mut self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.access.identity = Some((certificate_pem.into(), key_pem.into()));
        self
    }

    /// Adds a header to every call, such as the token of a proxy in between. Its value is not shown in logs.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.access.headers.push((name.into(), value.into()));
        self
    }

    /// Sets all credentials.
    #[cfg(feature = "cli")]
    pub(crate) fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Replaces the HTTP calls to the service, for tests and simulations. Heartbeats are then sent from the
    /// worker's own runtime, whose time may be virtual.
    #[doc(hidden)]
    pub fn calls(mut self, server: Arc<dyn Server>) -> Self {
        self.server = Some(server);
        self
    }

    /// Sets the worker's name, for people; by default host, process and a random part.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the version of the program, which the service shows beside the name of a worker that polls; up to 64 characters, such
    /// as `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Sets how many tasks **of each callback** run at once, 64 by default. Callbacks do not share their slots: a slow
    /// one delays only itself.
    pub const fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = Some(tasks);
        self
    }

    /// Sets how long running callbacks may take to end when the worker stops, 20 s by default; then they are dropped, and
    /// their tasks given back without counting an attempt.
    pub const fn drain_limit(mut self, limit: Duration) -> Self {
        self.drain_limit = Some(limit);
        self
    }

    /// Sets how long an attempt may take whose task has no `attempt_timeout` of its own, ten minutes by default; none is for
    /// ever. Then the callback is dropped, and the attempt counts as failed.
    pub const fn attempt_timeout(mut self, limit: Option<Duration>) -> Self {
        self.attempt_timeout = Some(limit);
        self
    }

    /// Sets the clocks, for tests and simulations.
    #[doc(hidden)]
    pub fn time(mut self, time: TimeSource) -> Self {
        self.time = Some(time);
        self
    }

    /// Builds the worker; sends nothing yet.
    ///
    /// # Errors
    /// [`Error::Setup`] when something is missing or out of range, [`Error::Client`] when a text is not an
    /// address.
    pub fn build(self) -> Result<Worker, Error> {
        let setup = |text: &str| Err(Error::Setup(text.to_owned()));
        if let Some(name) = self.twice {
            return setup(&format!("callback {name:?} is given twice"));
        }
        if self.callbacks.is_empty() {
            return setup("no callback is given: add one with `callback(name, function)`");
        }
        let Some(source) = self.source else {
            return setup(
                "no source is given: add one with `source(Source::poll(server))` or `source(Source::kafka(brokers))`",
            );
        };
        let concurrency = self.concurrency.unwrap_or(CONCURRENCY_DEFAULT);
        if !(1..=CONCURRENCY_MAX).contains(&concurrency) {
            return setup(&format!(
                "a concurrency of {concurrency} is not in 1..={CONCURRENCY_MAX}"
            ));
        }
        let time = self.time.unwrap_or_else(TimeSource::real);
        let mut servers = self.servers;
        if servers.is_empty() {
            servers.push(source.polled().unwrap_or(SERVER_DEFAULT).to_owned());
        }
        let access = self.access;
        let client = |of: &[String]| Client::with_access(of, &access, time.clone());
        let poll_server = match (source.polled(), &self.server) {
            // Polls have connections of their own, and stick to the server that answered one.
            (Some(servers), None) => {
                let servers = [servers.to_owned()];
                Some(Arc::new(client(&servers)?) as Arc<dyn Server>)
            }
            (Some(_), Some(server)) => Some(Arc::clone(server)),
            (None, _) => None,
        };
        let (server, heart_server, place) = match self.server {
            Some(server) => (Arc::clone(&server), server, Place::SameRuntime),
            // Connections belong to the runtime that opened them: the heartbeats have their own.
            None => (
                Arc::new(client(&servers)?) as Arc<dyn Server>,
                Arc::new(client(&servers)?) as Arc<dyn Server>,
                Place::OwnThread,
            ),
        };
        Ok(Worker {
            version: self.version,
            name: self.name.unwrap_or_else(|| name_of_process(&time)),
            callbacks: self.callbacks,
            source,
            server,
            poll_server,
            heart_server,
            place,
            concurrency,
            drain_limit: self.drain_limit.unwrap_or(DRAIN_LIMIT_DEFAULT),
            attempt_timeout: self.attempt_timeout.unwrap_or(ATTEMPT_TIMEOUT_DEFAULT),
            time,
        })
    }
}

fn name_of_process(time: &TimeSource) -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "worker".to_owned());
    let (process, random) = (std::process::id(), time.random() & 0xffff_ffff);
    format!("{host}-{process}-{random:08x}")
}
