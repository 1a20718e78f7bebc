//! The table of foreign words names to authors of requests the field that another timer service, queue or scheduler calls
//! otherwise.

/// The words of others, and the fields here. A field that a request does not have is passed over.
const WORDS: [(&[&str], &[&str]); 13] = [
    (
        &[
            "run_at",
            "due",
            "due_time",
            "due_at",
            "eta",
            "at",
            "when",
            "execute_at",
            "fire_at",
            "scheduled_at",
            "scheduled_for",
            "schedule_time",
            "start_at",
            "not_before",
            "time",
        ],
        &["start_time"],
    ),
    (
        &["countdown", "delay_seconds", "delay_ms", "wait"],
        &["delay"],
    ),
    (
        &[
            "data",
            "args",
            "kwargs",
            "arguments",
            "body",
            "params",
            "message",
            "input",
        ],
        &["payload"],
    ),
    (
        &[
            "queue",
            "queue_name",
            "topic",
            "function",
            "handler",
            "job",
            "task_name",
            "type",
            "kind",
            "tube",
        ],
        &["callback"],
    ),
    (&["url", "uri", "endpoint", "webhook"], &["http"]),
    (
        &["tags", "metadata", "annotations", "attributes"],
        &["labels"],
    ),
    (
        &[
            "max_retries",
            "retries",
            "retry_count",
            "max_tries",
            "attempts",
        ],
        &["max_attempts"],
    ),
    (&["backoff", "retry_policy", "retry_strategy"], &["retry"]),
    (
        &[
            "ttr",
            "visibility_timeout",
            "lease",
            "ack_deadline",
            "heartbeat",
        ],
        &["heartbeat_timeout"],
    ),
    (
        &[
            "timeout",
            "execution_timeout",
            "max_run_time",
            "start_to_close_timeout",
        ],
        &["attempt_timeout"],
    ),
    (
        &["ttl", "expires", "expires_in", "expiration", "deadline"],
        &["expire_after"],
    ),
    (&["timezone", "tz", "zone"], &["time_zone"]),
    (
        &[
            "unique_key",
            "dedup_id",
            "deduplication_id",
            "job_id",
            "jobid",
            "workflow_id",
        ],
        &["key"],
    ),
];

/// Returns the field that a word of others means, if it is among the known ones. Capitals and underscores do not matter.
pub(super) fn meant<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let word = plain(word);
    let of_word = |(words, _): &&(&[&str], &[&str])| words.iter().any(|one| plain(one) == word);
    let (_, fields) = WORDS.iter().find(of_word)?;
    known.iter().copied().find(|field| fields.contains(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_mean_a_field_that_is_known() {
        let known = ["callback", "start_time", "payload", "expire_after"];
        for (word, field) in [
            ("run_at", "start_time"),
            ("runAt", "start_time"),
            ("scheduled-for", "start_time"),
            ("queueName", "callback"),
            ("args", "payload"),
            ("TTL", "expire_after"),
        ] {
            assert_eq!(meant(word, &known), Some(field), "{word}");
        }
        assert_eq!(meant("tz", &known), None);
        assert_eq!(meant("colour", &known), None);
    }

    #[test]
    fn no_word_means_two_fields() {
        let all: Vec<&str> = WORDS
            .iter()
            .flat_map(|(words, _)| *words)
            .copied()
            .collect();
        let once: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(once.len(), all.len());
    }
}
