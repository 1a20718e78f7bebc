//! The command `tickwheel worker` runs a program for each task of some callbacks, for users of any language.

use std::{ffi::OsString, io::IsTerminal as _, sync::Arc, time::Duration};

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::{
    Exit, Failure,
    command::{self, Program},
    guard,
    reach::{self, AccessArgs},
    serve::listen_for_signals,
    times,
};
use crate::{
    telemetry::{self, LogFormat},
    worker::{self, Builder, Context, Job, Raw, Source, Worker},
};

const CONTRACT: &str = "\
The command gets the payload on standard input, and in its environment TICKWHEEL_TASK_ID, TICKWHEEL_ATTEMPT, \
TICKWHEEL_CALLBACK and TICKWHEEL_START_TIME. The task id and the attempt together are the fencing token.

Exit code of the command:
  0            succeeded; standard output is kept as the result: as JSON if it is, else as a string (its first 1 MiB; a line says when there was more)
  65, 100      failed for good: trying again is of no use (65 is EX_DATAERR of sysexits.h)
  any other    tried again, by the task's retry rule; so is a command that a signal has ended (75, EX_TEMPFAIL, says it
               most clearly)

A command that does not exist is refused at start, with exit code 2. One line says how each run ended; --log warn leaves \
them out.

The end of standard error is kept as the error, and all of it is passed on, each line behind `| `, without control \
characters. The command and everything it has started (its process group) is killed \
when its claim cannot be extended any more, or when it takes longer than its attempt_timeout; when the task is cancelled it gets SIGTERM, and SIGKILL 5 s later.

The variables that hold the credentials of the worker (TICKWHEEL_API_KEY and the like) are not in the environment of the \
command. A worker that is killed takes its commands along: a process beside it, `tickwheel worker-guard`, kills their process \
groups. It does not reach a process that left its group, and nothing when it was killed first.

SIGTERM or SIGINT: no new tasks; commands that run may finish within --drain-timeout, the rest are killed and their tasks \
given back without counting an attempt. A second signal exits at once.";

/// Run a command for each task of some callbacks.
#[derive(Debug, Args)]
#[command(after_help = CONTRACT)]
pub(super) struct Command {
    /// Callback whose tasks it runs; may be given several times.
    #[arg(long = "callback", required = true, value_name = "NAME")]
    callbacks: Vec<String>,
    /// Tasks of each callback that run at once.
    #[arg(long, default_value_t = 4, value_name = "N")]
    concurrency: usize,
    /// Server of the service; several, separated by commas, are tried in turn.
    #[arg(
        long,
        env = "TICKWHEEL_SERVER",
        default_value = super::SERVER_DEFAULT,
        value_name = "URL",
        help_heading = reach::HEADING
    )]
    server: String,
    #[command(flatten)]
    access: AccessArgs,
    /// The worker's name, for people; host, process and a random part by default.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long a command may run whose task has no attempt_timeout of its own; for ever by default.
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    attempt_timeout: Option<Duration>,
    /// How long running commands may take when the worker is told to stop.
    #[arg(long, default_value = "20s", value_name = "DURATION", value_parser = times::duration)]
    drain_timeout: Duration,
    /// Which log lines are written to standard error.
    #[arg(
        long,
        env = "TICKWHEEL_LOG",
        default_value = "warn,tickwheel::cli=info",
        value_name = "FILTER"
    )]
    log: String,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    // A person at a terminal needs neither date nor module.
    let format = if std::io::stderr().is_terminal() {
        LogFormat::Short
    } else {
        LogFormat::Text
    };
    telemetry::start_logging(format, &command.log)
        .map_err(|error| Failure::usage(format!("log: {error}")))?;
    command::check(&command.command).map_err(Failure::usage)?;
    if let Err(error) = guard::start() {
        tracing::warn!(%error, "there is no guard: commands outlive a worker that is killed");
    }
    let stop = CancellationToken::new();
    let drain_timeout = command.drain_timeout;
    listen_for_signals(stop.clone(), drain_timeout, command::kill_all)?;
    let (server, callbacks) = (command.server.clone(), command.callbacks.join(", "));
    let access = command.access.access()?;
    let worker = builder(command, drain_timeout).access(access).build()?;
    tracing::info!("polling {callbacks} at {server}; each task runs the command, Ctrl-C stops");
    worker.run_until(stop.cancelled_owned()).await?;
    Ok(Exit::Ok)
}

fn builder(command: Command, drain_timeout: Duration) -> Builder {
    let program = Arc::new(Program::new(command.command));
    let mut builder = Worker::builder()
        .source(Source::poll(&command.server))
        .concurrency(command.concurrency)
        .attempt_timeout(command.attempt_timeout)
        .drain_limit(drain_timeout);
    if let Some(name) = command.name {
        builder = builder.name(name);
    }
    for callback in command.callbacks {
        let program = Arc::clone(&program);
        builder = builder.callback(callback, move |job: Job<Raw>, context: Context| {
            let program = Arc::clone(&program);
            async move { Ok(program.run(job, &context).await) }
        });
    }
    builder
}

impl From<worker::Error> for Failure {
    fn from(error: worker::Error) -> Self {
        match error {
            worker::Error::Setup(text) => Self::usage(text),
            worker::Error::Client(error) => error.into(),
            other @ (worker::Error::Queue { .. } | worker::Error::Heartbeats(_)) => {
                Self::failed(other.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Parsed {
        #[command(flatten)]
        worker: Command,
    }

    #[test]
    fn the_command_follows_two_dashes() {
        let line = [
            "worker",
            "--callback",
            "a",
            "--callback",
            "b",
            "--",
            "sh",
            "-c",
            "--x",
        ];
        let parsed = Parsed::try_parse_from(line).unwrap().worker;
        assert_eq!(parsed.callbacks, ["a", "b"]);
        assert_eq!(parsed.command, ["sh", "-c", "--x"]);
        for wrong in [
            vec!["worker", "--", "sh"],
            vec!["worker", "--callback", "a"],
            vec!["worker", "--callback", "a", "sh"],
        ] {
            assert!(Parsed::try_parse_from(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_worker_that_cannot_be_is_a_mistake_of_the_line() {
        let line = [
            "worker",
            "--callback",
            "a",
            "--concurrency",
            "0",
            "--",
            "true",
        ];
        let parsed = Parsed::try_parse_from(line).unwrap().worker;
        let error = builder(parsed, Duration::ZERO).build().unwrap_err();
        assert_eq!(Failure::from(error).exit, Exit::Usage);
    }
}
