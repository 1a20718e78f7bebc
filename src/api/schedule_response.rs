//! The schedule response carries the settings of a schedule, and where it stands, to clients.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, DeserializeOwned},
};
use serde_json::value::RawValue;
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    schedule::{PauseResponse, ScheduleRequest, ScheduleState},
    text::InstantText,
};

/// A schedule, as it was set and as it stands.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ScheduleResponse {
    /// Its name.
    pub name: String,
    /// The settings, as a request would set it again. In JSON they are members of the answer itself.
    #[serde(flatten)]
    pub schedule: ScheduleRequest,
    /// Where it stands.
    pub state: ScheduleState,
    /// Why it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseResponse>,
    /// Its times in words, such as "At 02:30, Monday to Friday".
    pub description: String,
    /// The next times, with the offset of the zone; none unless it is live.
    pub next_run_times: Vec<String>,
    /// The version of the data about time zones of the node that answers.
    pub time_zone_version: String,
    /// The number of changes. Runs of an older generation do not begin any more.
    pub generation: u32,
    /// When it was created.
    pub create_time: InstantText,
    /// When it was changed last.
    pub update_time: InstantText,
    /// Runs that count against the limit.
    pub runs: u64,
    /// Times that were missed and not made up for.
    pub runs_missed: u64,
    /// Runs that were skipped because another had not ended.
    pub runs_skipped: u64,
    /// Of the answer to a change: runs that were withdrawn before they began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_cancelled: Option<u64>,
    /// Of the answer to a change: runs that had begun, and go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_started: Option<u64>,
}

/// A page of schedules.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[cfg_attr(feature = "server", schema(as = ListSchedulesAnswer))]
#[non_exhaustive]
pub struct ListSchedulesResponse {
    /// The schedules, by name.
    pub schedules: Vec<ScheduleResponse>,
    /// Send this as `page_token` to get the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// The members of an answer that are settings.
const SETTINGS: [&str; 15] = [
    "cron",
    "every",
    "time_zone",
    "start_time",
    "end_time",
    "limit",
    "jitter",
    "overlap",
    "missed",
    "catch_up_window",
    "pause_on_failure",
    "note",
    "labels",
    "paused",
    "task",
];

/// The members of an answer that are no settings.
#[derive(Deserialize)]
struct Standing {
    name: String,
    state: ScheduleState,
    #[serde(default)]
    pause: Option<PauseResponse>,
    description: String,
    next_run_times: Vec<String>,
    time_zone_version: String,
    generation: u32,
    create_time: InstantText,
    update_time: InstantText,
    runs: u64,
    runs_missed: u64,
    runs_skipped: u64,
    #[serde(default)]
    runs_cancelled: Option<u64>,
    #[serde(default)]
    runs_started: Option<u64>,
}

/// The derived reader would not read a payload as it was written, since it keeps flattened members in a form of its own. Members
/// that are not known, of a later version, are passed over.
impl<'de> Deserialize<'de> for ScheduleResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = BTreeMap::<String, Box<RawValue>>::deserialize(deserializer)?;
        let settings = SETTINGS
            .iter()
            .filter_map(|name| members.remove_entry(*name));
        let settings: BTreeMap<String, Box<RawValue>> = settings.collect();
        let standing: Standing = of_members(&members)?;
        Ok(Self {
            schedule: of_members(&settings)?,
            name: standing.name,
            state: standing.state,
            pause: standing.pause,
            description: standing.description,
            next_run_times: standing.next_run_times,
            time_zone_version: standing.time_zone_version,
            generation: standing.generation,
            create_time: standing.create_time,
            update_time: standing.update_time,
            runs: standing.runs,
            runs_missed: standing.runs_missed,
            runs_skipped: standing.runs_skipped,
            runs_cancelled: standing.runs_cancelled,
            runs_started: standing.runs_started,
        })
    }
}

fn of_members<T: DeserializeOwned, E: de::Error>(
    members: &BTreeMap<String, Box<RawValue>>,
) -> Result<T, E> {
    let text = serde_json::to_string(members).map_err(E::custom)?;
    serde_json::from_str(&text).map_err(E::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_flat_and_is_read_as_it_was_written() {
        let settings = serde_json::json!({
            "cron": ["30 2 * * *", "0 12 * * SAT"], "every": "5m", "time_zone": "UTC", "start_time": "2030-01-01T00:00:00Z",
            "end_time": "2031-01-01T00:00:00Z", "limit": 3, "jitter": "1s", "overlap": "skip", "missed": "all",
            "catch_up_window": "1h", "pause_on_failure": true, "note": "n", "labels": {"a": "b"}, "paused": true,
            "task": {"callback": "a", "payload": [1.50, {"z": 1, "a": 2}]}
        });
        let names: Vec<&String> = settings.as_object().unwrap().keys().collect();
        assert_eq!(names.len(), SETTINGS.len());
        assert!(names.iter().all(|name| SETTINGS.contains(&name.as_str())));
        let mut answer = serde_json::json!({
            "name": "nightly", "state": "live", "description": "At 02:30", "next_run_times": [], "time_zone_version": "2030a",
            "generation": 1, "create_time": "2030-01-01T00:00:00Z", "update_time": "2030-01-01T00:00:00Z", "runs": 0,
            "runs_missed": 0, "runs_skipped": 0
        });
        let all = answer.as_object_mut().unwrap();
        all.extend(settings.as_object().unwrap().clone());
        all.insert("of_a_later_version".to_owned(), serde_json::json!(1));
        let read: ScheduleResponse = serde_json::from_str(&answer.to_string()).unwrap();
        let payload = read
            .schedule
            .task
            .as_ref()
            .unwrap()
            .payload
            .as_ref()
            .unwrap();
        assert_eq!(payload.get(), r#"[1.5,{"a":2,"z":1}]"#);
        answer.as_object_mut().unwrap().remove("of_a_later_version");
        assert_eq!(serde_json::to_value(&read).unwrap(), answer);
    }
}
