//! This conversion reads for registration the place of a task in a tree, and the tree below it.

use std::time::Duration;

use super::{
    action,
    chain::{self, chained},
    join,
    new_task::Context,
};
use crate::{
    api::{
        problem::FieldError,
        task_request::TaskRequest,
        text::{DurationText, shorten},
        time,
    },
    flow::life::register_tree::{ChildStart, NewChild},
    http::error::{Code, Error},
    limits::{CHILDREN_WITHIN_MAX, TREE_LEVELS_MAX, TREE_TASKS_MAX},
    model::{draft::TaskDraft, family::Kin, ids::TaskId},
};

/// The fields of a request that are about trees.
#[derive(Debug, Default)]
pub(super) struct Asked {
    kin: Option<Kin>,
    children: Vec<TaskRequest>,
}

impl Asked {
    /// Takes the fields out of a request.
    ///
    /// # Errors
    /// They do not go with its other fields.
    pub(super) fn take(request: &mut TaskRequest) -> Result<Self, Error> {
        if request.after_parent && request.parent.is_none() {
            let detail = "needs a `parent`: give one, or register the task in `children`";
            return Err(Error::field(Code::UnusableParent, "/after_parent", detail));
        }
        if request.children_complete && request.parent.is_none() {
            let detail = "needs a `parent`: the last child of a tree says it";
            return Err(Error::field(
                Code::InvalidRequest,
                "/children_complete",
                detail,
            ));
        }
        if request.parent.is_none() && request.children.is_none() {
            return within(request, false).map(|_| Self::default());
        }
        let pointer = match request.parent {
            Some(_) => "/parent",
            None => "/children",
        };
        Self::take_as(request, pointer)
    }

    /// Takes the fields out of a request that is in a tree, as `pointer` says.
    fn take_as(request: &mut TaskRequest, pointer: &str) -> Result<Self, Error> {
        let (parent, children) = (request.parent.take(), request.children.take());
        let after_parent = std::mem::take(&mut request.after_parent);
        let held = within(request, children.is_some())?;
        if request.callback.is_none() && request.http.is_none() && request.kafka.is_some() {
            let detail = "a `kafka` task is in no tree: nothing tells when it has ended; give the task a callback";
            return Err(Error::field(Code::UnusableParent, pointer, detail));
        }
        if request.key.is_some() && parent.is_some() {
            return Err(keyed_child("/key"));
        }
        let kin = Kin {
            parent: parent.map(|text| parent_id(&text)).transpose()?,
            is_parent: children.is_some(),
            after_parent,
            // The service sets it.
            undoes: false,
            children_within: held,
        };
        Ok(Self {
            kin: Some(kin),
            children: children.unwrap_or_default(),
        })
    }

    /// Sets the place of a task in a tree; `below` says that its parent is registered with it.
    ///
    /// # Errors
    /// It has actions or follow-ups at the end of a tree that it does not have.
    pub(super) fn place(&self, draft: &mut TaskDraft, below: bool) -> Result<(), Error> {
        draft.kin = self.kin.map(Box::new);
        action::check_kin(draft)?;
        chain::check_kin(draft, below)
    }

    /// Converts the tree below a task.
    ///
    /// # Errors
    /// The mistakes of its first bad task, or its size.
    pub(super) fn below(self, context: &Context) -> Result<Vec<NewChild>, Error> {
        let mut left = TREE_TASKS_MAX - 1;
        all(self.children, context, "", 2, &mut left)
    }
}

/// Reads how long a tree is held open for children to come.
fn within(request: &mut TaskRequest, has_tree: bool) -> Result<Option<Duration>, Error> {
    let Some(text) = request.children_within.take() else {
        return Ok(None);
    };
    let wrong = |detail: String| Error::field(Code::InvalidRequest, "/children_within", detail);
    if !has_tree {
        return Err(wrong(
            "needs `children`: give an empty list if all are to come later".to_owned(),
        ));
    }
    let within = time::duration(&text, Duration::from_millis(1)).map_err(wrong)?;
    if within > CHILDREN_WITHIN_MAX {
        let most = DurationText::readable(CHILDREN_WITHIN_MAX);
        return Err(wrong(format!("must be at most {}", most.0)));
    }
    Ok(Some(within))
}

/// Returns the parent of a task that says that it is the last child.
pub(in crate::http) fn completed_by(request: &TaskRequest) -> Option<TaskId> {
    let parent = request
        .parent
        .as_ref()
        .filter(|_| request.children_complete)?;
    // One that is no id is refused with the task.
    parent.parse().ok()
}

fn parent_id(text: &str) -> Result<TaskId, Error> {
    let id: Result<TaskId, _> = text.parse();
    let id = id.ok().filter(|id| !id.is_internal());
    id.ok_or_else(|| {
        let detail = format!("`{}` is not the id of a task", shorten(text));
        Error::field(Code::InvalidRequest, "/parent", detail)
    })
}

fn all(
    children: Vec<TaskRequest>,
    context: &Context,
    above: &str,
    level: usize,
    left: &mut usize,
) -> Result<Vec<NewChild>, Error> {
    if !children.is_empty() && level > TREE_LEVELS_MAX {
        let detail = format!(
            "lies more than {TREE_LEVELS_MAX} levels deep; register the tasks below it with `parent`"
        );
        let pointer = format!("{above}/children");
        return Err(Error::field(Code::InvalidRequest, pointer, detail));
    }
    let mut read = Vec::with_capacity(children.len());
    for (place, child) in children.into_iter().enumerate() {
        let at = format!("{above}/children/{place}");
        if *left == 0 {
            let detail = format!(
                "is one of more than {TREE_TASKS_MAX} tasks of one request; register the others with `parent`"
            );
            return Err(Error::field(Code::InvalidRequest, at, detail));
        }
        *left -= 1;
        read.push(one(child, context, &at, level, left)?);
    }
    Ok(read)
}

fn one(
    mut child: TaskRequest,
    context: &Context,
    at: &str,
    level: usize,
    left: &mut usize,
) -> Result<NewChild, Error> {
    let own = [
        ("id", child.id.is_some()),
        ("idempotency_key", child.idempotency_key.is_some()),
        ("parent", child.parent.is_some()),
        ("on_conflict", child.on_conflict.is_some()),
        ("children_complete", child.children_complete),
    ];
    if let Some((field, _)) = own.into_iter().find(|(_, given)| *given) {
        let detail = "cannot be set for a task in `children`: leave it out";
        let pointer = format!("{at}/{field}");
        return Err(Error::field(Code::InvalidRequest, pointer, detail));
    }
    if child.key.is_some() {
        return Err(keyed_child(&format!("{at}/key")));
    }
    let after = join::take(&mut child, None, context.now).map_err(|error| below(error, at))?;
    let asked = Asked::take_as(&mut child, "").map_err(|error| below(error, at))?;
    let start = start(&child);
    let mut task = chained(child, context).map_err(|error| below(error, at))?;
    task.draft.after = after.map(Box::new);
    asked
        .place(&mut task.draft, true)
        .map_err(|error| below(error, at))?;
    Ok(NewChild {
        start,
        draft: task.draft,
        children: all(asked.children, context, at, level + 1, left)?,
    })
}

/// Refuses the key of a child. Its row is under its parent before its key could be asked for, and a check of the parent may enter
/// it from there, whoever has the key.
fn keyed_child(pointer: &str) -> Error {
    let detail = "a child has no `key`: it is in its tree before it could be asked whether another task has the key; leave it out, and name the task by its `id`";
    Error::field(Code::UnusableParent, pointer, detail)
}

/// Reads when a task starts, counted from its root. Mistakes are found by the conversion of the task.
fn start(child: &TaskRequest) -> ChildStart {
    let zero = Duration::ZERO;
    if let Some(at) = child
        .start_time
        .as_ref()
        .and_then(|text| time::instant(text).ok())
    {
        return ChildStart::At(at);
    }
    let delay = child.delay.as_ref();
    let delay = delay.and_then(|text| time::duration(text, zero).ok());
    ChildStart::After(delay.unwrap_or(zero))
}

/// The pointers of a task's mistakes begin in its tree.
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
