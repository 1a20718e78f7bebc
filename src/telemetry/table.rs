//! The table of metrics describes every metric for operators: name, kind, labels, meaning.
//!
//! The documentation is made from this table. A test makes sure that it has exactly the metrics that are
//! recorded.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// The behaviour of a metric over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size.
    Histogram,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name; ends in its unit.
    pub name: &'static str,
    /// Its behaviour over time.
    pub kind: Kind,
    /// Its labels; each has a bounded set of values.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: Kind::Counter,
        labels,
        help,
    }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric {
        name,
        kind: Kind::Gauge,
        labels,
        help,
    }
}

const fn seconds(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: Kind::Histogram,
        labels,
        help,
    }
}

/// All of them.
pub const METRICS: &[Metric] = &[
    counter(
        "tickwheel_tasks_registered_total",
        &["target"],
        "Tasks registered and durable.",
    ),
    counter(
        "tickwheel_tasks_fired_total",
        &["target"],
        "Tasks handed to the queue for the first time, and acknowledged by it: each once, but for what a new owner of a wheel repeats.",
    ),
    counter(
        "tickwheel_callback_fired_total",
        &["callback"],
        "The same by callback: the first hundred callbacks by name, the others as `(other)`.",
    ),
    counter(
        "tickwheel_callback_claimed_total",
        &["callback"],
        "Attempts claimed by workers, by callback.",
    ),
    counter(
        "tickwheel_tasks_ended_total",
        &["outcome", "callback"],
        "Tasks by how they ended: succeeded, failed, dead, cancelled, expired. Records have an empty callback and count when they are cancelled.",
    ),
    counter(
        "tickwheel_tasks_redriven_total",
        &[],
        "Dead tasks that were made to run again. Each may end, and count as ended, once more.",
    ),
    counter(
        "tickwheel_job_tasks_total",
        &["kind", "outcome"],
        "Tasks that jobs over filters have worked on: `done`, `skipped` (they had ended, or did not match any more) or `failed`.",
    ),
    counter(
        "tickwheel_jobs_ended_total",
        &["kind", "state"],
        "Jobs over filters that have ended at this node, as `completed`, `cancelled` or `failed`.",
    ),
    gauge(
        "tickwheel_unclaimed_tasks",
        &["callback"],
        "Due tasks that no worker has taken, as this node knows; on a cluster it knows of some.",
    ),
    gauge(
        "tickwheel_unclaimed_age_seconds",
        &["callback"],
        "How long the oldest of them has been due.",
    ),
    seconds(
        "tickwheel_fire_lag_seconds",
        &[],
        "From the due time to the acknowledged hand-off to the queue, of tasks that go out for the first time: the lateness.",
    ),
    seconds(
        "tickwheel_refire_lag_seconds",
        &[],
        "The same of what is published again: retries from the time of the retry, all else from the task's start.",
    ),
    seconds(
        "tickwheel_claim_lag_seconds",
        &[],
        "From the due time to the claim by a worker.",
    ),
    seconds(
        "tickwheel_poll_lag_seconds",
        &[],
        "From the due time to the answer of the poll that hands the task out.",
    ),
    gauge(
        "tickwheel_contents_free_bytes",
        &[],
        "What is free of the memory for contents on their way from the store to the queue; 0 for long: large payloads wait for it.",
    ),
    counter(
        "tickwheel_stage_restarts_total",
        &["stage"],
        "Stages that failed by a defect of the program and were started again; report what the log says.",
    ),
    gauge(
        "tickwheel_polls_waiting",
        &[],
        "Polls of workers that wait at this node.",
    ),
    gauge(
        "tickwheel_poll_buffered_tasks",
        &[],
        "Tasks received for polls and not claimed yet.",
    ),
    counter(
        "tickwheel_poll_released_total",
        &[],
        "Claimed tasks released because the worker that had polled them was gone.",
    ),
    counter(
        "tickwheel_ticks_total",
        &["result"],
        "Swaps of clocks by what became of them: why they were made (advanced, took_over and others), or lost.",
    ),
    gauge(
        "tickwheel_wheels_owned",
        &[],
        "Wheels that this node scans.",
    ),
    counter(
        "tickwheel_wheel_takeovers_total",
        &["reason"],
        "Wheels taken over from another node, or from nobody.",
    ),
    gauge(
        "tickwheel_due_unfired_age_seconds",
        &["wheel"],
        "How long the oldest due entry of a wheel of this node has waited.",
    ),
    gauge(
        "tickwheel_near_tasks",
        &[],
        "Tasks held in memory because they are due soon.",
    ),
    counter(
        "tickwheel_near_refused_total",
        &[],
        "Tasks due soon that found no room in that memory: each is handed out by its look, up to a claim timeout late. Register less at once, or add nodes.",
    ),
    counter(
        "tickwheel_held_total",
        &[],
        "Rows written for due tasks behind a gate that is not open; a task that waits long counts several times.",
    ),
    counter(
        "tickwheel_released_total",
        &[],
        "Rows of held tasks that were done with once their gate was open.",
    ),
    counter(
        "tickwheel_dropped_total",
        &[],
        "Due tasks that the gate of their callback has cancelled.",
    ),
    gauge(
        "tickwheel_catch_up_reads_max",
        &[],
        "Turns that wheels take to read missed ticks: fewer while that makes tasks late that could be in time.",
    ),
    counter(
        "tickwheel_looks_total",
        &["decision"],
        "Follow-ups of tracked tasks by what they decided.",
    ),
    counter(
        "tickwheel_claims_total",
        &["answer"],
        "Claims by their answer.",
    ),
    counter(
        "tickwheel_limited_total",
        &["callback", "limit"],
        "Times that tasks of a callback had to wait for its `rate` or its `max_in_flight`: at a poll, or at a claim.",
    ),
    counter(
        "tickwheel_settles_total",
        &["outcome"],
        "Reports of ended attempts by their outcome: succeeded, retry, failed, snoozed, dead (the last attempt), refused.",
    ),
    counter(
        "tickwheel_attempts_lost_total",
        &[],
        "Attempts whose workers stopped sending heartbeats, as the node noticed that served them; their tasks run again.",
    ),
    counter(
        "tickwheel_heartbeats_total",
        &["answer"],
        "Signs of life by their answer.",
    ),
    counter(
        "tickwheel_parked_total",
        &["reason"],
        "Entries set aside because they cannot be published or read.",
    ),
    counter(
        "tickwheel_leftovers_total",
        &[],
        "Rows removed that had been written into slots behind their readers.",
    ),
    counter(
        "tickwheel_spilled_total",
        &[],
        "Entries put further on because their topic is missing or silent.",
    ),
    seconds(
        "tickwheel_store_commit_duration_seconds",
        &[],
        "Time of a commit of the embedded store, its sync included.",
    ),
    counter(
        "tickwheel_store_rows_written_total",
        &[],
        "Rows that the embedded store wrote; over the number of commits it is the size of a group.",
    ),
    counter(
        "tickwheel_store_syncs_total",
        &[],
        "Times that the embedded store waited until the disk had everything that was written.",
    ),
    counter(
        "tickwheel_store_stalls_total",
        &[],
        "Commits of the embedded store that took more than 100 ms.",
    ),
    counter(
        "tickwheel_store_braked_total",
        &[],
        "New tasks that the embedded store had wait, since merges of what it has on disk do not keep up.",
    ),
    counter(
        "tickwheel_store_reopens_total",
        &[],
        "Times that the embedded store was opened anew after a failed write.",
    ),
    gauge(
        "tickwheel_store_free_bytes",
        &[],
        "Space that is free where the embedded store lies.",
    ),
    gauge(
        "tickwheel_store_disk_bytes",
        &[],
        "Space that the embedded store takes.",
    ),
    seconds(
        "tickwheel_store_operation_duration_seconds",
        &["op"],
        "Duration of store operations.",
    ),
    seconds(
        "tickwheel_queue_publish_duration_seconds",
        &[],
        "Duration of a publication until its acknowledgement.",
    ),
    counter(
        "tickwheel_queue_publish_errors_total",
        &["kind"],
        "Publications that failed.",
    ),
    counter(
        "tickwheel_queue_overflowed_total",
        &[],
        "Records that the embedded queue wrote to disk because workers are behind.",
    ),
    seconds(
        "tickwheel_callback_duration_seconds",
        &["callback", "outcome"],
        "Duration of attempts, in the worker.",
    ),
    gauge(
        "tickwheel_worker_running",
        &["callback"],
        "Attempts that run at the moment, in the worker.",
    ),
    counter(
        "tickwheel_worker_undecodable_total",
        &["callback"],
        "Messages that the worker could not read and left out.",
    ),
    counter(
        "tickwheel_http_requests_total",
        &["route", "method", "status"],
        "HTTP requests answered.",
    ),
    seconds(
        "tickwheel_http_request_duration_seconds",
        &["route"],
        "Duration of HTTP requests, long polls included.",
    ),
    counter(
        "tickwheel_http_stalled_total",
        &[],
        "Connections that were closed because nobody took their answers.",
    ),
    gauge(
        "tickwheel_clock_skew_seconds",
        &[],
        "How far this node's wall clock is ahead of the store's, as last seen.",
    ),
    counter(
        "tickwheel_clock_steps_total",
        &["direction"],
        "Times that the wall clock moved by a second more or less than time had passed: it was set, or the machine slept.",
    ),
    gauge(
        "tickwheel_build_info",
        &["version"],
        "Always 1; the version is in the label.",
    ),
];

/// Tells the recorder about every metric.
pub fn describe() {
    for metric in METRICS {
        let unit = if metric.name.ends_with("_seconds") {
            Unit::Seconds
        } else {
            Unit::Count
        };
        match metric.kind {
            Kind::Counter => describe_counter!(metric.name, unit, metric.help),
            Kind::Gauge => describe_gauge!(metric.name, unit, metric.help),
            Kind::Histogram => describe_histogram!(metric.name, unit, metric.help),
        }
    }
}

/// Returns the table in Markdown, for the documentation.
#[must_use]
pub fn markdown() -> String {
    let mut text = "| metric | kind | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels = metric.labels.join(", ");
        let (name, help) = (metric.name, metric.help);
        text.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    #[test]
    fn names_are_unique_and_end_as_their_kind_demands() {
        let names: BTreeSet<_> = METRICS.iter().map(|m| m.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            assert!(metric.name.starts_with("tickwheel_"));
            let is_total = metric.name.ends_with("_total");
            assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
            let is_seconds = metric.name.ends_with("_seconds");
            assert!(
                is_seconds || metric.kind != Kind::Histogram,
                "{}",
                metric.name
            );
        }
        assert_eq!(markdown().lines().count(), METRICS.len() + 2);
    }

    #[test]
    fn the_table_holds_what_the_code_records_and_nothing_else() {
        let known: BTreeSet<_> = METRICS.iter().map(|m| m.name.to_owned()).collect();
        let mut used = BTreeSet::new();
        collect(
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")),
            &mut used,
        );
        assert!(!used.is_empty());
        let missing: Vec<_> = used.difference(&known).collect();
        assert!(missing.is_empty(), "not in the table: {missing:?}");
        let unused: Vec<_> = known.difference(&used).collect();
        assert!(unused.is_empty(), "never recorded: {unused:?}");
    }

    /// Finds the names in `counter!("...`, `gauge!("...` and `histogram!("...`.
    fn collect(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, names);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                for macro_name in ["counter!(", "gauge!(", "histogram!("] {
                    for after in text.split(macro_name).skip(1) {
                        let name = after.trim_start().strip_prefix('"');
                        if let Some(name) = name.filter(|n| n.starts_with("tickwheel_")) {
                            names.insert(name.split('"').next().unwrap().to_owned());
                        }
                    }
                }
            }
        }
    }
}
