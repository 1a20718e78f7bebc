//! The conformance suite asks a running service for every promise of the API, over HTTP alone.
//!
//! One suite runs on both modes: on one process (`conforms_on_one_process.rs`) and on nodes that share Cassandra and Kafka
//! (`conforms_on_servers.rs`). With several nodes each call goes to the next one, so what one node was told another one has
//! to know.
//! Promises run side by side, as the users of a service do, each under names of its own.

mod bulk;
mod callbacks;
mod ends;
mod ids;
mod joins;
mod receiver;
mod schedules;
mod service;
mod tasks;
mod topics;
mod trees;
mod workers;

use std::{pin::Pin, sync::Arc, time::Duration};

use tickwheel::time_source::TimeSource;
use tokio::{sync::Semaphore, task::JoinSet};

pub(crate) use {service::Service, topics::Topics};

type Promise = fn(Arc<Service>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Names promises, so that one that does not hold is named in the report.
macro_rules! promises {
    ($($room:ident::$promise:ident,)*) => {
        const PROMISES: &[(&str, Promise)] = &[$((
            concat!(stringify!($room), "::", stringify!($promise)),
            |service| Box::pin($room::$promise(service)),
        )),*];
    };
}

promises! {
    tasks::tasks_start_at_their_times_and_once,
    tasks::one_bad_task_fails_only_itself,
    tasks::a_cancel_says_who_won,
    tasks::a_reschedule_moves_a_task_and_honours_if_match,
    tasks::run_starts_a_task_now,
    tasks::a_task_that_is_too_late_expires,
    tasks::lists_find_tasks_by_label_and_state,
    workers::a_failed_attempt_is_repeated_and_the_last_one_is_dead,
    workers::heartbeats_show_progress_and_hear_of_a_cancel,
    workers::a_lost_worker_costs_one_heartbeat_timeout,
    workers::an_attempt_has_a_time_limit,
    workers::a_snoozed_task_comes_again_and_spends_no_attempt,
    workers::results_are_kept_up_to_a_mebibyte,
    callbacks::defaults_are_in_force_within_two_seconds,
    callbacks::a_stale_etag_changes_nothing,
    callbacks::a_paused_callback_starts_nothing_until_it_opens,
    callbacks::a_gate_that_drops_ends_due_tasks,
    callbacks::a_rate_is_kept,
    callbacks::no_more_attempts_run_than_allowed,
    callbacks::a_flood_of_another_callback_delays_little,
    ids::a_repeated_request_is_one_task,
    ids::a_key_is_one_live_task,
    ids::an_ordering_key_runs_one_at_a_time_in_order,
    bulk::dead_tasks_are_grouped_and_run_again,
    bulk::a_job_cancels_what_its_filter_finds,
    ends::ends_are_told_to_a_topic_and_a_url,
    ends::http_tasks_are_delivered_signed,
    ends::a_kafka_task_is_a_record_in_its_topic,
    bulk::a_dead_task_is_a_record_in_the_topic_of_its_callback,
    joins::a_task_waits_for_others,
    trees::a_tree_ends_after_its_last_child,
    trees::the_failed_part_of_a_tree_runs_again,
    schedules::each_time_is_one_run,
    schedules::a_paused_schedule_waits_and_can_be_triggered,
    schedules::expressions_are_explained_or_refused,
}

/// Promises that are asked at once. Each makes consumers in groups of their own, and a broker that shares two cores with two
/// nodes takes long to form all of them at the same time.
const AT_ONCE: usize = 12;

/// Most time that a promise may take on a slow machine.
const MOST: Duration = Duration::from_secs(240);

/// Asks the service for every promise; fails with the names of those that did not hold.
///
/// # Panics
///
/// After all promises were asked, if one did not hold.
pub(crate) async fn every_promise_holds(service: Service) {
    let service = Arc::new(service);
    let only = std::env::var("PROMISE").ok();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for (name, promise) in PROMISES {
        if only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let (service, places) = (Arc::clone(&service), Arc::clone(&places));
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            let began = TimeSource::real().moment();
            let time = TimeSource::real();
            let asked = tokio::spawn(async move { time.within(MOST, promise(service)).await });
            let held = matches!(asked.await, Ok(Some(())));
            eprintln!(
                "{name}: {held} after {:?}",
                TimeSource::real().moment().since(began)
            );
            (!held).then_some(*name)
        });
    }
    let mut broken: Vec<&str> = running.join_all().await.into_iter().flatten().collect();
    service.stop_workers();
    broken.sort_unstable();
    assert!(broken.is_empty(), "promises that did not hold: {broken:?}");
}
