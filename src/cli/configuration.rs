//! The commands `tickwheel cluster export` and `import` carry everything that is configured from one service to another, for the
//! administrator.
//!
//! A line of the file is one thing: a callback with its gates, a schedule, or an API key. Keys come last, because every call
//! needs a key from the first one on. An import that breaks off is repeated: it leaves alone what is as it is to be.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, BufWriter, Seek as _, Write},
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
    /// The last line: a file without it may have been cut off.
    End {},
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
            Line::End {} => {}
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
        Some(path) => create(&client, path).await?,
    };
    writeln!(io::stderr(), "exported: {}", counts.told())?;
    Ok(Exit::Ok)
}

/// Writes into a file of another name, and gives it its name last: a file of that name is whole. Nothing is overwritten.
async fn create(client: &Client, path: &Path) -> Result<Counts, Failure> {
    let cannot =
        |error: io::Error| Failure::usage(format!("cannot write {}: {error}", path.display()));
    if path.exists() {
        return Err(cannot(io::ErrorKind::AlreadyExists.into()));
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let fill = async || {
        let mut open = OpenOptions::new();
        let file = open.write(true).create(true).truncate(true).mode(0o600);
        let mut out = BufWriter::new(file.open(&part).map_err(cannot)?);
        let counts = write(client, &mut out).await?;
        let file = out.into_inner().map_err(|error| cannot(error.into_error()));
        file?.sync_all().map_err(cannot)?;
        // Fails where another one has come meanwhile.
        fs::hard_link(&part, path).map_err(cannot)?;
        Ok(counts)
    };
    let filled = fill().await;
    // The outcome matters more than a rest.
    fs::remove_file(&part).unwrap_or_default();
    filled
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
    put(&Line::End {})?;
    out.flush()?;
    Ok(counts)
}

/// Sets the things of a file. Every line of a file is read before the first is set. A pipe can be read once only: there the
/// keys wait for its end.
pub(super) async fn import(args: &ImportArgs) -> Result<Exit, Failure> {
    let client = args.client.connect()?;
    let mut import = Import::new(&client);
    if args.file == Path::new("-") {
        import.all(io::stdin().lock()).await?;
    } else {
        let cannot =
            |error| Failure::usage(format!("cannot read {}: {error}", args.file.display()));
        let mut file = File::open(&args.file).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_file() {
            let mut last = None;
            for line in lines(BufReader::new(&file)) {
                last = Some(line?);
            }
            whole(last.as_ref())?;
            file.rewind().map_err(cannot)?;
        }
        import.all(BufReader::new(file)).await?;
    }
    let told = import.told();
    if import.refused > 0 {
        return Err(Failure::failed(told));
    }
    writeln!(io::stdout().lock(), "{told}")?;
    Ok(Exit::Ok)
}

/// Checks the last line.
fn whole(last: Option<&Line>) -> Result<(), Failure> {
    match last {
        Some(Line::End {}) => Ok(()),
        _ => Err(Failure::usage(
            "the export was cut off: its last line is not {\"end\":{}}; export it again, or add that line if a person wrote it",
        )),
    }
}

/// Reads the lines of a file.
fn lines(text: impl BufRead) -> impl Iterator<Item = Result<Line, Failure>> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| {
        let wrong = |error: &str| Failure::usage(format!("line {}: {error}", index + 1));
        match line {
            Ok(line) if line.trim().is_empty() => None,
            Ok(line) => {
                let read = serde_json::from_str(&line);
                Some(read.map_err(|error| wrong(&without_values(&error.to_string()))))
            }
            Err(error) => Some(Err(wrong(&error.to_string()))),
        }
    })
}

/// Leaves the values out of an error about JSON, which stand in quotation marks: one may be a secret.
fn without_values(error: &str) -> String {
    let parts: Vec<&str> = error.split('"').collect();
    match parts.as_slice() {
        [before, _, .., after] => format!("{before}\"...\"{after}"),
        _ => error.to_owned(),
    }
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
        let mut end = None;
        for line in lines(text) {
            match line? {
                line @ Line::End {} => end = Some(line),
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
        whole(end.as_ref())?;
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
            self.note(&name, &line, result.outcome, error);
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
            );
        }
        Ok(())
    }

    fn note(
        &mut self,
        name: &str,
        line: &Line,
        outcome: Option<ImportOutcome>,
        error: Option<String>,
    ) {
        match outcome {
            Some(ImportOutcome::Unchanged) => self.unchanged += 1,
            Some(_) => self.set.note(line),
            None => {
                self.refused += 1;
                // A reader of errors that has gone must not end the import.
                drop(writeln!(
                    io::stderr(),
                    "{name}: {}",
                    error.unwrap_or_default()
                ));
            }
        }
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

    #[test]
    fn an_error_shows_no_secret() {
        let line =
            r#"{"callback":{"name":"a","configuration":{"http":{"secrets":"whsec_AA\"BB"}}}}"#;
        let failure = lines(line.as_bytes()).next().unwrap().unwrap_err();
        assert!(!failure.text.contains("whsec"), "{}", failure.text);
        assert!(failure.text.contains("a sequence"), "{}", failure.text);
        assert_eq!(without_values("plain"), "plain");
    }
}
