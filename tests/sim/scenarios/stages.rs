//! Every stage of a node, and every piece of work in one, may panic: it is started again and does its work as before.
//!
//! The names come from the code that runs, so a new stage is judged as well. A stage that is gone for good must be missed by this
//! test: else it could not tell whether one works.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tickwheel::{
    flow::{
        base::{
            api::{NewTask, TaskView, View},
            panics::{self, Strike},
            records::callbacks::GateChange,
        },
        stages::{jobs::desk::Registered, service::Service},
    },
    limits::{AUDIT_REFUSALS_LOOK, AUDIT_REFUSALS_SPAN},
    model::{
        audit::Entry,
        callback::Policy,
        gate::GateState,
        ids::TaskId,
        job::{Job, JobFilter, JobKind},
        limit::{Limits, Rate},
        schedule::life::ScheduleSpec,
        state::{Outcome, State},
        target::Target,
        task::{Body, Content},
        time::Millis,
    },
};
use tokio::task::JoinHandle;

mod tasks;

use self::tasks::{kin, of, told, waiting};
use super::{
    notify::{self, TOPIC, execute},
    restarts,
    schedules::{put, spec},
};
use crate::world::{Simulated, World, callback, record, register};

const SECOND: Duration = Duration::from_secs(1);

/// Stages that only a process with a store of its own has.
const ON_DISK: [&str; 2] = ["census", "recovery"];

/// They seldom have work. Tests of their own make them panic: `a_late_entry_holds_no_sequence_though_the_reminder_panics`,
/// `a_count_of_dead_tasks_that_panics_late_is_made_again`, `members_are_taken_out_though_the_survivors_panic`, and
/// `what_a_dead_node_held_goes_out_though_its_heir_panics`.
const ELSEWHERE: [&str; 5] = ["groups", "held turn", "held turns", "inheritance", "stock"];

/// Its work is metrics and warnings. The figures that it corrects are corrected by looks as well, later.
const UNSEEN: &str = "demand";

/// How late a task may begin when nothing is wrong.
const LATE_MAX: Duration = Duration::from_secs(3);

/// How late a task may be whose start depends on the end of another. Their looks come after ten seconds.
const BEHIND_MAX: Duration = Duration::from_secs(4);

/// Calls of a kind that are refused behind the first one.
const REFUSED_AGAIN: u32 = 2;

/// The collection of the runs of the schedule.
const RUNS: &str = "runs";

/// A cluster of two nodes in which each stage has work.
struct Cluster {
    world: World,
    nodes: [Simulated; 2],
    workers: Vec<JoinHandle<()>>,
    /// The worker of their first attempts dies.
    dying: Arc<Mutex<BTreeSet<TaskId>>>,
    /// They run for half a minute.
    long: Arc<Mutex<BTreeSet<TaskId>>>,
}

/// The tasks of one round of work.
struct Round {
    began: Millis,
    plain: Vec<TaskId>,
    ordered: Vec<TaskId>,
    root: TaskId,
    dependency: TaskId,
    waiter: TaskId,
    told: TaskId,
    dies: TaskId,
    gated: TaskId,
    job: uuid::Uuid,
    idle: Vec<TaskId>,
    expires: TaskId,
    missed: BTreeSet<&'static str>,
}

impl Cluster {
    async fn new() -> Self {
        let mut world = World::new(2, 1000);
        // Less than come at once, so that the first reader passes over some.
        world.settings.ahead_entries_max = 20;
        world.queue.create_topic("users", None);
        world.queue.create_topic(TOPIC, None);
        let nodes = [world.node(1), world.node(2)];
        let (dying, long) = (Arc::<Mutex<BTreeSet<_>>>::default(), Arc::default());
        let mut cluster = Self {
            workers: Vec::new(),
            dying: Arc::clone(&dying),
            long: Arc::clone(&long),
            nodes,
            world,
        };
        for node in &cluster.nodes {
            execute(node);
            let (dying, long) = (Arc::clone(&dying), Arc::clone(&long));
            let runs = move |id, attempt| {
                let dies = attempt == 1 && dying.lock().unwrap().contains(&id);
                let is_long = long.lock().unwrap().contains(&id);
                let takes = if is_long { SECOND * 30 } else { SECOND / 10 };
                (
                    takes,
                    (!dies).then_some(Outcome::Succeeded { result: None }),
                )
            };
            // It waits for limits, as a worker of the library does.
            let world = &cluster.world;
            let worker = world.polling_worker(node.service(), |_| None, Arc::new(runs));
            cluster.workers.push(worker);
        }
        let limits = Limits {
            rate: Some(Rate::new(500.0, Some(500)).unwrap()),
            in_flight: Some(500),
        };
        let policy = Policy {
            limits,
            ..Policy::default()
        };
        let callbacks = cluster.service().callbacks().clone();
        let set = callbacks.configure("work", policy, &|_| true).await;
        set.unwrap();
        let every = ScheduleSpec {
            every: Some(5 * SECOND),
            task: of(RUNS, cluster.at(0)).draft,
            ..spec(&cluster.world)
        };
        put(&cluster.service(), every).await;
        cluster.world.pass(10 * SECOND).await;
        cluster
    }

    fn service(&self) -> Arc<Service> {
        self.nodes[0].service()
    }

    fn at(&self, seconds: u32) -> NewTask {
        callback(self.world.time.now().after(SECOND * seconds))
    }

    async fn one(&self, task: NewTask) -> TaskId {
        register(&self.service(), vec![task]).await[0].id
    }

    async fn gate(&self, state: GateState) {
        let change = GateChange {
            collection: "held".to_owned(),
            state,
            reason: "a test".to_owned(),
            until: None,
            who: String::new(),
        };
        let callbacks = self.service().callbacks().clone();
        callbacks.set_gate("work", &change).await.unwrap();
    }

    /// Registers tasks that need every stage.
    async fn begin(&self, number: u64) -> Round {
        self.gate(GateState::Paused).await;
        self.world.pass(3 * SECOND).await;
        let service = self.service();
        let began = self.world.time.now();
        // Near ones, some in slots, and more at once than memory takes.
        let mut plain = vec![self.at(1), self.at(20), self.at(21), self.at(22)];
        plain.extend(vec![self.at(25); 30]);
        let plain = register(&service, plain).await;
        let mut records = record(began.after(20 * SECOND));
        records.draft.body = Body::Inline(Content {
            payload: Bytes::from(vec![7; 5000]),
            ..Content::default()
        });
        self.one(records).await;
        let ordered = |_| {
            let mut task = self.at(2);
            task.draft.ordering_key = Some(format!("sequence {number}"));
            task
        };
        let ordered = register(&service, (0..3).map(ordered).collect()).await;
        let root = self.one(kin(self.at(1), None)).await;
        self.one(kin(self.at(2), Some(root))).await;
        let dependency = self.one(self.at(2)).await;
        let waiter = self.one(waiting(self.at(0), dependency)).await;
        let told = self.one(told(self.at(1))).await;
        let mut dies = self.at(3);
        dies.draft.claim_timeout = Some(600 * SECOND);
        dies.draft.heartbeat_timeout = Some(5 * SECOND);
        let dies = self.one(dies).await;
        self.dying.lock().unwrap().insert(dies);
        let mut long = self.at(2);
        long.draft.heartbeat_timeout = Some(60 * SECOND);
        let long = self.one(long).await;
        self.long.lock().unwrap().insert(long);
        let gated = self.one(of("held", self.at(0))).await;
        register(&service, vec![of("bulk", self.at(600)); 5]).await;
        let filter = JobFilter {
            callback: Some("work".to_owned()),
            collection: Some("bulk".to_owned()),
            to: Some(began.after(2000 * SECOND)),
            ..JobFilter::default()
        };
        let job = Job::new(JobKind::Cancel, filter, began);
        let job = service.jobs().register(Some(number.into()), job).await;
        let Ok(Registered::Created(job, _)) = job else {
            panic!("{job:?}");
        };
        for _ in 0..=REFUSED_AGAIN {
            let call = Entry {
                key: String::new(),
                who: "somebody".to_owned(),
                action: format!("call {number}"),
                target: "/".to_owned(),
                from: String::new(),
                status: Some(403),
                code: "access_denied".to_owned(),
                more: 0,
            };
            service.refusals().refused(call, None).await;
        }
        let mut idle = self.at(0);
        idle.draft.target = Target::Callback {
            name: "idle".to_owned(),
        };
        let mut expires = idle.clone();
        expires.draft.expire_after = Some(3 * SECOND);
        expires.draft.claim_timeout = Some(600 * SECOND);
        let expires = self.one(expires).await;
        let idle = register(&service, vec![idle; 8]).await;
        let ids = |views: Vec<TaskView>| views.iter().map(|view| view.id).collect();
        Round {
            began,
            plain: ids(plain),
            ordered: ids(ordered),
            root,
            dependency,
            waiter,
            told,
            dies,
            gated,
            job,
            idle: ids(idle),
            expires,
            missed: BTreeSet::new(),
        }
    }

    /// Lets a round pass, and notes what has not come in time.
    async fn judged(&self, mut round: Round) -> Round {
        let mut missed = BTreeSet::new();
        let mut must = |what, holds: bool| {
            if !holds {
                missed.insert(what);
            }
        };
        self.world.pass(18 * SECOND).await;
        for node in &self.nodes {
            let running = node.service().activity("work").await;
            must("figures", running.is_ok_and(|told| told.running > 0));
        }
        let rows = self.world.store.task_rows().into_iter();
        let mut expired = rows.filter(|row| row.state == State::Expired);
        must("expiry", expired.any(|row| row.id == round.expires));
        let unclaimed = async || {
            let mut sum = 0;
            for node in &self.nodes {
                sum += unclaimed_of(&node.service(), "idle").await;
            }
            sum
        };
        must("demand", unclaimed().await > 0);
        for id in &round.idle {
            let cancelled = self.service().cancel(*id).await;
            must("cancel", cancelled.is_ok());
        }
        self.gate(GateState::Open).await;
        let opened = self.world.time.now();
        // The next looks at those that were cancelled come later.
        self.world.pass(8 * SECOND).await;
        must("demand", unclaimed().await == 0);
        self.world.pass(17 * SECOND).await;
        let late = |id: TaskId, due: Millis| {
            let runs = self.world.executions_of(id);
            let late = runs.first().map(|run| Millis(run.began.0).since(due));
            late.unwrap_or(Duration::MAX)
        };
        let latest = round
            .plain
            .iter()
            .map(|id| late(*id, id.first_start()))
            .max();
        must("start", latest.is_some_and(|latest| latest <= LATE_MAX));
        for (before, id) in round.ordered.iter().zip(&round.ordered[1..]) {
            let passed = self.ended(*before);
            must("turn", passed.is_some_and(|at| late(*id, at) <= BEHIND_MAX));
        }
        let passed = self.ended(round.dependency);
        must(
            "join",
            passed.is_some_and(|at| late(round.waiter, at) <= BEHIND_MAX),
        );
        must("gate", late(round.gated, opened) <= BEHIND_MAX);
        let tree = self.service().get(round.root, View::Basic).await.unwrap();
        must("tree", tree.is_some_and(|root| root.tree.is_some()));
        let runs = self.world.executions_of(round.dies);
        let again = runs.get(1).map(|again| again.began.since(runs[0].began));
        must("death", again.is_some_and(|wait| wait <= 12 * SECOND));
        let job = self.service().jobs().get(round.job).await.unwrap().unwrap();
        must("job", job.state.has_ended());
        must(
            "notice",
            notify::messages(&self.world).contains_key(&round.told.to_string()),
        );
        self.judge_runs(&round, &mut must);
        must("refusals", self.refused_calls_are_counted().await);
        let rows = self.world.plain_store().nodes().await.unwrap();
        let now = self.world.time.now();
        let fresh = rows.iter().filter(|row| now.since(row.wall) < 10 * SECOND);
        must("members", fresh.count() == self.nodes.len());
        round.missed = missed;
        round
    }

    /// When a task ended its run.
    fn ended(&self, id: TaskId) -> Option<Millis> {
        let runs = self.world.executions_of(id);
        runs.last().map(|run| run.ended)
    }

    /// Tells whether the audit counts the refused calls whose minute is over.
    async fn refused_calls_are_counted(&self) -> bool {
        let now = self.world.time.now();
        let service = self.service();
        let listed = service.audit().list((Millis::EPOCH, now), None, 100).await;
        let (rows, _) = listed.unwrap();
        let mut over = rows.iter().filter(|(spot, _)| {
            now.since(spot.time) > AUDIT_REFUSALS_SPAN + 2 * AUDIT_REFUSALS_LOOK
        });
        over.all(|(_, entry)| entry.more == REFUSED_AGAIN)
    }

    /// Judges what goes on all the time: the runs of the schedule, and the erasing of what has fired.
    fn judge_runs(&self, round: &Round, must: &mut impl FnMut(&'static str, bool)) {
        let rows = self.world.store.task_rows().into_iter();
        let ids: BTreeSet<TaskId> = rows
            .filter(|row| row.detail.spec.collection == RUNS)
            .map(|row| row.id)
            .collect();
        let runs: Vec<_> = {
            let all = self.world.executions.lock().unwrap();
            let ours = all.iter().filter(|run| ids.contains(&run.id));
            ours.cloned().collect()
        };
        for number in 1..8 {
            let (from, until) = (
                round.began.after(5 * SECOND * number),
                round.began.after(5 * SECOND * (number + 1)),
            );
            let of_time = |id: TaskId| from <= id.first_start() && id.first_start() < until;
            let run = runs.iter().find(|run| of_time(run.id));
            let in_time = run.is_some_and(|run| run.began.since(run.id.first_start()) <= LATE_MAX);
            must("schedule", in_time);
        }
        let tick = self.world.rules.shape.tick();
        let long_ago = tick.last_ended(self.world.time.now().before(60 * SECOND));
        for wheel in self.world.rules.shape.all_wheels() {
            let row = self.world.store.clock_row(wheel);
            must("erase", row.is_some_and(|row| row.erased >= long_ago));
        }
    }

    /// Every task of a round that went wrong has run by now.
    fn all_ran(&self, round: &Round) -> bool {
        let once = [round.waiter, round.told, round.gated];
        let mut ids = round.plain.iter().chain(&round.ordered).chain(&once);
        ids.all(|id| !self.world.executions_of(*id).is_empty())
    }
}

async fn unclaimed_of(service: &Service, callback: &str) -> u64 {
    let stats = service.stats().await.unwrap();
    let callbacks = stats.unclaimed.callbacks.iter();
    let ours = callbacks.filter(|waiting| waiting.callback == callback);
    ours.map(|waiting| waiting.tasks).sum()
}

/// Lets a cluster work with a stage that panics, and once more. Returns what was missed then, and the names of all stages.
async fn missed_after(strike: Option<Strike>) -> (BTreeSet<&'static str>, BTreeSet<&'static str>) {
    let cluster = Cluster::new().await;
    panics::strike(strike);
    let round = cluster.begin(1).await;
    let first = cluster.judged(round).await;
    let must_have_come = |strike: &Strike| strike.times < u32::MAX && strike.after == 0;
    if let Some(strike) = strike.filter(must_have_come) {
        assert_eq!(panics::strikes_left(), 0, "{} did not panic", strike.work);
    }
    cluster.world.pass(60 * SECOND).await;
    let round = cluster.begin(2).await;
    let mut missed = cluster.judged(round).await.missed;
    if !cluster.all_ran(&first) {
        missed.insert("tasks of the time of the panics");
    }
    panics::strike(None);
    for worker in &cluster.workers {
        worker.abort();
    }
    (missed, panics::names())
}

/// In a runtime of its own, so that the nodes end with it.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(work)
}

/// The names of all that a cluster of two nodes has, and does well without a panic.
fn names() -> BTreeSet<&'static str> {
    let (missed, mut names) = run(missed_after(None));
    assert_eq!(missed, BTreeSet::new());
    names.retain(|name| !ELSEWHERE.contains(name));
    names
}

#[test]
#[ignore = "runs the service once for each stage: make test-all"]
fn each_stage_that_panics_works_afterwards_as_before() {
    for work in names() {
        for after in [0, 3] {
            let strike = Strike {
                work,
                after,
                times: 3,
            };
            let (missed, _) = run(missed_after(Some(strike)));
            assert_eq!(missed, BTreeSet::new(), "{strike:?}");
        }
    }
    for work in ON_DISK {
        let strike = Strike {
            work,
            after: 0,
            times: 2,
        };
        let found = run(restarts::after_panics(None, Some(strike)));
        assert_eq!(found, (10, (7, true)), "{strike:?}");
    }
}

#[test]
#[ignore = "runs the service once for each stage: make test-all"]
fn a_stage_that_is_gone_is_missed() {
    for work in names().into_iter().filter(|work| *work != UNSEEN) {
        let strike = Strike {
            work,
            after: 0,
            times: u32::MAX,
        };
        let (missed, _) = run(missed_after(Some(strike)));
        assert!(
            !missed.is_empty(),
            "nobody would know that `{work}` is gone"
        );
    }
    for work in ON_DISK {
        let strike = Strike {
            work,
            after: 0,
            times: u32::MAX,
        };
        let found = run(restarts::after_panics(None, Some(strike)));
        assert_ne!(found, (10, (7, true)), "{work}");
    }
}
