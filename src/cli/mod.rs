//! The command line runs the commands of the program for the user: nouns, then verbs, with one file for each
//! noun.
//!
//! Output for people goes to standard output. A failure is one sentence on standard error and an exit code
//! (`Exit`).

mod api_key;
mod backup;
mod batch;
mod bulk;
mod callback;
mod cancel;
mod cluster;
mod command;
mod config;
mod configuration;
mod crontab;
mod dead_letter;
mod dev;
mod doctor;
mod drill;
mod export;
mod fields;
mod finding;
mod forecast;
mod guard;
mod healthcheck;
mod import;
mod init;
mod input;
mod job;
mod lines;
mod list;
mod messages;
mod node;
mod output;
mod passed;
mod private;
mod reach;
mod reopen;
mod report;
mod request;
mod retry_failed;
mod schedule;
mod schedule_import;
mod schedule_set;
mod schedule_show;
mod schedule_transfer;
mod serve;
#[cfg_attr(not(feature = "cluster"), path = "no_servers.rs")]
mod servers;
mod supervisor;
mod task;
mod times;
mod top;
mod tree;
mod ui;
mod variables;
mod wait;
mod why;
mod worker;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::{app, client, config::SettingsArgs, queue, store};

/// How a command ended; the number is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Exit {
    /// Done.
    Ok = 0,
    /// Failed.
    Failed = 1,
    /// The command, the settings or the request is wrong: fix it.
    Usage = 2,
    /// There is no such task.
    NotFound = 3,
    /// The service cannot be reached, or cannot do it now: try again later.
    Unavailable = 4,
    /// Too late: the task had started or ended.
    TooLate = 5,
}

/// Address at which a client looks for the service when it is not given another.
const SERVER_DEFAULT: &str = "http://127.0.0.1:7420";

const ABOUT: &str = "A durable timer service: register a task with a time, and it runs then";

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 the command or the request is wrong; 3 not found; \
4 the service is unavailable: try again later; 5 too late: the task had started or ended";

/// A durable, distributed timer service.
#[derive(Debug, Parser)]
#[command(name = "tickwheel", version, about = ABOUT, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the whole service in one process, to try it out.
    Dev(dev::Command),
    /// Run a node of the service.
    Serve(serve::Command),
    /// Create the schema and the topics, or check them.
    Init(SettingsArgs),
    /// Find out what is wrong with a setup.
    Doctor(doctor::Command),
    /// Register, read, list and change tasks.
    #[command(subcommand, after_help = EXIT_CODES)]
    Task(task::Command),
    /// Look at, redrive and delete dead tasks: those that used up their attempts.
    #[command(subcommand, after_help = EXIT_CODES)]
    DeadLetter(dead_letter::Command),
    /// Follow, pause, resume and end bulk work over filters.
    #[command(subcommand, after_help = EXIT_CODES)]
    Job(job::Command),
    /// Start tasks at the times of a clock.
    #[command(subcommand, after_help = EXIT_CODES)]
    Schedule(schedule::Command),
    /// Configure callbacks, and pause them.
    #[command(subcommand, after_help = EXIT_CODES)]
    Callback(callback::Command),
    /// Look at the nodes and the wheels of the service, and carry its configuration to another one.
    #[command(subcommand, after_help = EXIT_CODES)]
    Cluster(cluster::Command),
    /// Watch what the service does: its tasks, its lateness, and callbacks whose tasks wait.
    Top(top::Command),
    /// Show how many tasks are due in the time ahead.
    #[command(after_help = EXIT_CODES)]
    Forecast(forecast::Command),
    /// Serve the dashboard of a service that runs elsewhere.
    Ui(ui::Command),
    /// Make, list and revoke API keys: who may do what.
    #[command(subcommand, after_help = EXIT_CODES)]
    ApiKey(api_key::Command),
    /// Copy the store of one machine while it is in use, and make a data directory of a copy.
    #[command(subcommand, after_help = EXIT_CODES)]
    Backup(backup::Command),
    /// Run a command for each task of some callbacks.
    Worker(worker::Command),
    /// Print, check and explain settings.
    #[command(subcommand)]
    Config(config::Command),
    /// Ask a node whether it is ready; for containers.
    Healthcheck(healthcheck::Command),
    /// Print the completion of this program's commands for a shell, such as
    /// `source <(tickwheel completions bash)`.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Kill the commands of a worker when it has ended.
    #[command(hide = true, name = guard::COMMAND)]
    WorkerGuard,
    /// Write the manual pages of all commands into a folder; packages hold them.
    #[command(hide = true)]
    Manual {
        /// The folder, which exists.
        folder: PathBuf,
    },
}

/// The address of the service, and the format of its answers.
#[derive(Debug, Clone, Args)]
struct ClientArgs {
    /// Server of the service; several, separated by commas, are tried in turn.
    #[arg(
        long,
        env = "TICKWHEEL_SERVER",
        default_value = SERVER_DEFAULT,
        value_name = "URL",
        help_heading = reach::HEADING
    )]
    server: String,
    #[command(flatten)]
    access: reach::AccessArgs,
    #[command(flatten)]
    print: PrintArgs,
}

/// The format of answers.
#[derive(Debug, Clone, Copy, Args)]
struct PrintArgs {
    /// How answers are printed: table, json (indented) or jsonl (one value a line).
    #[arg(
        short,
        long,
        value_enum,
        default_value_t = Format::Table,
        value_name = "FORMAT",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// Indented JSON.
    Json,
    /// One JSON value a line.
    Jsonl,
}

/// Why a command failed: a sentence, and the exit code.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    text: String,
}

impl Failure {
    fn failed(text: impl Into<String>) -> Self {
        Self {
            exit: Exit::Failed,
            text: text.into(),
        }
    }

    fn usage(text: impl Into<String>) -> Self {
        Self {
            exit: Exit::Usage,
            text: text.into(),
        }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        let exit = match error {
            client::Error::Refused { .. } | client::Error::Invalid(_) => Exit::Usage,
            client::Error::NotFound { .. } => Exit::NotFound,
            client::Error::Unavailable { .. } | client::Error::Transport { .. } => {
                Exit::Unavailable
            }
            client::Error::Unexpected { .. } => Exit::Failed,
        };
        // A server's words are those of others.
        let mut text = output::printable(&error.to_string());
        match &error {
            client::Error::Transport { sent: false, .. } => text.push_str(
                "; is a node running there? --server or TICKWHEEL_SERVER says where one is",
            ),
            client::Error::Refused { problem } if problem.status == 401 => text.push_str(
                "; --api-key-file or TICKWHEEL_API_KEY_FILE names a file with the key of an API",
            ),
            _ => {}
        }
        Self { exit, text }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            // The reader has seen enough, as `head` has.
            return Self {
                exit: Exit::Ok,
                text: String::new(),
            };
        }
        Self {
            exit: Exit::Failed,
            text: error.to_string(),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let exit = match error {
            store::Error::Unavailable { .. } | store::Error::Full { .. } => Exit::Unavailable,
            store::Error::Corrupt { .. }
            | store::Error::Newer { .. }
            | store::Error::Unsuitable { .. } => Exit::Usage,
        };
        Self {
            exit,
            text: error.to_string(),
        }
    }
}

impl From<queue::Error> for Failure {
    fn from(error: queue::Error) -> Self {
        let exit = match error {
            queue::Error::Unavailable { .. } => Exit::Unavailable,
            queue::Error::Unsuitable { .. } => Exit::Usage,
        };
        Self {
            exit,
            text: error.to_string(),
        }
    }
}

impl From<app::Error> for Failure {
    fn from(error: app::Error) -> Self {
        match error {
            app::Error::Listen { .. }
            | app::Error::Open { .. }
            | app::Error::Tls(_)
            | app::Error::Mail(_) => Self::usage(error.to_string()),
            app::Error::Store(error) => error.into(),
            app::Error::Queue(error) => error.into(),
        }
    }
}

impl From<crate::config::Invalid> for Failure {
    fn from(invalid: crate::config::Invalid) -> Self {
        Self::usage(invalid.to_string())
    }
}

/// Runs a command.
pub async fn run(cli: Cli) -> ExitCode {
    // Commands of a worker make files as its user wishes, and pages are for everybody.
    if !matches!(cli.command, Command::Worker(_) | Command::Manual { .. }) {
        private::by_default();
    }
    let ended = match cli.command {
        Command::Dev(command) => Box::pin(dev::run(command)).await,
        Command::Serve(command) => Box::pin(serve::run(command)).await,
        Command::Init(settings) => Box::pin(init::run(settings)).await,
        Command::Doctor(settings) => Box::pin(doctor::run(settings)).await,
        Command::Task(command) => Box::pin(task::run(command)).await,
        Command::DeadLetter(command) => Box::pin(dead_letter::run(command)).await,
        Command::Job(command) => Box::pin(job::run(command)).await,
        Command::Schedule(command) => Box::pin(schedule::run(command)).await,
        Command::Callback(command) => Box::pin(callback::run(command)).await,
        Command::Cluster(command) => Box::pin(cluster::run(command)).await,
        Command::Top(command) => Box::pin(top::run(command)).await,
        Command::Forecast(command) => Box::pin(forecast::run(command)).await,
        Command::Ui(command) => Box::pin(ui::run(command)).await,
        Command::ApiKey(command) => Box::pin(api_key::run(command)).await,
        Command::Backup(command) => Box::pin(backup::run(command)).await,
        Command::Worker(command) => Box::pin(worker::run(command)).await,
        Command::Config(command) => config::run(&command),
        Command::Healthcheck(command) => healthcheck::run(command).await,
        Command::WorkerGuard => guard::run().await,
        Command::Completions { shell } => completions(shell),
        Command::Manual { folder } => manual(&folder),
    };
    let exit = ended.unwrap_or_else(|failure| {
        if !failure.text.is_empty() {
            // When standard error is closed, nobody reads it; the exit code remains.
            let lines: Vec<String> = failure.text.lines().map(output::printable).collect();
            writeln!(std::io::stderr(), "error: {}", lines.join("\n")).unwrap_or_default();
        }
        failure.exit
    });
    ExitCode::from(exit as u8)
}

fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tickwheel", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Exit::Ok)
}

fn manual(folder: &Path) -> Result<Exit, Failure> {
    clap_mangen::generate_to(Cli::command(), folder)?;
    Ok(Exit::Ok)
}
