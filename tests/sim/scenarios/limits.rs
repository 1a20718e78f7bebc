//! A callback with limits is never claimed faster and never runs more at once than they say, on any number of nodes, whatever
//! dies meanwhile; nothing of it is lost, and other callbacks do not wait for it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tickwheel::{
    doubles::store::faulty::{Call, Fate},
    flaw::{self, Flaw},
    flow::{
        base::api::{
            ClaimAnswer, ClaimRequest, HeartbeatAnswer, HeartbeatRequest, NewTask, SettleRequest,
        },
        stages::{poll::PollRequest, service::Service},
    },
    model::{
        callback::Policy,
        ids::TaskId,
        limit::{Limits, Rate},
        state::Outcome,
        target::Target,
        task::Priority,
        time::Millis,
    },
    queue::{
        Consumer as _,
        message::{self, TaskMessage},
    },
    time_source::TimeSource,
};
use tokio::task::JoinHandle;

use crate::world::{Simulated, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);

/// One attempt, as its worker saw it.
#[derive(Debug, Clone, Copy)]
struct Ran {
    id: TaskId,
    attempt: u32,
    began: Millis,
    ended: Millis,
}

/// The attempts of all workers, by callback.
type Seen = Arc<Mutex<BTreeMap<String, Vec<Ran>>>>;

fn task(name: &str, start: Millis) -> NewTask {
    let mut task = callback(start);
    task.draft.target = Target::Callback {
        name: name.to_owned(),
    };
    task
}

async fn limit(service: &Service, rate: Option<(f64, u32)>, in_flight: Option<u32>) {
    let rate = rate.map(|(per_second, burst)| Rate::new(per_second, Some(burst)).unwrap());
    let policy = Policy {
        limits: Limits { rate, in_flight },
        ..Policy::default()
    };
    let set = service
        .callbacks()
        .configure("work", policy, &|_| true)
        .await;
    set.unwrap();
}

/// The parts of a worker.
#[derive(Clone)]
struct Worker {
    service: Arc<Service>,
    /// It reports to this node.
    settles: Arc<Service>,
    time: TimeSource,
    seen: Seen,
    takes: Duration,
}

impl Worker {
    /// Polls for callbacks, always with another poll for each task that runs.
    fn polls(self, callbacks: &[&str]) -> JoinHandle<()> {
        let callbacks: Vec<String> = callbacks.iter().map(|name| (*name).to_owned()).collect();
        tokio::spawn(async move {
            loop {
                let polled = self.service.poll(PollRequest {
                    worker: "worker".to_owned(),
                    callbacks: callbacks.clone(),
                    max: 16,
                    wait: 5 * SECOND,
                    version: None,
                });
                let Ok(handout) = polled.await else {
                    self.time.sleep(SECOND / 10).await;
                    continue;
                };
                for task in handout.accept() {
                    let name = task.spec.callback().unwrap().to_owned();
                    tokio::spawn(self.clone().run(name, task.id, task.attempt));
                }
            }
        })
    }

    /// Consumes the queue of `work` by itself, as a worker on Kafka does, and holds messages that are limited.
    fn claims(self, world: &World) -> JoinHandle<()> {
        let topics = Priority::ALL.map(|priority| message::topic("work", priority));
        for topic in &topics {
            world.queue.create_topic(topic, None);
        }
        let mut consumer = world.queue.consumer(&message::group("work"), &topics);
        tokio::spawn(async move {
            loop {
                let received = consumer.receive(4, SECOND).await.unwrap_or_default();
                for delivery in received {
                    let message = TaskMessage::decode(delivery.value.clone()).unwrap();
                    tokio::spawn(self.clone().claim(message));
                    consumer.handled(&[(delivery.topic, delivery.partition, delivery.offset)]);
                }
            }
        })
    }

    async fn claim(self, message: TaskMessage) {
        let spec = Arc::new(message.spec);
        loop {
            let request = ClaimRequest {
                id: message.dispatch.id,
                generation: message.dispatch.generation,
                expected_attempt: message.dispatch.expected_attempt,
                spec: Some(Arc::clone(&spec)),
                published: Some(message.published),
                with_content: false,
                admitted: false,
            };
            let answers = self.service.claim("worker", vec![request]).await;
            match answers.into_iter().next() {
                Some(ClaimAnswer::Claimed(task)) => {
                    return self.run("work".to_owned(), task.id, task.attempt).await;
                }
                Some(ClaimAnswer::Limited { not_before }) => {
                    self.time.sleep_until_wall(not_before).await;
                }
                _ => return,
            }
        }
    }

    async fn run(self, name: String, id: TaskId, attempt: u32) {
        let began = self.time.now();
        self.time.sleep(self.takes).await;
        let ran = Ran {
            id,
            attempt,
            began,
            ended: self.time.now(),
        };
        self.seen.lock().unwrap().entry(name).or_default().push(ran);
        let report = SettleRequest {
            id,
            attempt,
            outcome: Outcome::Succeeded { result: None },
            answered: None,
        };
        self.settles.settle("worker", vec![report]).await;
    }
}

struct Site {
    world: World,
    nodes: Vec<Simulated>,
    seen: Seen,
}

impl Site {
    async fn new(nodes: u64) -> Self {
        let world = World::new(4, 1000);
        let nodes = (1..=nodes).map(|number| world.node(number)).collect();
        world.pass(5 * SECOND).await;
        Self {
            world,
            nodes,
            seen: Seen::default(),
        }
    }

    fn worker(&self, node: usize, takes: Duration) -> Worker {
        Worker {
            service: self.nodes[node].service(),
            settles: self.nodes[node].service(),
            time: self.world.time.clone(),
            seen: Arc::clone(&self.seen),
            takes,
        }
    }

    fn ran(&self, name: &str) -> Vec<Ran> {
        let seen = self.seen.lock().unwrap();
        seen.get(name).cloned().unwrap_or_default()
    }

    /// Registers tasks of a callback that are due now.
    async fn due(&self, name: &str, count: usize) -> Vec<TaskId> {
        let now = self.world.time.now();
        let tasks = vec![task(name, now); count];
        let registered = register(&self.nodes[0].service(), tasks).await;
        registered.iter().map(|task| task.id).collect()
    }
}

/// The most attempts that began within a time.
fn most_began(ran: &[Ran], within: Duration) -> usize {
    let from = |first: Millis| {
        let within = |one: &&Ran| one.began >= first && one.began < first.after(within);
        ran.iter().filter(within).count()
    };
    ran.iter().map(|one| from(one.began)).max().unwrap_or(0)
}

/// The most attempts that ran at one moment.
fn most_at_once(ran: &[Ran]) -> usize {
    let at = |moment: Millis| {
        let runs = |one: &&Ran| one.began <= moment && moment < one.ended;
        ran.iter().filter(runs).count()
    };
    ran.iter().map(|one| at(one.began)).max().unwrap_or(0)
}

fn each_once(ran: &[Ran], ids: &[TaskId]) {
    let mut found: Vec<TaskId> = ran.iter().map(|one| one.id).collect();
    found.sort_unstable();
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    assert_eq!(found, ids, "each ran once");
    let first = ran.iter().filter(|one| one.attempt == 1).count();
    assert_eq!(first, ids.len(), "waiting is no attempt");
}

/// Runs 600 tasks of `work` at 20 a second on three nodes beside 10 a second of `other`; the second node dies after 12 s.
/// Returns what ran of both, and the ids of `work`.
async fn rate_on_three_nodes() -> (Vec<Ran>, Vec<Ran>, Vec<TaskId>) {
    let site = Site::new(3).await;
    limit(&site.nodes[0].service(), Some((20.0, 10)), None).await;
    site.world.pass(2 * SECOND).await;
    let mut workers: Vec<JoinHandle<()>> = (0..3)
        .map(|node| site.worker(node, SECOND / 100).polls(&["work", "other"]))
        .collect();
    site.world.pass(SECOND).await;
    let ids = site.due("work", 600).await;
    let now = site.world.time.now();
    let other = (0..300).map(|number| task("other", Millis(now.0 + number * 100)));
    register(&site.nodes[0].service(), other.collect()).await;
    site.world.pass(12 * SECOND).await;
    workers[1].abort();
    site.nodes[1].crash();
    site.world.pass(120 * SECOND).await;
    workers.drain(..).for_each(|worker| worker.abort());
    (site.ran("work"), site.ran("other"), ids)
}

#[tokio::test(start_paused = true)]
async fn the_rate_holds_over_three_nodes_of_which_one_dies_and_others_are_not_delayed() {
    let (work, other, ids) = rate_on_three_nodes().await;
    let most = most_began(&work, 10 * SECOND);
    assert!(most <= 220 + 10, "{most} began within ten seconds");
    // It is used, too: while all live, and after the death.
    let first = work.iter().map(|one| one.began).min().unwrap();
    let within = |from: Duration, to: Duration| {
        let (from, to) = (first.after(from), first.after(to));
        let began = work
            .iter()
            .filter(|one| one.began >= from && one.began < to);
        began.count()
    };
    let before = within(Duration::ZERO, 10 * SECOND);
    assert!(before >= 180, "{before} in the first ten seconds");
    // Messages of the node that died come again; they may run a second time, and each did run.
    let ran: std::collections::BTreeSet<TaskId> = work.iter().map(|one| one.id).collect();
    assert_eq!(ran.len(), ids.len(), "nothing is lost");
    let late = |one: &Ran| one.began.since(one.id.first_start());
    let in_time = other.iter().filter(|one| late(one) < SECOND / 10).count();
    assert!(
        in_time >= 270,
        "{in_time} of 300 of the other callback were in time"
    );
}

/// The scenario above finds limits that nothing heeds.
#[tokio::test(start_paused = true)]
async fn without_the_limit_the_rate_is_exceeded() {
    flaw::switch(Some(Flaw::LimitIgnored));
    let (work, _, _) = rate_on_three_nodes().await;
    flaw::switch(None);
    let most = most_began(&work, 10 * SECOND);
    assert!(most > 500, "{most}");
}

/// Runs 40 tasks of a second each on two nodes, at most 4 at once.
async fn places_on_two_nodes() -> (Vec<Ran>, Vec<TaskId>) {
    let site = Site::new(2).await;
    limit(&site.nodes[0].service(), None, Some(4)).await;
    site.world.pass(2 * SECOND).await;
    let workers = [0, 1].map(|node| site.worker(node, SECOND).polls(&["work"]));
    let ids = site.due("work", 40).await;
    site.world.pass(60 * SECOND).await;
    for worker in workers {
        worker.abort();
    }
    (site.ran("work"), ids)
}

#[tokio::test(start_paused = true)]
async fn no_more_attempts_run_at_once_than_may_on_two_nodes() {
    let (work, ids) = places_on_two_nodes().await;
    let most = most_at_once(&work);
    assert!((3..=4).contains(&most), "{most}");
    each_once(&work, &ids);
    let first = work.iter().map(|one| one.began).min().unwrap();
    let last = work.iter().map(|one| one.ended).max().unwrap();
    assert!(last.since(first) <= 20 * SECOND, "{:?}", last.since(first));
}

#[tokio::test(start_paused = true)]
async fn without_the_limit_too_many_run_at_once() {
    flaw::switch(Some(Flaw::LimitIgnored));
    let (work, _) = places_on_two_nodes().await;
    flaw::switch(None);
    assert!(most_at_once(&work) > 10);
}

#[tokio::test(start_paused = true)]
async fn a_limit_below_the_number_of_nodes_serves_all_of_them() {
    let site = Site::new(3).await;
    limit(&site.nodes[0].service(), Some((0.5, 1)), Some(1)).await;
    site.world.pass(2 * SECOND).await;
    let workers = [0, 1, 2].map(|node| site.worker(node, SECOND / 10).polls(&["work"]));
    let ids = site.due("work", 30).await;
    site.world.pass(120 * SECOND).await;
    let work = site.ran("work");
    assert!(most_began(&work, 10 * SECOND) <= 6, "{work:?}");
    assert_eq!(most_at_once(&work), 1);
    each_once(&work, &ids);
    for worker in workers {
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn workers_that_consume_the_queue_are_limited_at_the_claim() {
    let site = Site::new(2).await;
    limit(&site.nodes[0].service(), Some((10.0, 5)), Some(3)).await;
    site.world.pass(2 * SECOND).await;
    let workers = [0, 1].map(|node| site.worker(node, SECOND / 10).claims(&site.world));
    let ids = site.due("work", 100).await;
    site.world.pass(60 * SECOND).await;
    let work = site.ran("work");
    let most = most_began(&work, 10 * SECOND);
    assert!((50..=115).contains(&most), "{most}");
    assert!(most_at_once(&work) <= 3);
    each_once(&work, &ids);
    for worker in workers {
        worker.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_reported_to_another_node_leaves_its_place_soon() {
    let site = Site::new(2).await;
    limit(&site.nodes[0].service(), None, Some(4)).await;
    site.world.pass(2 * SECOND).await;
    let worker = Worker {
        settles: site.nodes[1].service(),
        ..site.worker(0, SECOND)
    };
    let worker = worker.polls(&["work"]);
    let ids = site.due("work", 40).await;
    site.world.pass(40 * SECOND).await;
    let work = site.ran("work");
    each_once(&work, &ids);
    assert!(most_at_once(&work) <= 4);
    worker.abort();
}

/// Attempts of a minute keep their places although their worker claims nothing more.
#[tokio::test(start_paused = true)]
async fn attempts_that_run_long_keep_their_places() {
    let site = Site::new(2).await;
    limit(&site.nodes[0].service(), None, Some(4)).await;
    site.world.pass(2 * SECOND).await;
    let service = site.nodes[0].service();
    let long = || {
        let mut task = task("work", site.world.time.now());
        task.draft.heartbeat_timeout = Some(90 * SECOND);
        task
    };
    let mut ids = Vec::new();
    for node in [0, 1] {
        let due = register(&service, vec![long(); 4]).await;
        ids.extend(due.iter().map(|task| task.id));
        let worker = site.worker(node, 60 * SECOND).claims(&site.world);
        site.world.pass(10 * SECOND).await;
        if node == 0 {
            // It takes no more; its attempts go on.
            worker.abort();
        }
    }
    site.world.pass(180 * SECOND).await;
    let work = site.ran("work");
    each_once(&work, &ids);
    assert_eq!(most_at_once(&work), 4);
}

#[tokio::test(start_paused = true)]
async fn short_attempts_of_claiming_workers_use_most_of_their_places() {
    let site = Site::new(1).await;
    limit(&site.nodes[0].service(), None, Some(10)).await;
    site.world.pass(2 * SECOND).await;
    let worker = site.worker(0, SECOND / 10).claims(&site.world);
    let ids = site.due("work", 200).await;
    // Ten at once of a tenth of a second could do it in two seconds.
    site.world.pass(8 * SECOND).await;
    let work = site.ran("work");
    each_once(&work, &ids);
    assert!(most_at_once(&work) <= 10);
    worker.abort();
}

/// A heartbeat learns late that its attempt runs, when the attempt has been reported: it does not keep the place.
#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_crosses_a_report_keeps_no_place() {
    let world = World::new(4, 1000);
    let fate = Arc::new(Mutex::new(Fate::Go));
    let hook = {
        let fate = Arc::clone(&fate);
        move |_: usize, call: Call| match call.operation {
            "tasks_each" => *fate.lock().unwrap(),
            _ => Fate::Go,
        }
    };
    let node = world.node_with(1, Arc::new(hook));
    world.pass(5 * SECOND).await;
    let service = node.service();
    limit(&service, None, Some(1)).await;
    world.pass(2 * SECOND).await;
    register(&service, vec![task("work", world.time.now()); 2]).await;
    let polled = async || {
        let polled = service.poll(PollRequest {
            worker: "worker".to_owned(),
            callbacks: vec!["work".to_owned()],
            max: 1,
            wait: 5 * SECOND,
            version: None,
        });
        polled.await.unwrap().accept()
    };
    let first = polled().await;
    let (id, attempt) = (first[0].id, first[0].attempt);
    *fate.lock().unwrap() = Fate::AnswerLate(2 * SECOND);
    let beat = HeartbeatRequest {
        id,
        attempt,
        progress: None,
    };
    let beat = service.heartbeat("worker", vec![beat]);
    let report = async {
        world.pass(SECOND).await;
        // No look at the row tells that the attempt has ended.
        *fate.lock().unwrap() = Fate::Fail;
        let report = SettleRequest {
            id,
            attempt,
            outcome: Outcome::Succeeded { result: None },
            answered: None,
        };
        service.settle("worker", vec![report]).await;
        world.pass(2 * SECOND).await;
    };
    let (beaten, ()) = tokio::join!(beat, report);
    assert!(matches!(beaten[0], HeartbeatAnswer::Ok), "{beaten:?}");
    assert_eq!(polled().await.len(), 1, "the place is free");
}
