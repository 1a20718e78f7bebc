//! The access scenario measures for the report what TLS and an API key cost a registration, by turns with a service without both.
//!
//! Connections are kept alive, so that handshakes lie outside of the measured time.

use std::{ffi::OsString, fs, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs},
};

use super::parts::{BATCH_CONNECTIONS, PATIENCE, drain};
use crate::{
    check::Check,
    embedded::{
        Setup,
        http::Door,
        load::{self, Plan},
        meter::Meter,
        service::Service,
    },
    report::Report,
};

pub(super) const OPEN_ONE: &str = "open, one a request";
pub(super) const CLOSED_ONE: &str = "TLS and a key, one a request";
pub(super) const OPEN_MANY: &str = "open, 100 a request";
pub(super) const CLOSED_MANY: &str = "TLS and a key, 100 a request";

/// Measures both services, by turns.
pub(in crate::embedded) async fn access(
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.note(format!(
        "access: {} tasks over {} connections, five times as many by hundreds over {BATCH_CONNECTIONS}",
        setup.tasks, setup.connections
    ));
    let open = setup.start().await?;
    let closed = closed(setup).await?;
    for (cases, batch, times, connections) in [
        ([OPEN_ONE, CLOSED_ONE], 1, 1, setup.connections),
        ([OPEN_MANY, CLOSED_MANY], 100, 5, BATCH_CONNECTIONS),
    ] {
        let mut turns = [(cases[0], &open), (cases[1], &closed)];
        if round.is_multiple_of(2) {
            turns.reverse();
        }
        let plan = Plan {
            tasks: setup.tasks * times,
            batch,
            connections,
            interval: None,
            keep_every: 1,
        };
        for (case, service) in turns {
            measure(service, plan, case, round, report).await?;
        }
    }
    drop(closed);
    setup.end(open, report)
}

async fn measure(
    service: &Service,
    plan: Plan,
    case: &'static str,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let tasks = plan.tasks;
    let lead = Duration::from_secs(6 + tasks / (4000 * plan.batch.min(4)));
    let first = service.time.now().after(lead);
    let due = move |index: u64| first.after(Duration::from_millis(index % 3000));
    let meter = Meter::start(service)?;
    let loaded = load::register(service, plan, due).await?;
    let used = meter.stop(service, tasks)?;
    ensure!(service.time.now() < first, "not registered in time");
    let rate = tasks as f64 / loaded.took.as_secs_f64();
    let (verdict, _) = drain(service, loaded.registered, lead + PATIENCE).await?;
    report.rate(case, round, rate, verdict.check);
    report.times(
        format!("{case}: request"),
        &loaded.latency,
        Check::default(),
    );
    used.report(case, report);
    Ok(())
}

/// Starts a service with TLS, and makes a key for it.
async fn closed(setup: &Setup) -> anyhow::Result<Service> {
    let directory = setup.fresh();
    fs::create_dir_all(&directory)?;
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let of_authority = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()])?.signed_by(&key, &issuer)?;
    let mut extra = Vec::new();
    for (flag, name, text) in [
        ("--tls-cert", "cert.pem", certificate.pem()),
        ("--tls-key", "key.pem", key.serialize_pem()),
    ] {
        let path = directory.join(name);
        fs::write(&path, text)?;
        extra.extend([OsString::from(flag), path.into_os_string()]);
    }
    let mut roots = RootCertStore::empty();
    roots.add(of_authority.der().clone())?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tls = TlsConnector::from(Arc::new(client));
    let door = |address: SocketAddr| Door {
        tls: Some(tls),
        ..Door::from(address)
    };
    let started = Service::start_behind(&setup.program, &directory, &setup.time, extra, door);
    let (mut service, _) = started.await?;
    let mut connection = service.connect().await?;
    let body = br#"{"name":"bench","role":"admin"}"#;
    let made: Value = serde_json::from_slice(connection.post("/v1/api-keys", body).await?)?;
    let key = made.get("key").and_then(Value::as_str).context("no key")?;
    service.door.key = Some(key.to_owned());
    refuses(&service).await?;
    Ok(service)
}

/// Makes sure that the key is needed from now on: otherwise its cost would not be measured.
async fn refuses(service: &Service) -> anyhow::Result<()> {
    let without = Door {
        key: None,
        ..service.door.clone()
    };
    let end = service.time.moment().after(PATIENCE);
    loop {
        let mut connection = crate::embedded::http::Connection::open(without.clone()).await?;
        if connection.offer("/v1/tasks", b"{}").await?.status == 401 {
            return Ok(());
        }
        ensure!(
            service.time.moment() < end,
            "the service takes calls without its key"
        );
        service.time.sleep(Duration::from_millis(100)).await;
    }
}
