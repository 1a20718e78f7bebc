//! The commands `tickwheel backup ...` copy the store of a running service into a file, check such a file, and make a data
//! directory of it, for the operator.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, IsTerminal as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

use super::{ClientArgs, Exit, Failure};
use crate::{
    client::Client,
    limits::BACKUP_RATE_MIN,
    model::time::rfc3339,
    store::embedded::backup::restore::{self, Restored},
};

const EXAMPLES: &str = "Examples:
  tickwheel backup create /backup/monday.tickwheel --rate 20MiB
  tickwheel backup restore /backup/monday.tickwheel --data-dir /var/lib/tickwheel-new

The file holds every payload: keep it as safe as the data directory.";

/// `tickwheel backup`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Copy the store of a running service into a new file, and check it. The service goes on.
    #[command(after_help = EXAMPLES)]
    Create(CreateArgs),
    /// Check that a file is a whole backup.
    Check(FileArgs),
    /// Make a new data directory of a backup. Start the service with it: what fell due since then fires at once, and what ran
    /// since then runs again.
    #[command(after_help = EXAMPLES)]
    Restore(RestoreArgs),
}

/// A file.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// The file.
    file: PathBuf,
}

/// A backup to make.
#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    #[command(flatten)]
    of: FileArgs,
    /// Most bytes a second, such as 20MiB: the disk has other work to do.
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    rate: Option<u64>,
    #[command(flatten)]
    client: ClientArgs,
}

/// A backup to restore.
#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    #[command(flatten)]
    of: FileArgs,
    /// The data directory to make: new or empty.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let (file, restored) = match command {
        Command::Create(args) => {
            let client = args.client.connect()?;
            let made = create(&client, &args.of.file, args.rate).await?;
            (args.of.file, made)
        }
        Command::Check(FileArgs { file }) => (file.clone(), in_thread(move || check(&file)).await?),
        Command::Restore(RestoreArgs { of, data_dir }) => {
            let (file, into) = (of.file.clone(), data_dir.clone());
            let restored = in_thread(move || Ok(restore::restore(opened(&file)?, &into)?)).await?;
            let (directory, said) = (data_dir.display(), said(&restored));
            writeln!(io::stdout(), "{directory}: restored, {said}")?;
            return Ok(Exit::Ok);
        }
    };
    writeln!(
        io::stdout(),
        "{}: whole, {}",
        file.display(),
        said(&restored)
    )?;
    Ok(Exit::Ok)
}

/// Reads a copy into a file of another name, checks it, and gives it its name: a file of that name is whole.
async fn create(client: &Client, file: &Path, rate: Option<u64>) -> Result<Restored, Failure> {
    if file.exists() {
        return Err(Failure::usage(format!(
            "{} is there already: a backup overwrites nothing",
            file.display()
        )));
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let made = filled(client, &part, rate).await;
    if made.is_err() {
        // The reason of the failure matters more than the rest of a file.
        fs::remove_file(&part).unwrap_or_default();
    }
    made?;
    let checked = part.clone();
    let made = in_thread(move || check(&checked)).await?;
    let named = fs::rename(&part, file);
    named.map_err(|error| unusable(file, &error))?;
    Ok(made)
}

async fn filled(client: &Client, part: &Path, rate: Option<u64>) -> Result<(), Failure> {
    let mut copy = client.backup(rate).await?;
    let mut options = OpenOptions::new();
    // It holds payloads: for its owner alone.
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(part).map_err(|error| unusable(part, &error))?;
    let bar = bar();
    while let Some(bytes) = copy.next().await? {
        file.write_all(&bytes)
            .map_err(|error| unusable(part, &error))?;
        bar.inc(bytes.len() as u64);
    }
    bar.finish_and_clear();
    file.sync_all().map_err(|error| unusable(part, &error))
}

fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {binary_bytes} {binary_bytes_per_sec}");
    let bar = ProgressBar::no_length();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

fn check(file: &Path) -> Result<Restored, Failure> {
    let checked = restore::check(opened(file)?);
    Ok(checked?)
}

fn opened(file: &Path) -> Result<BufReader<File>, Failure> {
    let opened = File::open(file).map_err(|error| unusable(file, &error))?;
    Ok(BufReader::with_capacity(1 << 20, opened))
}

fn unusable(file: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{} cannot be used: {error}", file.display()))
}

fn said(restored: &Restored) -> String {
    let (rows, made) = (restored.counts.rows(), rfc3339(restored.head.made));
    format!("{rows} rows of {made}")
}

/// Does what waits for the disk.
async fn in_thread<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|error| Err(Failure::failed(error.to_string())))
}

/// Reads a number of bytes with its unit.
fn rate(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 4] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("B", 1),
    ];
    let text = text.trim().trim_end_matches("/s");
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let (number, factor) = match unit {
        Some((unit, factor)) => (text.trim_end_matches(unit), *factor),
        None => (text, 1),
    };
    let bytes = number.trim().parse::<u64>().ok();
    let bytes = bytes.and_then(|number| number.checked_mul(factor));
    bytes
        .filter(|bytes| *bytes >= BACKUP_RATE_MIN)
        .ok_or_else(|| {
            format!("expected bytes a second, such as 20MiB, and at least {BACKUP_RATE_MIN}")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit_or_none_and_is_not_too_small() {
        assert_eq!(rate("20MiB"), Ok(20 << 20));
        assert_eq!(rate("64 KiB/s"), Ok(1 << 16));
        assert_eq!(rate("100000"), Ok(100_000));
        for wrong in ["", "MiB", "1KiB", "x", "99999999999999GiB"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
