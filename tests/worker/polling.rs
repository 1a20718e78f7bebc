//! The worker that polls runs against the scripted service in virtual time, and against a real server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Bench, EPOCH, OnDrop, message};
use crate::local::Local;

use tickwheel::{
    api::{
        poll::PollResponse,
        worker::{ClaimedTask, SettleOutcome},
    },
    client::{Task, TaskState, secs},
    worker::{Builder, Context, Job, Outcome, Raw, Source, Worker},
};

fn builder(bench: &Bench) -> Builder {
    bench.builder().source(Source::poll("http://script"))
}

fn task(number: u64) -> ClaimedTask {
    ClaimedTask {
        id: message(number, EPOCH, "").dispatch.id.to_string(),
        attempt: 1,
        generation: 0,
        callback: "c".to_owned(),
        collection: Some("blue".to_owned()),
        priority: None,
        ordering_key: None,
        parent: None,
        schedule: None,
        scheduled_time: None,
        payload: serde_json::value::to_raw_value(&number).ok(),
        payload_base64: None,
        content_type: Some("application/json".to_owned()),
        start_time: EPOCH.into(),
        claim_expire_time: EPOCH.into(),
        heartbeat_timeout: secs(30).into(),
        attempt_timeout: None,
        max_attempts: 5,
        labels: Default::default(),
        previous: None,
        dependencies: Vec::new(),
        traceparent: None,
    }
}

fn answer(numbers: std::ops::Range<u64>) -> PollResponse {
    PollResponse {
        tasks: numbers.map(task).collect(),
        waited: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_asks_for_as_many_as_have_a_slot() {
    let bench = Bench::new();
    let time = bench.time.clone();
    let builder = builder(&bench)
        .concurrency(3)
        .callback("c", move |job: Job<u64>, _| {
            assert_eq!(job.collection, "blue");
            let time = time.clone();
            async move {
                time.sleep(secs(10 + job.payload)).await;
                Outcome::done_with(&job.payload)
            }
        });
    for tasks in [0..2, 2..3, 3..4] {
        bench.script.state().polls.push_back(answer(tasks));
    }
    let worker = bench.run(builder);
    bench.script.until(|state| state.settled.len() == 4).await;
    bench.end(worker).await;
    let asked = bench.script.state().asked.clone();
    assert_eq!(asked[..3], [3, 1, 1], "and none while all slots are taken");
    let results = bench.settled();
    let results = results
        .iter()
        .map(|item| item.result.as_ref().unwrap().get());
    assert_eq!(results.collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    assert!(!bench.script.state().calls.contains_key("claim"));
    assert!(!bench.script.state().calls.contains_key("subscribe"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_counted_from_when_the_poll_was_sent_and_what_it_had_waited() {
    let bench = Bench::new();
    let dropped = Arc::new(Notify::new());
    let signal = Arc::clone(&dropped);
    let builder = builder(&bench).callback("c", move |_: Job<Raw>, _| {
        let guard = OnDrop(Arc::clone(&signal));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(Outcome::Done)
        }
    });
    bench.script.state().deaf = true;
    let worker = bench.run(builder);
    bench.script.until(|state| !state.asked.is_empty()).await;
    // The task was claimed 12 s after the poll was sent, and its answer took 8 s.
    bench.time.sleep(secs(20)).await;
    let late = PollResponse {
        waited: Some(secs(12).into()),
        ..answer(0..1)
    };
    bench.script.push(late);
    dropped.notified().await;
    let lived: Duration = bench.time.now().since(EPOCH);
    assert!(
        (40_990..41_010).contains(&lived.as_millis()),
        "12 s and 29 s: {lived:?}"
    );
    bench.end(worker).await;
    assert_eq!(bench.settled().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_slot_is_given_back_and_an_outage_is_waited_out() {
    let bench = Bench::new();
    let builder = builder(&bench)
        .concurrency(2)
        .callback("c", |_: Job<Raw>, _| async { Ok(Outcome::Done) });
    bench.script.state().away = true;
    bench.script.state().polls.push_back(answer(0..5));
    let worker = bench.run(builder);
    bench
        .script
        .until(|state| state.calls.get("poll") == Some(&10))
        .await;
    bench.script.state().away = false;
    bench.script.until(|state| state.settled.len() == 5).await;
    bench.end(worker).await;
    let outcomes = bench.settled();
    let of = |wanted| {
        outcomes
            .iter()
            .filter(|item| item.outcome == wanted)
            .count()
    };
    assert_eq!(
        (of(SettleOutcome::Succeeded), of(SettleOutcome::Snoozed)),
        (2, 3)
    );
}

#[tokio::test(start_paused = true)]
async fn what_arrives_when_the_worker_stops_is_given_back() {
    let bench = Bench::new();
    let builder = builder(&bench).callback("c", |_: Job<Raw>, _| async { Ok(Outcome::Done) });
    let worker = bench.run(builder);
    bench.script.until(|state| !state.asked.is_empty()).await;
    let begun = bench.time.moment();
    // The tasks were claimed when the worker said that it leaves.
    bench.script.state().last_poll = Some(answer(0..2));
    bench.end(worker).await;
    let settled = bench.settled();
    assert_eq!(settled.len(), 2);
    assert!(
        settled
            .iter()
            .all(|item| item.outcome == SettleOutcome::Snoozed),
        "{settled:?}"
    );
    assert!(bench.time.moment().since(begun) < secs(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_hands_out_what_is_due_and_gets_back_what_was_not_begun() {
    let server = Local::start().await;
    let (stop, calls) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let started = Arc::new(Notify::new());
    let worker = |calls: &Arc<AtomicUsize>, started: &Arc<Notify>| {
        let (calls, started) = (Arc::clone(calls), Arc::clone(started));
        Worker::builder()
            .callback("work", move |job: Job<u64>, context: Context| {
                let (calls, started) = (Arc::clone(&calls), Arc::clone(&started));
                async move {
                    calls.fetch_add(1, Ordering::SeqCst);
                    match (job.payload, context.attempt()) {
                        (0, 1) => Ok(Outcome::RetryAfter(
                            Duration::from_millis(50),
                            "again".to_owned(),
                        )),
                        (1, _) => {
                            started.notify_one();
                            context.cancelled().await;
                            Ok(Outcome::Done)
                        }
                        (n, _) => Outcome::done_with(&(n * 2)),
                    }
                }
            })
            .source(Source::poll(&server.url))
            .concurrency(8)
            .build()
            .unwrap()
    };
    let running = tokio::spawn(worker(&calls, &started).run_until(stop.clone().cancelled_owned()));
    let mut ids = Vec::new();
    for n in 0..40_u64 {
        let task = Task::callback("work")
            .delay(Duration::from_millis(20 * n))
            .json(&n)
            .unwrap();
        ids.push(
            server
                .client
                .register(task.heartbeat_timeout(secs(3)))
                .await
                .unwrap()
                .id,
        );
    }
    started.notified().await;
    server.client.cancel(ids[1]).await.unwrap();
    for (n, id) in ids.iter().enumerate() {
        let task = server.client.wait(*id, secs(30)).await.unwrap();
        // A finished task counts, also when it ended because a client asked to cancel it.
        assert_eq!(task.state, TaskState::Succeeded, "{n}: {task:?}");
        assert_eq!(task.attempt, if n == 0 { 2 } else { 1 });
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    // No worker polls any more, so a due task waits for the next worker, at its first attempt.
    let task = Task::callback("work").json(&7_u64).unwrap();
    let id = server.client.register(task).await.unwrap().id;
    let stop = CancellationToken::new();
    let running = tokio::spawn(worker(&calls, &started).run_until(stop.clone().cancelled_owned()));
    let task = server.client.wait(id, secs(30)).await.unwrap();
    assert_eq!((task.state, task.attempt), (TaskState::Succeeded, 1));
    stop.cancel();
    running.await.unwrap().unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_takes_no_task_along() {
    use tokio::io::AsyncWriteExt as _;

    let server = Local::start().await;
    let body = r#"{"worker":"gone","callbacks":["work"],"max_tasks":10,"wait":"60s"}"#;
    let head = format!(
        "POST /v1/worker/poll HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let address = server.url.trim_start_matches("http://");
    let mut connections = Vec::new();
    for _ in 0..8 {
        let mut connection = tokio::net::TcpStream::connect(address).await.unwrap();
        connection
            .write_all(format!("{head}{body}").as_bytes())
            .await
            .unwrap();
        connections.push(connection);
    }
    // All of the connections wait; then they break, and half a second later the tasks are due.
    drop(connections);
    let mut ids = Vec::new();
    for n in 0..8 {
        let task = Task::callback("work").delay(secs(1) / 2).json(&n).unwrap();
        ids.push(server.client.register(task).await.unwrap().id);
    }
    let stop = CancellationToken::new();
    let worker = Worker::builder()
        .callback("work", |_: Job<Raw>, _| async { Ok(Outcome::Done) })
        .source(Source::poll(&server.url))
        .build()
        .unwrap();
    let running = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    for id in ids {
        let task = server.client.wait(id, secs(20)).await.unwrap();
        assert_eq!((task.state, task.attempt), (TaskState::Succeeded, 1));
    }
    stop.cancel();
    running.await.unwrap().unwrap();
    server.stop().await;
}
