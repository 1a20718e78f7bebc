//! This conversion reads for the domain what the service does when a task ends, and at times (`action_view` writes it).

use std::time::Duration;

use super::{
    http_call,
    notify::{self, of_run, run_ends, tree_ends},
    violations::Violations,
};
use crate::{
    api::{
        self,
        action::{CheckState, EndState},
        task_request::TaskRequest,
        text::{DurationText, InstantText},
        time,
    },
    http::error::{Code, Error},
    limits::{
        ACTION_EMAIL_TO_MAX, ACTIONS_BYTES_MAX, ACTIONS_MAX, CHECK_PAST_MAX, CHECKS_MAX,
        DURATION_MAX, EMAIL_SUBJECT_CHARS_MAX,
    },
    model::{
        action::{Action, Actions, Check, CheckTime, Deed, When},
        check_states::{CheckStates, Live},
        document::Document,
        draft::TaskDraft,
        email::{Email, check_address},
        http_call::Method,
        notify::{EndStates, TreeStates},
        row::State,
        task::Content,
        template::{Fact, one_line, value_at},
        time::Millis,
    },
    schema::actions_bytes,
};

/// Reads the actions and checks of a request; none when it has none, or a violation was noted.
pub(super) fn read(request: &TaskRequest, wrong: &mut Violations) -> Option<Box<Actions>> {
    let (actions, checks) = (request.actions.as_deref(), request.checks.as_deref());
    let (actions, checks) = (actions.unwrap_or_default(), checks.unwrap_or_default());
    for (at, count, most) in [
        ("/actions", actions.len(), ACTIONS_MAX),
        ("/checks", checks.len(), CHECKS_MAX),
    ] {
        if count > most {
            wrong.add(at, format!("more than {most}"));
            return None;
        }
    }
    if actions.is_empty() && checks.is_empty() {
        return None;
    }
    let mut read = Actions::default();
    for (place, action) in actions.iter().enumerate() {
        read.at_ends
            .extend(read_action(&format!("/actions/{place}"), action, wrong));
    }
    for (place, check) in checks.iter().enumerate() {
        read.checks
            .extend(read_check(&format!("/checks/{place}"), check, wrong));
    }
    let bytes = actions_bytes(&read);
    if bytes > ACTIONS_BYTES_MAX {
        let at = if actions.is_empty() {
            "/checks"
        } else {
            "/actions"
        };
        let detail = format!(
            "actions and checks are {bytes} bytes together as encoded; the limit is {ACTIONS_BYTES_MAX}: keep long texts with a receiver over HTTP"
        );
        wrong.add(at, detail);
        return None;
    }
    Some(Box::new(read))
}

fn read_action(at: &str, action: &api::action::Action, wrong: &mut Violations) -> Option<Action> {
    let when = match &action.states {
        None => Some(When::Run(EndStates::ALL)),
        Some(states) => wrong.take(&format!("{at}/states"), when(states)),
    };
    let api::action::Action {
        states: _,
        http,
        email,
        payload,
    } = action.clone();
    let deed = api::action::Deed {
        http,
        email,
        payload,
    };
    let deed = read_deed(at, &deed, wrong);
    Some(Action {
        when: when?,
        deed: deed?,
    })
}

/// Reads at which ends an action is done, or a task follows.
///
/// # Errors
/// A text about the mistake.
pub(super) fn when(states: &[EndState]) -> Result<When, String> {
    let tree = notify::tree_of(states);
    let is_of_tree = tree.completed || tree.faulted;
    // Beside ends of the tree it is the tree that was cancelled.
    let run = states.iter().filter_map(|state| of_run(*state));
    let run = run.filter(|state| !(is_of_tree && *state == State::Cancelled));
    match EndStates::of(run) {
        Some(run) if !is_of_tree => Ok(When::Run(run)),
        None if is_of_tree => Ok(When::Tree(tree)),
        Some(_) => Err(
            "has ends of the own run and of the tree: give an action for each, since both may happen"
                .to_owned(),
        ),
        None => Err(
            "must be some of `succeeded`, `failed`, `cancelled`, `expired`, `dead` and `claimed`, or of `completed`, `faulted` and `cancelled`, the ends of the tree; leave it out for all ends of the own run"
                .to_owned(),
        ),
    }
}

/// Writes the ends at which an action is done; none for all of the own run.
pub(super) fn states_of(when: When) -> Option<Vec<EndState>> {
    match when {
        When::Run(EndStates::ALL) => None,
        when => Some(all_states_of(when)),
    }
}

/// Writes ends, all of them by their names.
pub(super) fn all_states_of(when: When) -> Vec<EndState> {
    match when {
        When::Run(states) => run_ends(states).collect(),
        When::Tree(tree) => tree_ends(tree).collect(),
    }
}

/// Refuses actions and notices at the end of a tree for a task that can have none.
///
/// # Errors
/// [`Code::UnusableAction`], or that of notices, with the field.
pub(super) fn check_kin(task: &TaskDraft) -> Result<(), Error> {
    notify::check_kin(task)?;
    let is_parent = task.kin.as_ref().is_some_and(|kin| kin.is_parent);
    let actions = task.actions.iter().flat_map(|actions| &actions.at_ends);
    let of_tree = |action: &Action| match action.when {
        When::Tree(_) => !is_parent,
        When::Run(_) => false,
    };
    let action = actions.enumerate().find(|(_, action)| of_tree(action));
    let checks = task.actions.iter().flat_map(|actions| &actions.checks);
    let asks_tree = |check: &Check| {
        let tree = check.states.tree;
        (tree.completed || tree.faulted) && !is_parent
    };
    let check = checks.enumerate().find(|(_, check)| asks_tree(check));
    let of_action = action.map(|(place, _)| format!("/actions/{place}/states"));
    match of_action.or_else(|| check.map(|(place, _)| format!("/checks/{place}/in"))) {
        None => Ok(()),
        Some(at) => {
            let detail = "names ends of the tree, and only a task with `children`, which may be an empty list, has one";
            Err(Error::field(Code::UnusableAction, &at, detail))
        }
    }
}

fn read_check(at: &str, check: &api::action::Check, wrong: &mut Violations) -> Option<Check> {
    let time = wrong.take(&format!("{at}/at"), check_time(&check.at));
    let states = check_states(&check.states).ok_or_else(|| "must name a state".to_owned());
    let states = wrong.take(&format!("{at}/in"), states);
    if check.then.is_none() && check.otherwise.is_none() {
        wrong.add(at, "does nothing: give `then` or `else`");
    }
    let mut deed = |branch: &str, deed: &Option<api::action::Deed>| {
        let deed = deed.as_ref()?;
        read_deed(&format!("{at}/{branch}"), deed, wrong)
    };
    let (then, otherwise) = (deed("then", &check.then), deed("else", &check.otherwise));
    Some(Check {
        at: time?,
        states: states?,
        then,
        otherwise,
    })
}

/// Reads the states that a check asks for; none where there is none.
fn check_states(states: &[CheckState]) -> Option<CheckStates> {
    let has = |state: CheckState| states.contains(&state);
    let run = [
        (CheckState::Succeeded, State::Succeeded),
        (CheckState::Failed, State::Failed),
        (CheckState::Cancelled, State::Cancelled),
        (CheckState::Expired, State::Expired),
        (CheckState::Dead, State::Dead),
    ];
    let run = run.into_iter().filter(|(state, _)| has(*state));
    let tree = TreeStates {
        completed: has(CheckState::Completed),
        faulted: has(CheckState::Faulted),
        cancelled: has(CheckState::Cancelled),
    };
    let live = LIVE.into_iter().filter(|(state, _)| has(*state));
    CheckStates::of(
        EndStates::of(run.map(|(_, state)| state)),
        tree,
        live.map(|(_, live)| live),
    )
}

/// The states of a task that goes on, as checks name them.
pub(super) const LIVE: [(CheckState, Live); 7] = [
    (CheckState::Scheduled, Live::Scheduled),
    (CheckState::Enqueued, Live::Enqueued),
    (CheckState::Claimed, Live::Claimed),
    (CheckState::Processing, Live::Processing),
    (CheckState::Retrying, Live::Retrying),
    (CheckState::Waiting, Live::Waiting),
    (CheckState::WaitingForChildren, Live::WaitingForChildren),
];

/// Reads when a check is made, or until when a task waits: a time, or a duration.
pub(super) fn check_time(text: &str) -> Result<CheckTime, String> {
    // A duration has no year at its begin.
    let is_time = text.trim_start().get(..5).is_some_and(|begin| {
        begin.ends_with('-')
            && begin
                .trim_end_matches('-')
                .chars()
                .all(|c| c.is_ascii_digit())
    });
    if is_time {
        return time::instant(&InstantText(text.to_owned())).map(CheckTime::At);
    }
    let after = time::duration(&DurationText(text.to_owned()), Duration::ZERO);
    after.map(CheckTime::After)
}

fn read_deed(at: &str, deed: &api::action::Deed, wrong: &mut Violations) -> Option<Deed> {
    let payload = deed.payload.as_ref();
    match (&deed.http, &deed.email) {
        (Some(http), None) => {
            let call = http_call::read(&format!("{at}/http"), http, wrong)?;
            if payload.is_some() && call.method == Method::Get {
                let detail = "goes with another method than GET, which sends no payload";
                wrong.add(format!("{at}/payload"), detail);
            }
            Some(Deed::Http(Box::new(call), payload.map(Document::of)))
        }
        (None, Some(_)) if payload.is_some() => {
            let detail = "goes with `http`: an e-mail has a `subject` and a `body`";
            wrong.add(format!("{at}/payload"), detail);
            None
        }
        (None, Some(email)) => {
            let email = read_email(&format!("{at}/email"), email, wrong)?;
            Some(Deed::Email(Box::new(email)))
        }
        (None, None) => {
            wrong.add(at, "says not what is done: give `http` or `email`");
            None
        }
        (Some(_), Some(_)) => {
            wrong.add(at, "`http` and `email` exclude each other: give one");
            None
        }
    }
}

fn read_email(at: &str, email: &api::action::Email, wrong: &mut Violations) -> Option<Email> {
    let api::action::Email {
        to,
        cc,
        subject,
        body,
    } = email;
    if to.is_empty() || to.len() + cc.len() > ACTION_EMAIL_TO_MAX {
        let detail =
            format!("must have 1 to {ACTION_EMAIL_TO_MAX} addresses, those of `cc` counted");
        wrong.add(format!("{at}/to"), detail);
        return None;
    }
    for (field, addresses) in [("to", to), ("cc", cc)] {
        for (place, address) in addresses.iter().enumerate() {
            wrong.take(&format!("{at}/{field}/{place}"), check_address(address));
        }
    }
    wrong.take(&format!("{at}/subject"), check_subject(subject));
    Some(Email {
        to: to.clone(),
        cc: cc.clone(),
        subject: subject.clone(),
        body: body.clone(),
    })
}

fn check_subject(subject: &str) -> Result<(), String> {
    if subject.trim().is_empty() || subject.chars().count() > EMAIL_SUBJECT_CHARS_MAX {
        return Err(format!(
            "must have 1 to {EMAIL_SUBJECT_CHARS_MAX} characters"
        ));
    }
    if one_line(subject) != subject {
        return Err("must be one line, without control characters".to_owned());
    }
    Ok(())
}

/// Checks that all of it can be done: that templates refer to something, and that there is a server for e-mails. The
/// payload does not change, so values that it must have can be looked for now.
///
/// # Errors
/// [`Code::UnusableAction`], with the field.
pub(super) fn check(
    actions: Option<&Actions>,
    is_tracked: bool,
    content: &Content,
    has_mail: bool,
    now: Millis,
) -> Result<(), Error> {
    let Some(actions) = actions else {
        return Ok(());
    };
    if !is_tracked {
        let at = if actions.at_ends.is_empty() {
            "/checks"
        } else {
            "/actions"
        };
        let detail = "a `kafka` task has no actions and checks: nothing tells when it has ended; leave them out, or give the task a callback";
        return Err(Error::field(Code::UnusableAction, at, detail));
    }
    let is_past =
        |check: &Check| matches!(check.at, CheckTime::At(at) if now.since(at) > CHECK_PAST_MAX);
    if let Some(place) = actions.checks.iter().position(is_past) {
        let detail =
            "lies more than a day in the past: give a later time, or a duration such as 30m";
        return Err(Error::field(
            Code::UnusableAction,
            format!("/checks/{place}/at"),
            detail,
        ));
    }
    let payload: Option<serde_json::Value> = serde_json::from_slice(&content.payload).ok();
    for (at, deed) in deeds(actions) {
        let of_deed = format!("{at}/{}", deed.field());
        if !has_mail && matches!(deed, Deed::Email(_)) {
            let detail = "this service sends no e-mails: start it with --smtp-url and --smtp-from, or use `http`";
            return Err(Error::field(Code::UnusableAction, &of_deed, detail));
        }
        let facts = deed.facts().map_err(|(field, reason)| {
            Error::field(Code::UnusableAction, format!("{at}/{field}"), &reason)
        })?;
        for fact in facts {
            if let Fact::Payload(steps) = &fact
                && !has_value(payload.as_ref(), steps)
            {
                let path = steps.join(".");
                let detail =
                    format!("names `task.payload.{path}`, and the payload has no such value");
                return Err(Error::field(Code::UnusableAction, &of_deed, &detail));
            }
        }
    }
    Ok(())
}

fn has_value(payload: Option<&serde_json::Value>, steps: &[String]) -> bool {
    payload.is_some_and(|payload| value_at(payload, steps).is_some())
}

/// Returns all that may be done, with the pointers.
fn deeds(actions: &Actions) -> impl Iterator<Item = (String, &Deed)> {
    let at_ends = actions.at_ends.iter().enumerate();
    let at_ends = at_ends.map(|(place, action)| (format!("/actions/{place}"), &action.deed));
    let checks = actions
        .checks
        .iter()
        .enumerate()
        .flat_map(|(place, check)| {
            let then = check.then.iter().map(move |deed| (place, "then", deed));
            then.chain(
                check
                    .otherwise
                    .iter()
                    .map(move |deed| (place, "else", deed)),
            )
        });
    let checks = checks.map(|(place, branch, deed)| (format!("/checks/{place}/{branch}"), deed));
    at_ends.chain(checks)
}

/// Checks actions that did not come from a registration.
///
/// # Errors
/// A text about the first mistake in them.
pub(super) fn check_sent(actions: &Actions) -> Result<(), String> {
    if actions.at_ends.len() > ACTIONS_MAX
        || actions.checks.len() > CHECKS_MAX
        || actions_bytes(actions) > ACTIONS_BYTES_MAX
    {
        return Err("has actions or checks out of bounds".to_owned());
    }
    let too_far =
        |check: &Check| matches!(check.at, CheckTime::After(after) if after > DURATION_MAX);
    if actions.checks.iter().any(too_far) {
        return Err("has a check out of range".to_owned());
    }
    for deed in actions.deeds() {
        match deed {
            Deed::Http(call, _) => http_call::check(call)
                .map_err(|reason| format!("has a URL of an action that {reason}"))?,
            Deed::Email(email) => {
                if email.to.is_empty() || email.receivers().count() > ACTION_EMAIL_TO_MAX {
                    return Err("has an e-mail with too many addresses, or none".to_owned());
                }
                email
                    .receivers()
                    .try_for_each(|address| check_address(address))?;
                check_subject(&email.subject)?;
            }
        }
        deed.facts().map_err(|(_, reason)| reason)?;
    }
    Ok(())
}
