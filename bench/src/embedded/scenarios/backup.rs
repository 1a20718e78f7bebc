//! The backup scenario measures for the report how late tasks are while `tickwheel backup create` copies the store.
//!
//! A flow runs alone, then beside copies that are made one after the other. The last copy is checked as a whole.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{bail, ensure};
use hdrhistogram::Histogram;
use tokio::process::Command;

use super::parts::{CALM, DAY, PATIENCE, STEADY_LEAD, WARM_UP, read_back, stream};
use crate::{
    embedded::{
        Setup,
        check::verdict,
        crew,
        load::{self, Plan},
        meter::Meter,
        service::Service,
    },
    report::Report,
};

const TIMES_AIM: f64 = 1.5;

/// Measures the flow alone, then beside copies.
pub(in crate::embedded) async fn backup(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    let pending = setup.pendings.last().copied().unwrap_or(0);
    report.note(format!(
        "backup: {}/s for {} s, {pending} tasks pending",
        setup.rate, setup.seconds
    ));
    let service = setup.start().await?;
    fill(&service, pending).await?;
    let alone = flow(setup, &service, "alone", report).await?;
    let mut copies = Copies {
        program: &setup.program,
        service: &service,
        folder: setup.fresh(),
        made: 0,
        bytes: 0,
    };
    std::fs::create_dir_all(&copies.folder)?;
    let begun = service.time.moment();
    let beside = tokio::select! {
        // A flow that is over ends the copy that is being made.
        beside = flow(setup, &service, "beside copies", report) => beside?,
        ended = copies.make() => return ended,
    };
    let seconds = service.time.moment().since(begun).as_secs_f64();
    ensure!(
        copies.made > 0,
        "no copy was made in {seconds:.0} s: take fewer --pending or more --seconds"
    );
    let (made, bytes) = (copies.made, copies.bytes);
    copies.check().await?;
    report.figure(
        "backup: copies made beside it".to_owned(),
        made as f64,
        "copies",
    );
    report.figure(
        "backup: copied".to_owned(),
        bytes as f64 / 1e6 / seconds,
        "MB/s",
    );
    let p99 = |of: &Histogram<u64>| of.value_at_quantile(0.99) as f64;
    report.aimed(
        "backup: p99 beside copies".to_owned(),
        p99(&beside) / p99(&alone).max(1.0),
        "times that alone",
        TIMES_AIM,
    );
    setup.end(service, report)
}

/// Registers the tasks that stay pending.
async fn fill(service: &Service, tasks: u64) -> anyhow::Result<()> {
    if tasks == 0 {
        return Ok(());
    }
    let first = service.time.now().after(30 * DAY);
    let day = DAY.as_secs() * 1000;
    let due = move |index: u64| first.after(Duration::from_millis(index * 7919 % day));
    let plan = Plan {
        tasks,
        batch: 1000,
        connections: 8,
        interval: None,
        keep_every: tasks,
    };
    load::register(service, plan, due).await?;
    service.time.sleep(CALM).await;
    Ok(())
}

/// Registers, fires and settles at the rate; returns the lateness.
async fn flow(
    setup: &Setup,
    service: &Service,
    name: &str,
    report: &mut Report,
) -> anyhow::Result<Histogram<u64>> {
    let (rate, span) = (setup.rate, WARM_UP + Duration::from_secs(setup.seconds));
    let tasks = rate * span.as_secs();
    let first = service.time.now().after(STEADY_LEAD);
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / rate));
    let meter = Meter::start(service)?;
    let (loaded, seen) = tokio::join!(
        load::register(service, stream(rate, tasks), due),
        crew::work(service, tasks, span + STEADY_LEAD + PATIENCE)
    );
    let (loaded, seen) = (loaded?, seen?);
    let case = format!("backup: {rate}/s {name}");
    meter.stop(service, tasks)?.report(&case, report);
    read_back(service, &loaded.registered, "succeeded").await?;
    let verdict = verdict(loaded.registered, seen.arrivals, first.after(WARM_UP))?;
    report.times(
        format!("{case}: due to worker"),
        &verdict.lateness,
        verdict.check,
    );
    Ok(verdict.lateness)
}

/// Copies that are made one after the other.
struct Copies<'a> {
    program: &'a Path,
    service: &'a Service,
    folder: PathBuf,
    /// Whole ones.
    made: u64,
    bytes: u64,
}

impl Copies<'_> {
    fn file(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.tickwheel"))
    }

    /// Makes copies without end; only the last is kept.
    async fn make(&mut self) -> anyhow::Result<()> {
        loop {
            let file = self.file(self.made + 1);
            let server = format!("http://{}", self.service.address);
            self.run(&["create"], &file, &["--server", &server]).await?;
            self.bytes += std::fs::metadata(&file)?.len();
            if self.made > 0 {
                std::fs::remove_file(self.file(self.made))?;
            }
            self.made += 1;
        }
    }

    /// Checks the last one.
    async fn check(&self) -> anyhow::Result<()> {
        self.run(&["check"], &self.file(self.made), &[]).await
    }

    async fn run(&self, verb: &[&str], file: &Path, more: &[&str]) -> anyhow::Result<()> {
        let ran = Command::new(self.program)
            .arg("backup")
            .args(verb)
            .arg(file)
            .args(more)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        if !ran.status.success() {
            bail!(
                "backup {verb:?} failed: {}",
                String::from_utf8_lossy(&ran.stderr)
            );
        }
        Ok(())
    }
}
