//! The commands `tickwheel cluster export` and `import` carry everything that is configured from one service to another, for the
//! administrator.
//!
//! A line of the file is one thing: a callback with its gates, a schedule, or an API key. Keys come last, because every call
//! needs a key from the first one on. An import that breaks off is repeated: it leaves alone what is as it is to be.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::{ClientArgs, Exit, Failure, output::counted};
use crate::{
    client::{Client, ConfigurationItem, ImportOutcome, NamedApiKey, NamedCallback, NamedSchedule},
    limits::API_KEYS_MAX,
};

/// Callbacks or schedules of one call.
const AT_ONCE: usize = 100;

/// The file of an export.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The file, which must not exist yet; without it, standard output.
    file: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

/// The file of an import.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file, - for standard input.
    file: PathBuf,
    #[command(flatten)]
    client: ClientArgs,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Callback(Box<NamedCallback>),
    Schedule(Box<NamedSchedule>),
    ApiKey(NamedApiKey),
}

/// Counts of things.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    callbacks: u64,
    schedules: u64,
    keys: u64,
}

impl Counts {
    const fn note(&mut self, line: &Line) {
        match line {
            Line::Callback(_) => self.callbacks += 1,
            Line::Schedule(_) => self.schedules += 1,
            Line::ApiKey(_) => self.keys += 1,
        }
    }

    fn told(self) -> String {
        let callbacks = counted(self.callbacks, "callback");
        let schedules = counted(self.schedules, "schedule");
        format!(
            "{callbacks}, {schedules}, {}",
            counted(self.keys, "API key")
        )
    }
}

/// Writes the configuration of a service to a file that its owner alone can read, or to standard output.
pub(super) async fn export(args: &ExportArgs) -> Result<Exit, Failure> {
    let client = args.client.connect()?;
    let counts = match &args.file {
        None => write(&client, &mut io::stdout().lock()).await?,
        Some(path) => {
            let cannot = |error: io::Error| {
                Failure::usage(format!("cannot write {}: {error}", path.display()))
            };
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path);
            let mut out = BufWriter::new(file.map_err(cannot)?);
            let written = write(&client, &mut out).await;
            let synced = out.into_inner().map_err(|error| error.into_error());
            match (written, synced.and_then(|file| file.sync_all())) {
                (Ok(counts), Ok(())) => counts,
                (Ok(_), Err(error)) => return Err(remove(path, cannot(error))),
                (Err(failure), _) => return Err(remove(path, failure)),
            }
        }
    };
    writeln!(io::stderr(), "exported: {}", counts.told())?;
    Ok(Exit::Ok)
}

/// A part of a configuration must not be taken for the whole.
fn remove(path: &Path, failure: Failure) -> Failure {
    // If it stays, it is still refused as a file that exists already.
    drop(std::fs::remove_file(path));
    failure
}

async fn write(client: &Client, out: &mut impl Write) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut put = |line: &Line| -> io::Result<()> {
        counts.note(line);
        serde_json::to_writer(&mut *out, line)?;
        writeln!(out)
    };
    let (mut pages, mut keys) = (client.export_configuration(), Vec::new());
    while let Some(page) = pages.next().await? {
        for item in page {
            match item {
                ConfigurationItem::Callback(callback) => put(&Line::Callback(callback))?,
                ConfigurationItem::ApiKey(key) => keys.push(key),
            }
        }
    }
    let mut pages = client.export_schedules();
    while let Some(page) = pages.next().await? {
        for schedule in page {
            put(&Line::Schedule(Box::new(schedule)))?;
        }
    }
    for key in keys {
        put(&Line::ApiKey(key))?;
    }
    out.flush()?;
    Ok(counts)
}

/// Sets what a file says. Every line of a file is read before the first is set; standard input is read once.
pub(super) async fn import(args: &ImportArgs) -> Result<Exit, Failure> {
    let client = args.client.connect()?;
    let mut import = Import::new(&client);
    if args.file == Path::new("-") {
        import.all(io::stdin().lock()).await?;
    } else {
        let cannot =
            |error| Failure::usage(format!("cannot read {}: {error}", args.file.display()));
        let open = || File::open(&args.file).map(BufReader::new).map_err(cannot);
        for line in lines(open()?) {
            line?;
        }
        import.all(open()?).await?;
    }
    let told = import.told();
    if import.refused > 0 {
        return Err(Failure::failed(told));
    }
    writeln!(io::stdout().lock(), "{told}")?;
    Ok(Exit::Ok)
}

/// Reads the lines of a file.
fn lines(text: impl BufRead) -> impl Iterator<Item = Result<Line, Failure>> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| {
        let wrong =
            |error: &dyn std::fmt::Display| Failure::usage(format!("line {}: {error}", index + 1));
        match line {
            Ok(line) if line.trim().is_empty() => None,
            Ok(line) => Some(serde_json::from_str(&line).map_err(|error| wrong(&error))),
            Err(error) => Some(Err(wrong(&error))),
        }
    })
}

/// An import under way.
struct Import<'a> {
    client: &'a Client,
    set: Counts,
    unchanged: u64,
    refused: u64,
}

impl<'a> Import<'a> {
    fn new(client: &'a Client) -> Self {
        Self {
            client,
            set: Counts::default(),
            unchanged: 0,
            refused: 0,
        }
    }

    /// Sets everything in order, but keys last and together.
    async fn all(&mut self, text: impl BufRead) -> Result<(), Failure> {
        let (mut callbacks, mut schedules, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for line in lines(text) {
            match line? {
                Line::Callback(callback) => callbacks.push(ConfigurationItem::Callback(callback)),
                Line::Schedule(schedule) => schedules.push(*schedule),
                Line::ApiKey(key) => keys.push(ConfigurationItem::ApiKey(key)),
            }
            if keys.len() > API_KEYS_MAX {
                let more = format!("more than {API_KEYS_MAX} API keys: no service has so many");
                return Err(Failure::usage(more));
            }
            if callbacks.len() >= AT_ONCE {
                self.items(std::mem::take(&mut callbacks)).await?;
            }
            if schedules.len() >= AT_ONCE {
                self.schedules(std::mem::take(&mut schedules)).await?;
            }
        }
        self.items(callbacks).await?;
        self.schedules(schedules).await?;
        self.items(keys).await
    }

    async fn items(&mut self, items: Vec<ConfigurationItem>) -> Result<(), Failure> {
        if items.is_empty() {
            return Ok(());
        }
        let results = self.client.import_configuration(items.clone()).await?;
        for (item, result) in items.into_iter().zip(results) {
            let (name, line) = match item {
                ConfigurationItem::Callback(one) => {
                    (format!("callback {}", one.name), Line::Callback(one))
                }
                ConfigurationItem::ApiKey(one) => (
                    format!("API key {} ({})", one.id, one.name),
                    Line::ApiKey(one),
                ),
            };
            let error = result.error.map(|error| error.detail);
            self.note(&name, &line, result.outcome, error)?;
        }
        Ok(())
    }

    async fn schedules(&mut self, schedules: Vec<NamedSchedule>) -> Result<(), Failure> {
        if schedules.is_empty() {
            return Ok(());
        }
        let results = self.client.import_schedules(schedules.clone()).await?;
        for (schedule, result) in schedules.into_iter().zip(results) {
            let name = format!("schedule {}", schedule.name);
            let error = result.error.map(|error| error.detail);
            self.note(
                &name,
                &Line::Schedule(Box::new(schedule)),
                result.outcome,
                error,
            )?;
        }
        Ok(())
    }

    fn note(
        &mut self,
        name: &str,
        line: &Line,
        outcome: Option<ImportOutcome>,
        error: Option<String>,
    ) -> io::Result<()> {
        match outcome {
            Some(ImportOutcome::Unchanged) => self.unchanged += 1,
            Some(_) => self.set.note(line),
            None => {
                self.refused += 1;
                writeln!(io::stderr(), "{name}: {}", error.unwrap_or_default())?;
            }
        }
        Ok(())
    }

    fn told(&self) -> String {
        let mut told = format!("set: {}", self.set.told());
        if self.unchanged > 0 {
            told.push_str(&format!("; {} were so already", self.unchanged));
        }
        if self.refused > 0 {
            told.push_str(&format!("; {} were refused", self.refused));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_it_is_and_a_bad_one_is_told_by_its_number() {
        let text =
            "{\"callback\":{\"name\":\"mail\",\"gates\":[]}}\n\n{\"schedule\":{\"name\":\"s\"}}\n";
        let mut read = lines(text.as_bytes());
        assert!(matches!(read.next(), Some(Ok(Line::Callback(one))) if one.name == "mail"));
        let Some(Err(failure)) = read.next() else {
            panic!("a schedule without settings")
        };
        assert!(failure.text.starts_with("line 3: "), "{}", failure.text);
        let unknown = lines("{\"gate\":{}}".as_bytes())
            .next()
            .unwrap()
            .unwrap_err();
        assert!(unknown.text.contains("`api_key`"), "{}", unknown.text);
    }
}
