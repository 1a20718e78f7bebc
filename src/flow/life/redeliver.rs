//! The redelivery makes for clients a copy of an `http` task that has ended, to be delivered at once.
//!
//! A task that has not ended, or is dead, needs no copy: it is run. The end of another one was told, counted and acted upon, and
//! stays. So its copy is a task of its own, which is no part of a tree, a schedule or a sequence, has no key, and tells its end
//! to nobody. No task follows it. Its receiver knows the message under the id of the first task, as Standard Webhooks
//! (<https://www.standardwebhooks.com>) wants it: one that has taken the message before drops it.

use crate::{
    flow::base::api::{NewTask, TaskView, VisibleState},
    model::{
        draft::TaskDraft,
        target::Target,
        task::{Body, Spec},
        time::Millis,
    },
};

/// The way in which a task is delivered again.
#[derive(Debug)]
pub(in crate::flow) enum Redelivery {
    /// Nothing is delivered over HTTP.
    NotHttp,
    /// It is run.
    Run,
    /// This task does it.
    Copy(Box<NewTask>),
}

/// Tells how a task that was read with its content is delivered again.
pub(in crate::flow) fn of(task: &TaskView, now: Millis) -> Redelivery {
    let Target::Http { callback, call } = &task.spec.target else {
        return Redelivery::NotHttp;
    };
    let is_over = task.state.is_terminal() || task.state == VisibleState::WaitingForChildren;
    let content = task.content.as_ref().filter(|_| is_over);
    // A dead one of a tree was counted there, and stays.
    let runs_again = task.state == VisibleState::Dead && task.spec.kin.is_none();
    let Some(content) = content.filter(|_| !runs_again) else {
        return Redelivery::Run;
    };
    let mut call = call.clone();
    call.message_id.get_or_insert_with(|| task.id.to_string());
    let spec = Spec {
        target: Target::Http {
            callback: callback.clone(),
            call,
        },
        create_time: now,
        asked_start: None,
        scheduled: None,
        key: None,
        ordering_key: None,
        notify: None,
        actions: None,
        kin: None,
        after: None,
        then: Vec::new(),
        body: Body::Inline(content.clone()),
        ..Spec::clone(&task.spec)
    };
    Redelivery::Copy(Box::new(NewTask {
        start: now,
        draft: TaskDraft::from(spec),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        flow::base::read::find::view_of_row,
        model::{
            fixtures::{START, row, spec},
            http_call::{HttpCall, Method},
            row::State,
        },
    };

    fn http() -> Spec {
        let call = HttpCall {
            url: "https://example.org/hook".to_owned(),
            method: Method::Post,
            headers: Vec::new(),
            timeout: None,
            message_id: None,
        };
        Spec {
            target: Target::Http {
                callback: "c".to_owned(),
                call: Box::new(call),
            },
            key: Some("k".to_owned()),
            ..spec()
        }
    }

    fn view(state: State, spec: Spec) -> TaskView {
        let content = spec.content().cloned();
        TaskView {
            content,
            ..view_of_row(row(state, &Arc::new(spec)), None, START)
        }
    }

    #[test]
    fn an_ended_task_is_copied_under_the_id_of_the_first() {
        for state in [
            State::Succeeded,
            State::Failed,
            State::Cancelled,
            State::Expired,
        ] {
            let first = view(state, http());
            let Redelivery::Copy(copy) = of(&first, START) else {
                panic!("{state:?} is copied");
            };
            let Target::Http { call, .. } = &copy.draft.target else {
                panic!("a copy is delivered as the first");
            };
            assert_eq!(call.message_id, Some(first.id.to_string()));
            assert_eq!((copy.start, &copy.draft.key), (START, &None));
            // The copy of a copy has the id of the first, too.
            let spec = Spec {
                target: copy.draft.target.clone(),
                ..http()
            };
            let Redelivery::Copy(second) = of(&view(state, spec), START) else {
                panic!("a copy can be copied");
            };
            assert_eq!(second.draft.target, copy.draft.target);
        }
    }

    #[test]
    fn a_task_that_waits_runs_or_is_dead_needs_no_copy() {
        for state in [State::New, State::Retrying, State::Claimed, State::Dead] {
            assert!(
                matches!(of(&view(state, http()), START), Redelivery::Run),
                "{state:?}"
            );
        }
        let other = view(State::Succeeded, spec());
        assert!(matches!(of(&other, START), Redelivery::NotHttp));
    }
}
