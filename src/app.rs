//! Puts a node together from its parts, runs it, and takes it apart in order.
//!
//! The API answers from the first moment, while the store is still being waited for; a store that is away at start is waited
//! for, one that is not set up as needed ends the program with a sentence that says what to do.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    flow::{
        context::{Context, Settings},
        node::Node,
    },
    http::{self, gate::Gate},
    model::{clock::Rules, ids::NodeId, wheel::Shape},
    queue::kafka::{self, KafkaPublisher, KafkaSubscriptions},
    store::{self, cassandra},
    telemetry,
    time_source::TimeSource,
};

/// How a node is put together.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the API listens.
    pub listen: SocketAddr,
    /// What people call the node.
    pub name: String,
    /// Where others reach its API; where it listens when none.
    pub advertise: Option<String>,
    /// The store.
    pub cassandra: cassandra::Settings,
    /// The queue.
    pub kafka: kafka::Settings,
    /// Bounds, and whether it owns wheels.
    pub settings: Settings,
    /// How long what is under way may take when the node stops.
    pub drain_timeout: Duration,
    /// Largest content of a task, encoded.
    pub content_bytes_max: usize,
}

/// Constants of the clock protocol; they are the same on all nodes.
#[must_use]
pub const fn rules(shape: Shape) -> Rules {
    Rules {
        shape,
        // Two ticks: one that is being fired, one that is being read.
        look_ahead: 2,
        // A dead owner delays its tasks by this, and a paused process is shorter than it, mostly.
        lease: Duration::from_secs(5),
        grace: Duration::from_secs(3),
        // Clocks under NTP are closer than this by far; one that is not is broken.
        skew_max: Duration::from_secs(1),
        stall_max: Duration::from_secs(15),
    }
}

/// Runs a node until `stop`, then drains it.
///
/// # Errors
/// When the address cannot be listened on, or store or queue cannot be used at all.
pub async fn run(
    options: Options,
    time: TimeSource,
    prometheus: Option<PrometheusHandle>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(options.listen).await.with_context(|| {
        format!(
            "cannot listen on {}: choose another address with --listen",
            options.listen
        )
    })?;
    let address = listener
        .local_addr()
        .context("cannot tell the address that is listened on")?;
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
    let node = start(&options, &time, store, address)?;
    let mut api = http::Options::new(time.clone(), stop.clone());
    api.prometheus = prometheus;
    api.content_bytes_max = options.content_bytes_max;
    gate.open(http::router(node.service(), api));
    announce(&node, address, &time, &stop).await;

    stop.cancelled().await;
    tracing::info!("stopping: finishing what is under way");
    node.leave();
    hang_up.cancel();
    serving.wait().await;
    node.stop(options.drain_timeout).await;
    tracing::info!("stopped");
    Ok(())
}

/// Starts a node on a connected store.
fn start(
    options: &Options,
    time: &TimeSource,
    store: Arc<cassandra::Store>,
    address: SocketAddr,
) -> anyhow::Result<Node> {
    let mut kafka = options.kafka.clone();
    kafka.partitions = kafka.partitions.min(i32::from(store.shape().wheels()));
    let subscriptions = KafkaSubscriptions::new(kafka.clone(), time.clone());
    let publisher = KafkaPublisher::connect(kafka, time.clone())?;
    Ok(Node::start(
        Context {
            me: NodeId(time.random_uuid()),
            name: options.name.clone(),
            address: options
                .advertise
                .clone()
                .unwrap_or_else(|| address.to_string()),
            rules: rules(store.shape()),
            store,
            underway: None,
            publisher: Arc::new(publisher),
            subscriptions: Some(Arc::new(subscriptions)),
            time: time.clone(),
            settings: options.settings,
        },
        options.drain_timeout,
    ))
}

/// Connects to the store, for as long as it takes; none when the program is stopped meanwhile.
async fn connect(
    options: &Options,
    time: &TimeSource,
    gate: &Gate,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Arc<cassandra::Store>>> {
    const PAUSE: Duration = Duration::from_millis(500);
    let mut said = String::new();
    loop {
        let connecting = cassandra::Store::connect(&options.cassandra, time);
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
            Err(error @ (store::Error::Corrupt { .. } | store::Error::Unsuitable { .. })) => {
                return Err(error.into());
            }
        }
        time.sleep(PAUSE).await;
    }
}

/// Prints one line on standard error once the node can do its work.
async fn announce(node: &Node, address: SocketAddr, time: &TimeSource, stop: &CancellationToken) {
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
            eprintln_line(&format!("ready on http://{address}"));
            return;
        }
        time.sleep(PAUSE).await;
        waited += PAUSE;
        if waited.as_secs().is_multiple_of(5) && waited.subsec_nanos() == 0 {
            tracing::warn!(problems = problems.join("; "), "not ready yet");
        }
    }
}

/// The one line that scripts wait for: not a log line, whatever the log format.
fn eprintln_line(line: &str) {
    use std::io::Write as _;
    if let Err(error) = writeln!(std::io::stderr().lock(), "{line}") {
        tracing::debug!(%error, "standard error is closed");
    }
}
