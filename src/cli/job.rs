//! The command `tickwheel job` lists, shows, follows, pauses, resumes and ends jobs for the user.

use std::io::{self, Write as _};

use clap::{Args, Subcommand};

use super::{
    ClientArgs, Exit, Failure,
    bulk::{counted, print, watch},
    dead_letter::{Printer, count_of_none},
};
use crate::{
    client::{Client, JobResponse},
    time_source::TimeSource,
};

/// `tickwheel job`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List jobs, the newest first.
    List {
        /// Stop after this many jobs.
        #[arg(long, value_name = "COUNT")]
        limit: Option<usize>,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Show a job: its state, its progress, and the first tasks of a dry run.
    Get(JobArgs),
    /// Follow a job to its end; 0 when it has completed and no task has failed.
    Watch(JobArgs),
    /// Pause a job. The tasks that are being worked on are finished.
    Pause(JobArgs),
    /// Let a paused job go on.
    Resume(JobArgs),
    /// End a job. Its work so far stays done.
    Cancel(JobArgs),
}

/// A job.
#[derive(Debug, Args)]
pub(super) struct JobArgs {
    /// Its id, as `job list` shows it.
    id: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::List { limit, client } => list(limit.unwrap_or(usize::MAX), &client).await,
        Command::Get(of) => {
            let job = of.client()?.job(&of.id).await?;
            of.told(&job)
        }
        Command::Watch(of) => {
            let format = of.client.print.output;
            watch(&of.client()?, &of.id, format, &TimeSource::real()).await
        }
        Command::Pause(of) => {
            let job = of.client()?.pause_job(&of.id).await?;
            of.told(&job)
        }
        Command::Resume(of) => {
            let job = of.client()?.resume_job(&of.id).await?;
            of.told(&job)
        }
        Command::Cancel(of) => {
            let job = of.client()?.cancel_job(&of.id).await?;
            of.told(&job)
        }
    }
}

impl JobArgs {
    fn client(&self) -> Result<Client, Failure> {
        self.client.connect()
    }

    fn told(&self, job: &JobResponse) -> Result<Exit, Failure> {
        print(&mut io::stdout().lock(), self.client.print.output, job)?;
        Ok(Exit::Ok)
    }
}

async fn list(limit: usize, of: &ClientArgs) -> Result<Exit, Failure> {
    let mut pages = of.connect()?.jobs();
    let heads = ["ID", "KIND", "CREATED", "PROGRESS"];
    let mut printer = Printer::new(of.print.output, heads);
    let mut count = 0;
    while count < limit
        && let Some(jobs) = pages.next().await?
    {
        let mut out = io::stdout().lock();
        for job in jobs.iter().take(limit - count) {
            let kind = job.kind.name();
            let kind = if job.dry_run {
                format!("{kind}, dry run")
            } else {
                kind.to_owned()
            };
            let columns = [
                job.id.clone(),
                kind,
                job.create_time.0.clone(),
                counted(job),
            ];
            printer.row(&mut out, job, columns)?;
            count += 1;
        }
        out.flush()?;
    }
    printer.end(&mut io::stdout().lock())?;
    count_of_none(&printer, "job")?;
    Ok(Exit::Ok)
}
