//! The catalogue holds the entries of the table of metrics for operators: those of tasks first, those of the process last.

use super::metric::{Metric, counter, gauge, seconds};

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
        "tickwheel_callback_late_total",
        &["callback"],
        "Those of them that were handed over more than a second after their start.",
    ),
    counter(
        "tickwheel_callback_claimed_total",
        &["callback"],
        "Attempts claimed by workers, by callback.",
    ),
    counter(
        "tickwheel_callback_failed_total",
        &["callback"],
        "Attempts of a callback that ended in a failure; those that succeeded are in tickwheel_tasks_ended_total.",
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
        "tickwheel_internal_tasks_registered_total",
        &[],
        "Tasks that the service registered for itself.",
    ),
    counter(
        "tickwheel_follow_ups_registered_total",
        &[],
        "Tasks that were registered since another one ended. A repeated end step counts again, unless it finds its task.",
    ),
    counter(
        "tickwheel_notices_total",
        &["to", "outcome"],
        "Attempts to tell the end of a task, by where (kafka, http) and by outcome: delivered, retried, given_up.",
    ),
    counter(
        "tickwheel_actions_total",
        &["kind", "outcome"],
        "Attempts of actions and checks, by kind (http, email, none) and by outcome: done, retried, given_up.",
    ),
    counter(
        "tickwheel_dead_letter_records_total",
        &["outcome"],
        "Attempts to publish the record of a dead task to the topic of its callback, by outcome: published, retried, given_up, deleted.",
    ),
    counter(
        "tickwheel_http_calls_total",
        &["outcome"],
        "Requests of `http` tasks and of notices by outcome: succeeded, retried, failed.",
    ),
    seconds(
        "tickwheel_http_call_seconds",
        &[],
        "Time that deliveries over HTTP took, from the resolution of the name to the end of the answer.",
    ),
    counter(
        "tickwheel_schedule_runs_total",
        &["outcome"],
        "Runs of schedules that were `started`, `skipped` because another had not ended, or `missed`.",
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
        "tickwheel_pending_tasks",
        &["horizon"],
        "Tasks that wait for their start, by how far it is: overdue, minute, hour, day, later. Embedded store only.",
    ),
    gauge(
        "tickwheel_running_attempts",
        &["callback"],
        "Attempts that run at the moment, as this node watches them.",
    ),
    gauge(
        "tickwheel_retrying_tasks",
        &["callback"],
        "Tasks that wait for their next attempt, as this node knows.",
    ),
    gauge(
        "tickwheel_waiting_tasks",
        &["callback"],
        "Tasks that wait for the ends of other tasks, as this node knows.",
    ),
    gauge(
        "tickwheel_limited_tasks",
        &["callback"],
        "Due tasks that wait for the rate or the max_in_flight of their callback, as this node knows.",
    ),
    gauge(
        "tickwheel_due_within",
        &["callback", "horizon"],
        "Tasks that are due within the horizon from now on (1m, 5m, 15m, 1h, 1d), for the first time. Embedded store only.",
    ),
    gauge(
        "tickwheel_held_tasks",
        &["callback"],
        "Due tasks that a closed gate of their callback holds, on all nodes; counted about once a minute, up to 10,000 a callback.",
    ),
    gauge(
        "tickwheel_dead_tasks",
        &["callback"],
        "Tasks that are dead and kept, on all nodes; counted about once a minute, up to 100,000 in all.",
    ),
    gauge(
        "tickwheel_gates_closed",
        &["callback", "gate"],
        "Gates of a callback, for all its tasks or for a collection, that are paused or dropping.",
    ),
    gauge(
        "tickwheel_unclaimed_tasks",
        &["callback", "cause"],
        "Due tasks that no worker has taken, as this node knows, by the cause: worker, rate, max_in_flight; on a cluster it knows of some.",
    ),
    gauge(
        "tickwheel_unclaimed_age_seconds",
        &["callback", "cause"],
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
        "Free part of the memory for contents on their way from the store to the queue; 0 for long: large payloads wait for it.",
    ),
    counter(
        "tickwheel_stage_restarts_total",
        &["stage"],
        "Stages, and pieces of work in them (a job, a sequence, a tree, a waiter, a schedule), that failed by a defect of the program and were started again; report what the log says.",
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
        "tickwheel_poll_left_total",
        &[],
        "Messages over the limits of their `http` callbacks that found no room and were left to the looks of their tasks.",
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
        "tickwheel_wheels",
        &[],
        "Wheels of the service, of which each is to be owned by one node.",
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
        "tickwheel_near_inherited_total",
        &[],
        "Tasks that a dead node held in that memory, and that this node took over.",
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
        "tickwheel_trees_ended_total",
        &["outcome"],
        "Trees of tasks that have ended: completed, faulted or cancelled.",
    ),
    counter(
        "tickwheel_tree_tasks_retried_total",
        &[],
        "Failed tasks of trees that run again.",
    ),
    counter(
        "tickwheel_turns_passed_total",
        &[],
        "Tasks with an ordering key that were published because their turn had come.",
    ),
    counter(
        "tickwheel_turns_left_to_looks_total",
        &[],
        "Turns that a node had no memory to publish the tasks of; their looks do.",
    ),
    counter(
        "tickwheel_registrations_finished_total",
        &[],
        "Tasks that others wait for and that were entered anew, as their registration got no answer.",
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
        "tickwheel_unsigned_messages_total",
        &[],
        "Messages of Kafka that were passed over, because no key of the service had signed them.",
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
    counter(
        "tickwheel_tls_handshakes_total",
        &["outcome"],
        "Handshakes of TLS by outcome: done, failed, left (by the client), late, crowded_out (there were too many), plain (HTTP without TLS).",
    ),
    counter(
        "tickwheel_tls_reloads_total",
        &["outcome"],
        "Changes of the files of TLS that were seen: taken, or refused because they cannot be used.",
    ),
    gauge(
        "tickwheel_tls_certificate_expire_timestamp_seconds",
        &[],
        "When the certificate of the API ends, in seconds since 1970; absent without TLS.",
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
    counter(
        "process_cpu_seconds_total",
        &[],
        "Time of a processor that the process has used, its own and the system's for it.",
    ),
    gauge(
        "process_start_time_seconds",
        &[],
        "When the process began, in seconds since 1970.",
    ),
    gauge(
        "process_resident_memory_bytes",
        &[],
        "Memory of the process that is in the machine's memory.",
    ),
    gauge(
        "process_virtual_memory_bytes",
        &[],
        "Addresses that the process has reserved; most of them have no memory.",
    ),
    gauge(
        "process_open_fds",
        &[],
        "Files and connections that are open.",
    ),
    gauge(
        "process_max_fds",
        &[],
        "Files and connections that may be open.",
    ),
    gauge("process_threads", &[], "Threads of the process."),
];
