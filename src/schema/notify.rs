//! The notify codec converts to and from messages, for specs and callbacks, where the end of a task is told.

use super::{Malformed, http_call, v1};
use crate::model::{
    notify::{Destination, EndStates, Notify},
    row::State,
};

/// Converts it to its message.
pub(super) fn to_message(notify: &Notify) -> v1::Notify {
    let Notify { to, states } = notify;
    let to = match to {
        Destination::Kafka { topic } => v1::notify::To::Kafka(v1::NotifyKafka {
            topic: topic.clone(),
        }),
        Destination::Http(call) => v1::notify::To::Http(http_call::to_message("", call)),
    };
    v1::Notify {
        to: Some(to),
        states: states
            .iter()
            .map(|state| i32::from(state.number()))
            .collect(),
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
    let state = |number: &i32| {
        let number = i8::try_from(*number).ok();
        number.and_then(State::from_number)
    };
    let states: Option<Vec<State>> = message.states.iter().map(state).collect();
    let states = states.and_then(EndStates::of);
    Ok(Notify {
        to,
        states: states.ok_or(Malformed::OutOfRange("notify.states"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores keep these bytes.
    #[test]
    fn its_bytes_are_fixed() {
        use prost::Message as _;

        let notify = Notify {
            to: Destination::Kafka {
                topic: "ends".to_owned(),
            },
            states: EndStates::ALL,
        };
        let bytes = to_message(&notify).encode_to_vec();
        assert_eq!(bytes, b"\x0a\x06\x0a\x04ends\x1a\x05\x04\x05\x06\x07\x08");
    }

    #[test]
    fn it_survives_its_message_and_what_is_out_of_range_is_refused() {
        let notify = Notify {
            to: Destination::Kafka {
                topic: "ends".to_owned(),
            },
            states: EndStates::of([State::Dead, State::Failed]).unwrap_or(EndStates::ALL),
        };
        let message = to_message(&notify);
        assert_eq!(from_message(message.clone()), Ok(notify));
        let http = Notify {
            to: Destination::Http(Box::new(crate::model::http_call::HttpCall {
                url: "http://a.example".to_owned(),
                method: crate::model::http_call::Method::Put,
                headers: vec![("a".to_owned(), "b".to_owned())],
                timeout: None,
                message_id: None,
            })),
            states: EndStates::ALL,
        };
        assert_eq!(from_message(to_message(&http)), Ok(http));
        for states in [vec![], vec![1], vec![8, 99], vec![-300]] {
            let message = v1::Notify {
                states,
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
