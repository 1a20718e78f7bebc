//! The actions say for a task which e-mails and requests follow its ends, and are sent at times that were fixed before.
//!
//! An action belongs to ends of the own run of its task, or to ends of its tree ([`super::family`]), a check to a time. Each is
//! done by one internal task ([`super::action_task`]).
//!
//! A check asks whether its task had come to one of some states by its time ([`super::check_states`]). An end never changes, but
//! by a redrive. So an answer about ends that is late, or is asked for again, is the same.

use std::time::Duration;

use super::{
    check_states::{CheckStates, Found},
    document::Document,
    email::Email,
    http_call::HttpCall,
    ids::TaskId,
    kin::{TreeEnd, TreeOutcome},
    notify::{EndStates, TreeStates},
    task_state::State,
    template::Fact,
    time::Millis,
};

/// How long a task can be read after its last check.
const KEPT_AFTER_CHECK: Duration = Duration::from_secs(24 * 3600);

/// The actions and checks of a task; not both are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actions {
    /// Things that are done when it ends.
    pub at_ends: Vec<Action>,
    /// Questions that are asked at times.
    pub checks: Vec<Check>,
}

/// A thing that is done when a task ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// At which ends.
    pub when: When,
    /// The thing that is done.
    pub deed: Deed,
}

/// The ends at which an action is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// These ends of the own run of the task. If that did not end so, and `cancelled` is one of them: its tree was cancelled.
    Run(EndStates),
    /// Ends of its tree, at least one.
    Tree(TreeStates),
}

/// An end that actions may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The end of the own run of a task; or, with the state of a claim, the first claim of that run, which is told as an end is.
    Run(State, Millis),
    /// The end of its tree.
    Tree(TreeEnd),
}

/// A question that is asked at a time, and what is done by its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// When.
    pub at: CheckTime,
    /// The states that are asked for.
    pub states: CheckStates,
    /// The thing that is done when the task has come to one of them.
    pub then: Option<Deed>,
    /// The thing that is done when it has not.
    pub otherwise: Option<Deed>,
}

/// The time of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckTime {
    /// So long after the start with which the task was registered.
    After(Duration),
    /// At this time.
    At(Millis),
}

/// A thing that the service does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// It sends a request, with this payload or the message about the end.
    Http(Box<HttpCall>, Option<Document>),
    /// It sends an e-mail.
    Email(Box<Email>),
}

/// The answer of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branch {
    /// The task had come to one of the states.
    Then,
    /// It had not.
    Else,
}

impl Deed {
    /// Returns the name of its kind, for metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Http(..) => "http",
            Self::Email(_) => "email",
        }
    }

    /// Returns the name of the field that has its templates.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Http(..) => "payload",
            Self::Email(_) => "email",
        }
    }

    /// Returns the facts that its templates name.
    ///
    /// # Errors
    /// The field below that of the thing, and a text about the first mistake in it.
    pub fn facts(&self) -> Result<Vec<Fact>, (String, String)> {
        let field = self.field();
        match self {
            Self::Http(_, payload) => {
                let facts = payload.as_ref().map(Document::facts).transpose();
                facts
                    .map(Option::unwrap_or_default)
                    .map_err(|reason| (field.to_owned(), reason))
            }
            Self::Email(email) => {
                let facts = email.facts();
                facts.map_err(|(part, reason)| (format!("{field}/{part}"), reason))
            }
        }
    }

    /// Tells whether it says something of the content of its task, which may have to be read first.
    #[must_use]
    pub fn tells_content(&self) -> bool {
        let is_content = |fact: &Fact| matches!(fact, Fact::Label(_) | Fact::Payload(_));
        self.facts().is_ok_and(|facts| facts.iter().any(is_content))
    }
}

impl Branch {
    /// Returns its name in requests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Then => "then",
            Self::Else => "else",
        }
    }
}

impl Actions {
    /// Returns all that may be done.
    pub fn deeds(&self) -> impl Iterator<Item = &Deed> {
        let at_ends = self.at_ends.iter().map(|action| &action.deed);
        at_ends.chain(self.checks.iter().flat_map(Check::deeds))
    }

    /// Takes the payloads of requests out, for readers who see none.
    pub fn hide_payloads(&mut self) {
        let at_ends = self.at_ends.iter_mut().map(|action| &mut action.deed);
        let checks = self.checks.iter_mut();
        let checks = checks.flat_map(|check| check.then.iter_mut().chain(&mut check.otherwise));
        for deed in at_ends.chain(checks) {
            if let Deed::Http(_, payload) = deed {
                *payload = None;
            }
        }
    }

    /// Returns what is done at an end of a task whose own run ended as `run`, with the places.
    pub fn due(&self, end: End, run: State) -> impl Iterator<Item = (usize, &Action)> {
        let actions = self.at_ends.iter().enumerate();
        actions.filter(move |(_, action)| action.when.has(end, run))
    }

    /// Returns how long after its end a task is needed by its checks.
    #[must_use]
    pub fn needed_after(&self, task: TaskId, end: Millis) -> Duration {
        let times = self.checks.iter().map(|check| check.time(task));
        let last = times.max().map(|last| last.after(KEPT_AFTER_CHECK));
        last.map_or(Duration::ZERO, |last| last.since(end))
    }
}

impl When {
    /// Tells whether the first claim of its task is one of them.
    #[must_use]
    pub const fn has_claim(self) -> bool {
        match self {
            Self::Run(states) => states.has_claim(),
            Self::Tree(_) => false,
        }
    }

    /// Tells whether an end is one of them, of a task whose own run ended as `run`.
    #[must_use]
    pub fn has(self, end: End, run: State) -> bool {
        match (self, end) {
            (Self::Run(states), End::Run(state, _)) => states.has(state),
            (Self::Tree(states), End::Tree(tree)) => states.has(tree.outcome),
            // Not a second time for one cancel: the end of the own run may have been one of them.
            (Self::Run(states), End::Tree(tree)) => {
                let is_cancelled = tree.outcome == TreeOutcome::Cancelled;
                is_cancelled && states.has(State::Cancelled) && !states.has(run)
            }
            (Self::Tree(_), End::Run(..)) => false,
        }
    }
}

impl End {
    /// Returns when it was.
    #[must_use]
    pub const fn at(self) -> Millis {
        match self {
            Self::Run(_, at) => at,
            Self::Tree(tree) => tree.at,
        }
    }
}

impl Check {
    /// Returns what may be done.
    pub fn deeds(&self) -> impl Iterator<Item = &Deed> {
        self.then.iter().chain(&self.otherwise)
    }

    /// Returns when a task is checked.
    #[must_use]
    pub fn time(&self, task: TaskId) -> Millis {
        let time = match self.at {
            CheckTime::After(after) => task.first_start().after(after),
            CheckTime::At(at) => at,
        };
        time.clamp(Millis::EPOCH, Millis::MAX)
    }

    /// Answers for a task that was found so.
    #[must_use]
    pub fn branch(&self, task: TaskId, found: Found) -> Branch {
        if self.states.has(found, self.time(task)) {
            Branch::Then
        } else {
            Branch::Else
        }
    }

    /// Returns what is done after an answer.
    #[must_use]
    pub const fn deed(&self, branch: Branch) -> Option<&Deed> {
        match branch {
            Branch::Then => self.then.as_ref(),
            Branch::Else => self.otherwise.as_ref(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::fixtures;

    pub(in crate::model) const HOUR: Duration = Duration::from_secs(3600);

    pub(in crate::model) fn email() -> Deed {
        Deed::Email(Box::new(Email {
            to: vec!["ada@example.org".to_owned()],
            cc: Vec::new(),
            subject: "s".to_owned(),
            body: "b".to_owned(),
        }))
    }

    pub(in crate::model) fn check(at: CheckTime) -> Check {
        Check {
            at,
            states: EndStates::of([State::Succeeded]).unwrap().into(),
            then: None,
            otherwise: Some(email()),
        }
    }

    pub(in crate::model) fn actions() -> Actions {
        let action = |when| Action {
            when,
            deed: email(),
        };
        let dead = EndStates::of([State::Dead]).unwrap();
        let tree = |completed, faulted| {
            When::Tree(TreeStates {
                completed,
                faulted,
                cancelled: false,
            })
        };
        Actions {
            at_ends: vec![
                action(When::Run(dead)),
                action(When::Run(EndStates::ALL)),
                action(tree(true, true)),
                action(tree(false, true)),
            ],
            checks: vec![check(CheckTime::After(HOUR))],
        }
    }

    #[test]
    fn a_cancel_of_a_tree_is_one_of_the_run_unless_that_was_told() {
        let end = |outcome| {
            let at = fixtures::START;
            End::Tree(TreeEnd { outcome, at })
        };
        let states = |states: &[State]| When::Run(EndStates::of(states.iter().copied()).unwrap());
        let cancelled = end(TreeOutcome::Cancelled);
        for (when, run, expected) in [
            (states(&[State::Cancelled]), State::Succeeded, true),
            (states(&[State::Cancelled]), State::Failed, true),
            (states(&[State::Cancelled]), State::Cancelled, false),
            (
                states(&[State::Cancelled, State::Failed]),
                State::Failed,
                false,
            ),
            (states(&[State::Failed]), State::Succeeded, false),
            (When::Run(EndStates::ALL), State::Succeeded, false),
        ] {
            assert_eq!(when.has(cancelled, run), expected, "{when:?} {run:?}");
            for other in [TreeOutcome::Completed, TreeOutcome::Faulted] {
                assert!(!when.has(end(other), run), "{when:?} {run:?}");
            }
        }
        let tree = When::Tree(TreeStates {
            cancelled: true,
            ..TreeStates::NONE
        });
        for run in [State::Succeeded, State::Cancelled] {
            assert!(tree.has(cancelled, run));
            assert!(!tree.has(End::Run(State::Cancelled, fixtures::START), run));
        }
    }

    #[test]
    fn an_answer_is_the_same_however_late_it_is() {
        let (task, check) = (fixtures::id(), check(CheckTime::After(HOUR)));
        let time = check.time(task);
        assert_eq!(time, task.first_start().after(HOUR));
        let later = Millis(time.0 + 1);
        for (run, branch) in [
            (None, Branch::Else),
            (Some((State::Succeeded, time)), Branch::Then),
            (Some((State::Succeeded, later)), Branch::Else),
            (Some((State::Failed, time)), Branch::Else),
        ] {
            let found = Found {
                run,
                tree: None,
                live: None,
            };
            assert_eq!(check.branch(task, found), branch, "{run:?}");
        }
        assert_eq!(check.deed(Branch::Then), None);
        assert_eq!(check.deed(Branch::Else), Some(&email()));
    }

    #[test]
    fn a_task_is_kept_for_its_last_check() {
        let (task, mut actions) = (fixtures::id(), actions());
        let end = task.first_start();
        assert_eq!(actions.needed_after(task, end), HOUR * 25);
        let past = end.after(HOUR * 100);
        assert_eq!(actions.needed_after(task, past), Duration::ZERO);
        actions.checks.push(check(CheckTime::At(past)));
        assert_eq!(actions.needed_after(task, end), HOUR * 124);
        actions.checks.clear();
        assert_eq!(actions.needed_after(task, end), Duration::ZERO);
        let far = check(CheckTime::At(Millis(i64::MAX)));
        assert_eq!(far.time(task), Millis::MAX);
    }
}
