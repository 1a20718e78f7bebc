//! The poller asks the service for tasks of one callback, as many as have a free slot, and starts them.
//!
//! One poll is in flight at a time. It is answered as soon as a task is due; slots that become free meanwhile
//! ask with the next poll. The tasks come claimed. Their leases count from the sending of the poll plus the
//! wait that the service reports, so a slow answer shortens a lease and never stretches it. While the service
//! is away the poll is repeated. When the worker stops, it has its poll answered at once, and gives back
//! tasks that still arrive. When a connection breaks, the service releases the tasks that it had claimed for
//! it.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    attempt::{Attempt, Key},
    dependency,
    job::{Job, Raw},
    previous,
    retry::{Retry, is_worth_repeating},
    run::Tools,
    server::Server,
};
use crate::{
    api::{
        poll::{LeaveRequest, PollRequest, PollResponse},
        task_request::Priority,
        text::system_time,
        time::{duration, instant},
        worker::ClaimedTask,
    },
    client,
    limits::POLL_TASKS_MAX,
    model::task::Content,
    time_source::{Moment, TimeSource},
};

/// How long a poll waits at the service: few requests, and within the idle limits of usual proxies.
const POLL_WAIT: Duration = Duration::from_secs(30);

/// How long a poll may take to end when the worker stops; then its connection is dropped.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// Polls for one callback.
pub(super) struct PollRunner {
    pub(super) callback: String,
    pub(super) worker: String,
    pub(super) version: Option<String>,
    pub(super) server: Arc<dyn Server>,
    pub(super) tools: Arc<Tools>,
    pub(super) slots: Arc<Semaphore>,
    pub(super) time: TimeSource,
    pub(super) stop: CancellationToken,
    pub(super) running: TaskTracker,
}

impl PollRunner {
    /// Polls until it is told to stop.
    pub(super) async fn run(self) {
        let mut retry = Retry::default();
        let stop = self.stop.clone();
        while let Some(Some(slots)) = stop.run_until_cancelled(self.free_slots()).await {
            let request = PollRequest {
                worker: self.worker.clone(),
                callbacks: vec![self.callback.clone()],
                max_tasks: u32::try_from(slots.num_permits()).ok(),
                wait: Some(POLL_WAIT.into()),
                version: self.version.clone(),
            };
            let sent = self.time.moment();
            match self.poll(&request).await {
                None => break,
                Some(Ok(answer)) => {
                    retry.succeeded();
                    self.start(answer, sent, slots).await;
                }
                Some(Err(error)) => {
                    drop(slots);
                    self.failed(&error, &mut retry);
                    stop.run_until_cancelled(retry.wait(&self.time)).await;
                }
            }
        }
    }

    /// Polls. When the worker is told to stop meanwhile, it has the poll answered at once, so that no task is
    /// lost with a connection. Returns none when even that takes too long.
    async fn poll(&self, request: &PollRequest) -> Option<Result<PollResponse, client::Error>> {
        let mut polled = pin!(self.server.poll(request, POLL_WAIT));
        let answer = self.stop.run_until_cancelled(polled.as_mut()).await;
        if answer.is_some() {
            return answer;
        }
        let leave = LeaveRequest {
            worker: self.worker.clone(),
        };
        let answered = async {
            let (answer, left) = tokio::join!(polled, self.server.leave(&leave));
            if let Err(error) = left {
                tracing::debug!(%error, "could not end a poll");
            }
            answer
        };
        self.time.within(LEAVE_LIMIT, answered).await
    }

    /// Waits for a free slot, and takes all that are free.
    async fn free_slots(&self) -> Option<OwnedSemaphorePermit> {
        let mut slots = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        let more = self.slots.available_permits().min(POLL_TASKS_MAX - 1);
        let more = u32::try_from(more).unwrap_or(0);
        if let Ok(more) = Arc::clone(&self.slots).try_acquire_many_owned(more) {
            slots.merge(more);
        }
        Some(slots)
    }

    fn failed(&self, error: &client::Error, retry: &mut Retry) {
        if retry.failures() == 0 {
            if is_worth_repeating(error) {
                tracing::warn!(callback = self.callback, %error, "cannot poll: trying again");
            } else {
                tracing::error!(callback = self.callback, %error, "the service refuses polls: trying again");
            }
        }
        retry.failed(error.retry_after(), &self.time);
    }

    /// Starts the tasks of an answer; gives them back when the worker is stopping.
    async fn start(&self, answer: PollResponse, sent: Moment, mut slots: OwnedSemaphorePermit) {
        let waited = answer.waited.as_ref();
        let waited = waited.and_then(|text| duration(text, Duration::ZERO).ok());
        let lease_start = sent.after(waited.unwrap_or_default());
        for task in answer.tasks {
            let id = task.id.clone();
            let (attempt, job) = match read(task, lease_start) {
                Ok(read) => read,
                Err(reason) => {
                    tracing::error!(
                        callback = self.callback,
                        id,
                        reason,
                        "skipped a task that cannot be read"
                    );
                    continue;
                }
            };
            self.tools.heart.add(&attempt, self.time.moment());
            match slots.split(1) {
                Some(slot) if !self.stop.is_cancelled() => {
                    let run = Arc::clone(&self.tools).run(attempt, job, slot);
                    self.running.spawn(run);
                }
                // There are more tasks than were asked for, or it is too late: other workers can run them at
                // once.
                _ => self.tools.give_back(attempt).await,
            }
        }
    }
}

/// Reads a task as it came.
fn read(mut task: ClaimedTask, lease_start: Moment) -> Result<(Arc<Attempt>, Job<Raw>), String> {
    let id = task.id.parse();
    let id = id.map_err(|error| format!("id: {error}"))?;
    let timeout = duration(&task.heartbeat_timeout, Duration::ZERO)?;
    let limit = task.attempt_timeout.as_ref();
    let limit = limit
        .map(|text| duration(text, Duration::ZERO))
        .transpose()?;
    let key = Key {
        id,
        attempt: task.attempt,
    };
    let job = Job {
        id,
        attempt: task.attempt,
        generation: task.generation,
        max_attempts: task.max_attempts,
        callback: task.callback.clone(),
        collection: task.collection.clone().unwrap_or_default(),
        priority: task.priority.unwrap_or(Priority::Normal),
        start_time: system_time(instant(&task.start_time)?),
        ordering_key: task.ordering_key.clone(),
        parent: task.parent.as_deref().and_then(|id| id.parse().ok()),
        schedule: task.schedule.clone(),
        scheduled_time: scheduled_time(&task),
        labels: Vec::new(),
        content_type: String::new(),
        previous: None,
        dependencies: dependency::read(std::mem::take(&mut task.dependencies)),
        trace_parent: None,
        payload: Raw::default(),
    };
    let attempt = Attempt::new(key, timeout, lease_start).limited(limit, lease_start);
    Ok((Arc::new(attempt), job.with_content(content(task))))
}

/// The time that a run of a schedule stands for; a text that is no time is none.
pub(super) fn scheduled_time(task: &ClaimedTask) -> Option<SystemTime> {
    let time = instant(task.scheduled_time.as_ref()?).ok()?;
    Some(system_time(time))
}

/// Reads the content that came with a claimed task.
pub(super) fn content(task: ClaimedTask) -> Content {
    let json = task.payload.map(|raw| Bytes::from(raw.get().to_owned()));
    let bytes = task
        .payload_base64
        .and_then(|text| STANDARD.decode(text).ok())
        .map(Bytes::from);
    Content {
        payload: json.or(bytes).unwrap_or_default(),
        content_type: task.content_type.unwrap_or_default(),
        record_key: None,
        record_headers: Vec::new(),
        labels: task.labels.into_iter().collect(),
        trace_parent: task.traceparent,
        previous: task.previous.and_then(previous::read).map(Box::new),
    }
}
