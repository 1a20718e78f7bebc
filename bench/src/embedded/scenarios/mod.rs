//! The scenarios: what is registered, when it is due, what is measured; here what they share.

mod burst;
mod burst_beside;
mod cancel;
mod cancel_heavy;
mod catch_up;
mod idle;
mod mixed;
mod raw;
mod recover;
mod register;
mod soak;
mod steady;

use std::{path::Path, time::Duration};

use anyhow::{bail, ensure};
use tickwheel::model::time::Millis;
use uuid::Uuid;

pub(super) use self::{
    burst::burst, burst_beside::burst_beside, cancel_heavy::cancel_heavy, catch_up::catch_up,
    idle::idle, mixed::mixed, recover::recover, register::register, soak::soak, steady::steady,
};
use super::{
    check::{Registered, Verdict, verdict},
    crew::{self, Seen},
    load::Plan,
    service::Service,
    wire,
};
use crate::report::Report;

/// Connections that register at a rate: a stall of a second holds up as many requests.
const STEADY_CONNECTIONS: usize = 256;
/// Connections that register many tasks a request.
const BATCH_CONNECTIONS: usize = 16;
/// Tasks that are read back at the end.
const SAMPLES: usize = 1000;
/// How long is waited for tasks that do not come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tasks of a request at a rate.
const STEADY_BATCH: u64 = 25;
/// Tasks at a rate are registered so long before they are due: they pass through the wheel.
const STEADY_LEAD: Duration = Duration::from_secs(6);
/// What is due in the first seconds is checked and not measured: nothing is warm.
const WARM_UP: Duration = Duration::from_secs(5);
/// Between a fill and what is measured after it: compactions end.
const CALM: Duration = Duration::from_secs(10);
/// Before a service counts as idle: what it erases and compacts behind a load is over.
const REST: Duration = Duration::from_secs(40);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Adds the summaries of what was measured by rounds, and their ratios to what the raw parts came to.
pub(super) fn summarize(report: &mut Report) {
    for case in [
        register::FLOOR,
        raw::ONE,
        raw::MANY,
        register::SINGLE,
        register::SHARED,
        register::BATCHED,
        raw::DRAIN,
        burst::BURST,
        steady::FILL,
        cancel_heavy::SINGLE,
        cancel_heavy::BATCHED,
        catch_up::CAUGHT_UP,
    ] {
        report.summarize(case);
    }
    report.ratio(register::SINGLE, &[register::FLOOR, raw::ONE], 0.85);
    report.ratio(register::BATCHED, &[raw::MANY], 0.85);
    report.ratio(burst::BURST, &[raw::DRAIN], 0.7);
}

/// Returns the plan of a stream at a rate.
fn stream(rate: u64, tasks: u64) -> Plan {
    Plan {
        tasks,
        batch: STEADY_BATCH,
        connections: STEADY_CONNECTIONS,
        interval: Some(Duration::from_secs(STEADY_BATCH).div_f64(rate as f64)),
        keep_every: 1,
    }
}

/// Returns the plan of a registration that is over soon.
const fn bulk(tasks: u64) -> Plan {
    Plan {
        tasks,
        batch: 500,
        connections: BATCH_CONNECTIONS,
        interval: None,
        keep_every: 1,
    }
}

/// Takes and settles everything that was registered, checks every task and reads some back.
async fn drain(
    service: &Service,
    registered: Vec<Registered>,
    give_up: Duration,
) -> anyhow::Result<(Verdict, Seen)> {
    let mut seen = crew::work(service, registered.len() as u64, give_up).await?;
    ensure!(
        seen.settled == seen.arrivals.len() as u64,
        "some were not settled"
    );
    read_back(service, &registered, "succeeded").await?;
    let arrivals = std::mem::take(&mut seen.arrivals);
    Ok((verdict(registered, arrivals, Millis(0))?, seen))
}

/// Reads some tasks back: they must be in this state.
async fn read_back(
    service: &Service,
    registered: &[Registered],
    wanted: &str,
) -> anyhow::Result<()> {
    let mut connection = service.connect().await?;
    let step = (registered.len() / SAMPLES).max(1);
    for task in registered.iter().step_by(step) {
        let path = format!("/v1/tasks/{}", Uuid::from_u128(task.id));
        let answer = connection.get(&path).await?;
        if wire::state(answer) != wanted {
            bail!("not {wanted}: {}", String::from_utf8_lossy(answer));
        }
    }
    Ok(())
}

/// Removes a directory of ours.
pub(in crate::embedded) fn remove(directory: &Path) -> anyhow::Result<()> {
    Ok(std::fs::remove_dir_all(directory)?)
}
