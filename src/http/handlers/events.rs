//! The event handlers let clients follow a task, or the tasks of a callback, by server-sent events that are made of rows.
//!
//! The stream of a task begins with the attempts that its reader has not seen (`Last-Event-ID`) and its present state. It has
//! each later state, and ends with the task. The stream of a callback has what this node writes from now on. A reader that is
//! slow is told that it missed some ([`Watch`]).

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{Stream, stream};
use serde::Serialize;

use crate::{
    api::{
        event::{MissedEvent, ScopeEvent, TaskEvent},
        problem::Problem,
        task_state::TaskState,
    },
    flow::base::{
        agendas::watches::{Change, Watch, Watched},
        api::{TaskView, View},
    },
    http::{
        Api,
        access::{Caller, while_allowed},
        convert::event,
        error::{Code, Error},
        extract::{CallbackPath, Named, NoQuery, TaskPath},
    },
    limits::{WATCH_KEEP_ALIVE, WATCH_STEP},
    model::ids::TaskId,
};

/// Follows a task.
///
/// The events of type `state` have the attempts that have ended, the present state and each later one. `Last-Event-ID` leaves out
/// what its reader has seen. The stream ends with the task: asked for again with the id of its end, it answers 204.
#[utoipa::path(get, path = "/v1/tasks/{id}/events", tag = "tasks", operation_id = "watchTask",
    params(
        ("id" = String, Path, description = "The task's id"),
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that was seen, such as `0.1.claimed`")),
    responses(
        (status = 200, description = "Events, each with a `TaskEvent`", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The task has ended, and its end was seen"),
        (status = "default", description = "Not followed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn task(
    State(api): State<Api>,
    Named(id): Named<TaskPath>,
    _: NoQuery,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let watch = watch(&api, Watched::Task(id))?;
    let task = api.service.get(id, View::Basic).await?;
    let task = task.ok_or_else(Error::task_not_found)?;
    let last = last_event(&headers);
    let ahead = event::since(&task, last.as_deref());
    if ahead.is_empty() && has_ended(&task) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let following = Following {
        seen: Some(event::of(&task).id()),
        ended: has_ended(&task),
        ahead: ahead.into(),
        api,
        caller,
        id,
        watch,
    };
    Ok(sse(stream::unfold(following, async |mut following| {
        let next = following.next().await?;
        Some((Ok(written("state", &next.id(), &next)), following))
    })))
}

/// Follows the tasks of a callback.
///
/// The first event, `scope`, says whether the stream has the events of all tasks: on a cluster it has those that the node writes
/// which was asked. The events of type `state` have what is written from now on: claims, ends of attempts, ends, moves. A reader
/// that was away, or is slow, gets an event `missed`.
#[utoipa::path(get, path = "/v1/callbacks/{name}/events", tag = "callbacks", operation_id = "watchCallback",
    params(
        ("name" = String, Path, description = "The callback"),
        ("last-event-id" = Option<String>, Header, description = "The id of the last event that was seen: the events since then count as missed")),
    responses(
        (status = 200, description = "Events, most with a `TaskEvent`", body = String, content_type = "text/event-stream"),
        (status = "default", description = "Not followed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn callback(
    State(api): State<Api>,
    Named(name): Named<CallbackPath>,
    _: NoQuery,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let watch = watch(&api, Watched::Callback(name.clone()))?;
    let (node, all) = api.service.node();
    let scope = ScopeEvent {
        callback: name,
        node: node.to_owned(),
        all,
    };
    let mut ahead = VecDeque::from([written("scope", "", &scope)]);
    if last_event(&headers).is_some() {
        ahead.push_back(written("missed", "", &MissedEvent { events: None }));
    }
    let listening = Listening {
        ahead,
        api,
        caller,
        watch,
    };
    Ok(sse(stream::unfold(listening, async |mut listening| {
        let next = listening.next().await?;
        Some((Ok(next), listening))
    })))
}

fn sse(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let alive = KeepAlive::new().interval(WATCH_KEEP_ALIVE);
    Sse::new(events).keep_alive(alive).into_response()
}

fn watch(api: &Api, watched: Watched) -> Result<Watch, Error> {
    api.service.watch(watched).ok_or_else(|| Error {
        retry_after: Some(Duration::from_secs(10)),
        ..Error::new(
            Code::TooManyRequests,
            "this node has as many streams of events as it takes: close some, or ask another node",
        )
    })
}

fn last_event(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("last-event-id")?.to_str().ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn has_ended(task: &TaskView) -> bool {
    task.state.is_terminal() && TaskState::from(task.state) != TaskState::WaitingForChildren
}

/// Writes an event. A type of data that cannot be written as JSON does not exist here.
fn written(name: &str, id: &str, data: &impl Serialize) -> Event {
    let event = Event::default().event(name);
    let event = if id.is_empty() { event } else { event.id(id) };
    event.json_data(data).unwrap_or_default()
}

/// A reader of a task.
struct Following {
    api: Api,
    caller: Caller,
    id: TaskId,
    watch: Watch,
    /// Events that are to be sent.
    ahead: VecDeque<TaskEvent>,
    /// The id of the last one.
    seen: Option<String>,
    ended: bool,
}

impl Following {
    /// Returns the next event; none when the task has ended, its reader may not see it any more, or the node stops.
    async fn next(&mut self) -> Option<TaskEvent> {
        loop {
            if let Some(next) = self.ahead.pop_front() {
                return Some(next);
            }
            if self.ended {
                return None;
            }
            let options = &self.api.options;
            let changed = async {
                tokio::select! {
                    () = self.watch.changed() => true,
                    () = options.time.sleep(WATCH_STEP) => true,
                    () = options.shutdown.cancelled() => false,
                }
            };
            let goes_on = while_allowed(&self.api, &self.caller, changed).await;
            if !goes_on.ok()? {
                return None;
            }
            // The row is read below, as this node or another one has written it.
            drop(self.watch.take());
            match self.api.service.get(self.id, View::Basic).await {
                Ok(Some(task)) => {
                    self.ahead = event::since(&task, self.seen.as_deref()).into();
                    self.seen = Some(event::of(&task).id());
                    self.ended = has_ended(&task);
                }
                Ok(None) => return None,
                // The store is away: the next step tries again.
                Err(fault) => {
                    tracing::debug!(task = %self.id, %fault, "a stream waits for the store")
                }
            }
        }
    }
}

/// A reader of a callback.
struct Listening {
    api: Api,
    caller: Caller,
    watch: Watch,
    ahead: VecDeque<Event>,
}

impl Listening {
    /// Returns the next event; none when its reader may not see it any more, or the node stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(next) = self.ahead.pop_front() {
                return Some(next);
            }
            let options = &self.api.options;
            let changed = async {
                tokio::select! {
                    () = self.watch.changed() => true,
                    () = options.shutdown.cancelled() => false,
                }
            };
            let goes_on = while_allowed(&self.api, &self.caller, changed).await;
            if !goes_on.ok()? {
                return None;
            }
            let (changes, missed) = self.watch.take();
            let changes = changes.iter().map(|change: &Change| {
                let event = event::of_change(change);
                written("state", &format!("{}.{}", event.task, event.id()), &event)
            });
            self.ahead.extend(changes);
            if missed > 0 {
                let events = Some(missed);
                self.ahead
                    .push_back(written("missed", "", &MissedEvent { events }));
            }
        }
    }
}
