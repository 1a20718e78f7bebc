//! The service answers everything that a request can ask of a node, for the layers above it.

use std::{sync::Arc, time::Duration};

use super::{
    cluster::members::Members,
    ends::outcomes::Outcomes,
    jobs,
    letters::{desk::Desk, walk::Wanted},
    poll::{ClaimBatch, PollRequest, Poller, Refusal},
    query::{
        activity::Activity,
        await_end::Awaiter,
        figures::Figures,
        filter::Filter,
        forecast::Forecaster,
        list::{Cursor, Lister, TaskPage},
        shares::{self, Shares},
        stats::Stats,
        why::Explainer,
    },
    schedules,
    settling::Settling,
    tree::{read::TreeReader, retry::Retrier},
};
use crate::{
    flow::{
        base::{
            api::{
                CancelOutcome, Check, Fault, HeartbeatAnswer, HeartbeatRequest, NewTask,
                RescheduleOutcome, SettleAnswer, SettleRequest, TaskView, View,
            },
            context::Context,
            figures::{recent::RecentActivity, second, unclaimed::Demand},
            read::find::Finder,
            records::{api_keys::ApiKeys, audit::Audit, callbacks::Callbacks, refusals::Refusals},
            tables::letters::Scope,
        },
        features::{
            ends::{dead_letter_topic::Deaths, notices::Notices},
            gate::gatekeeper::Gatekeeper,
            key::keys::{self, Keys},
        },
        life::{
            asked::{self, AskedTask, Asker},
            cancel::{self, Canceller},
            claim::Claimer,
            redeliver::{self, Redelivery},
            register::Registrar,
            register_tree::{self, NewTree},
            reschedule::{Condition, Rescheduler},
            settle::Settler,
        },
    },
    model::{ids::TaskId, task::Priority, time::Millis, wheel::Shape},
    queue::{PublishError, Record, message},
    time_source::TimeSource,
};

/// The service of one node. Every call is cancel-safe in the sense of the protocol: what was begun may still take effect.
#[derive(Debug)]
pub struct Service {
    pub(super) ctx: Arc<Context>,
    pub(super) registrar: Registrar,
    pub(super) asker: Asker,
    pub(super) keys: Keys,
    pub(super) finder: Finder,
    pub(super) explainer: Explainer,
    pub(super) forecaster: Forecaster,
    pub(super) awaiter: Awaiter,
    pub(super) lister: Lister,
    pub(super) canceller: Canceller,
    pub(super) rescheduler: Rescheduler,
    pub(super) claimer: Claimer,
    pub(super) settler: Settler,
    pub(super) members: Members,
    pub(super) poller: Option<Arc<Poller>>,
    pub(super) figures: Figures,
    pub(super) pulse: RecentActivity,
    pub(super) demand: Demand,
    pub(super) desk: Desk,
    pub(super) jobs: jobs::desk::Desk,
    pub(super) schedules: schedules::desk::Desk,
    pub(super) callbacks: Callbacks,
    pub(super) api_keys: ApiKeys,
    pub(super) audit: Audit,
    pub(super) refusals: Refusals,
    pub(super) gatekeeper: Gatekeeper,
    pub(super) shares: Shares,
    pub(super) notices: Notices,
    pub(super) outcomes: Outcomes,
    pub(super) tree_reader: TreeReader,
    pub(super) retrier: Retrier,
    pub(super) deaths: Deaths,
    /// Reports of workers that are being recorded.
    pub(super) settling: Settling,
}

impl Service {
    /// Returns the wheel's shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        self.ctx.shape()
    }

    /// Returns the node's clocks.
    #[must_use]
    pub fn time(&self) -> &TimeSource {
        &self.ctx.time
    }

    /// Registers tasks; one result per task, in order. A task that is returned is durable and will fire.
    pub async fn register(&self, tasks: Vec<NewTask>) -> Vec<Result<TaskView, Fault>> {
        let registered = self.registrar.register(tasks).await;
        let taken = registered.iter().filter(|result| result.is_ok()).count();
        self.pulse.registered(self.ctx.now(), taken);
        registered
    }

    /// Registers tasks whose requests may come twice; one result per task, in order, each as of [`Self::register`].
    pub async fn register_asked(&self, tasks: Vec<AskedTask>) -> Vec<Result<asked::Answer, Fault>> {
        let registered = self.asker.register(tasks).await;
        let is_new = |result: &&Result<asked::Answer, Fault>| {
            matches!(
                result,
                Ok(asked::Answer::Created(_) | asked::Answer::Replaced(_))
            )
        };
        let taken = registered.iter().filter(is_new).count();
        self.pulse.registered(self.ctx.now(), taken);
        registered
    }

    /// Registers a task with the tree below it. A task that is returned is durable, with all below it.
    ///
    /// # Errors
    /// When it may not be durable.
    pub async fn register_tree(&self, tree: NewTree) -> Result<asked::Answer, Fault> {
        let tasks = 1 + register_tree::count(&tree.children);
        let registered = self.asker.register_tree(tree).await;
        if matches!(registered, Ok(asked::Answer::Created(_))) {
            self.pulse.registered(self.ctx.now(), tasks);
        }
        registered
    }

    /// Returns what shows trees, and cancels them.
    #[must_use]
    pub const fn trees(&self) -> &TreeReader {
        &self.tree_reader
    }

    /// Returns what runs the failed parts of trees again.
    #[must_use]
    pub const fn retries(&self) -> &Retrier {
        &self.retrier
    }

    /// Returns the task that a key of a callback names: the live one, or the last; none when the key is not known.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn id_by_key(&self, callback: &str, key: &str) -> Result<Option<TaskId>, Fault> {
        self.keys.find(&keys::name(callback, key)?).await
    }

    /// Reads a task.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(&self, id: TaskId, view: View) -> Result<Option<TaskView>, Fault> {
        self.finder.get(id, view).await
    }

    /// Reads a task once it is terminal, or as it is when `wait` has passed; none when there is no such task.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get_when_terminal(
        &self,
        id: TaskId,
        view: View,
        wait: Duration,
    ) -> Result<Option<TaskView>, Fault> {
        self.awaiter.get(id, view, wait).await
    }

    /// Lists tasks that have an entry in the wheel: one page, and where the next one begins. See [`super::query::list`].
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(
        &self,
        filter: &Filter,
        cursor: Option<Cursor>,
        tasks_max: usize,
    ) -> Result<TaskPage, Fault> {
        self.lister.list(filter, cursor, tasks_max).await
    }

    /// Cancels; none when there is no such task.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub async fn cancel(&self, id: TaskId) -> Result<Option<(CancelOutcome, TaskView)>, Fault> {
        let answer = self.canceller.cancel(&[id]).await.pop();
        answer.unwrap_or(Ok(None))
    }

    /// Cancels many; one answer per id, in order, each as of [`Self::cancel`].
    pub async fn cancel_all(&self, ids: &[TaskId]) -> Vec<cancel::Answer> {
        self.canceller.cancel(ids).await
    }

    /// Moves the start; none when there is no such task. `condition` sees the task as it is and may refuse
    /// (`If-Match`).
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub async fn reschedule(
        &self,
        id: TaskId,
        start: Millis,
        condition: Option<Condition>,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        self.rescheduler.reschedule(id, start, condition).await
    }

    /// Starts a task now, even a dead one; none when there is no such task. `condition` is as in
    /// [`Self::reschedule`].
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub async fn run(
        &self,
        id: TaskId,
        condition: Option<Condition>,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        self.rescheduler.run(id, condition).await
    }

    /// Delivers a task over HTTP again: one that waits, or is dead, is run, and one that has ended otherwise is copied; none when
    /// there is no such task, or nothing is delivered over HTTP. `condition` is as in [`Self::reschedule`]. Repeated, it may
    /// deliver once more.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn redeliver(
        &self,
        id: TaskId,
        condition: Option<Condition>,
    ) -> Result<Option<(RescheduleOutcome, TaskView)>, Fault> {
        let Some(task) = self.get(id, View::Full).await? else {
            return Ok(None);
        };
        let copy = match redeliver::of(&task, self.ctx.now()) {
            Redelivery::NotHttp => return Ok(None),
            Redelivery::Run => return self.run(id, condition).await,
            Redelivery::Copy(copy) => copy,
        };
        if condition.is_some_and(|holds| !holds(&task)) {
            return Ok(Some((RescheduleOutcome::Mismatch, task)));
        }
        let made = self.register(vec![*copy]).await.pop();
        let made = made.unwrap_or_else(|| {
            Err(Fault::Unknown {
                reason: "the copy has no answer".to_owned(),
            })
        });
        Ok(Some((RescheduleOutcome::Rescheduled, made?)))
    }

    /// Returns the desk that lists, redrives and deletes dead tasks.
    #[must_use]
    pub const fn dead_letters(&self) -> &Desk {
        &self.desk
    }

    /// Returns the desk that registers jobs and looks after them.
    #[must_use]
    pub const fn jobs(&self) -> &jobs::desk::Desk {
        &self.jobs
    }

    /// Returns the desk that keeps schedules.
    #[must_use]
    pub const fn schedules(&self) -> &schedules::desk::Desk {
        &self.schedules
    }

    /// Waits for due tasks and claims them for a worker; none when there was none in time.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn poll(&self, request: PollRequest) -> Result<ClaimBatch, Refusal> {
        match &self.poller {
            Some(poller) if self.ctx.settings.answers_polls => {
                let callbacks = request.callbacks.clone();
                let asked = || self.demand.asked(callbacks.iter().map(String::as_str));
                let (worker, version) = (request.worker.clone(), request.version.clone());
                let pollers = self.shares.pollers();
                let polling = pollers.polls(&worker, version.as_deref(), &callbacks);
                asked();
                let answer = poller.poll(request).await;
                asked();
                drop(polling);
                answer
            }
            Some(_) | None => Err(Refusal::NoRole),
        }
    }

    /// Waits for due tasks and claims them for the executor of this node, also on a node that answers no polls of workers.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn poll_internal(&self, request: PollRequest) -> Result<ClaimBatch, Refusal> {
        let poller = self.poller.as_ref().ok_or(Refusal::NoRole)?;
        poller.poll(request).await
    }

    /// Returns what reads the internal tasks that tell ends.
    #[must_use]
    pub const fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Returns what tells how actions and checks went.
    #[must_use]
    pub const fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Returns what reads tasks that have died, for the records of their deaths.
    #[must_use]
    pub const fn deaths(&self) -> &Deaths {
        &self.deaths
    }

    /// Publishes a record of the service's own to a topic of the user's.
    ///
    /// # Errors
    /// When it was not acknowledged; publishing it again may publish it twice.
    pub async fn publish(&self, record: Record) -> Result<(), PublishError> {
        let published = self.ctx.publisher.publish(vec![record]).await.pop();
        published.unwrap_or_else(|| Err(PublishError::Unconfirmed("no answer".to_owned())))
    }

    /// Answers the polls of a worker that wait at this node with nothing: it is about to stop, and takes no more tasks. A poll
    /// goes on that names a callback which is not covered: it is another's of the same name.
    pub fn dismiss(&self, worker: &str, covers: impl Fn(&str) -> bool) {
        if let Some(poller) = &self.poller {
            poller.dismiss(worker, covers);
        }
    }

    /// Records signs of life; one answer per attempt, in order.
    pub async fn heartbeat(
        &self,
        _worker: &str,
        requests: Vec<HeartbeatRequest>,
    ) -> Vec<HeartbeatAnswer> {
        self.settler.heartbeat(requests).await
    }

    /// Records how attempts ended; one answer per report, in order.
    pub async fn settle(&self, _worker: &str, requests: Vec<SettleRequest>) -> Vec<SettleAnswer> {
        let _settling = self.settling.begin();
        // The figures are about the tasks of clients.
        let counted: Vec<bool> = requests
            .iter()
            .map(|request| !request.id.is_internal())
            .collect();
        let settled = self.settler.settle(requests).await;
        let taken = settled.iter().zip(counted);
        let taken = taken.filter(|(answer, counts)| *counts && matches!(answer, SettleAnswer::Ok));
        self.pulse.settled(self.ctx.now(), taken.count());
        settled
    }

    /// Returns the name by which the queue knows a topic or a group of the service's own.
    #[must_use]
    pub fn queue_name(&self, own: &str) -> String {
        self.ctx.publisher.name(own)
    }

    /// Makes sure that the topics of these callbacks exist, and returns them as the queue knows them.
    ///
    /// # Errors
    /// When the queue is away.
    pub async fn subscribe(&self, callbacks: &[String]) -> Result<Vec<String>, Fault> {
        let topics: Vec<String> = callbacks
            .iter()
            .flat_map(|callback| Priority::ALL.map(|priority| message::topic(callback, priority)))
            .collect();
        match self.ctx.publisher.ensure_topics(&topics).await {
            Ok(()) => Ok(topics.iter().map(|topic| self.queue_name(topic)).collect()),
            Err(error) => Err(Fault::Unavailable {
                reason: error.to_string(),
                retry_after: Duration::from_secs(1),
            }),
        }
    }

    /// Returns what is set for callbacks, and changes it.
    #[must_use]
    pub const fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }

    /// Returns the keys of the API.
    #[must_use]
    pub const fn api_keys(&self) -> &ApiKeys {
        &self.api_keys
    }

    /// Returns what counts refused calls.
    #[must_use]
    pub const fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Returns the audit of calls.
    #[must_use]
    pub const fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Returns what is going on with a callback on all nodes, as they have told it within a second. Held and dead tasks are
    /// counted to a bound.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn activity(&self, callback: &str) -> Result<Activity, Fault> {
        let wanted = Wanted {
            scope: Scope::of(Some(callback)),
            error: None,
        };
        let (held, dead) = futures_util::future::try_join(
            self.gatekeeper.held(callback),
            self.desk.groups(&wanted),
        )
        .await?;
        let (shares, exact) = self.shares.of(callback).await?;
        let now = self.ctx.now();
        let polled = |worker| shares::polled(worker, now);
        Ok(Activity {
            lateness: second::lateness_of(&shares.late, shares.latest_ms),
            workers: shares.workers.into_iter().map(polled).collect(),
            ready: shares.ready,
            oldest: shares.oldest,
            running: shares.running,
            retrying: shares.retrying,
            held: held.0,
            dead: dead.groups.iter().map(|group| group.tasks).sum(),
            partial: !(exact && held.1) || dead.cut,
        })
    }

    /// Tells whether a callback has a task that has not ended, as far as one page of a list finds one.
    ///
    /// # Errors
    /// When the store is away, or too many lists are read already.
    pub async fn has_task_ahead(&self, callback: &str) -> Result<bool, Fault> {
        let filter = Filter {
            callback: Some(callback.to_owned()),
            pending: true,
            ..Filter::default()
        };
        let page = self.lister.list(&filter, None, 1).await?;
        Ok(!page.tasks.is_empty())
    }

    /// Looks at the whole; what was seen within the last seconds is shown again.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn stats(&self) -> Result<Arc<Stats>, Fault> {
        self.figures.stats().await
    }

    /// Sets the metrics that are read from memory when somebody asks for metrics. It never fails: what cannot be read stays.
    pub async fn show_figures(&self) {
        self.figures.show().await;
    }

    /// Tells whether the node can do its work: every condition, held or not.
    #[must_use]
    pub fn readiness(&self) -> Vec<Check> {
        self.members.readiness()
    }

    /// Tells whether the node has been ready once.
    #[must_use]
    pub fn started(&self) -> bool {
        self.members.started()
    }
}
