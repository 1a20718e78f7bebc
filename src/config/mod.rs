//! The settings configure a node for operators: flag > environment > file > default.
//!
//! One table (`keys.rs`) names every setting with its default and the reason for it. Flags, environment
//! variables, keys of the file, the help and `config print-default` are all made from it, so none can be
//! forgotten. A flag is the name with dashes (`--data-dir`), a variable is `TICKWHEEL_DATA_DIR`, a key of the
//! TOML file is `data_dir`.

mod args;
mod contradictions;
mod credentials;
mod environment;
mod explain;
mod file;
mod key;
mod keys;
mod server_keys;
mod text;
mod variables;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

pub use args::{SettingsArgs, StoreArgs};
pub use contradictions::NEEDS_CLUSTER;
pub use credentials::{Credentials, MessageSigning};
use environment::value_of;
pub use explain::{Explained, explain};
pub use file::print_default;
use keys::{KEYS, Key};
pub use variables::unknown_variables;

use crate::model::{
    address::Range,
    server_access::{Mechanism, Protocol, ServerAccess, are_here},
    smtp::SmtpServer,
    time::TickLength,
    topic_names::TopicNames,
    wheel::Shape,
};

/// Environment variable that names the file.
const FILE_VARIABLE: &str = "TICKWHEEL_CONFIG";

/// A part of the service that a node can play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Registration, queries, administration.
    Api,
    /// Clocks, slots, publication.
    Scanner,
    /// Consumes the queue for executors that pull.
    Controller,
    /// Runs targets of the service's own.
    Executor,
    /// Claim, heartbeat, settle.
    Status,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] = [
        Self::Api,
        Self::Scanner,
        Self::Controller,
        Self::Executor,
        Self::Status,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Scanner => "scanner",
            Self::Controller => "controller",
            Self::Executor => "executor",
            Self::Status => "status",
        }
    }
}

/// The store that keeps tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// A store in this process.
    Embedded,
    /// Cassandra or Scylla.
    Cassandra,
}

/// The queue that carries due tasks to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Kafka beside a shared store, else a queue in this process.
    Auto,
    /// A queue in this process.
    Embedded,
    /// Kafka.
    Kafka,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// Settings of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The roles of the node, in the order of [`Role::ALL`].
    pub roles: Vec<Role>,
    /// The address on which it listens.
    pub listen: SocketAddr,
    /// Whether it may listen beyond this machine while there is no API key.
    pub insecure: bool,
    /// Whether its API answers reads alone.
    pub read_only: bool,
    /// The address at which others reach it; none means `listen`.
    pub advertise: Option<String>,
    /// Further names that its API answers to.
    pub allowed_hosts: Vec<String>,
    /// The path under which people find the dashboard; empty at the root.
    pub base_path: String,
    /// The proxies whose word about prefix and scheme is taken.
    pub proxies: Vec<IpAddr>,
    /// The certificate of its API; none means HTTP without TLS.
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate.
    pub tls_key: Option<PathBuf>,
    /// The authorities of clients; none means that clients need no certificate.
    pub tls_client_ca: Option<PathBuf>,
    /// Addresses that deliveries over HTTP may go to, beside those of the public internet.
    pub http_allow: Vec<Range>,
    /// Directory with the data about time zones; none means those of the program.
    pub time_zones: Option<PathBuf>,
    /// The server for e-mails.
    pub smtp_url: Option<SmtpServer>,
    /// The address that e-mails come from.
    pub smtp_from: Option<String>,
    /// The authorities of that server; none means those of the machine.
    pub smtp_ca: Option<PathBuf>,
    /// The collector that gets traces; none means that there are none.
    pub otlp_endpoint: Option<String>,
    /// The part of the traces that is kept, in millionths.
    pub trace_ppm: u32,
    /// Its name; none means that of the host.
    pub node_name: Option<String>,
    /// The store that keeps tasks.
    pub store: StoreKind,
    /// The queue that carries due tasks.
    pub queue: QueueKind,
    /// Directory of the embedded store.
    pub data_dir: PathBuf,
    /// Contact points of Cassandra.
    pub cassandra: Vec<String>,
    /// The credentials for Cassandra.
    pub cassandra_credentials: Credentials,
    /// Datacenter of Cassandra to prefer.
    pub cassandra_datacenter: Option<String>,
    /// Rack of that datacenter to prefer.
    pub cassandra_rack: Option<String>,
    /// Keyspace of Cassandra.
    pub keyspace: String,
    /// Bootstrap servers of Kafka.
    pub kafka: Vec<String>,
    /// How the brokers call topics and groups of the service.
    pub kafka_names: TopicNames,
    /// How connections to Kafka begin; none means that it follows from the credentials.
    pub kafka_security_protocol: Option<Protocol>,
    /// How Kafka learns the password.
    pub kafka_sasl_mechanism: Mechanism,
    /// How messages of Kafka are signed.
    pub kafka_signing: MessageSigning,
    /// The credentials for Kafka.
    pub kafka_credentials: Credentials,
    /// Copies that `init` asks for; none means as many as there are nodes, up to three.
    pub replication_factor: Option<u16>,
    /// Wheels of a new store; none means a number by its kind.
    pub wheels: Option<u16>,
    /// Length of a tick of a new store.
    pub tick: Duration,
    /// Slots of each wheel of a new store.
    pub slots: i64,
    /// Partitions of a callback's topics.
    pub partitions: u16,
    /// Callbacks that may be polled at the node; none means a number by the queue's kind.
    pub poll_feeds_max: Option<usize>,
    /// Largest content of a task in bytes.
    pub content_bytes_max: usize,
    /// How long a node goes on answering when it was told to stop.
    pub drain_delay: Duration,
    /// How long a node may take to stop after that.
    pub drain_timeout: Duration,
    /// The filter of log lines.
    pub log: String,
    /// The format of log lines.
    pub log_format: LogFormat,
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings = blank();
        for key in KEYS {
            let set = (key.set)(&mut settings, key.default);
            // Tested: every default is a value of its key.
            set.expect("the default is a value of its key");
        }
        settings
    }
}

/// A mistake in one setting, and where it was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The flag, the variable or the key of the file.
    pub origin: String,
    /// The mistake.
    pub reason: String,
}

/// All mistakes in the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid(pub Vec<Problem>);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Problem { origin, reason }) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{origin}: {reason}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Invalid {}

impl Settings {
    /// Loads the settings: the defaults, then the file (named by the flag or `TICKWHEEL_CONFIG`), then the environment,
    /// then the flags.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn load(
        args: &SettingsArgs,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Invalid> {
        let mut settings = Self::default();
        let mut problems = Vec::new();
        let path = args
            .file
            .clone()
            .or_else(|| environment(FILE_VARIABLE).map(PathBuf::from));
        if let Some(path) = path {
            match std::fs::read_to_string(&path) {
                Ok(text) => {
                    problems.extend(settings.apply_file(&path.display().to_string(), &text))
                }
                Err(error) => problems.push(Problem {
                    origin: path.display().to_string(),
                    reason: format!("cannot be read: {error}"),
                }),
            }
        }
        for key in KEYS {
            match value_of(key, &environment) {
                Ok(None) => {}
                Ok(Some((value, variable))) => {
                    problems.extend(settings.set(key, &value, variable));
                }
                Err(problem) => problems.push(problem),
            }
        }
        for (key, value) in &args.values {
            problems.extend(settings.set(key, value, key.flag()));
        }
        problems.extend(settings.contradictions());
        problems.extend(settings.cassandra_credentials.read_password("cassandra"));
        problems.extend(settings.kafka_credentials.read_password("kafka"));
        problems.extend(settings.kafka_signing.read_keys());
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(Invalid(problems))
        }
    }

    /// Returns the format of log lines that a flag or else a variable names; none where neither does, or its value is no format.
    /// It is known also where other settings are refused.
    #[must_use]
    pub fn log_format_asked_for(
        args: &SettingsArgs,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Option<LogFormat> {
        let key = KEYS.iter().find(|key| key.name == "log_format")?;
        let flag = args.values.iter().find(|(given, _)| given.name == key.name);
        let value = match flag {
            Some((_, value)) => value.clone(),
            None => value_of(key, environment).ok()??.0,
        };
        text::log_format(&value).ok()
    }

    /// Loads the settings of a store alone, as [`Settings::load`] does; a queue need not be named.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn load_store(
        args: &StoreArgs,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Invalid> {
        // A store with its queue named is complete.
        let with_queue = |name: &str| match name {
            "TICKWHEEL_KAFKA" => Some("127.0.0.1:9092".to_owned()),
            _ => environment(name),
        };
        Self::load(&args.0, with_queue)
    }

    /// Loads the settings of a file alone.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn from_file(name: &str, text: &str) -> Result<Self, Invalid> {
        let mut settings = Self::default();
        let mut problems = settings.apply_file(name, text);
        problems.extend(settings.contradictions());
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(Invalid(problems))
        }
    }

    /// Returns the shape of the wheels.
    ///
    /// # Errors
    /// [`Invalid`] when these numbers allow none.
    pub fn shape(&self) -> Result<Shape, Invalid> {
        let invalid = |origin: &str, reason: String| {
            Invalid(vec![Problem {
                origin: origin.to_owned(),
                reason,
            }])
        };
        let tick = TickLength::new(self.tick).ok_or_else(|| {
            let (from, to) = (TickLength::MIN, TickLength::MAX);
            invalid(
                "tick",
                format!("must be whole milliseconds from {from:?} to {to:?}"),
            )
        })?;
        if self.slots < 2 {
            return Err(invalid("slots", "must be at least 2".to_owned()));
        }
        let wheels = self.wheels.unwrap_or(match self.store {
            StoreKind::Cassandra => 16,
            StoreKind::Embedded => 4,
        });
        Shape::new(wheels, tick, self.slots)
            .ok_or_else(|| invalid("wheels", "must be a power of two from 1 to 4096".to_owned()))
    }

    fn set(&mut self, key: &Key, value: &str, origin: String) -> Option<Problem> {
        let set = (key.set)(self, value);
        set.err().map(|reason| Problem { origin, reason })
    }
}

impl Settings {
    /// Returns the address of the node's API, for its own machine.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = self.tls_cert.as_ref().map_or("http", |_| "https");
        format!("{scheme}://{}", self.listen)
    }

    /// Returns how to reach Cassandra.
    #[must_use]
    pub fn cassandra_access(&self) -> ServerAccess {
        let credentials = &self.cassandra_credentials;
        credentials.access(credentials.ca.is_some())
    }

    /// Returns how to reach Kafka.
    #[must_use]
    pub fn kafka_access(&self) -> ServerAccess {
        let credentials = &self.kafka_credentials;
        let protocol = credentials::protocol(credentials, self.kafka_security_protocol);
        credentials.access(protocol.has_tls())
    }

    /// Returns a warning for each password that others can read on its way.
    #[must_use]
    pub fn bare_passwords(&self) -> Vec<&'static str> {
        let is_bare = |access: &ServerAccess, hosts: &[String]| {
            access.login.is_some() && access.tls.is_none() && !are_here(hosts)
        };
        let mut warnings = Vec::new();
        if is_bare(&self.cassandra_access(), &self.cassandra) {
            warnings.push("the password of cassandra_user is not encrypted on its way: set cassandra_ca, if the servers have TLS");
        }
        let is_sent = self.kafka_sasl_mechanism == Mechanism::Plain;
        if is_sent && is_bare(&self.kafka_access(), &self.kafka) {
            warnings.push("the password of kafka_user is not encrypted on its way: use sasl_ssl, or a mechanism of SCRAM");
        }
        warnings
    }

    /// Returns the queue that carries due tasks, with [`QueueKind::Auto`] resolved.
    #[must_use]
    pub fn queue_kind(&self) -> QueueKind {
        match (self.queue, self.store) {
            (QueueKind::Auto, StoreKind::Cassandra) => QueueKind::Kafka,
            (QueueKind::Auto, StoreKind::Embedded) => QueueKind::Embedded,
            (kind @ (QueueKind::Kafka | QueueKind::Embedded), _) => kind,
        }
    }
}

/// Returns empty settings, only for [`Settings::default`], which sets every field.
fn blank() -> Settings {
    Settings {
        roles: Vec::new(),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        insecure: false,
        read_only: false,
        advertise: None,
        allowed_hosts: Vec::new(),
        base_path: String::new(),
        proxies: Vec::new(),
        tls_cert: None,
        tls_key: None,
        tls_client_ca: None,
        http_allow: Vec::new(),
        time_zones: None,
        smtp_url: None,
        smtp_from: None,
        smtp_ca: None,
        otlp_endpoint: None,
        trace_ppm: 0,
        node_name: None,
        store: StoreKind::Embedded,
        queue: QueueKind::Auto,
        data_dir: PathBuf::new(),
        cassandra: Vec::new(),
        cassandra_credentials: Credentials::default(),
        cassandra_datacenter: None,
        cassandra_rack: None,
        keyspace: String::new(),
        kafka: Vec::new(),
        kafka_names: TopicNames::default(),
        kafka_security_protocol: None,
        kafka_sasl_mechanism: Mechanism::default(),
        kafka_signing: MessageSigning::default(),
        kafka_credentials: Credentials::default(),
        replication_factor: None,
        wheels: None,
        tick: Duration::ZERO,
        slots: 0,
        partitions: 1,
        poll_feeds_max: None,
        content_bytes_max: 0,
        drain_delay: Duration::ZERO,
        drain_timeout: Duration::ZERO,
        log: String::new(),
        log_format: LogFormat::Text,
    }
}

#[cfg(test)]
mod tests;
