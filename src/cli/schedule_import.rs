//! The command `tickwheel schedule import` makes a schedule of each line of a crontab for the user.
//!
//! All lines are checked before the first schedule is set: the names have the numbers of the lines, so a file that is corrected
//! and imported again would set some schedules twice.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{
    ClientArgs, Exit, Failure,
    crontab::{self, Entry, Line},
    input,
    output::{counted, printable},
    report::{Report, broke_off},
};
use crate::{
    client::{Client, Error, NamedSchedule, ScheduleRequest},
    limits::{CHECKS_IN_FLIGHT_MAX, CRONTAB_BYTES_MAX, PIECE_ITEMS_MAX},
};

pub(super) const EXAMPLES: &str = "Examples:
  crontab -l | tickwheel schedule import - --callback shell --time-zone Europe/Berlin --dry-run
  tickwheel schedule import /etc/crontab --system --callback shell

Each line becomes a schedule with the name PREFIX-LINE. Its task has the command as payload, for a worker such as
`tickwheel worker --callback shell -- sh -c 'jq -r .command | sh'`. docs/schedules.md has one that also hands on the input
behind a percent sign and the variable TZ.";

/// A crontab file.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file, - for standard input.
    file: PathBuf,
    /// Callback of the tasks; their payload is {"command", "user", "input", "environment"}, with what the line has.
    #[arg(long, value_name = "NAME")]
    callback: String,
    /// Zone of the expressions, unless the file has a line CRON_TZ=; UTC by default.
    #[arg(long, value_name = "NAME")]
    time_zone: Option<String>,
    /// Beginning of the names.
    #[arg(long, value_name = "TEXT", default_value = "crontab")]
    prefix: String,
    /// The sixth field is a user, as in /etc/crontab.
    #[arg(long)]
    system: bool,
    /// Check the lines and show what they would become, and store nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// A line that the service would take.
struct Checked {
    number: usize,
    name: String,
    command: String,
    request: ScheduleRequest,
    description: String,
}

/// A line of the crontab, or the reason why it cannot be used.
type Outcome = Result<Checked, (usize, String)>;

/// Makes a schedule of each line, or none if a line cannot be used.
pub(super) async fn import(args: &ImportArgs) -> Result<Exit, Failure> {
    let text = input::text(&args.file, CRONTAB_BYTES_MAX)?;
    let client = args.client.connect()?;
    let (lines, wrong) = checked(&client, &text, args).await?;
    if args.dry_run {
        print(lines.iter())?;
        return Ok(if wrong == 0 { Exit::Ok } else { Exit::Usage });
    }
    if wrong > 0 {
        let lines = counted(wrong, "line");
        let why = format!("{lines} cannot be used, and nothing was stored: correct or remove them");
        return Err(Failure::usage(why));
    }
    let (mut set, mut report) = (0, Report::default());
    let ended = store(&client, &lines, &mut set, &mut report).await;
    let told = format!("{} set", counted(set, "schedule"));
    let told = report.end(&told, ended, Exit::Usage)?;
    writeln!(io::stderr(), "{told}").unwrap_or_default();
    Ok(Exit::Ok)
}

/// Sets the schedules, and prints those that are set.
async fn store(
    client: &Client,
    lines: &[Checked],
    set: &mut u64,
    report: &mut Report,
) -> Result<(), Failure> {
    for piece in lines.chunks(PIECE_ITEMS_MAX) {
        let schedules = piece.iter().map(|line| NamedSchedule {
            name: line.name.clone(),
            schedule: line.request.clone(),
        });
        let results = client.import_schedules(schedules.collect()).await;
        let first = piece.first().map_or(0, |line| line.number);
        let results = results.map_err(|error| broke_off(&format!("line {first}"), error))?;
        let mut there = Vec::with_capacity(piece.len());
        for (line, result) in piece.iter().zip(results) {
            let is_refused = result.outcome.is_none();
            let name = format!("line {}", line.number);
            *set += u64::from(report.note(&name, result.outcome, result.error));
            there.extend((!is_refused).then_some(line));
        }
        print(there.into_iter())?;
    }
    Ok(())
}

fn print<'a>(lines: impl Iterator<Item = &'a Checked>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in lines {
        let (name, description, command) = (&line.name, &line.description, &line.command);
        writeln!(
            out,
            "{}",
            printable(&format!("{name}  {description}  {command}"))
        )?;
    }
    Ok(())
}

/// Checks all lines. Returns those that the service would take, and how many others there are, of which each is told.
async fn checked(
    client: &Client,
    text: &str,
    args: &ImportArgs,
) -> Result<(Vec<Checked>, u64), Failure> {
    let checks = stream::iter(crontab::lines(text, args.system)).map(async |line| match line {
        Line::Entry { number, entry } => check(client, number, entry, args).await,
        Line::Wrong { number, why } => Ok(Err((number, why))),
    });
    let checks = checks.buffered(CHECKS_IN_FLIGHT_MAX);
    let (mut lines, mut wrong) = (Vec::new(), 0);
    let mut checks = std::pin::pin!(checks);
    while let Some(outcome) = checks.try_next().await? {
        match outcome {
            Ok(line) => lines.push(line),
            Err((number, why)) => {
                wrong += 1;
                // A closed standard error cannot be told to anybody.
                writeln!(io::stderr(), "line {number}: {}", printable(&why)).unwrap_or_default();
            }
        }
    }
    Ok((lines, wrong))
}

async fn check(
    client: &Client,
    number: usize,
    entry: Entry,
    args: &ImportArgs,
) -> Result<Outcome, Failure> {
    let name = format!("{}-{number}", args.prefix);
    let zone = entry.zone.clone().or_else(|| args.time_zone.clone());
    let request = entry.request(&args.callback, zone)?;
    match client.check_schedule(&name, &request, 1).await {
        Ok(preview) => Ok(Ok(Checked {
            number,
            name,
            command: entry.command,
            request,
            description: preview.description,
        })),
        Err(error @ Error::Refused { .. }) => Ok(Err((number, error.to_string()))),
        Err(error) => {
            let Failure { exit, text } = error.into();
            let text =
                format!("line {number} could not be checked, and nothing was stored: {text}");
            Err(Failure { exit, text })
        }
    }
}
