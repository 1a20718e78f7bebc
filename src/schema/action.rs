//! The action codec converts actions and checks of tasks to and from messages for specs.

use std::time::Duration;

use prost::Message as _;

use super::{Malformed, http_call, v1};
use crate::model::{
    action::{Action, Actions, Check, CheckTime, Deed, When},
    check_states::{CheckStates, Live},
    document::Document,
    email::Email,
    notify::{EndStates, TreeStates},
    row::State,
    time::{Millis, whole_millis},
};

/// Returns how many bytes actions and checks have as encoded.
#[must_use]
pub fn actions_bytes(actions: &Actions) -> usize {
    let (at_ends, checks) = to_messages(Some(actions));
    let message = v1::TaskSpec {
        actions: at_ends,
        checks,
        ..v1::TaskSpec::default()
    };
    message.encoded_len()
}

/// Converts them to their messages.
pub(super) fn to_messages(actions: Option<&Actions>) -> (Vec<v1::Action>, Vec<v1::Check>) {
    let Some(Actions { at_ends, checks }) = actions else {
        return (Vec::new(), Vec::new());
    };
    (
        at_ends.iter().map(action_to).collect(),
        checks.iter().map(check_to).collect(),
    )
}

/// Reads them from their messages; none when there are none.
///
/// # Errors
/// [`Malformed`] when a field that must be there is missing or out of range.
pub(super) fn from_messages(
    actions: Vec<v1::Action>,
    checks: Vec<v1::Check>,
) -> Result<Option<Box<Actions>>, Malformed> {
    if actions.is_empty() && checks.is_empty() {
        return Ok(None);
    }
    let at_ends: Result<Vec<Action>, Malformed> = actions.into_iter().map(action_from).collect();
    let checks: Result<Vec<Check>, Malformed> = checks.into_iter().map(check_from).collect();
    Ok(Some(Box::new(Actions {
        at_ends: at_ends?,
        checks: checks?,
    })))
}

fn action_to(Action { when, deed }: &Action) -> v1::Action {
    let (states, tree) = when_to(*when);
    v1::Action {
        states,
        completed: tree.completed,
        faulted: tree.faulted,
        cancelled: tree.cancelled,
        deed: Some(deed_to(deed)),
    }
}

fn action_from(message: v1::Action) -> Result<Action, Malformed> {
    let tree = TreeStates {
        completed: message.completed,
        faulted: message.faulted,
        cancelled: message.cancelled,
    };
    Ok(Action {
        when: when_from(&message.states, tree, "actions.states")?,
        deed: deed_from(message.deed.ok_or(Malformed::Missing("actions.deed"))?)?,
    })
}

/// Converts ends of a task: those of its own run, else those of its tree.
pub(super) fn when_to(when: When) -> (Vec<i32>, TreeStates) {
    match when {
        When::Run(states) => (states_to(states), TreeStates::NONE),
        When::Tree(tree) => (Vec::new(), tree),
    }
}

/// Reads ends of a task.
pub(super) fn when_from(
    states: &[i32],
    tree: TreeStates,
    field: &'static str,
) -> Result<When, Malformed> {
    Ok(if states.is_empty() && !tree.is_empty() {
        When::Tree(tree)
    } else {
        When::Run(states_from(states, field)?)
    })
}

fn check_to(check: &Check) -> v1::Check {
    let Check {
        at,
        states,
        then,
        otherwise,
    } = check;
    let at = match at {
        CheckTime::After(after) => v1::check::At::AfterMs(whole_millis(*after).unsigned_abs()),
        CheckTime::At(at) => v1::check::At::AtMs(at.0),
    };
    v1::Check {
        at: Some(at),
        states: states.run.map_or_else(Vec::new, states_to),
        live: states.live().map(Live::number).collect(),
        completed: states.tree.completed,
        faulted: states.tree.faulted,
        cancelled: states.tree.cancelled,
        then: then.as_ref().map(deed_to),
        otherwise: otherwise.as_ref().map(deed_to),
    }
}

fn check_from(message: v1::Check) -> Result<Check, Malformed> {
    let wrong = || Malformed::OutOfRange("checks.states");
    let tree = TreeStates {
        completed: message.completed,
        faulted: message.faulted,
        cancelled: message.cancelled,
    };
    let run = match &message.states[..] {
        [] => None,
        numbers => Some(states_from(numbers, "checks.states")?),
    };
    let live: Option<Vec<Live>> = message.live.into_iter().map(Live::from_number).collect();
    let states = CheckStates::of(run, tree, live.ok_or_else(wrong)?);
    Ok(Check {
        at: match message.at.ok_or(Malformed::Missing("checks.at"))? {
            v1::check::At::AfterMs(millis) => {
                let millis = millis.min(i64::MAX.unsigned_abs());
                CheckTime::After(Duration::from_millis(millis))
            }
            v1::check::At::AtMs(millis) => CheckTime::At(Millis(millis)),
        },
        states: states.ok_or_else(wrong)?,
        then: message.then.map(deed_from).transpose()?,
        otherwise: message.otherwise.map(deed_from).transpose()?,
    })
}

fn deed_to(deed: &Deed) -> v1::Deed {
    let mut payload = None;
    let what = match deed {
        Deed::Http(call, own) => {
            payload = own.as_ref().map(|own| own.text().to_owned());
            v1::deed::What::Http(http_call::to_message("", call))
        }
        Deed::Email(email) => {
            let Email {
                to,
                cc,
                subject,
                body,
            } = &**email;
            v1::deed::What::Email(v1::Email {
                to: to.clone(),
                subject: subject.clone(),
                body: body.clone(),
                cc: cc.clone(),
            })
        }
    };
    v1::Deed {
        what: Some(what),
        payload,
    }
}

fn deed_from(message: v1::Deed) -> Result<Deed, Malformed> {
    Ok(match message.what.ok_or(Malformed::Missing("deed.what"))? {
        v1::deed::What::Http(http) => Deed::Http(
            Box::new(http_call::call_from_message(http)?),
            message.payload.map(Document::stored),
        ),
        v1::deed::What::Email(email) => Deed::Email(Box::new(Email {
            to: email.to,
            cc: email.cc,
            subject: email.subject,
            body: email.body,
        })),
    })
}

pub(super) fn states_to(states: EndStates) -> Vec<i32> {
    let numbers = states.iter().map(State::number);
    numbers.map(i32::from).collect()
}

pub(super) fn states_from(numbers: &[i32], field: &'static str) -> Result<EndStates, Malformed> {
    let state = |number: &i32| {
        let number = i8::try_from(*number).ok();
        number.and_then(State::from_number)
    };
    let states: Option<Vec<State>> = numbers.iter().map(state).collect();
    let states = states.and_then(EndStates::of);
    states.ok_or(Malformed::OutOfRange(field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::http_call::{HttpCall, Method};

    fn actions() -> Actions {
        let email = Deed::Email(Box::new(Email {
            to: vec!["a@b.c".to_owned()],
            cc: Vec::new(),
            subject: "s".to_owned(),
            body: "b".to_owned(),
        }));
        let call = HttpCall {
            url: "http://a".to_owned(),
            method: Method::Put,
            headers: vec![("x".to_owned(), "y".to_owned())],
            timeout: Some(Duration::from_secs(1)),
            message_id: None,
        };
        let payload = Document::stored("[7]".to_owned());
        let http = Deed::Http(Box::new(call), Some(payload));
        let dead = EndStates::of([State::Dead]).unwrap();
        let action = |when, deed: &Deed| Action {
            when,
            deed: deed.clone(),
        };
        let faulted = When::Tree(TreeStates {
            faulted: true,
            cancelled: true,
            ..TreeStates::NONE
        });
        let check = |at| Check {
            at,
            states: CheckStates::from(dead),
            then: Some(email.clone()),
            otherwise: None,
        };
        let tree = TreeStates {
            completed: true,
            cancelled: true,
            ..TreeStates::NONE
        };
        let seen = Check {
            states: CheckStates::of(None, tree, Live::ALL).unwrap(),
            ..check(CheckTime::At(Millis(9)))
        };
        let after = CheckTime::After(Duration::from_secs(60));
        Actions {
            at_ends: vec![action(When::Run(dead), &email), action(faulted, &http)],
            checks: vec![check(after), check(CheckTime::At(Millis(7))), seen],
        }
    }

    #[test]
    fn they_survive_their_messages_and_none_stay_none() {
        let actions = actions();
        let (at_ends, checks) = to_messages(Some(&actions));
        assert_eq!(from_messages(at_ends, checks), Ok(Some(Box::new(actions))));
        assert_eq!(to_messages(None), (vec![], vec![]));
        assert_eq!(from_messages(vec![], vec![]), Ok(None));
    }

    /// Stores keep these bytes.
    #[test]
    fn their_bytes_are_fixed() {
        let Actions { at_ends, checks } = actions();
        let short = Actions {
            at_ends: at_ends[..1].to_vec(),
            checks: checks[1..2].to_vec(),
        };
        let (at_ends, checks) = to_messages(Some(&short));
        let message = v1::TaskSpec {
            actions: at_ends,
            checks,
            ..v1::TaskSpec::default()
        };
        let bytes = message.encode_to_vec();
        let deed = b"\x12\x0d\x0a\x05a@b.c\x12\x01s\x1a\x01b";
        let mut expected = b"\xc2\x02\x14\x0a\x01\x08\x12\x0f".to_vec();
        expected.extend(deed);
        expected.extend(b"\xca\x02\x16\x10\x07\x1a\x01\x08\x22\x0f");
        expected.extend(deed);
        assert_eq!(bytes, expected);
        assert_eq!(actions_bytes(&short), bytes.len());
    }

    #[test]
    fn what_is_missing_or_out_of_range_is_refused() {
        let (at_ends, checks) = to_messages(Some(&actions()));
        let one = |states: Vec<i32>, deed: Option<v1::Deed>| {
            let action = v1::Action {
                states,
                deed,
                ..v1::Action::default()
            };
            from_messages(vec![action], vec![])
        };
        let deed = at_ends[0].deed.clone();
        let wrong = Err(Malformed::OutOfRange("actions.states"));
        for states in [vec![], vec![1], vec![8, 99], vec![-300]] {
            assert_eq!(one(states, deed.clone()), wrong);
        }
        assert_eq!(one(vec![8], None), Err(Malformed::Missing("actions.deed")));
        let empty = Some(v1::Deed::default());
        assert_eq!(one(vec![8], empty), Err(Malformed::Missing("deed.what")));
        let check = v1::Check {
            at: None,
            ..checks[0].clone()
        };
        assert_eq!(
            from_messages(vec![], vec![check]),
            Err(Malformed::Missing("checks.at"))
        );
        let nothing = v1::Check {
            states: Vec::new(),
            ..checks[0].clone()
        };
        let unknown = v1::Check {
            live: vec![99],
            ..checks[0].clone()
        };
        for check in [nothing, unknown] {
            let wrong = Malformed::OutOfRange("checks.states");
            assert_eq!(from_messages(vec![], vec![check]), Err(wrong));
        }
    }
}
