//! This module kills a server while the embedded database begins a new journal, which shows as a
//! new file in its folder.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tickwheel::time_source::TimeSource;
use tokio_util::sync::CancellationToken;

use super::{clients::CALLBACK, history::Site};

/// The time between two looks at the folder, which is shorter than the syncs of a new journal.
const LOOK: Duration = Duration::from_micros(100);

/// A debug build on a busy machine needs some seconds for the 64 MB of a journal.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Bytes of a payload that fills journals.
const HEAVY: usize = 60_000;

fn newest(store: &Path) -> Option<(u64, PathBuf)> {
    let found = fs::read_dir(store).ok()?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let number = path.file_name()?.to_str()?.strip_suffix(".jnl")?;
        Some((number.parse().ok()?, path))
    });
    found.max()
}

/// Kills a process as soon as there is a newer journal than before.
pub(super) async fn kill_at_next(process: u32, store: PathBuf) {
    let watch = move || {
        let time = TimeSource::real();
        let (before, until) = (newest(&store), time.moment().after(WAIT_MAX));
        while newest(&store) <= before && time.moment() < until {
            std::thread::park_timeout(LOOK);
        }
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        kill_process(process.expect("a process has a number"), Signal::KILL).expect("it lives");
    };
    tokio::task::spawn_blocking(watch)
        .await
        .expect("a thread that looks");
}

/// Tells whether a process died before anything was written to its newest journal, which it had begun.
pub(super) fn was_under_way(store: &Path) -> bool {
    newest(store).is_some_and(|(number, path)| {
        let bytes = fs::read(path).expect("a journal can be read");
        number > 0 && bytes.iter().all(|byte| *byte == 0)
    })
}

/// Registers tasks with large payloads.
pub(super) async fn fill(site: Site, stop: CancellationToken) {
    let letter = || char::from(b'a' + u8::try_from(site.time.random() % 26).expect("it is small"));
    while !stop.is_cancelled() {
        // Letters alone compress to less than two thirds.
        let much: String = (0..HEAVY).map(|_| letter()).collect();
        let payload = json!({"run_ms": 0, "retries": 0, "dies": false, "much": much});
        let request = json!({"callback": CALLBACK, "delay": "3s", "payload": payload,
            "claim_timeout": "5s", "heartbeat_timeout": "3s", "max_attempts": 50});
        if let Some(answer) = site.call("/v1/tasks", &request).await {
            site.note(&answer);
        } else {
            site.time.sleep(LOOK * 100).await;
        }
    }
}
