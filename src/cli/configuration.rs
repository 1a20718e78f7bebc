//! The commands `tickwheel cluster export` and `import` carry everything that is configured from one service to another, for the
//! administrator.
//!
//! A line of the file is one thing: a callback with its gates, a schedule, or an API key. Keys come last, because every call
//! needs a key from the first one on. An import that breaks off is repeated: it leaves alone what is as it is to be.

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::{
    ClientArgs, Exit, Failure,
    input::{JsonLine, JsonLines},
    output::counted,
    private::{self, Part},
    report::{Report, broke_off},
};
use crate::{
    client::{Client, ConfigurationItem, Error, NamedApiKey, NamedCallback, NamedSchedule},
    limits::API_KEYS_MAX,
};

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
        None => {
            private::warn_of_open_output("the secrets of callbacks");
            write(&client, &mut io::stdout().lock()).await?
        }
        Some(path) => create(&client, path).await?,
    };
    writeln!(io::stderr(), "exported: {}", counts.told())?;
    Ok(Exit::Ok)
}

/// Writes into a file of another name, and gives it its name last: a file of that name is whole. Nothing is overwritten.
async fn create(client: &Client, path: &Path) -> Result<Counts, Failure> {
    let cannot =
        |error: io::Error| Failure::usage(format!("cannot write {}: {error}", path.display()));
    let part = Part::create(path).map_err(cannot)?;
    let mut out = BufWriter::new(part.file());
    let counts = write(client, &mut out).await?;
    drop(out);
    part.finish().map_err(cannot)?;
    Ok(counts)
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
    let lines = JsonLines::open(&args.file, |lines| {
        let (mut last, mut keys) = (None, 0);
        for line in lines {
            let line = line?.value;
            keys += usize::from(matches!(line, Line::ApiKey(_)));
            last = Some(line);
        }
        few_enough(keys)?;
        whole(last.as_ref())
    })?;
    let mut import = Import {
        client: &client,
        set: Counts::default(),
        report: Report::default(),
    };
    let ended = import.all(lines).await;
    let set = format!("set: {}", import.set.told());
    let told = import.report.end(&set, ended, Exit::Failed)?;
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

/// Checks the number of keys.
fn few_enough(keys: usize) -> Result<(), Failure> {
    if keys <= API_KEYS_MAX {
        return Ok(());
    }
    let more = format!("more than {API_KEYS_MAX} API keys: no service has so many");
    Err(Failure::usage(more))
}

/// An import under way.
struct Import<'a> {
    client: &'a Client,
    set: Counts,
    report: Report,
}

impl Import<'_> {
    /// Sets everything in order, but keys last and together.
    async fn all(&mut self, mut lines: JsonLines<Line>) -> Result<(), Failure> {
        let (mut keys, mut end) = (Vec::new(), None);
        loop {
            let piece = lines.piece()?;
            let Some(JsonLine { number, .. }) = piece.first() else {
                break;
            };
            let first = format!("line {number}");
            let (mut callbacks, mut schedules) = (Vec::new(), Vec::new());
            for line in piece {
                match line.value {
                    line @ Line::End {} => end = Some(line),
                    Line::Callback(one) => callbacks.push(ConfigurationItem::Callback(one)),
                    Line::Schedule(schedule) => schedules.push(*schedule),
                    Line::ApiKey(key) => keys.push(ConfigurationItem::ApiKey(key)),
                }
            }
            few_enough(keys.len())?;
            let set = self.items(callbacks).await;
            set.map_err(|error| broke_off(&first, error))?;
            let set = self.schedules(schedules).await;
            set.map_err(|error| broke_off(&first, error))?;
        }
        whole(end.as_ref())?;
        let set = self.items(keys).await;
        set.map_err(|error| broke_off("the API keys", error))
    }

    async fn items(&mut self, items: Vec<ConfigurationItem>) -> Result<(), Error> {
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
            if self.report.note(&name, result.outcome, result.error) {
                self.set.note(&line);
            }
        }
        Ok(())
    }

    async fn schedules(&mut self, schedules: Vec<NamedSchedule>) -> Result<(), Error> {
        if schedules.is_empty() {
            return Ok(());
        }
        let results = self.client.import_schedules(schedules.clone()).await?;
        for (schedule, result) in schedules.into_iter().zip(results) {
            let name = format!("schedule {}", schedule.name);
            if self.report.note(&name, result.outcome, result.error) {
                self.set.note(&Line::Schedule(Box::new(schedule)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static str) -> JsonLines<Line> {
        JsonLines::of(text.as_bytes())
    }

    #[test]
    fn a_line_says_what_it_is_and_a_bad_one_is_told_by_its_number() {
        let text =
            "{\"callback\":{\"name\":\"mail\",\"gates\":[]}}\n\n{\"schedule\":{\"name\":\"s\"}}\n";
        let mut read = lines(text);
        let first = read.next().unwrap().unwrap();
        assert!(matches!(first.value, Line::Callback(one) if one.name == "mail"));
        let failure = read.next().unwrap().unwrap_err();
        assert!(failure.text.starts_with("line 3: "), "{}", failure.text);
        let unknown = lines("{\"gate\":{}}").next().unwrap().unwrap_err();
        assert!(unknown.text.contains("`api_key`"), "{}", unknown.text);
    }

    #[test]
    fn an_error_shows_no_secret() {
        let line =
            r#"{"callback":{"name":"a","configuration":{"http":{"secrets":"whsec_AA\"BB"}}}}"#;
        let failure = lines(line).next().unwrap().unwrap_err();
        assert!(!failure.text.contains("whsec"), "{}", failure.text);
        assert!(failure.text.contains("a sequence"), "{}", failure.text);
    }
}
