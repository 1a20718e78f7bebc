//! The command `tickwheel serve` runs a node for operators until it is told to stop.

use std::time::Duration;

use clap::Args;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};
use tokio_util::sync::CancellationToken;
use tracing::Level;

use super::{Exit, Failure, drill::DrillArgs, node, supervisor, variables};
use crate::{
    app,
    config::{LogFormat, Problem, Settings, SettingsArgs},
    telemetry::{self, otlp::Traces},
};

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    drill: DrillArgs,
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    // A refusal of the settings is a line of the log, too.
    let asked_for = Settings::log_format_asked_for(&command.settings, environment);
    let mut format = node::log_format(asked_for.unwrap_or(LogFormat::Text));
    let ended = match Settings::load(&command.settings, environment) {
        Ok(settings) => {
            format = node::log_format(settings.log_format);
            log_and_serve(&settings, format, command.drill).await
        }
        Err(invalid) => Err(invalid.into()),
    };
    let Err(failure) = ended else {
        return Ok(Exit::Ok);
    };
    if format == telemetry::LogFormat::Text {
        return Err(failure);
    }
    // With JSON logs every line is JSON, also the last one.
    telemetry::announce(format, Level::ERROR, &failure.text);
    Ok(failure.exit)
}

/// Begins the log with the line about the start, then runs the node.
async fn log_and_serve(
    settings: &Settings,
    format: telemetry::LogFormat,
    drill: DrillArgs,
) -> Result<(), Failure> {
    let options = node::options(settings)?;
    telemetry::start_logging(format, &settings.log)
        .map_err(|error| Failure::usage(format!("log: {error}")))?;
    options.say_start();
    for Problem { origin, reason } in variables::unknown() {
        tracing::warn!(variable = origin, "{reason}");
    }
    for warning in settings.bare_passwords() {
        tracing::warn!("{warning}");
    }
    serve(options, settings, drill).await
}

async fn serve(
    options: app::Options,
    settings: &Settings,
    drill: DrillArgs,
) -> Result<(), Failure> {
    node::keep_memory_small();
    let prometheus =
        telemetry::start_metrics().map_err(|error| Failure::failed(format!("metrics: {error}")))?;
    let stop = CancellationToken::new();
    listen_for_signals(stop.clone(), settings.drain_timeout, || {})?;
    let (ready, is_ready) = oneshot::channel();
    let time = drill.time().await;
    tokio::spawn(supervisor::tell(time.clone(), is_ready, stop.clone()));
    let traces = traces(settings, &options.name)?;
    let ended = app::run(options, time, Some(prometheus), stop, ready).await;
    if let Some(traces) = traces {
        traces.stop().await;
    }
    Ok(ended?)
}

/// Begins to send traces where a collector is named. One that does not answer is no reason not to start.
fn traces(settings: &Settings, node: &str) -> Result<Option<Traces>, Failure> {
    let Some(endpoint) = &settings.otlp_endpoint else {
        return Ok(None);
    };
    let ratio = f64::from(settings.trace_ppm) / 1e6;
    let traces = Traces::start(endpoint, ratio, node);
    let traces = traces.map_err(|error| Failure::failed(error.to_string()))?;
    // Its path may hold a token.
    tracing::info!(ratio, "requests and attempts are traced");
    Ok(Some(traces))
}

/// Stops the process in order on the first SIGTERM or SIGINT, and at once on the second: then only `last` is
/// done.
pub(super) fn listen_for_signals(
    stop: CancellationToken,
    drain_timeout: Duration,
    last: impl FnOnce() + Send + 'static,
) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!(limit = ?drain_timeout, "told to stop; once more stops at once");
        stop.cancel();
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        last();
        std::process::exit(130);
    });
    Ok(())
}
