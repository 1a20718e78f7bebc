//! The schedules scenario measures for the report how late runs of many schedules are on a cluster when all fire at one second,
//! and how long the drivers of the node take with them.
//!
//! It is that of the embedded service, with a schedule for each of `--tasks`.

use std::time::Duration;

use super::{Bench, nodes::Node};
use crate::{embedded::firing, report::Report};

pub(super) async fn round(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let node = Node::start_settled(bench).await?;
    let span = Duration::from_secs(bench.seconds);
    report.note(format!(
        "schedules: {} fire at one second beside a stream of {span:?}",
        bench.tasks
    ));
    firing(&node, bench.tasks, span, report).await?;
    node.stop().await
}
