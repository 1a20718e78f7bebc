//! The commands `tickwheel schedule export` and `restore` carry all schedules to a file, and from there to a service, for the
//! user.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;

use super::{ClientArgs, Exit, Failure, crontab, output::counted};
use crate::client::{Client, ImportOutcome, NamedSchedule};

/// Schedules of one call: as many as a page of an export.
const AT_ONCE: usize = 100;

/// The file to restore.
#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// The file, - for standard input.
    file: PathBuf,
    #[command(flatten)]
    client: ClientArgs,
}

/// Prints all schedules.
pub(super) async fn export(args: &ClientArgs) -> Result<Exit, Failure> {
    let mut pages = args.connect()?.export_schedules();
    let mut out = io::stdout().lock();
    while let Some(page) = pages.next().await? {
        for one in page {
            serde_json::to_writer(&mut out, &one).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(Exit::Ok)
}

/// Sets the schedules of a file. Every line is read before the first is set.
pub(super) async fn restore(args: &RestoreArgs) -> Result<Exit, Failure> {
    let client = args.client.connect()?;
    let text = crontab::text(&args.file)?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let read = lines.map(|(index, line)| {
        serde_json::from_str(line)
            .map_err(|error| Failure::usage(format!("line {}: {error}", index + 1)))
    });
    let all: Vec<NamedSchedule> = read.collect::<Result<_, _>>()?;
    let (mut set, mut unchanged, mut refused) = (0, 0, 0);
    for some in all.chunks(AT_ONCE) {
        for (name, outcome) in import(&client, some).await? {
            match outcome {
                Ok(ImportOutcome::Unchanged) => unchanged += 1,
                Ok(_) => set += 1,
                Err(why) => {
                    refused += 1;
                    // A reader of errors that has gone must not end the import.
                    drop(writeln!(io::stderr(), "{name}: {why}"));
                }
            }
        }
    }
    let mut told = format!("{} set", counted(set, "schedule"));
    if unchanged > 0 {
        told.push_str(&format!(", {unchanged} were so already"));
    }
    if refused > 0 {
        return Err(Failure::usage(format!("{told}, {refused} refused")));
    }
    writeln!(io::stdout().lock(), "{told}")?;
    Ok(Exit::Ok)
}

/// Sets some schedules, and returns for each its name and the outcome, or why it was refused.
async fn import(
    client: &Client,
    schedules: &[NamedSchedule],
) -> Result<Vec<(String, Result<ImportOutcome, String>)>, Failure> {
    let results = client.import_schedules(schedules.to_vec()).await?;
    let named = schedules.iter().zip(results).map(|(schedule, result)| {
        let outcome = match (result.outcome, result.error) {
            (Some(outcome), _) => Ok(outcome),
            (None, error) => Err(error.map_or_else(String::new, |error| error.detail)),
        };
        (schedule.name.clone(), outcome)
    });
    Ok(named.collect())
}
