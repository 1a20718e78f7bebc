//! The commands `tickwheel schedule export` and `restore` carry all schedules to a file, and from there to a service, for the
//! user.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;

use super::{
    ClientArgs, Exit, Failure,
    input::{JsonLine, JsonLines},
    output::counted,
    private,
    report::{Report, broke_off},
};
use crate::client::{Client, NamedSchedule};

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
    private::warn_of_open_output("payloads");
    let mut out = io::stdout().lock();
    while let Some(page) = pages.next().await? {
        for one in page {
            serde_json::to_writer(&mut out, &one).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(Exit::Ok)
}

/// Sets the schedules of a file. Every line of a file is read before the first is set; a pipe can be read only once.
pub(super) async fn restore(args: &RestoreArgs) -> Result<Exit, Failure> {
    let client = args.client.connect()?;
    let lines = JsonLines::open(&args.file, |lines| {
        lines.try_for_each(|line| line.map(drop))
    })?;
    let (mut set, mut report) = (0, Report::default());
    let ended = set_all(&client, lines, &mut set, &mut report).await;
    let told = format!("{} set", counted(set, "schedule"));
    let told = report.end(&told, ended, Exit::Usage)?;
    writeln!(io::stdout().lock(), "{told}")?;
    Ok(Exit::Ok)
}

async fn set_all(
    client: &Client,
    mut lines: JsonLines<NamedSchedule>,
    set: &mut u64,
    report: &mut Report,
) -> Result<(), Failure> {
    loop {
        let piece = lines.piece()?;
        let Some(JsonLine { number, value }) = piece.first() else {
            return Ok(());
        };
        let first = format!("line {number} ({})", value.name);
        let piece: Vec<NamedSchedule> = piece.into_iter().map(|line| line.value).collect();
        let names: Vec<String> = piece.iter().map(|one| one.name.clone()).collect();
        let results = client.import_schedules(piece).await;
        let results = results.map_err(|error| broke_off(&first, error))?;
        for (name, result) in names.iter().zip(results) {
            *set += u64::from(report.note(name, result.outcome, result.error));
        }
    }
}
