//! The limits scenario measures for the report how closely one node holds the rates of callbacks that all have too much to do.

use std::time::Duration;

use crate::{
    embedded::{
        Setup,
        rates::{self, Limited},
    },
    report::Report,
};

/// Shortest span in which there are windows of ten seconds behind the first second.
const SPAN_MIN: u64 = 15;

/// Measures them on one node.
pub(in crate::embedded) async fn limits(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let limited = Limited {
        callbacks: setup.sizes.limited,
        span: Duration::from_secs(setup.seconds.max(SPAN_MIN)),
    };
    report.note(format!("limits: {limited:?}"));
    let service = setup.start().await?;
    let hosts = [service];
    rates::measure(
        &hosts,
        limited,
        async { Ok(()) },
        "limits, one node",
        report,
    )
    .await?;
    let [service] = hosts;
    setup.end(service, report)
}
