//! The telemetry carries logs, metrics and traces out of the process for operators.
//!
//! Logs go to standard error, filtered by `RUST_LOG`'s syntax. Drivers that repeat themselves are limited
//! (`quiet.rs`). Metrics are recorded anywhere with the `metrics` macros and rendered by [`crate::http`] at
//! `/metrics`; [`table`] lists all of them. Figures of the process are read when somebody asks (`process.rs`).
//! Traces go to a collector where one is configured ([`traces`]).

mod catalogue;
mod metric;
#[cfg(feature = "cli")]
pub mod otlp;
pub mod process;
mod quiet;
pub mod repeats;
mod short;
pub mod table;
pub mod traces;

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;
use tracing::Level;
use tracing_subscriber::{
    EnvFilter, Layer as _, filter::ParseError, fmt, prelude::*, util::TryInitError,
};

use crate::time_source::TimeSource;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// For a person who tries the service out: time of day and event, without the module.
    Short,
}

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter cannot be parsed.
    #[error("log filter cannot be read; it looks like `info,tickwheel=debug`")]
    Filter(#[from] ParseError),
    /// The process logs already.
    #[error("logging is set up already")]
    Logging(#[from] TryInitError),
    /// The process records metrics already, or a bucket list is empty.
    #[error("metrics cannot be set up")]
    Metrics(#[from] BuildError),
}

/// Upper bounds of the buckets of every `*_seconds` histogram: fine around 1 to 100 ms, where lateness is decided.
const SECONDS_BUCKETS: [f64; 24] = [
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2,
    0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
];

/// How often recorded values are moved into their buckets when nobody scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Starts logging to standard error.
///
/// # Errors
/// When the filter cannot be read, or the process logs already.
pub fn start_logging(format: LogFormat, filter: &str) -> Result<(), Error> {
    let filter = EnvFilter::try_new(filter)?;
    // Colours are for people at a terminal, not for files.
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Short => lines.event_format(short::Short).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let quiet = quiet::Quiet::new(TimeSource::real());
    tracing_subscriber::registry()
        .with(filter)
        .with(lines.with_filter(quiet))
        .try_init()?;
    if format == LogFormat::Json {
        // The usual message of a panic is not JSON.
        std::panic::set_hook(Box::new(|panic| {
            tracing::error!(%panic, "a panic: this is a bug");
        }));
    }
    Ok(())
}

/// Writes a line to standard error that no filter holds back. With JSON logs it is an event with the text as
/// its message, so that every line is JSON.
pub fn announce(format: LogFormat, level: Level, text: &str) {
    let line = match format {
        LogFormat::Text | LogFormat::Short => text.to_owned(),
        LogFormat::Json => serde_json::json!({
            "timestamp": jiff::Timestamp::now().to_string(), "level": level.as_str(), "message": text,
            "target": "tickwheel",
        })
        .to_string(),
    };
    if let Err(error) = writeln!(std::io::stderr().lock(), "{line}") {
        tracing::debug!(%error, "standard error is closed");
    }
}

/// Makes the process record metrics, and returns the handle that renders them.
///
/// # Errors
/// When the process records metrics already.
pub fn start_metrics() -> Result<PrometheusHandle, Error> {
    let handle = prometheus()?.install_recorder()?;
    table::describe();
    metrics::gauge!("tickwheel_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Moves recorded values into their buckets until `shutdown`; without it they pile up between scrapes.
pub async fn keep_metrics_small(
    handle: PrometheusHandle,
    time: TimeSource,
    shutdown: CancellationToken,
) {
    while !shutdown.is_cancelled() {
        handle.run_upkeep();
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = time.sleep(UPKEEP) => {}
        }
    }
}

fn prometheus() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS_BUCKETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow() {
        assert!(SECONDS_BUCKETS.is_sorted());
    }

    #[test]
    fn what_is_recorded_is_rendered_with_its_description_and_buckets() {
        let recorder = prometheus().unwrap().build_recorder();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            table::describe();
            metrics::histogram!("tickwheel_fire_lag_seconds").record(0.004);
            metrics::counter!("tickwheel_ticks_total", "result" => "won").increment(2);
        });
        let text = handle.render();
        assert!(
            text.contains("tickwheel_ticks_total{result=\"won\"} 2"),
            "{text}"
        );
        assert!(
            text.contains("tickwheel_fire_lag_seconds_bucket{le=\"0.005\"} 1"),
            "{text}"
        );
        assert!(
            text.contains("# HELP tickwheel_fire_lag_seconds "),
            "{text}"
        );
    }
}
