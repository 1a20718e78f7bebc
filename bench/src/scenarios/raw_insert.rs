//! This scenario inserts the rows of registration by the driver alone, to bound the rate of the service.
//!
//! Each row is one prepared statement, at the best number in flight.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tickwheel::model::{ids::TaskId, time::Millis};

use super::{Bench, WARM_UP};
use crate::{
    check::Check,
    generator::{self, Load},
    report::Report,
};

pub(super) const CASE: &str = "raw inserts";

/// Numbers in flight that are tried.
pub(super) const IN_FLIGHT: [usize; 4] = [32, 64, 128, 256];

/// Due times of a round: so many that hardly two tasks of a batch share a partition.
const SPREAD_MS: i64 = 600_000;

/// The due times of a round, far behind the run, so that none of its tasks fires.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    from: Millis,
}

impl Window {
    pub(super) fn of(bench: &Bench) -> Self {
        let from = bench.servers.time.now().after(Duration::from_secs(7200));
        Self { from }
    }

    /// Returns a random due time.
    pub(super) fn draw(self, random: u64) -> Millis {
        Millis(self.from.0 + i64::try_from(random % SPREAD_MS.unsigned_abs()).unwrap_or(0))
    }

    /// Checks that the acknowledged rows are stored.
    pub(super) async fn check(
        self,
        bench: &Bench,
        of_service: bool,
        acknowledged: &Acknowledged,
    ) -> anyhow::Result<Check> {
        let to = Millis(self.from.0 + SPREAD_MS);
        let stored = bench.raw.ids(of_service, self.from, to).await?;
        let ids = std::mem::take(&mut *acknowledged.lock().unwrap_or_else(PoisonError::into_inner));
        let lost = ids.iter().filter(|id| !stored.contains(&id.uuid())).count();
        Ok(Check {
            tasks: ids.len() as u64,
            lost: lost as u64,
            ..Check::default()
        })
    }
}

pub(super) type Acknowledged = Arc<Mutex<Vec<TaskId>>>;

pub(super) async fn round(bench: &Bench, round: u32, report: &mut Report) -> anyhow::Result<()> {
    if round == WARM_UP {
        let tried = IN_FLIGHT.iter().chain(&IN_FLIGHT);
        let mut best = (0.0, 0);
        for in_flight in tried {
            let (per_second, _) = measure(bench, *in_flight).await?;
            report.note(format!(
                "{CASE} with {in_flight} in flight: {per_second:.0}/s"
            ));
            if per_second > best.0 {
                best = (per_second, *in_flight);
            }
        }
        let mut found = bench.best.lock().unwrap_or_else(PoisonError::into_inner);
        found.push((CASE, best.1));
        return Ok(());
    }
    let (per_second, check) = measure(bench, bench.best(CASE).unwrap_or(128)).await?;
    report.rate(CASE, round, per_second, check);
    Ok(())
}

async fn measure(bench: &Bench, in_flight: usize) -> anyhow::Result<(f64, Check)> {
    let (window, acknowledged) = (Window::of(bench), Acknowledged::default());
    let load = Load::flat_out(bench.tasks, in_flight);
    let outcome = generator::send(&bench.servers.time, load, |_| {
        let (raw, acknowledged) = (Arc::clone(&bench.raw), Arc::clone(&acknowledged));
        let due = window.draw(bench.servers.time.random());
        async move {
            let id = raw.draw(due);
            raw.insert(id, "send_email").await?;
            acknowledged
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(id);
            Ok(())
        }
    })
    .await?;
    let check = window.check(bench, false, &acknowledged).await?;
    Ok((bench.tasks as f64 / outcome.took.as_secs_f64(), check))
}
