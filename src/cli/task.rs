//! The commands `tickwheel task ...` register, read and change tasks for the user.

use std::{io::Write as _, time::Duration};

use clap::{Args, Subcommand};

use super::{
    ClientArgs, Exit, Failure, Format,
    bulk::{self, BulkArgs},
    cancel::{self, tell_reason},
    export,
    fields::by_flags,
    import, list, messages, output, reopen,
    request::RegisterArgs,
    retry_failed, times, tree, why,
};
use crate::{
    api::text::DurationText,
    client::{
        Client, JobKind, NewStart, RescheduleOutcome, RescheduleResponse, TaskResponse, TaskState,
        has_ended,
    },
    model::ids::TaskId,
    time_source::TimeSource,
};

/// How often `watch` looks, which is the longest time for which a state may go unseen.
const WATCH_STEP: Duration = Duration::from_secs(1);

/// Failed looks in a row after which `watch` gives up: about a minute.
const WATCH_FAILURES_MAX: u32 = 30;

/// Wait between looks that fail.
const WATCH_PAUSE: Duration = Duration::from_secs(2);

const REGISTER_EXAMPLES: &str = "Examples:
  tickwheel task register --callback send_email --delay 90s --payload '{\"user\": 7}'
  tickwheel task register --topic orders --at 2030-01-31T09:00:00Z --key 42 --payload-file order.json";

const LIST_EXAMPLES: &str = "Examples:
  tickwheel task list --callback send_email --state retrying
  tickwheel task list --callback send_email --key reset-7
  tickwheel task list --from 1h --to 2h -o jsonl | jq -r .id";

const IMPORT_EXAMPLES: &str = "Examples:
  tickwheel task import tasks.jsonl --errors failed.jsonl
  jq -c .task failed.jsonl | tickwheel task import -";

const EXPORT_EXAMPLES: &str = "Examples:
  tickwheel task export > tasks.jsonl
  tickwheel task export | tickwheel task import - --server http://other:7420";

const RUN_EXAMPLES: &str = "Examples:
  tickwheel task run 0198c2a4-7c51-8003-a1b2-c3d4e5f60718
  tickwheel task run --filter callback=send_email --filter state=retrying --rate 50";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Register a task.
    #[command(after_help = REGISTER_EXAMPLES)]
    Register {
        #[command(flatten)]
        task: Box<RegisterArgs>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Read a task.
    Get {
        #[command(flatten)]
        of: TaskArgs,
        /// Wait this long for it to end, such as 30s.
        #[arg(long, value_name = "DURATION", value_parser = times::duration)]
        wait: Option<Duration>,
    },
    /// List tasks that have not ended, or ended within about ten minutes, by start time.
    ///
    /// There is no index: on a cluster the wheel is read from now up to --to, which takes a while when that
    /// is far away. A task that changes meanwhile may be listed twice or not at all.
    #[command(after_help = LIST_EXAMPLES)]
    List(list::Command),
    /// Cancel one task or several, or all tasks of a filter.
    ///
    /// With several tasks each one is answered, failures on standard error. The exit code is 0 when none
    /// failed and none was too late, else that of the worst. The command can be repeated.
    #[command(after_help = cancel::EXAMPLES)]
    Cancel(cancel::Command),
    /// Move the start of a task, or of all tasks of a filter.
    Reschedule {
        /// Its id, as printed by `task register`.
        #[arg(conflicts_with_all = ["filter", "all"])]
        id: Option<TaskId>,
        #[command(flatten)]
        start: StartArgs,
        #[command(flatten)]
        bulk: BulkArgs,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Make all dead tasks of a filter run again, each with all its attempts.
    Redrive(ManyArgs),
    /// Delete all dead tasks of a filter for good.
    Delete(ManyArgs),
    /// Start a task now, or all tasks of a filter that wait; one that is dead runs again, with its attempts counted afresh.
    #[command(after_help = RUN_EXAMPLES)]
    Run(OneOrManyArgs),
    /// Deliver a task over HTTP again, also one that succeeded, which is copied.
    Redeliver(TaskArgs),
    /// Run the failed part of a tree again: the task and all below it that failed, died or expired.
    ///
    /// Trees above it that have ended go on, too.
    #[command(after_help = retry_failed::EXAMPLES)]
    RetryFailed(retry_failed::Command),
    /// Print what the worker of an attempt has told: each progress note of its heartbeats that was new.
    Messages(messages::Command),
    /// Say that all children of a task were added, whose tree --children-within holds open for them.
    ChildrenComplete(TaskArgs),
    /// Let a task of a tree that has succeeded run again, or all such tasks of a filter: each begins a new round, and the trees
    /// that it is in go on.
    #[command(after_help = reopen::EXAMPLES)]
    Reopen(reopen::Command),
    /// Show a task with all tasks below it.
    #[command(after_help = tree::EXAMPLES)]
    Tree(tree::Command),
    /// Tell why a task does not run: each cause, since when, and what to do.
    Why(TaskArgs),
    /// Print a task whenever its state changes, until it has ended; 0 when it succeeded or was published.
    Watch(TaskArgs),
    /// Register the tasks of a file, one JSON object a line.
    ///
    /// Lines that fail are reported with their numbers, all others are registered; the exit code is 1 when
    /// any failed. Lines that the service cannot take now are sent again for about two minutes. After an
    /// interrupt it says how to go on (--skip). A line whose answer was lost is reported and not sent again,
    /// as its task may have been registered.
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(import::Command),
    /// Write tasks to standard output, as lines that `task import` accepts: tasks that have not ended, or
    /// those in --state.
    ///
    /// An embedded store exports all of them. A cluster exports tasks that start within 24 hours, with a
    /// warning, unless --to says otherwise. Imported tasks are new tasks: ids, attempts and states are not
    /// kept.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(export::Command),
}

/// A task.
#[derive(Debug, Args)]
pub(super) struct TaskArgs {
    /// Its id, as printed by `task register`.
    id: TaskId,
    #[command(flatten)]
    client: ClientArgs,
}

/// A task, or many.
#[derive(Debug, Args)]
pub(super) struct OneOrManyArgs {
    /// Its id, as printed by `task register`.
    #[arg(conflicts_with_all = ["filter", "all"])]
    id: Option<TaskId>,
    #[command(flatten)]
    bulk: BulkArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// Many tasks.
#[derive(Debug, Args)]
pub(super) struct ManyArgs {
    #[command(flatten)]
    bulk: BulkArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// The new start of a task.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct StartArgs {
    /// Start this long from now, such as 90s or "1h 30m".
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    delay: Option<DurationText>,
    /// Start at this time: RFC 3339 with an offset, such as 2030-01-31T09:00:00Z, or from now, such as 2h.
    #[arg(long, value_name = "TIME", value_parser = times::start)]
    at: Option<NewStart>,
}

impl StartArgs {
    fn new_start(self) -> Result<NewStart, Failure> {
        match (self.delay, self.at) {
            (Some(delay), None) => Ok(NewStart::In(delay)),
            (None, Some(at)) => Ok(at),
            _ => Err(Failure::usage("expected either --delay or --at")),
        }
    }
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Register { task, client } => {
            let task = task.task()?;
            let registered = client.connect()?.register(task).await;
            let registered = registered.map_err(by_flags)?;
            print(client.print.output, None, &registered.task)?;
            Ok(Exit::Ok)
        }
        Command::Get { of, wait } => {
            let client = of.client()?;
            let task = match wait {
                Some(limit) => client.wait(of.id, limit).await?,
                None => client.get(of.id).await?,
            };
            print(of.client.print.output, None, &task)?;
            Ok(Exit::Ok)
        }
        Command::List(command) => list::run(command).await,
        Command::Import(command) => import::run(command).await,
        Command::Export(command) => export::run(command).await,
        Command::Cancel(command) => cancel::run(command).await,
        Command::RetryFailed(command) => retry_failed::run(command).await,
        Command::Messages(command) => messages::run(command).await,
        Command::Reopen(command) => reopen::run(command).await,
        Command::ChildrenComplete(of) => {
            let task = of.client()?.complete_children(of.id).await?;
            print(of.client.print.output, Some("is complete"), &task)?;
            Ok(Exit::Ok)
        }
        Command::Tree(command) => tree::run(command).await,
        Command::Reschedule {
            id,
            start,
            bulk,
            client,
        } => reschedule(id, start.new_start()?, &bulk, &client).await,
        Command::Redrive(of) => of.run(JobKind::Redrive).await,
        Command::Delete(of) => of.run(JobKind::Delete).await,
        Command::Run(of) => start_now(&of).await,
        Command::Redeliver(of) => {
            let answer = of.client()?.redeliver(of.id).await?;
            moved(of.client.print.output, &answer)
        }
        Command::Why(of) => {
            let why = of.client()?.why(of.id).await?;
            why::print(&why, of.client.print.output)
        }
        Command::Watch(of) => watch(&of, &TimeSource::real()).await,
    }
}

impl ManyArgs {
    async fn run(&self, kind: JobKind) -> Result<Exit, Failure> {
        if !self.bulk.is_given() {
            return Err(Failure::usage(
                "expected --filter or --all; `dead-letter` redrives and deletes single tasks",
            ));
        }
        bulk::run(kind, &self.bulk, None, &self.client).await
    }
}

async fn start_now(of: &OneOrManyArgs) -> Result<Exit, Failure> {
    let Some(id) = of.id else {
        if !of.bulk.is_given() {
            return Err(Failure::usage(bulk::EXPECTED));
        }
        return bulk::run(JobKind::Run, &of.bulk, None, &of.client).await;
    };
    of.bulk.refuse()?;
    let answer = of.client.connect()?.run_now(id).await?;
    moved(of.client.print.output, &answer)
}

async fn reschedule(
    id: Option<TaskId>,
    start: NewStart,
    bulk: &BulkArgs,
    of: &ClientArgs,
) -> Result<Exit, Failure> {
    let Some(id) = id else {
        if !bulk.is_given() {
            return Err(Failure::usage(bulk::EXPECTED));
        }
        return bulk::run(JobKind::Reschedule, bulk, Some(start), of).await;
    };
    bulk.refuse()?;
    let answer = of.connect()?.reschedule(id, start).await;
    moved(of.print.output, &answer.map_err(by_flags)?)
}

impl TaskArgs {
    fn client(&self) -> Result<Client, Failure> {
        self.client.connect()
    }
}

fn moved(format: Format, answer: &RescheduleResponse) -> Result<Exit, Failure> {
    let (outcome, exit) = match answer.outcome {
        RescheduleOutcome::Rescheduled => ("rescheduled", Exit::Ok),
        RescheduleOutcome::TooLate => ("too late", Exit::TooLate),
    };
    print(format, Some(outcome), &answer.task)?;
    tell_reason(&answer.task.id, answer.reason.as_deref())?;
    Ok(exit)
}

fn print(format: Format, outcome: Option<&str>, task: &TaskResponse) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    Ok(output::task(&mut out, format, outcome, task)?)
}

/// Follows a task. It waits for the end of outages of up to about a minute.
async fn watch(of: &TaskArgs, time: &TimeSource) -> Result<Exit, Failure> {
    let client = of.client()?;
    let (mut seen, mut failures) = (None, 0);
    let mut task = client.get(of.id).await?;
    loop {
        let stands = (
            task.state,
            task.attempt,
            task.generation,
            task.cancel_requested,
        );
        if seen != Some(stands) {
            seen = Some(stands);
            print_step(of.client.print.output, &task, time)?;
        }
        if has_ended(task.state) {
            return Ok(match task.state {
                TaskState::Succeeded | TaskState::Published => Exit::Ok,
                _ => Exit::Failed,
            });
        }
        match client.wait(of.id, WATCH_STEP).await {
            Ok(next) => (task, failures) = (next, 0),
            Err(error) if error.is_temporary() && failures < WATCH_FAILURES_MAX => {
                if failures == 0 {
                    writeln!(
                        std::io::stderr(),
                        "waiting for the service: {}",
                        output::printable(&error.to_string())
                    )?;
                }
                failures += 1;
                time.sleep(WATCH_PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn print_step(format: Format, task: &TaskResponse, time: &TimeSource) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if format != Format::Table {
        return Ok(output::task(&mut out, format, None, task)?);
    }
    let now = crate::model::time::rfc3339(time.now());
    write!(out, "{now}  {}", output::state(task))?;
    if task.attempt > 0 {
        write!(out, "  attempt {} of {}", task.attempt, task.max_attempts)?;
    }
    if let Some(error) = &task.error {
        write!(out, "  {}", output::printable(error))?;
    }
    writeln!(out)?;
    Ok(out.flush()?)
}
