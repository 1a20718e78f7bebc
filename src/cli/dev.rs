//! The command `tickwheel dev` runs the whole service in one process for developers and for a first look.

use std::{io::Write as _, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Exit, Failure, drill::DrillArgs, node, reach, serve};
use crate::{
    app, client,
    config::{Settings, SettingsArgs},
    flow::TASK_EVENTS,
    telemetry::{self, LogFormat},
    time_source::TimeSource,
    worker::{Context, Job, Outcome, Source, Worker},
};

/// The callback that runs in this process.
const ECHO: &str = "echo";

#[derive(Debug, Args)]
pub(super) struct Command {
    /// Keep tasks in this directory; without it they are kept in a temporary one that is deleted at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address and port that it listens on.
    #[arg(long, default_value = "127.0.0.1:7420", value_name = "ADDR")]
    listen: SocketAddr,
    /// Listen beyond this machine without API keys.
    #[arg(long)]
    insecure: bool,
    /// Let tests move the clock forward: `POST /v1/dev/clock:advance`. A directory must be new, or one of such a service.
    #[arg(long, conflicts_with = "clock_offset_file")]
    test_clock: bool,
    #[command(flatten)]
    drill: DrillArgs,
}

/// Length of a tick where tests move the clock, and number of wheels: a clock that moves by a year has few ticks to read.
const TEST_TICK: Duration = Duration::from_secs(60);
const TEST_WHEELS: u16 = 1;

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let (directory, temporary) = match command.data_dir {
        Some(directory) => (directory, None),
        None => {
            let temporary = tempfile::Builder::new()
                .prefix("tickwheel-dev-")
                .tempdir()?;
            (temporary.path().to_owned(), Some(temporary))
        }
    };
    // Settings in the environment belong to a lasting service, so they are ignored here.
    let mut settings = Settings::load(&SettingsArgs::default(), |_| None)?;
    settings.data_dir.clone_from(&directory);
    settings.listen = command.listen;
    settings.insecure = command.insecure;
    if command.test_clock {
        (settings.tick, settings.wheels) = (TEST_TICK, Some(TEST_WHEELS));
    }
    // For receivers on this machine, which this command is for.
    settings.http_allow = ["127.0.0.0/8", "::1"]
        .iter()
        .filter_map(|range| range.parse().ok())
        .collect();
    let events = TASK_EVENTS;
    let filter = format!("warn,tickwheel::cli=info,{events}=debug");
    telemetry::start_logging(LogFormat::Short, &filter)
        .map_err(|error| Failure::usage(format!("log: {error}")))?;
    node::keep_memory_small();
    let prometheus =
        telemetry::start_metrics().map_err(|error| Failure::failed(format!("metrics: {error}")))?;
    let stop = CancellationToken::new();
    serve::listen_for_signals(stop.clone(), settings.drain_timeout, || {})?;
    let (tell, ready) = oneshot::channel();
    let time = if command.test_clock {
        TimeSource::by_hand()
    } else {
        command.drill.time().await
    };
    let options = node::options(&settings)?;
    let node = app::run(options, time, Some(prometheus), stop.clone(), tell);
    let around = async {
        let Ok(address) = ready.await else {
            return Ok(());
        };
        let ended = match welcome(address, &directory, temporary.is_some()) {
            Ok(()) => echo(address, stop.clone()).await,
            Err(failure) => Err(failure),
        };
        // Without its callback the command does not do what it promises, so it ends with the reason.
        stop.cancel();
        ended
    };
    let (node, around) = tokio::join!(node, around);
    node?;
    around?;
    Ok(Exit::Ok)
}

fn welcome(
    address: SocketAddr,
    directory: &std::path::Path,
    temporary: bool,
) -> Result<(), Failure> {
    let kept = if temporary {
        " (deleted at the end)"
    } else {
        ""
    };
    let version = env!("CARGO_PKG_VERSION");
    let directory = directory.display();
    writeln!(
        std::io::stdout().lock(),
        "
Tickwheel {version}: the whole service in one process.

  dashboard        http://{address}
  API reference    http://{address}/docs
  tasks are kept   {directory}{kept}

A task that is due in three seconds, for the callback `{ECHO}`, which runs in this process:

  curl -s http://{address}/v1/tasks -H 'content-type: application/json' \\
       -d '{{\"callback\": \"{ECHO}\", \"delay\": \"3s\", \"payload\": {{\"hello\": \"world\"}}}}'

Ctrl-C stops it.
"
    )?;
    Ok(())
}

/// Runs the callback that prints its task.
async fn echo(address: SocketAddr, stop: CancellationToken) -> Result<(), Failure> {
    let url = format!("http://{address}");
    let access = reach::access_of_environment()?;
    let who = reach::builder(&url, access.clone()).build()?.whoami().await;
    if matches!(who, Err(client::Error::Refused { .. })) {
        tracing::warn!(
            "the service asks for API keys: `{ECHO}` does not run; set TICKWHEEL_API_KEY to a key of a worker"
        );
        stop.cancelled().await;
        return Ok(());
    }
    let worker = Worker::builder()
        .callback(ECHO, |job: Job<Value>, _: Context| async move {
            let payload = &job.payload;
            tracing::info!(task = %job.id, %payload, "echo");
            Ok(Outcome::DoneWith(job.payload))
        })
        .source(Source::poll(&url))
        .access(access);
    let worker = worker
        .build()
        .map_err(|error| Failure::failed(error.to_string()))?;
    worker
        .run_until(stop.cancelled_owned())
        .await
        .map_err(|error| Failure::failed(error.to_string()))
}
