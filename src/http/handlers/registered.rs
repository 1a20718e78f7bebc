//! The registration answers turn outcomes of registrations that may be repeated into answers for the task handlers.

use std::collections::{HashMap, hash_map::Entry};

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Serialize, Serializer, ser};
use serde_json::value::RawValue;

use crate::{
    api::{
        task_response::{BatchCreateResult, RegistrationOutcome, TaskResponse},
        worker::View,
    },
    flow::{
        base::api::{Fault, NewTask, TaskView},
        life::{
            asked::{Answer, AskedTask},
            register_tree::NewTree,
        },
    },
    http::{
        Api, answer,
        convert::{asked::Read, task_view::task_response},
        error::{Code, Error},
        headers,
    },
    model::ids::TaskId,
};

/// The result of one registration.
#[derive(Debug)]
pub(in crate::http) enum Registration {
    /// Of one that asked nothing about repetitions.
    Plain(Result<Box<TaskView>, Fault>),
    /// Of one that did.
    Asked(Result<Answer, Fault>),
}

/// Registers one task. One that asks nothing goes a way of its own, since most do: the future of all ways together is large, and
/// is moved for each request.
///
/// # Errors
/// There is no answer, which is a bug.
pub(in crate::http) async fn register_one(
    api: &Api,
    task: Read,
    last_of: Option<TaskId>,
) -> Result<Registration, Error> {
    let registered = match task {
        task if last_of.is_some() => Box::pin(register_last(api, vec![(task, last_of)]))
            .await
            .pop(),
        Read::Plain(task) => {
            let registered = Box::pin(api.service.register(vec![task])).await.pop();
            registered.map(|result| Registration::Plain(result.map(Box::new)))
        }
        task @ (Read::Asked(_) | Read::Tree(_)) => Box::pin(register(api, vec![task])).await.pop(),
    };
    registered.ok_or_else(|| Error::new(Code::Internal, "the service gave no answer"))
}

/// Registers tasks, each with the parent of which it says that it is the last child; one result per task, in order. The parents
/// take note of it behind all of the tasks. Where one cannot, its last children are answered as registrations without an answer.
pub(in crate::http) async fn register_last(
    api: &Api,
    tasks: Vec<(Read, Option<TaskId>)>,
) -> Vec<Registration> {
    let (tasks, last): (Vec<Read>, Vec<Option<TaskId>>) = tasks.into_iter().unzip();
    let mut registered = register(api, tasks).await;
    let mut parents: HashMap<TaskId, Result<(), Fault>> = HashMap::new();
    for (registration, parent) in registered.iter_mut().zip(last) {
        let Some(parent) = parent.filter(|_| registration.is_registered()) else {
            continue;
        };
        let noted = match parents.entry(parent) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let noted = api.service.trees().complete(parent, None).await;
                // A parent that is not held open ends as all others do.
                new.insert(noted.map(drop))
            }
        };
        if let Err(fault) = noted {
            registration.fail(fault.clone());
        }
    }
    registered
}

/// Registers tasks; one result per task, in order.
pub(in crate::http) async fn register(api: &Api, tasks: Vec<Read>) -> Vec<Registration> {
    let Ways {
        kinds,
        plain,
        asked,
        trees,
    } = Ways::of(tasks);
    let plain = async {
        if plain.is_empty() {
            Vec::new()
        } else {
            Box::pin(api.service.register(plain)).await
        }
    };
    let asked = async {
        if asked.is_empty() {
            Vec::new()
        } else {
            Box::pin(api.service.register_asked(asked)).await
        }
    };
    let trees = async {
        let mut planted = Vec::with_capacity(trees.len());
        for tree in trees {
            planted.push(Box::pin(api.service.register_tree(tree)).await);
        }
        planted
    };
    let (plain, asked, trees) = tokio::join!(plain, asked, trees);
    let (mut plain, mut asked) = (plain.into_iter(), asked.into_iter());
    let mut trees = trees.into_iter();
    let result = |kind| match kind {
        Kind::Plain => {
            let result = plain.next().unwrap_or_else(|| Err(missing()));
            Registration::Plain(result.map(Box::new))
        }
        Kind::PlainTogether => {
            let result = asked.next().unwrap_or_else(|| Err(missing()));
            Registration::Plain(result.and_then(created))
        }
        Kind::Asked => Registration::Asked(asked.next().unwrap_or_else(|| Err(missing()))),
        Kind::Tree => Registration::Asked(trees.next().unwrap_or_else(|| Err(missing()))),
    };
    kinds.into_iter().map(result).collect()
}

/// The tasks of a request by the ways that they go, and the way of each.
#[derive(Debug, Default)]
struct Ways {
    kinds: Vec<Kind>,
    plain: Vec<NewTask>,
    asked: Vec<AskedTask>,
    trees: Vec<NewTree>,
}

impl Ways {
    fn of(tasks: Vec<Read>) -> Self {
        // Tasks of sequences go one way together, so that they keep the order of the request.
        let together = tasks.iter().any(is_asked_in_sequence);
        let mut ways = Self::default();
        for task in tasks {
            ways.kinds.push(match task {
                Read::Plain(task) if together && task.draft.ordering_key.is_some() => {
                    ways.asked.push(AskedTask::plain(task));
                    Kind::PlainTogether
                }
                Read::Plain(task) => {
                    ways.plain.push(task);
                    Kind::Plain
                }
                Read::Asked(task) => {
                    ways.asked.push(task);
                    Kind::Asked
                }
                Read::Tree(tree) => {
                    ways.trees.push(*tree);
                    Kind::Tree
                }
            });
        }
        ways
    }
}

fn is_asked_in_sequence(task: &Read) -> bool {
    match task {
        Read::Asked(asked) => asked.task.draft.ordering_key.is_some(),
        Read::Plain(_) | Read::Tree(_) => false,
    }
}

/// Returns the task of a registration that asked nothing about repetitions: it can only be new.
fn created(answer: Answer) -> Result<Box<TaskView>, Fault> {
    match answer {
        Answer::Created(task) => Ok(task),
        Answer::Existing(_) | Answer::Replaced(_) | Answer::KeyTaken(_) | Answer::OtherRequest => {
            Err(missing())
        }
    }
}

fn missing() -> Fault {
    let reason = "the service gave too few answers".to_owned();
    Fault::Unknown { reason }
}

/// The way that a registration goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    /// It asked nothing, and goes with those that did.
    PlainTogether,
    Asked,
    Tree,
}

impl Registration {
    /// Returns the outcome and the task.
    fn task(self) -> Result<(RegistrationOutcome, Box<TaskView>), Error> {
        match self {
            Self::Plain(result) => match result {
                Ok(task) => Ok((RegistrationOutcome::Created, task)),
                Err(fault) => Err(Error::of_registration(fault)),
            },
            Self::Asked(result) => match result {
                Ok(Answer::Created(task)) => Ok((RegistrationOutcome::Created, task)),
                Ok(Answer::Existing(task)) => Ok((RegistrationOutcome::Existing, task)),
                Ok(Answer::Replaced(task)) => Ok((RegistrationOutcome::Replaced, task)),
                Ok(Answer::KeyTaken(task)) => Err(Error::key_taken(&task)),
                Ok(Answer::OtherRequest) => Err(Error::new(
                    Code::IdempotencyKeyReused,
                    "the key was used within the last 24 h for a request with another body",
                )),
                // It may be repeated as it is.
                Err(fault) => Err(Error::from(fault)),
            },
        }
    }

    /// Makes of it a registration that has failed: whether the task stands is to be found out by a repetition.
    fn fail(&mut self, fault: Fault) {
        match self {
            Self::Plain(result) => {
                let reason = fault.to_string();
                *result = Err(Fault::Unknown { reason });
            }
            Self::Asked(result) => *result = Err(fault),
        }
    }

    /// Tells whether a task is registered.
    pub(in crate::http) const fn is_registered(&self) -> bool {
        matches!(
            self,
            Self::Plain(Ok(_))
                | Self::Asked(Ok(Answer::Created(_)
                    | Answer::Existing(_)
                    | Answer::Replaced(_)))
        )
    }
}

/// Answers one registration.
pub(in crate::http) fn respond(registration: Registration) -> Result<Response, Error> {
    let (outcome, task) = registration.task()?;
    let status = match outcome {
        RegistrationOutcome::Existing => StatusCode::OK,
        RegistrationOutcome::Created | RegistrationOutcome::Replaced => StatusCode::CREATED,
    };
    let location = format!("/v1/tasks/{}", task.id);
    Ok((
        status,
        [
            (header::LOCATION, location),
            (header::ETAG, headers::etag(&task)),
        ],
        answer::json(&TaskResponse {
            outcome: Some(outcome),
            ..task_response(&task, View::Basic)
        }),
    )
        .into_response())
}

/// The result of one item of a batch as it is sent. The value itself is some fifteen hundred bytes large, so a list of a
/// thousand of them is not kept.
#[derive(Debug)]
pub(in crate::http) struct Written {
    /// The text of a [`BatchCreateResult`], or why it cannot be written, which is a bug.
    text: Result<Box<RawValue>, serde_json::Error>,
    /// The task is registered.
    pub(in crate::http) is_registered: bool,
}

impl Written {
    fn of(result: &BatchCreateResult) -> Self {
        Self {
            text: serde_json::value::to_raw_value(result),
            is_registered: result.task.is_some(),
        }
    }
}

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.text {
            Ok(text) => text.serialize(serializer),
            Err(error) => Err(ser::Error::custom(error)),
        }
    }
}

impl From<Registration> for Written {
    fn from(registration: Registration) -> Self {
        Self::of(&match registration.task() {
            Ok((outcome, task)) => BatchCreateResult {
                outcome: Some(outcome),
                task: Some(task_response(&task, View::Basic)),
                error: None,
            },
            Err(error) => error.into(),
        })
    }
}

impl From<Error> for Written {
    fn from(error: Error) -> Self {
        Self::of(&error.into())
    }
}

impl From<Error> for BatchCreateResult {
    fn from(error: Error) -> Self {
        Self {
            error: Some(error.problem_of_item()),
            ..Self::default()
        }
    }
}
