//! This scenario pages through the slots of a backlog by the driver alone, to bound the rate of the service.
//!
//! There is one reader a wheel, and the rows are not used.

use std::sync::{Arc, OnceLock};

use anyhow::bail;
use tickwheel::model::time::Millis;

use super::{Bench, WARM_UP};
use crate::{
    check::Check,
    generator::{self, Load},
    report::Report,
};

pub(super) const CASE: &str = "raw scan";

/// Scans that are timed together.
const SCANS: u64 = 4;

/// The due time of the backlog, once it is written.
static BACKLOG: OnceLock<Millis> = OnceLock::new();

pub(super) async fn round(bench: &Bench, round: u32, report: &mut Report) -> anyhow::Result<()> {
    let due = match BACKLOG.get() {
        Some(due) => *due,
        None => write(bench).await?,
    };
    let time = &bench.servers.time;
    let started = time.moment();
    for _ in 0..SCANS {
        let rows = bench.raw.scan(due).await?;
        if rows != bench.tasks {
            bail!("{rows} rows were read, {} were written", bench.tasks);
        }
    }
    let took = time.moment().since(started);
    if round != WARM_UP {
        let tasks = SCANS * bench.tasks;
        let check = Check {
            tasks,
            ..Check::default()
        };
        report.rate(CASE, round, tasks as f64 / took.as_secs_f64(), check);
    }
    Ok(())
}

async fn write(bench: &Bench) -> anyhow::Result<Millis> {
    let due = *BACKLOG.get_or_init(|| {
        bench
            .servers
            .time
            .now()
            .after(std::time::Duration::from_secs(24 * 3600))
    });
    let load = Load::flat_out(bench.tasks, 128);
    generator::send(&bench.servers.time, load, |_| {
        let raw = Arc::clone(&bench.raw);
        async move { raw.insert(raw.draw(due), "send_email").await }
    })
    .await?;
    Ok(due)
}
