//! The idle scenario measures what a service without work costs: processor time, memory, writes to the disk.

use std::time::Duration;

use anyhow::ensure;

use super::parts::CALM;
use crate::{
    embedded::{Setup, meter::Meter, service::Service, wire},
    report::Report,
};

/// Measures a service that has never had anything to do.
pub(in crate::embedded) async fn idle(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let service = setup.start().await?;
    service.time.sleep(CALM).await;
    rest(setup, &service, "idle", report).await?;
    setup.end(service, report)
}

/// Measures a service for as long as a measurement lasts: without any worker, and with a poll that waits.
pub(super) async fn rest(
    setup: &Setup,
    service: &Service,
    name: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let span = Duration::from_secs(setup.seconds);
    for (polled, text) in [(false, "nobody polls"), (true, "one poll waits")] {
        let (begun, probe) = (service.time.moment(), service.probe());
        let written = probe.written_bytes()?;
        let meter = Meter::start(service)?;
        let mut connection = service.connect().await?;
        let body = wire::poll(0, 1, &format!("{}s", setup.seconds.min(60)));
        if polled {
            let answer = connection.post("/v1/worker/poll", body.as_bytes()).await?;
            ensure!(
                wire::attempts(answer).next().is_none(),
                "a task came out early"
            );
        } else {
            service.time.sleep(span).await;
        }
        let case = format!("{name}, {text}");
        meter.stop(service, 0)?.report(&case, report);
        let written = probe.written_bytes()?.saturating_sub(written) as f64 / 1024.0;
        let minutes = service.time.moment().since(begun).as_secs_f64() / 60.0;
        report.figure(
            format!("{case}: written to disk"),
            written / minutes,
            "KiB/min",
        );
    }
    Ok(())
}
