//! The field names translate refusals of the service for the user: a flag is named as it was typed.

use super::Failure;
use crate::client::{Error, Problem};

/// Fields and query parameters of the service, and the flags they come from. A field stands behind the fields in it.
const FLAGS: [(&str, &str); 105] = [
    ("/callback", "--callback"),
    ("/callbacks", "--callback"),
    ("/kafka/topic", "--topic"),
    ("/kafka/key", "--key"),
    ("/kafka/headers", "--header"),
    ("/kafka/partition", "--partition"),
    ("/kafka", "--topic"),
    ("/http/url", "--http"),
    ("/http/method", "--http-method"),
    ("/http/headers", "--http-header"),
    ("/http/timeout", "--http-timeout"),
    ("/http/secrets", "--http-secret"),
    ("/http/max_in_flight", "--http-max-in-flight"),
    ("/http", "--http"),
    ("/notify/states", "--notify-state"),
    ("/notify/http", "--notify-http"),
    ("/notify", "--notify-topic"),
    ("/actions", "--action"),
    ("/checks", "--check"),
    ("/then", "--then"),
    ("/start_time", "--at"),
    ("/delay", "--delay"),
    ("/id", "--id"),
    ("/idempotency_key", "--idempotency-key"),
    ("/key", "--key"),
    ("/on_conflict", "--on-conflict"),
    ("/payload", "--payload"),
    ("/payload_base64", "--payload"),
    ("/content_type", "--content-type"),
    ("/collection", "--collection"),
    ("/priority", "--priority"),
    ("/ordering_key", "--ordering-key"),
    ("/parent", "--parent"),
    ("/children", "--may-have-children"),
    ("/attempt", "--attempt"),
    ("/children_within", "--children-within"),
    ("/children_complete", "--children-complete"),
    ("/after_parent", "--after-parent"),
    ("/after/ids", "--after"),
    ("/after/condition", "--after-condition"),
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
    ("/description", "--description"),
    ("/on_retry", "--on-retry"),
    ("/list_succeeded", "--list-succeeded"),
    ("/rate/burst", "--burst"),
    ("/rate", "--rate"),
    ("/max_in_flight", "--max-in-flight"),
    ("/reason", "--reason"),
    ("/until", "--until"),
    ("/filter/callback", "--filter callback"),
    ("/filter/collection", "--filter collection"),
    ("/filter/state", "--filter state"),
    ("/filter/start_time_from", "--filter start_time_from"),
    ("/filter/start_time_to", "--filter start_time_to"),
    ("/filter/error", "--filter error"),
    ("/filter", "--filter"),
    ("/rate_per_second", "--rate"),
    ("/error", "--error"),
    ("?callback", "--callback"),
    ("?collection", "--collection"),
    ("?labels", "--label"),
    ("?error", "--error"),
    ("?state", "--state"),
    ("?roots", "--roots"),
    ("?schedule", "--schedule"),
    ("?key", "--key"),
    ("?start_time_from", "--from"),
    ("?start_time_to", "--to"),
    ("?internal", "--internal"),
    ("?count", "--count"),
    ("/cron", "--cron"),
    ("/every", "--every"),
    ("/time_zone", "--time-zone"),
    ("/end_time", "--end"),
    ("/limit", "--limit"),
    ("/jitter", "--jitter"),
    ("/overlap", "--overlap"),
    ("/missed", "--missed"),
    ("/catch_up_window", "--catch-up-window"),
    ("/pause_on_failure", "--pause-on-failure"),
    ("/note", "--note"),
    ("/paused", "--paused"),
    ("/task", "--task"),
    ("/who", "--who"),
    ("/from", "--from"),
    ("/to", "--to"),
    ("/name", "--name"),
    ("/role", "--role"),
    ("/expire_time", "--expires"),
    ("/payloads", "--payloads"),
];

/// Fields of a schedule that other commands give by other flags.
const FLAGS_OF_SCHEDULES: [(&str, &str); 1] = [("/start_time", "--start")];

/// Returns the flag of a field; of a label or a header, the flag that gave it.
fn flag(own: &[(&str, &'static str)], pointer: &str) -> Option<&'static str> {
    let comes_from = |(field, _): &&(&str, &str)| {
        let rest = pointer.strip_prefix(field);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut flags = own.iter().chain(&FLAGS);
    flags.find(comes_from).map(|(_, flag)| *flag)
}

/// Translates a failed call into the names of the flags.
pub(super) fn by_flags(error: Error) -> Failure {
    translated(&[], error)
}

/// Translates a failed call about a schedule into the names of its flags.
pub(super) fn by_flags_of_schedule(error: Error) -> Failure {
    translated(&FLAGS_OF_SCHEDULES, error)
}

fn translated(own: &[(&str, &'static str)], error: Error) -> Failure {
    match error {
        Error::Refused { problem } => Error::Refused {
            problem: Box::new(renamed(own, *problem)),
        }
        .into(),
        other => other.into(),
    }
}

fn renamed(own: &[(&str, &'static str)], mut problem: Problem) -> Problem {
    for error in &mut problem.errors {
        if let Some(flag) = flag(own, &error.pointer) {
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
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory as _};

    use super::*;
    use crate::cli::Cli;

    /// Commands that send fields to the service.
    const SENDERS: [&str; 6] = [
        "task",
        "dead-letter",
        "job",
        "schedule",
        "callback",
        "api-key",
    ];

    /// Flags of these commands that give no field that the service could refuse: how the service is reached, what is read
    /// and printed here, and how the command goes about its work.
    const NOT_FIELDS: [&str; 30] = [
        "all",
        "api-key",
        "api-key-file",
        "attempt",
        "batch",
        "ca",
        "client-cert",
        "client-key",
        "concurrency",
        "config",
        "depth",
        "dry-run",
        "errors",
        "file",
        "help",
        "keyspace",
        "no-wait",
        "output",
        "payload-file",
        "prefix",
        "request-header",
        "results",
        "server",
        "skip",
        "store",
        "system",
        "time",
        "tree",
        "version",
        "wait",
    ];

    /// Flags that give a field of another name, or a parameter of a query.
    const NAMED_OTHERWISE: [&str; 14] = [
        "at",
        "burst",
        "count",
        "end",
        "expires",
        "header",
        "internal",
        "may-have-children",
        "partition",
        "roots",
        "schedule",
        "start",
        "state",
        "topic",
    ];

    /// Tells whether the field of a flag's own name is named by that flag: of `--http-header` it is `/http/headers`.
    fn has_its_field(name: &str) -> bool {
        let plain = name.replace('-', "_");
        let nested = name.replacen('-', "/", 1).replace('-', "_");
        let fields = [
            format!("/{plain}"),
            format!("/{plain}s"),
            format!("/{nested}"),
            format!("/{nested}s"),
        ];
        let own = format!("--{name}");
        fields.iter().any(|field| flag(&[], field) == Some(&*own))
    }

    fn flags_of(command: &Command, found: &mut BTreeSet<String>) {
        let flags = command.get_arguments().filter_map(|arg| arg.get_long());
        found.extend(flags.map(str::to_owned));
        for below in command.get_subcommands() {
            flags_of(below, found);
        }
    }

    #[test]
    fn each_flag_of_a_command_that_sends_fields_is_named_in_refusals() {
        let mut program = Cli::command();
        program.build();
        let senders = program.get_subcommands();
        let senders = senders.filter(|command| SENDERS.contains(&command.get_name()));
        let mut all = BTreeSet::new();
        for command in senders {
            flags_of(command, &mut all);
        }
        let named = FLAGS.iter().chain(&FLAGS_OF_SCHEDULES);
        let named: BTreeSet<String> = named
            .filter_map(|(_, flag)| flag.trim_start_matches("--").split(' ').next())
            .map(str::to_owned)
            .collect();
        // The store of `api-key` is opened here.
        let is_no_field = |flag: &str| {
            NOT_FIELDS.contains(&flag) || flag.starts_with("cassandra") || flag == "data-dir"
        };
        let missing: Vec<&String> = all
            .iter()
            .filter(|flag| !named.contains(*flag) && !is_no_field(flag))
            .collect();
        assert!(missing.is_empty(), "no field is named by {missing:?}");
        let unknown: Vec<&String> = named.difference(&all).collect();
        assert!(unknown.is_empty(), "no command has {unknown:?}");
        let has_field =
            |name: &&String| has_its_field(name) || NAMED_OTHERWISE.contains(&name.as_str());
        let lost: Vec<&String> = named.iter().filter(|name| !has_field(name)).collect();
        assert!(
            lost.is_empty(),
            "no field of the same name is named by {lost:?}"
        );
    }

    #[test]
    fn a_field_is_named_by_its_flag() {
        let flag = |pointer| flag(&[], pointer);
        assert_eq!(flag("/claim_timeout"), Some("--claim-timeout"));
        assert_eq!(flag("/labels/tenant"), Some("--label"));
        assert_eq!(flag("/kafka/headers/1/value"), Some("--header"));
        assert_eq!(flag("/kafka"), Some("--topic"));
        assert_eq!(flag("/retry/max"), Some("--retry-max"));
        let to = flag("/filter/start_time_to");
        assert_eq!(to, Some("--filter start_time_to"));
        assert_eq!(flag("/filter/labels/tenant"), Some("--filter"));
        assert_eq!(flag("/callbacks/1"), Some("--callback"));
        assert_eq!(flag("/keys"), None);
        assert_eq!(flag(""), None);
    }

    #[test]
    fn the_start_of_a_schedule_has_a_flag_of_its_own() {
        assert_eq!(flag(&[], "/start_time"), Some("--at"));
        assert_eq!(flag(&FLAGS_OF_SCHEDULES, "/start_time"), Some("--start"));
        assert_eq!(flag(&FLAGS_OF_SCHEDULES, "/end_time"), Some("--end"));
    }

    #[test]
    fn no_field_is_hidden_by_one_before_it() {
        for (field, named) in FLAGS {
            assert_eq!(flag(&[], field), Some(named), "{field}");
        }
    }
}
