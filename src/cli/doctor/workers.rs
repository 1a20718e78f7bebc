//! This look tells an operator whether due tasks wait in vain for workers, according to the running node.

use std::time::Duration;

use super::finding::{Finding, bad, good};
use crate::{
    cli::{Failure, reach},
    client::StatsResponse,
    config::Settings,
    limits::UNCLAIMED_WARN,
};

const ABOUT: &str = "workers";

/// How long the node may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How many callbacks are named.
const NAMED_MAX: usize = 5;

/// Asks the node that listens where the settings say. Returns nothing when none answers, which another look
/// reports.
pub(super) async fn look(settings: &Settings) -> Result<Option<Finding>, Failure> {
    let client = reach::builder(&settings.url(), reach::access_of_environment()?);
    let client = client.build()?.call_limit(ANSWER_MAX);
    Ok(client.stats().await.ok().map(|stats| finding(&stats)))
}

fn finding(stats: &StatsResponse) -> Finding {
    let warn = u64::try_from(UNCLAIMED_WARN.as_millis()).unwrap_or(u64::MAX);
    let unclaimed = &stats.unclaimed;
    let starving = unclaimed.callbacks.iter().filter(|waiting| {
        waiting.oldest_age_ms >= warn && waiting.last_poll_ms.is_none_or(|ago| ago >= warn)
    });
    let starving: Vec<String> = starving
        .take(NAMED_MAX)
        .map(|waiting| {
            let (callback, tasks) = (&waiting.callback, waiting.tasks);
            let oldest = waiting.oldest_age_ms / 1000;
            format!("{tasks} of `{callback}`, the oldest due for {oldest} s")
        })
        .collect();
    let tasks = unclaimed.tasks;
    match (starving.first(), tasks) {
        (Some(_), _) => bad(
            ABOUT,
            format!(
                "no worker has polled for a minute, and due tasks wait: {}: is the worker running, is the callback's name right?",
                starving.join("; ")
            ),
        ),
        (None, 0) => good(ABOUT, "no due task waits for one"),
        (None, _) => good(
            ABOUT,
            format!("{tasks} due tasks wait for one, none for long"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(waiting: &str) -> StatsResponse {
        let text = format!(
            r#"{{"time": "2027-01-15T08:00:00Z", "pending": [], "exact": true, "behind_ms": 0,
            "unclaimed": {{"tasks": 40, "exact": true, "callbacks": [{waiting}]}},
            "node": {{"registered_per_second": 0, "fired_per_second": 0, "settled_per_second": 0}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn tasks_that_nobody_polls_for_are_a_problem() {
        let waiting = |age: u64, polled: &str| {
            format!(
                r#"{{"callback": "x", "tasks": 40, "oldest_due_time": "2027-01-15T07:00:00Z", "oldest_age_ms": {age}{polled}}}"#
            )
        };
        let problem = finding(&stats(&waiting(75_000, ""))).result.unwrap_err();
        assert!(
            problem.contains("40 of `x`, the oldest due for 75 s"),
            "{problem}"
        );
        let polled = r#", "last_poll_ms": 900"#;
        assert!(finding(&stats(&waiting(75_000, polled))).result.is_ok());
        assert!(finding(&stats(&waiting(5000, ""))).result.is_ok());
    }
}
