//! `Script` is a service that follows a script, in place of the worker's real calls.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use tickwheel::{
    api::{
        poll::{LeaveRequest, LeaveResponse, PollRequest, PollResponse},
        worker::{
            ClaimRequest, ClaimResponse, ClaimResult, ClaimStatus, ClaimedTask, HeartbeatRequest,
            HeartbeatResponse, HeartbeatResult, HeartbeatStatus, SettleItem, SettleRequest,
            SettleResponse, SettleResult, SettleStatus, SubscribeRequest, SubscribeResponse,
        },
    },
    client::Error,
    model::time::Millis,
    time_source::TimeSource,
    worker::Server,
};

/// The calls that the service got, and its answers.
#[derive(Debug, Default)]
pub(super) struct State {
    /// No call is answered.
    pub(super) away: bool,
    /// The answers to claims, in order; then `claimed`.
    pub(super) claims: VecDeque<ClaimStatus>,
    /// How long the answer to a claim takes.
    pub(super) claim_takes: Duration,
    /// The answers to heartbeats of a task, in order; then `ok`.
    pub(super) heartbeats: HashMap<String, VecDeque<HeartbeatStatus>>,
    /// Calls so far, by name, failed ones too.
    pub(super) calls: HashMap<&'static str, usize>,
    /// When each message was claimed.
    pub(super) claimed: Vec<(String, Millis)>,
    /// Heartbeats so far: task, when.
    pub(super) beats: Vec<(String, Millis)>,
    /// Heartbeats are lost on the way.
    pub(super) deaf: bool,
    /// The answers to polls, in order; further polls wait.
    pub(super) polls: VecDeque<PollResponse>,
    /// The answer to the poll that waits when the worker leaves; else an empty one.
    pub(super) last_poll: Option<PollResponse>,
    /// How many tasks each successful poll asked for.
    pub(super) asked: Vec<u32>,
    /// Reports so far, the accepted ones.
    pub(super) settled: Vec<SettleItem>,
}

/// The service.
#[derive(Debug)]
pub(super) struct Script {
    state: Mutex<State>,
    changes: watch::Sender<()>,
    time: TimeSource,
}

impl Script {
    pub(super) fn new(time: &TimeSource) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changes: watch::Sender::new(()),
            time: time.clone(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until the calls fulfil a condition; two hours of virtual time at most.
    pub(super) async fn until(&self, condition: impl Fn(&State) -> bool) {
        let mut changes = self.changes.subscribe();
        let fulfilled = async {
            while !condition(&self.state()) {
                changes.changed().await.expect("the script lives");
            }
        };
        let limit = Duration::from_secs(7200);
        let in_time = self.time.within(limit, fulfilled).await;
        assert!(in_time.is_some(), "never came about: {:?}", self.state());
    }

    /// Answers the poll that waits, or the next one.
    pub(super) fn push(&self, answer: PollResponse) {
        self.state().polls.push_back(answer);
        self.changes.send_replace(());
    }

    fn begin(&self, call: &'static str) -> Result<(), Error> {
        let mut state = self.state();
        *state.calls.entry(call).or_default() += 1;
        let away = state.away || (state.deaf && call == "heartbeat");
        drop(state);
        self.changes.send_replace(());
        if away {
            return Err(Error::Transport {
                server: "script".to_owned(),
                reason: "away".to_owned(),
                sent: false,
            });
        }
        Ok(())
    }
}

const fn nothing() -> PollResponse {
    PollResponse {
        tasks: Vec::new(),
        waited: None,
    }
}

impl Script {
    /// The answers to a claim, and how long they take.
    fn claimed(&self, request: &ClaimRequest) -> (Vec<ClaimResult>, Duration) {
        let now = self.time.now();
        let mut state = self.state();
        let results = request.messages.iter().map(|message| {
            let status = state.claims.pop_front().unwrap_or(ClaimStatus::Claimed);
            let claimed = status == ClaimStatus::Claimed;
            if claimed {
                state.claimed.push((message.id.clone(), now));
            }
            ClaimResult {
                status,
                task: claimed.then(|| ClaimedTask {
                    id: message.id.clone(),
                    attempt: message.expected_attempt + 1,
                    generation: message.generation,
                    callback: "c".to_owned(),
                    collection: None,
                    priority: None,
                    ordering_key: None,
                    parent: None,
                    schedule: None,
                    scheduled_time: None,
                    payload: None,
                    payload_base64: None,
                    content_type: None,
                    start_time: now.into(),
                    claim_expire_time: now.into(),
                    heartbeat_timeout: Duration::from_secs(30).into(),
                    attempt_timeout: None,
                    max_attempts: 5,
                    labels: Default::default(),
                    previous: None,
                    dependencies: Vec::new(),
                    traceparent: None,
                }),
                not_before: matches!(status, ClaimStatus::Early | ClaimStatus::Limited)
                    .then(|| now.after(Duration::from_secs(3)).into()),
                error: None,
            }
        });
        (results.collect(), state.claim_takes)
    }
}

#[async_trait]
impl Server for Script {
    async fn poll(&self, request: &PollRequest, wait: Duration) -> Result<PollResponse, Error> {
        self.begin("poll")?;
        self.state().asked.extend(request.max_tasks);
        let mut changes = self.changes.subscribe();
        let answered = async {
            loop {
                changes.mark_unchanged();
                if let Some(answer) = self.state().polls.pop_front() {
                    return answer;
                }
                changes.changed().await.expect("the script lives");
            }
        };
        let answer = self.time.within(wait, answered).await;
        self.changes.send_replace(());
        Ok(answer.unwrap_or_else(nothing))
    }

    async fn leave(&self, _: &LeaveRequest) -> Result<LeaveResponse, Error> {
        self.begin("leave")?;
        let answer = self.state().last_poll.take();
        self.push(answer.unwrap_or_else(nothing));
        Ok(LeaveResponse {})
    }

    async fn subscribe(&self, request: &SubscribeRequest) -> Result<SubscribeResponse, Error> {
        self.begin("subscribe")?;
        let groups = request.callbacks.iter();
        Ok(SubscribeResponse {
            topics: Vec::new(),
            groups: groups
                .map(|c| (c.clone(), format!("tickwheel.{c}")))
                .collect(),
        })
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, Error> {
        self.begin("claim")?;
        let (results, takes) = self.claimed(request);
        self.changes.send_replace(());
        if !takes.is_zero() {
            self.time.sleep(takes).await;
        }
        Ok(ClaimResponse { results })
    }

    async fn heartbeat(
        &self,
        request: &HeartbeatRequest,
        _limit: Duration,
    ) -> Result<HeartbeatResponse, Error> {
        self.begin("heartbeat")?;
        let now = self.time.now();
        let mut state = self.state();
        let results = request.tasks.iter().map(|task| {
            state.beats.push((task.id.clone(), now));
            let planned = state
                .heartbeats
                .get_mut(&task.id)
                .and_then(VecDeque::pop_front);
            HeartbeatResult {
                status: planned.unwrap_or(HeartbeatStatus::Ok),
                reason: None,
                error: None,
            }
        });
        let results = results.collect();
        drop(state);
        self.changes.send_replace(());
        Ok(HeartbeatResponse { results })
    }

    async fn settle(&self, request: &SettleRequest) -> Result<SettleResponse, Error> {
        self.begin("settle")?;
        self.state().settled.extend(request.tasks.iter().cloned());
        self.changes.send_replace(());
        let results = request.tasks.iter().map(|_| SettleResult {
            status: SettleStatus::Ok,
            reason: None,
            error: None,
        });
        Ok(SettleResponse {
            results: results.collect(),
        })
    }
}
