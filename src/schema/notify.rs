//! The notify codec converts to and from messages, for specs and callbacks, where the end of a task is told.

use super::{
    Malformed,
    action::{states_from, states_to},
    http_call, v1,
};
use crate::model::notify::{Destination, Notify, TreeStates};

/// Converts it to its message.
pub(super) fn to_message(notify: &Notify) -> v1::Notify {
    let Notify { to, states, tree } = notify;
    let to = match to {
        Destination::Kafka { topic } => v1::notify::To::Kafka(v1::NotifyKafka {
            topic: topic.clone(),
        }),
        Destination::Http(call) => v1::notify::To::Http(http_call::to_message("", call)),
    };
    v1::Notify {
        to: Some(to),
        states: states.map(states_to).unwrap_or_default(),
        completed: tree.completed,
        faulted: tree.faulted,
        cancelled: tree.cancelled,
    }
}

/// Reads it from its message.
///
/// # Errors
/// [`Malformed`] when a field that must be there is missing or out of range.
pub(super) fn from_message(message: v1::Notify) -> Result<Notify, Malformed> {
    let to = match message.to.ok_or(Malformed::Missing("notify.to"))? {
        v1::notify::To::Kafka(kafka) => Destination::Kafka { topic: kafka.topic },
        v1::notify::To::Http(http) => {
            Destination::Http(Box::new(http_call::call_from_message(http)?))
        }
    };
    let tree = TreeStates {
        completed: message.completed,
        faulted: message.faulted,
        cancelled: message.cancelled,
    };
    let states = if message.states.is_empty() && !tree.is_empty() {
        None
    } else {
        Some(states_from(&message.states, "notify.states")?)
    };
    Ok(Notify { to, states, tree })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{notify::EndStates, row::State};

    fn topic() -> Destination {
        Destination::Kafka {
            topic: "ends".to_owned(),
        }
    }

    /// Stores keep these bytes.
    #[test]
    fn its_bytes_are_fixed() {
        use prost::Message as _;

        let notify = Notify::of_run(topic(), EndStates::ALL);
        let bytes = to_message(&notify).encode_to_vec();
        assert_eq!(bytes, b"\x0a\x06\x0a\x04ends\x1a\x05\x04\x05\x06\x07\x08");
        let of_tree = Notify {
            states: None,
            tree: TreeStates {
                completed: true,
                faulted: true,
                cancelled: true,
            },
            ..notify
        };
        let bytes = to_message(&of_tree).encode_to_vec();
        assert_eq!(bytes, b"\x0a\x06\x0a\x04ends\x20\x01\x28\x01\x30\x01");
        assert_eq!(from_message(to_message(&of_tree)), Ok(of_tree));
    }

    #[test]
    fn it_survives_its_message_and_what_is_out_of_range_is_refused() {
        let faulted = TreeStates {
            faulted: true,
            ..TreeStates::NONE
        };
        let notify = Notify {
            to: topic(),
            states: EndStates::of([State::Dead, State::Failed]),
            tree: faulted,
        };
        let message = to_message(&notify);
        assert_eq!(from_message(message.clone()), Ok(notify));
        let call = crate::model::http_call::HttpCall {
            url: "http://a.example".to_owned(),
            method: crate::model::http_call::Method::Put,
            headers: vec![("a".to_owned(), "b".to_owned())],
            timeout: None,
            message_id: None,
        };
        let http = Notify::of_run(Destination::Http(Box::new(call)), EndStates::ALL);
        assert_eq!(from_message(to_message(&http)), Ok(http));
        for states in [vec![], vec![1], vec![8, 99], vec![-300]] {
            let message = v1::Notify {
                states,
                faulted: false,
                ..message.clone()
            };
            assert_eq!(
                from_message(message),
                Err(Malformed::OutOfRange("notify.states"))
            );
        }
        let message = v1::Notify {
            to: None,
            ..message
        };
        assert_eq!(from_message(message), Err(Malformed::Missing("notify.to")));
    }
}
