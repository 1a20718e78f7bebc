//! The worker of a drill uses the SDK as everybody does; its callback logs when each run began and ended.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tickwheel::{
    telemetry::{self, LogFormat},
    worker::{Context, Job, Outcome, Source, Worker},
};

use crate::{
    fence::Fence,
    journal::Journal,
    site::{CALLBACK, GATED},
};

/// The payload of a task, which tells its callback what to do.
#[derive(Debug, Deserialize)]
struct Order {
    /// The client's number of the registration.
    n: u64,
    run_ms: u64,
    /// Attempts up to this one ask for another.
    retries: u32,
}

/// One run; a callback that is dropped logs that.
struct Run {
    journal: Journal,
    of: Value,
    ended: bool,
}

impl Run {
    fn note(&self, what: &str, how: &str) {
        let mut event = self.of.clone();
        event["what"] = json!(what);
        event["how"] = json!(how);
        self.journal.note(event);
    }

    fn end(mut self, how: &str) {
        self.ended = true;
        self.note("end", how);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.ended {
            self.note("end", "dropped");
        }
    }
}

fn option(arguments: &[String], name: &str) -> String {
    let at = arguments.iter().position(|word| word == name);
    let value = at.and_then(|at| arguments.get(at + 1));
    value
        .unwrap_or_else(|| panic!("a worker needs {name}"))
        .clone()
}

fn since_epoch_ms(at: SystemTime) -> i64 {
    let since = at
        .duration_since(UNIX_EPOCH)
        .expect("tasks start after 1970");
    i64::try_from(since.as_millis()).expect("the year is one of four digits")
}

/// All that the log tells about a run.
fn about(worker: &str, life: &str, job: &Job<Order>) -> Value {
    let mut of = json!({"w": worker, "life": life, "id": job.id.to_string(), "attempt": job.attempt,
        "n": job.payload.n, "generation": job.generation, "start": since_epoch_ms(job.start_time)});
    if let Some(schedule) = &job.schedule {
        of["schedule"] = json!(schedule);
        of["scheduled"] = json!(job.scheduled_time.map(since_epoch_ms));
    }
    if let Some(previous) = &job.previous {
        let result = previous.read_result::<Value>();
        of["previous"] = json!({"id": previous.id.to_string(), "result": result.ok().flatten()});
    }
    of
}

/// Runs until it is told to stop.
pub(crate) async fn run(arguments: &[String]) {
    telemetry::start_logging(LogFormat::Text, "info").expect("nothing logs yet");
    let (name, life) = (option(arguments, "--name"), option(arguments, "--life"));
    let directory = PathBuf::from(option(arguments, "--directory"));
    let journal = Journal::open(&directory, &name);
    let fence = Fence::of(&directory);
    let servers = option(arguments, "--servers");
    let source = match option(arguments, "--source").as_str() {
        "poll" => Source::poll(&servers),
        brokers => Source::kafka(brokers),
    };
    let me = name.clone();
    let callback = move |job: Job<Order>, context: Context| {
        let of = about(&me, &life, &job);
        let run = Run {
            journal: journal.clone(),
            of: of.clone(),
            ended: false,
        };
        let fence = fence.clone();
        async move {
            run.note("begin", "");
            let id = job.id.to_string();
            fence.show(&id, job.attempt);
            let time = context.time();
            time.sleep(Duration::from_millis(job.payload.run_ms)).await;
            // The worker may have been stopped and gone on; its change is refused now if another attempt has
            // begun meanwhile.
            if !fence.lets_through(&id, job.attempt) {
                run.end("fenced");
                return Ok(Outcome::retry("a later attempt has been here"));
            }
            if job.attempt <= job.payload.retries {
                run.end("retry");
                return Ok(Outcome::retry("once more"));
            }
            run.end("done");
            Ok(Outcome::DoneWith(
                json!({"w": of["w"], "attempt": job.attempt, "n": job.payload.n}),
            ))
        }
    };
    let worker = Worker::builder()
        .callback(CALLBACK, callback.clone())
        .callback(GATED, callback)
        .source(source)
        .server(servers)
        .name(name)
        .concurrency(64)
        .drain_limit(Duration::from_secs(5))
        .build()
        .expect("the worker can be built");
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .expect("signals can be listened for");
    let stop = async {
        terminate.recv().await;
    };
    worker.run_until(stop).await.expect("the worker runs");
}
