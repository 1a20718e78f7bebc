//! This conversion reads for registration which tasks a task waits for, and writes it for clients.

use std::collections::HashMap;

use super::action::check_time;
use crate::{
    api::{
        join::{AfterCondition, AfterResponse},
        task_request::TaskRequest,
        text::shorten,
    },
    flow::base::api::TaskView,
    http::error::{Code, Error},
    limits::{AFTER_IDS_MAX, AFTER_IDS_OF_REQUEST_MAX},
    model::{
        action::CheckTime,
        ids::TaskId,
        join::{After, Asked, Condition},
        time::Millis,
    },
};

/// Takes what a task waits for out of its request; `id` is the id that its client gave it.
///
/// # Errors
/// [`Code::UnusableAfter`], with the field.
pub(super) fn take(
    request: &mut TaskRequest,
    id: Option<&str>,
    now: Millis,
) -> Result<Option<Asked>, Error> {
    let Some(after) = request.after.take() else {
        return Ok(None);
    };
    if request.callback.is_none() && request.http.is_none() && request.kafka.is_some() {
        let detail = "a `kafka` task waits for no others: it has no row that could wait; give the task a callback";
        return Err(unusable("/after", detail));
    }
    if request.after_parent {
        let detail = "excludes `after`: a child waits for the run of its parent, or for other tasks; give one";
        return Err(unusable("/after_parent", detail));
    }
    let ids = ids(after.ids, id)?;
    let deadline = deadline(after.deadline.as_deref(), now)?;
    if after.later && deadline.is_none() {
        let detail = "is missing: with `later` a task may never come, so say until when to wait";
        return Err(unusable("/after/deadline", detail));
    }
    Ok(Some(Asked {
        after: After {
            condition: match after.condition {
                None | Some(AfterCondition::AllSucceeded) => Condition::AllSucceeded,
                Some(AfterCondition::AllEnded) => Condition::AllEnded,
            },
            later: after.later,
            deadline,
            tasks: u32::try_from(ids.len()).unwrap_or(u32::MAX),
        },
        ids,
    }))
}

/// The tasks that those of one request wait for together, as far as they were read.
#[derive(Debug, Default)]
pub(in crate::http) struct Total(usize);

impl Total {
    /// Counts those of one more task.
    ///
    /// # Errors
    /// [`Code::UnusableAfter`], with the field, from the one on that makes them too many.
    pub(in crate::http) fn count(&mut self, request: &TaskRequest) -> Result<(), Error> {
        let Some(after) = &request.after else {
            return Ok(());
        };
        self.0 = self.0.saturating_add(after.ids.len());
        if self.0 <= AFTER_IDS_OF_REQUEST_MAX {
            return Ok(());
        }
        let detail = format!(
            "the tasks of this request wait for more than {AFTER_IDS_OF_REQUEST_MAX} tasks together: send this one in a request of its own"
        );
        Err(unusable("/after/ids", &detail))
    }
}

fn ids(texts: Vec<String>, own: Option<&str>) -> Result<Vec<TaskId>, Error> {
    if texts.is_empty() {
        let detail = "is empty: name the tasks to wait for, or leave `after` out";
        return Err(unusable("/after/ids", detail));
    }
    if texts.len() > AFTER_IDS_MAX {
        let detail = format!(
            "has {} ids; a task waits for {AFTER_IDS_MAX} tasks at most: put a task between that waits for a part of them",
            texts.len()
        );
        return Err(unusable("/after/ids", &detail));
    }
    let own: Option<TaskId> = own.and_then(|text| text.parse().ok());
    let mut ids: Vec<TaskId> = Vec::with_capacity(texts.len());
    let mut places: HashMap<TaskId, usize> = HashMap::with_capacity(texts.len());
    for (place, text) in texts.into_iter().enumerate() {
        let at = format!("/after/ids/{place}");
        let id: Result<TaskId, _> = text.parse();
        let id = id.map_err(|_| {
            let detail = format!("`{}` is not the id of a task", shorten(&text));
            unusable(&at, &detail)
        })?;
        if own == Some(id) {
            return Err(unusable(
                &at,
                "is the task itself, which would wait for ever",
            ));
        }
        if let Some(first) = places.insert(id, place) {
            let detail = format!("is the same task as /after/ids/{first}: name each once");
            return Err(unusable(&at, &detail));
        }
        ids.push(id);
    }
    Ok(ids)
}

fn deadline(text: Option<&str>, now: Millis) -> Result<Option<Millis>, Error> {
    let Some(text) = text else {
        return Ok(None);
    };
    let time = check_time(text).map_err(|detail| unusable("/after/deadline", &detail))?;
    Ok(Some(match time {
        CheckTime::At(at) => at,
        CheckTime::After(wait) => now.after(wait),
    }))
}

fn unusable(at: &str, detail: &str) -> Error {
    Error::field(Code::UnusableAfter, at, detail)
}

/// Writes what a task waits for, or waited for.
pub(super) fn shown(task: &TaskView) -> Option<AfterResponse> {
    let after = task.spec.after.as_deref()?;
    let waits = task.waits.as_ref();
    let texts = |ids: &Vec<TaskId>| ids.iter().map(ToString::to_string).collect();
    let ids = waits.map(|waits| texts(&waits.ids)).unwrap_or_default();
    let condition = match after.condition {
        Condition::AllSucceeded => AfterCondition::AllSucceeded,
        Condition::AllEnded => AfterCondition::AllEnded,
    };
    let open = waits.and_then(|waits| waits.open.as_ref().map(texts));
    let deadline = after.deadline.map(Into::into);
    Some(AfterResponse::new(
        ids,
        condition,
        after.later,
        deadline,
        after.tasks,
        open,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ONE: &str = "019a9d5a-0000-8000-8000-000000000007";
    const OTHER: &str = "019a9d5a-0000-8000-8000-000000000008";
    const NOW: Millis = Millis(1_800_000_000_000);

    fn read(mut body: Value) -> Result<Option<Asked>, Error> {
        let own = body["id"].take();
        if body.get("callback").is_none() && body.get("kafka").is_none() {
            body["callback"] = json!("c");
        }
        let mut request: TaskRequest = serde_json::from_value(body).unwrap();
        take(&mut request, own.as_str(), NOW)
    }

    #[test]
    fn a_wait_is_read_with_its_rules() {
        assert_eq!(read(json!({"id": null})).unwrap(), None);
        let asked = read(json!({"id": null, "after": {"ids": [ONE, OTHER]}}));
        let asked = asked.unwrap().unwrap();
        assert_eq!((asked.ids.len(), asked.after.tasks), (2, 2));
        assert_eq!(asked.after.condition, Condition::AllSucceeded);
        assert_eq!((asked.after.later, asked.after.deadline), (false, None));
        let after =
            json!({"ids": [ONE], "condition": "all_ended", "later": true, "deadline": "1m"});
        let asked = read(json!({"id": null, "after": after})).unwrap().unwrap();
        assert_eq!(asked.after.condition, Condition::AllEnded);
        assert!(asked.after.later);
        assert_eq!(asked.after.deadline, Some(Millis(NOW.0 + 60_000)));
        let after = json!({"ids": [ONE], "deadline": "2030-01-31T09:00:00Z"});
        let asked = read(json!({"id": null, "after": after})).unwrap().unwrap();
        assert_eq!(asked.after.deadline, Some(Millis(1_896_080_400_000)));
    }

    #[test]
    fn a_wait_that_cannot_be_is_refused_with_its_field() {
        let many: Vec<String> = (0..=AFTER_IDS_MAX)
            .map(|number| format!("019a9d5a-0000-8000-8000-{number:012}"))
            .collect();
        for (body, pointer) in [
            (json!({"id": null, "after": {"ids": []}}), "/after/ids"),
            (json!({"id": null, "after": {"ids": many}}), "/after/ids"),
            (
                json!({"id": null, "after": {"ids": [ONE, "x"]}}),
                "/after/ids/1",
            ),
            (
                json!({"id": null, "after": {"ids": [ONE, OTHER, ONE]}}),
                "/after/ids/2",
            ),
            (
                json!({"id": OTHER, "after": {"ids": [ONE, OTHER]}}),
                "/after/ids/1",
            ),
            (
                json!({"id": null, "after": {"ids": [ONE], "later": true}}),
                "/after/deadline",
            ),
            (
                json!({"id": null, "after": {"ids": [ONE], "deadline": "x"}}),
                "/after/deadline",
            ),
            (
                json!({"id": null, "after_parent": true, "after": {"ids": [ONE]}}),
                "/after_parent",
            ),
            (
                json!({"id": null, "kafka": {"topic": "t"}, "after": {"ids": [ONE]}}),
                "/after",
            ),
        ] {
            let error = read(body).unwrap_err();
            assert_eq!(error.code, Code::UnusableAfter);
            assert_eq!(error.errors[0].pointer, pointer);
        }
    }
}
