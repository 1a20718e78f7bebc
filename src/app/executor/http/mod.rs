//! The HTTP delivery carries out `http` tasks for the executor: it sends the request, and tells what the answer means.
//!
//! - [`body`] makes what is sent of a task.
//! - [`calls`] sends one request, to an allowed address only.
//! - [`hosts`] bounds the calls to each host.
//! - [`signature`] signs a request.
//! - [`verdict`] judges an answer.

mod body;
mod calls;
mod hosts;
mod signature;
mod verdict;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;

use self::{
    body::Body,
    calls::{Answer, Caller},
    hosts::Hosts,
    signature::signature,
    verdict::{Verdict, judge},
};
use crate::{
    flow::{base::records::callbacks::GateChange, stages::service::Service},
    http::convert::{http_url, json, media_type},
    model::{
        address::Allowed,
        error_class::{answered, unanswered},
        gate::GateState,
        history::Answered,
        http_call::{HttpCall, HttpPolicy, Method},
        target::Target,
        task::Spec,
    },
    time_source::TimeSource,
    worker::{Failure, Job, Outcome, Raw},
};

/// When a task comes again that was forgotten.
const AGAIN: Duration = Duration::from_secs(1);

/// A message to send.
#[derive(Debug)]
pub(super) struct Message {
    /// Its name, the same at each attempt.
    pub(super) id: String,
    pub(super) attempt: u32,
    pub(super) content_type: String,
    pub(super) trace_parent: Option<String>,
    pub(super) body: Bytes,
    /// The task before, where the body has its result beside a payload.
    pub(super) previous: Option<String>,
}

/// How the delivery of a task went.
#[derive(Debug)]
pub(super) struct Delivered {
    /// The report.
    pub(super) outcome: Outcome,
    /// The answer that it comes from, if there was one.
    pub(super) answered: Option<Answered>,
}

impl From<Outcome> for Delivered {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            answered: None,
        }
    }
}

/// How the sending of a message went.
#[derive(Debug)]
pub(super) enum Sent {
    /// Its host has as many calls as it may have: it is to come again after this.
    Busy(Duration),
    /// The receiver took it.
    Succeeded(Answer),
    /// It is to be sent again by its own rule, and no sooner than after this. There may have been no answer.
    Again(Option<Duration>, String, Option<Answered>),
    /// It is not to be sent again.
    Failed(String, Answered),
    /// It is not to be sent again, and what was called is the URL of the callback: nothing more is to be sent there.
    Gone(String, Answered),
}

/// The delivery of a node. Clones share its connections and its bounds.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    service: Arc<Service>,
    time: TimeSource,
    caller: Caller,
    hosts: Hosts,
}

impl Delivery {
    /// Delivers to allowed addresses only.
    pub(super) fn new(
        service: Arc<Service>,
        time: TimeSource,
        allowed: Allowed,
    ) -> Result<Self, reqwest::Error> {
        Ok(Self {
            caller: Caller::new(allowed)?,
            hosts: Hosts::new(time.clone()),
            service,
            time,
        })
    }

    /// Delivers one task.
    pub(super) async fn deliver(
        &self,
        job: &Job<Raw>,
        spec: Option<&Spec>,
    ) -> Result<Delivered, Failure> {
        let Some(spec) = spec else {
            // It was forgotten among too many: it is handed out again.
            return Ok(Outcome::Snooze(AGAIN).into());
        };
        let Target::Http { callback, call } = &spec.target else {
            return Ok(Outcome::Fail("the task has no URL".to_owned()).into());
        };
        let body = match Body::of(job) {
            Ok(body) => body,
            Err(error) => return Ok(Outcome::Fail(error).into()),
        };
        let message = Message {
            id: call
                .message_id
                .clone()
                .unwrap_or_else(|| job.id.to_string()),
            attempt: job.attempt,
            content_type: body.content_type,
            trace_parent: job.trace_parent.clone(),
            body: body.bytes,
            previous: body.previous,
        };
        let sent = self.send(&message, callback, call).await?;
        if let Sent::Gone(..) = &sent {
            // Before the task ends: a crash in between pauses the callback at the next attempt.
            self.pause(callback, &http_url::host(&call.url)).await?;
        }
        let (outcome, answered) = match sent {
            Sent::Busy(again) => (Outcome::Snooze(again), None),
            Sent::Succeeded(answer) => {
                let answered = answer.shown();
                (succeeded(answer), Some(answered))
            }
            Sent::Again(None, error, answered) => (Outcome::Retry(error), answered),
            Sent::Again(Some(after), error, answered) => {
                (Outcome::RetryAfter(after, error), answered)
            }
            Sent::Failed(error, answered) | Sent::Gone(error, answered) => {
                (Outcome::Fail(error), Some(answered))
            }
        };
        Ok(Delivered { outcome, answered })
    }

    /// Sends a message by the rules of a callback.
    pub(super) async fn send(
        &self,
        message: &Message,
        callback: &str,
        call: &HttpCall,
    ) -> Result<Sent, Failure> {
        let policy = self.policy(callback).await?;
        let host = http_url::host(&call.url);
        if let Some(reason) = kept_back(&policy, call) {
            return Ok(Sent::Again(None, unanswered(&host, &reason), None));
        }
        let place = match self.hosts.enter(&host, policy.max_in_flight).await {
            Ok(place) => place,
            Err(again) => return Ok(Sent::Busy(again)),
        };
        let began = self.time.moment();
        let answered = self.call(message, call, &policy).await;
        let took = self.time.moment().since(began).as_secs_f64();
        metrics::histogram!("tickwheel_http_call_seconds").record(took);
        let sent = match answered {
            Ok(answer) => self.judged(answer, call, &policy),
            Err(reason) => Sent::Again(None, unanswered(&host, &reason), None),
        };
        place.answered(!matches!(sent, Sent::Again(..)));
        let label = match &sent {
            Sent::Again(..) | Sent::Busy(_) => "retried",
            Sent::Failed(..) | Sent::Gone(..) => "failed",
            Sent::Succeeded(_) => "succeeded",
        };
        metrics::counter!("tickwheel_http_calls_total", "outcome" => label).increment(1);
        Ok(sent)
    }

    /// Returns what the callback says of the calls of its tasks, as it says it now.
    async fn policy(&self, callback: &str) -> Result<HttpPolicy, Failure> {
        let callback = self.service.callbacks().get(callback).await?;
        let policy = callback.and_then(|callback| callback.policy);
        Ok(policy.and_then(|policy| policy.http).unwrap_or_default())
    }

    async fn call(
        &self,
        message: &Message,
        call: &HttpCall,
        policy: &HttpPolicy,
    ) -> Result<Answer, String> {
        let timestamp = self.time.now().0.div_euclid(1000);
        let mut headers = vec![
            ("webhook-id", message.id.clone()),
            ("webhook-timestamp", timestamp.to_string()),
            ("tickwheel-attempt", message.attempt.to_string()),
        ];
        let signed = signature(&policy.secrets, (&message.id, timestamp), &message.body);
        headers.extend(signed.map(|signed| ("webhook-signature", signed)));
        let previous = message.previous.clone();
        headers.extend(previous.map(|id| ("tickwheel-previous", id)));
        let parent = message.trace_parent.clone();
        headers.extend(parent.map(|parent| ("traceparent", parent)));
        let own = policy.headers.iter().chain(&call.headers).cloned();
        let has_body = !message.body.is_empty() && call.method != Method::Get;
        let typed = has_body.then(|| ("content-type".to_owned(), message.content_type.clone()));
        let call = HttpCall {
            // The first of one name is replaced by a later one.
            headers: typed.into_iter().chain(own).collect(),
            timeout: call.timeout.or(policy.timeout),
            ..call.clone()
        };
        self.caller.call(&call, headers, message.body.clone()).await
    }

    /// Tells what an answer means.
    fn judged(&self, answer: Answer, call: &HttpCall, policy: &HttpPolicy) -> Sent {
        let host = &http_url::host(&call.url);
        let is_own = |url: &String| http_url::is_same(url, &call.url);
        let retries_4xx = policy.retry_4xx.unwrap_or(true);
        let retry_after = answer.retry_after.as_deref();
        match judge(answer.status, retry_after, retries_4xx, self.time.now()) {
            Verdict::Succeeded => Sent::Succeeded(answer),
            Verdict::Retry(after) => Sent::Again(after, told(host, &answer), Some(answer.shown())),
            Verdict::Gone if policy.url.as_ref().is_some_and(is_own) => {
                Sent::Gone(told(host, &answer), answer.shown())
            }
            Verdict::Failed | Verdict::Gone => Sent::Failed(told(host, &answer), answer.shown()),
        }
    }

    /// Pauses a callback whose receiver wants nothing more.
    async fn pause(&self, callback: &str, host: &str) -> Result<(), Failure> {
        let change = GateChange {
            collection: String::new(),
            state: GateState::Paused,
            reason: format!(
                "{host} answered 410 Gone for the URL of the callback: set another one, then open the gate"
            ),
            until: None,
            who: "tickwheel".to_owned(),
        };
        self.service.callbacks().set_gate(callback, &change).await?;
        tracing::warn!(callback, host, "a receiver is gone: its callback is paused");
        Ok(())
    }
}

/// Tells why a request is not sent, because the callback's credentials are for encrypted connections. The scheme of the
/// callback's own URL says whether they may go without. A callback that has none has its headers with credentials sent so to
/// this machine alone; its signature reveals no secret.
fn kept_back(policy: &HttpPolicy, call: &HttpCall) -> Option<String> {
    let is_bound = match &policy.url {
        Some(url) => http_url::is_https(url) && policy.has_credentials(),
        None => !http_url::is_loopback(&call.url) && policy.has_credential_headers(),
    };
    (is_bound && !http_url::is_https(&call.url)).then(|| {
        "it was not sent, since the headers and secrets of the callback are for https; write `https://` in the URL of the task, or set \
         `http.url` of the callback to an `http://` URL to send them in clear text"
            .to_owned()
    })
}

/// The answer becomes the result of the task. One that is too large is not kept. A receiver may send anything: a text that is
/// no media type, and JSON that not every reader can read, are kept as bytes.
fn succeeded(answer: Answer) -> Outcome {
    if answer.body.is_empty() || answer.is_cut {
        return Outcome::Done;
    }
    let is_json = answer.content_type.starts_with("application/json");
    let raw: Option<&RawValue> = serde_json::from_slice(&answer.body).ok();
    let is_readable = raw.is_none_or(|raw| json::readable(raw).is_ok());
    match serde_json::from_slice(&answer.body) {
        Ok(json) if is_json && is_readable => Outcome::DoneWith(json),
        _ => {
            let typed = media_type(answer.content_type).ok();
            let typed = typed.filter(|_| is_readable || !is_json);
            let typed = typed.unwrap_or_else(|| "application/octet-stream".to_owned());
            Outcome::done_with_bytes(answer.body, typed)
        }
    }
}

impl Answer {
    /// Returns what an attempt shows of it.
    fn shown(&self) -> Answered {
        Answered::new(self.status, &self.body)
    }
}

/// The error of an answer: its status, and the beginning of its body.
fn told(host: &str, answer: &Answer) -> String {
    let Answered { status, response } = answer.shown();
    answered(host, status, &response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::http_call::Secret;

    /// Tells whether a call to a URL goes out for a callback of this URL, with a signature, or a header that holds a credential.
    fn goes_out(own: Option<&str>, is_signed: bool, url: &str) -> bool {
        let secret = Secret::new("whsec_c2VjcmV0".to_owned());
        let header = ("authorization".to_owned(), "Bearer x".to_owned());
        let policy = HttpPolicy {
            url: own.map(str::to_owned),
            secrets: is_signed.then_some(secret).into_iter().collect(),
            headers: (!is_signed).then_some(header).into_iter().collect(),
            ..HttpPolicy::default()
        };
        let call = HttpCall {
            url: url.to_owned(),
            method: Method::Post,
            headers: Vec::new(),
            timeout: None,
            message_id: None,
        };
        kept_back(&policy, &call).is_none()
    }

    #[test]
    fn the_scheme_of_a_callback_says_how_its_credentials_go() {
        let (clear, secure) = ("http://h.example/x", "https://h.example/x");
        for is_signed in [true, false] {
            for (own, to_clear) in [
                (Some("https://h.example/"), false),
                (Some("http://h.example/"), true),
                (None, is_signed),
            ] {
                assert_eq!(
                    goes_out(own, is_signed, clear),
                    to_clear,
                    "{own:?}, {is_signed}"
                );
                assert!(goes_out(own, is_signed, secure));
            }
            assert!(goes_out(None, is_signed, "http://127.0.0.1:8080/x"));
            assert!(!goes_out(
                Some(secure),
                is_signed,
                "http://127.0.0.1:8080/x"
            ));
        }
    }
}
