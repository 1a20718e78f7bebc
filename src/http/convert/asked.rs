//! This conversion reads for registration what a request asks about repetitions: its own id, and its marks.
//!
//! A request that asks nothing is passed on as it is.

use xxhash_rust::xxh3::xxh3_128;

use super::{
    new_task::{Context, new_task},
    violations::Violations,
};
use crate::{
    api::{
        task_request::TaskRequest,
        text::{InstantText, shorten},
        time,
    },
    flow::{
        api::NewTask,
        tasks::asked::{AskedTask, RequestMark},
    },
    http::error::{Code, Error},
    limits::IDEMPOTENCY_KEY_CHARS_MAX,
    model::{client_id, ids::TaskId, wheel::Shape},
};

/// A registration that was read.
#[derive(Debug)]
pub enum Read {
    /// It asks nothing about repetitions.
    Plain(NewTask),
    /// It does.
    Asked(AskedTask),
}

/// Converts a request that was sent as `text`, with the `Idempotency-Key` that came beside it.
///
/// # Errors
/// All mistakes of the request, or the first reason why its id cannot be used.
pub fn read(
    mut request: TaskRequest,
    text: &[u8],
    header: Option<String>,
    context: &Context,
    shape: &Shape,
) -> Result<Read, Error> {
    let id = request.id.take();
    let key = mark(request.idempotency_key.take(), header)?;
    let start_time = request.start_time.clone();
    let task = new_task(request, context)?;
    if id.is_none() && key.is_none() {
        return Ok(Read::Plain(task));
    }
    let id = id.map(|text| client_id(&text, start_time.as_ref(), &task, context, shape));
    let hash = || xxh3_128(text);
    let mut asked = AskedTask {
        task,
        id: id.transpose()?,
        request: key.map(|key| RequestMark { key, hash: hash() }),
    };
    if let Some(id) = asked.id {
        // The task starts where its id says, also where that has passed: a repetition must find the same task.
        asked.task.start = id.first_start();
        asked.task.draft.asked_start = None;
    }
    Ok(Read::Asked(asked))
}

/// Reads the id that a client made.
fn client_id(
    text: &str,
    start_time: Option<&InstantText>,
    task: &NewTask,
    context: &Context,
    shape: &Shape,
) -> Result<TaskId, Error> {
    let unusable = |detail: String| Error::field(Code::UnusableId, "/id", detail);
    let id: TaskId = text.parse().map_err(|_| {
        let text = shorten(text);
        unusable(format!(
            "`{text}` is not a UUID of version 8 that carries a start, a wheel and a look step"
        ))
    })?;
    let Some(start) = start_time.and_then(|text| time::instant(text).ok()) else {
        return Err(unusable(
            "a task with an id of its client needs `start_time`, and no `delay`: the start that the id carries"
                .to_owned(),
        ));
    };
    let claim_timeout = task.draft.claim_timeout;
    client_id::check(id, start, claim_timeout, shape, context.now)
        .map_err(|mistake| unusable(mistake.to_string()))?;
    Ok(id)
}

/// Reads the mark of a request, of its body or of its header.
fn mark(field: Option<String>, header: Option<String>) -> Result<Option<String>, Error> {
    let mut violations = Violations::default();
    if field.is_some() && header.is_some() && field != header {
        violations.add(
            "/idempotency_key",
            "differs from the header `Idempotency-Key`: give one of the two",
        );
    }
    let from_body = field.map(|key| violations.take("/idempotency_key", checked(key)));
    violations.finish()?;
    Ok(from_body.flatten().or(header))
}

/// Checks an idempotency key.
///
/// # Errors
/// A text about the mistake.
pub(in crate::http) fn checked(key: String) -> Result<String, String> {
    if !(1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&key.len()) {
        return Err(format!(
            "must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} characters"
        ));
    }
    match key.chars().find(|c| !matches!(c, ' '..='~')) {
        Some(odd) => Err(format!(
            "must consist of printable ASCII characters; found {odd:?}"
        )),
        None => Ok(key),
    }
}
