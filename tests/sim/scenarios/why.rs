//! Tasks that are late tell the cause that was injected, and the one that was injected alone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tickwheel::{
    flow::{
        base::{
            api::{ClaimedTask, NewTask, SettleRequest},
            records::callbacks::GateChange,
        },
        stages::{poll::PollRequest, service::Service},
    },
    model::{
        callback::Policy,
        gate::GateState,
        ids::TaskId,
        join::{After, Asked, Condition},
        limit::Limits,
        state::Outcome,
        target::Target,
        time::Millis,
        why::What,
    },
};

use crate::{
    seeded::chance::Chance,
    world::{World, callback, register},
};

const SECOND: Duration = Duration::from_secs(1);

/// The causes that are injected, each by its code.
const INJECTED: [&str; 12] = [
    "gate",
    "dropped",
    "no_worker",
    "typo",
    "turn",
    "limit",
    "tasks",
    "retry",
    "running",
    "worker_lost",
    "dead",
    "expired",
];

/// Seeds of the gate, and of `make test-all`.
const SEEDS: u64 = 25;
const SEEDS_ALL: u64 = 10_000;

/// A world with one task, or two, for each cause.
struct Injection {
    world: World,
    service: Arc<Service>,
    chance: Chance,
    /// The cause of each task that is asked.
    injected: BTreeMap<TaskId, &'static str>,
}

impl Injection {
    async fn task(&mut self, cause: &'static str, change: impl FnOnce(&mut NewTask)) -> TaskId {
        let start = self.world.time.now().after(SECOND * 2);
        let start = start.after(Duration::from_millis(self.chance.below(6000)));
        let mut task = callback(start);
        task.draft.target = Target::Callback {
            name: format!("why_{cause}"),
        };
        task.draft.heartbeat_timeout = Some(SECOND * 600);
        change(&mut task);
        register(&self.service, vec![task]).await.remove(0).id
    }

    /// Injects a cause into a task of a callback of its own.
    async fn inject(&mut self, cause: &'static str) {
        let same = |_: &mut NewTask| {};
        let id = match cause {
            "gate" => self.closed(cause, GateState::Paused).await,
            "dropped" => self.closed(cause, GateState::Dropping).await,
            "typo" => {
                self.works(cause, |_| None);
                let misspelt = |task: &mut NewTask| {
                    task.draft.target = Target::Callback {
                        name: "why_typos".to_owned(),
                    };
                };
                self.task(cause, misspelt).await
            }
            "turn" => {
                let keyed = |task: &mut NewTask| task.draft.ordering_key = Some("k".to_owned());
                let first = self.task(cause, keyed).await;
                self.works(cause, |_| None);
                let behind = |task: &mut NewTask| {
                    task.start = first.first_start().after(SECOND);
                    keyed(task);
                };
                self.task(cause, behind).await
            }
            "limit" => {
                self.limited(cause).await;
                let first = self.task(cause, same).await;
                self.works(cause, |_| None);
                let behind = |task: &mut NewTask| task.start = first.first_start().after(SECOND);
                self.task(cause, behind).await
            }
            "tasks" => {
                let later = |task: &mut NewTask| task.start = task.start.after(SECOND * 3600);
                let ids = vec![self.task(cause, later).await];
                let after = After {
                    condition: Condition::AllSucceeded,
                    later: false,
                    deadline: None,
                    tasks: 1,
                };
                let waits = |task: &mut NewTask| {
                    task.draft.after = Some(Box::new(Asked { after, ids }));
                };
                self.task(cause, waits).await
            }
            "retry" | "dead" => {
                let tries = if cause == "dead" { 1 } else { 5 };
                let fails = |task: &mut NewTask| {
                    task.draft.max_attempts = Some(tries);
                    task.draft.backoff.initial = Some(SECOND * 3600);
                    task.draft.backoff.max = Some(SECOND * 3600);
                };
                let id = self.task(cause, fails).await;
                let error = "no route".to_owned();
                self.works(cause, move |_| {
                    let error = error.clone();
                    Some(Outcome::Retry { error, after: None })
                });
                id
            }
            "running" => {
                let id = self.task(cause, same).await;
                self.works(cause, |_| None);
                id
            }
            "worker_lost" => {
                let short = |task: &mut NewTask| {
                    task.draft.heartbeat_timeout = Some(SECOND * 5);
                };
                let id = self.task(cause, short).await;
                let (service, name) = (Arc::clone(&self.service), format!("why_{cause}"));
                tokio::spawn(async move { polled(&service, &name).await });
                id
            }
            "expired" => {
                let short = |task: &mut NewTask| task.draft.expire_after = Some(SECOND * 3);
                self.task(cause, short).await
            }
            _ => self.task(cause, same).await,
        };
        self.injected.insert(id, cause);
    }

    async fn closed(&mut self, cause: &'static str, state: GateState) -> TaskId {
        let change = GateChange {
            collection: String::new(),
            state,
            reason: "as planned".to_owned(),
            until: None,
            who: String::new(),
        };
        let name = format!("why_{cause}");
        let set = self.service.callbacks().set_gate(&name, &change).await;
        set.expect("the store is there");
        self.task(cause, |_| {}).await
    }

    async fn limited(&self, cause: &str) {
        let policy = Policy {
            limits: Limits {
                rate: None,
                in_flight: Some(1),
            },
            ..Policy::default()
        };
        let name = format!("why_{cause}");
        let set = self.service.callbacks().configure(&name, policy, &|_| true);
        set.await.expect("the store is there");
    }

    /// Starts a worker that polls all the time, and reports what `ends` says; none is an attempt that goes on.
    fn works(
        &self,
        cause: &str,
        ends: impl Fn(&ClaimedTask) -> Option<Outcome> + Send + Sync + 'static,
    ) {
        let (service, name) = (Arc::clone(&self.service), format!("why_{cause}"));
        tokio::spawn(async move {
            loop {
                for task in polled(&service, &name).await {
                    let Some(outcome) = ends(&task) else { continue };
                    let request = SettleRequest {
                        id: task.id,
                        attempt: task.attempt,
                        outcome,
                        answered: None,
                    };
                    service.settle("worker", vec![request]).await;
                }
            }
        });
    }
}

async fn polled(service: &Service, name: &str) -> Vec<ClaimedTask> {
    let request = PollRequest {
        worker: format!("worker of {name}"),
        callbacks: vec![name.to_owned()],
        max: 10,
        wait: SECOND * 20,
        version: None,
    };
    service
        .poll(request)
        .await
        .expect("polls are answered")
        .accept()
}

/// The answers of some seeds.
#[derive(Debug, Default)]
struct Tally {
    asked: u64,
    uncertain: u64,
    wrong: Vec<String>,
}

/// Injects all causes at once, and asks each task half a minute later.
async fn ask_all(seed: u64, tally: &mut Tally) {
    let mut chance = Chance::new(seed, 1);
    let wheels = chance.one_of(&[1, 2, 4]);
    let world = World::new(wheels, 1000);
    let node = world.node(1);
    world.pass(SECOND * 5).await;
    let mut injection = Injection {
        service: node.service(),
        world,
        chance,
        injected: BTreeMap::new(),
    };
    for cause in INJECTED {
        injection.inject(cause).await;
    }
    injection.world.pass(SECOND * 35).await;
    for (id, cause) in &injection.injected {
        let why = injection.service.why(*id).await.unwrap().unwrap();
        let first = &why.causes[0];
        let code = match &first.what {
            What::NoWorker {
                nearest: Some(name),
                ..
            } if name == "why_typo" => "typo",
            what => what.code(),
        };
        tally.asked += 1;
        tally.uncertain += u64::from(!first.certain);
        if code != *cause {
            let told: Vec<&str> = why.causes.iter().map(|cause| cause.what.code()).collect();
            tally
                .wrong
                .push(format!("seed {seed}: {cause} was told as {told:?}"));
        }
    }
}

/// Each seed has a runtime of its own: the tasks of its world end with it.
fn asked(seeds: u64) {
    let mut tally = Tally::default();
    for seed in 0..seeds {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(ask_all(seed, &mut tally));
    }
    let Tally {
        asked,
        uncertain,
        wrong,
    } = tally;
    eprintln!(
        "{asked} tasks asked, {} wrong, {uncertain} not certain",
        wrong.len()
    );
    assert!(wrong.len() as u64 * 1000 <= asked, "{wrong:?}");
    assert!(uncertain * 100 <= asked, "{uncertain} of {asked}");
}

#[test]
fn late_tasks_tell_the_cause_that_was_injected() {
    asked(SEEDS);
}

#[test]
#[ignore = "make test-all: ten thousand seeds take minutes"]
fn late_tasks_of_ten_thousand_seeds_tell_the_cause_that_was_injected() {
    asked(SEEDS_ALL);
}

/// The lease of a dead node has not ended for all of that time.
#[tokio::test(start_paused = true)]
async fn a_task_whose_node_has_died_tells_that_its_wheel_is_taken_over() {
    let world = World::new(1, 1000);
    let first = world.node(1);
    world.pass(SECOND * 4).await;
    let second = world.node(2);
    world.pass(SECOND).await;
    let start = world.time.now().after(SECOND * 6);
    let id = register(&second.service(), vec![callback(start)])
        .await
        .remove(0)
        .id;
    world.pass(SECOND * 4).await;
    assert_eq!(told(&second.service(), id).await, "not_due");
    first.crash();
    let mut seen = BTreeMap::<&str, Millis>::new();
    // Right behind its start it counts as on its way.
    let is_over = |seen: &BTreeMap<_, Millis>| {
        let taken = seen.get("take_over");
        taken.is_some_and(|taken| seen.get("queued") > Some(taken))
    };
    while !is_over(&seen) && world.time.now() < start.after(SECOND * 60) {
        let code = told(&second.service(), id).await;
        seen.insert(code, world.time.now());
        world.pass(SECOND / 4).await;
    }
    assert!(seen.contains_key("take_over"), "{seen:?}");
    // Its new owner catches up behind that.
    let caught_up = seen.get("catching_up");
    assert!(
        caught_up.is_none_or(|time| *time > seen["take_over"]),
        "{seen:?}"
    );
    let taken = seen["queued"].since(seen["take_over"]);
    assert!(taken < SECOND * 8, "{seen:?}");
}

async fn told(service: &Service, id: TaskId) -> &'static str {
    let why = service.why(id).await.unwrap().unwrap();
    why.causes[0].what.code()
}
