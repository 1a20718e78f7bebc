//! The command `tickwheel task register` makes a request for the service from its flags.

use std::{collections::BTreeMap, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{ArgGroup, Args};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Failure, input, times, wait::WaitArgs};
use crate::{
    api::{
        action::{Action, Check, EndState},
        notify::{Notify, NotifyKafka},
        target::{CallbackTarget, HttpTarget, KafkaHeader, KafkaHeaders, KafkaTarget},
        task_request::{FollowUp, Jitter, OnConflict, Priority, RetryPolicy, TaskRequest},
        text::{DurationText, InstantText},
    },
    client::{NewStart, StartTime, Task},
    limits::REQUEST_BYTES_MAX,
};

/// A task to register.
#[derive(Debug, Clone, Default, Args)]
#[command(group(ArgGroup::new("target").args(["callback", "http", "topic"]).required(true).multiple(true)))]
pub(super) struct RegisterArgs {
    /// Callback that executes it.
    #[arg(long, value_name = "NAME", conflicts_with = "topic")]
    callback: Option<String>,
    /// URL that its payload is sent to by the service, by the rules of --callback or of `http:` and the host.
    #[arg(long, value_name = "URL", conflicts_with = "topic")]
    http: Option<String>,
    /// Method of that request: POST, PUT, PATCH, DELETE or GET.
    #[arg(long, value_name = "METHOD", requires = "http")]
    http_method: Option<String>,
    /// Header of that request; may be repeated.
    #[arg(long = "http-header", value_name = "NAME=VALUE", value_parser = pair, requires = "http")]
    http_headers: Vec<(String, String)>,
    /// How long an attempt of that request may take.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text, requires = "http")]
    http_timeout: Option<DurationText>,
    /// Kafka topic that its payload is published to, instead of a callback.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Start it this long from now, such as 90s or "1h 30m"; without --delay and --at it starts now.
    #[arg(long, value_name = "DURATION", conflicts_with = "at", value_parser = times::duration_text)]
    delay: Option<DurationText>,
    /// Start it at this time: RFC 3339 with an offset, such as 2030-01-31T09:00:00Z, or from now, such as 2h.
    #[arg(long, value_name = "TIME", value_parser = times::start)]
    at: Option<NewStart>,
    /// Payload as JSON.
    #[arg(long, value_name = "JSON", conflicts_with = "payload_file")]
    payload: Option<String>,
    /// File with the payload, - for standard input: JSON if it is valid JSON, else bytes.
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// Media type of the payload; if it is not application/json, the payload is sent as bytes.
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Subset of the callback's tasks that it belongs to.
    #[arg(long, value_name = "NAME", conflicts_with = "topic")]
    collection: Option<String>,
    /// Queue of the callback that it travels in: high, normal, low.
    #[arg(long, value_name = "PRIORITY", value_parser = priority)]
    priority: Option<Priority>,
    /// A label; may be repeated.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// How often it may be tried.
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u32>,
    /// Wait after the first failed attempt.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text, conflicts_with = "topic")]
    retry_initial: Option<DurationText>,
    /// How many times longer each further wait is.
    #[arg(long, value_name = "FACTOR", conflicts_with = "topic")]
    retry_factor: Option<f64>,
    /// Longest wait between attempts.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text, conflicts_with = "topic")]
    retry_max: Option<DurationText>,
    /// How waits are spread: full (from zero to the computed wait) or none (exactly that wait).
    #[arg(long, value_name = "JITTER", value_parser = jitter, conflicts_with = "topic")]
    retry_jitter: Option<Jitter>,
    /// How long it may stay unclaimed before it is published again.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    claim_timeout: Option<DurationText>,
    /// How long an attempt lives after its claim or its last heartbeat.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    heartbeat_timeout: Option<DurationText>,
    /// How long an attempt may take in all, however alive its worker is.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    attempt_timeout: Option<DurationText>,
    /// How long after its start time it is still useful.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    expire_after: Option<DurationText>,
    /// How long it can be read once it has ended.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    retention: Option<DurationText>,
    /// How long it can be read and redriven once it is dead.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    dead_retention: Option<DurationText>,
    /// Topic of Kafka in which its end is told by a record.
    #[arg(long, value_name = "TOPIC", conflicts_with = "topic", group = "notify")]
    notify_topic: Option<String>,
    /// URL to which its end is told by a request.
    #[arg(long, value_name = "URL", conflicts_with = "topic", group = "notify")]
    notify_http: Option<String>,
    /// An end that is told: succeeded, failed, cancelled, expired or dead, completed or faulted of a task with children,
    /// of which cancelled is also the end of the tree; may be repeated, without it all ends of its own run are.
    #[arg(long = "notify-state", value_name = "STATE", value_parser = super::list::end, requires = "notify")]
    notify_states: Vec<EndState>,
    /// Thing that the service does when it ends, as JSON (docs/actions.md); may be repeated.
    #[arg(long = "action", value_name = "JSON", value_parser = json::<Action>, conflicts_with = "topic")]
    actions: Vec<Action>,
    /// Question that is asked at a time, and what is done by its answer, as JSON (docs/actions.md); may be repeated.
    #[arg(long = "check", value_name = "JSON", value_parser = json::<Check>, conflicts_with = "topic")]
    checks: Vec<Check>,
    /// Task that is registered when it ends, as JSON (docs/chains.md): {"task": {...}, "with_result": true}; may be repeated.
    #[arg(long = "then", value_name = "JSON", value_parser = json::<FollowUp>, conflicts_with = "topic")]
    then: Vec<FollowUp>,
    /// Id that you made for it, with --at the start that it carries; the same id is one task (docs/keys.md).
    #[arg(long, value_name = "UUID", requires = "at")]
    id: Option<String>,
    /// Mark of the registration: for a day, the same mark with the same task is one task.
    #[arg(long, value_name = "TEXT")]
    idempotency_key: Option<String>,
    /// Key of the task, of which at most one of the callback is live; with --topic the key of the record.
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// Key of its sequence: tasks of the callback with the same one run one at a time, in the order of their starts.
    #[arg(long, value_name = "TEXT", conflicts_with = "topic")]
    ordering_key: Option<String>,
    /// Id of the task that it is a child of: one that has not ended, with its tree if it has children already.
    #[arg(long, value_name = "ID", conflicts_with_all = ["topic", "key"])]
    parent: Option<String>,
    /// Starts it when the own run of its parent has succeeded; it is cancelled if that run ends otherwise.
    #[arg(long, requires = "parent")]
    after_parent: bool,
    #[command(flatten)]
    wait: WaitArgs,
    /// Says that children will be added to it: it has a tree from the beginning.
    #[arg(long, conflicts_with = "topic")]
    may_have_children: bool,
    /// Holds its tree open for children to come, for so long behind the end of its own run, such as 1h; at most 30d.
    #[arg(long, value_name = "DURATION", requires = "may_have_children", value_parser = times::duration_text)]
    children_within: Option<DurationText>,
    /// Says that it is the last child: the tree of its parent is held open no longer.
    #[arg(long, requires = "parent")]
    children_complete: bool,
    /// The outcome when the key names a live task: reject (fail), ignore (show that task) or replace (cancel it).
    #[arg(long, value_name = "WISH", value_parser = on_conflict, requires = "key", conflicts_with = "topic")]
    on_conflict: Option<OnConflict>,
    /// Header of the record; may be repeated.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "callback")]
    headers: Vec<(String, String)>,
    /// Partition of the record.
    #[arg(long, value_name = "NUMBER", conflicts_with = "callback")]
    partition: Option<i32>,
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=');
    let (name, value) = pair.ok_or_else(|| "expected NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads a rate as tasks in a second: a number, alone or in a unit of time, such as 50/s, 3/m or 10/h.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("expected tasks in a time, such as 50/s, 3/m or 10/h, found {text:?}");
    let (count, unit) = text.split_once('/').unwrap_or((text, "s"));
    let count: f64 = count.trim().parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Ok(count / seconds)
}

/// Reads a value as the service would read it.
fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("{error}; docs/actions.md and docs/chains.md have examples"))
}

pub(super) fn priority(text: &str) -> Result<Priority, String> {
    match text {
        "high" => Ok(Priority::High),
        "normal" => Ok(Priority::Normal),
        "low" => Ok(Priority::Low),
        _ => Err("expected high, normal or low".to_owned()),
    }
}

fn on_conflict(text: &str) -> Result<OnConflict, String> {
    match text {
        "reject" => Ok(OnConflict::Reject),
        "ignore" => Ok(OnConflict::Ignore),
        "replace" => Ok(OnConflict::Replace),
        _ => Err("expected reject, ignore or replace".to_owned()),
    }
}

pub(super) fn jitter(text: &str) -> Result<Jitter, String> {
    match text {
        "full" => Ok(Jitter::Full),
        "none" => Ok(Jitter::None),
        _ => Err("expected full or none".to_owned()),
    }
}

impl RegisterArgs {
    /// Returns where its end is told.
    fn notify(&self) -> Option<Notify> {
        let http = self.notify_http.clone().map(|url| HttpTarget {
            url,
            ..HttpTarget::default()
        });
        let kafka = self.notify_topic.clone().map(|topic| NotifyKafka { topic });
        let is_given = kafka.is_some() || http.is_some();
        let states = (!self.notify_states.is_empty()).then(|| self.notify_states.clone());
        is_given.then_some(Notify {
            kafka,
            http,
            states,
        })
    }

    /// Returns the request that it is.
    fn http(&self) -> Option<HttpTarget> {
        let headers: BTreeMap<String, String> = self.http_headers.iter().cloned().collect();
        self.http.clone().map(|url| HttpTarget {
            url,
            method: self.http_method.clone(),
            headers: (!headers.is_empty()).then_some(headers),
            timeout: self.http_timeout.clone(),
        })
    }

    /// Returns the task.
    pub(super) fn task(self) -> Result<Task, Failure> {
        let (payload, payload_base64) = self.content()?;
        let (notify, http) = (self.notify(), self.http());
        let retry = self.retry();
        let labels: BTreeMap<String, String> = self.labels.into_iter().collect();
        let headers = self.headers.into_iter().map(|(name, value)| KafkaHeader {
            name,
            value: Some(value),
            value_base64: None,
        });
        let headers: Vec<KafkaHeader> = headers.collect();
        let (key, record_key) = match &self.topic {
            Some(_) => (None, self.key),
            None => (self.key, None),
        };
        let kafka = self.topic.map(|topic| KafkaTarget {
            topic,
            key: record_key,
            key_base64: None,
            headers: (!headers.is_empty()).then_some(KafkaHeaders::List(headers)),
            partition: self.partition,
        });
        let (start_time, delay) = start(self.at, self.delay);
        Ok(Task::from(TaskRequest {
            callback: self.callback.map(CallbackTarget::Name),
            http,
            kafka,
            id: self.id,
            idempotency_key: self.idempotency_key,
            key,
            on_conflict: self.on_conflict,
            ordering_key: self.ordering_key,
            parent: self.parent,
            after_parent: self.after_parent,
            after: self.wait.after(),
            children: self.may_have_children.then(Vec::new),
            children_within: self.children_within,
            children_complete: self.children_complete,
            collection: self.collection,
            start_time,
            delay,
            payload,
            payload_base64,
            content_type: self.content_type,
            priority: self.priority,
            max_attempts: self.max_attempts,
            retry,
            claim_timeout: self.claim_timeout,
            heartbeat_timeout: self.heartbeat_timeout,
            attempt_timeout: self.attempt_timeout,
            expire_after: self.expire_after,
            dead_retention: self.dead_retention,
            notify,
            actions: (!self.actions.is_empty()).then_some(self.actions),
            checks: (!self.checks.is_empty()).then_some(self.checks),
            then: (!self.then.is_empty()).then_some(self.then),
            retention: self.retention,
            labels: (!labels.is_empty()).then_some(labels),
        }))
    }

    /// Returns the retry rule; none when no flag sets a part of it.
    fn retry(&self) -> Option<RetryPolicy> {
        let policy = RetryPolicy {
            initial: self.retry_initial.clone(),
            factor: self.retry_factor,
            max: self.retry_max.clone(),
            jitter: self.retry_jitter,
        };
        let given = policy.initial.is_some()
            || policy.factor.is_some()
            || policy.max.is_some()
            || policy.jitter.is_some();
        given.then_some(policy)
    }

    /// Returns the payload as JSON or as base64.
    fn content(&self) -> Result<(Option<Box<RawValue>>, Option<String>), Failure> {
        let json_wanted = self
            .content_type
            .as_deref()
            .is_none_or(|t| t == "application/json");
        if let Some(text) = &self.payload {
            if !json_wanted {
                return Ok((None, Some(STANDARD.encode(text))));
            }
            let raw = RawValue::from_string(text.clone());
            let raw =
                raw.map_err(|error| Failure::usage(format!("--payload is not JSON: {error}")))?;
            return Ok((Some(raw), None));
        }
        let Some(path) = &self.payload_file else {
            return Ok((None, None));
        };
        let bytes = input::whole(path, REQUEST_BYTES_MAX)?;
        let text = std::str::from_utf8(&bytes).ok().filter(|_| json_wanted);
        let raw = text.and_then(|text| RawValue::from_string(text.to_owned()).ok());
        let base64 = raw.is_none().then(|| STANDARD.encode(&bytes));
        Ok((raw, base64))
    }
}

fn start(
    at: Option<NewStart>,
    delay: Option<DurationText>,
) -> (Option<InstantText>, Option<DurationText>) {
    match at {
        Some(NewStart::At(StartTime(at))) => (Some(at), None),
        Some(NewStart::In(after)) => (None, Some(after)),
        None => (None, delay),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Parser)]
    struct Parsed {
        #[command(flatten)]
        register: RegisterArgs,
    }

    fn written(flags: &[&str]) -> serde_json::Value {
        let parsed = Parsed::try_parse_from([&["register"], flags].concat()).unwrap();
        serde_json::to_value(parsed.register.task().unwrap().request()).unwrap()
    }

    #[test]
    fn flags_become_the_request() {
        let flags = [
            "--callback",
            "c",
            "--delay",
            "1h 30m",
            "--payload",
            r#"{"n": 1.50}"#,
            "--label",
            "a=b=c",
            "--priority",
            "low",
            "--max-attempts",
            "3",
        ];
        let wanted = json!({
            "callback": "c", "delay": "1h 30m", "payload": {"n": 1.5}, "labels": {"a": "b=c"},
            "priority": "low", "max_attempts": 3,
        });
        assert_eq!(written(&flags), wanted);
    }

    #[test]
    fn a_start_may_count_from_now_and_a_retry_rule_has_its_flags() {
        let flags = [
            "--callback",
            "c",
            "--at",
            "2h",
            "--retry-initial",
            "10s",
            "--retry-factor",
            "5",
        ];
        let wanted =
            json!({"callback": "c", "delay": "2h", "retry": {"initial": "10s", "factor": 5.0}});
        assert_eq!(written(&flags), wanted);
        let flags = [
            "--callback",
            "c",
            "--retry-max",
            "12h",
            "--retry-jitter",
            "none",
        ];
        let wanted = json!({"callback": "c", "retry": {"max": "12h", "jitter": "none"}});
        assert_eq!(written(&flags), wanted);
    }

    #[test]
    fn a_record_has_key_headers_and_partition() {
        let flags = [
            "--topic",
            "t",
            "--at",
            "2030-01-01T00:00:00Z",
            "--key",
            "k",
            "--header",
            "h=v",
            "--partition",
            "3",
            "--payload",
            "plain",
            "--content-type",
            "text/plain",
        ];
        let wanted = json!({
            "kafka": {"topic": "t", "key": "k", "headers": [{"name": "h", "value": "v"}], "partition": 3},
            "start_time": "2030-01-01T00:00:00Z", "payload_base64": "cGxhaW4=", "content_type": "text/plain",
        });
        assert_eq!(written(&flags), wanted);
    }

    #[test]
    fn a_file_is_json_if_it_can_be() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        std::fs::write(path, "[1]\n").unwrap();
        let flags = ["--callback", "c", "--payload-file", path];
        assert_eq!(written(&flags), json!({"callback": "c", "payload": [1]}));
        std::fs::write(path, [0xff]).unwrap();
        assert_eq!(
            written(&flags),
            json!({"callback": "c", "payload_base64": "/w=="})
        );
    }

    #[test]
    fn contradictory_flags_are_refused() {
        for flags in [
            vec!["--delay", "1s"],
            vec!["--callback", "c", "--topic", "t"],
            vec!["--callback", "c", "--delay", "1s", "--at", "x"],
            vec!["--callback", "c", "--on-conflict", "ignore"],
            vec!["--callback", "c", "--key", "k", "--on-conflict", "x"],
            vec!["--topic", "t", "--key", "k", "--on-conflict", "ignore"],
            vec!["--topic", "t", "--ordering-key", "k"],
            vec!["--callback", "c", "--id", "x"],
            vec!["--topic", "t", "--retry-max", "1h"],
            vec!["--callback", "c", "--delay", "14 fortnights"],
            vec!["--callback", "c", "--at", "tomorrow"],
        ] {
            assert!(
                Parsed::try_parse_from([&["register"], flags.as_slice()].concat()).is_err(),
                "{flags:?}"
            );
        }
    }
}
