//! The trial shows how a task waits for days, is moved and withdrawn by its name, and ends as a signed request to a program of
//! yours.
//!
//! ```text
//! tickwheel dev
//! export WEBHOOK_SECRET="whsec_$(head -c 24 /dev/urandom | base64)"
//! examples/trial/receiver.py --port 8000 --webhooks 1 &
//! cargo run --example trial -- --receiver http://127.0.0.1:8000/trials
//! ```
//!
//! # What it shows
//! - The end of a trial is one task, named by its user: of one key and callback at most one task is live. So the program keeps no
//!   id, and a registration that is repeated is one trial.
//! - A user who extends the trial moves that task. One who buys withdraws it.
//! - The callback has the URL and the secret. No worker is needed: the service sends the request itself, signs it, and tries it
//!   again until it is taken. `receiver.py` checks the signature, and does each message once.

use std::time::Duration;

use clap::Parser;
use serde::Serialize;
use tickwheel::client::{
    CallbackRequest, Client, HttpDefaults, OnConflict, RetryPolicy, Task, TaskState, secs,
};

const CALLBACK: &str = "trial_ended";
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long the webhook may take, with repetitions.
const LIMIT: Duration = Duration::from_secs(60);

/// Lets trials end.
#[derive(Debug, Parser)]
struct Flags {
    /// Servers of Tickwheel.
    #[arg(
        long,
        env = "TICKWHEEL_SERVER",
        default_value = "http://127.0.0.1:7420"
    )]
    server: String,
    /// URL that is told of trials that have ended.
    #[arg(long)]
    receiver: String,
    /// Secret of its webhooks: `whsec_` and base64 of 24 to 64 bytes.
    #[arg(long, env = "WEBHOOK_SECRET", hide_env_values = true)]
    secret: String,
}

/// The payload of each task, and the body of the webhook.
#[derive(Debug, Serialize)]
struct Ended<'a> {
    user: &'a str,
}

/// Returns the end of a trial. A user who begins anew has one trial.
fn trial(user: &str, length: Duration) -> anyhow::Result<Task> {
    let task = Task::callback(CALLBACK)
        .key(user)
        .on_conflict(OnConflict::Replace);
    Ok(task.delay(length).json(&Ended { user })?)
}

#[expect(clippy::print_stdout, reason = "people read it")]
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let client = Client::connect(&flags.server)?;
    let callback = CallbackRequest {
        // A receiver that is away for a day is told afterwards.
        max_attempts: Some(100),
        retry: Some(RetryPolicy::exponential(secs(1), 2.0, secs(900))),
        http: Some(HttpDefaults {
            url: Some(flags.receiver),
            secrets: Some(vec![flags.secret]),
            ..HttpDefaults::default()
        }),
        ..CallbackRequest::default()
    };
    client.set_callback(CALLBACK, &callback).await?;

    let ada = client.register(trial("ada", 14 * DAY)?).await?.task;
    println!("ada: the trial ends at {}", ada.start_time.0);
    let moved = client.reschedule_by_key(CALLBACK, "ada", 21 * DAY).await?;
    println!("ada extends it by a week: {}", moved.task.start_time.0);

    client.register(trial("cleo", 14 * DAY)?).await?;
    let bought = client.cancel_by_key(CALLBACK, "cleo").await?;
    println!("cleo buys: the end of the trial is {}", bought.task.state);

    // A short one, so that somebody sees how it ends.
    let bob = client.register(trial("bob", secs(1))?).await?;
    client.reschedule(bob.id, secs(2)).await?;
    let ended = client.wait(bob.id, LIMIT).await?;
    anyhow::ensure!(
        ended.state == TaskState::Succeeded,
        "the webhook was not taken: {:?}",
        ended.error
    );
    let answer = ended.result.as_ref().map_or("nothing", |raw| raw.get());
    println!("bob: the trial has ended, and the receiver answered {answer}");

    // This service may be used for other things.
    client.cancel_by_key(CALLBACK, "ada").await?;
    Ok(())
}
