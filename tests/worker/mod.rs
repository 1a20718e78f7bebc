//! The worker runs against a scripted service and the queue in memory, in virtual time.

mod bench;
mod polling;
mod script;
mod starved;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bench::{Bench, EPOCH, message};
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::Notify;

use tickwheel::{
    api::worker::{ClaimStatus, HeartbeatStatus, SettleItem, SettleOutcome},
    model::task::Priority,
    queue::{
        Partition, Record,
        message::{TimeTexts, topic},
    },
    worker::{Builder, Context, Job, Outcome, Raw},
};

#[derive(Debug, Deserialize)]
struct Number {
    n: u32,
}

fn only(settled: &[SettleItem]) -> &SettleItem {
    assert_eq!(settled.len(), 1, "{settled:?}");
    settled.first().expect("there is one")
}

#[tokio::test(start_paused = true)]
async fn outcomes_errors_and_panics_are_reported() {
    let bench = Bench::new();
    let builder = bench
        .builder()
        .callback("c", |job: Job<Number>, ctx: Context| async move {
            assert_eq!((job.attempt, job.id), (ctx.attempt(), ctx.id()));
            match job.payload.n {
                0 => Ok(Outcome::Done),
                1 => Outcome::done_with(&"sent"),
                2 => Err("no connection".into()),
                3 => panic!("a bug"),
                4 => Ok(Outcome::RetryAfter(
                    Duration::from_secs(9),
                    "busy".to_owned(),
                )),
                5 => Ok(Outcome::fail("no such user")),
                _ => Ok(Outcome::Snooze(Duration::from_millis(2500))),
            }
        });
    let worker = bench.run(builder);
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(bench.publish(n, EPOCH, &format!(r#"{{"n":{n}}}"#)).await);
    }
    bench.script.until(|state| state.settled.len() == 7).await;
    bench.end(worker).await;
    let settled = bench.settled();
    let seen = |n: usize| {
        let item = settled.iter().find(|item| item.id == ids[n]).unwrap();
        (
            item.outcome,
            item.result.as_ref().map(|raw| raw.get().to_owned()),
            item.error.clone(),
            item.delay.as_ref().map(|delay| delay.0.clone()),
        )
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(seen(0), (SettleOutcome::Succeeded, None, None, None));
    assert_eq!(
        seen(1),
        (SettleOutcome::Succeeded, text(r#""sent""#), None, None)
    );
    assert_eq!(
        seen(2),
        (SettleOutcome::Retry, None, text("no connection"), None)
    );
    assert_eq!(
        seen(3),
        (
            SettleOutcome::Retry,
            None,
            text("the callback panicked: a bug"),
            None
        )
    );
    assert_eq!(
        seen(4),
        (SettleOutcome::Retry, None, text("busy"), text("9s"))
    );
    assert_eq!(
        seen(5),
        (SettleOutcome::Failed, None, text("no such user"), None)
    );
    assert_eq!(
        seen(6),
        (SettleOutcome::Snoozed, None, None, text("2500ms"))
    );
    assert_eq!(bench.unhandled().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_payload_of_another_shape_fails_the_task() {
    let bench = Bench::new();
    let builder = bench
        .builder()
        .callback("c", |_: Job<Number>, _| async { Ok(Outcome::Done) });
    let worker = bench.run(builder);
    bench.publish(1, EPOCH, r#"{"n":"seven"}"#).await;
    bench.script.until(|state| state.settled.len() == 1).await;
    bench.end(worker).await;
    let settled = bench.settled();
    let item = only(&settled);
    assert_eq!(item.outcome, SettleOutcome::Failed);
    let error = item.error.as_deref().unwrap();
    assert!(
        error.contains("Number") && error.contains("(at n)"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_is_held_until_it_is_due() {
    let bench = Bench::new();
    bench.script.state().claims.push_back(ClaimStatus::Early);
    let builder = bench
        .builder()
        .callback("c", |_: Job<Raw>, _| async { Ok(Outcome::Done) });
    let worker = bench.run(builder);
    let due = EPOCH.after(Duration::from_millis(12_345));
    bench.publish(1, due, "{}").await;
    bench.script.until(|state| state.settled.len() == 1).await;
    bench.end(worker).await;
    let state = bench.script.state();
    assert_eq!(
        state.calls["claim"], 2,
        "one that was early, one that was not"
    );
    let early = state.claimed[0].1.since(due);
    assert!((3000..3010).contains(&early.as_millis()), "{early:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_over_a_limit_is_held_and_claimed_again() {
    let bench = Bench::new();
    bench.script.state().claims.push_back(ClaimStatus::Limited);
    let builder = bench
        .builder()
        .callback("c", |_: Job<Raw>, _| async { Ok(Outcome::Done) });
    let worker = bench.run(builder);
    bench.publish(1, EPOCH, "{}").await;
    bench.script.until(|state| state.settled.len() == 1).await;
    bench.end(worker).await;
    assert_eq!(bench.script.state().calls["claim"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_none_does_not_stop_the_others() {
    let bench = Bench::new();
    let builder = bench
        .builder()
        .callback("c", |_: Job<Raw>, _| async { Ok(Outcome::Done) });
    for _ in 0..3 {
        let record = Record {
            topic: topic("c", Priority::Normal),
            create_topic: true,
            partition: Partition::Fixed(1),
            key: None,
            value: Bytes::from_static(b"\xff\xff"),
            headers: Vec::new(),
        };
        bench.publish_record(record).await;
    }
    bench.publish(1, EPOCH, "{}").await;
    let worker = bench.run(builder);
    bench.script.until(|state| state.settled.len() == 1).await;
    bench.end(worker).await;
    assert_eq!(bench.unhandled().await, 0);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_a_long_callback_alive() {
    let bench = Bench::new();
    let time = bench.time.clone();
    let builder = bench
        .builder()
        .callback("c", move |_: Job<Raw>, ctx: Context| {
            let time = time.clone();
            async move {
                ctx.progress(&"half")?;
                time.sleep(Duration::from_secs(300)).await;
                Ok(Outcome::Done)
            }
        });
    let worker = bench.run(builder);
    bench.publish(1, EPOCH, "{}").await;
    bench.script.until(|state| state.settled.len() == 1).await;
    bench.end(worker).await;
    assert_eq!(only(&bench.settled()).outcome, SettleOutcome::Succeeded);
    let beats = bench.script.state().beats.len();
    assert!((40..=46).contains(&beats), "about four a timeout: {beats}");
}

#[tokio::test(start_paused = true)]
async fn a_callback_is_told_that_its_task_is_cancelled() {
    let bench = Bench::new();
    let builder = bench
        .builder()
        .callback("c", |_: Job<Raw>, ctx: Context| async move {
            ctx.cancelled().await;
            Ok(Outcome::fail("cancelled"))
        });
    let worker = bench.run(builder);
    let id = bench.publish(1, EPOCH, "{}").await;
    let answers = [HeartbeatStatus::Ok, HeartbeatStatus::CancelRequested];
    bench.script.state().heartbeats.insert(id, answers.into());
    bench.script.until(|state| state.settled.len() == 1).await;
    bench.end(worker).await;
    assert_eq!(only(&bench.settled()).outcome, SettleOutcome::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_lost_attempt_is_dropped_and_not_reported() {
    let bench = Bench::new();
    let dropped = Arc::new(Notify::new());
    let signal = Arc::clone(&dropped);
    let builder = bench.builder().callback("c", move |_: Job<Raw>, _| {
        let guard = OnDrop(Arc::clone(&signal));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(Outcome::Done)
        }
    });
    let worker = bench.run(builder);
    let id = bench.publish(1, EPOCH, "{}").await;
    bench
        .script
        .state()
        .heartbeats
        .insert(id, [HeartbeatStatus::Lost].into());
    dropped.notified().await;
    bench.end(worker).await;
    assert_eq!(bench.settled().len(), 0);
}

/// Runs a callback that never ends. Returns how long it ran, and what was reported.
async fn run_without_end(
    task_limit: Option<Duration>,
    set: impl Fn(Builder) -> Builder,
) -> (Duration, SettleItem) {
    let bench = Bench::new();
    let builder = bench.builder().callback("c", |_: Job<Raw>, _| async {
        std::future::pending::<()>().await;
        Ok(Outcome::Done)
    });
    let worker = bench.run(set(builder));
    let mut message = message(1, EPOCH, "{}");
    message.spec.attempt_timeout = task_limit;
    let record = message.outgoing().unwrap();
    let record = record.to_record("c", &mut TimeTexts::default());
    bench.publish_record(record).await;
    bench.script.until(|state| state.settled.len() == 1).await;
    let ran = bench.time.now().since(bench.script.state().claimed[0].1);
    bench.end(worker).await;
    (ran, only(&bench.settled()).clone())
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_takes_too_long_is_dropped_and_tried_again() {
    let (short, minutes) = (Duration::from_secs(90), Duration::from_secs(600));
    // A second before the service ends it.
    let second = Duration::from_secs(1);
    let near = |ran: Duration, limit: Duration| ran + second >= limit && ran < limit + short / 10;
    let (ran, report) = run_without_end(Some(short), |builder| builder).await;
    assert!(near(ran, short), "by the task's own limit: {ran:?}");
    assert_eq!(report.outcome, SettleOutcome::Retry);
    let error = report.error.unwrap();
    assert_eq!(error, "the attempt took longer than its attempt_timeout");
    let (ran, _) = run_without_end(None, |builder| builder).await;
    assert!(near(ran, minutes), "by the worker's default: {ran:?}");
    let (ran, _) = run_without_end(Some(2 * minutes), |builder| builder).await;
    assert!(near(ran, 2 * minutes), "the task's own wins: {ran:?}");
    let given = |builder: Builder| builder.attempt_timeout(Some(short));
    let (ran, _) = run_without_end(None, given).await;
    assert!(near(ran, short), "by the limit of the worker: {ran:?}");
}

#[tokio::test(start_paused = true)]
async fn a_callback_is_dropped_before_its_lease_ends() {
    let bench = Bench::new();
    bench.script.state().deaf = true;
    let dropped = Arc::new(Notify::new());
    let signal = Arc::clone(&dropped);
    let builder = bench.builder().callback("c", move |_: Job<Raw>, _| {
        let guard = OnDrop(Arc::clone(&signal));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(Outcome::Done)
        }
    });
    let worker = bench.run(builder);
    bench.publish(1, EPOCH, "{}").await;
    dropped.notified().await;
    let lived = bench.time.now().since(bench.script.state().claimed[0].1);
    assert!((28_990..=29_010).contains(&lived.as_millis()), "{lived:?}");
    bench.end(worker).await;
    assert_eq!(bench.settled().len(), 0);
    assert!(bench.script.state().calls["heartbeat"] >= 4);
}

/// This bug was found by comparing our worker with the simulated workers.
#[tokio::test(start_paused = true)]
async fn what_was_claimed_before_a_long_suspension_is_not_begun() {
    let bench = Bench::new();
    bench.script.state().claim_takes = Duration::from_millis(10);
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let builder = bench.builder().callback("c", move |_: Job<Raw>, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(Outcome::Done) }
    });
    let worker = bench.run(builder);
    bench.publish(1, EPOCH, "{}").await;
    bench.script.until(|state| !state.claimed.is_empty()).await;
    let resumed = bench.time.moment().after(Duration::from_secs(60));
    bench.time.hold(Some(resumed));
    bench.time.sleep(Duration::from_secs(90)).await;
    assert_eq!(begun.load(Ordering::SeqCst), 0);
    bench.publish(2, EPOCH, "{}").await;
    bench.script.until(|state| !state.settled.is_empty()).await;
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    bench.end(worker).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_server_loses_nothing() {
    let bench = Bench::new();
    bench.script.state().away = true;
    let builder = bench
        .builder()
        .callback("c", |_: Job<Raw>, _| async { Ok(Outcome::Done) });
    let worker = bench.run(builder);
    bench
        .script
        .until(|state| state.calls.get("subscribe") == Some(&20))
        .await;
    bench.script.state().away = false;
    bench.publish(1, EPOCH, "{}").await;
    bench.script.until(|state| state.settled.len() == 1).await;
    bench.script.state().away = true;
    for number in 2..10 {
        bench.publish(number, EPOCH, "{}").await;
    }
    let calls = bench.script.state().calls["claim"];
    bench
        .script
        .until(|state| state.calls["claim"] == calls + 20)
        .await;
    assert_eq!(bench.settled().len(), 1);
    bench.script.state().away = false;
    bench.script.until(|state| state.settled.len() == 9).await;
    bench.end(worker).await;
    assert_eq!(bench.unhandled().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_repeated_until_the_server_is_back() {
    let bench = Bench::new();
    let script = Arc::clone(&bench.script);
    let builder = bench.builder().callback("c", move |_: Job<Raw>, _| {
        script.state().away = true;
        async { Ok(Outcome::Done) }
    });
    let worker = bench.run(builder);
    bench.publish(1, EPOCH, "{}").await;
    bench
        .script
        .until(|state| state.calls.get("settle") == Some(&5))
        .await;
    bench.script.state().away = false;
    bench.script.until(|state| state.settled.len() == 1).await;
    bench.end(worker).await;
}

#[tokio::test(start_paused = true)]
async fn no_more_run_than_may() {
    let bench = Bench::new();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (time, peak) = (bench.time.clone(), Arc::clone(&most));
    let builder = bench
        .builder()
        .concurrency(3)
        .callback("c", move |_: Job<Raw>, _| {
            let (time, now, peak) = (time.clone(), Arc::clone(&now), Arc::clone(&peak));
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                time.sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::Relaxed);
                Ok(Outcome::Done)
            }
        });
    for number in 0..20 {
        bench.publish(number, EPOCH, "{}").await;
    }
    let worker = bench.run(builder);
    bench.script.until(|state| state.settled.len() == 20).await;
    bench.end(worker).await;
    assert_eq!(most.load(Ordering::Relaxed), 3);
    let passed = bench.time.now().since(EPOCH);
    assert!(
        passed < Duration::from_secs(8),
        "a freed slot finds the next at hand: {passed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn stopping_finishes_what_runs_and_leaves_the_rest() {
    let bench = Bench::new();
    let time = bench.time.clone();
    let builder = bench
        .builder()
        .concurrency(2)
        .callback("c", move |_: Job<Raw>, _| {
            let time = time.clone();
            async move {
                time.sleep(Duration::from_secs(5)).await;
                Ok(Outcome::Done)
            }
        });
    for number in 0..6 {
        bench.publish(number, EPOCH, "{}").await;
    }
    let worker = bench.run(builder);
    bench.script.until(|state| state.claimed.len() == 2).await;
    bench.end(worker).await;
    let settled = bench.settled();
    assert_eq!(settled.len(), 2);
    assert!(
        settled
            .iter()
            .all(|item| item.outcome == SettleOutcome::Succeeded)
    );
    assert_eq!(bench.unhandled().await, 4);
}

#[tokio::test(start_paused = true)]
async fn stopping_gives_back_what_does_not_finish() {
    let bench = Bench::new();
    let limit = Duration::from_secs(10);
    let builder = bench
        .builder()
        .drain_limit(limit)
        .callback("c", |_: Job<Raw>, _| async {
            std::future::pending::<()>().await;
            Ok(Outcome::Done)
        });
    bench.publish(1, EPOCH, "{}").await;
    let worker = bench.run(builder);
    bench.script.until(|state| state.claimed.len() == 1).await;
    bench.end(worker).await;
    let settled = bench.settled();
    let item = only(&settled);
    assert_eq!(item.outcome, SettleOutcome::Snoozed);
    assert_eq!(
        item.delay.as_ref().map(|delay| delay.0.as_str()),
        Some("0s")
    );
    let passed = bench.time.now().since(EPOCH);
    assert!(passed >= limit && passed < limit * 2, "{passed:?}");
}

struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
