//! The bulk commands cancel, redrive, move and delete all tasks of a filter for the user, as a job that they follow to its end.
//!
//! The job goes on without the command: after an interrupt `tickwheel job watch` follows it further.

use std::{
    io::{self, IsTerminal as _, Write},
    time::Duration,
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::{ClientArgs, Exit, Failure, Format, fields::by_flags, output::printable};
use crate::{
    api::text::InstantText,
    client::{Client, JobFilter, JobKind, JobRequest, JobResponse, JobState, NewStart, StartTime},
    time_source::TimeSource,
};

/// How often a job is looked at.
const STEP: Duration = Duration::from_millis(500);

/// Wait between looks that fail.
const PAUSE: Duration = Duration::from_secs(2);

/// Failed looks in a row after which a command gives up: about a minute.
const FAILURES_MAX: u32 = 30;

/// The fields of a filter.
const FIELDS: &str =
    "callback, collection, state, start_time_from, start_time_to, error and label.NAME";

/// The refusal of a command that names no task.
pub(super) const EXPECTED: &str = "expected the id of a task, or --filter or --all";

/// Many tasks, and how they are worked on.
#[derive(Debug, Args)]
pub(super) struct BulkArgs {
    /// Work on all tasks of this filter, as a job: FIELD=VALUE, repeated for each field. Fields are callback, collection, state,
    /// start_time_from, start_time_to, error and label.NAME.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = field)]
    filter: Vec<(String, String)>,
    /// Work on every task that the filter does not leave out, even without a filter.
    #[arg(long)]
    all: bool,
    /// Change nothing: count the tasks of the filter, and show the first of them.
    #[arg(long)]
    dry_run: bool,
    /// Work on so many tasks of the filter a second at most.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Register the job and do not wait for its end.
    #[arg(long)]
    no_wait: bool,
}

impl BulkArgs {
    /// Tells whether tasks are named by a filter, not by ids.
    pub(super) const fn is_given(&self) -> bool {
        self.all || !self.filter.is_empty()
    }

    /// Refuses what is for jobs where tasks are named by ids.
    pub(super) fn refuse(&self) -> Result<(), Failure> {
        let flag = match self {
            Self { dry_run: true, .. } => "--dry-run",
            Self { rate: Some(_), .. } => "--rate",
            Self { no_wait: true, .. } => "--no-wait",
            _ => return Ok(()),
        };
        Err(Failure::usage(format!("{flag} needs --filter or --all")))
    }

    fn request(&self, kind: JobKind) -> Result<JobRequest, Failure> {
        let mut request = JobRequest::new(kind, JobFilter::default());
        let filter = &mut request.filter;
        for (name, value) in &self.filter {
            let value = value.clone();
            let twice = match name.as_str() {
                "callback" => filter.callback.replace(value).is_some(),
                "collection" => filter.collection.replace(value).is_some(),
                "state" => {
                    let state = serde_json::from_value(value.clone().into());
                    let state = state.map_err(|_| {
                        Failure::usage(format!(
                            "--filter state: `{value}` is not a state of a task"
                        ))
                    })?;
                    filter.state.replace(state).is_some()
                }
                "start_time_from" => filter.start_time_from.replace(InstantText(value)).is_some(),
                "start_time_to" => filter.start_time_to.replace(InstantText(value)).is_some(),
                "error" => filter.error.replace(value).is_some(),
                name => {
                    let label = name.strip_prefix("label.").unwrap_or_default();
                    let labels = filter.labels.get_or_insert_default();
                    labels.insert(label.to_owned(), value).is_some()
                }
            };
            if twice {
                return Err(Failure::usage(format!("--filter {name} is given twice")));
            }
        }
        request.all = self.all;
        request.dry_run = self.dry_run;
        request.rate_per_second = self.rate;
        Ok(request)
    }
}

/// Reads a field of a filter.
fn field(text: &str) -> Result<(String, String), String> {
    const NAMES: [&str; 6] = [
        "callback",
        "collection",
        "state",
        "start_time_from",
        "start_time_to",
        "error",
    ];
    let expected = || format!("expected FIELD=VALUE; fields are {FIELDS}");
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let label = name.strip_prefix("label.");
    if NAMES.contains(&name) || label.is_some_and(|label| !label.is_empty()) {
        Ok((name.to_owned(), value.to_owned()))
    } else {
        Err(expected())
    }
}

/// Registers the job of a command, and follows it to its end.
pub(super) async fn run(
    kind: JobKind,
    bulk: &BulkArgs,
    start: Option<NewStart>,
    of: &ClientArgs,
) -> Result<Exit, Failure> {
    let mut request = bulk.request(kind)?;
    match start {
        None => {}
        Some(NewStart::At(StartTime(at))) => request.start_time = Some(at),
        Some(NewStart::In(delay)) => request.delay = Some(delay),
    }
    let client = of.connect()?;
    let job = client.create_job(&request).await.map_err(by_flags)?;
    follow(&client, &job, bulk.no_wait, of).await
}

/// Follows a job that was just registered to its end, or prints it.
pub(super) async fn follow(
    client: &Client,
    job: &JobResponse,
    no_wait: bool,
    of: &ClientArgs,
) -> Result<Exit, Failure> {
    if no_wait {
        print(&mut io::stdout().lock(), of.print.output, job)?;
        return Ok(Exit::Ok);
    }
    writeln!(
        io::stderr(),
        "job {}: it goes on without this command",
        job.id
    )?;
    watch(client, &job.id, of.print.output, &TimeSource::real()).await
}

/// Follows a job to its end. It waits for the end of outages of up to about a minute.
pub(super) async fn watch(
    client: &Client,
    id: &str,
    format: Format,
    time: &TimeSource,
) -> Result<Exit, Failure> {
    let bar = Bar::new(format);
    let (mut job, mut failures) = (client.job(id).await?, 0);
    while !job.state.has_ended() {
        bar.show(&job);
        time.sleep(STEP).await;
        match client.job(id).await {
            Ok(next) => (job, failures) = (next, 0),
            Err(error) if error.is_temporary() && failures < FAILURES_MAX => {
                failures += 1;
                time.sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    bar.0.finish_and_clear();
    print(&mut io::stdout().lock(), format, &job)?;
    Ok(match job.state {
        JobState::Completed if job.failed == 0 => Exit::Ok,
        _ => Exit::Failed,
    })
}

/// The progress bar; it is shown where people look.
struct Bar(ProgressBar);

impl Bar {
    fn new(format: Format) -> Self {
        if format != Format::Table || !io::stdout().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::no_length();
        let style = ProgressStyle::with_template("{spinner} {wide_bar} {msg}");
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    fn show(&self, job: &JobResponse) {
        let worked = job.done + job.skipped + job.failed;
        if let Some(total) = job.total_estimate.filter(|_| !job.dry_run) {
            self.0.set_length(total);
        }
        self.0.set_position(worked);
        self.0.set_message(counted(job));
        self.0.tick();
    }
}

/// The progress of a job in words.
pub(super) fn counted(job: &JobResponse) -> String {
    let state = job.state.name();
    if job.dry_run {
        let found = job.total_estimate.unwrap_or_default();
        return format!("{state}: {found} found");
    }
    let of = job
        .total_estimate
        .map_or_else(String::new, |total| format!(" of {total}"));
    format!(
        "{state}: {} done{of}, {} skipped, {} failed",
        job.done, job.skipped, job.failed
    )
}

/// Prints a job.
pub(super) fn print(out: &mut impl Write, format: Format, job: &JobResponse) -> io::Result<()> {
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, job)?;
            writeln!(out)
        }
        Format::Jsonl => {
            serde_json::to_writer(&mut *out, job)?;
            writeln!(out)
        }
        Format::Table => {
            writeln!(out, "job {}  {}  {}", job.id, job.kind.name(), counted(job))?;
            if let Some(error) = &job.error {
                writeln!(out, "error: {}", printable(error))?;
            }
            if job.dry_run && job.state == JobState::Completed {
                let matching = job.total_estimate.unwrap_or_default();
                let verb = job.kind.name();
                writeln!(out, "would {verb} {matching}; nothing was changed")?;
            }
            let mut sample = job.sample.iter().flatten();
            sample.try_for_each(|task| {
                let target = task.target.to_string();
                writeln!(out, "{}  {}", task.id, printable(&target))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_read_field_by_field_and_mistakes_are_named() {
        assert_eq!(
            field("label.tenant=a=b"),
            Ok(("label.tenant".to_owned(), "a=b".to_owned()))
        );
        for wrong in ["callback", "callbak=x", "label.=x", "=x"] {
            let error = field(wrong).unwrap_err();
            assert!(error.contains("start_time_from"), "{error}");
        }
        let bulk = |fields: &[&str]| BulkArgs {
            filter: fields.iter().map(|text| field(text).unwrap()).collect(),
            all: false,
            dry_run: false,
            rate: None,
            no_wait: false,
        };
        let request = bulk(&["callback=a", "state=retrying", "label.x=1", "label.y=2"])
            .request(JobKind::Cancel)
            .unwrap();
        assert_eq!(request.filter.state.unwrap().name(), "retrying");
        assert_eq!(request.filter.labels.unwrap().len(), 2);
        for wrong in [&["callback=a", "callback=b"][..], &["state=odd"]] {
            let refused = bulk(wrong).request(JobKind::Cancel).unwrap_err();
            assert_eq!(refused.exit, Exit::Usage);
        }
    }
}
