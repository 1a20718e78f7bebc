//! A worker to copy: delivers reminders, to a file or to a webhook.
//!
//! ```text
//! cargo run --example reminders -- --kafka 127.0.0.1:9092 --outbox outbox.jsonl
//! tickwheel task register --callback remind --delay 10s \
//!     --payload '{"recipient": "ana@example.org", "text": "call back", "due": "noon"}'
//! ```
//!
//! # Delivering once
//! A callback runs **at least once**: a worker may die after it delivered and before it reported. Then the task runs again,
//! with the same `id` and a higher `attempt`. So whatever a callback changes must recognise what it has seen:
//! - the file: a line says which task it is of, and a task that has a line is not written again (the lines are read when
//!   the worker starts). Each worker needs an outbox of its own, or a database with a unique key on `id` in its place.
//! - the webhook: it gets the id as `Idempotency-Key`, the same for every attempt, and the attempt as a header. It should
//!   answer a key that it knows with success, and refuse an attempt lower than the last it has seen of a task: that one
//!   comes from a worker that was paused so long that another took over.

use std::{collections::HashSet, io, path::Path, path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use serde::{Deserialize, Serialize};
use tickwheel::worker::{Context, Failure, Job, Outcome, Source, Worker};
use tokio::{
    fs::{File, OpenOptions},
    io::AsyncWriteExt as _,
    sync::Mutex,
};

/// Delivers reminders.
#[derive(Debug, Parser)]
struct Flags {
    /// Servers of Tickwheel.
    #[arg(
        long,
        env = "TICKWHEEL_SERVER",
        default_value = "http://127.0.0.1:7420"
    )]
    server: String,
    /// Bootstrap servers of its Kafka.
    #[arg(long, env = "TICKWHEEL_KAFKA", default_value = "127.0.0.1:9092")]
    kafka: String,
    /// Reminders that are delivered at once.
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// File that reminders are appended to, as JSON lines.
    #[arg(long, required_unless_present = "webhook", conflicts_with = "webhook")]
    outbox: Option<PathBuf>,
    /// URL that reminders are posted to instead.
    #[arg(long)]
    webhook: Option<String>,
}

/// The payload of a task.
#[derive(Debug, Clone, Deserialize)]
struct Reminder {
    recipient: String,
    text: String,
    /// Time of the event, in the sender's words.
    due: Option<String>,
}

/// Message that the callback delivers.
#[derive(Debug, Serialize, Deserialize)]
struct Message {
    task: String,
    attempt: u32,
    recipient: String,
    subject: String,
    body: String,
}

fn render(job: &Job<Reminder>) -> Message {
    let Reminder {
        recipient,
        text,
        due,
    } = &job.payload;
    let body = match due {
        Some(due) => format!("Hello {recipient},\n\nyou asked to be reminded: {text} (due {due})."),
        None => format!("Hello {recipient},\n\nyou asked to be reminded: {text}."),
    };
    Message {
        task: job.id.to_string(),
        attempt: job.attempt,
        recipient: recipient.clone(),
        subject: format!("Reminder: {text}"),
        body,
    }
}

/// A file of messages, and which tasks have one.
#[derive(Debug)]
struct Outbox {
    file: File,
    delivered: HashSet<String>,
}

impl Outbox {
    async fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(path).await?;
        let text = tokio::fs::read_to_string(path).await?;
        // A line that was cut off by a crash is not a message: its task runs again.
        let messages = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Message>(line).ok());
        let delivered = messages.map(|message| message.task).collect();
        let mut outbox = Self { file, delivered };
        if !text.is_empty() && !text.ends_with('\n') {
            outbox.file.write_all(b"\n").await?;
        }
        Ok(outbox)
    }

    /// Appends a message, unless its task has one.
    async fn append(&mut self, message: &Message) -> io::Result<()> {
        if self.delivered.contains(&message.task) {
            return Ok(());
        }
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.file.write_all(&line).await?;
        // Reported as done means done, even if the machine fails now.
        self.file.sync_data().await?;
        self.delivered.insert(message.task.clone());
        Ok(())
    }
}

/// Where messages go.
enum Delivery {
    Outbox(Mutex<Outbox>),
    Webhook(reqwest::Client, String),
}

impl Delivery {
    async fn deliver(&self, message: &Message) -> Result<Outcome, Failure> {
        match self {
            Self::Outbox(outbox) => {
                outbox.lock().await.append(message).await?;
                Ok(Outcome::Done)
            }
            Self::Webhook(client, url) => {
                let request = client
                    .post(url)
                    .header("idempotency-key", &message.task)
                    .header("tickwheel-attempt", message.attempt)
                    .json(message);
                let status = request.send().await?.status();
                Ok(match status.as_u16() {
                    200..=299 => Outcome::Done,
                    // Wants fewer requests, or has a bad day: the task's own backoff.
                    408 | 425 | 429 | 500.. => {
                        Outcome::Retry(format!("the webhook answered {status}"))
                    }
                    // Will say the same next time.
                    _ => Outcome::Fail(format!("the webhook answered {status}")),
                })
            }
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let flags = Flags::parse();
    let delivery = match (flags.outbox, flags.webhook) {
        (Some(path), _) => Delivery::Outbox(Mutex::new(Outbox::open(&path).await?)),
        (None, Some(url)) => {
            let client = reqwest::Client::builder()
                .timeout(Duration::from_secs(15))
                .build()?;
            Delivery::Webhook(client, url)
        }
        (None, None) => anyhow::bail!("give --outbox or --webhook"),
    };
    let delivery = Arc::new(delivery);
    Worker::builder()
        .callback("remind", move |job: Job<Reminder>, ctx: Context| {
            let delivery = Arc::clone(&delivery);
            async move {
                if ctx.is_cancelled() {
                    return Ok(Outcome::fail("cancelled"));
                }
                delivery.deliver(&render(&job)).await
            }
        })
        .source(Source::kafka(&flags.kafka))
        .server(flags.server)
        .concurrency(flags.concurrency)
        .build()?
        .run_until(stopped())
        .await?;
    Ok(())
}

/// Waits for Ctrl-C or SIGTERM.
async fn stopped() {
    let interrupted = async { tokio::signal::ctrl_c().await.is_ok() };
    let terminated = async {
        let kind = tokio::signal::unix::SignalKind::terminate();
        match tokio::signal::unix::signal(kind) {
            Ok(mut signal) => signal.recv().await.is_some(),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = interrupted => {}
        _ = terminated => {}
    }
}
