//! The actions make the internal tasks that do the actions and checks of another task ([`crate::model::action`]).
//!
//! The end steps fill the templates of an e-mail, and of the payload of a request. So it says how the task ended also when it is
//! redriven before it goes out, and is the same at each attempt. A check reads its task when it is done: its
//! answer about ends depends on the end of the task alone.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::notices::{Payload as Ended, To};
use crate::{
    flow::base::{
        api::{Fault, TaskView, VisibleState},
        context::Context,
        read::find::view_of_row,
        rows::content,
    },
    model::{
        action::{Action, Deed, End},
        action_task::{self, CALLBACK, action_id, check_id},
        check_states::{Found, Live},
        dead_letter,
        email::Email,
        holder::Holder,
        http_call::HttpCall,
        ids::TaskId,
        internal_task::{RETENTION, internal_task},
        notice::Notice,
        notify::Destination,
        row::{State, TaskRow},
        task::{Content, Spec},
        template::{Fact, value_at},
        time::{Millis, rfc3339},
    },
};

/// The work of an internal task, as its payload has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Payload {
    Call(Ended),
    Tree(Ended),
    Send {
        task: Uuid,
        end_ms: i64,
        to: To,
        body: String,
    },
    Email {
        task: Uuid,
        end_ms: i64,
        to: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cc: Vec<String>,
        subject: String,
        body: String,
    },
    Check {
        task: Uuid,
        place: usize,
    },
}

/// The work of an internal task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// It tells an end by a request.
    Call(Notice),
    /// It sends a request with a payload of its own.
    Send {
        /// The task that ended.
        task: TaskId,
        /// When it ended.
        end: Millis,
        /// The request.
        call: Box<HttpCall>,
        /// The payload, filled.
        body: String,
    },
    /// It sends an e-mail.
    Email {
        /// The task that ended.
        task: TaskId,
        /// When it ended.
        end: Millis,
        /// The e-mail, filled.
        email: Email,
    },
    /// It asks the question of the check of this place.
    Check {
        /// The task.
        task: TaskId,
        /// The place.
        place: usize,
    },
}

/// Returns the tasks that do what an end of a task asks for.
///
/// # Errors
/// When a content that an e-mail or a payload tells cannot be read.
pub(super) async fn tasks(ctx: &Context, row: &TaskRow, end: End) -> Result<Vec<Holder>, Fault> {
    let due: Vec<(usize, &Action)> = action_task::due(row, end).collect();
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let view = as_told(view_of_row(row.clone(), None, ctx.now()), end);
    let content = if due.iter().any(|(_, action)| action.deed.tells_content()) {
        content(ctx, row).await?
    } else {
        None
    };
    let facts = Facts::of(&view, content.as_ref());
    let retention = dead_letter::kept(row).max(RETENTION);
    let task = |(place, action): (usize, &Action)| {
        let payload = match &action.deed {
            Deed::Http(call, None) => told(row, end, Destination::Http(call.clone())),
            Deed::Http(call, Some(own)) => Payload::Send {
                task: row.id.uuid(),
                end_ms: end.at().0,
                to: To::of(&Destination::Http(call.clone())),
                body: own.filled(|fact| facts.value(fact)),
            },
            Deed::Email(email) => {
                let Email {
                    to,
                    cc,
                    subject,
                    body,
                } = email.filled(|fact| facts.value(fact));
                Payload::Email {
                    task: row.id.uuid(),
                    end_ms: end.at().0,
                    to,
                    cc,
                    subject,
                    body,
                }
            }
        };
        let id = action_id(row.id, row.generation_at(end), end, place);
        internal_task(id, CALLBACK, retention, write(&payload))
    };
    Ok(due.into_iter().map(task).collect())
}

/// Returns a task as it is told: at a claim, whatever has become of it since.
fn as_told(view: TaskView, end: End) -> TaskView {
    match end {
        End::Run(State::Claimed, _) => TaskView {
            run_state: None,
            state: VisibleState::Claimed,
            ..view
        },
        End::Run(..) | End::Tree(_) => view,
    }
}

/// Returns the payload of a task that tells an end by a request.
fn told(row: &TaskRow, end: End, to: Destination) -> Payload {
    let ended = Ended::of(&Notice::new(row, end, to));
    match end {
        End::Run(..) => Payload::Call(ended),
        End::Tree(_) => Payload::Tree(ended),
    }
}

/// Returns the tasks that check another one. How a check went can be read as long as its task, unless that has died and is kept
/// longer for that reason.
pub(in crate::flow) fn check_tasks(task: TaskId, spec: &Spec) -> impl Iterator<Item = Holder> {
    let checks = spec.actions.iter().flat_map(|actions| &actions.checks);
    let retention = spec.retention.max(RETENTION);
    checks.enumerate().map(move |(place, check)| {
        let payload = Payload::Check {
            task: task.uuid(),
            place,
        };
        let id = check_id(task, check, place);
        internal_task(id, CALLBACK, retention, write(&payload))
    })
}

/// Reads the payload of a task that does actions and checks.
///
/// # Errors
/// A text about what is wrong with it.
pub fn read(payload: &[u8]) -> Result<Work, String> {
    let id = |uuid| TaskId::from_uuid(uuid).ok_or("its task is no id of a task");
    let payload = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    Ok(match payload {
        Payload::Call(ended) | Payload::Tree(ended) => Work::Call(ended.notice()?),
        Payload::Send {
            task,
            end_ms,
            to,
            body,
        } => match to.destination()? {
            Destination::Http(call) => Work::Send {
                task: id(task)?,
                end: Millis(end_ms),
                call,
                body,
            },
            Destination::Kafka { .. } => return Err("it has no URL".to_owned()),
        },
        Payload::Email {
            task,
            end_ms,
            to,
            cc,
            subject,
            body,
        } => Work::Email {
            task: id(task)?,
            end: Millis(end_ms),
            email: Email {
                to,
                cc,
                subject,
                body,
            },
        },
        Payload::Check { task, place } => Work::Check {
            task: id(task)?,
            place,
        },
    })
}

fn write(payload: &Payload) -> Bytes {
    // Texts, numbers and a uuid can always be written.
    serde_json::to_vec(payload).unwrap_or_default().into()
}

/// Reads the content of a task, which may be kept apart.
async fn content(ctx: &Context, row: &TaskRow) -> Result<Option<Content>, Fault> {
    let Some(bytes) = row.detail.spec.bytes_apart() else {
        return Ok(row.detail.spec.content().cloned());
    };
    // Many tasks may end at once, and each content is in memory for this.
    let _room = ctx.contents.take_to_end(2 * bytes).await;
    content::read(ctx, row.id).await
}

/// Returns how the own run of a task has ended, and when; none when it has not.
#[must_use]
pub fn end_of(view: &TaskView) -> Option<(State, Millis)> {
    view.run_state.zip(view.end_time)
}

/// Returns a task as a check finds it.
#[must_use]
pub fn found(view: &TaskView) -> Found {
    Found {
        run: end_of(view),
        tree: view.tree,
        live: match view.state {
            VisibleState::Scheduled => Some(Live::Scheduled),
            VisibleState::Enqueued => Some(Live::Enqueued),
            VisibleState::Claimed => Some(Live::Claimed),
            VisibleState::Processing => Some(Live::Processing),
            VisibleState::Retrying => Some(Live::Retrying),
            VisibleState::Waiting => Some(Live::Waiting),
            VisibleState::WaitingForChildren => Some(Live::WaitingForChildren),
            VisibleState::Succeeded
            | VisibleState::Failed
            | VisibleState::Cancelled
            | VisibleState::Expired
            | VisibleState::Dead
            | VisibleState::Published => None,
        },
    }
}

/// Returns the state of the own run of a task: its tree may go on.
const fn run_state(view: &TaskView) -> VisibleState {
    match view.run_state {
        Some(State::Succeeded) => VisibleState::Succeeded,
        Some(State::Failed) => VisibleState::Failed,
        Some(State::Cancelled) => VisibleState::Cancelled,
        Some(State::Expired) => VisibleState::Expired,
        Some(State::Dead) => VisibleState::Dead,
        Some(State::New | State::Claimed | State::Retrying) | None => view.state,
    }
}

/// Returns where the tree of a task stands; none for a task that cannot have one.
fn tree_state(view: &TaskView) -> Option<&'static str> {
    match view.tree {
        Some(tree) => Some(tree.outcome.name()),
        None => view.spec.is_parent().then_some("waiting_for_children"),
    }
}

/// The facts about a task that templates name.
#[derive(Debug)]
pub struct Facts<'a> {
    view: &'a TaskView,
    content: Option<&'a Content>,
    payload: Option<serde_json::Value>,
    result: Option<serde_json::Value>,
}

impl<'a> Facts<'a> {
    /// Collects them.
    #[must_use]
    pub fn of(view: &'a TaskView, content: Option<&'a Content>) -> Self {
        let json = |bytes: &Bytes| serde_json::from_slice(bytes).ok();
        let result = view.result.as_ref().and_then(|result| result.bytes());
        Self {
            view,
            content,
            payload: content.and_then(|content| json(&content.payload)),
            result: result.and_then(json),
        }
    }

    /// Returns the value of a fact; none when the task has none.
    #[must_use]
    pub fn value(&self, fact: &Fact) -> Option<String> {
        let Self { view, .. } = self;
        let spec = &view.spec;
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        match fact {
            Fact::Id => Some(view.id.to_string()),
            Fact::State => some(run_state(view).name()),
            Fact::TreeState => tree_state(view).and_then(some),
            Fact::Callback => spec.callback().and_then(some),
            Fact::Collection => some(&spec.collection),
            Fact::Key => spec.key.clone(),
            Fact::Attempt => Some(view.attempt.to_string()),
            Fact::Error => view.error.clone(),
            Fact::Schedule => spec.scheduled.as_ref().map(|run| run.schedule.clone()),
            Fact::StartTime => Some(rfc3339(view.start)),
            Fact::EndTime => view.end_time.map(rfc3339),
            Fact::Label(name) => {
                let mut labels = self.content?.labels.iter();
                labels
                    .find(|(label, _)| label == name)
                    .map(|(_, value)| value.clone())
            }
            Fact::Payload(steps) => value_at(self.payload.as_ref()?, steps),
            Fact::Result(steps) => value_at(self.result.as_ref()?, steps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        action::{Actions, Check, CheckTime},
        fixtures,
        http_call::Method,
        kin::{TreeEnd, TreeOutcome},
        notify::EndStates,
    };

    const FAULTED: TreeEnd = TreeEnd {
        outcome: TreeOutcome::Faulted,
        at: Millis(7),
    };

    fn works() -> Vec<Payload> {
        let task = fixtures::id().uuid();
        let notice = Notice {
            task: fixtures::id(),
            generation: 3,
            end: End::Run(State::Dead, Millis(7)),
            attempt: 2,
            to: Destination::Http(Box::new(HttpCall {
                url: "http://a.example".to_owned(),
                method: Method::Post,
                headers: Vec::new(),
                timeout: None,
                message_id: None,
            })),
        };
        let to = To::of(&notice.to);
        let of_tree = Notice {
            end: End::Tree(FAULTED),
            ..notice.clone()
        };
        vec![
            Payload::Call(Ended::of(&notice)),
            Payload::Tree(Ended::of(&of_tree)),
            Payload::Email {
                task,
                end_ms: 7,
                to: vec!["ada@example.org".to_owned()],
                cc: Vec::new(),
                subject: "s".to_owned(),
                body: "b".to_owned(),
            },
            Payload::Check { task, place: 1 },
            Payload::Send {
                task,
                end_ms: 7,
                to,
                body: "[7]".to_owned(),
            },
        ]
    }

    #[test]
    fn works_survive_their_payloads() {
        let read: Vec<Work> = works()
            .iter()
            .map(|work| read(&write(work)).unwrap())
            .collect();
        let task = fixtures::id();
        assert!(matches!(&read[0], Work::Call(notice) if notice.generation == 3));
        let email = Email {
            to: vec!["ada@example.org".to_owned()],
            cc: Vec::new(),
            subject: "s".to_owned(),
            body: "b".to_owned(),
        };
        let at = Millis(7);
        assert!(matches!(&read[1], Work::Call(notice) if notice.end == End::Tree(FAULTED)));
        assert_eq!(
            read[2],
            Work::Email {
                task,
                end: at,
                email
            }
        );
        assert_eq!(read[3], Work::Check { task, place: 1 });
        let Work::Send { call, body, .. } = &read[4] else {
            panic!("{:?}", read[4]);
        };
        assert_eq!((&*call.url, &**body), ("http://a.example", "[7]"));
        assert!(super::read(b"{}").is_err());
    }

    #[test]
    fn a_check_is_kept_as_long_as_its_task() {
        let check = Check {
            at: CheckTime::At(Millis(7)),
            states: EndStates::ALL.into(),
            then: None,
            otherwise: None,
        };
        let actions = Actions {
            checks: vec![check],
            ..Actions::default()
        };
        for (retention, kept) in [(RETENTION / 2, RETENTION), (RETENTION * 60, RETENTION * 60)] {
            let spec = Spec {
                actions: Some(Box::new(actions.clone())),
                retention,
                ..fixtures::spec()
            };
            let kept_for: Vec<_> = check_tasks(fixtures::id(), &spec)
                .map(|task| task.spec.retention)
                .collect();
            assert_eq!(kept_for, [kept]);
        }
    }

    /// Stores keep this. A field that is not there has its default.
    #[test]
    fn the_payload_of_the_end_of_a_tree_stays_readable() {
        let uuid = fixtures::id().uuid();
        let to =
            r#"{"http":{"url":"http://a.example","method":"POST","headers":[],"timeout_ms":null}}"#;
        let text = format!(
            r#"{{"tree":{{"task":"{uuid}","generation":3,"tree":1,"end_ms":7,"to":{to}}}}}"#
        );
        let work = read(text.as_bytes()).unwrap();
        let is_end = |notice: &Notice| notice.end == End::Tree(FAULTED) && notice.generation == 3;
        assert!(
            matches!(&work, Work::Call(notice) if is_end(notice)),
            "{work:?}"
        );
    }
}
