//! The scenarios share these parts: how many tasks go how, and how all of them are checked at the end.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{bail, ensure};
use tickwheel::{
    model::time::{Millis, whole_millis},
    time_source::TimeSource,
};
use uuid::Uuid;

use crate::embedded::{
    Setup,
    check::{Registered, Verdict, verdict},
    crew::{self, Seen},
    http::Connection,
    load::Plan,
    service::{Host, Service},
    wire,
};

/// Connections that register at a rate: a stall of a second holds up as many requests.
pub(super) const STEADY_CONNECTIONS: usize = 256;
/// Connections that register many tasks a request.
pub(super) const BATCH_CONNECTIONS: usize = 16;
/// Tasks that are read back at the end.
pub(super) const SAMPLES: usize = 1000;
/// How long a scenario waits for tasks that do not come.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Tasks of a request at a rate.
pub(super) const STEADY_BATCH: u64 = 25;
/// How long before they are due tasks at a rate are registered, so that they pass through the wheel.
pub(super) const STEADY_LEAD: Duration = Duration::from_secs(6);
/// Tasks of the first seconds are checked and not measured, since nothing is warm.
pub(super) const WARM_UP: Duration = Duration::from_secs(5);
/// Time between a fill and the measurement after it, so that compactions end.
pub(super) const CALM: Duration = Duration::from_secs(10);
/// Time before a service counts as idle, so that it has erased and compacted what a load left.
pub(super) const REST: Duration = Duration::from_secs(40);
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

/// A service whose wall clock can be set ahead, and that of this harness with it: time in which no process runs is not waited
/// for.
pub(super) struct Ahead {
    pub(super) service: Service,
    pub(super) time: TimeSource,
    offset: PathBuf,
}

impl Ahead {
    /// Starts one on a fresh directory, with a clock of its own.
    pub(super) async fn start(setup: &Setup) -> anyhow::Result<Self> {
        let (time, directory) = (TimeSource::real(), setup.fresh());
        let offset = directory.join("clock-offset");
        let extra = vec![
            "--clock-offset-file".into(),
            offset.clone().into_os_string(),
        ];
        let (service, _) = Service::start_with(&setup.program, &directory, &time, extra).await?;
        Ok(Self {
            service,
            time,
            offset,
        })
    }

    /// Kills it; it starts so much later.
    pub(super) fn is_off_for(&mut self, off: Duration) -> anyhow::Result<()> {
        self.service.kill()?;
        let ahead = whole_millis(off);
        fs::write(&self.offset, ahead.to_string())?;
        self.time.set_wall_error_ms(ahead);
        Ok(())
    }
}

/// Returns the plan of a stream at a rate.
pub(super) fn stream(rate: u64, tasks: u64) -> Plan {
    Plan {
        tasks,
        batch: STEADY_BATCH,
        connections: STEADY_CONNECTIONS,
        interval: Some(Duration::from_secs(STEADY_BATCH).div_f64(rate as f64)),
        keep_every: 1,
    }
}

/// Returns the plan of a registration that is over soon.
pub(super) const fn bulk(tasks: u64) -> Plan {
    Plan {
        tasks,
        batch: 500,
        connections: BATCH_CONNECTIONS,
        interval: None,
        keep_every: 1,
    }
}

/// Takes and settles everything that was registered, checks every task and reads some back.
pub(super) async fn drain(
    service: &impl Host,
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
pub(super) async fn read_back(
    service: &impl Host,
    registered: &[Registered],
    wanted: &str,
) -> anyhow::Result<()> {
    let mut connection = Connection::open(service.door()).await?;
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

/// Removes a directory of this harness.
pub(in crate::embedded) fn remove(directory: &Path) -> anyhow::Result<()> {
    Ok(fs::remove_dir_all(directory)?)
}
