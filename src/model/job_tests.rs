//! Tests of the rules of jobs.

use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::model::{
    fixtures,
    ids::TaskId,
    job::{Backfill, Counts, JobItem},
    look_step::LookStep,
    schedule::life::{Missed, Overlap, ScheduleSpec},
    task::Spec,
    wheel::WheelNumber,
};

const NOW: Millis = Millis(1_800_000_000_000);
const ME: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);
const SECOND: Duration = Duration::from_secs(1);

fn item(number: u64) -> JobItem {
    JobItem {
        id: TaskId::new(NOW, WheelNumber::from_low_bits(0), number),
        generation: 0,
        time: None,
    }
}

fn items(count: u64) -> Vec<JobItem> {
    (0..count).map(item).collect()
}

fn page(count: u64, place: Place) -> Option<Found> {
    Some(Found::Page {
        items: items(count),
        place,
        unread: Vec::new(),
    })
}

fn done(count: u64) -> Tally {
    Tally {
        done: count,
        ..Tally::default()
    }
}

fn new() -> Job {
    Job::new(JobKind::Cancel, JobFilter::default(), NOW)
}

/// Led, with a page of so many tasks; the search goes on.
fn running(count: u64) -> Job {
    let place = Place::Letters {
        time: NOW,
        id: Uuid::nil(),
    };
    let led = new().led(ME, NOW);
    led.advanced(0, Tally::default(), page(count, place), (NOW, NOW))
        .unwrap()
}

#[test]
fn a_job_goes_from_page_to_page_and_counts_each_task_once() {
    let job = running(3);
    assert_eq!((job.page, job.items.len(), job.total()), (1, 3, None));
    let last = job.advanced(1, done(3), page(2, Place::End), (NOW, NOW));
    let last = last.unwrap();
    assert_eq!((last.counts.done, last.total()), (3, Some(5)));
    assert_eq!(last.state, JobState::Running);
    let tally = Tally {
        done: 1,
        skipped: 1,
        ..Tally::default()
    };
    let end = last.advanced(2, tally.clone(), None, (NOW, NOW)).unwrap();
    let counts = Counts {
        done: 4,
        skipped: 1,
        ..Counts::default()
    };
    assert_eq!((end.state, end.counts), (JobState::Completed, counts));
    assert_eq!((end.total(), end.lease), (Some(5), None));
    assert_eq!(end.expires(), Some(NOW.after(KEPT)));
    // Another leader has worked on the same page.
    assert_eq!(end.advanced(2, tally, None, (NOW, NOW)), None);
}

#[test]
fn an_order_that_comes_during_a_page_stands_and_the_page_counts() {
    let job = running(3);
    let paused = job.paused().unwrap();
    let after = paused.advanced(1, done(3), page(2, Place::End), (NOW, NOW));
    let after = after.unwrap();
    assert_eq!((after.state, after.counts.done), (JobState::Paused, 3));
    assert_eq!(after.step(ME, false, NOW), Step::Rest);
    let resumed = after.resumed().unwrap();
    assert_eq!((resumed.state, resumed.items.len()), (JobState::Running, 2));
    let cancelled = job.cancelled(NOW).unwrap();
    let after = cancelled.advanced(1, done(3), page(2, Place::End), (NOW, NOW));
    let after = after.unwrap();
    assert_eq!((after.state, after.counts.done), (JobState::Cancelled, 3));
    assert!(after.items.is_empty() && after.ended == Some(NOW));
}

#[test]
fn a_job_that_has_ended_takes_no_order() {
    let last = running(1).advanced(1, done(1), page(0, Place::End), (NOW, NOW));
    let ended = last.unwrap();
    assert_eq!(ended.state, JobState::Completed);
    assert_eq!(ended.paused(), Err(HasEnded));
    assert_eq!(ended.resumed(), Err(HasEnded));
    assert_eq!(ended.cancelled(NOW), Err(HasEnded));
    let cancelled = new().cancelled(NOW).unwrap();
    assert_eq!(cancelled.cancelled(NOW.after(SECOND)), Ok(cancelled));
    // Pausing and resuming twice is as once.
    let paused = new().paused().unwrap();
    assert_eq!(paused.paused(), Ok(paused.clone()));
    assert_eq!(paused.resumed(), Ok(new()));
    assert_eq!(new().resumed(), Ok(new()));
    // One that was led and has no page yet is led anew: nobody else would say that it runs.
    let led = new().led(ME, NOW).paused().unwrap().resumed().unwrap();
    assert_eq!((led.state, led.lease), (JobState::Pending, None));
    assert_eq!(led.step(ME, false, NOW), Step::Lead);
}

#[test]
fn a_living_leader_is_left_alone_and_a_silent_one_is_replaced() {
    let job = new();
    assert_eq!(job.step(ME, false, NOW), Step::Lead);
    let led = job.led(OTHER, NOW);
    assert_eq!(led.step(OTHER, false, NOW), Step::Work);
    assert_eq!(led.step(OTHER, false, NOW.after(LEASE)), Step::Lead);
    assert_eq!(led.step(ME, false, NOW), Step::Wait(NOW.after(LEASE)));
    assert_eq!(led.step(ME, true, NOW), Step::Lead, "the other is dead");
    assert_eq!(led.step(ME, false, NOW.after(LEASE)), Step::Lead);
    // The clock was set back by an hour.
    let back = Millis(NOW.0 - 3_600_000);
    assert_eq!(led.step(ME, false, back), Step::Lead);
    assert_eq!(led.step(OTHER, false, back), Step::Lead);
}

#[test]
fn tasks_that_fail_are_tried_again_with_pauses_and_counted_at_last() {
    let mut job = running(2);
    let mut now = NOW;
    for tries in 1..TRIES_MAX {
        let tally = Tally {
            done: u64::from(tries == 1),
            again: vec![item(1)],
            error: Some("no quorum".to_owned()),
            ..Tally::default()
        };
        let page = job.page;
        job = job.advanced(page, tally, None, (now, now)).unwrap();
        assert_eq!((job.items.as_slice(), job.tries), (&[item(1)][..], tries));
        let Step::Wait(until) = job.step(ME, false, now) else {
            panic!("it does not wait");
        };
        assert!(until > now && until <= now.after(SECOND * 16));
        now = until;
    }
    let tally = Tally {
        again: vec![item(1)],
        ..Tally::default()
    };
    let last = job.advanced(job.page, tally, None, (now, now)).unwrap();
    assert_eq!((last.counts.done, last.counts.failed), (1, 1));
    assert!(last.items.is_empty() && last.state == JobState::Running);
    assert_eq!(last.error.as_deref(), Some("no quorum"));
}

#[test]
fn a_search_that_never_succeeds_fails_the_job_and_one_success_forgives() {
    let mut job = running(0);
    let mut now = NOW;
    let failed = || Some(Found::Failed("away".repeat(200)));
    for _ in 1..SEARCHES_FAILED_MAX {
        job = job
            .advanced(job.page, Tally::default(), failed(), (now, now))
            .unwrap();
        assert_eq!(job.state, JobState::Running);
        now = job.not_before;
    }
    assert!(now.since(NOW) > SECOND * 900, "{:?}", now.since(NOW));
    let again = job.advanced(job.page, Tally::default(), page(1, job.place), (now, now));
    assert_eq!(again.unwrap().searches_failed, 0);
    let last = job.advanced(job.page, Tally::default(), failed(), (now, now));
    let last = last.unwrap();
    assert_eq!((last.state, last.ended), (JobState::Failed, Some(now)));
    assert_eq!(last.error.unwrap().chars().count(), 256);
}

#[test]
fn a_rate_bounds_the_pages_and_their_parts() {
    let rated = |rate_milli| Job {
        rate_milli: Some(rate_milli),
        ..running(1)
    };
    for (rate_milli, page, part, span) in [
        (1, 1, 1, SECOND * 1000),
        (500, 1, 1, SECOND * 2),
        (1000, 1, 1, SECOND),
        (50_000, 50, 5, SECOND),
        (
            1_000_000_000,
            PAGE_ITEMS_MAX,
            20,
            Duration::from_micros(200),
        ),
    ] {
        let job = rated(rate_milli);
        assert_eq!((job.page_items(), job.part_items()), (page, part));
        assert_eq!(job.span(page), span);
        // The next page waits until this one has taken its time.
        let after = job.advanced(1, done(1), page_of(page), (NOW, NOW)).unwrap();
        let until = NOW.after(job.span(1));
        assert_eq!(after.not_before, until);
        let step = if until > NOW {
            Step::Wait(until)
        } else {
            Step::Work
        };
        assert_eq!(after.step(ME, false, NOW), step);
    }
    assert_eq!(running(1).span(1000), Duration::ZERO);
    // A clock that was set back by a day is not waited for.
    let job = rated(1000);
    let after = job.advanced(1, done(1), page_of(1), (NOW, NOW)).unwrap();
    let back = Millis(NOW.0 - 86_400_000);
    assert_eq!(after.step(ME, false, back), Step::Lead);
}

fn page_of(count: usize) -> Option<Found> {
    page(count as u64, Place::Start)
}

#[test]
fn a_dry_run_counts_shows_the_first_and_works_on_nothing() {
    let mut job = Job {
        dry_run: true,
        rate_milli: Some(1000),
        ..new().led(ME, NOW)
    };
    assert_eq!(job.page_items(), PAGE_ITEMS_MAX, "it has no pace");
    for number in 0..3 {
        let place = if number < 2 { Place::Start } else { Place::End };
        job = job
            .advanced(number, Tally::default(), page(15, place), (NOW, NOW))
            .unwrap();
        assert!(job.items.is_empty() && job.not_before == NOW);
    }
    assert_eq!((job.state, job.total()), (JobState::Completed, Some(45)));
    assert_eq!((job.sample.len(), job.counts.done), (SAMPLE_MAX, 0));
}

#[test]
fn a_reschedule_passes_over_what_starts_then_already() {
    let target = NOW.after(SECOND * 100);
    let job = Job {
        start: Some(target),
        ..new()
    };
    let later = NOW.after(SECOND * 500);
    assert!(job.moves(NOW, NOW, NOW) && job.moves(later, later, NOW));
    assert!(!job.moves(target, target, NOW), "the job has moved it");
    assert!(!job.moves(target, later, later), "and it waits for a retry");
    // The start that the job means has come: what is due already is as it should be.
    assert!(job.moves(later, later, target));
    assert!(!job.moves(NOW, NOW, target));
}

/// A backfill whose runs follow each other.
fn in_turn(dry_run: bool) -> Job {
    let spec = ScheduleSpec {
        crons: Vec::new(),
        every: Some(SECOND),
        zone: "UTC".to_owned(),
        start: None,
        end: None,
        limit: None,
        jitter: Duration::ZERO,
        overlap: Overlap::Skip,
        missed: Missed::Latest,
        window: SECOND,
        pause_on_failure: false,
        note: String::new(),
        labels: std::collections::BTreeMap::new(),
        task: Spec::clone(&fixtures::spec()).into(),
    };
    let backfill = Backfill {
        schedule: "s".to_owned(),
        incarnation: 1,
        generation: 1,
        step: LookStep::covering(SECOND),
        anchor: NOW,
        spec,
        seed: 1,
        from: NOW,
        to: NOW,
        overlap: Overlap::BufferOne,
        last: None,
    };
    Job {
        backfill: Some(Box::new(backfill)),
        estimate: Some(5),
        dry_run,
        ..Job::new(JobKind::Backfill, JobFilter::default(), NOW).led(ME, NOW)
    }
}

#[test]
fn the_record_names_the_run_whose_end_decides_before_that_run_is_entered() {
    let job = in_turn(false);
    assert_eq!((job.page_items(), job.total()), (1, Some(5)));
    let behind = Place::Times { behind: NOW };
    let last = |job: &Job| job.backfill.as_ref().and_then(|of| of.last);
    let job = job
        .advanced(0, Tally::default(), page(1, behind), (NOW, NOW))
        .unwrap();
    assert_eq!((last(&job), job.items.len()), (Some(item(0).id), 1));
    let later = NOW.after(SECOND * 2);
    let job = job
        .advanced(1, done(1), Some(Found::Wait(later)), (NOW, NOW))
        .unwrap();
    assert_eq!(job.step(ME, true, NOW), Step::Wait(later));
    assert_eq!((job.place, job.counts.done), (behind, 1));
    assert_eq!(last(&job), Some(item(0).id), "while one waits");
    let passed = Some(Found::Passed(Place::End));
    let job = job
        .advanced(2, Tally::default(), passed, (later, later))
        .unwrap();
    assert_eq!(job.state, JobState::Completed);
    assert_eq!((job.counts.skipped, job.total()), (1, Some(2)));
    assert_eq!(in_turn(true).page_items(), PAGE_ITEMS_MAX, "it starts none");
}
