//! The previous task tells a callback which task its own follows, and with which result.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::{
    api::{
        TaskId,
        previous::PreviousResponse,
        task_state::{TaskState, TreeState},
    },
    model::{
        chain,
        kin::TreeOutcome,
        result::{Place, TaskResult},
        task_state::State,
    },
};

/// The task that a job follows, as it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Previous {
    /// The task.
    pub id: TaskId,
    /// How its own run ended.
    pub state: TaskState,
    /// How its tree ended; only where the job follows the end of a tree.
    pub tree_state: Option<TreeState>,
    /// The result that its callback returned, if the chain takes it along.
    pub result: Option<Bytes>,
    /// Media type of the result; empty is JSON.
    pub result_content_type: String,
    /// Its last error, if the chain takes its result along.
    pub error: Option<String>,
}

impl Previous {
    /// Reads the result as a value from JSON; none when there is no result.
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

    pub(super) fn of(previous: chain::Previous) -> Self {
        let result = previous.result;
        Self {
            id: previous.task,
            state: shown(previous.state),
            tree_state: previous.tree.map(|outcome| match outcome {
                TreeOutcome::Completed => TreeState::Completed,
                TreeOutcome::Faulted => TreeState::Faulted,
                TreeOutcome::Cancelled => TreeState::Cancelled,
            }),
            result_content_type: result
                .as_ref()
                .map(|result| result.content_type.clone())
                .unwrap_or_default(),
            result: result.and_then(|result| result.bytes().cloned()),
            error: previous.error,
        }
    }
}

/// Reads what came with a claimed task. An answer of a later service that cannot be read tells nothing.
pub(super) fn read(response: PreviousResponse) -> Option<chain::Previous> {
    let json = response.result.map(|raw| Bytes::from(raw.get().to_owned()));
    let bytes = response
        .result_base64
        .and_then(|text| STANDARD.decode(text).ok())
        .map(Bytes::from);
    let gone = response
        .result_bytes
        .map(|bytes| Place::Apart { attempt: 0, bytes });
    let place = json.or(bytes).map(Place::Inline).or(gone);
    let content_type = response.result_content_type.unwrap_or_default();
    Some(chain::Previous {
        task: response.id.parse().ok()?,
        state: State::ALL
            .into_iter()
            .find(|state| state.is_terminal() && shown(*state) == response.state)?,
        tree: response.tree_state.and_then(|state| match state {
            TreeState::None | TreeState::WaitingForChildren => None,
            TreeState::Completed => Some(TreeOutcome::Completed),
            TreeState::Faulted => Some(TreeOutcome::Faulted),
            TreeState::Cancelled => Some(TreeOutcome::Cancelled),
        }),
        result: place.map(|place| TaskResult {
            content_type,
            place,
        }),
        error: response.error,
    })
}

const fn shown(state: State) -> TaskState {
    match state {
        State::Succeeded => TaskState::Succeeded,
        State::Failed => TaskState::Failed,
        State::Cancelled => TaskState::Cancelled,
        State::Expired => TaskState::Expired,
        State::Dead => TaskState::Dead,
        State::New => TaskState::Scheduled,
        State::Claimed => TaskState::Claimed,
        State::Retrying => TaskState::Retrying,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::fixtures;

    fn read_json(value: &serde_json::Value) -> Option<Previous> {
        // A raw value is read from text alone.
        let response = serde_json::from_str(&value.to_string()).unwrap();
        read(response).map(Previous::of)
    }

    #[test]
    fn a_job_reads_the_result_of_the_task_before_it() {
        let id = fixtures::id();
        let previous = read_json(&json!({
            "id": id.to_string(), "state": "succeeded", "result": {"rows": 7},
        }));
        let previous = previous.unwrap();
        assert_eq!((previous.id, previous.state), (id, TaskState::Succeeded));
        let rows: Option<serde_json::Value> = previous.read_result().unwrap();
        assert_eq!(rows, Some(json!({"rows": 7})));
        assert!(previous.read_result::<u32>().is_err());
        let dead = read_json(&json!({
            "id": id.to_string(), "state": "dead", "tree_state": "faulted", "error": "no",
        }));
        let dead = dead.unwrap();
        assert_eq!(dead.tree_state, Some(TreeState::Faulted));
        assert_eq!(dead.read_result::<u32>(), Ok(None));
        assert_eq!(dead.error.as_deref(), Some("no"));
        let bytes = read_json(&json!({
            "id": id.to_string(), "state": "succeeded", "result_base64": "/w==",
            "result_content_type": "application/octet-stream",
        }));
        assert_eq!(bytes.unwrap().result, Some(Bytes::from_static(b"\xff")));
        let odd = read_json(&json!({"id": "x", "state": "succeeded"}));
        assert_eq!(odd, None);
    }
}
