//! The isolation scenario measures for the report how much of low priority with slow workers delays another callback on a
//! cluster.
//!
//! It is the one of the embedded service, with `--tasks` tasks of low priority.

use std::time::Duration;

use super::{Bench, nodes::Node};
use crate::{
    embedded::{Size, isolated},
    report::Report,
};

pub(super) async fn round(bench: &Bench, _: u32, report: &mut Report) -> anyhow::Result<()> {
    let node = Node::start_settled(bench).await?;
    let size = Size {
        tasks: bench.tasks,
        span: Duration::from_secs(bench.seconds),
        registered_a_second: 2000,
    };
    report.note(format!("isolation: {size:?}"));
    isolated(&node, size, 1, report).await?;
    node.stop().await
}
