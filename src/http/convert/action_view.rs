//! This conversion writes for clients what the service does when a task ends, and at times, and how that went.

use super::{
    action::{LIVE, states_of},
    http_call,
    notify::{run_ends, tree_ends},
};
use crate::{
    api::{
        self,
        action::{ActionOutcome, ActionResponse, CheckResponse, CheckState, EndState},
        task_response::TaskResponse,
        text::DurationText,
        worker::View,
    },
    flow::{
        base::api::TaskView,
        stages::ends::outcomes::{Stage, Standing},
    },
    model::{
        action::{Action, Actions, Check, CheckTime, Deed},
        check_states::CheckStates,
        document::Document,
        email::Email,
        time::rfc3339,
    },
};

/// Writes the actions, as they were given.
pub(super) fn actions_given(actions: &Actions) -> Vec<api::action::Action> {
    let action = |Action { when, deed }: &Action| {
        let api::action::Deed {
            http,
            email,
            payload,
        } = deed_given(deed);
        api::action::Action {
            states: states_of(*when),
            http,
            email,
            payload,
        }
    };
    actions.at_ends.iter().map(action).collect()
}

/// Writes the checks, as they were given.
pub(super) fn checks_given(actions: &Actions) -> Vec<api::action::Check> {
    let check = |check: &Check| api::action::Check {
        at: match check.at {
            CheckTime::After(after) => DurationText::readable(after).0,
            CheckTime::At(at) => rfc3339(at),
        },
        states: state_names(&check.states),
        then: check.then.as_ref().map(deed_given),
        otherwise: check.otherwise.as_ref().map(deed_given),
    };
    actions.checks.iter().map(check).collect()
}

/// Writes the actions and checks of a task, without their outcomes. The basic view has no payloads.
pub(super) fn shown(task: &TaskView, view: View) -> (Vec<ActionResponse>, Vec<CheckResponse>) {
    let Some(actions) = task.spec.actions.as_deref() else {
        return (Vec::new(), Vec::new());
    };
    let mut actions = actions.clone();
    if view == View::Basic {
        actions.hide_payloads();
    }
    let times = actions.checks.iter().map(|check| check.time(task.id));
    let checks = checks_given(&actions).into_iter().zip(times);
    (
        actions_given(&actions)
            .into_iter()
            .map(ActionResponse::new)
            .collect(),
        checks
            .map(|(check, time)| CheckResponse::new(check, time.into()))
            .collect(),
    )
}

/// Adds the actions and checks of a task, and how they stand, to its answer.
#[must_use]
pub(in crate::http) fn with_outcomes(
    response: TaskResponse,
    (task, view): (&TaskView, View),
    (of_actions, of_checks): (Vec<Standing>, Vec<Standing>),
) -> TaskResponse {
    let (mut actions, mut checks) = shown(task, view);
    for (action, standing) in actions.iter_mut().zip(of_actions) {
        action.outcome = standing.stage.map(outcome);
        action.attempt = standing.attempt;
        action.error = standing.error;
    }
    for (check, standing) in checks.iter_mut().zip(of_checks) {
        check.outcome = standing.stage.map(outcome);
        check.attempt = standing.attempt;
        check.error = standing.error;
        check.answer = standing.branch.map(|branch| branch.name().to_owned());
    }
    TaskResponse {
        actions,
        checks,
        ..response
    }
}

const fn outcome(stage: Stage) -> ActionOutcome {
    match stage {
        Stage::Pending => ActionOutcome::Pending,
        Stage::Retrying => ActionOutcome::Retrying,
        Stage::Done => ActionOutcome::Done,
        Stage::GivenUp => ActionOutcome::GivenUp,
    }
}

fn state_names(states: &CheckStates) -> Vec<CheckState> {
    let end = |end: EndState| match end {
        EndState::Succeeded => CheckState::Succeeded,
        EndState::Failed => CheckState::Failed,
        EndState::Cancelled => CheckState::Cancelled,
        EndState::Expired => CheckState::Expired,
        EndState::Dead => CheckState::Dead,
        EndState::Completed => CheckState::Completed,
        EndState::Faulted => CheckState::Faulted,
        EndState::Claimed => CheckState::Claimed,
    };
    let mut names: Vec<CheckState> = states.run.into_iter().flat_map(run_ends).map(end).collect();
    for name in tree_ends(states.tree).map(end) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let live = LIVE
        .iter()
        .filter(|(_, live)| states.live().any(|one| one == *live));
    names.extend(live.map(|(name, _)| *name));
    names
}

fn deed_given(deed: &Deed) -> api::action::Deed {
    match deed {
        Deed::Http(call, payload) => api::action::Deed {
            http: Some(http_call::shown_call(call)),
            email: None,
            payload: payload.as_ref().map(Document::value),
        },
        Deed::Email(email) => {
            let Email {
                to,
                cc,
                subject,
                body,
            } = (**email).clone();
            api::action::Deed::email(api::action::Email {
                to,
                cc,
                subject,
                body,
            })
        }
    }
}
