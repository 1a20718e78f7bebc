//! The nightly report shows how a schedule starts work at a time of the wall clock of a zone.
//!
//! ```text
//! tickwheel dev
//! cargo run --example nightly_report -- set               # sets the schedule, and shows its times
//! tickwheel schedule trigger nightly-report               # one run now, beside those of the clock
//! cargo run --example nightly_report -- work --reports 1  # makes reports, and ends after the first one
//! ```
//!
//! # What it shows
//! - A time of the clock on the wall: half past two in Berlin. On the night in spring when that time is left out, the report is
//!   made at three. On the night in autumn when it comes twice, it is made once.
//! - A worker that may be away at half past two: the run waits for it.
//! - A callback that may run twice, since its worker may die before it has reported: the report of a task has one file name,
//!   and the file is written beside it and then renamed. So a repetition replaces the report by the same one.

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tickwheel::{
    client::{Client, ScheduleRequest, Task, secs},
    worker::{Context, Failure, Job, Outcome, Source, Worker},
};
use tokio::sync::mpsc;

const SCHEDULE: &str = "nightly-report";
const CALLBACK: &str = "nightly_report";
const ZONE: &str = "Europe/Berlin";

/// Nights before and after a change of the clock in that zone.
const CHANGES: [(&str, &str); 2] = [
    (
        "half past two is left out on the second of these nights",
        "2030-03-30T00:00:00Z",
    ),
    (
        "half past two comes twice on the second of these nights",
        "2030-10-26T00:00:00Z",
    ),
];

/// Makes a report each night.
#[derive(Debug, Parser)]
struct Flags {
    /// Servers of Tickwheel.
    #[arg(
        long,
        env = "TICKWHEEL_SERVER",
        default_value = "http://127.0.0.1:7420"
    )]
    server: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Sets the schedule, and shows its times.
    Set,
    /// Makes the reports that are due.
    Work {
        /// Folder of the reports.
        #[arg(long, default_value = ".")]
        folder: PathBuf,
        /// Ends after so many reports; without it, it works until Ctrl-C.
        #[arg(long)]
        reports: Option<usize>,
    },
}

/// The payload of each run.
#[derive(Debug, Serialize, Deserialize)]
struct Wanted {
    department: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Flags { server, command } = Flags::parse();
    match command {
        Command::Set => set(&server).await,
        Command::Work { folder, reports } => work(&server, folder, reports).await,
    }
}

/// Sets the schedule. Setting it again changes nothing.
#[expect(clippy::print_stdout, reason = "people read it")]
async fn set(server: &str) -> anyhow::Result<()> {
    let client = Client::connect(server)?;
    let wanted = Wanted {
        department: "sales".to_owned(),
    };
    let task = Task::callback(CALLBACK)
        .json(&wanted)?
        .max_attempts(5)
        .attempt_timeout(secs(1800));
    let schedule = ScheduleRequest {
        time_zone: Some(ZONE.to_owned()),
        // A report that fails for good is looked at before the next one is made.
        pause_on_failure: true,
        ..ScheduleRequest::cron("30 2 * * *").runs(task.request().clone())
    };
    let set = client.set_schedule(SCHEDULE, &schedule).await?;
    println!("{}: {} in {ZONE}", set.name, set.description);
    for time in &set.next_run_times {
        println!("  {time}");
    }
    for (what, from) in CHANGES {
        // A check of other settings: they are not stored.
        let from_then = ScheduleRequest {
            start_time: Some(from.into()),
            ..schedule.clone()
        };
        let preview = client.check_schedule(SCHEDULE, &from_then, 3).await?;
        println!("{what}:");
        for time in preview.run_times {
            println!("  {}", time.local);
        }
    }
    Ok(())
}

/// Runs the worker until it has made enough reports.
async fn work(server: &str, folder: PathBuf, reports: Option<usize>) -> anyhow::Result<()> {
    let (tell, mut made) = mpsc::channel(16);
    let worker = Worker::builder()
        .callback(CALLBACK, move |job: Job<Wanted>, _: Context| {
            let (folder, tell) = (folder.clone(), tell.clone());
            async move {
                let outcome = report(&folder, &job).await?;
                // The worker stops when enough were made, and reports this one first.
                tell.send(()).await?;
                Ok(outcome)
            }
        })
        .source(Source::poll(server))
        .build()?;
    let enough = async {
        let Some(mut left) = reports else {
            // Without the signal it runs until it is killed.
            return tokio::signal::ctrl_c().await.unwrap_or_default();
        };
        while left > 0 && made.recv().await.is_some() {
            left -= 1;
        }
    };
    worker.run_until(enough).await?;
    Ok(())
}

/// Makes a report.
#[expect(clippy::print_stdout, reason = "people read it")]
async fn report(folder: &Path, job: &Job<Wanted>) -> Result<Outcome, Failure> {
    let department = &job.payload.department;
    let text = format!("Report of {department}, task {}\n", job.id);
    let (file, draft) = (
        folder.join(format!("report-{}.txt", job.id)),
        folder.join(format!("report-{}.{}.draft", job.id, job.attempt)),
    );
    tokio::fs::write(&draft, text).await?;
    tokio::fs::rename(&draft, &file).await?;
    println!("report of {department} is in {}", file.display());
    Outcome::done_with(&json!({"file": file}))
}
