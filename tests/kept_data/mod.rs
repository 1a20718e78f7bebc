//! Kept data lets tests of upgrades open what an earlier version wrote: tasks, keys, sequences, schedules, trees, chains, joins,
//! gates, limits, dead letters, jobs and API keys.
//!
//! `tests/fixtures/VERSION/` holds the data as that version left them when it was killed, and `answers.json` beside them: the
//! time, the key to get in with, and the answers that it gave. A fixture is written once, by the version itself, and never
//! changed. It is opened with the clock of its own day (`--clock-offset-file`), so that nothing in it expires.

#![allow(
    dead_code,
    reason = "shared by two test programs, each of which uses its part"
)]

pub(crate) mod content;
mod due;
mod site;

use std::{
    fs, mem,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use tickwheel::time_source::TimeSource;

pub(crate) use site::Site;

/// The folder with the data that a version wrote.
pub(crate) fn fixture(version: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(version)
}

/// The answers of the version that wrote the data.
pub(crate) struct Kept(Value);

impl Kept {
    /// Reads those beside the data of a store.
    pub(crate) fn of(folder: &Path, store: &str) -> Self {
        let text = fs::read_to_string(folder.join(format!("{store}.answers.json"))).unwrap();
        Self(serde_json::from_str(&text).unwrap())
    }

    /// Writes them: the answers of now.
    pub(crate) async fn write(site: &Site, ids: &Value, folder: &Path, store: &str) {
        let written_ms = TimeSource::real().now().0;
        let answers = content::read_all(site, ids).await;
        let kept =
            json!({"written_ms": written_ms, "key": site.key, "ids": ids, "answers": answers});
        let text = serde_json::to_string_pretty(&kept).unwrap();
        fs::write(folder.join(format!("{store}.answers.json")), text + "\n").unwrap();
    }

    /// Returns milliseconds that put the clock of now to `later_ms` behind the writing.
    pub(crate) fn offset_ms(&self, later_ms: i64) -> i64 {
        self.0["written_ms"].as_i64().unwrap() + later_ms - TimeSource::real().now().0
    }

    pub(crate) fn key(&self) -> String {
        self.0["key"].as_str().unwrap().to_owned()
    }

    pub(crate) fn ids(&self) -> &Value {
        &self.0["ids"]
    }

    /// Compares the answers of now with the ones that are kept.
    pub(crate) async fn are_given_by(&self, site: &Site) {
        let answers = content::read_all(site, self.ids()).await;
        let kept = self.0["answers"].as_object().unwrap();
        assert!(kept.len() > 30, "{} answers", kept.len());
        // All that differs is told at once: a run of this test is the last of many minutes.
        let differ = kept.iter().filter_map(|(path, kept)| {
            let (kept, now) = (as_now(path, kept), as_then(path, &answers[path]));
            let differs = site::is_within(&kept, &now).err()?;
            Some(format!("{path}{differs}\nkept {kept:#}\nnow {now:#}\n"))
        });
        let differ: String = differ.collect();
        assert!(differ.is_empty(), "{differ}");
    }

    /// Runs all that has come due, and returns when everything has ended, these tasks too.
    pub(crate) async fn runs(&self, site: &Site, more: &[&str]) {
        due::run(site, self.ids(), more).await;
    }
}

/// Returns a kept answer in the shape that the answer has now. The settings of a schedule were a member `schedule` of its answer
/// when the data of 0.2.0 were written, before that version was tagged, and follow-ups of no collection had an empty one.
fn as_now(path: &str, kept: &Value) -> Value {
    let mut answer = kept.clone();
    if path.starts_with("/v1/schedules/") {
        let members = answer.as_object_mut().unwrap();
        if let Some(Value::Object(settings)) = members.remove("schedule") {
            members.extend(settings);
        }
    }
    let followers = answer.get_mut("then").and_then(Value::as_array_mut);
    for follower in followers.into_iter().flatten() {
        let task = follower["task"].as_object_mut().unwrap();
        if task.get("collection") == Some(&json!("")) {
            task.remove("collection");
        }
    }
    answer
}

/// Returns an answer of now in the shape that it had in one thing: children that had not ended were counted together as `open`.
fn as_then(path: &str, now: &Value) -> Value {
    let mut answer = now.clone();
    if !path.ends_with("/tree") {
        return answer;
    }
    for node in answer["nodes"].as_array_mut().unwrap() {
        let Some(children) = node.get_mut("children").and_then(Value::as_object_mut) else {
            continue;
        };
        let states = ["succeeded", "failed", "cancelled", "expired", "dead"];
        let (ended, open): (Map<_, _>, Map<_, _>) = mem::take(children)
            .into_iter()
            .partition(|(state, _)| states.contains(&state.as_str()));
        let open: u64 = open.values().filter_map(Value::as_u64).sum();
        *children = ended;
        if open > 0 {
            children.insert("open".to_owned(), open.into());
        }
    }
    answer
}
