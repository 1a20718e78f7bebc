//! The command `tickwheel dead-letter` lists, counts, redrives and deletes dead tasks for the user.

use std::io::{self, Write};

use clap::{ArgGroup, Args, Subcommand};
use serde::Serialize;

use super::{
    ClientArgs, Exit, Failure, Format, bulk,
    cancel::{first_of, worse},
    fields::by_flags,
    output::{counted, printable},
    report::broke_off,
};
use crate::{
    client::{
        DeadLetter, DeadLetterFilter, Error, RedriveOutcome, RedriveRequest, RedriveResponse,
        TaskState,
    },
    limits::{BATCH_ITEMS_MAX, LIST_TASKS_MAX},
    model::ids::TaskId,
};

const REDRIVE_EXAMPLES: &str = "Examples:
  tickwheel dead-letter redrive 0198c2a4-7c51-8003-a1b2-c3d4e5f60718
  tickwheel dead-letter redrive --callback send_email --error 'timeout after # ms' --dry-run";

/// `tickwheel dead-letter`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List dead tasks, newest first.
    List(List),
    /// Count dead tasks by callback and error.
    Groups(Groups),
    /// Make dead tasks run again, each with all its attempts.
    #[command(after_help = REDRIVE_EXAMPLES)]
    Redrive(Redrive),
    /// Delete dead tasks for good: their payloads, labels, results and errors.
    Delete(Delete),
}

/// The filter of dead tasks.
#[derive(Debug, Clone, Args)]
pub(super) struct FilterArgs {
    /// Only tasks of this callback; in a list, 'mail.*' is all whose names begin with `mail.`.
    #[arg(long, value_name = "NAME")]
    callback: Option<String>,
    /// Only tasks with this error, as `dead-letter groups` shows it.
    #[arg(long, value_name = "ERROR")]
    error: Option<String>,
}

/// `tickwheel dead-letter list`.
#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    filter: FilterArgs,
    /// Stop after this many tasks.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    #[command(flatten)]
    client: ClientArgs,
}

/// `tickwheel dead-letter groups`.
#[derive(Debug, Args)]
pub(super) struct Groups {
    /// Only tasks of this callback; 'mail.*' is all whose names begin with `mail.`.
    #[arg(long, value_name = "NAME")]
    callback: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

/// `tickwheel dead-letter redrive`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("dead").args(["ids", "callback", "error"]).required(true).multiple(true)))]
pub(super) struct Redrive {
    /// Ids of dead tasks; or give --callback or --error.
    #[arg(value_name = "ID", conflicts_with_all = ["callback", "error"])]
    ids: Vec<TaskId>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Change nothing: say how many tasks would run again, and show the first of them.
    #[arg(long)]
    dry_run: bool,
    /// Redrive so many tasks of the filter a second at most.
    #[arg(long, value_name = "N", conflicts_with = "ids")]
    rate: Option<f64>,
    /// Register the job of a filter and do not wait for its end.
    #[arg(long, conflicts_with = "ids")]
    no_wait: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// `tickwheel dead-letter delete`.
#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Ids of dead tasks.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<TaskId>,
    /// Delete nothing: say which of them are dead.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::List(command) => list(command).await,
        Command::Groups(command) => groups(command).await,
        Command::Redrive(command) => redrive(command).await,
        Command::Delete(command) => delete(command).await,
    }
}

async fn list(command: List) -> Result<Exit, Failure> {
    let List {
        filter,
        limit,
        client: of,
    } = command;
    let limit = limit.unwrap_or(usize::MAX);
    let filter = DeadLetterFilter {
        callback: filter.callback,
        error: filter.error,
        page_size: Some(limit.clamp(1, LIST_TASKS_MAX)),
    };
    let mut pages = of.connect()?.dead_letters(filter);
    let mut printer = Printer::new(
        of.print.output,
        ["ID", "DIED", "ATTEMPT", "CALLBACK", "ERROR"],
    );
    let mut count = 0;
    while count < limit
        && let Some(letters) = pages.next().await.map_err(by_flags)?
    {
        let mut out = io::stdout().lock();
        for letter in letters.iter().take(limit - count) {
            printer.row(&mut out, letter, row_of(letter))?;
            count += 1;
        }
        out.flush()?;
    }
    printer.end(&mut io::stdout().lock())?;
    count_of_none(&printer, "dead letter")?;
    Ok(Exit::Ok)
}

/// Says that a table has no rows: nothing at all could also be a fault.
pub(super) fn count_of_none<const N: usize>(
    printer: &Printer<N>,
    noun: &str,
) -> Result<(), Failure> {
    if printer.format == Format::Table && !printer.begun {
        writeln!(io::stdout().lock(), "{}", counted(0, noun))?;
    }
    Ok(())
}

fn row_of(letter: &DeadLetter) -> [String; 5] {
    [
        letter.id.clone(),
        letter.end_time.0.clone(),
        letter.attempt.to_string(),
        letter.callback.clone(),
        letter.error.clone(),
    ]
}

async fn groups(command: Groups) -> Result<Exit, Failure> {
    let Groups {
        callback,
        client: of,
    } = command;
    let client = of.connect()?;
    let groups = client.dead_letter_groups(callback.as_deref()).await;
    let mut printer = Printer::new(
        of.print.output,
        ["TASKS", "OLDEST", "NEWEST", "CALLBACK", "ERROR"],
    );
    let mut out = io::stdout().lock();
    for group in groups.map_err(by_flags)? {
        let sign = if group.at_least { "+" } else { "" };
        let row = [
            format!("{}{sign}", group.tasks),
            group.oldest.0.clone(),
            group.newest.0.clone(),
            group.callback.clone(),
            group.error.clone(),
        ];
        printer.row(&mut out, &group, row)?;
    }
    printer.end(&mut out)?;
    drop(out);
    count_of_none(&printer, "dead letter")?;
    Ok(Exit::Ok)
}

async fn redrive(command: Redrive) -> Result<Exit, Failure> {
    let Redrive {
        ids,
        filter,
        dry_run,
        rate,
        no_wait,
        client: of,
    } = command;
    let client = of.connect()?;
    if ids.is_empty() {
        let request = RedriveRequest {
            callback: filter.callback,
            error: filter.error,
            rate_per_second: rate,
            dry_run,
            ..RedriveRequest::default()
        };
        let job = client.redrive(&request).await.map_err(by_flags)?;
        return bulk::follow(&client, &job, no_wait, &of).await;
    }
    let mut told = Told::new(&of);
    let mut exit = Exit::Ok;
    for ids in ids.chunks(BATCH_ITEMS_MAX) {
        let answer = if dry_run {
            client.preview_redrive(ids).await
        } else {
            client.redrive_ids(ids).await
        };
        match answer {
            Ok(answer) => exit = worse(exit, told.add(&answer)?),
            Err(error) => {
                told.end()?;
                return Err(broke_off(&first_of(ids), error));
            }
        }
    }
    told.end()?;
    Ok(exit)
}

/// The sum of the answers of a redrive of ids.
#[derive(Debug)]
struct Told {
    format: Format,
    sum: RedriveResponse,
}

impl Told {
    fn new(of: &ClientArgs) -> Self {
        Self {
            format: of.print.output,
            sum: RedriveResponse::default(),
        }
    }

    /// Adds an answer, and tells what went wrong with single tasks.
    fn add(&mut self, answer: &RedriveResponse) -> Result<Exit, Failure> {
        let sum = &mut self.sum;
        sum.redriven += answer.redriven;
        sum.not_dead += answer.not_dead;
        sum.failed += answer.failed;
        sum.dry_run |= answer.dry_run;
        if let Some(more) = answer.matching {
            sum.matching = Some(sum.matching.unwrap_or_default() + more);
        }
        sum.sample.extend(answer.sample.iter().cloned());
        sum.results.extend(answer.results.iter().cloned());
        let mut exit = Exit::Ok;
        for result in &answer.results {
            match (&result.outcome, &result.error) {
                (_, Some(problem)) => {
                    let failure = Failure::from(Error::of_item(problem.clone()));
                    writeln!(io::stderr(), "{}: {}", result.id, failure.text)?;
                    exit = worse(exit, failure.exit);
                }
                (Some(RedriveOutcome::NotDead), None) => {
                    let state = result
                        .task
                        .as_ref()
                        .map_or("unknown", |task| task.state.name());
                    writeln!(io::stderr(), "{}: not dead: it is {state}", result.id)?;
                    exit = worse(exit, Exit::TooLate);
                }
                (Some(RedriveOutcome::Blocked), None) => {
                    let why = "its key names another live task, or its payload is gone";
                    writeln!(io::stderr(), "{}: still dead: {why}", result.id)?;
                    exit = worse(exit, Exit::TooLate);
                }
                (Some(_) | None, None) => {}
            }
        }
        Ok(exit)
    }

    fn end(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let sum = &self.sum;
        match self.format {
            Format::Json => {
                serde_json::to_writer_pretty(&mut out, sum)?;
                writeln!(out)
            }
            Format::Jsonl => {
                serde_json::to_writer(&mut out, sum)?;
                writeln!(out)
            }
            Format::Table => {
                if let Some(matching) = sum.matching {
                    writeln!(out, "would redrive {matching}; nothing was changed")?;
                    return sum.sample.iter().try_for_each(|task| {
                        writeln!(out, "{}  {}", task.id, printable(&task.target.to_string()))
                    });
                }
                writeln!(
                    out,
                    "redriven {}, not dead {}, failed {}",
                    sum.redriven, sum.not_dead, sum.failed
                )
            }
        }
    }
}

async fn delete(command: Delete) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Deleted {
        id: String,
        outcome: &'static str,
    }

    let Delete {
        ids,
        dry_run,
        client: of,
    } = command;
    let client = of.connect()?;
    let mut printer = Printer::new(of.print.output, ["ID", "OUTCOME"]);
    let mut exit = Exit::Ok;
    for id in ids {
        let answer = if dry_run {
            client.get(id).await.map(|task| {
                if task.state == TaskState::Dead {
                    "would be deleted"
                } else {
                    "not dead"
                }
            })
        } else {
            client.delete_dead_letter(id).await.map(|()| "deleted")
        };
        match answer {
            Ok(outcome) => {
                let id = id.to_string();
                let row = [id.clone(), outcome.to_owned()];
                printer.row(&mut io::stdout().lock(), &Deleted { id, outcome }, row)?;
            }
            Err(error) => {
                let failure = Failure::from(error);
                writeln!(io::stderr(), "{id}: {}", failure.text)?;
                exit = worse(exit, failure.exit);
            }
        }
    }
    printer.end(&mut io::stdout().lock())?;
    Ok(exit)
}

/// Prints values one below the other, as they come.
#[derive(Debug)]
pub(super) struct Printer<const N: usize> {
    format: Format,
    heads: [&'static str; N],
    begun: bool,
}

impl<const N: usize> Printer<N> {
    pub(super) const fn new(format: Format, heads: [&'static str; N]) -> Self {
        Self {
            format,
            heads,
            begun: false,
        }
    }

    pub(super) fn row(
        &mut self,
        out: &mut impl Write,
        value: &impl Serialize,
        columns: [String; N],
    ) -> io::Result<()> {
        let first = !std::mem::replace(&mut self.begun, true);
        match self.format {
            Format::Table => {
                if first {
                    line(out, self.heads, self.heads)?;
                }
                let columns = columns.map(|column| printable(&column));
                line(out, self.heads, columns.each_ref().map(String::as_str))
            }
            Format::Json => {
                write!(out, "{}", if first { "[\n" } else { ",\n" })?;
                serde_json::to_writer_pretty(out, value).map_err(Into::into)
            }
            Format::Jsonl => {
                serde_json::to_writer(&mut *out, value)?;
                writeln!(out)
            }
        }
    }

    pub(super) fn end(&self, out: &mut impl Write) -> io::Result<()> {
        match (self.format, self.begun) {
            (Format::Json, true) => writeln!(out, "\n]"),
            (Format::Json, false) => writeln!(out, "[]"),
            (Format::Table | Format::Jsonl, _) => Ok(()),
        }
    }
}

fn line<const N: usize>(
    out: &mut impl Write,
    heads: [&str; N],
    columns: [&str; N],
) -> io::Result<()> {
    let width = |head: &str| match head {
        "ID" => 36,
        "DIED" | "OLDEST" | "NEWEST" | "CREATED" => 24,
        "CALLBACK" | "KIND" => 16,
        _ => 7,
    };
    let padded = heads.iter().zip(columns).map(|(head, column)| {
        let width = width(head);
        format!("{column:<width$}")
    });
    let padded: Vec<String> = padded.collect();
    writeln!(out, "{}", padded.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_a_table_or_values() {
        let print = |format| {
            let mut printer = Printer::new(format, ["ID", "ERROR"]);
            let mut out = Vec::new();
            for error in ["one", "t\u{1b}wo"] {
                let columns = ["1".to_owned(), error.to_owned()];
                printer.row(&mut out, &error, columns).unwrap();
            }
            printer.end(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let table = print(Format::Table);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("ID") && lines[0].ends_with("ERROR"));
        assert!(lines[2].ends_with("t\\u{1b}wo"), "{}", lines[2]);
        assert_eq!(print(Format::Jsonl).lines().count(), 2);
        let values: Vec<String> = serde_json::from_str(&print(Format::Json)).unwrap();
        assert_eq!(values.len(), 2);
    }
}
