//! The app assembles a node from its parts for `serve` and `dev`, runs it, and stops it in order.
//!
//! The API answers from the first moment, also while the node still waits for its store. A store that is away
//! at the start is waited for. A store that is not set up as needed ends the program with a sentence that
//! says what to do.

mod parts;

use std::{net::SocketAddr, time::Duration};

use metrics_exporter_prometheus::PrometheusHandle;
use parts::{Connected, Queue};
pub use parts::{QueueOptions, StoreOptions};
use tokio::{net::TcpListener, sync::oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    flow::{
        budget::Budget,
        context::{Context, Settings},
        node::Node,
    },
    http::{self, server::starting::Gate},
    model::{clock::Rules, ids::NodeId, wheel::Shape},
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
    /// Further names that its API answers to: `HOST` or `HOST:PORT`.
    pub allowed_hosts: Vec<String>,
    /// The store.
    pub store: StoreOptions,
    /// The queue.
    pub queue: QueueOptions,
    /// Whether the node hands tasks to workers that poll (role `controller`).
    pub polled: bool,
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
    /// The store cannot be used at all.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The queue cannot be used at all.
    #[error(transparent)]
    Queue(#[from] queue::Error),
}

/// Constants of the clock protocol; they are the same on all nodes.
#[must_use]
pub const fn rules(shape: Shape) -> Rules {
    Rules {
        shape,
        // Two ticks: one that is being fired, one that is being read.
        look_ahead: 2,
        // A dead owner delays its tasks by this. Most pauses of a process are shorter.
        lease: Duration::from_secs(5),
        grace: Duration::from_secs(3),
        // Clocks under NTP are much closer than this; a clock that is not is broken.
        skew_max: Duration::from_secs(1),
        stall_max: Duration::from_secs(15),
    }
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
    let cannot_listen = |cause| Error::Listen {
        address: options.listen,
        cause,
    };
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    say_start(&options, address);
    let (gate, front) = Gate::closed("not connected yet");
    let (serving, hang_up) = (TaskTracker::new(), CancellationToken::new());
    serving.spawn(http::serve(listener, front, hang_up.clone()));
    if let Some(handle) = prometheus.clone() {
        serving.spawn(telemetry::keep_metrics_small(
            handle,
            time.clone(),
            hang_up.clone(),
        ));
    }
    serving.close();

    let Some(store) = connect(&options, &time, &gate, &stop).await? else {
        hang_up.cancel();
        serving.wait().await;
        return Ok(());
    };
    store.take_over(&time).await?;
    let node = start(&options, &time, &store, address)?;
    let closing = CancellationToken::new();
    let mut api = api_options(&options, address, &time, prometheus, &closing);
    api.stopping = stop.clone();
    gate.open(http::router(node.service(), api));
    if announce(&node, address, options.log_format, &time, &stop).await {
        // The receiver may be gone.
        ready.send(address).ok();
    }

    stop.cancelled().await;
    answer_on(options.drain_delay, &time).await;
    tracing::info!("stopping: finishing what is under way");
    closing.cancel();
    let until = time.moment().after(options.drain_timeout);
    node.leave();
    hang_up.cancel();
    // A client that does not end its request must not use up the time in which the wheels are handed over.
    let answered = time.within(options.drain_timeout / 2, serving.wait());
    if answered.await.is_none() {
        tracing::warn!("requests are still open: they are cut off");
    }
    node.stop(until.since(time.moment())).await;
    tracing::info!("stopped");
    Ok(())
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
    api.store_is_far = matches!(options.store, StoreOptions::Cassandra(_));
    api.hosts = http::Hosts::new(address, named.cloned());
    api
}

/// Warns of listening beyond this machine, since there is no authentication.
fn warn_if_open(address: SocketAddr) {
    if !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "the API listens beyond this machine and asks nobody for a key: whoever reaches this address can read, \
             register and cancel all tasks; let only a network or a proxy that you trust reach it"
        );
    }
}

/// Starts a node on a connected store.
fn start(
    options: &Options,
    time: &TimeSource,
    store: &Connected,
    address: SocketAddr,
) -> Result<Node, Error> {
    let Queue {
        publisher,
        subscriptions,
    } = Queue::to(&options.queue, &store.shape(), time)?;
    let advertised = options.advertise.clone();
    let context = Context {
        me: NodeId(time.random_uuid()),
        name: options.name.clone(),
        address: advertised.unwrap_or_else(|| address.to_string()),
        rules: rules(store.shape()),
        store: store.store(),
        underway: store.underway(&options.queue),
        publisher,
        subscriptions: options.polled.then_some(subscriptions),
        time: time.clone(),
        contents: Budget::default(),
        settings: options.settings,
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

/// Logs the version, the address and the parts of the node: the first line of every log.
fn say_start(options: &Options, address: SocketAddr) {
    let version = env!("CARGO_PKG_VERSION");
    let (store, at) = options.store.named();
    let (queue, node) = (options.queue.named(), &options.name);
    tracing::info!(version, node, %address, store, at, queue, "tickwheel starts");
    warn_if_open(address);
}

/// Prints one line on standard error once the node can do its work, whichever lines the log filters out.
/// Returns false when the node was stopped before.
async fn announce(
    node: &Node,
    address: SocketAddr,
    log_format: telemetry::LogFormat,
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
            let ready = format!("ready on http://{address}");
            telemetry::announce(log_format, tracing::Level::INFO, &ready);
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
