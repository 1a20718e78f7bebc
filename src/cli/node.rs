//! The node builder makes the parts of a node from settings for `serve`, `dev` and `api-key`.

use super::{Failure, servers};
use crate::{
    app::{self, QueueOptions, StoreOptions, executor::mail::SmtpOptions},
    config::{LogFormat, QueueKind, Role, Settings, StoreKind},
    flow::base::{context, zones::Zones},
    http::tls,
    limits::{self, EMBEDDED_BALLAST_BYTES},
    store::embedded,
    telemetry,
};

/// Keeps huge pages out of the process. Its memory is many small blocks of short life. A page of 2 MiB stays
/// for some of them, and the resident memory is half as much again as without huge pages (450 against 290 MiB
/// in an overload; no difference in speed).
pub(super) fn keep_memory_small() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "huge pages are left on");
    }
}

/// Returns the settings of the store.
pub(super) fn store(settings: &Settings) -> Result<StoreOptions, Failure> {
    Ok(match settings.store {
        StoreKind::Cassandra => servers::store(settings)?,
        StoreKind::Embedded => {
            let embedded = embedded::Settings {
                ballast_bytes: EMBEDDED_BALLAST_BYTES,
                ..embedded::Settings::new(&settings.data_dir, settings.shape()?)
            };
            StoreOptions::Embedded(Box::new(embedded))
        }
    })
}

fn queue(settings: &Settings) -> Result<QueueOptions, Failure> {
    Ok(match settings.queue_kind() {
        QueueKind::Kafka => servers::queue(settings)?,
        QueueKind::Embedded | QueueKind::Auto => {
            QueueOptions::Embedded(settings.data_dir.join("queue"))
        }
    })
}

/// Returns the parts of a node.
pub(super) fn options(settings: &Settings) -> Result<app::Options, Failure> {
    Ok(app::Options {
        listen: settings.listen,
        name: settings.node_name.clone().unwrap_or_else(host_name),
        advertise: settings.advertise.clone(),
        insecure: settings.insecure,
        read_only: settings.read_only,
        allowed_hosts: settings.allowed_hosts.clone(),
        base_path: settings.base_path.clone(),
        proxies: settings.proxies.clone(),
        tls: tls(settings),
        store: store(settings)?,
        queue: queue(settings)?,
        polled: settings.roles.contains(&Role::Controller),
        executes: settings.roles.contains(&Role::Executor),
        http_allow: settings.http_allow.clone(),
        mail: mail(settings),
        settings: context::Settings {
            scans: settings.roles.contains(&Role::Scanner),
            poll_feeds_max: poll_feeds_max(settings),
            zones: zones(settings)?,
            ..context::Settings::default()
        },
        drain_delay: settings.drain_delay,
        drain_timeout: settings.drain_timeout,
        content_bytes_max: settings.content_bytes_max,
        log_format: log_format(settings.log_format),
    })
}

fn zones(settings: &Settings) -> Result<Zones, Failure> {
    match &settings.time_zones {
        None => Ok(Zones::default()),
        Some(path) => {
            Zones::of_directory(path).map_err(|why| Failure::usage(format!("time_zones: {why}")))
        }
    }
}

fn mail(settings: &Settings) -> Option<SmtpOptions> {
    let (server, from) = settings.smtp_url.clone().zip(settings.smtp_from.clone())?;
    Some(SmtpOptions {
        server,
        from,
        ca: settings.smtp_ca.clone(),
    })
}

fn tls(settings: &Settings) -> Option<tls::Files> {
    let (certificate, key) = settings.tls_cert.clone().zip(settings.tls_key.clone())?;
    Some(tls::Files {
        certificate,
        key,
        client_ca: settings.tls_client_ca.clone(),
    })
}

fn poll_feeds_max(settings: &Settings) -> usize {
    let usual = match settings.queue_kind() {
        QueueKind::Kafka => limits::POLL_FEEDS_MAX_KAFKA,
        QueueKind::Embedded | QueueKind::Auto => limits::POLL_FEEDS_MAX_EMBEDDED,
    };
    settings.poll_feeds_max.unwrap_or(usual)
}

/// Returns the format of log lines.
pub(super) const fn log_format(format: LogFormat) -> telemetry::LogFormat {
    match format {
        LogFormat::Text => telemetry::LogFormat::Text,
        LogFormat::Json => telemetry::LogFormat::Json,
    }
}

fn host_name() -> String {
    let read = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let name = read.trim();
    if name.is_empty() {
        "node".to_owned()
    } else {
        name.to_owned()
    }
}
