//! The weight tells memories that are bounded in bytes about how much of them a task takes.
//!
//! It is asked for each task that comes into such a memory, so it only adds lengths up: it encodes nothing and allocates nothing.
//! Each type is taken apart by all of its fields, so a field that is added must be thought of here.
//!
//! A payload that was read is a view of the message that its task came in. As long as a view is there, the message stays in
//! memory as a whole, with all texts of the task once more. The share of the allocator is left out. A content that is kept apart
//! weighs nothing: its reader counts it. A spec that several hold weighs as much for each of them, as each may be the last.

use bytes::Bytes;

use super::{
    action::{Action, Actions, Check, Deed},
    chain::{FollowUp, Previous},
    email::Email,
    history::{Answered, Attempt, History},
    holder::Holder,
    http_call::HttpCall,
    notify::{Destination, Notify},
    result::{Place, TaskResult},
    row::{Detail, TaskRow},
    target::Target,
    task::{Body, Content, Scheduled, Spec},
};

/// The counts that lie beside a value in an `Arc`.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

impl Spec {
    /// Returns about how many bytes of memory the task takes behind its `Arc`, with all that it owns.
    #[must_use]
    pub fn weight(&self) -> usize {
        let mut scale = Scale::default();
        scale.spec(self);
        COUNTS_BYTES + size_of::<Self>() + scale.sum()
    }
}

impl TaskRow {
    /// Returns about how many bytes of memory the row takes, with its task and all that both own.
    #[must_use]
    pub fn weight(&self) -> usize {
        let mut scale = Scale::default();
        let spec = scale.detail(&self.detail);
        size_of::<Self>() + scale.sum() + spec
    }
}

/// Adds up what lies outside of a value and is its own.
#[derive(Debug, Default)]
struct Scale {
    /// Values of fixed sizes.
    values: usize,
    texts: usize,
    /// Views of the message that it came in.
    views: usize,
}

impl Scale {
    const fn sum(&self) -> usize {
        let message = if self.views == 0 {
            0
        } else {
            self.texts + self.views
        };
        self.values + self.texts + message
    }

    const fn value<T: ?Sized>(&mut self, value: &T) {
        self.values += size_of_val(value);
    }

    const fn view(&mut self, view: &Bytes) {
        self.views += view.len();
    }

    fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a String>) {
        let lengths = texts.into_iter().map(String::len);
        self.texts += lengths.sum::<usize>();
    }

    fn pairs(&mut self, pairs: &[(String, String)]) {
        self.value(pairs);
        self.texts(pairs.iter().flat_map(|(name, value)| [name, value]));
    }

    fn spec(&mut self, spec: &Spec) {
        let Spec {
            target,
            collection,
            priority: _,
            max_attempts: _,
            backoff: _,
            claim_timeout: _,
            heartbeat_timeout: _,
            attempt_timeout: _,
            expire_after: _,
            retention: _,
            dead_retention: _,
            create_time: _,
            asked_start: _,
            scheduled,
            key,
            indexed,
            ordering_key,
            notify,
            actions,
            kin,
            after,
            then,
            body,
        } = spec;
        self.target(target);
        self.texts([collection].into_iter().chain(key).chain(ordering_key));
        if let Some(scheduled) = scheduled.as_deref() {
            self.value(scheduled);
            let Scheduled { schedule, time: _ } = scheduled;
            self.texts([schedule]);
        }
        self.pairs(indexed);
        notify.iter().for_each(|notify| self.notify(notify));
        actions.iter().for_each(|actions| self.actions(actions));
        kin.iter().for_each(|kin| self.value(&**kin));
        after.iter().for_each(|after| self.value(&**after));
        self.follow_ups(then);
        match body {
            Body::Inline(content) => self.content(content),
            Body::Apart { bytes: _ } => {}
        }
    }

    fn target(&mut self, target: &Target) {
        match target {
            Target::Callback { name } => self.texts([name]),
            Target::Http { callback, call } => {
                self.texts([callback]);
                self.call(call);
            }
            Target::Kafka {
                topic,
                partition: _,
            } => self.texts([topic]),
        }
    }

    fn call(&mut self, call: &HttpCall) {
        self.value(call);
        let HttpCall {
            url,
            method: _,
            headers,
            timeout: _,
            message_id,
        } = call;
        self.texts([url].into_iter().chain(message_id));
        self.pairs(headers);
    }

    fn notify(&mut self, notify: &Notify) {
        let Notify {
            to,
            states: _,
            tree: _,
        } = notify;
        match to {
            Destination::Kafka { topic } => self.texts([topic]),
            Destination::Http(call) => self.call(call),
        }
    }

    fn actions(&mut self, actions: &Actions) {
        self.value(actions);
        let Actions { at_ends, checks } = actions;
        self.value(at_ends.as_slice());
        for Action { when: _, deed } in at_ends {
            self.deed(deed);
        }
        self.value(checks.as_slice());
        for check in checks {
            let Check {
                at: _,
                states: _,
                then,
                otherwise,
            } = check;
            let deeds = then.iter().chain(otherwise);
            deeds.for_each(|deed| self.deed(deed));
        }
    }

    fn deed(&mut self, deed: &Deed) {
        match deed {
            Deed::Http(call, payload) => {
                self.call(call);
                self.texts += payload.as_ref().map_or(0, |payload| payload.text().len());
            }
            Deed::Email(email) => {
                self.value(&**email);
                let Email {
                    to,
                    cc,
                    subject,
                    body,
                } = &**email;
                self.value(to.as_slice());
                self.value(cc.as_slice());
                self.texts(to.iter().chain(cc).chain([subject, body]));
            }
        }
    }

    fn follow_ups(&mut self, then: &[FollowUp<Spec>]) {
        self.value(then);
        for follow in then {
            let FollowUp {
                when: _,
                start: _,
                with_result: _,
                in_tree: _,
                task,
            } = follow;
            self.spec(task);
        }
    }

    fn content(&mut self, content: &Content) {
        let Content {
            payload,
            content_type,
            record_key,
            record_headers,
            labels,
            trace_parent,
            previous,
        } = content;
        self.view(payload);
        self.texts([content_type].into_iter().chain(trace_parent));
        record_key.iter().for_each(|key| self.view(key));
        self.value(record_headers.as_slice());
        for (name, value) in record_headers {
            self.texts([name]);
            self.view(value);
        }
        self.pairs(labels);
        if let Some(previous) = previous.as_deref() {
            self.value(previous);
            let Previous {
                task: _,
                state: _,
                tree: _,
                result,
                error,
            } = previous;
            self.texts(error);
            result.iter().for_each(|result| self.result(result));
        }
    }

    fn result(&mut self, result: &TaskResult) {
        let TaskResult {
            content_type,
            place,
        } = result;
        self.texts([content_type]);
        match place {
            Place::Inline(bytes) => self.view(bytes),
            Place::Apart {
                attempt: _,
                bytes: _,
            } => {}
        }
    }

    /// Adds a detail, and returns the weight of the tasks in it, which came in messages of their own.
    fn detail(&mut self, detail: &Detail) -> usize {
        let Detail {
            spec,
            start: _,
            fire_time: _,
            claim_time: _,
            end_time: _,
            worker,
            result,
            error,
            died: _,
            erased: _,
            tree: _,
            children_time_passed: _,
            rounds: _,
            lived: _,
            history,
            next,
        } = detail;
        self.texts([worker].into_iter().chain(error));
        result.iter().for_each(|result| self.result(result));
        self.history(history);
        let next = next.as_deref().map_or(0, |holder| {
            let Holder {
                id: _,
                generation: _,
                spec,
            } = holder;
            COUNTS_BYTES + size_of_val(holder) + spec.weight()
        });
        spec.weight() + next
    }

    fn history(&mut self, history: &History) {
        let History {
            attempts,
            dropped: _,
            answered,
        } = history;
        self.value(attempts.as_slice());
        for attempt in attempts {
            let Attempt {
                attempt: _,
                worker,
                claimed: _,
                ended: _,
                ending: _,
                error,
                answered,
            } = attempt;
            self.texts([worker].into_iter().chain(error));
            answered.iter().for_each(|answered| self.answered(answered));
        }
        answered.iter().for_each(|answered| self.answered(answered));
    }

    fn answered(&mut self, answered: &Answered) {
        let Answered {
            status: _,
            response,
        } = answered;
        self.texts([response]);
    }
}
