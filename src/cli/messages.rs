//! The command `tickwheel task messages` prints for the user what the worker of an attempt has told.

use std::io::{self, Write as _};

use clap::Args;

use super::{ClientArgs, Exit, Failure, Format, output::printable};
use crate::model::ids::TaskId;

/// The attempt.
#[derive(Debug, Args)]
pub(super) struct Command {
    /// The id of the task, as printed by `task register`.
    id: TaskId,
    /// The attempt; the last one by default.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    #[command(flatten)]
    client: ClientArgs,
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let Command {
        id,
        attempt,
        client,
    } = command;
    let told = client.connect()?.messages(id, attempt).await?;
    let mut out = io::stdout().lock();
    match client.print.output {
        Format::Table => {
            for message in &told.messages {
                let text = printable(message.progress.get());
                writeln!(out, "{}  {text}", message.time.0)?;
            }
        }
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &told).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        Format::Jsonl => {
            for message in &told.messages {
                serde_json::to_writer(&mut out, message).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
    }
    Ok(Exit::Ok)
}
