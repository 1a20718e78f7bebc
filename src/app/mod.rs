//! The app assembles a node from its parts for `serve` and `dev`, runs it, and stops it in order.
//!
//! The API answers from the first moment, also while the node still waits for its store. A store that is away
//! at the start is waited for. A store that is not set up as needed ends the program with a sentence that
//! says what to do.

pub mod executor;
mod open_door;
mod parts;
#[cfg_attr(not(feature = "cluster"), path = "no_servers.rs")]
mod servers;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use executor::{
    Executor,
    mail::{Mailer, Smtp, SmtpOptions},
};
use metrics_exporter_prometheus::PrometheusHandle;
use open_door::is_too_open;
use parts::{Connected, Queue};
pub use parts::{QueueOptions, StoreOptions};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    flow::{
        base::{
            context::{Context, Settings},
            records::api_keys::ApiKeys,
        },
        stages::node::Node,
    },
    http::{self, server::starting::Gate, tls},
    model::{
        address::{Allowed, Range},
        clock::Rules,
        ids::NodeId,
    },
    queue, store, telemetry,
    time_source::TimeSource,
};

/// The parts and settings of a node.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address on which the API listens.
    pub listen: SocketAddr,
    /// The node's name, for people.
    pub name: String,
    /// The address at which others reach its API; without it, the address on which it listens.
    pub advertise: Option<String>,
    /// Whether it may listen beyond this machine while there is no API key.
    pub insecure: bool,
    /// Whether its API answers reads alone.
    pub read_only: bool,
    /// Further names that its API answers to: `HOST` or `HOST:PORT`.
    pub allowed_hosts: Vec<String>,
    /// The path under which people find the dashboard; empty at the root.
    pub base_path: String,
    /// The proxies whose word about prefix and scheme is taken.
    pub proxies: Vec<IpAddr>,
    /// The files of TLS; without them the API is answered in the clear.
    pub tls: Option<tls::Files>,
    /// The store.
    pub store: StoreOptions,
    /// The queue.
    pub queue: QueueOptions,
    /// Whether the node hands tasks to workers that poll (role `controller`).
    pub polled: bool,
    /// Whether the node runs the service's own tasks (role `executor`).
    pub executes: bool,
    /// Addresses that deliveries over HTTP may go to, beside those of the public internet.
    pub http_allow: Vec<Range>,
    /// How e-mails go out; none means that tasks which ask for one are refused.
    pub mail: Option<SmtpOptions>,
    /// Bounds, and whether it owns wheels.
    pub settings: Settings,
    /// How long the node goes on answering when it was told to stop, while it says that it is not ready.
    pub drain_delay: Duration,
    /// How long work under way may take when the node stops after that.
    pub drain_timeout: Duration,
    /// Largest content of a task, encoded.
    pub content_bytes_max: usize,
    /// The format of log lines, also of the line that says that the node is ready.
    pub log_format: telemetry::LogFormat,
}

impl Options {
    /// Logs the version, the parts of the node and the address that it was told to listen on: the first line of every log, before
    /// warnings and before anything is opened. The line that says that it is ready has the address that it got.
    pub fn say_start(&self) {
        let version = env!("CARGO_PKG_VERSION");
        let (store, at) = self.store.named();
        let (queue, node, address) = (self.queue.named(), &self.name, self.listen);
        let tls = self.tls.is_some();
        tracing::info!(version, node, %address, tls, store, at, queue, "tickwheel starts");
    }
}

/// Why a node ended without being told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node cannot listen on its address.
    #[error("cannot listen on {address}: {cause}: choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The files of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// The settings for e-mails cannot be used.
    #[error("{0}")]
    Mail(String),
    /// The node would let everybody in.
    #[error(
        "{address} is reached from beyond this machine, and there is no API key: make the first one with `tickwheel api-key \
         create --role admin --name NAME` and the store's flags (such as --data-dir), or listen on 127.0.0.1, or let everybody \
         in with --insecure"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// The store cannot be used at all.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The queue cannot be used at all.
    #[error(transparent)]
    Queue(#[from] queue::Error),
}

/// Opens a store without a node, for commands that look after it.
///
/// # Errors
/// When it cannot be used, or is in use.
pub async fn open_store(
    options: &StoreOptions,
    time: &TimeSource,
) -> Result<Arc<dyn store::Store>, store::Error> {
    Ok(Connected::to(options, time).await?.store)
}

/// Runs a node until `stop`, then drains it.
///
/// `ready` gets the address once the node can do its work.
///
/// # Errors
/// When the address cannot be listened on, or store or queue cannot be used at all.
pub async fn run(
    options: Options,
    time: TimeSource,
    prometheus: Option<PrometheusHandle>,
    stop: CancellationToken,
    ready: oneshot::Sender<SocketAddr>,
) -> Result<(), Error> {
    let mail = mailer(&options, &time)?;
    let cannot_listen = |cause| Error::Listen {
        address: options.listen,
        cause,
    };
    let tls = load_tls(&options).await?;
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    let (gate, front) = Gate::closed("not connected yet");
    let hang_up = CancellationToken::new();
    let serving = serve(listener, tls, front, &time, prometheus.clone(), &hang_up);

    let Some(store) = connect(&options, &time, &gate, &stop).await? else {
        hang_up.cancel();
        serving.wait().await;
        return Ok(());
    };
    let keys = ApiKeys::of_store(Arc::clone(&store.store), time.clone());
    if is_too_open(&keys, address, options.insecure, &time, &stop).await {
        return Err(Error::Open { address });
    }
    store.take_over(&time).await?;
    let node = start(&options, &time, &store, address)?;
    let closing = CancellationToken::new();
    let mut api = api_options(&options, address, &time, prometheus, &closing);
    api.stopping = stop.clone();
    api.copies = store.copies();
    api.walk = node.walk();
    gate.open(http::router(node.service(), api));
    if announce(&node, &options, address, &time, &stop).await {
        // The receiver may be gone.
        ready.send(address).ok();
    }
    let executor = execute(&options, mail, &time, &node, &closing);

    stop.cancelled().await;
    answer_on(options.drain_delay, &time).await;
    tracing::info!("stopping: finishing what is under way");
    closing.cancel();
    let under_way = UnderWay {
        serving,
        hang_up,
        executor,
    };
    drain(node, under_way, options.drain_timeout, &time).await;
    tracing::info!("stopped");
    Ok(())
}

/// Begins to answer requests, and what goes on beside that.
fn serve(
    listener: TcpListener,
    tls: Option<Arc<tls::Tls>>,
    front: Router,
    time: &TimeSource,
    prometheus: Option<PrometheusHandle>,
    hang_up: &CancellationToken,
) -> TaskTracker {
    let serving = TaskTracker::new();
    let kept = tls.clone();
    serving.spawn(http::serve_with(listener, tls, front, hang_up.clone()));
    if let Some(tls) = kept {
        serving.spawn(tls.keep(time.clone(), hang_up.clone()));
    }
    if let Some(handle) = prometheus {
        serving.spawn(telemetry::keep_metrics_small(
            handle,
            time.clone(),
            hang_up.clone(),
        ));
    }
    serving.close();
    serving
}

/// The work that a node ends before its stages.
struct UnderWay {
    serving: TaskTracker,
    hang_up: CancellationToken,
    executor: Option<JoinHandle<()>>,
}

/// Ends requests and internal tasks, then the stages of the node.
async fn drain(node: Node, under_way: UnderWay, timeout: Duration, time: &TimeSource) {
    let UnderWay {
        serving,
        hang_up,
        executor,
    } = under_way;
    let until = time.moment().after(timeout);
    node.leave();
    hang_up.cancel();
    let (limit, requests, tasks) = (
        timeout / 2,
        "requests are still open: they are cut off",
        "tasks of the service still run: they come again",
    );
    tokio::join!(
        finished(serving.wait(), limit, time, requests),
        finished(ended(executor), limit, time, tasks),
    );
    node.stop(until.since(time.moment())).await;
}

/// Returns the sender of e-mails, if the settings have one.
fn mailer(options: &Options, time: &TimeSource) -> Result<Option<Arc<dyn Mailer>>, Error> {
    let Some(mail) = &options.mail else {
        return Ok(None);
    };
    let smtp = Smtp::new(mail, time.clone()).map_err(Error::Mail)?;
    Ok(Some(Arc::new(smtp)))
}

/// Starts the executor of a node that has the role.
fn execute(
    options: &Options,
    mail: Option<Arc<dyn Mailer>>,
    time: &TimeSource,
    node: &Node,
    closing: &CancellationToken,
) -> Option<JoinHandle<()>> {
    let executor = options.executes.then(|| Executor {
        service: node.service(),
        node: options.name.clone(),
        time: time.clone(),
        drain_limit: options.drain_timeout / 4,
        allowed: Allowed::these(options.http_allow.clone()),
        mail,
    })?;
    Some(tokio::spawn(executor.run(closing.clone())))
}

/// Waits for work that a stop must not wait for any longer: others need the rest of the time to hand over the wheels.
async fn finished(
    work: impl Future<Output = ()>,
    limit: Duration,
    time: &TimeSource,
    late: &'static str,
) {
    if time.within(limit, work).await.is_none() {
        tracing::warn!("{late}");
    }
}

/// Reads the files of TLS, if there are any.
async fn load_tls(options: &Options) -> Result<Option<Arc<tls::Tls>>, Error> {
    Ok(match options.tls.clone() {
        Some(files) => Some(Arc::new(tls::Tls::load(files).await?)),
        None => None,
    })
}

/// Waits for the end of the executor, if there is one.
async fn ended(executor: Option<JoinHandle<()>>) {
    if let Some(executor) = executor
        && let Err(error) = executor.await
    {
        tracing::error!(%error, "the executor failed");
    }
}

/// Lets the node work on for a while, not ready any more, until those who balance load have noticed.
async fn answer_on(delay: Duration, time: &TimeSource) {
    if !delay.is_zero() {
        tracing::info!(?delay, "not ready any more, working on for a while");
        time.sleep(delay).await;
    }
}

/// Settings of the node's API, beside the service.
fn api_options(
    options: &Options,
    address: SocketAddr,
    time: &TimeSource,
    prometheus: Option<PrometheusHandle>,
    stop: &CancellationToken,
) -> http::Options {
    let named = options.allowed_hosts.iter().chain(&options.advertise);
    let mut api = http::Options::new(time.clone(), stop.clone());
    api.prometheus = prometheus;
    api.content_bytes_max = options.content_bytes_max;
    api.has_kafka = matches!(options.queue, QueueOptions::Kafka(_));
    api.has_mail = options.mail.is_some();
    api.store_is_far = matches!(options.store, StoreOptions::Cassandra(_));
    api.hosts = http::Hosts::new(address, named.cloned());
    api.keys_required = !address.ip().is_loopback() && !options.insecure;
    api.read_only = options.read_only;
    api.tls = options.tls.is_some();
    api.base_path = options.base_path.clone();
    api.proxies = http::Proxies(options.proxies.clone());
    api
}

/// Starts a node on a connected store.
fn start(
    options: &Options,
    time: &TimeSource,
    store: &Connected,
    address: SocketAddr,
) -> Result<Node, Error> {
    let me = NodeId(time.random_uuid());
    let Queue {
        publisher,
        subscriptions,
    } = Queue::to(&options.queue, &store.shape, time, me)?;
    let advertised = options.advertise.clone();
    let context = Context {
        name: options.name.clone(),
        address: advertised.unwrap_or_else(|| address.to_string()),
        underway: store.underway(&options.queue),
        subscriptions: (options.polled || options.executes).then_some(subscriptions),
        settings: Settings {
            answers_polls: options.polled,
            ..options.settings
        },
        ..Context::new(
            me,
            Arc::clone(&store.store),
            publisher,
            time.clone(),
            Rules::of(store.shape),
        )
    };
    Ok(Node::start(context, options.drain_timeout))
}

/// Connects to the store, for as long as it takes. Returns none when the program is stopped meanwhile.
async fn connect(
    options: &Options,
    time: &TimeSource,
    gate: &Gate,
    stop: &CancellationToken,
) -> Result<Option<Connected>, Error> {
    const PAUSE: Duration = Duration::from_millis(500);
    let mut said = String::new();
    loop {
        let connecting = Connected::to(&options.store, time);
        let connected = tokio::select! {
            connected = connecting => connected,
            () = stop.cancelled() => return Ok(None),
        };
        match connected {
            Ok(store) => return Ok(Some(store)),
            Err(error @ (store::Error::Unavailable { .. } | store::Error::Full { .. })) => {
                let reason = error.to_string();
                if said != reason {
                    tracing::warn!(reason, "waiting for the store");
                    said.clone_from(&reason);
                }
                gate.waits_for(reason);
            }
            Err(
                error @ (store::Error::Corrupt { .. }
                | store::Error::Newer { .. }
                | store::Error::Unsuitable { .. }),
            ) => {
                return Err(error.into());
            }
        }
        time.sleep(PAUSE).await;
    }
}

/// Prints one line on standard error once the node can do its work, whichever lines the log filters out.
/// Returns false when the node was stopped before.
async fn announce(
    node: &Node,
    options: &Options,
    address: SocketAddr,
    time: &TimeSource,
    stop: &CancellationToken,
) -> bool {
    const PAUSE: Duration = Duration::from_millis(50);
    let service = node.service();
    let mut waited = Duration::ZERO;
    while !stop.is_cancelled() {
        let problems: Vec<String> = service
            .readiness()
            .into_iter()
            .filter_map(|check| {
                check
                    .problem
                    .map(|problem| format!("{}: {problem}", check.name))
            })
            .collect();
        if problems.is_empty() {
            let scheme = options.tls.as_ref().map_or("http", |_| "https");
            let ready = format!("ready on {scheme}://{address}");
            telemetry::announce(options.log_format, tracing::Level::INFO, &ready);
            return true;
        }
        time.sleep(PAUSE).await;
        waited += PAUSE;
        if waited.as_secs().is_multiple_of(5) && waited.subsec_nanos() == 0 {
            tracing::warn!(problems = problems.join("; "), "not ready yet");
        }
    }
    false
}
