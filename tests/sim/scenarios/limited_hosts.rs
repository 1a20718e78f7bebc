//! A callback of a host that has more due tasks than its limits let go delays no task of another host, although all come through
//! one queue; it runs as fast as it may, and nothing of it is lost.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use tickwheel::{
    flow::{
        base::api::{NewTask, SettleRequest},
        stages::{poll::PollRequest, service::Service},
    },
    model::{
        callback::Policy,
        http_call::{HttpCall, Method, QUEUE},
        ids::TaskId,
        limit::{Limits, Rate},
        state::Outcome,
        target::Target,
        time::Millis,
    },
    time_source::TimeSource,
};
use tokio::task::JoinHandle;

use crate::world::{Simulated, World, callback, register};

const SECOND: Duration = Duration::from_secs(1);
const LIMITED: &str = "http:limited.example";
const OTHER: &str = "http:other.example";

/// Which task ran, and when it began.
type Seen = Arc<Mutex<Vec<(String, TaskId, Millis)>>>;

fn task(name: &str, start: Millis) -> NewTask {
    let mut task = callback(start);
    task.draft.target = Target::Http {
        callback: name.to_owned(),
        call: Box::new(HttpCall {
            url: format!("https://{}/", name.trim_start_matches("http:")),
            method: Method::Post,
            headers: Vec::new(),
            timeout: None,
            message_id: None,
        }),
    };
    task
}

async fn limit(service: &Service, per_second: u32) {
    let policy = Policy {
        limits: Limits {
            rate: Some(Rate::new(f64::from(per_second), Some(per_second.max(10))).unwrap()),
            in_flight: None,
        },
        ..Policy::default()
    };
    let set = service
        .callbacks()
        .configure(LIMITED, policy, &|_| true)
        .await;
    set.unwrap();
}

/// An executor that takes a hundredth of a second for a task.
fn executor(service: Arc<Service>, time: TimeSource, seen: Seen) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let polled = service.poll_internal(PollRequest {
                worker: "executor".to_owned(),
                callbacks: vec!["tickwheel.notify".to_owned(), QUEUE.to_owned()],
                max: 16,
                wait: 5 * SECOND,
                version: None,
            });
            let Ok(handout) = polled.await else {
                time.sleep(SECOND / 10).await;
                continue;
            };
            for task in handout.accept() {
                let name = task.spec.callback().unwrap().to_owned();
                seen.lock().unwrap().push((name, task.id, time.now()));
                let (service, time) = (Arc::clone(&service), time.clone());
                tokio::spawn(async move {
                    time.sleep(SECOND / 100).await;
                    let report = SettleRequest {
                        id: task.id,
                        attempt: task.attempt,
                        outcome: Outcome::Succeeded { result: None },
                        answered: None,
                    };
                    service.settle("executor", vec![report]).await;
                });
            }
        }
    })
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

    fn executor(&self, node: usize) -> JoinHandle<()> {
        let (time, seen) = (self.world.time.clone(), Arc::clone(&self.seen));
        executor(self.nodes[node].service(), time, seen)
    }

    /// Registers tasks of the limited host that are due now.
    async fn flood(&self, count: usize) -> Vec<TaskId> {
        let tasks = vec![task(LIMITED, self.world.time.now()); count];
        let registered = register(&self.nodes[0].service(), tasks).await;
        registered.iter().map(|task| task.id).collect()
    }

    /// Registers tasks of the other host, ten a second from now on.
    async fn others(&self, count: i64) {
        let now = self.world.time.now();
        let tasks = (0..count).map(|number| task(OTHER, Millis(now.0 + number * 100)));
        register(&self.nodes[0].service(), tasks.collect()).await;
    }

    fn ran(&self, name: &str) -> Vec<(TaskId, Millis)> {
        let seen = self.seen.lock().unwrap();
        let of_it = seen.iter().filter(|(of, _, _)| of == name);
        of_it.map(|(_, id, began)| (*id, *began)).collect()
    }

    fn are_others_in_time(&self, count: usize) {
        let ran = self.ran(OTHER);
        assert_eq!(ran.len(), count);
        let late = ran.iter().map(|(id, began)| began.since(id.first_start()));
        let latest = late.max().unwrap();
        assert!(latest < SECOND, "{latest:?} late");
    }
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_limited_host_fill_no_room_of_others() {
    let site = Site::new(1).await;
    limit(&site.nodes[0].service(), 20).await;
    site.world.pass(2 * SECOND).await;
    let executor = site.executor(0);
    let ids = site.flood(1500).await;
    site.world.pass(2 * SECOND).await;
    site.others(300).await;
    site.world.pass(35 * SECOND).await;
    site.are_others_in_time(300);
    // It runs as fast as it may, and no faster.
    let ran = site.ran(LIMITED).len();
    assert!((700..=760).contains(&ran), "{ran} in 37 s");
    site.world.pass(45 * SECOND).await;
    let ran: BTreeSet<TaskId> = site.ran(LIMITED).iter().map(|(id, _)| *id).collect();
    assert_eq!(ran.len(), ids.len(), "nothing is lost");
    assert_eq!(site.ran(LIMITED).len(), ids.len(), "each ran once");
    executor.abort();
}

#[tokio::test(start_paused = true)]
#[ignore = "fires eighteen thousand tasks: make test-all"]
async fn what_finds_no_room_comes_with_its_look() {
    let site = Site::new(1).await;
    limit(&site.nodes[0].service(), 200).await;
    site.world.pass(2 * SECOND).await;
    let executor = site.executor(0);
    // One callback has room for 16,384.
    let ids = site.flood(18_000).await;
    site.world.pass(2 * SECOND).await;
    site.others(100).await;
    site.world.pass(300 * SECOND).await;
    site.are_others_in_time(100);
    let ran: BTreeSet<TaskId> = site.ran(LIMITED).iter().map(|(id, _)| *id).collect();
    assert_eq!(ran.len(), ids.len(), "nothing is lost");
    assert_eq!(site.ran(LIMITED).len(), ids.len(), "each ran once");
    executor.abort();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_with_messages_that_wait_loses_none() {
    let site = Site::new(2).await;
    limit(&site.nodes[0].service(), 20).await;
    site.world.pass(2 * SECOND).await;
    let executors = [0, 1].map(|node| site.executor(node));
    let ids = site.flood(600).await;
    site.world.pass(5 * SECOND).await;
    executors[1].abort();
    site.nodes[1].crash();
    site.world.pass(180 * SECOND).await;
    let ran: BTreeSet<TaskId> = site.ran(LIMITED).iter().map(|(id, _)| *id).collect();
    assert_eq!(ran.len(), ids.len(), "nothing is lost");
    executors[0].abort();
}

#[tokio::test(start_paused = true)]
async fn tasks_go_at_once_when_the_limit_is_taken_away() {
    let site = Site::new(1).await;
    limit(&site.nodes[0].service(), 1).await;
    site.world.pass(2 * SECOND).await;
    let executor = site.executor(0);
    let ids = site.flood(500).await;
    site.world.pass(5 * SECOND).await;
    assert!(site.ran(LIMITED).len() < 20);
    let service = site.nodes[0].service();
    let set = service
        .callbacks()
        .configure(LIMITED, Policy::default(), &|_| true)
        .await;
    set.unwrap();
    site.world.pass(8 * SECOND).await;
    assert_eq!(site.ran(LIMITED).len(), ids.len());
    executor.abort();
}
