//! This scenario leads whole lives of tasks by the driver alone, to bound the rate of the service.
//!
//! A record is inserted, read with its slot, and deleted with it. A tracked task is inserted, claimed and
//! settled by a conditional write each; the partitions are so many that no two tasks meet.

use std::{sync::Arc, time::Duration};

use tickwheel::model::{ids::TaskId, time::Millis};

use super::{Bench, WARM_UP, raw_insert};
use crate::{
    check::Check,
    generator::{self, Load},
    report::Report,
};

pub(super) const RECORDS: &str = "raw lives: inserted, read, deleted";
pub(super) const TRACKED: &str = "raw lives: inserted, claimed, settled";

/// Conditional writes in flight that are tried.
const IN_FLIGHT: [usize; 3] = [32, 64, 128];
/// How many times fewer conditional writes are made: each costs about ten plain ones.
const FEWER: u64 = 5;
/// All starts of tracked tasks are within this.
const SPREAD_MS: u64 = 600_000;

pub(super) async fn round(bench: &Bench, round: u32, report: &mut Report) -> anyhow::Result<()> {
    let time = &bench.servers.time;
    if round == WARM_UP {
        let mut best = (0.0, 0);
        for in_flight in IN_FLIGHT {
            let (per_second, _) = tracked(bench, in_flight).await?;
            report.note(format!(
                "{TRACKED} with {in_flight} in flight: {per_second:.0}/s"
            ));
            if per_second > best.0 {
                best = (per_second, in_flight);
            }
        }
        let mut found = bench
            .best
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        found.push((TRACKED, best.1));
        return Ok(());
    }
    // A tick of its own for each round, far behind the run.
    let due = time
        .now()
        .after(Duration::from_secs(48 * 3600 + u64::from(round) * 10));
    let began = time.moment();
    let in_flight = bench.best(raw_insert::CASE).unwrap_or(128);
    let load = Load::flat_out(bench.tasks, in_flight);
    generator::send(time, load, |_| {
        let raw = Arc::clone(&bench.raw);
        async move { raw.insert(raw.draw(due), "send_email").await }
    })
    .await?;
    let rows = bench.raw.scan(due).await?;
    bench.raw.erase(due).await?;
    let took = time.moment().since(began).as_secs_f64();
    let check = Check {
        tasks: bench.tasks,
        lost: bench.tasks.saturating_sub(rows),
        ..Check::default()
    };
    report.rate(RECORDS, round, bench.tasks as f64 / took, check);
    let (per_second, check) = tracked(bench, bench.best(TRACKED).unwrap_or(64)).await?;
    report.rate(TRACKED, round, per_second, check);
    Ok(())
}

/// Runs tracked lives. Every claim and settle must be applied, so a task that reaches the end is not lost.
async fn tracked(bench: &Bench, in_flight: usize) -> anyhow::Result<(f64, Check)> {
    let time = &bench.servers.time;
    let from = time.now().after(Duration::from_secs(7200));
    let tasks = (bench.tasks / FEWER).max(1);
    let ids: Vec<TaskId> = (0..tasks)
        .map(|_| {
            let late = i64::try_from(time.random() % SPREAD_MS).unwrap_or(0);
            bench.raw.draw(Millis(from.0 + late))
        })
        .collect();
    let ids = Arc::new(ids);
    let began = time.moment();
    for step in 0..3 {
        generator::send(time, Load::flat_out(tasks, in_flight), |index| {
            let (raw, ids) = (Arc::clone(&bench.raw), Arc::clone(&ids));
            async move {
                let place = usize::try_from(index).unwrap_or(usize::MAX);
                let Some(id) = ids.get(place).copied() else {
                    return Ok(());
                };
                match step {
                    0 => raw.insert(id, "send_email").await,
                    1 => raw.claim(id).await,
                    _ => raw.settle(id).await,
                }
            }
        })
        .await?;
    }
    let took = time.moment().since(began).as_secs_f64();
    let check = Check {
        tasks,
        ..Check::default()
    };
    Ok((tasks as f64 / took, check))
}
