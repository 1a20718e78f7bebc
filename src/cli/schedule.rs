//! The commands `tickwheel schedule ...` set, pause, preview and list schedules for the user.

use std::io::{self, Write as _};

use clap::{Args, Subcommand};

use super::{
    ClientArgs, Exit, Failure, Format,
    bulk::watch,
    dead_letter::{Printer, count_of_none},
    fields::{by_flags, by_flags_of_schedule},
    output::json,
    schedule_import::{EXAMPLES as IMPORT_EXAMPLES, ImportArgs, import},
    schedule_set::{Of, SetArgs},
    schedule_show::show,
    schedule_transfer::{RestoreArgs, export, restore},
    times, why,
};
use crate::{
    api::{
        schedule::{CronText, Overlap},
        text::InstantText,
    },
    client::{
        BackfillRequest, Client, PauseRequest, PreviewResponse, ScheduleRequest, ScheduleResponse,
        StartTime, TaskRequest,
    },
    time_source::TimeSource,
};

const SET_EXAMPLES: &str = "Examples:
  tickwheel schedule set nightly --cron '30 2 * * MON-FRI' --time-zone Europe/Berlin --task '{\"callback\": \"report\"}'
  tickwheel schedule set ping --every 15m --overlap allow --task '{\"callback\": \"ping\"}'
  tickwheel schedule get nightly -o json > nightly.json; tickwheel schedule set nightly --file nightly.json

The schedule that was there before is replaced as a whole.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List schedules by name.
    List(ClientArgs),
    /// Show a schedule: what was set, where it stands, and its next times.
    Get(Of),
    /// Set a schedule, by flags or from a JSON file.
    #[command(visible_alias = "put", after_help = SET_EXAMPLES)]
    Set(Box<SetArgs>),
    /// Delete a schedule. Its runs that have begun go on.
    Delete(Of),
    /// Start no runs until it is resumed.
    Pause(PauseArgs),
    /// Go on, from the next of its times.
    Resume(Of),
    /// Start a run now.
    Trigger(Of),
    /// Start a run for each time of a span that has passed, as a job, and follow it.
    Backfill(BackfillArgs),
    /// Show the next times of a schedule in words, in its zone and in UTC.
    Preview(PreviewArgs),
    /// List the runs of a schedule, the newest first.
    Runs(RunsArgs),
    /// Tell why a schedule did not start a run at a time, or which run it has.
    Why(WhyArgs),
    /// Make a schedule of each line of a crontab file, or none if a line cannot be used.
    #[command(visible_alias = "import-crontab", after_help = IMPORT_EXAMPLES)]
    Import(Box<ImportArgs>),
    /// Print all schedules as JSON, one a line; `restore` sets them again.
    Export(ClientArgs),
    /// Set schedules from the output of `export`.
    Restore(RestoreArgs),
}

/// A pause.
#[derive(Debug, Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    of: Of,
    /// Reason, for people.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The person who pauses it; $USER by default.
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true)]
    who: Option<String>,
}

/// A time to ask about.
#[derive(Debug, Args)]
pub(super) struct WhyArgs {
    #[command(flatten)]
    of: Of,
    /// The time, RFC 3339 with an offset; by default the last of its times that has passed.
    #[arg(long, value_name = "TIME", value_parser = times::instant)]
    time: Option<InstantText>,
}

/// A backfill.
#[derive(Debug, Args)]
pub(super) struct BackfillArgs {
    #[command(flatten)]
    of: Of,
    /// The first time.
    #[arg(long, value_name = "TIME")]
    from: String,
    /// The last time; it must have passed.
    #[arg(long, value_name = "TIME")]
    to: String,
    /// So many runs a second at most.
    #[arg(long, value_name = "NUMBER")]
    rate: Option<f64>,
    /// About runs that would overlap: allow (the default), skip, buffer_one or cancel_other.
    #[arg(long, value_name = "POLICY", value_parser = super::schedule_set::overlap)]
    overlap: Option<Overlap>,
    /// Start nothing: count the runs, and show the first of their times.
    #[arg(long)]
    dry_run: bool,
}

/// A preview.
#[derive(Debug, Args)]
pub(super) struct PreviewArgs {
    /// Name of the schedule; with --cron the name that it would have.
    #[arg(required_unless_present = "cron")]
    name: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
    /// Show times from this one on, RFC 3339 with an offset; now by default.
    #[arg(long, value_name = "TIME", value_parser = times::instant)]
    from: Option<InstantText>,
    /// So many times, 100 at most.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    count: usize,
    /// Show the times of this expression instead, without storing anything.
    #[arg(long, value_name = "EXPRESSION")]
    cron: Vec<String>,
    /// Zone of that expression; UTC by default.
    #[arg(long, value_name = "NAME", requires = "cron")]
    time_zone: Option<String>,
}

/// A list of runs.
#[derive(Debug, Args)]
pub(super) struct RunsArgs {
    #[command(flatten)]
    of: Of,
    /// Stop after this many runs.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::List(client) => list(&client).await?,
        Command::Get(of) => of.told(&of.client()?.schedule(&of.name).await?)?,
        Command::Set(set) => {
            let request = set.request()?;
            let answer = set.of.client()?.set_schedule(&set.of.name, &request).await;
            let answer = match set.file {
                // A file has fields, and no flags.
                Some(_) => answer?,
                None => answer.map_err(by_flags_of_schedule)?,
            };
            set.of.told(&answer)?;
        }
        Command::Delete(of) => of.client()?.delete_schedule(&of.name).await?,
        Command::Pause(PauseArgs { of, reason, who }) => {
            let mut pause = PauseRequest::default();
            (pause.reason, pause.who) = (reason, who);
            let paused = of.client()?.pause_schedule(&of.name, &pause).await;
            of.told(&paused.map_err(by_flags)?)?;
        }
        Command::Resume(of) => of.told(&of.client()?.resume_schedule(&of.name).await?)?,
        Command::Trigger(of) => {
            let task = of.client()?.trigger_schedule(&of.name).await?;
            let mut out = io::stdout().lock();
            match of.client.print.output {
                Format::Table => writeln!(out, "{}", task.id)?,
                format => json(&mut out, format, &task)?,
            }
        }
        Command::Backfill(args) => return backfill(&args).await,
        Command::Preview(args) => preview(&args).await?,
        Command::Runs(RunsArgs { of, limit }) => runs(&of, limit).await?,
        Command::Why(WhyArgs { of, time }) => {
            let client = of.client.connect()?;
            let told = client
                .schedule_why(&of.name, time)
                .await
                .map_err(by_flags)?;
            return why::print_time(&told, of.client.print.output);
        }
        Command::Import(args) => return import(&args).await,
        Command::Export(client) => return export(&client).await,
        Command::Restore(args) => return restore(&args).await,
    }
    Ok(Exit::Ok)
}

impl Of {
    fn client(&self) -> Result<Client, Failure> {
        self.client.connect()
    }

    fn told(&self, schedule: &ScheduleResponse) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match self.client.print.output {
            Format::Table => Ok(show(&mut out, schedule)?),
            format => Ok(json(&mut out, format, schedule)?),
        }
    }
}

async fn list(args: &ClientArgs) -> Result<(), Failure> {
    let mut pages = args.connect()?.schedules();
    let heads = ["NAME", "STATE", "NEXT", "DESCRIPTION"];
    let mut printer = Printer::new(args.print.output, heads);
    while let Some(schedules) = pages.next().await? {
        let mut out = io::stdout().lock();
        for one in &schedules {
            let next = one.next_run_times.first().cloned();
            let columns = [
                one.name.clone(),
                one.state.name().to_owned(),
                next.unwrap_or_else(|| "-".to_owned()),
                one.description.clone(),
            ];
            printer.row(&mut out, one, columns)?;
        }
        out.flush()?;
    }
    printer.end(&mut io::stdout().lock())?;
    count_of_none(&printer, "schedule")
}

async fn runs(of: &Of, limit: usize) -> Result<(), Failure> {
    let mut pages = of.client()?.schedule_runs(&of.name)?;
    let heads = ["SCHEDULED", "ID", "CAUSE", "STATE"];
    let mut printer = Printer::new(of.client.print.output, heads);
    let (mut count, mut more) = (0, false);
    while count < limit
        && let Some(runs) = pages.next().await?
    {
        let mut out = io::stdout().lock();
        more = runs.len() > limit - count;
        for run in runs.iter().take(limit - count) {
            let state = match (&run.reason, run.state) {
                (Some(reason), _) => reason.clone(),
                (None, Some(state)) => state.name().to_owned(),
                (None, None) => "-".to_owned(),
            };
            let cause = serde_json::to_value(run.cause).unwrap_or_default();
            let columns = [
                run.scheduled_time.0.clone(),
                run.id.clone(),
                cause.as_str().unwrap_or_default().to_owned(),
                state,
            ];
            printer.row(&mut out, run, columns)?;
            count += 1;
        }
        out.flush()?;
    }
    printer.end(&mut io::stdout().lock())?;
    if more || (count == limit && pages.next().await?.is_some_and(|runs| !runs.is_empty())) {
        let told = format!("there are more than {limit} runs: --limit COUNT shows more of them");
        writeln!(io::stderr(), "{told}").unwrap_or_default();
    }
    count_of_none(&printer, "run")
}

async fn backfill(args: &BackfillArgs) -> Result<Exit, Failure> {
    let (from, to) = (args.from.as_str().into(), args.to.as_str().into());
    let span = BackfillRequest {
        overlap: args.overlap,
        rate_per_second: args.rate,
        dry_run: args.dry_run,
        ..BackfillRequest::new(from, to)
    };
    let client = args.of.client()?;
    let job = client.backfill_schedule(&args.of.name, &span).await;
    let job = job.map_err(by_flags)?;
    let format = args.of.client.print.output;
    let ended = watch(&client, &job.id, format, &TimeSource::real()).await?;
    if args.dry_run && format == Format::Table {
        let job = client.job(&job.id).await?;
        let mut out = io::stdout().lock();
        for time in job.sample_times.unwrap_or_default() {
            writeln!(out, "{}", time.0)?;
        }
    }
    Ok(ended)
}

async fn preview(args: &PreviewArgs) -> Result<(), Failure> {
    let client = args.client.connect()?;
    let name = args.name.as_deref().unwrap_or("preview");
    let preview = if args.cron.is_empty() {
        let from = args.from.clone().map(StartTime::from);
        client.preview_schedule(name, args.count, from).await
    } else {
        let task = TaskRequest {
            callback: Some(crate::api::target::CallbackTarget::Name(
                "preview".to_owned(),
            )),
            ..TaskRequest::default()
        };
        let request = ScheduleRequest {
            cron: Some(CronText::Several(args.cron.clone())),
            time_zone: args.time_zone.clone(),
            start_time: args.from.clone(),
            ..ScheduleRequest::default()
        };
        let request = request.runs(task);
        client.check_schedule(name, &request, args.count).await
    };
    let preview = preview.map_err(by_flags)?;
    let mut out = io::stdout().lock();
    match args.client.print.output {
        Format::Table => Ok(table(&mut out, &preview)?),
        format => Ok(json(&mut out, format, &preview)?),
    }
}

fn table(out: &mut impl io::Write, preview: &PreviewResponse) -> io::Result<()> {
    let (zone, version) = (&preview.time_zone, &preview.time_zone_version);
    writeln!(out, "{}", preview.description)?;
    writeln!(out, "{:<28}  UTC", format!("{zone} ({version})"))?;
    for time in &preview.run_times {
        writeln!(out, "{:<28}  {}", time.local, time.utc.0)?;
    }
    Ok(())
}
