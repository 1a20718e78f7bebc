//! This conversion reads for the domain where the end of a task is told, and writes it for clients.

use super::{
    http_call,
    target::foreign,
    violations::{Violations, name},
};
use crate::{
    api::{
        notify::{Notify, NotifyKafka},
        task_response::TaskState,
    },
    http::error::{Code, Error},
    model::{
        notify::{self, Destination, EndStates},
        row::State,
    },
};

/// Reads it. Returns none only when a violation was noted.
pub(super) fn read(notify: &Notify, violations: &mut Violations) -> Option<notify::Notify> {
    let states = match &notify.states {
        None => Some(EndStates::ALL),
        Some(states) => violations.take("/notify/states", end_states(states)),
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
    let states = states?;
    Some(notify::Notify { to, states })
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

pub(super) fn end_states(states: &[TaskState]) -> Result<EndStates, String> {
    let state = |state: &TaskState| match state {
        TaskState::Succeeded => Some(State::Succeeded),
        TaskState::Failed => Some(State::Failed),
        TaskState::Cancelled => Some(State::Cancelled),
        TaskState::Expired => Some(State::Expired),
        TaskState::Dead => Some(State::Dead),
        _ => None,
    };
    let states: Option<Vec<State>> = states.iter().map(state).collect();
    let states = states.and_then(EndStates::of);
    states.ok_or_else(|| {
        "must be some of `succeeded`, `failed`, `cancelled`, `expired` and `dead`; leave it out for all"
            .to_owned()
    })
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

/// Writes it.
pub(super) fn response(notify: &notify::Notify) -> Notify {
    let notify::Notify { to, states } = notify;
    let all = *states == EndStates::ALL;
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
        states: (!all).then(|| states.iter().filter_map(end_state).collect()),
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
        ] {
            let shown = response(&read_text(text).unwrap());
            assert_eq!(serde_json::to_string(&shown).unwrap(), text);
        }
        let all = r#"{"kafka":{"topic":"ends"},"states":["dead","failed","succeeded","expired","cancelled","dead"]}"#;
        assert_eq!(response(&read_text(all).unwrap()).states, None);
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
                &["/notify/states"],
            ),
            (
                r#"{"kafka":{"topic":"t"},"states":["published"]}"#,
                &["/notify/states"],
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
