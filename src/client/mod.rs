//! The client registers, reads, cancels and moves tasks for a program, over HTTP, at one or several servers.
//!
//! ```no_run
//! # use serde::Serialize;
//! # #[derive(Serialize)] struct Reset { user: u32 }
//! # async fn example() -> Result<(), tickwheel::client::Error> {
//! use tickwheel::client::{Client, Task, secs};
//!
//! let client = Client::connect("http://127.0.0.1:7420")?;
//! client.register(Task::callback("send_email").delay(secs(90)).json(&Reset { user: 7 })?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Every call has a time limit and ends. An [`Error`] tells what to do: fix the request, try again later, or
//! stop. A call that may have arrived is repeated only when repeating does no harm. The client makes the id of
//! a callback's task itself, so a registration is repeated when its answer is lost, and is still one task. Other
//! registrations are repeated if they have an [`Task::idempotency_key`]; [`Error::Transport`] says in `sent`
//! whether one may have arrived.

mod access;
mod answers;
mod api_keys;
mod backup;
mod builder;
mod by_key;
mod callbacks;
mod cluster;
mod configuration;
mod dead_letters;
mod error;
mod ids;
mod jobs;
mod list;
mod messages;
#[cfg(feature = "cli")]
mod pass;
mod registering;
mod schedules;
mod task;
mod test_clock;
mod together;
mod transport;
mod trees;
mod why;
mod worker_calls;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};

use answers::{not_ours, one_each, registered};
pub use api_keys::AuditPages;
pub use backup::Backup;
pub(crate) use builder::Access;
pub use builder::ClientBuilder;
pub use callbacks::CallbackPages;
pub use configuration::ConfigurationPages;
pub use dead_letters::{DeadLetterFilter, DeadLetterPages};
pub use error::Error;
use ids::Ids;
pub use jobs::JobPages;
pub use list::{TaskFilter, TaskPages};
use registering::Lines;
pub use schedules::{ExportPages, RunPages, SchedulePages};
pub use task::{StartTime, Task};
use transport::{CALL_LIMIT, Call, Transport};

pub use crate::api::{
    NotATaskId, TaskId,
    action::{
        Action, ActionOutcome, ActionResponse, Check, CheckResponse, CheckState, Deed, Email,
        EndState,
    },
    api_key::{ApiKeyRequest, ApiKeyResponse, ApiRole, AuditEntry, WhoAmIResponse},
    callback::{
        CallbackActivity, CallbackConfiguration, CallbackLateness, CallbackRequest,
        CallbackResponse, CallbackWorker, GateRequest, GateResponse, GateState, HttpDefaults,
        OnRetry, RateLimit,
    },
    configuration::{
        ConfigurationItem, GateSetting, ImportConfigurationResult, NamedApiKey, NamedCallback,
    },
    dead_letter::{
        DeadLetter, DeadLetterGroup, RedriveOutcome, RedriveRequest, RedriveResponse, RedriveResult,
    },
    forecast::{ForecastCallback, ForecastResponse, ForecastStep},
    job::{JobFilter, JobKind, JobRequest, JobResponse, JobState},
    join::{After, AfterCondition, AfterResponse},
    messages::{MessageResponse, MessagesResponse},
    notification::{
        CheckNotification, Checked, ClaimNotification, Claimed, Ended, Notification, TreeEnded,
        TreeNotification,
    },
    notify::{Notify, NotifyKafka},
    previous::PreviousResponse,
    problem::{FieldError, Problem},
    schedule::{
        BackfillRequest, CronText, ImportOutcome, ImportScheduleResult, Missed, NamedSchedule,
        Overlap, PauseRequest, PauseResponse, PreviewResponse, RunCause, RunResponse, RunTime,
        ScheduleRequest, ScheduleState,
    },
    schedule_response::ScheduleResponse,
    schedule_why::{ScheduleCause, ScheduleCauseCode, ScheduleWhyResponse},
    stats::{
        CallbackTaskCounts, ClosedGate, ClusterResponse, LatenessResponse, NodeResponse, NodeStats,
        PendingCount, SecondsResponse, StatsResponse, TaskCounts, UnclaimedCallback,
        UnclaimedResponse, WheelResponse,
    },
    target::{HttpTarget, TargetResponse},
    task_request::{FollowUp, Jitter, OnConflict, Priority, RetryPolicy, TaskRequest},
    task_response::{
        AttemptResponse, CancelOutcome, CancelResponse, FollowUpResponse, RegistrationOutcome,
        RescheduleOutcome, RescheduleResponse, TaskResponse, TaskState,
    },
    tree::{
        CancelTreeResponse, ReopenResponse, RetryFailedResponse, TreeNodeResponse, TreeResponse,
        TreeState,
    },
    why::{Cause, CauseCode, CauseNode, CauseTask, WhyResponse},
};
use crate::{
    api::{
        ids::IdsResponse,
        task_request::{BatchCancelRequest, BatchCreateRequest, RescheduleRequest},
        task_response::{BatchCancelResponse, BatchCreateResponse},
        text::DurationText,
    },
    limits::WAIT_MAX,
    time_source::TimeSource,
};

/// Returns a duration of so many seconds.
#[must_use]
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Tells whether the life of a task in this state has ended.
#[must_use]
pub const fn has_ended(state: TaskState) -> bool {
    match state {
        TaskState::Scheduled
        | TaskState::Enqueued
        | TaskState::Claimed
        | TaskState::Processing
        | TaskState::WaitingForChildren
        | TaskState::Waiting
        | TaskState::Retrying => false,
        TaskState::Succeeded
        | TaskState::Failed
        | TaskState::Cancelled
        | TaskState::Expired
        | TaskState::Dead
        | TaskState::Published => true,
    }
}

/// A registered task.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Registered {
    /// Its id, by which it is read, cancelled and moved.
    pub id: TaskId,
    /// The task as the service understood it.
    pub task: TaskResponse,
}

/// A new start of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NewStart {
    /// At this time; in the past means now.
    At(StartTime),
    /// This long from now.
    In(DurationText),
}

impl From<StartTime> for NewStart {
    fn from(at: StartTime) -> Self {
        Self::At(at)
    }
}

impl From<Duration> for NewStart {
    fn from(delay: Duration) -> Self {
        Self::In(delay.into())
    }
}

/// A client of the service. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Arc<Transport>,
    ids: Arc<Ids>,
    lines: Arc<Lines>,
    limit: Duration,
}

impl Client {
    /// Makes a client of a server, or of several servers, separated by commas, which are tried in turn. Sends
    /// nothing yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a text is not an address.
    pub fn connect(servers: &str) -> Result<Self, Error> {
        Self::connect_any([servers])
    }

    /// Makes a client of several servers: when one is away, the next is asked.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_any(servers: impl IntoIterator<Item: Into<String>>) -> Result<Self, Error> {
        let servers: Vec<String> = servers.into_iter().map(Into::into).collect();
        Self::with_time(&servers, TimeSource::real())
    }

    /// Returns a builder, for a client with an API key.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Makes a client with these clocks.
    pub(crate) fn with_time(servers: &[String], time: TimeSource) -> Result<Self, Error> {
        Self::with_access(servers, &Access::default(), time)
    }

    /// Makes a client that shows an API key, with these clocks.
    pub(crate) fn with_access(
        servers: &[String],
        access: &Access,
        time: TimeSource,
    ) -> Result<Self, Error> {
        Ok(Self {
            transport: Arc::new(Transport::new(servers, access, time)?),
            ids: Arc::default(),
            lines: Arc::default(),
            limit: CALL_LIMIT,
        })
    }

    /// Sets how long one server may take for a call; 10 s by default.
    #[must_use]
    pub fn call_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Registers a task. Once the call has returned, the task is durable and will fire.
    ///
    /// Calls of many callers at once travel together, up to 256 a request: those that come while a request of this client is
    /// under way are the next one. A caller alone waits for nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] names the mistakes in the task. After [`Error::Transport`] with `sent` it may be
    /// registered.
    pub async fn register(&self, task: Task) -> Result<Registered, Error> {
        let mut requests = [task.request];
        let repeatable = self.fix(&mut requests).await;
        let [request] = requests;
        let item = json(&request)?;
        if repeatable && request.children.is_none() {
            return together::send(self, item).await;
        }
        // Sent twice it could be two tasks, and a tree is large.
        let task = self.register_at("/v1/tasks", item, repeatable).await?;
        registered(task)
    }

    /// Fixes starts and ids of tasks that are to be registered, and tells whether they may be sent twice.
    pub(crate) async fn fix(&self, requests: &mut [TaskRequest]) -> bool {
        let time = self.transport.time();
        let facts = match self.ids.known(time) {
            Some(facts) => facts,
            None => {
                let at = time.moment();
                let answer: Result<IdsResponse, Error> =
                    self.call(Method::GET, "/v1/ids", None, true).await;
                // A server that is away may tell later.
                if answer.as_ref().is_err_and(Error::is_temporary) {
                    self.ids.known(time).flatten()
                } else {
                    self.ids.learn(answer.ok().as_ref(), at, time)
                }
            }
        };
        let (mut repeatable, mut line) = (true, self.ids.line());
        for request in requests {
            let facts = facts.map(|facts| line.facts(request, facts));
            repeatable &= ids::fix(request, facts, time.random());
        }
        repeatable
    }

    /// Registers; once more when the answer was lost and that does no harm.
    async fn register_at<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Bytes,
        repeatable: bool,
    ) -> Result<T, Error> {
        let again = repeatable.then(|| body.clone());
        let first = self.call(Method::POST, path, Some(body), repeatable).await;
        match (first, again) {
            (Err(error), Some(body)) if error.may_have_taken_effect() => {
                self.call(Method::POST, path, Some(body), true).await
            }
            (first, _) => first,
        }
    }

    /// Registers up to 1000 tasks with one call; one result per task, in order.
    ///
    /// # Errors
    /// As [`Client::register`], for the call as a whole. One bad task fails only itself.
    pub async fn register_batch(
        &self,
        tasks: Vec<Task>,
    ) -> Result<Vec<Result<Registered, Problem>>, Error> {
        let mut tasks: Vec<TaskRequest> = tasks.into_iter().map(|task| task.request).collect();
        let repeatable = self.fix(&mut tasks).await;
        let count = tasks.len();
        let body = json(&BatchCreateRequest { tasks })?;
        let path = "/v1/tasks:batchCreate";
        let answer: BatchCreateResponse = self.register_at(path, body, repeatable).await?;
        let results = one_each(answer.results, count)?.into_iter();
        results
            .map(|result| match (result.task, result.error) {
                (Some(task), None) => registered(task).map(Ok),
                (None, Some(problem)) => Ok(Err(problem)),
                _ => Err(not_ours("a result without task and error".to_owned())),
            })
            .collect()
    }

    /// Reads a task, with its payload.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id.
    pub async fn get(&self, id: TaskId) -> Result<TaskResponse, Error> {
        let path = format!("/v1/tasks/{id}?view=FULL");
        self.call(Method::GET, &path, None, true).await
    }

    /// Reads a task once it has ended, or as it is when `limit` has passed.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn wait(&self, id: TaskId, limit: Duration) -> Result<TaskResponse, Error> {
        let time = self.transport.time();
        let end = time.moment().after(limit);
        loop {
            let left = end.since(time.moment()).min(WAIT_MAX);
            let task = self.wait_once(id, left).await?;
            if has_ended(task.state) || time.moment() >= end {
                return Ok(task);
            }
        }
    }

    /// Reads a task once it has ended, or as it is when `wait` (at most a minute) has passed, by one call.
    async fn wait_once(&self, id: TaskId, wait: Duration) -> Result<TaskResponse, Error> {
        let DurationText(text) = wait.into();
        let call = Call {
            method: Method::GET,
            path: format!("/v1/tasks/{id}?view=FULL&wait={text}"),
            body: None,
            repeatable: true,
            limit: self.limit + wait,
        };
        self.transport.call(call).await
    }

    /// Cancels a task. The answer says whether the cancel or the firing won.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id.
    pub async fn cancel(&self, id: TaskId) -> Result<CancelResponse, Error> {
        together::send(self, json(&id.to_string())?).await
    }

    /// Cancels up to 1000 tasks with one call. There is one result per id, in order; each says whether the
    /// cancel won.
    ///
    /// # Errors
    /// See [`Error`], for the call as a whole. One bad or unknown id fails only itself.
    pub async fn cancel_batch(
        &self,
        ids: &[TaskId],
    ) -> Result<Vec<Result<CancelResponse, Problem>>, Error> {
        let texts = ids.iter().map(ToString::to_string).collect();
        let body = json(&BatchCancelRequest { ids: texts })?;
        let path = "/v1/tasks:batchCancel";
        let answer: BatchCancelResponse = self.call(Method::POST, path, Some(body), true).await?;
        let results = one_each(answer.results, ids.len())?.into_iter();
        results
            .map(|result| match (result.outcome, result.task, result.error) {
                (Some(outcome), Some(task), None) => Ok(Ok(CancelResponse {
                    outcome,
                    reason: result.reason,
                    task,
                })),
                (None, None, Some(problem)) => Ok(Err(problem)),
                _ => Err(not_ours("a result without outcome and error".to_owned())),
            })
            .collect()
    }

    /// Moves the start of a task. The answer says whether the move or the firing won.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no task has this id. After [`Error::Transport`] with `sent` it may have
    /// moved.
    pub async fn reschedule(
        &self,
        id: TaskId,
        start: impl Into<NewStart>,
    ) -> Result<RescheduleResponse, Error> {
        let request = match start.into() {
            NewStart::At(StartTime(at)) => RescheduleRequest {
                start_time: Some(at),
                delay: None,
            },
            NewStart::In(delay) => RescheduleRequest {
                start_time: None,
                delay: Some(delay),
            },
        };
        let path = format!("/v1/tasks/{id}/reschedule");
        let body = Some(json(&request)?);
        self.call(Method::POST, &path, body, false).await
    }

    /// Starts a task now, also a dead one, which then has all its attempts again. The answer says whether it
    /// was too late.
    ///
    /// # Errors
    /// As [`Client::reschedule`]. A dead task of a tree is refused: [`Client::retry_failed`] runs it again.
    pub async fn run_now(&self, id: TaskId) -> Result<RescheduleResponse, Error> {
        let path = format!("/v1/tasks/{id}/run");
        self.call(Method::POST, &path, None, false).await
    }

    /// Delivers a task over HTTP again, at once. One that has ended, and is not dead, stays as it is: the answer has the copy
    /// that is delivered.
    ///
    /// # Errors
    /// As [`Client::reschedule`]. A task that is not delivered over HTTP is refused.
    pub async fn redeliver(&self, id: TaskId) -> Result<RescheduleResponse, Error> {
        let path = format!("/v1/tasks/{id}/redeliver");
        self.call(Method::POST, &path, None, false).await
    }

    /// Asks whether a server can do its work. Returns nothing when it can.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Transport`] when it cannot.
    pub async fn ready(&self) -> Result<(), Error> {
        let call = self.plain(Method::GET, "/readyz", None, true);
        self.transport.send(call).await?;
        Ok(())
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        repeatable: bool,
    ) -> Result<T, Error> {
        let call = self.plain(method, path, body, repeatable);
        self.transport.call(call).await
    }

    fn plain(&self, method: Method, path: &str, body: Option<Bytes>, repeatable: bool) -> Call {
        Call {
            method,
            path: path.to_owned(),
            body,
            repeatable,
            limit: self.limit,
        }
    }
}

fn json(request: &impl Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(request)
        .map(Bytes::from)
        .map_err(|error| Error::Invalid(format!("the request cannot be written: {error}")))
}
