//! The table of rules says for each call of the API which right it needs, what it concerns, and whether it changes anything.
//!
//! A route without a rule fails a test, and until then only an administrator may call it.

use axum::http::Method;

use crate::model::access::Need;

/// How the callbacks that a call concerns are found, for keys that are limited to some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Scope {
    /// It concerns no callback.
    Free,
    /// The path names a task.
    Task,
    /// The path names a job: of the tasks of one callback, or of several.
    Job,
    /// The path names a schedule. One that is not there is left to the handler.
    Schedule,
    /// The path names a callback.
    Callback,
    /// The query names a callback, and must.
    Query,
    /// The body says it: the handler checks.
    Body,
    /// The handler leaves out what the key does not cover.
    Filtered,
    /// It concerns all callbacks: a limited key may not make it.
    Whole,
}

/// The effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Effect {
    /// It changes nothing.
    Reads,
    /// It changes tasks that it names.
    Changes,
    /// It changes the configuration or many tasks, so it is audited.
    Audited,
}

/// The rule of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) struct Rule {
    pub(in crate::http) method: &'static str,
    pub(in crate::http) path: &'static str,
    /// The id of the operation in the description.
    pub(in crate::http) action: &'static str,
    pub(in crate::http) need: Need,
    pub(in crate::http) scope: Scope,
    pub(in crate::http) effect: Effect,
}

/// The rule of a route without a rule.
const STRICTEST: Rule = rule("*", "*", "unknown", Administer, Whole, AUDITED);

const READS: Effect = Effect::Reads;
const CHANGES: Effect = Effect::Changes;
const AUDITED: Effect = Effect::Audited;

const fn rule(
    method: &'static str,
    path: &'static str,
    action: &'static str,
    need: Need,
    scope: Scope,
    effect: Effect,
) -> Rule {
    Rule {
        method,
        path,
        action,
        need,
        scope,
        effect,
    }
}

use Need::{Administer, Key, Look, Monitor, Nothing, Operate, Produce, Read, Work};
use Scope::{Body, Callback, Filtered, Free, Job, Query, Schedule, Task, Whole};

#[rustfmt::skip]
pub(in crate::http) const RULES: &[Rule] = &[
    rule("GET", "/livez", "livez", Nothing, Free, READS),
    rule("GET", "/readyz", "readyz", Nothing, Free, READS),
    rule("GET", "/startupz", "startupz", Nothing, Free, READS),
    rule("GET", "/openapi.json", "openapi", Nothing, Free, READS),
    rule("GET", "/docs", "docs", Nothing, Free, READS),
    rule("GET", "/docs/", "docs", Nothing, Free, READS),
    rule("GET", "/docs/{*rest}", "docs", Nothing, Free, READS),
    rule("GET", "/problems/{code}", "problem", Nothing, Free, READS),
    rule("GET", "/assets/page.css", "style", Nothing, Free, READS),
    rule("GET", "/", "page", Look, Whole, READS),
    rule("GET", "/metrics", "metrics", Monitor, Whole, READS),
    rule("GET", "/v1/stats", "getStats", Look, Whole, READS),
    rule("GET", "/v1/cluster", "getCluster", Look, Whole, READS),
    rule("GET", "/v1/whoami", "whoAmI", Key, Free, READS),
    rule("GET", "/v1/ids", "getIds", Key, Free, READS),

    rule("GET", "/v1/tasks", "listTasks", Read, Query, READS),
    rule("POST", "/v1/tasks", "createTask", Produce, Body, CHANGES),
    rule("POST", "/v1/tasks:batchCreate", "batchCreateTasks", Produce, Body, CHANGES),
    rule("POST", "/v1/tasks:batchCancel", "batchCancelTasks", Produce, Body, CHANGES),
    rule("POST", "/v1/tasks:cancel", "cancelTaskByKey", Produce, Body, CHANGES),
    rule("POST", "/v1/tasks:reschedule", "rescheduleTaskByKey", Produce, Body, CHANGES),
    rule("POST", "/v1/tasks:run", "runTaskByKey", Produce, Body, CHANGES),
    rule("GET", "/v1/tasks/{id}", "getTask", Read, Task, READS),
    rule("GET", "/v1/tasks/{id}/tree", "getTree", Read, Whole, READS),
    rule("POST", "/v1/tasks/{id}/cancel", "cancelTask", Produce, Task, CHANGES),
    rule("POST", "/v1/tasks/{id}/reschedule", "rescheduleTask", Produce, Task, CHANGES),
    rule("POST", "/v1/tasks/{id}/run", "runTask", Produce, Task, CHANGES),
    rule("POST", "/v1/tasks/{id}/retry-failed", "retryFailed", Produce, Whole, CHANGES),
    rule("POST", "/v1/tasks/{id}/redeliver", "redeliverTask", Produce, Task, CHANGES),

    rule("GET", "/v1/callbacks", "listCallbacks", Read, Filtered, READS),
    rule("GET", "/v1/callbacks/{name}", "getCallback", Read, Callback, READS),
    rule("PUT", "/v1/callbacks/{name}", "setCallback", Operate, Callback, AUDITED),
    rule("DELETE", "/v1/callbacks/{name}", "deleteCallback", Operate, Callback, AUDITED),
    rule("POST", "/v1/callbacks/{name}/gate", "setGate", Operate, Callback, AUDITED),

    rule("GET", "/v1/dead-letters", "listDeadLetters", Look, Query, READS),
    rule("GET", "/v1/dead-letters:groups", "groupDeadLetters", Look, Query, READS),
    rule("POST", "/v1/dead-letters/redrive", "redriveDeadLetters", Operate, Body, AUDITED),
    rule("DELETE", "/v1/dead-letters/{id}", "deleteDeadLetter", Operate, Task, AUDITED),

    rule("POST", "/v1/jobs", "createJob", Operate, Body, AUDITED),
    rule("GET", "/v1/jobs", "listJobs", Look, Whole, READS),
    rule("GET", "/v1/jobs/{id}", "getJob", Look, Job, READS),
    rule("POST", "/v1/jobs/{id}/pause", "pauseJob", Operate, Job, AUDITED),
    rule("POST", "/v1/jobs/{id}/resume", "resumeJob", Operate, Job, AUDITED),
    rule("POST", "/v1/jobs/{id}/cancel", "cancelJob", Operate, Job, AUDITED),

    rule("GET", "/v1/schedules", "listSchedules", Look, Whole, READS),
    rule("POST", "/v1/schedules:preview", "checkSchedule", Look, Free, READS),
    rule("GET", "/v1/schedules:export", "exportSchedules", Look, Whole, READS),
    rule("POST", "/v1/schedules:import", "importSchedules", Operate, Whole, AUDITED),
    rule("GET", "/v1/schedules/{name}", "getSchedule", Look, Schedule, READS),
    rule("PUT", "/v1/schedules/{name}", "setSchedule", Operate, Schedule, AUDITED),
    rule("DELETE", "/v1/schedules/{name}", "deleteSchedule", Operate, Schedule, AUDITED),
    rule("GET", "/v1/schedules/{name}/runs", "listScheduleRuns", Look, Schedule, READS),
    rule("GET", "/v1/schedules/{name}/preview", "previewSchedule", Look, Schedule, READS),
    rule("POST", "/v1/schedules/{name}/pause", "pauseSchedule", Operate, Schedule, AUDITED),
    rule("POST", "/v1/schedules/{name}/resume", "resumeSchedule", Operate, Schedule, AUDITED),
    rule("POST", "/v1/schedules/{name}/trigger", "triggerSchedule", Operate, Schedule, AUDITED),
    rule("POST", "/v1/schedules/{name}/backfill", "backfillSchedule", Operate, Whole, AUDITED),

    rule("POST", "/v1/worker/poll", "poll", Work, Body, CHANGES),
    rule("POST", "/v1/worker/leave", "leave", Work, Filtered, CHANGES),
    rule("POST", "/v1/worker/subscribe", "subscribe", Work, Body, CHANGES),
    rule("POST", "/v1/worker/claim", "claim", Work, Body, CHANGES),
    rule("POST", "/v1/worker/heartbeat", "heartbeat", Work, Body, CHANGES),
    rule("POST", "/v1/worker/settle", "settle", Work, Body, CHANGES),

    rule("POST", "/v1/api-keys", "createApiKey", Administer, Whole, AUDITED),
    rule("GET", "/v1/api-keys", "listApiKeys", Administer, Whole, READS),
    rule("DELETE", "/v1/api-keys/{id}", "revokeApiKey", Administer, Whole, AUDITED),
    rule("POST", "/v1/configuration:export", "exportConfiguration", Administer, Whole, AUDITED),
    rule("POST", "/v1/configuration:import", "importConfiguration", Administer, Whole, AUDITED),
    rule("POST", "/v1/backup", "createBackup", Administer, Whole, AUDITED),
    rule("GET", "/v1/audit", "listAudit", Administer, Whole, READS),
];

impl Rule {
    /// Returns the rule of a call that the router has a route for.
    pub(super) fn of(method: &Method, path: &str) -> Self {
        let method = if method == Method::HEAD {
            "GET"
        } else {
            method.as_str()
        };
        let fits = |rule: &&Self| rule.path == path && rule.method == method;
        *RULES.iter().find(fits).unwrap_or(&STRICTEST)
    }

    /// Tells whether the rate of a key never refuses it: an attempt must not be lost because its worker is busy.
    pub(super) fn is_beyond_rates(&self) -> bool {
        matches!(self.action, "heartbeat" | "settle")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_call_of_the_description_has_a_rule_of_its_name() {
        let text = crate::http::handlers::docs::document();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut described = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, call) in item.as_object().unwrap() {
                let method = method.to_uppercase();
                let rule = Rule::of(&method.parse().unwrap(), path);
                assert_ne!(rule, STRICTEST, "{method} {path} has no rule");
                assert_eq!(call["operationId"], rule.action, "{method} {path}");
                described.insert((method, path.clone()));
            }
        }
        for rule in RULES.iter().filter(|rule| rule.path.starts_with("/v1/")) {
            let call = (rule.method.to_owned(), rule.path.to_owned());
            assert!(described.contains(&call), "{call:?} is not described");
        }
    }

    #[test]
    fn a_route_without_a_rule_is_for_administrators() {
        assert_eq!(Rule::of(&Method::GET, "/v1/else"), STRICTEST);
        assert_eq!(Rule::of(&Method::PUT, "/v1/tasks"), STRICTEST);
        assert_eq!(Rule::of(&Method::HEAD, "/v1/tasks").action, "listTasks");
    }

    #[test]
    fn calls_that_change_something_are_no_reads() {
        for rule in RULES {
            let is_read = rule.method == "GET" || rule.action == "checkSchedule";
            assert_eq!(rule.effect == Effect::Reads, is_read, "{rule:?}");
            let weak = matches!(rule.need, Nothing | Key | Read | Look | Monitor);
            assert!(is_read || !weak, "{rule:?}");
        }
    }
}
