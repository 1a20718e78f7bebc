//! The field names translate refusals of the service for the user: a flag is named as it was typed.

use super::Failure;
use crate::client::{Error, Problem};

/// Fields and query parameters of the service, and the flags they come from.
const FLAGS: [(&str, &str); 72] = [
    ("/callback", "--callback"),
    ("/kafka/topic", "--topic"),
    ("/http/url", "--http"),
    ("/http/method", "--http-method"),
    ("/http/headers", "--http-header"),
    ("/http/timeout", "--http-timeout"),
    ("/http/secrets", "--http-secret"),
    ("/notify/states", "--notify-state"),
    ("/notify/http", "--notify-http"),
    ("/notify", "--notify-topic"),
    ("/actions", "--action"),
    ("/checks", "--check"),
    ("/then", "--then"),
    ("/kafka/key", "--key"),
    ("/kafka/headers", "--header"),
    ("/kafka/partition", "--partition"),
    ("/start_time", "--at"),
    ("/delay", "--delay"),
    ("/payload", "--payload"),
    ("/payload_base64", "--payload"),
    ("/content_type", "--content-type"),
    ("/collection", "--collection"),
    ("/priority", "--priority"),
    ("/ordering_key", "--ordering-key"),
    ("/parent", "--parent"),
    ("/children", "--may-have-children"),
    ("/after_parent", "--after-parent"),
    ("/after/ids", "--after"),
    ("/after/deadline", "--after-deadline"),
    ("/after/later", "--after-later"),
    ("/after", "--after"),
    ("/labels", "--label"),
    ("/max_attempts", "--max-attempts"),
    ("/retry/initial", "--retry-initial"),
    ("/retry/factor", "--retry-factor"),
    ("/retry/max", "--retry-max"),
    ("/retry/jitter", "--retry-jitter"),
    ("/claim_timeout", "--claim-timeout"),
    ("/heartbeat_timeout", "--heartbeat-timeout"),
    ("/attempt_timeout", "--attempt-timeout"),
    ("/expire_after", "--expire-after"),
    ("/retention", "--retention"),
    ("/dead_retention", "--dead-retention"),
    ("/dead_letter_topic", "--dead-letter-topic"),
    ("/on_retry", "--on-retry"),
    ("/list_succeeded", "--list-succeeded"),
    ("/rate/per_second", "--rate"),
    ("/rate/burst", "--burst"),
    ("/max_in_flight", "--max-in-flight"),
    ("/filter/callback", "--filter callback"),
    ("/filter/collection", "--filter collection"),
    ("/filter/state", "--filter state"),
    ("/filter/start_time_from", "--filter start_time_from"),
    ("/filter/start_time_to", "--filter start_time_to"),
    ("/filter/error", "--filter error"),
    ("/filter", "--filter"),
    ("/rate_per_second", "--rate"),
    ("?callback", "--callback"),
    ("?key", "--key"),
    ("?start_time_from", "--from"),
    ("?start_time_to", "--to"),
    ("/cron", "--cron"),
    ("/every", "--every"),
    ("/time_zone", "--time-zone"),
    ("/end_time", "--end"),
    ("/limit", "--limit"),
    ("/jitter", "--jitter"),
    ("/overlap", "--overlap"),
    ("/missed", "--missed"),
    ("/catch_up_window", "--catch-up-window"),
    ("/note", "--note"),
    ("/task", "--task"),
];

/// Returns the flag of a field; of a label or a header, the flag that gave it.
fn flag(pointer: &str) -> Option<&'static str> {
    let comes_from = |(field, _): &&(&str, &str)| {
        let rest = pointer.strip_prefix(field);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    FLAGS.iter().find(comes_from).map(|(_, flag)| *flag)
}

/// Translates a failed call into the names of the flags.
pub(super) fn by_flags(error: Error) -> Failure {
    match error {
        Error::Refused { problem } => Error::Refused {
            problem: Box::new(renamed(*problem)),
        }
        .into(),
        other => other.into(),
    }
}

fn renamed(mut problem: Problem) -> Problem {
    for error in &mut problem.errors {
        if let Some(flag) = flag(&error.pointer) {
            // The service's text about a field begins with its pointer.
            problem.detail = problem
                .detail
                .replace(&format!("{}: ", error.pointer), &format!("{flag}: "));
            flag.clone_into(&mut error.pointer);
        }
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_named_by_its_flag() {
        assert_eq!(flag("/claim_timeout"), Some("--claim-timeout"));
        assert_eq!(flag("/labels/tenant"), Some("--label"));
        assert_eq!(flag("/kafka/headers/1/value"), Some("--header"));
        assert_eq!(flag("/retry/max"), Some("--retry-max"));
        let to = flag("/filter/start_time_to");
        assert_eq!(to, Some("--filter start_time_to"));
        assert_eq!(flag("/filter/labels/tenant"), Some("--filter"));
        assert_eq!(flag("/callbacks"), None);
        assert_eq!(flag(""), None);
    }
}
