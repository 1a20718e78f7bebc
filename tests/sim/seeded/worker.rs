//! Workers get tasks, from the queue or by polls, run them as planned, send heartbeats and report. They keep
//! the service's rules for workers (`src/worker/attempt.rs`): they stop a margin before the lease ends, by
//! the monotonic clock, counted from the sending of the claim or heartbeat. A new lease counts only if its
//! answer came in time.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tickwheel::{
    flow::{
        base::api::{
            ClaimAnswer, ClaimRequest, ClaimedTask, Fault, HeartbeatAnswer, HeartbeatRequest,
            SettleAnswer, SettleRequest,
        },
        stages::poll::PollRequest,
    },
    model::{
        state::Outcome,
        task::Priority,
        time::{Millis, whole_millis},
    },
    queue::{
        Subscriptions as _,
        message::{self, TaskMessage},
    },
    time_source::Moment,
};

use super::{
    chance::Chance,
    history::{Claimed, Reported, Run},
    network::PATIENCE,
    plan::{AttemptPlan, EndPlan, Plan, WorkerPlan},
    process::Process,
    queue::ProcessQueue,
    scene,
    world::Sim,
};

/// How often a message is claimed again that no node could claim.
const FAILURES_MAX: u32 = 5;

/// The wait before that.
const CLAIMED_AGAIN: Duration = Duration::from_millis(100);

/// One life of a worker.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) process: Arc<Process>,
    pub(crate) plan: Arc<Plan>,
}

impl Worker {
    /// Starts the worker `number`.
    pub(crate) fn start(sim: &Arc<Sim>, plan: &Arc<Plan>, number: usize) -> Arc<Process> {
        let birth = sim.birth();
        let time = sim.time.simulated_peer(sim.seed ^ (birth << 8));
        let process = Process::new(sim, format!("w{number}.{birth}"), time, 100 + birth);
        let worker = Self {
            number,
            process: Arc::clone(&process),
            plan: Arc::clone(plan),
        };
        match plan.workers[number] {
            WorkerPlan::Queue => {
                for callback in plan.callbacks() {
                    tokio::spawn(worker.clone().consume(callback));
                }
            }
            WorkerPlan::Poll => drop(tokio::spawn(worker.poll())),
        }
        process
    }

    fn sim(&self) -> &Arc<Sim> {
        &self.process.sim
    }

    fn chance(&self) -> Chance {
        Chance::new(self.process.draw(Chance::next), 0)
    }

    async fn consume(self, callback: String) {
        let topics = Priority::ALL.map(|priority| message::topic(&callback, priority));
        let queue = ProcessQueue {
            process: Arc::clone(&self.process),
        };
        let subscribed = queue.subscribe(&message::group(&callback), &topics).await;
        let mut consumer = subscribed.expect("the queue in memory subscribes");
        loop {
            let received = consumer
                .receive(16, Duration::from_secs(1))
                .await
                .unwrap_or_default();
            if received.is_empty() {
                continue;
            }
            let requests = received.iter().map(|delivery| {
                let message = TaskMessage::decode(delivery.value.clone()).expect("a task");
                ClaimRequest {
                    id: message.dispatch.id,
                    generation: message.dispatch.generation,
                    expected_attempt: message.dispatch.expected_attempt,
                    spec: Some(Arc::new(message.spec)),
                    published: Some(message.published),
                    with_content: true,
                    admitted: false,
                }
            });
            self.claim(requests.collect(), 0).await;
            let origin = received
                .iter()
                .map(|d| (d.topic.clone(), d.partition, d.offset));
            consumer.handled(&origin.collect::<Vec<_>>());
        }
    }

    /// Claims messages. Early ones are held back and claimed at their time, and those that a node could not claim now, say one
    /// that has just started, are claimed again soon, as the library does (`src/worker/claims.rs`).
    async fn claim(&self, requests: Vec<ClaimRequest>, failures: u32) {
        let (sent, asked) = (self.process.time.moment(), self.sim().now());
        let name = self.process.name.clone();
        let again = requests.clone();
        let act = |service: Arc<tickwheel::flow::stages::service::Service>| async move {
            service.claim(&name, requests).await
        };
        let answer = self
            .sim()
            .call(&mut self.chance(), &mut None, PATIENCE, act)
            .await;
        self.process.time.running().await;
        for (request, claimed) in again.into_iter().zip(answer.answer.unwrap_or_default()) {
            match claimed {
                ClaimAnswer::Claimed(task) => self.begin(*task, sent, asked, answer.wall),
                ClaimAnswer::Early { not_before } | ClaimAnswer::Limited { not_before } => {
                    let worker = self.clone();
                    // Its own clock is right, so it waits by that clock.
                    tokio::spawn(worker.claim_later(request, not_before));
                }
                ClaimAnswer::Fault(Fault::Unavailable { .. }) if failures < FAILURES_MAX => {
                    tokio::spawn(self.clone().claim_again(request, failures + 1));
                }
                ClaimAnswer::Stale
                | ClaimAnswer::Held
                | ClaimAnswer::Gated
                | ClaimAnswer::Behind
                | ClaimAnswer::Fault(_) => {}
            }
        }
    }

    fn claim_later(self, request: ClaimRequest, not_before: Millis) -> BoxFuture<'static, ()> {
        let later = async move {
            self.process.time.sleep_until_wall(not_before).await;
            self.process.time.sleep(Duration::from_millis(1)).await;
            self.claim(vec![request], 0).await;
        };
        Box::pin(later)
    }

    fn claim_again(self, request: ClaimRequest, failures: u32) -> BoxFuture<'static, ()> {
        let again = async move {
            self.process.time.sleep(CLAIMED_AGAIN).await;
            self.claim(vec![request], failures).await;
        };
        Box::pin(again)
    }

    /// Polls one node as long as it answers, as the client library does.
    async fn poll(self) {
        let mut last = None;
        loop {
            let (sent, asked) = (self.process.time.moment(), self.sim().now());
            let request = PollRequest {
                worker: self.process.name.clone(),
                callbacks: self.plan.callbacks(),
                max: 16,
                wait: Duration::from_secs(4),
                version: None,
            };
            let act = |service: Arc<tickwheel::flow::stages::service::Service>| async move {
                let handout = service.poll(request).await.ok()?;
                let waited = handout.waited();
                Some((handout.accept(), waited))
            };
            let answer = self
                .sim()
                .call(&mut self.chance(), &mut last, 2 * PATIENCE, act)
                .await;
            self.process.time.running().await;
            match answer.answer {
                Ok(Some((tasks, waited))) => {
                    for task in tasks {
                        self.begin(task, sent.after(waited), asked, answer.wall);
                    }
                }
                Ok(None) | Err(_) => self.process.time.sleep(Duration::from_millis(250)).await,
            }
        }
    }

    fn begin(&self, task: ClaimedTask, sent: Moment, asked: i64, wall: i64) {
        let lease = lease(&task);
        if self.process.time.moment() >= sent.after(lease) {
            // The answer came too late: the library does not begin an attempt that it may not finish.
            return;
        }
        let body = task.content.as_ref().map(|content| content.payload.len());
        let answered = self.sim().now();
        let claimed = Claimed {
            attempt: task.attempt,
            asked,
            answered,
            wall,
            body,
        };
        let (name, id, attempt) = (&self.process.name, task.id, task.attempt);
        self.sim()
            .note(format_args!("{name} runs attempt {attempt} of {id}"));
        self.note_claim(&task, claimed);
        let running = Running {
            worker: self.clone(),
            task,
            place: self.note_run(id, attempt, sent.after(lease)),
        };
        tokio::spawn(running.run(sent));
    }

    fn note_claim(&self, task: &ClaimedTask, claimed: Claimed) {
        let mut history = self.sim().history();
        let story = history.of(task.id);
        story.claims.push(claimed);
        story.place = place(task);
        let previous = task.content.as_ref().and_then(|of| of.previous.as_ref());
        story.previous = previous.map(|previous| previous.task);
        let scheduled = task.spec.scheduled.as_ref();
        story.scheduled = scheduled.map(|scheduled| scheduled.time.0 - Sim::instant(0).0);
    }

    fn note_run(&self, id: tickwheel::model::ids::TaskId, attempt: u32, deadline: Moment) -> usize {
        let began = self.sim().now();
        let left = deadline.since(self.process.time.moment());
        let mut history = self.sim().history();
        let runs = &mut history.of(id).runs;
        runs.push(Run {
            attempt,
            worker: self.number,
            began,
            deadline: began + whole_millis(left),
            ended: None,
            whole: false,
            outcome: None,
        });
        runs.len() - 1
    }
}

/// How long an attempt may run after its claim or its last heartbeat was sent.
fn lease(task: &ClaimedTask) -> Duration {
    let timeout = task.spec.heartbeat_timeout;
    timeout - Duration::from_secs(1).min(timeout / 4)
}

/// The place of a task of a scene.
fn place(task: &ClaimedTask) -> Option<(usize, usize)> {
    scene::place(&task.content.as_ref()?.payload)
}

/// An attempt that runs.
struct Running {
    worker: Worker,
    task: ClaimedTask,
    place: usize,
}

impl Running {
    async fn run(self, sent: Moment) {
        let time = self.worker.process.time.clone();
        let (timeout, lease) = (self.task.spec.heartbeat_timeout, lease(&self.task));
        let plan = self.planned();
        let (mut deadline, finish) = (
            sent.after(lease),
            time.moment().after(Duration::from_millis(plan.runs)),
        );
        let mut beat = time.moment().after(timeout / 4);
        let whole = loop {
            let next = finish.min(deadline).min(beat);
            time.sleep_until(next).await;
            let now = time.moment();
            if now >= deadline {
                break false;
            }
            if now >= finish {
                break true;
            }
            beat = now.after(timeout / 4);
            let left = deadline.min(finish).since(now);
            match time.within(left, self.beat()).await {
                Some(Some(HeartbeatAnswer::Ok)) if time.moment() < deadline => {
                    deadline = now.after(lease);
                    self.note_deadline(deadline.since(time.moment()));
                }
                Some(Some(HeartbeatAnswer::Lost(_) | HeartbeatAnswer::CancelRequested)) => {
                    break false;
                }
                _ => {}
            }
        };
        // A signal stopped it, so it ran until then; others care only that it did nothing after its deadline.
        let overdue = time.moment().since(deadline);
        let ended = self.worker.sim().now() - i64::try_from(overdue.as_millis()).unwrap_or(0);
        let outcome = self.outcome(plan, whole);
        self.note_end(ended, whole, outcome.clone());
        if let Some(outcome) = outcome {
            self.report(outcome).await;
        }
    }

    fn planned(&self) -> AttemptPlan {
        let plan = &self.worker.plan;
        let attempts = match self.task.spec.collection.parse::<usize>() {
            Ok(number) => {
                let task = plan.tasks.iter().find(|task| task.number == number);
                &task.expect("a planned task").attempts
            }
            Err(_) => {
                let (scene, item) = place(&self.task).expect("a place in a scene");
                let scene = plan.scenes.iter().find(|one| one.number == scene);
                let item = scene.and_then(|scene| scene.item(item));
                &item.expect("a planned item").attempts
            }
        };
        let place = usize::try_from(self.task.attempt - 1).unwrap_or(0);
        attempts[place.min(attempts.len() - 1)]
    }

    fn outcome(&self, plan: AttemptPlan, whole: bool) -> Option<Outcome> {
        if !whole {
            return Some(Outcome::Retry {
                error: "stopped".to_owned(),
                after: None,
            });
        }
        match plan.ends {
            EndPlan::Succeeds => {
                let token = format!("{} by w{}", self.task.attempt, self.worker.number);
                Some(Outcome::Succeeded {
                    result: Some(Bytes::from(token).into()),
                })
            }
            EndPlan::Retries => Some(Outcome::Retry {
                error: "as planned".to_owned(),
                after: None,
            }),
            EndPlan::Fails => Some(Outcome::Failed {
                error: "as planned".to_owned(),
            }),
            EndPlan::Snoozes(after) => Some(Outcome::Snoozed {
                after: Duration::from_millis(after),
            }),
            EndPlan::Vanishes => None,
        }
    }

    fn note_deadline(&self, left: Duration) {
        let at = self.worker.sim().now() + whole_millis(left);
        let mut history = self.worker.sim().history();
        history.of(self.task.id).runs[self.place].deadline = at;
    }

    fn note_end(&self, ended: i64, whole: bool, outcome: Option<Outcome>) {
        let mut history = self.worker.sim().history();
        let run = &mut history.of(self.task.id).runs[self.place];
        run.ended = Some(ended.max(run.began));
        (run.whole, run.outcome) = (whole, outcome);
    }

    async fn beat(&self) -> Option<HeartbeatAnswer> {
        let request = HeartbeatRequest {
            id: self.task.id,
            attempt: self.task.attempt,
            progress: None,
        };
        let act = |service: Arc<tickwheel::flow::stages::service::Service>| async move {
            service.heartbeat("worker", vec![request]).await.pop()
        };
        let worker = &self.worker;
        let answer = worker
            .sim()
            .call(&mut worker.chance(), &mut None, Duration::from_secs(1), act)
            .await;
        worker.process.time.running().await;
        answer.answer.ok().flatten()
    }

    /// Reports until there is an answer, for a while.
    async fn report(&self, outcome: Outcome) {
        let worker = &self.worker;
        for _ in 0..20 {
            let request = SettleRequest {
                id: self.task.id,
                attempt: self.task.attempt,
                outcome: outcome.clone(),
                answered: None,
            };
            let act = |service: Arc<tickwheel::flow::stages::service::Service>| async move {
                service.settle("worker", vec![request]).await.pop()
            };
            let answer = worker
                .sim()
                .call(&mut worker.chance(), &mut None, PATIENCE, act)
                .await;
            worker.process.time.running().await;
            let taken = match answer.answer {
                Ok(Some(SettleAnswer::Ok)) => true,
                Ok(Some(SettleAnswer::Lost(_))) => false,
                Ok(Some(SettleAnswer::Fault(_)) | None) | Err(_) => {
                    worker.process.time.sleep(Duration::from_millis(400)).await;
                    continue;
                }
            };
            let (attempt, answered) = (self.task.attempt, worker.sim().now());
            let (name, id) = (&worker.process.name, self.task.id);
            worker.sim().note(format_args!(
                "{name} reported attempt {attempt} of {id}: taken {taken}"
            ));
            let reported = Reported {
                attempt,
                answered,
                taken,
                outcome,
            };
            worker
                .sim()
                .history()
                .of(self.task.id)
                .reports
                .push(reported);
            return;
        }
    }
}
