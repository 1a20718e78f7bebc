//! The guides of the documentation (`docs/guides`) show these pieces of Rust; each function is one guide and does what it says.
//!
//! ```text
//! tickwheel dev
//! cargo run --example guides -- remind
//! ```
//!
//! `tests/docs/run` compares the pages with this file, and runs each function against a service. A function ends by itself.

use std::time::Duration;

use anyhow::Error;
use serde::{Deserialize, Serialize};
use tickwheel::{
    client::{
        CallbackRequest, CancelOutcome, Client, EndState, FollowUp, OnConflict, RateLimit,
        RetryPolicy, ScheduleRequest, Task, TaskState, secs,
    },
    worker::{Context, Job, Outcome, Source, Worker},
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The ends of a tree that did not come to what it was made for.
const VAIN: [EndState; 2] = [EndState::Faulted, EndState::Cancelled];

/// How long a task may take here, with its worker.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Serialize, Deserialize)]
struct Reminder {
    user: String,
    text: String,
}

#[derive(Serialize, Deserialize)]
struct Charge {
    cents: i64,
}

#[derive(Serialize, Deserialize)]
struct Order {
    order: u32,
}

#[derive(Serialize)]
struct Report {
    kind: String,
}

#[derive(Serialize)]
struct Seat {
    seat: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = std::env::var("TICKWHEEL_SERVER");
    let server = server.unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());
    let client = Client::connect(&server)?;
    match std::env::args().nth(1).as_deref() {
        Some("remind") => remind(&client, server).await,
        Some("retry") => retry(&client, server).await,
        Some("webhook") => webhook(&client).await,
        Some("nightly") => nightly(&client).await,
        Some("saga") => saga(&client).await,
        Some("tenant-rate") => tenant_rate(&client).await,
        Some("reservation") => reservation(&client).await,
        Some("outbox") => outbox(&client).await,
        other => anyhow::bail!("give the name of a guide instead of {other:?}"),
    }
}

/// Runs a worker until it has done a task.
async fn run_one(client: &Client, worker: Worker, task: Task) -> anyhow::Result<()> {
    let id = client.register(task).await?.id;
    let done = async {
        // An answer that is late is told by the read below.
        drop(client.wait(id, LIMIT).await);
    };
    worker.run_until(done).await?;
    let state = client.get(id).await?.state;
    anyhow::ensure!(state == TaskState::Succeeded, "the task is {state:?}");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "people read it")]
async fn remind(client: &Client, server: String) -> anyhow::Result<()> {
    let reminder = Reminder {
        user: "ada".into(),
        text: "your cart is still full".into(),
    };
    let task = Task::callback("remind")
        .key("cart-17")
        .on_conflict(OnConflict::Replace);
    client
        .register(task.delay(3 * DAY).json(&reminder)?)
        .await?;

    client
        .reschedule_by_key("remind", "cart-17", 7 * DAY)
        .await?;
    client.cancel_by_key("remind", "cart-17").await?;

    let worker = Worker::builder()
        .callback("remind", |job: Job<Reminder>, _: Context| async move {
            println!("to {}: {} ({})", job.payload.user, job.payload.text, job.id);
            Ok(Outcome::Done)
        })
        .source(Source::poll(&server))
        .build()?;
    run_one(client, worker, Task::callback("remind").json(&reminder)?).await
}

async fn retry(client: &Client, server: String) -> anyhow::Result<()> {
    let patient = RetryPolicy::exponential(secs(1), 2.0, secs(3600));
    let task = Task::callback("charge").max_attempts(20).retry(patient);
    client.register(task.json(&Charge { cents: 500 })?).await?;

    let charge = |job: Job<Charge>, _: Context| async move {
        if job.payload.cents < 0 {
            return Ok(Outcome::fail("nothing to charge")); // no further attempt
        }
        if job.attempt == 1 {
            return Ok(Outcome::RetryAfter(secs(1), "the bank is busy".into())); // at a time of ours
        }
        Ok(Outcome::Done) // an error would be a retry by the rule
    };
    let worker = Worker::builder()
        .callback("charge", charge)
        .source(Source::poll(&server))
        .build()?;
    let task = Task::callback("charge").json(&Charge { cents: 1 })?;
    run_one(client, worker, task).await
}

async fn webhook(client: &Client) -> anyhow::Result<()> {
    let order = Order { order: 17 };
    let task = Task::http("http://localhost:8000/hooks").delay(secs(1));
    client.register(task.json(&order)?).await?;
    Ok(())
}

async fn nightly(client: &Client) -> anyhow::Result<()> {
    let run = Task::callback("report").json(&Report {
        kind: "daily".into(),
    })?;
    let schedule = ScheduleRequest {
        time_zone: Some("Europe/Berlin".into()),
        ..ScheduleRequest::cron("30 2 * * *").runs(run.max_attempts(5).request().clone())
    };
    client.set_schedule("nightly", &schedule).await?;
    Ok(())
}

async fn saga(client: &Client) -> anyhow::Result<()> {
    let step = |name: &str| Task::callback(name).json(&Order { order: 17 });
    let undo = |name: &str| Ok::<_, Error>(FollowUp::from(step(name)?).at(VAIN).in_tree());
    let ship = step("ship")?.after_parent().max_attempts(3);
    let charge = step("charge_card")?
        .after_parent()
        .then(undo("refund_card")?)
        .child(ship);
    let reserve = step("reserve_stock")?
        .after_parent()
        .then(undo("release_stock")?)
        .child(charge);
    client
        .register(step("order")?.key("order-17").child(reserve))
        .await?;
    Ok(())
}

async fn tenant_rate(client: &Client) -> anyhow::Result<()> {
    let rate = RateLimit {
        per_second: 5.0,
        burst: Some(10),
    };
    let limits = CallbackRequest {
        rate: Some(rate),
        max_in_flight: Some(2),
        ..CallbackRequest::default()
    };
    client.set_callback("mail.acme", &limits).await?;
    Ok(())
}

async fn reservation(client: &Client) -> anyhow::Result<()> {
    let release = Task::callback("release_seat")
        .key("seat-12A")
        .delay(secs(15 * 60));
    client
        .register(release.json(&Seat { seat: "12A".into() })?)
        .await?;

    let answer = client.cancel_by_key("release_seat", "seat-12A").await?;
    let paid = answer.outcome == CancelOutcome::Cancelled;

    anyhow::ensure!(paid, "it was paid in time: {:?}", answer.outcome);
    Ok(())
}

async fn outbox(client: &Client) -> anyhow::Result<()> {
    let invoice = Task::callback("invoice").delay(secs(3600));
    let invoice = invoice.json(&Order { order: 17 })?;
    client
        .register(invoice.idempotency_key("shop-outbox-1"))
        .await?;
    Ok(())
}
