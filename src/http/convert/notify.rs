//! This conversion reads for the domain where the ends of a task are told, and writes it for clients.

use super::{
    http_call,
    target::{foreign, refuse_own},
    violations::{Violations, name},
};
use crate::{
    api::{
        action::EndState,
        notify::{Notify, NotifyKafka},
        task_response::{TaskState, TreeState},
    },
    http::error::{Code, Error},
    model::{
        draft::TaskDraft,
        kin::TreeOutcome,
        notify::{self, Destination, EndStates, TreeStates},
        row::State,
    },
};

/// The ends of the own run of a task.
const OF_RUN: [EndState; 6] = [
    EndState::Succeeded,
    EndState::Failed,
    EndState::Cancelled,
    EndState::Expired,
    EndState::Dead,
    EndState::Claimed,
];

/// Reads it. Returns none only when a violation was noted.
pub(super) fn read(notify: &Notify, violations: &mut Violations) -> Option<notify::Notify> {
    let ends = match &notify.states {
        None => Some((Some(EndStates::ALL), TreeStates::NONE)),
        Some(states) => violations.take("/notify/states", ends(states)),
    };
    let to = match (&notify.kafka, &notify.http) {
        (Some(NotifyKafka { topic }), None) => {
            let topic = name(topic.clone()).and_then(foreign);
            let topic = violations.take("/notify/kafka/topic", topic)?;
            Destination::Kafka { topic }
        }
        (None, Some(http)) => {
            let call = http_call::read("/notify/http", http, violations)?;
            Destination::Http(Box::new(call))
        }
        (None, None) => {
            violations.add("/notify", "says not where: give `kafka` or `http`");
            return None;
        }
        (Some(_), Some(_)) => {
            violations.add("/notify", "`kafka` and `http` exclude each other: give one");
            return None;
        }
    };
    let (states, tree) = ends?;
    Some(notify::Notify { to, states, tree })
}

/// Reads which ends are told. Those of the own run and of the tree may stand together: each has a message of its own.
fn ends(states: &[EndState]) -> Result<(Option<EndStates>, TreeStates), String> {
    let run = EndStates::of(states.iter().filter_map(|state| of_run(*state)));
    let tree = tree_of(states);
    if run.is_none() && tree.is_empty() {
        return Err(
            "must be some of `succeeded`, `failed`, `cancelled`, `expired`, `dead`, `completed`, `faulted` and `claimed`; leave it out for all ends of the own run"
                .to_owned(),
        );
    }
    Ok((run, tree))
}

/// Reads which ends of the tree are among some: a task, or its tree, may be cancelled.
pub(super) fn tree_of(states: &[EndState]) -> TreeStates {
    TreeStates {
        completed: states.contains(&EndState::Completed),
        faulted: states.contains(&EndState::Faulted),
        cancelled: states.contains(&EndState::Cancelled),
    }
}

/// Refuses a notice of the end of a tree for a task that can have none.
///
/// # Errors
/// [`Code::InvalidRequest`], with the field.
pub(super) fn check_kin(task: &TaskDraft) -> Result<(), Error> {
    let is_parent = task.kin.as_ref().is_some_and(|kin| kin.is_parent);
    let of_tree = |notify: &notify::Notify| notify.tree.completed || notify.tree.faulted;
    if is_parent || !task.notify.as_ref().is_some_and(of_tree) {
        return Ok(());
    }
    let detail = "names ends of the tree, and only a task with `children`, which may be an empty list, has one";
    Err(Error::field(Code::InvalidRequest, "/notify/states", detail))
}

/// Checks that it can be delivered.
///
/// # Errors
/// [`Code::Unsupported`], with the field.
pub(super) fn check(notify: Option<&notify::Notify>, has_kafka: bool) -> Result<(), Error> {
    match notify.map(|notify| &notify.to) {
        Some(Destination::Kafka { .. }) if !has_kafka => Err(Error::field(
            Code::Unsupported,
            "/notify/kafka",
            "this service has no Kafka: start it with --queue kafka --kafka HOST:PORT",
        )),
        Some(Destination::Kafka { .. } | Destination::Http(_)) | None => Ok(()),
    }
}

/// Refuses a topic that Kafka knows as the service's own, which begins with `own`.
///
/// # Errors
/// As of [`refuse_own`].
pub(super) fn check_topic(notify: Option<&notify::Notify>, own: &str) -> Result<(), Error> {
    match notify.map(|notify| &notify.to) {
        Some(Destination::Kafka { topic }) => refuse_own("/notify/kafka/topic", topic, own),
        Some(Destination::Http(_)) | None => Ok(()),
    }
}

/// Returns the state in which a run has this end; none for the end of a tree.
pub(super) const fn of_run(end: EndState) -> Option<State> {
    match end {
        EndState::Succeeded => Some(State::Succeeded),
        EndState::Failed => Some(State::Failed),
        EndState::Cancelled => Some(State::Cancelled),
        EndState::Expired => Some(State::Expired),
        EndState::Dead => Some(State::Dead),
        EndState::Claimed => Some(State::Claimed),
        EndState::Completed | EndState::Faulted => None,
    }
}

/// Writes ends of the own run.
pub(super) fn run_ends(states: EndStates) -> impl Iterator<Item = EndState> {
    let is_one = move |end: &EndState| of_run(*end).is_some_and(|state| states.has(state));
    OF_RUN.into_iter().filter(is_one)
}

/// Writes ends of the tree.
pub(super) fn tree_ends(tree: TreeStates) -> impl Iterator<Item = EndState> {
    let ends = [
        (tree.completed, EndState::Completed),
        (tree.faulted, EndState::Faulted),
        (tree.cancelled, EndState::Cancelled),
    ];
    ends.into_iter()
        .filter_map(|(is_one, end)| is_one.then_some(end))
}

/// Returns the name of a terminal state.
#[must_use]
pub fn end_state(state: State) -> Option<TaskState> {
    Some(match state {
        State::Succeeded => TaskState::Succeeded,
        State::Failed => TaskState::Failed,
        State::Cancelled => TaskState::Cancelled,
        State::Expired => TaskState::Expired,
        State::Dead => TaskState::Dead,
        State::New | State::Claimed | State::Retrying => return None,
    })
}

/// Returns the name of how a tree has ended.
#[must_use]
pub const fn tree_outcome(outcome: TreeOutcome) -> TreeState {
    match outcome {
        TreeOutcome::Completed => TreeState::Completed,
        TreeOutcome::Faulted => TreeState::Faulted,
        TreeOutcome::Cancelled => TreeState::Cancelled,
    }
}

/// Writes it.
pub(super) fn response(notify: &notify::Notify) -> Notify {
    let notify::Notify { to, states, tree } = notify;
    let is_usual = *states == Some(EndStates::ALL) && tree.is_empty();
    let run = states.iter().flat_map(|states| run_ends(*states));
    let apart = TreeStates {
        // It stands among those of the run.
        cancelled: false,
        ..*tree
    };
    let ends = run.chain(tree_ends(apart));
    let (kafka, http) = match to {
        Destination::Kafka { topic } => {
            let topic = topic.clone();
            (Some(NotifyKafka { topic }), None)
        }
        Destination::Http(call) => (None, Some(http_call::shown_call(call))),
    };
    Notify {
        kafka,
        http,
        states: (!is_usual).then(|| ends.collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::convert::json;

    fn read_text(text: &str) -> Result<notify::Notify, Error> {
        let mut violations = Violations::default();
        let notify = read(&json::read::<Notify>(text)?, &mut violations);
        violations.finish()?;
        notify.ok_or_else(|| Error::new(Code::Internal, "nothing was read"))
    }

    #[test]
    fn it_is_shown_as_it_was_given() {
        for text in [
            r#"{"kafka":{"topic":"ends"}}"#,
            r#"{"http":{"url":"http://a.example/x","method":"POST"}}"#,
            r#"{"kafka":{"topic":"ends"},"states":["failed","dead"]}"#,
            r#"{"kafka":{"topic":"ends"},"states":["dead","completed","faulted"]}"#,
            r#"{"kafka":{"topic":"ends"},"states":["faulted"]}"#,
            r#"{"kafka":{"topic":"ends"},"states":["cancelled","completed"]}"#,
        ] {
            let shown = response(&read_text(text).unwrap());
            assert_eq!(serde_json::to_string(&shown).unwrap(), text);
        }
        let all = r#"{"kafka":{"topic":"ends"},"states":["dead","failed","succeeded","expired","cancelled","dead"]}"#;
        let shown = response(&read_text(all).unwrap()).states;
        assert_eq!(shown.map(|states| states.len()), Some(5), "its tree, too");
    }

    #[test]
    fn every_mistake_is_named() {
        for (text, pointers) in [
            ("{}", &["/notify"][..]),
            (r#"{"states":["dead"]}"#, &["/notify"]),
            (
                r#"{"kafka":{"topic":"t"},"http":{"url":"http://a"}}"#,
                &["/notify"],
            ),
            (r#"{"http":{"url":"a b"}}"#, &["/notify/http/url"]),
            (
                r#"{"kafka":{"topic":"a b"},"states":[]}"#,
                &["/notify/states", "/notify/kafka/topic"],
            ),
            (
                r#"{"kafka":{"topic":"tickwheel.a.high"}}"#,
                &["/notify/kafka/topic"],
            ),
            (
                r#"{"kafka":{"topic":"t"},"states":["processing"]}"#,
                &["/states/0"],
            ),
            (
                r#"{"kafka":{"topic":"t"},"states":["dead","published"]}"#,
                &["/states/1"],
            ),
        ] {
            let error = read_text(text).unwrap_err();
            let found: Vec<&str> = error.errors.iter().map(|e| e.pointer.as_str()).collect();
            assert_eq!(found, pointers, "{text}");
        }
        let error = read_text(r#"{"kafka":{"topic":"t"},"state":["dead"]}"#).unwrap_err();
        assert!(error.detail.contains("`states`"), "{error:?}");
    }

    #[test]
    fn a_service_without_kafka_refuses_topics() {
        let notify = read_text(r#"{"kafka":{"topic":"ends"}}"#).unwrap();
        assert!(check(Some(&notify), true).is_ok() && check(None, false).is_ok());
        let error = check(Some(&notify), false).unwrap_err();
        assert_eq!(error.code, Code::Unsupported);
        assert!(error.detail.contains("--kafka"), "{error:?}");
    }
}
