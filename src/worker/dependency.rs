//! The dependency tells a callback how a task has ended that its own waited for, and with which result.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::api::{
    TaskId,
    dependency::DependencyResponse,
    task_state::{TaskState, TreeState},
};

/// A task that a job waited for, as it is at the claim of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dependency {
    /// The task.
    pub id: TaskId,
    /// Its state; none where it is not known any more.
    pub state: Option<TaskState>,
    /// How its tree ended; only of a task that had children.
    pub tree_state: Option<TreeState>,
    /// Its result, of 4 KiB at most, as long as all dependencies have 256 KiB together.
    pub result: Option<Bytes>,
    /// Media type of the result; empty is JSON.
    pub result_content_type: String,
    /// How many bytes a result has that is larger, or found no room: the client reads it with the task.
    pub result_bytes: Option<u64>,
    /// The task cannot be read any more.
    pub gone: bool,
}

impl Dependency {
    /// Reads the result as a value from JSON; none when there is no result here.
    ///
    /// # Errors
    /// A text that says what is wrong with the result.
    pub fn read_result<T: DeserializeOwned>(&self) -> Result<Option<T>, String> {
        let Some(bytes) = &self.result else {
            return Ok(None);
        };
        let read = serde_json::from_slice(bytes).map(Some);
        read.map_err(|error| format!("the result of task {}: {error}", self.id))
    }
}

/// Reads what came with a claimed task. One of a later service that cannot be read is left out.
pub(super) fn read(responses: Vec<DependencyResponse>) -> Vec<Dependency> {
    let one = |response: DependencyResponse| {
        let json = response.result.map(|raw| Bytes::from(raw.get().to_owned()));
        let bytes = response
            .result_base64
            .and_then(|text| STANDARD.decode(text).ok())
            .map(Bytes::from);
        Some(Dependency {
            id: response.id.parse().ok()?,
            state: response.state,
            tree_state: response.tree_state,
            result: json.or(bytes),
            result_content_type: response.result_content_type.unwrap_or_default(),
            result_bytes: response.result_bytes,
            gone: response.gone,
        })
    };
    responses.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::fixtures;

    #[test]
    fn a_job_reads_the_results_of_its_dependencies() {
        let id = fixtures::id();
        let text = json!([
            {"id": id.to_string(), "state": "succeeded", "result": {"rows": 7}},
            {"id": id.to_string(), "state": "succeeded", "tree_state": "completed", "result_bytes": 70_000},
            {"id": id.to_string(), "state": "dead", "result_base64": "/w==", "gone": true},
            {"id": "x", "state": "succeeded"},
        ]);
        let read = read(serde_json::from_str(&text.to_string()).unwrap());
        assert_eq!(read.len(), 3);
        let rows: Option<serde_json::Value> = read[0].read_result().unwrap();
        assert_eq!((read[0].id, rows), (id, Some(json!({"rows": 7}))));
        assert!(read[0].read_result::<u32>().is_err());
        assert_eq!(
            (read[1].result_bytes, read[1].tree_state),
            (Some(70_000), Some(TreeState::Completed))
        );
        assert_eq!(read[1].read_result::<u32>(), Ok(None));
        assert_eq!(
            (read[2].result.as_deref(), read[2].gone),
            (Some(&b"\xff"[..]), true)
        );
    }
}
