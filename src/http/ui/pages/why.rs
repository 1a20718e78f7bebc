//! The causes why a task does not run, for its page.

use serde::Deserialize;

use crate::{
    api::{task_response::TaskResponse, text::InstantText},
    http::ui::{
        gate::Failure,
        parts::{states, text::visible, time},
        visit::Visit,
    },
};

/// Why a task does not run: a sentence, and the causes.
pub(super) struct Why {
    pub(super) sentence: String,
    pub(super) causes: Vec<CauseLine>,
    /// The causes say more than the sentence.
    pub(super) has_more: bool,
}

pub(super) struct CauseLine {
    pub(super) detail: String,
    pub(super) advice: Option<String>,
    pub(super) since: String,
    pub(super) until: Option<String>,
    pub(super) certain: bool,
}

/// The answer of the API, as far as it is shown.
#[derive(Deserialize)]
struct Causes {
    sentence: String,
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    detail: String,
    #[serde(default)]
    advice: Option<String>,
    #[serde(default)]
    since: Option<InstantText>,
    #[serde(default)]
    until: Option<InstantText>,
    certain: bool,
}

/// Asks why a task that has not ended does not run. A service of an earlier version does not tell.
pub(super) async fn of(visit: &Visit, task: &TaskResponse) -> Result<Option<Why>, Failure> {
    if !states::is_open(task.state) {
        return Ok(None);
    }
    let path = format!("/v1/tasks/{}/why", visit.part());
    let answer = match visit.get::<Causes>(&path).await {
        Ok(answer) => answer,
        Err(failure) if failure.status.is_client_error() => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let causes = answer.causes.iter().map(|cause| CauseLine {
        detail: visible(&cause.detail),
        advice: cause.advice.as_deref().map(visible),
        since: cause.since.as_ref().map_or_else(String::new, time::row),
        until: cause.until.as_ref().map(time::row),
        certain: cause.certain,
    });
    Ok(Some(Why {
        sentence: visible(&answer.sentence),
        causes: causes.collect(),
        has_more: answer.causes.len() > 1 || answer.causes.iter().any(|one| one.advice.is_some()),
    }))
}
