//! `tickwheel config`: prints and checks settings.

use std::{io::Write as _, path::PathBuf};

use clap::Subcommand;

use super::{Exit, Failure};
use crate::config::{Invalid, Settings, print_default};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print a TOML file with every key, its default and the reason for it.
    PrintDefault,
    /// Check a TOML file and say what is wrong with it.
    Check {
        /// The file.
        file: PathBuf,
    },
}

pub(super) fn run(command: &Command) -> Result<Exit, Failure> {
    let mut out = std::io::stdout().lock();
    match command {
        Command::PrintDefault => out.write_all(print_default().as_bytes())?,
        Command::Check { file } => {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
            if let Err(Invalid(problems)) = Settings::from_file(&name, &text) {
                for problem in &problems {
                    writeln!(out, "{}: {}", problem.origin, problem.reason)?;
                }
                let count = problems.len();
                return Err(Failure::usage(format!("{name} has {count} problem(s)")));
            }
            writeln!(out, "{name} is valid")?;
        }
    }
    Ok(Exit::Ok)
}
