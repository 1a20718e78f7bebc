//! The limits scenario measures for the report how closely three nodes hold the rates of callbacks while one of them is killed.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, ensure};

use super::{Bench, nodes::Node};
use crate::{
    embedded::rates::{self, Limited},
    report::Report,
};

const NODES: usize = 3;
const CALLBACKS: u64 = 20;
/// The kill lies in the middle of a span of at least so many seconds.
const SPAN_MIN: u64 = 30;

pub(super) async fn round(bench: &Bench, _: u32, report: &mut Report) -> anyhow::Result<()> {
    let limited = Limited {
        callbacks: CALLBACKS,
        span: Duration::from_secs(bench.seconds.max(SPAN_MIN)),
    };
    report.note(format!("limits: {NODES} nodes, one is killed, {limited:?}"));
    let mut nodes = Vec::with_capacity(NODES);
    for _ in 0..NODES {
        nodes.push(Node::start(bench).await?);
    }
    // The nodes share the wheels before the load begins.
    bench.servers.time.sleep(Duration::from_secs(5)).await;
    let last = nodes.last().context("a node")?.id();
    let killed = async {
        bench.servers.time.sleep(limited.span / 2).await;
        let done = Command::new("kill")
            .args(["-9", &last.to_string()])
            .status()?;
        ensure!(done.success(), "the node was not there to be killed");
        anyhow::Ok(())
    };
    rates::measure(
        &nodes,
        limited,
        killed,
        "limits, three nodes, one killed",
        report,
    )
    .await?;
    nodes.truncate(NODES - 1);
    for node in nodes {
        node.stop().await?;
    }
    Ok(())
}
