//! `Journal` appends JSON objects, one a line, to a log. Each is one write call, so that `kill -9` never
//! leaves half a line.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use tickwheel::time_source::TimeSource;

/// A log that every owner of a copy appends to.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    file: Arc<File>,
    time: TimeSource,
}

impl Journal {
    /// Opens or creates `directory/name.jsonl`.
    pub(crate) fn open(directory: &Path, name: &str) -> Self {
        let path: PathBuf = directory.join(format!("{name}.jsonl"));
        let file = File::options().create(true).append(true).open(path);
        Self {
            file: Arc::new(file.expect("a log can be opened")),
            time: TimeSource::real(),
        }
    }

    /// Appends an event with the time of this machine's one clock.
    pub(crate) fn note(&self, event: Value) {
        let mut event = event;
        event["t"] = json!(self.time.now().0);
        let mut line = event.to_string();
        line.push('\n');
        // A full disk here is no part of any fault.
        (&*self.file)
            .write_all(line.as_bytes())
            .expect("a log can be written");
    }
}
