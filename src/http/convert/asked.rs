//! This conversion reads for registration what a request asks about repetitions: its own id, and its marks.
//!
//! A request that asks nothing is passed on as it is.

use xxhash_rust::xxh3::xxh3_128;

use super::{
    chain::chained,
    family, join,
    new_task::Context,
    violations::{Violations, checked_name},
};
use crate::{
    api::{
        task_request::{OnConflict, TaskRequest},
        text::{InstantText, shorten},
        time,
    },
    flow::{
        base::api::NewTask,
        life::{
            asked::{AskedTask, RequestMark},
            register_tree::{self, NewTree},
        },
    },
    http::error::{Code, Error},
    limits::IDEMPOTENCY_KEY_CHARS_MAX,
    model::{client_id, ids::TaskId, key, wheel::Shape},
};

/// A registration that was read.
#[derive(Debug)]
pub enum Read {
    /// It asks nothing about repetitions.
    Plain(NewTask),
    /// It does.
    Asked(AskedTask),
    /// It comes with tasks below it.
    Tree(Box<NewTree>),
}

impl Read {
    /// Returns how many tasks it registers.
    #[must_use]
    pub fn tasks(&self) -> usize {
        match self {
            Self::Plain(_) | Self::Asked(_) => 1,
            Self::Tree(tree) => 1 + register_tree::count(&tree.children),
        }
    }

    /// Returns the id that its client made, if there is one.
    #[must_use]
    pub const fn own_id(&self) -> Option<TaskId> {
        match self {
            Self::Plain(_) => None,
            Self::Asked(asked) => asked.id,
            Self::Tree(tree) => tree.root.id,
        }
    }

    /// Refuses a tree among the items of a batch: a request registers so many tasks at most.
    ///
    /// # Errors
    /// It is a tree.
    pub(in crate::http) fn single(self) -> Result<Self, Error> {
        match self {
            Self::Plain(_) | Self::Asked(_) => Ok(self),
            Self::Tree(_) => {
                let detail = "a tree has a request of its own: send it to POST /v1/tasks, or leave the list empty and add its tasks with `parent`";
                Err(Error::field(Code::InvalidRequest, "/children", detail))
            }
        }
    }
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
    let after = join::take(&mut request, id.as_deref(), context.now)?;
    let family = family::Asked::take(&mut request)?;
    let (name, on_conflict) = key_of(&mut request)?;
    // Only an id is compared with it.
    let start_time = id.as_ref().and_then(|_| request.start_time.clone());
    let mut task = chained(request, context)?;
    family.place(&mut task.draft, false)?;
    task.draft.after = after.map(Box::new);
    let children = family.below(context)?;
    if id.is_none() && key.is_none() && name.is_none() && children.is_empty() {
        return Ok(Read::Plain(task));
    }
    task.draft.key = name;
    let id = id.map(|text| client_id(&text, start_time.as_ref(), &task, context, shape));
    let hash = || xxh3_128(text);
    let mut asked = AskedTask {
        task,
        id: id.transpose()?,
        request: key.map(|key| RequestMark { key, hash: hash() }),
        on_conflict,
    };
    if let Some(id) = asked.id {
        // The task starts where its id says, also where that has passed: a repetition must find the same task.
        asked.task.start = id.first_start();
        asked.task.draft.asked_start = None;
    }
    if children.is_empty() {
        return Ok(Read::Asked(asked));
    }
    let root = asked;
    Ok(Read::Tree(Box::new(NewTree { root, children })))
}

/// Reads the key of a task, and the wish for the case that it is taken.
fn key_of(request: &mut TaskRequest) -> Result<(Option<String>, key::OnConflict), Error> {
    let (name, wish) = (request.key.take(), request.on_conflict.take());
    let Some(name) = name else {
        return match wish {
            None => Ok((None, key::OnConflict::default())),
            Some(_) => Err(Error::field(
                Code::InvalidRequest,
                "/on_conflict",
                "needs a `key`: leave it out",
            )),
        };
    };
    let unusable = |pointer: &str, detail: &str| Error::field(Code::UnusableKey, pointer, detail);
    if request.callback.is_none() && request.kafka.is_some() {
        let detail =
            "a `kafka` task has no key: nothing tells whether it is live; give the task a callback";
        return Err(unusable("/key", detail));
    }
    let wish = match wish {
        None | Some(OnConflict::Reject) => key::OnConflict::Reject,
        Some(OnConflict::Ignore) => key::OnConflict::Ignore,
        Some(OnConflict::Replace) => key::OnConflict::Replace,
    };
    let name =
        checked_name(name).map_err(|detail| Error::field(Code::InvalidRequest, "/key", detail))?;
    Ok((Some(name), wish))
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
pub(in crate::http) fn mark(
    field: Option<String>,
    header: Option<String>,
) -> Result<Option<String>, Error> {
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
