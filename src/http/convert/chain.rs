//! This conversion reads for the domain the tasks that follow a task, and writes them for clients, with what a task follows.

use std::time::Duration;

use super::{
    action::{self, when},
    content::{self, JSON},
    new_task::{Context, new_task},
    notify::tree_outcome,
    template::task_request,
};
use crate::{
    api::{
        self,
        action::EndState,
        previous::{Parts, PreviousResponse},
        problem::FieldError,
        task_request::TaskRequest,
        task_response::{FollowUpResponse, TaskState},
        text::DurationText,
        time,
        worker::View,
    },
    flow::{
        base::api::{NewTask, TaskView, VisibleState},
        features::ends::actions::end_of,
    },
    http::error::{Code, Error},
    limits::{THEN_BYTES_MAX, THEN_LEVELS_MAX, THEN_MAX},
    model::{
        action::{End, When},
        chain::{FollowStart, FollowUp, Previous},
        chain_task::follow_id,
        draft::{Defaults, TaskDraft},
        notify::EndStates,
        row::State,
        task::{Body, Content, Spec},
        time::Millis,
    },
    schema::follow_ups_bytes,
};

/// Converts a request with the tasks that follow it. Whether these fit its place in a tree is left to [`check_kin`].
///
/// # Errors
/// All mistakes of the request; without any, those of its first bad follow-up.
pub(in crate::http) fn chained(
    mut request: TaskRequest,
    context: &Context,
) -> Result<NewTask, Error> {
    let then = request.then.take().unwrap_or_default();
    let mut task = new_task(request, context)?;
    task.draft.then = read(then, task.draft.target.is_tracked(), context)?;
    Ok(task)
}

/// Reads the tasks that follow a task of this target.
fn read(
    then: Vec<api::task_request::FollowUp>,
    is_tracked: bool,
    context: &Context,
) -> Result<Vec<FollowUp<TaskDraft>>, Error> {
    let read = level(then, is_tracked, context, 1)?;
    let whole: Vec<FollowUp<Spec>> = read
        .iter()
        .cloned()
        .map(|follow| follow.map(|task| task.complete(&Defaults::SERVICE)))
        .collect();
    let bytes = follow_ups_bytes(&whole);
    if bytes > THEN_BYTES_MAX {
        let detail = format!(
            "the tasks are {bytes} bytes together as encoded; the limit is {THEN_BYTES_MAX}, since they travel with the task: make payloads shorter, or register the later tasks from a callback"
        );
        return Err(unusable("/then", &detail));
    }
    Ok(read)
}

fn level(
    then: Vec<api::task_request::FollowUp>,
    is_tracked: bool,
    context: &Context,
    depth: usize,
) -> Result<Vec<FollowUp<TaskDraft>>, Error> {
    if then.is_empty() {
        return Ok(Vec::new());
    }
    if !is_tracked {
        let detail = "a `kafka` task has no follow-ups: nothing tells when it has ended; leave them out, or give the task a callback";
        return Err(unusable("/then", detail));
    }
    if then.len() > THEN_MAX {
        let detail = format!("more than {THEN_MAX} tasks follow one task");
        return Err(unusable("/then", &detail));
    }
    if depth > THEN_LEVELS_MAX {
        let detail = format!(
            "lies more than {THEN_LEVELS_MAX} levels deep; register the later tasks from a callback"
        );
        return Err(unusable("/then", &detail));
    }
    let one = |(place, follow)| {
        let at = format!("/then/{place}");
        one(follow, &at, context, depth)
    };
    then.into_iter().enumerate().map(one).collect()
}

fn one(
    follow: api::task_request::FollowUp,
    at: &str,
    context: &Context,
    depth: usize,
) -> Result<FollowUp<TaskDraft>, Error> {
    let api::task_request::FollowUp {
        states,
        task,
        with_result,
        in_tree,
    } = follow;
    let succeeded = || EndStates::of([State::Succeeded]).map(When::Run);
    let when = match states {
        None => succeeded().ok_or_else(|| "names no end".to_owned()),
        Some(states) if states.contains(&EndState::Claimed) => {
            Err("a claim is no end: nothing follows it; use an action or a notice".to_owned())
        }
        Some(states) => when(&states),
    };
    let when = when.map_err(|detail| unusable(&format!("{at}/states"), &detail))?;
    let mut request = *task;
    check_fields(&request, at, with_result)?;
    let then = request.then.take().unwrap_or_default();
    let start = start(&request);
    let within = |error: Error| below(error, &format!("{at}/task"));
    // They are in the trace of the task before them: it costs nothing of what they may take.
    let context = &Context {
        trace_parent: None,
        ..context.clone()
    };
    let mut task = new_task(request, context).map_err(within)?.draft;
    task.then = level(then, task.target.is_tracked(), context, depth + 1).map_err(within)?;
    action::check_kin(&task).map_err(within)?;
    // Both are told by the end that it follows.
    (task.create_time, task.asked_start) = (Millis::EPOCH, None);
    Ok(FollowUp {
        when,
        start,
        with_result,
        in_tree,
        task,
    })
}

/// Refuses fields that a follow-up cannot have.
fn check_fields(task: &TaskRequest, at: &str, with_result: bool) -> Result<(), Error> {
    let own = [
        ("id", task.id.is_some()),
        ("idempotency_key", task.idempotency_key.is_some()),
        ("key", task.key.is_some()),
        ("on_conflict", task.on_conflict.is_some()),
        ("parent", task.parent.is_some()),
        ("children", task.children.is_some()),
        ("after_parent", task.after_parent),
        ("children_within", task.children_within.is_some()),
        ("children_complete", task.children_complete),
    ];
    if let Some((field, _)) = own.into_iter().find(|(_, given)| *given) {
        let detail = "cannot be set for a task that follows another one: leave it out";
        return Err(unusable(&format!("{at}/task/{field}"), detail));
    }
    if task.after.is_some() {
        let detail = "cannot be set for a task that follows another one: what it names may be forgotten by then, and nobody is there to be told; register that task now, with an `after` that names this one as well";
        return Err(unusable(&format!("{at}/task/after"), detail));
    }
    if task.kafka.is_some() {
        let detail = "a `kafka` task follows no other: it has no row that tells whether it went out, so it might go out twice; use `notify` with a topic, or a callback";
        return Err(unusable(&format!("{at}/task/kafka"), detail));
    }
    let gets = task.http.as_ref().and_then(|http| http.method.as_deref()) == Some("GET");
    if with_result && gets {
        let detail = "a GET sends no body, and so no result: use another method";
        return Err(unusable(&format!("{at}/with_result"), detail));
    }
    let has_body = task.payload.is_some() || task.payload_base64.is_some();
    if with_result && has_body && task.http.is_some() {
        let detail = "a request has one body: leave the payload out, and the result is the body";
        return Err(unusable(&format!("{at}/task/payload"), detail));
    }
    Ok(())
}

/// Reads when a follow-up starts. Mistakes are found by the conversion of the task.
fn start(task: &TaskRequest) -> FollowStart {
    let at = task.start_time.as_ref();
    if let Some(at) = at.and_then(|text| time::instant(text).ok()) {
        return FollowStart::At(at);
    }
    let delay = task.delay.as_ref();
    let delay = delay.and_then(|text| time::duration(text, Duration::ZERO).ok());
    FollowStart::After(delay.unwrap_or(Duration::ZERO))
}

fn unusable(at: &str, detail: &str) -> Error {
    Error::field(Code::UnusableThen, at, detail)
}

/// The pointers of a task's mistakes begin in its chain.
fn below(error: Error, at: &str) -> Error {
    let errors = error.errors.into_iter().map(|field| FieldError {
        pointer: format!("{at}{}", field.pointer),
        detail: field.detail,
    });
    Error {
        errors: errors.collect(),
        ..error
    }
}

/// Refuses follow-ups at the end of a tree, and in a tree, for a task that has none; `below` says that its parent is registered
/// with it.
///
/// # Errors
/// [`Code::UnusableThen`], with the field.
pub(super) fn check_kin(task: &TaskDraft, below: bool) -> Result<(), Error> {
    let kin = task.kin.as_deref().copied().unwrap_or_default();
    let has_parent = below || kin.parent.is_some();
    check_places(&task.then, "", (has_parent, kin.is_parent))
}

fn check_places(
    then: &[FollowUp<TaskDraft>],
    above: &str,
    (has_parent, is_parent): (bool, bool),
) -> Result<(), Error> {
    for (place, follow) in then.iter().enumerate() {
        let at = format!("{above}/then/{place}");
        let of_tree = matches!(follow.when, When::Tree(_));
        if of_tree && !is_parent {
            let detail = "names ends of the tree, and only a task with `children`, which may be an empty list, has one";
            return Err(unusable(&format!("{at}/states"), detail));
        }
        if follow.in_tree && !has_parent && !is_parent {
            let detail = "needs a task that is in a tree: one with `parent` or `children`";
            return Err(unusable(&format!("{at}/in_tree"), detail));
        }
        if follow.in_tree && of_tree && !has_parent {
            let detail = "cannot be set at the end of the whole tree: it takes no more tasks then; leave it out";
            return Err(unusable(&format!("{at}/in_tree"), detail));
        }
        let below = format!("{at}/task");
        check_places(&follow.task.then, &below, (follow.in_tree, false))?;
    }
    Ok(())
}

/// Writes follow-ups as they were given.
pub(super) fn given(then: &[FollowUp<TaskDraft>]) -> Vec<api::task_request::FollowUp> {
    let follow = |follow: &FollowUp<TaskDraft>| api::task_request::FollowUp {
        states: Some(action::all_states_of(follow.when)),
        task: Box::new(follow_request(follow)),
        with_result: follow.with_result,
        in_tree: follow.in_tree,
    };
    then.iter().map(follow).collect()
}

/// Returns the request that registers a task as it was given.
pub(super) fn request(task: &TaskDraft) -> TaskRequest {
    let then = given(&task.then);
    TaskRequest {
        then: (!then.is_empty()).then_some(then),
        ..task_request(task)
    }
}

/// Returns the task of a follow-up as it would be registered.
fn follow_request(follow: &FollowUp<TaskDraft>) -> TaskRequest {
    let mut request = request(&follow.task);
    match follow.start {
        FollowStart::After(Duration::ZERO) => {}
        FollowStart::After(wait) => request.delay = Some(DurationText::readable(wait)),
        FollowStart::At(at) => request.start_time = Some(at.into()),
    }
    request
}

/// Writes the follow-ups of a task. Each that was registered has its id. Payloads are part of the full view.
pub(super) fn shown(task: &TaskView, view: View) -> Vec<FollowUpResponse> {
    let run = end_of(task).map(|(state, end)| End::Run(state, end));
    let ends = [run, task.tree.map(End::Tree)];
    let shown = |(place, follow): (usize, &FollowUp<Spec>)| {
        let mut ends = ends.into_iter().flatten();
        let is_due = |end: &End| follow.when.has(*end, task.run_state.unwrap_or(State::New));
        // A follow-up of a root in its own tree is named by the time of the cancel, which its row has not.
        let is_shown = |end: &End| {
            let of_root = matches!(end, End::Tree(_)) && task.spec.parent().is_none();
            !(follow.in_tree && of_root)
        };
        let end = ends.find(is_due).filter(is_shown);
        let id = end.map(|end| follow_id(task.id, task.generation, end, (place, follow)));
        let mut draft = follow.clone().map(TaskDraft::from);
        if view == View::Basic {
            hide(&mut draft.task);
        }
        let mut given = given(std::slice::from_ref(&draft));
        let given = given.pop().unwrap_or_default();
        FollowUpResponse::new(given, id.map(|id| id.to_string()))
    };
    let then = task.spec.then.iter().enumerate();
    then.map(shown).collect()
}

/// Takes payloads out, and what a view without them does not show.
fn hide(task: &mut TaskDraft) {
    if let Body::Inline(content) = &mut task.body {
        let labels = std::mem::take(&mut content.labels);
        *content = Content {
            labels,
            content_type: JSON.to_owned(),
            ..Content::default()
        };
    }
    task.actions
        .iter_mut()
        .for_each(|actions| actions.hide_payloads());
    for follow in &mut task.then {
        hide(&mut follow.task);
    }
}

/// Writes the task that a task with this content follows, if it is a follow-up.
pub(super) fn previous_of(content: &Content) -> Option<PreviousResponse> {
    content.previous.as_deref().map(previous)
}

fn previous(previous: &Previous) -> PreviousResponse {
    let Previous {
        task,
        state,
        tree,
        result,
        error,
    } = previous;
    let mut response = PreviousResponse::new(Parts {
        id: task.to_string(),
        state: state_of(*state),
        tree_state: tree.map(tree_outcome),
        error: error.clone(),
    });
    let Some(result) = result else {
        return response;
    };
    let content_type = &result.content_type;
    response.result_content_type = (!content_type.is_empty()).then(|| content_type.clone());
    let Some(bytes) = result.bytes() else {
        response.result_bytes = result.apart().map(|(_, bytes)| bytes);
        return response;
    };
    let is_json = result.content_type.is_empty() || content::is_json(&result.content_type);
    response.result = is_json.then(|| content::raw(bytes)).flatten();
    if response.result.is_none() {
        response.result_base64 = Some(content::to_base64(bytes));
    }
    response
}

fn state_of(state: State) -> TaskState {
    match state {
        State::Succeeded => VisibleState::Succeeded,
        State::Failed => VisibleState::Failed,
        State::Cancelled => VisibleState::Cancelled,
        State::Expired => VisibleState::Expired,
        State::Dead => VisibleState::Dead,
        // Only a task that has ended is followed.
        State::New | State::Claimed | State::Retrying => VisibleState::Scheduled,
    }
    .into()
}
