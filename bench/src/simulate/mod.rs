//! The simulation computes for developers the rate of a cluster of scanners when neither store nor broker is
//! the limit.
//!
//! It is a model and not a measurement. Its assumptions are in `model.rs`. The costs are options; their
//! defaults come from `RESULTS.md`, from one machine whose two cores the servers shared, so a node of the
//! model is rather too slow.

mod model;

use std::path::PathBuf;

use clap::Args;

use self::model::Costs;
use crate::{
    chart::{Chart, Curve, Scale},
    finish::finish,
    report::Report,
};

/// The properties of the cluster.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Numbers of scanner nodes.
    #[arg(long, default_value = "1,2,4,8,16", value_delimiter = ',')]
    nodes: Vec<usize>,
    /// Numbers of wheels.
    #[arg(long, default_value = "16,64,256", value_delimiter = ',')]
    wheels: Vec<u16>,
    /// Cores of a node.
    #[arg(long, default_value_t = 2)]
    cores: usize,
    /// Work of a node for a task, in microseconds. Two cores over 82,682 callback targets a second, caught
    /// up: an upper bound, because the work of the servers is part of it.
    #[arg(long, default_value_t = 24.2)]
    task_us: f64,
    /// Until the store has answered with a page of 1000 rows, in milliseconds. Sixteen readers at 569,982 rows a second.
    #[arg(long, default_value_t = 28.0)]
    page_ms: f64,
    /// Until a page's looks are written, in milliseconds. 256 inserts in flight at 39,884 a second.
    #[arg(long, default_value_t = 6.4)]
    look_ms: f64,
    /// Until a clock is swapped, in milliseconds: assumed, twice a write's time and more.
    #[arg(long, default_value_t = 15.0)]
    swap_ms: f64,
    /// Until the broker has acknowledged a page, in milliseconds. Due to consumer at 2,000/s, p99.
    #[arg(long, default_value_t = 4.0)]
    broker_ms: f64,
    /// Tasks of the backlog.
    #[arg(long, default_value_t = 20_000_000)]
    tasks: u64,
    /// Write every figure to a file, a JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the chart into a folder, as SVG.
    #[arg(long, value_name = "DIR")]
    charts: Option<PathBuf>,
}

/// Runs the model for every number of nodes and wheels.
pub(crate) fn run(options: &Options) -> anyhow::Result<std::process::ExitCode> {
    let micros = |millis: f64| (millis * 1000.0) as u64;
    let costs = Costs {
        task_us: options.task_us,
        page_us: micros(options.page_ms),
        look_us: micros(options.look_ms),
        swap_us: micros(options.swap_ms),
        broker_us: micros(options.broker_ms),
        cores: options.cores,
    };
    let (mut report, mut curves) = (Report::default(), Vec::new());
    report.note(format!("a model, not a measurement; {costs:?}"));
    for wheels in &options.wheels {
        let mut points = Vec::new();
        for nodes in &options.nodes {
            let outcome = model::run(costs, *wheels, (*nodes).max(1), options.tasks);
            let case = format!("{wheels} wheels, {nodes} nodes");
            report.figure(case.clone(), outcome.per_second, "tasks/s");
            report.figure(format!("{case}: cores in use"), outcome.busy * 100.0, "%");
            report.figure(
                format!("{case}: most wheels of a node"),
                outcome.wheels_max as f64,
                "wheels",
            );
            points.push((*nodes as f64, outcome.per_second));
        }
        curves.push(Curve {
            name: format!("{wheels} wheels"),
            points,
        });
    }
    let title = "Model: backlog worked off by scanner nodes, store and broker not the limit";
    report.chart(Chart::lines(
        "simulate-cluster",
        title,
        ("nodes", Scale::Linear),
        ("tasks/s", Scale::Linear),
        curves,
    ));
    if let Some(folder) = &options.charts {
        report.write_charts(folder)?;
    }
    finish(&report, options.json.as_deref(), Ok(()))
}
