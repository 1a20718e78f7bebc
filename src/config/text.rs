//! The value readers parse the values of settings for flags, variables and files.

use std::{net::IpAddr, str::FromStr, time::Duration};

use super::{LogFormat, QueueKind, Role, StoreKind};
use crate::model::{
    base_path::{BASE_PATH_CHARS_MAX, clean},
    server_access::{Mechanism, Protocol},
    signing::Unsigned,
};

pub(super) fn list(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim);
    items
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Reads a setting that is on or off.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

pub(super) fn optional(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

pub(super) fn required(text: &str) -> Result<String, String> {
    optional(text).ok_or_else(|| "must not be empty".to_owned())
}

/// Reads a host and a port, which need not be an address yet.
pub(super) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let hosts = list(text);
    for host in &hosts {
        let port = host.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(1..))) {
            return Err(format!("{host:?} is not HOST:PORT"));
        }
    }
    Ok(hosts)
}

/// Reads the path under which the dashboard is found.
pub(super) fn prefix(text: &str) -> Result<String, String> {
    clean(text).ok_or_else(|| {
        format!(
            "{text:?} is not a plain path of at most {BASE_PATH_CHARS_MAX} characters, such as /timers"
        )
    })
}

/// Reads addresses.
pub(super) fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let read = list(text).into_iter().map(|address| {
        let read = address.parse::<IpAddr>();
        read.map_err(|_| format!("{address:?} is not an address, such as 10.0.0.1"))
    });
    read.collect()
}

/// Reads names of hosts, each with or without a port.
pub(super) fn names(text: &str) -> Result<Vec<String>, String> {
    let names = list(text);
    for name in &names {
        let authority = name.parse::<axum::http::uri::Authority>().ok();
        let fits = authority.is_some_and(|found| {
            let port = found.as_str().len() - found.host().len();
            (port == 0 || found.port_u16().is_some()) && !found.host().contains('@')
        });
        if !fits || name.contains(['*', '@']) {
            return Err(format!(
                "{name:?} is not HOST or HOST:PORT, such as timer.example.com"
            ));
        }
    }
    Ok(names)
}

pub(super) fn number<T: Copy + FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    let number: Option<T> = text.trim().replace('_', "").parse().ok();
    number
        .filter(|number| (&least..=&most).contains(&number))
        .ok_or_else(|| format!("{text:?} is not a whole number from {least} to {most}"))
}

/// Reads a part of one, as parts of a million.
pub(super) fn ratio(text: &str) -> Result<u32, String> {
    let ratio: Option<f64> = text.trim().parse().ok();
    let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is from 0 to a million"
    )]
    let millionths = ratio.map(|ratio| (ratio * 1e6).round() as u32);
    millionths.ok_or_else(|| format!("{text:?} is not a number from 0 to 1, such as 0.05"))
}

/// Reads the address of another service over HTTP; empty is none. A text that is none is not shown: it may hold a password.
pub(super) fn endpoint(text: &str) -> Result<Option<String>, String> {
    let Some(text) = optional(text) else {
        return Ok(None);
    };
    let over_tls = || {
        text.strip_prefix("https://")
            .filter(|_| cfg!(feature = "tls"))
    };
    let rest = text.strip_prefix("http://").or_else(over_tls);
    if rest.is_some_and(|host| !host.is_empty() && !host.contains([' ', '@'])) {
        Ok(Some(text))
    } else {
        Err("is not an address such as http://127.0.0.1:4318, without a user".to_owned())
    }
}

pub(super) fn duration(text: &str, most: Duration) -> Result<Duration, String> {
    let read: Option<jiff::SignedDuration> = text.trim().parse().ok();
    let duration = read.and_then(|duration| Duration::try_from(duration).ok());
    duration
        .filter(|duration| *duration <= most)
        .ok_or_else(|| {
            format!("{text:?} is not a duration such as \"20s\" or \"1m 30s\", up to {most:?}")
        })
}

pub(super) fn roles(text: &str) -> Result<Vec<Role>, String> {
    let names = list(text);
    if names.is_empty() {
        return Err("a node needs at least one role".to_owned());
    }
    if names.iter().any(|name| name == "all") {
        return Ok(Role::ALL.to_vec());
    }
    for name in &names {
        if !Role::ALL.iter().any(|role| role.name() == name) {
            let known = Role::ALL.map(Role::name).join(", ");
            return Err(format!("{name:?} is not a role: all, {known}"));
        }
    }
    let chosen = |role: &Role| names.iter().any(|name| name == role.name());
    Ok(Role::ALL.into_iter().filter(chosen).collect())
}

pub(super) fn store(text: &str) -> Result<StoreKind, String> {
    match text.trim() {
        "embedded" => Ok(StoreKind::Embedded),
        "cassandra" => Ok(StoreKind::Cassandra),
        other => Err(format!("{other:?} is not a store: embedded, cassandra")),
    }
}

pub(super) fn queue(text: &str) -> Result<QueueKind, String> {
    match text.trim() {
        "auto" => Ok(QueueKind::Auto),
        "embedded" => Ok(QueueKind::Embedded),
        "kafka" => Ok(QueueKind::Kafka),
        other => Err(format!("{other:?} is not a queue: auto, embedded, kafka")),
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text.trim() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("{other:?} is not a log format: text, json")),
    }
}

pub(super) fn log_filter(text: &str) -> Result<String, String> {
    let filter = required(text)?;
    match filter.parse::<tracing_subscriber::filter::Targets>() {
        Ok(_) => Ok(filter),
        Err(error) => Err(format!(
            "{filter:?} is not a log filter such as \"info,tickwheel=debug\": {error}"
        )),
    }
}

/// Reads the name of a keyspace. It is put into statements, so it may have only characters that need no
/// quotes.
pub(super) fn keyspace(text: &str) -> Result<String, String> {
    let name = required(text)?;
    let fits = name.len() <= 48
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if fits {
        Ok(name)
    } else {
        Err(format!(
            "{name:?} is not a keyspace: up to 48 of a-z, 0-9 and _, a letter first"
        ))
    }
}

/// Reads a password: every character counts, but for a line break at its end.
pub(super) fn secret(text: &str) -> Option<String> {
    let text = text.trim_end_matches(['\r', '\n']);
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads a protocol of Kafka; none means that it follows from the rest.
pub(super) fn protocol(text: &str) -> Result<Option<Protocol>, String> {
    let name = text.trim().to_lowercase();
    if name == "auto" {
        return Ok(None);
    }
    let known = |protocol: &Protocol| protocol.name() == name;
    let found = Protocol::ALL.into_iter().find(known);
    let names = || Protocol::ALL.map(Protocol::name).join(", ");
    found
        .map(Some)
        .ok_or_else(|| format!("{text:?} is not a protocol: auto, {}", names()))
}

/// Reads what becomes of messages that are not signed.
pub(super) fn unsigned(text: &str) -> Result<Unsigned, String> {
    match text.trim() {
        "refuse" => Ok(Unsigned::Refused),
        "take" => Ok(Unsigned::Taken),
        other => Err(format!("{other:?} is not one of refuse, take")),
    }
}

/// Reads a mechanism of SASL.
pub(super) fn mechanism(text: &str) -> Result<Mechanism, String> {
    let name = text.trim().to_uppercase();
    let known = |mechanism: &Mechanism| mechanism.name() == name;
    let found = Mechanism::ALL.into_iter().find(known);
    let names = || Mechanism::ALL.map(Mechanism::name).join(", ");
    found.ok_or_else(|| format!("{text:?} is not a mechanism: {}", names()))
}
