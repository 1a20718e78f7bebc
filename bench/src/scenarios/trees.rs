//! The trees scenario measures for the report how fast children come and go under one root on a cluster, and how soon a tree
//! ends.
//!
//! It is that of the embedded service, with `--tasks` children.

use super::{Bench, nodes::Node};
use crate::{embedded::family, report::Report};

pub(super) async fn round(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let node = Node::start_settled(bench).await?;
    report.note(format!("trees: {} children under one root", bench.tasks));
    family(&node, bench.tasks, report).await?;
    node.stop().await
}
