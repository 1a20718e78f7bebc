//! The doer does the actions and checks of tasks for the executor.
//!
//! A request or an e-mail that is not acknowledged is repeated: it may come several times, with the same name each time.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::{
    done::Done,
    http::{Delivery, Message},
    mail::{Mailed, Mailer},
    notify,
};
use crate::{
    api::{
        notification::{CheckNotification, Checked},
        worker::View,
    },
    flow::{
        base::api,
        features::ends::actions::{self, Facts, Work, found},
        stages::service::Service,
    },
    http::convert::{http_call::callback_of, task_view::with_attempts},
    limits::NOTIFY_TRIED_FOR,
    model::{
        action::{Branch, Deed},
        email::Email,
        http_call::HttpCall,
        ids::TaskId,
        time::Millis,
    },
    time_source::TimeSource,
    worker::{Failure, Job, Outcome, Raw},
};

/// Attempts of a check whose task is not found: some minutes in all, and longer than a registration may take.
const ATTEMPTS_WITHOUT_TASK: u32 = 10;

/// The doer of a node.
#[derive(Debug, Clone)]
pub(super) struct Doer {
    pub(super) service: Arc<Service>,
    pub(super) delivery: Delivery,
    pub(super) mail: Option<Arc<dyn Mailer>>,
    pub(super) time: TimeSource,
}

/// A piece of work: its kind, since when it is tried, the answer of a check, and how it went.
struct Tried {
    kind: &'static str,
    since: Millis,
    answer: Option<Branch>,
    done: Done,
}

impl Doer {
    /// Does one action or one check.
    pub(super) async fn run(&self, job: &Job<Raw>) -> Result<Outcome, Failure> {
        let work = match actions::read(&job.payload.0) {
            Ok(work) => work,
            Err(reason) => {
                return Ok(Outcome::Fail(format!(
                    "the action cannot be read: {reason}"
                )));
            }
        };
        let (task, tried) = match work {
            Work::Call(notice) => {
                let done = notify::tell(&self.service, &self.delivery, job, &notice).await?;
                let tried = Tried {
                    kind: "http",
                    since: notice.end.at(),
                    answer: None,
                    done,
                };
                (notice.task, tried)
            }
            Work::Send {
                task,
                end,
                call,
                body,
            } => {
                let tried = Tried {
                    kind: "http",
                    since: end,
                    answer: None,
                    done: self.send(job, &call, body.into()).await?,
                };
                (task, tried)
            }
            Work::Email { task, end, email } => {
                let tried = Tried {
                    kind: "email",
                    since: end,
                    answer: None,
                    done: self.mail(job.id, &email).await,
                };
                (task, tried)
            }
            Work::Check { task, place } => match self.check(job, task, place).await? {
                Some(tried) => (task, tried),
                // It is registered behind its checks.
                None if job.attempt < ATTEMPTS_WITHOUT_TASK => {
                    return Ok(Outcome::Retry("its task is not there yet".to_owned()));
                }
                // Its registration came to nothing, or it was deleted.
                None => return Ok(Outcome::Done),
            },
        };
        Ok(self.judged(task, tried))
    }

    /// Tells what becomes of the internal task.
    fn judged(&self, task: TaskId, tried: Tried) -> Outcome {
        let Tried {
            kind,
            since,
            answer,
            done,
        } = tried;
        let outcome = match done {
            Done::Succeeded => match answer {
                None => Outcome::Done,
                Some(branch) => Outcome::DoneWith(Value::from(branch.name())),
            },
            Done::Busy(after) => return Outcome::Snooze(after),
            Done::Again(after, error) if self.time.now().since(since) < NOTIFY_TRIED_FOR => {
                match after {
                    // The waits of the task are at most a minute.
                    None => Outcome::Retry(error),
                    Some(after) => Outcome::RetryAfter(after, error),
                }
            }
            Done::Again(_, error) | Done::Refused(error) => Outcome::Fail(error),
        };
        let label = match &outcome {
            Outcome::Done | Outcome::DoneWith(_) => "done",
            Outcome::Fail(error) => {
                tracing::warn!(%task, kind, error, "an action was not done: given up");
                "given_up"
            }
            _ => "retried",
        };
        metrics::counter!("tickwheel_actions_total", "kind" => kind, "outcome" => label)
            .increment(1);
        outcome
    }

    /// Asks the question of a check, and does what its answer says. None when there is no such task.
    async fn check(
        &self,
        job: &Job<Raw>,
        task: TaskId,
        place: usize,
    ) -> Result<Option<Tried>, Failure> {
        let Some(view) = self.service.get(task, api::View::Full).await? else {
            return Ok(None);
        };
        let checks = view.spec.actions.iter().flat_map(|actions| &actions.checks);
        let Some(check) = checks.clone().nth(place) else {
            return Ok(None);
        };
        let (branch, time) = (check.branch(task, found(&view)), check.time(task));
        let content = view.content.as_ref().or_else(|| view.spec.content());
        let facts = Facts::of(&view, content);
        let (kind, done) = match check.deed(branch) {
            None => ("none", Done::Succeeded),
            Some(deed @ Deed::Email(email)) => {
                let email = email.filled(|fact| facts.value(fact));
                (deed.kind(), self.mail(job.id, &email).await)
            }
            Some(deed @ Deed::Http(call, Some(own))) => {
                let body = own.filled(|fact| facts.value(fact));
                (deed.kind(), self.send(job, call, body.into()).await?)
            }
            Some(deed @ Deed::Http(call, None)) => {
                let checked = Checked::new(
                    with_attempts(&view, View::Basic),
                    u32::try_from(place).unwrap_or(u32::MAX),
                    branch.name(),
                );
                (deed.kind(), self.tell(job, call, time, checked).await?)
            }
        };
        Ok(Some(Tried {
            kind,
            since: time,
            answer: Some(branch),
            done,
        }))
    }

    async fn mail(&self, name: TaskId, email: &Email) -> Done {
        let Some(mail) = &self.mail else {
            let reason = "this node sends no e-mails: start it with --smtp-url and --smtp-from";
            return Done::Again(None, reason.to_owned());
        };
        match mail.send(name, email).await {
            Mailed::Taken => Done::Succeeded,
            Mailed::Busy(after) => Done::Busy(after),
            Mailed::Later(reason) => Done::Again(None, reason),
            Mailed::Refused(reason) => Done::Refused(reason),
        }
    }

    async fn tell(
        &self,
        job: &Job<Raw>,
        call: &HttpCall,
        time: Millis,
        checked: Checked,
    ) -> Result<Done, Failure> {
        let message = CheckNotification::new(job.id.to_string(), time.into(), checked);
        let body = serde_json::to_vec(&message)?.into();
        self.send(job, call, body).await
    }

    /// Sends a request with this JSON.
    async fn send(&self, job: &Job<Raw>, call: &HttpCall, body: Bytes) -> Result<Done, Failure> {
        let message = Message {
            id: job.id.to_string(),
            attempt: job.attempt,
            content_type: "application/json".to_owned(),
            trace_parent: None,
            body,
            previous: None,
        };
        let sent = self
            .delivery
            .send(&message, &callback_of(call), call)
            .await?;
        Ok(sent.into())
    }
}
