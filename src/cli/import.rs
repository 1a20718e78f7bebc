//! The command `tickwheel task import` registers tasks for the user from a file with one JSON object a line,
//! in batches.
//!
//! Every line is acknowledged or reported with its number. A registration whose answer was lost is reported
//! and not sent again, since it may have been done. After an interrupt the command sends nothing more, waits
//! for requests under way, and says how to go on.

use std::{io::Write as _, path::PathBuf};

use clap::Args;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{
    ClientArgs, Exit, Failure, Format,
    batch::{Rejected, Sent, send},
    lines::{self, Batch, Reading},
    output::{counted, printable},
    private,
};
use crate::{client::Client, limits::BATCH_ITEMS_MAX, time_source::TimeSource};

/// `tickwheel task import`.
#[derive(Debug, Args)]
pub(super) struct Command {
    /// File with one task a line, as POST /v1/tasks takes it, such as {"callback":"c","delay":"90s"}; - for standard input.
    file: PathBuf,
    /// Leave out this many lines at the beginning, to go on after an interrupt.
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    skip: u64,
    /// Tasks per request.
    #[arg(long, value_name = "COUNT", default_value_t = 500,
        value_parser = clap::value_parser!(u16).range(1..=BATCH_ITEMS_MAX as i64))]
    batch: u16,
    /// Requests under way at once.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    /// Write the lines that failed to this file as JSON lines {"line", "reason", "task"}, instead of to standard error.
    #[arg(long, value_name = "FILE")]
    errors: Option<PathBuf>,
    /// Only check that the lines can be read.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// The result of an import.
#[derive(Debug, Default, Serialize)]
struct Summary {
    registered: u64,
    failed: u64,
    /// Lines that were handled, from the beginning of the file; to go on, skip as many.
    lines: u64,
    interrupted: bool,
}

/// The output of results.
struct Ledger {
    file: String,
    errors: Option<std::fs::File>,
    progress: ProgressBar,
    summary: Summary,
}

impl Ledger {
    /// Writes to standard error, above the bar.
    fn tell(&self, text: &str) {
        let text = printable(text);
        self.progress
            .suspend(|| writeln!(std::io::stderr(), "{text}").unwrap_or_default());
    }

    fn take(&mut self, sent: Sent) -> Result<(), Failure> {
        self.summary.registered += sent.registered;
        self.summary.failed += sent.rejected.len() as u64;
        for Rejected { line, reason, text } in sent.rejected {
            if let Some(file) = &mut self.errors {
                let task: Option<&serde_json::value::RawValue> = serde_json::from_str(&text).ok();
                let report = serde_json::json!({"line": line, "reason": reason, "task": task});
                writeln!(file, "{report}").map_err(|error| {
                    broken_off("cannot write the lines that failed", &error, &self.summary)
                })?;
            } else {
                self.tell(&format!("{}:{line}: {reason}", self.file));
            }
        }
        self.progress
            .set_position(sent.bytes_read.max(self.progress.position()));
        let Summary {
            registered, failed, ..
        } = self.summary;
        self.progress
            .set_message(format!("{registered} registered, {failed} failed"));
        Ok(())
    }
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let name = command.file.display().to_string();
    let (from, size) = lines::open(&command.file)
        .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    let errors = command.errors.as_ref().map(|path| {
        let cannot = |error| Failure::usage(format!("cannot write {}: {error}", path.display()));
        let file = std::fs::File::create(path).map_err(cannot)?;
        if private::is_open(&file) {
            let shown = path.display();
            let told = format!(
                "warning: others than you can read {shown}: chmod go= it, it holds payloads"
            );
            writeln!(std::io::stderr(), "{told}").unwrap_or_default();
        }
        Ok::<_, Failure>(file)
    });
    let mut ledger = Ledger {
        file: if name == "-" {
            "stdin".to_owned()
        } else {
            name
        },
        errors: errors.transpose()?,
        progress: progress(size),
        summary: Summary {
            lines: command.skip,
            ..Summary::default()
        },
    };
    let client = command.client.connect()?;
    let concurrency = usize::from(command.concurrency);
    let reading = Reading {
        skip: command.skip,
        batch: usize::from(command.batch),
        ahead: concurrency,
    };
    let client = (!command.dry_run).then_some(client);
    let batches = lines::read(from, reading);
    import(client, batches, concurrency, &mut ledger).await?;
    ledger.progress.finish_and_clear();
    finish(command.client.print.output, command.dry_run, &ledger)
}

/// Sends batches, some at once, until there are no more or a signal comes.
async fn import(
    client: Option<Client>,
    mut batches: mpsc::Receiver<std::io::Result<Batch>>,
    concurrency: usize,
    ledger: &mut Ledger,
) -> Result<(), Failure> {
    let (stop, time) = (CancellationToken::new(), TimeSource::real());
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut under_way = FuturesUnordered::new();
    let (mut ended, mut broken) = (false, None);
    loop {
        let done = ended || stop.is_cancelled() || broken.is_some();
        if done && under_way.is_empty() {
            ledger.summary.interrupted = !ended;
            // All requests under way have ended, so all lines up to here are accounted for.
            return broken.map_or(Ok(()), |error| {
                let what = format!("cannot read {}", ledger.file);
                Err(broken_off(&what, &error, &ledger.summary))
            });
        }
        let takes = !done && under_way.len() < concurrency;
        let told = tokio::select! {
            biased;
            _ = interrupt.recv() => true,
            _ = terminate.recv() => true,
            Some(sent) = under_way.next() => {
                ledger.take(sent)?;
                false
            }
            batch = batches.recv(), if takes => {
                match batch {
                    Some(Ok(batch)) => {
                        ledger.summary.lines = ledger.summary.lines.max(batch.last);
                        under_way.push(send(client.clone(), batch, &stop, &time));
                    }
                    Some(Err(error)) => broken = Some(error),
                    None => ended = true,
                }
                false
            }
        };
        if told && stop.is_cancelled() {
            return Err(interrupted_twice(&ledger.summary));
        }
        if told {
            stop.cancel();
            let told = "interrupted: waiting for what is under way; once more stops at once";
            ledger.tell(told);
        }
    }
}

fn broken_off(what: &str, error: &std::io::Error, summary: &Summary) -> Failure {
    let Summary {
        registered,
        failed,
        lines,
        ..
    } = summary;
    Failure::failed(format!(
        "{what} behind line {lines}: {error}; registered {registered}, failed {failed}"
    ))
}

/// A bar over the bytes of a file, or a spinner; both are hidden when standard error is not a terminal.
fn progress(size: Option<u64>) -> ProgressBar {
    let (bar, template) = match size {
        Some(size) => (ProgressBar::new(size), "{bar:40} {percent:>3}% {msg} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn interrupted_twice(summary: &Summary) -> Failure {
    Failure::failed(format!(
        "stopped: registered {}; of the lines up to {} the last ones sent may or may not be",
        counted(summary.registered, "task"),
        summary.lines
    ))
}

fn finish(format: Format, dry_run: bool, ledger: &Ledger) -> Result<Exit, Failure> {
    let summary = &ledger.summary;
    let mut out = std::io::stdout().lock();
    match format {
        Format::Table if dry_run => {
            writeln!(
                out,
                "{} can be read, {} cannot",
                counted(summary.registered, "line"),
                summary.failed
            )?;
        }
        Format::Table => {
            writeln!(
                out,
                "registered {}, failed {}",
                summary.registered, summary.failed
            )?;
        }
        Format::Json => writeln!(out, "{:#}", serde_json::json!(summary))?,
        Format::Jsonl => writeln!(out, "{}", serde_json::json!(summary))?,
    }
    drop(out);
    if summary.interrupted {
        let lines = summary.lines;
        let told = format!(
            "{} handled; to go on: --skip {lines}",
            counted(lines, "line")
        );
        writeln!(std::io::stderr(), "{told}").unwrap_or_default();
    }
    Ok(if summary.failed > 0 || summary.interrupted {
        Exit::Failed
    } else {
        Exit::Ok
    })
}
