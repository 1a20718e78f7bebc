//! The command `tickwheel config` prints, checks and explains settings for operators.

use std::{io::Write, path::PathBuf};

use clap::Subcommand;

use super::{Exit, Failure, Format, PrintArgs, variables};
use crate::config::{self, Explained, Invalid, Settings, print_default};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print a TOML file with every key, its default and the reason for it.
    PrintDefault,
    /// Check a TOML file and report the mistakes in it.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Explain a setting: its meaning, its default, its present value and where that comes from.
    Explain {
        /// The setting, as a key (data_dir), a flag or a variable; without it, every setting on a line.
        #[arg(allow_hyphen_values = true)]
        key: Option<String>,
        /// TOML file with settings [env: TICKWHEEL_CONFIG].
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        print: PrintArgs,
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
        Command::Explain { key, config, print } => {
            variables::warn();
            let environment = |name: &str| std::env::var(name).ok();
            let settings = config::explain(key.as_deref(), config.as_deref(), environment)?;
            explain(&mut out, print.output, key.is_some(), &settings)?;
        }
    }
    Ok(Exit::Ok)
}

fn explain(
    out: &mut impl Write,
    format: Format,
    one: bool,
    settings: &[Explained],
) -> std::io::Result<()> {
    match format {
        Format::Json if !one => {
            writeln!(out, "{:#}", serde_json::json!(settings))?;
        }
        Format::Json | Format::Jsonl => {
            for setting in settings {
                let value = serde_json::json!(setting);
                match format {
                    Format::Json => writeln!(out, "{value:#}")?,
                    Format::Table | Format::Jsonl => writeln!(out, "{value}")?,
                }
            }
        }
        Format::Table if !one => {
            for setting in settings {
                let (name, value) = (setting.name, &setting.value);
                writeln!(out, "{name:<25}{value:<28}  {}", setting.origin)?;
            }
        }
        Format::Table => {
            for setting in settings {
                writeln!(out, "{}\n{}\n", setting.about, setting.why)?;
                writeln!(out, "value        {}", setting.value)?;
                writeln!(out, "from         {}", setting.origin)?;
                writeln!(out, "default      {}", setting.default)?;
                writeln!(out, "in a file    {} = {}", setting.name, setting.default)?;
                writeln!(out, "variable     {}", setting.variable)?;
                writeln!(out, "flag         {}", setting.flag)?;
                if let Some(problem) = &setting.problem {
                    writeln!(out, "problem      {problem}")?;
                }
            }
        }
    }
    Ok(())
}
