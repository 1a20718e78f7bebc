//! The commands `tickwheel backup ...` copy the store of a running service into a file, check such a file, and make a data
//! directory of it, for the operator.

use std::{
    fs::{self, File},
    io::{self, BufWriter, IsTerminal as _, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::mpsc;

use super::{ClientArgs, Exit, Failure, private::Part};
use crate::{
    client::Client,
    limits::BACKUP_RATE_MIN,
    model::time::rfc3339,
    store::embedded::backup::{
        increment,
        restore::{self, Restored},
        source::Source,
    },
};

/// Parts of a copy that wait for the disk.
const CHUNKS_WAITING: usize = 4;

const EXAMPLES: &str = "Examples:
  tickwheel backup create /backup/monday.tickwheel --rate 20MiB
  tickwheel backup create /backup/tuesday.tickwheel --since /backup/monday.tickwheel
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
    /// Bytes a second, such as 20MiB; without it at most 8MiB, and a quarter of one core.
    #[arg(long, value_name = "BYTES", value_parser = rate)]
    rate: Option<u64>,
    /// An earlier copy in the same folder: only what differs from it is written. The new file rests on that one, so keep both.
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
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
    let (file, checked) = match command {
        Command::Create(args) => {
            let client = args.client.connect()?;
            let made = create(&client, &args).await?;
            (args.of.file, made)
        }
        Command::Check(FileArgs { file }) => (file.clone(), in_thread(move || check(&file)).await?),
        Command::Restore(RestoreArgs { of, data_dir }) => {
            let (file, into) = (of.file.clone(), data_dir.clone());
            let restored =
                in_thread(move || Ok(restore::restore(Source::open(&file)?, &into)?)).await?;
            let (directory, said) = (data_dir.display(), said(&restored));
            writeln!(io::stdout(), "{directory}: restored, {said}")?;
            return Ok(Exit::Ok);
        }
    };
    let (whole, since) = checked;
    let (file, said) = (file.display(), said(&whole));
    match since {
        None => writeln!(io::stdout(), "{file}: whole, {said}")?,
        Some(since) => writeln!(io::stdout(), "{file}: whole together with {since}, {said}")?,
    }
    Ok(Exit::Ok)
}

/// A copy that was checked, and the name of the file that it rests on.
type Checked = (Restored, Option<String>);

/// Reads a copy into a file of another name, checks it, and gives it its name: a file of that name is whole.
async fn create(client: &Client, args: &CreateArgs) -> Result<Checked, Failure> {
    let file = &args.of.file;
    if let Some(since) = &args.since {
        let (folder, of) = (folder(file)?, folder(since)?);
        if folder != of {
            return Err(Failure::usage(format!(
                "{} must lie in the folder of {}: a copy is read together with the one that it rests on",
                file.display(),
                since.display()
            )));
        }
    }
    let part = Part::create(file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::usage(format!(
            "{} is there already: a backup overwrites nothing",
            file.display()
        )),
        _ => unusable(file, &error),
    })?;
    let made = filled(client, &part, args).await?;
    part.finish().map_err(|error| unusable(file, &error))?;
    Ok(made)
}

/// Returns the folder of a file, whatever it is called.
fn folder(file: &Path) -> Result<PathBuf, Failure> {
    let parent = file.parent().unwrap_or(file);
    let here = parent.as_os_str().is_empty();
    let folder = if here { Path::new(".") } else { parent };
    fs::canonicalize(folder).map_err(|error| unusable(folder, &error))
}

/// Hands the bytes of a copy to the thread that writes the file, and checks the file.
async fn filled(client: &Client, part: &Part, args: &CreateArgs) -> Result<Checked, Failure> {
    let mut copy = client.backup(args.rate).await?;
    let (file, part) = (part.file().try_clone()?, part.path());
    let (sender, receiver) = mpsc::channel(CHUNKS_WAITING);
    let (to, since) = (part.to_owned(), args.since.clone());
    let made = Made {
        receiver,
        rest: Bytes::new(),
    };
    // The channel is closed with it: the writer has come to the end then.
    let sending = async move {
        let bar = bytes_bar();
        while let Some(bytes) = copy.next().await? {
            bar.inc(bytes.len() as u64);
            if sender.send(bytes).await.is_err() {
                // The writer has ended, and says why.
                break;
            }
        }
        bar.finish_and_clear();
        Ok::<(), Failure>(())
    };
    let writing = in_thread(move || write(made, since.as_deref(), &file, &to));
    let (sent, written) = tokio::join!(sending, writing);
    // A copy that was broken off is cut off for the writer: that is not the reason.
    sent.and(written)?;
    let part = part.to_owned();
    in_thread(move || check(&part)).await
}

fn write(mut made: Made, since: Option<&Path>, file: &File, part: &Path) -> Result<(), Failure> {
    let steady = Steady { file, unsynced: 0 };
    match since {
        Some(since) => increment::write(made, since, steady, part)?,
        None => {
            let mut buffered = BufWriter::with_capacity(STEP_BYTES, steady);
            let copied = io::copy(&mut made, &mut buffered).and_then(|_| buffered.flush());
            copied.map_err(|error| unusable(part, &error))?;
        }
    }
    file.sync_all().map_err(|error| unusable(part, &error))
}

/// Bytes of a copy that are written before they are synced.
const STEP_BYTES: usize = 1 << 20;

/// A file that is synced while it is written, step by step. Synced at the end alone, or when the kernel comes to it, a copy keeps
/// the disk busy for seconds, and the journals of the service beside it wait for all that time.
struct Steady<'a> {
    file: &'a File,
    unsynced: usize,
}

impl Write for Steady<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written;
        if self.unsynced >= STEP_BYTES {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The bytes of a copy as they come in.
struct Made {
    receiver: mpsc::Receiver<Bytes>,
    rest: Bytes,
}

impl Read for Made {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let Some(next) = self.receiver.blocking_recv() else {
                return Ok(0);
            };
            self.rest = next;
        }
        let count = self.rest.as_ref().read(into)?;
        self.rest.advance(count);
        Ok(count)
    }
}

/// Returns a line that counts bytes where a person is watching.
pub(super) fn bytes_bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {binary_bytes} {binary_bytes_per_sec}");
    let bar = ProgressBar::no_length();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

fn check(file: &Path) -> Result<Checked, Failure> {
    let source = Source::open(file)?;
    let since = source.since().map(str::to_owned);
    Ok((restore::check(source)?, since))
}

fn unusable(file: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{} cannot be used: {error}", file.display()))
}

fn said(restored: &Restored) -> String {
    let (rows, made) = (restored.counts.rows(), rfc3339(restored.head.made));
    format!("{rows} rows of {made}")
}

/// Does what waits for the disk.
pub(super) async fn in_thread<T: Send + 'static>(
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
