//! The operator of a scene sets its callback, and makes the planned changes one after the other, each until it is answered.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tickwheel::{
    flow::{
        base::{api::Fault, records::callbacks::GateChange, tables::letters::Scope},
        life::asked::{Answer, RequestMark},
        stages::{
            jobs::desk::Registered,
            letters::walk::Wanted,
            schedules::desk::{Changed, Order},
            service::Service,
            tree::retry::TreeRetried,
        },
    },
    model::{
        callback::Policy,
        configuration::CURRENT_MAX,
        ids::TaskId,
        job::{Job, JobFilter, JobKind},
        limit::{Limits, Rate},
        schedule::life::{Missed, ScheduleSpec},
        task::Scheduled,
    },
};

use super::{
    chance::Chance,
    history::Ordered,
    network::PATIENCE,
    scene::{ScenePlan, SchedulePlan, Step, StepPlan},
    scene_client,
    world::Sim,
};

/// The starts that a job is about end so much later: behind all of a plan.
const JOB_SPAN: Duration = Duration::from_secs(2 * 3600);

/// Tries of a change, and the pause between two.
const TRIES: usize = 40;
const PAUSE: Duration = Duration::from_millis(900);

/// Further tries behind those, and the pause between two: an outage may take longer than people are patient, and a gate that is
/// opened only in the plan stays closed.
const LATE_TRIES: usize = 720;
const LATE_PAUSE: Duration = Duration::from_secs(20);

/// A job is asked so often whether it has ended.
const JOB_ASKED: usize = 400;

/// The effect of a change, as its answer says.
#[derive(Debug, Default)]
struct Done {
    /// It was done.
    done: bool,
    tasks: Vec<TaskId>,
    anchor: Option<i64>,
}

impl Done {
    fn so(done: bool) -> Self {
        Self {
            done,
            ..Self::default()
        }
    }
}

/// The parts of an operator.
struct Operator {
    sim: Arc<Sim>,
    scene: Arc<ScenePlan>,
    chance: Chance,
}

/// Sets the limits of a callback before its first task comes, and waits until all nodes know them.
pub(crate) async fn configure(sim: &Arc<Sim>, scene: &Arc<ScenePlan>) {
    if scene.rate.is_none() && scene.in_flight.is_none() {
        return;
    }
    let rate = scene.rate.and_then(|(tokens, burst)| {
        let per_second = f64::from(tokens) / 10.0;
        Rate::new(per_second, Some(burst))
    });
    let policy = Policy {
        limits: Limits {
            rate,
            in_flight: scene.in_flight,
        },
        ..Policy::default()
    };
    let mut chance = Chance::new(sim.seed, 5_000_000 + scene.number as u64);
    sim.until(1500).await;
    loop {
        let (name, policy) = (scene.callback(), policy.clone());
        let set = |service: Arc<Service>| async move {
            service
                .callbacks()
                .configure(&name, policy, &|_| true)
                .await
        };
        let answer = sim.call(&mut chance, &mut None, PATIENCE, set).await.answer;
        if matches!(answer, Ok(Ok(_))) {
            sim.time.sleep(CURRENT_MAX).await;
            return;
        }
        sim.time.sleep(PAUSE).await;
    }
}

/// Makes the changes of a scene.
pub(crate) async fn run(sim: Arc<Sim>, scene: Arc<ScenePlan>) {
    let chance = Chance::new(sim.seed, 6_000_000 + scene.number as u64);
    let mut operator = Operator { sim, scene, chance };
    let steps = operator.scene.steps.clone();
    for (number, step) in steps.into_iter().enumerate() {
        operator.sim.until(step.at).await;
        operator.make(number, step).await;
    }
}

impl Operator {
    /// Makes a change, and again until it is answered.
    async fn make(&mut self, number: usize, step: StepPlan) {
        let asked = self.sim.now();
        let mut told = None;
        for tried in 0..TRIES + LATE_TRIES {
            told = self.tried(number, step.what).await;
            if told.is_some() {
                break;
            }
            let pause = if tried < TRIES { PAUSE } else { LATE_PAUSE };
            self.sim.time.sleep(pause).await;
        }
        let (scene, answered) = (self.scene.number, self.sim.now());
        self.sim.note(format_args!(
            "operator of scene {scene}: {:?}: {told:?}",
            step.what
        ));
        let Done {
            done,
            tasks,
            anchor,
        } = told.unwrap_or_default();
        let ordered = Ordered {
            step: step.what,
            asked,
            answered,
            done,
            tasks,
            anchor,
        };
        self.sim.history().scene(scene).orders.push(ordered);
    }

    async fn call<T, F: Future<Output = Result<T, Fault>>>(
        &mut self,
        act: impl FnOnce(Arc<Service>) -> F,
    ) -> Option<T> {
        let called = self
            .sim
            .call(&mut self.chance, &mut None, PATIENCE, act)
            .await;
        called.answer.ok()?.ok()
    }

    /// Tries a change once; none without an answer.
    async fn tried(&mut self, number: usize, step: Step) -> Option<Done> {
        match step {
            Step::Gate(collection, state) => {
                let change = GateChange {
                    collection: collection.map_or(String::new(), |number| format!("c{number}")),
                    state,
                    reason: "as planned".to_owned(),
                    until: None,
                    who: String::new(),
                };
                let name = self.scene.callback();
                let set = |service: Arc<Service>| async move {
                    service.callbacks().set_gate(&name, &change).await
                };
                self.call(set).await.map(|_| Done::so(true))
            }
            Step::Redrive => self.redrive().await,
            Step::Retry => self.retry().await,
            Step::Job(kind, collection, to) => self.job(number, kind, (collection, to)).await,
            Step::Put(plan) => self.put(number, plan).await,
            Step::Trigger => self.trigger(number).await,
            Step::Pause => {
                let order = Order::Pause {
                    reason: "as planned".to_owned(),
                    who: String::new(),
                };
                self.order(number, order).await
            }
            Step::Resume => self.order(number, Order::Resume).await,
            Step::Delete => self.order(number, Order::Delete).await,
        }
    }

    /// The id of a change: another one for each step.
    fn change(&self, number: usize) -> u128 {
        (self.scene.number * 100 + number + 1) as u128
    }

    async fn redrive(&mut self) -> Option<Done> {
        let wanted = Wanted {
            scope: Scope::of(Some(&self.scene.callback())),
            error: None,
        };
        let act = |service: Arc<Service>| async move {
            let page = service.dead_letters().list(&wanted, None, 100).await?;
            let ids: Vec<TaskId> = page.letters.iter().map(|listed| listed.letter.id).collect();
            Ok(service.dead_letters().redrive(&ids).await)
        };
        let answers = self.call(act).await?;
        let tasks = answers.into_iter().filter_map(|answer| match answer {
            Ok(Some((true, view))) => Some(view.id),
            Ok(Some((false, _)) | None) | Err(_) => None,
        });
        Some(Done {
            done: true,
            tasks: tasks.collect(),
            anchor: None,
        })
    }

    async fn retry(&mut self) -> Option<Done> {
        let root = self.scene.item(0).map(|item| item.number);
        let Some(root) = root.map(|root| scene_client::id_at(&self.sim, &self.scene, root)) else {
            return Some(Done::so(false));
        };
        let act = |service: Arc<Service>| async move { service.retries().retry(root, None).await };
        let told = self.call(act).await?;
        self.sim
            .note(format_args!("the tree of {root} runs again: {told:?}"));
        let whole = |retried: TreeRetried| retried.left == 0 && retried.next.is_none();
        Some(Done::so(told.is_some_and(|told| told.is_ok_and(whole))))
    }

    async fn job(
        &mut self,
        number: usize,
        kind: JobKind,
        (collection, to): (u8, Option<u64>),
    ) -> Option<Done> {
        let filter = JobFilter {
            callback: Some(self.scene.callback()),
            collection: Some(format!("c{collection}")),
            // As on any cluster. Without an end every tick of ten days is read, millions of short ones.
            to: Some(self.sim.time.now().after(JOB_SPAN)),
            ..JobFilter::default()
        };
        let start = to.map(|to| Sim::instant(to.cast_signed()));
        let (key, filter) = (self.change(number), &filter);
        let job = |service: &Service| Job {
            start,
            request: Some(key),
            ..Job::new(kind, filter.clone(), service.time().now())
        };
        let register = |service: Arc<Service>| async move {
            let job = job(&service);
            service.jobs().register(Some(key), job).await
        };
        let (Registered::Created(id, _) | Registered::Again(id, _)) = self.call(register).await?
        else {
            return Some(Done::so(false));
        };
        for _ in 0..JOB_ASKED {
            self.sim.time.sleep(PAUSE).await;
            let get = |service: Arc<Service>| async move { service.jobs().get(id).await };
            if let Some(Some(job)) = self.call(get).await
                && job.state.has_ended()
            {
                let (scene, counts) = (self.scene.number, job.counts);
                self.sim.note(format_args!(
                    "job of scene {scene} is {:?}: {counts:?}",
                    job.state
                ));
                let whole = job.state == tickwheel::model::job::JobState::Completed;
                return Some(Done::so(whole && counts.failed == 0));
            }
        }
        Some(Done::so(false))
    }

    fn schedule(&self) -> String {
        self.scene.callback()
    }

    async fn put(&mut self, number: usize, plan: SchedulePlan) -> Option<Done> {
        // A plan that was cut down may have no such item.
        let Some(item) = self.scene.item(plan.item) else {
            return Some(Done::so(false));
        };
        let spec = ScheduleSpec {
            crons: Vec::new(),
            every: Some(Duration::from_millis(plan.every)),
            zone: "UTC".to_owned(),
            start: None,
            end: None,
            limit: Some(plan.limit),
            jitter: Duration::ZERO,
            overlap: plan.overlap,
            missed: if plan.all_missed {
                Missed::All
            } else {
                Missed::Latest
            },
            window: Duration::from_secs(24 * 3600),
            pause_on_failure: false,
            note: String::new(),
            labels: BTreeMap::new(),
            task: scene_client::draft(&self.sim, &self.scene, item),
        };
        let (name, change) = (self.schedule(), self.change(number));
        let put = |service: Arc<Service>| async move {
            let desk = service.schedules();
            desk.put(&name, spec, None, change, &|_| true).await
        };
        self.call(put).await.map(changed)
    }

    async fn order(&mut self, number: usize, order: Order) -> Option<Done> {
        let (name, change) = (self.schedule(), self.change(number));
        let make = |service: Arc<Service>| async move {
            let desk = service.schedules();
            desk.order(&name, &order, change, &|_| true).await
        };
        self.call(make).await.map(changed)
    }

    async fn trigger(&mut self, number: usize) -> Option<Done> {
        let name = self.schedule();
        let key = format!("trigger {}", self.change(number));
        let start = |service: Arc<Service>| async move {
            let desk = service.schedules();
            let Some(schedule) = desk.get(&name).await? else {
                return Ok(None);
            };
            let mark = RequestMark { key, hash: 7 };
            desk.trigger(&name, &schedule, Some(mark)).await.map(Some)
        };
        Some(match self.call(start).await? {
            Some(Answer::Created(view) | Answer::Existing(view)) => Done {
                done: true,
                tasks: vec![view.id],
                anchor: time(view.spec.scheduled.as_deref()),
            },
            _ => Done::so(false),
        })
    }
}

/// The time of a schedule, in milliseconds of the run.
fn time(scheduled: Option<&Scheduled>) -> Option<i64> {
    scheduled.map(|scheduled| scheduled.time.0 - Sim::instant(0).0)
}

fn changed(changed: Changed) -> Done {
    match changed {
        Changed::Created(outcome) | Changed::Now(outcome) => Done {
            done: true,
            tasks: Vec::new(),
            anchor: Some(outcome.schedule.anchor().0 - Sim::instant(0).0),
        },
        Changed::Same(_)
        | Changed::OtherRequest
        | Changed::Absent
        | Changed::Mismatch(_)
        | Changed::Ended(_) => Done::so(false),
    }
}
