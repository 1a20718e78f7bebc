//! This look tells an operator whether due tasks wait in vain for workers, according to the running node.

use std::time::Duration;

use crate::{
    cli::{
        Failure,
        finding::{Finding, bad, good},
        reach,
    },
    client::{StatsResponse, UnclaimedCallback},
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

/// Judges by how long the oldest due task of each callback has waited, whoever polls. The last poll says which remedy helps.
fn finding(stats: &StatsResponse) -> Finding {
    let warn = u64::try_from(UNCLAIMED_WARN.as_millis()).unwrap_or(u64::MAX);
    let unclaimed = &stats.unclaimed;
    let aged = unclaimed.callbacks.iter();
    // A task that a limit of its callback holds back asks for no worker.
    let aged = aged.filter(|waiting| waiting.oldest_age_ms >= warn && waiting.cause == "worker");
    let is_polled =
        |waiting: &&UnclaimedCallback| waiting.last_poll_ms.is_some_and(|ago| ago < warn);
    let (slow, starving): (Vec<_>, Vec<_>) = aged.partition(is_polled);
    let mut problems = Vec::new();
    if !starving.is_empty() {
        problems.push(format!(
            "no worker has polled for a minute, and due tasks wait: {}: start workers, or correct the name of the callback \
             in them",
            named(&starving)
        ));
    }
    if !slow.is_empty() {
        problems.push(format!(
            "workers poll, and due tasks wait for a minute and more: {}: add workers, or let each run more at a time; \
             `tickwheel callback get` shows what they have in hand",
            named(&slow)
        ));
    }
    if !problems.is_empty() {
        return bad(ABOUT, problems.join("; "));
    }
    let listed: u64 = unclaimed
        .callbacks
        .iter()
        .map(|waiting| waiting.tasks)
        .sum();
    let tasks = unclaimed.tasks;
    match tasks {
        0 => good(ABOUT, "no due task waits for one"),
        _ if stats.tasks.limited > 0 => good(
            ABOUT,
            format!(
                "{tasks} due tasks wait, {} of them for a limit of their callback",
                stats.tasks.limited
            ),
        ),
        _ if listed < tasks => good(
            ABOUT,
            format!(
                "{tasks} due tasks wait for one; of the {} callbacks with most of them, none for a minute",
                unclaimed.callbacks.len()
            ),
        ),
        _ => good(
            ABOUT,
            format!("{tasks} due tasks wait for one, none for a minute"),
        ),
    }
}

/// Returns the callbacks whose tasks wait, the first of them by name.
fn named(waiting: &[&UnclaimedCallback]) -> String {
    let name = |waiting: &&UnclaimedCallback| {
        let (callback, tasks) = (&waiting.callback, waiting.tasks);
        let oldest = waiting.oldest_age_ms / 1000;
        format!("{tasks} of `{callback}`, the oldest due for {oldest} s")
    };
    let mut names: Vec<String> = waiting.iter().take(NAMED_MAX).map(name).collect();
    match waiting.len().saturating_sub(NAMED_MAX) {
        0 => {}
        more => names.push(format!("those of {more} more callbacks")),
    }
    names.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(waiting: &str) -> StatsResponse {
        with_limited(waiting, 0)
    }

    fn with_limited(waiting: &str, limited: u64) -> StatsResponse {
        let text = format!(
            r#"{{"time": "2027-01-15T08:00:00Z", "pending": [], "exact": true, "behind_ms": 0,
            "unclaimed": {{"tasks": 40, "exact": true, "callbacks": [{waiting}]}},
            "tasks": {{"retrying": 0, "waiting": 0, "limited": {limited}}}, "gates": [],
            "node": {{"registered_per_second": 0, "fired_per_second": 0, "settled_per_second": 0}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn waiting(callback: &str, age_ms: u64, last_poll_ms: Option<u64>) -> String {
        let polled =
            last_poll_ms.map_or_else(String::new, |ago| format!(r#", "last_poll_ms": {ago}"#));
        format!(
            r#"{{"callback": "{callback}", "tasks": 40, "oldest_due_time": "2027-01-15T07:00:00Z", "oldest_age_ms": {age_ms},
            "cause": "worker"{polled}}}"#
        )
    }

    fn found(age_ms: u64, last_poll_ms: Option<u64>) -> Result<String, String> {
        finding(&stats(&waiting("x", age_ms, last_poll_ms))).result
    }

    #[test]
    fn tasks_that_nobody_polls_for_are_a_problem() {
        for polled in [None, Some(60_000), Some(590_000)] {
            let problem = found(75_000, polled).unwrap_err();
            assert!(
                problem.starts_with("no worker has polled for a minute")
                    && problem.contains("40 of `x`, the oldest due for 75 s: start workers"),
                "{problem}"
            );
        }
    }

    #[test]
    fn tasks_that_wait_for_slow_workers_are_another_problem() {
        for polled in [Some(0), Some(59_999)] {
            let problem = found(340_000, polled).unwrap_err();
            assert!(
                problem.starts_with("workers poll")
                    && problem.contains("40 of `x`, the oldest due for 340 s: add workers"),
                "{problem}"
            );
        }
    }

    #[test]
    fn a_task_that_is_due_for_less_than_a_minute_is_no_problem_whoever_polls() {
        for polled in [None, Some(900), Some(75_000)] {
            let good = found(59_999, polled).unwrap();
            assert_eq!(good, "40 due tasks wait for one, none for a minute");
            found(60_000, polled).unwrap_err();
        }
    }

    #[test]
    fn tasks_that_a_limit_holds_back_are_no_problem() {
        let limited = waiting("x", 75_000, None).replace("worker", "rate");
        let good = finding(&with_limited(&limited, 40)).result.unwrap();
        assert!(good.contains("40 of them for a limit"), "{good}");
    }

    #[test]
    fn both_problems_are_told_and_callbacks_beyond_the_first_are_counted() {
        let mut lines = vec![waiting("slow", 60_000, Some(0))];
        lines.extend((0..7).map(|number| waiting(&format!("c{number}"), 60_000, None)));
        let problem = finding(&stats(&lines.join(","))).result.unwrap_err();
        assert!(
            problem.contains("`c4`") && !problem.contains("`c5`"),
            "{problem}"
        );
        assert!(problem.contains("those of 2 more callbacks") && problem.contains("`slow`"));
    }

    #[test]
    fn callbacks_that_are_not_listed_are_not_judged() {
        let good = finding(&stats("")).result.unwrap();
        assert!(good.contains("of the 0 callbacks with most"), "{good}");
    }
}
