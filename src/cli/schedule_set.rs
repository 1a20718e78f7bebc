//! The settings of a schedule are read from flags or from a file for `tickwheel schedule set`.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{ArgGroup, Args};
use serde_json::value::RawValue;

use super::{ClientArgs, Failure, input, times};
use crate::{
    api::{
        schedule::CronText,
        text::{DurationText, InstantText},
    },
    client::{Missed, Overlap, ScheduleRequest, TaskRequest},
    limits::REQUEST_BYTES_MAX,
};

/// Members of an answer that are no settings.
const NOT_SET: [&str; 14] = [
    "name",
    "state",
    "pause",
    "description",
    "next_run_times",
    "time_zone_version",
    "generation",
    "create_time",
    "update_time",
    "runs",
    "runs_missed",
    "runs_skipped",
    "runs_cancelled",
    "runs_started",
];

/// A schedule.
#[derive(Debug, Args)]
pub(super) struct Of {
    /// Its name.
    pub(super) name: String,
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// The settings of a schedule.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("times").args(["cron", "every", "file"]).required(true).multiple(true)))]
#[command(group(ArgGroup::new("what").args(["task", "file"]).required(true).multiple(true)))]
pub(super) struct SetArgs {
    #[command(flatten)]
    pub(super) of: Of,
    /// File with the settings as JSON, - for standard input, instead of flags. The output of `schedule get -o json` can
    /// be used.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cron", "every", "time_zone", "start", "end", "limit", "jitter",
        "overlap", "missed", "catch_up_window", "pause_on_failure", "note", "paused", "task"])]
    pub(super) file: Option<PathBuf>,
    /// Cron expression; may be given several times.
    #[arg(long, value_name = "EXPRESSION")]
    cron: Vec<String>,
    /// Interval, instead of expressions.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    every: Option<DurationText>,
    /// Zone of the expressions; UTC by default.
    #[arg(long, value_name = "NAME")]
    time_zone: Option<String>,
    /// No run before this time.
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// No run behind this time.
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// Most runs.
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Start each run later by a part of this.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    jitter: Option<DurationText>,
    /// About runs that would overlap: skip, allow, buffer_one or cancel_other.
    #[arg(long, value_name = "POLICY", value_parser = overlap)]
    overlap: Option<Overlap>,
    /// About times that were missed: latest, all or skip.
    #[arg(long, value_name = "POLICY", value_parser = missed)]
    missed: Option<Missed>,
    /// How long a missed time can be made up for.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    catch_up_window: Option<DurationText>,
    /// Pause the schedule when a run has failed.
    #[arg(long)]
    pause_on_failure: bool,
    /// Text for people.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// A new schedule waits until it is resumed.
    #[arg(long)]
    paused: bool,
    /// The task of each run, as JSON.
    #[arg(long, value_name = "JSON")]
    task: Option<String>,
}

impl SetArgs {
    /// Returns the settings.
    pub(super) fn request(&self) -> Result<ScheduleRequest, Failure> {
        if let Some(path) = &self.file {
            return of_text(&input::text(path, REQUEST_BYTES_MAX)?)
                .map_err(|error| Failure::usage(format!("--file: {error}")));
        }
        let task = self
            .task
            .as_deref()
            .map(serde_json::from_str::<TaskRequest>);
        let task = task.transpose();
        let task = task.map_err(|error| Failure::usage(format!("--task: {error}")))?;
        let cron = match self.cron.as_slice() {
            [] => None,
            [one] => Some(CronText::One(one.clone())),
            several => Some(CronText::Several(several.to_vec())),
        };
        let instant = |text: &Option<String>| text.as_deref().map(InstantText::from);
        Ok(ScheduleRequest {
            cron,
            every: self.every.clone(),
            time_zone: self.time_zone.clone(),
            start_time: instant(&self.start),
            end_time: instant(&self.end),
            limit: self.limit,
            jitter: self.jitter.clone(),
            overlap: self.overlap,
            missed: self.missed,
            catch_up_window: self.catch_up_window.clone(),
            pause_on_failure: self.pause_on_failure,
            note: self.note.clone(),
            labels: None,
            paused: self.paused,
            task,
        })
    }
}

/// Reads settings, or an answer that has them.
fn of_text(text: &str) -> serde_json::Result<ScheduleRequest> {
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text)?;
    members.retain(|name, _| !NOT_SET.contains(&name.as_str()));
    serde_json::from_str(&serde_json::to_string(&members)?)
}

pub(super) fn overlap(text: &str) -> Result<Overlap, String> {
    named(text, "skip, allow, buffer_one or cancel_other")
}

fn missed(text: &str) -> Result<Missed, String> {
    named(text, "latest, all or skip")
}

fn named<T: serde::de::DeserializeOwned>(text: &str, known: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|_| format!("expected {known}"))
}
