//! `World` runs a cluster in one process for scenarios: the real stages on store and queue in memory, in virtual time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tempfile::TempDir;
use tickwheel::{
    doubles::{
        queue::memory::{Keep, MemoryPublisher, MemoryQueue},
        store::{
            faulty::{Call, Fate, Faulty, Hook},
            memory::MemoryStore,
        },
    },
    flow::{
        base::{
            api::{ClaimAnswer, ClaimRequest, SettleAnswer, SettleRequest, View, VisibleState},
            context::{Context, Settings},
        },
        stages::{node::Node, poll::PollRequest, service::Service},
    },
    limits::EMBEDDED_RECORDS_AT_ONCE,
    model::{
        clock::Rules,
        ids::{NodeId, TaskId},
        state::Outcome,
        task::Priority,
        time::{Millis, TickLength},
        wheel::{Shape, WheelNumber},
    },
    queue::{
        Consumer, Subscriptions,
        message::{self, TaskMessage},
    },
    store::{
        ClockStore, Freshness, Store,
        embedded::{self, Mode},
    },
    time_source::{Moment, TimeSource},
};

pub(crate) use super::drafts::{EPOCH, callback, first_claim, record, register};

/// One execution of a callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Execution {
    pub(crate) id: TaskId,
    pub(crate) attempt: u32,
    pub(crate) began: Millis,
    pub(crate) ended: Millis,
}

/// The work of a worker on an attempt: how long it runs, and its report; none is a worker that dies.
pub(crate) type Behaviour = Arc<dyn Fn(TaskId, u32) -> (Duration, Option<Outcome>) + Send + Sync>;

/// Chooses the fate of the n-th operation of a node.
pub(crate) type Fates = Arc<dyn Fn(usize, Call) -> Fate + Send + Sync>;

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) time: TimeSource,
    /// The store of the nodes, unless the world is on disk.
    pub(crate) store: Arc<MemoryStore>,
    on_disk: Option<(Arc<embedded::Store>, Arc<TempDir>)>,
    pub(crate) queue: MemoryQueue,
    pub(crate) rules: Rules,
    pub(crate) settings: Settings,
    /// Nodes answer polls: they have the role `controller`.
    pub(crate) polled: bool,
    /// The queue is in the process of the node, of which there is one at a time.
    in_process: bool,
    pub(crate) executions: Arc<Mutex<Vec<Execution>>>,
}

pub(crate) struct Simulated {
    pub(crate) node: Node,
    pub(crate) operations: Arc<AtomicUsize>,
    pub(crate) time: TimeSource,
    life: Life,
}

impl Simulated {
    pub(crate) fn service(&self) -> Arc<Service> {
        self.node.service()
    }

    /// The process stops until a moment.
    pub(crate) fn pause(&self, until: Moment) {
        let instant = self.time.now().after(until.since(self.time.moment()));
        self.life.publisher.pause(instant);
        self.time.hold(Some(until));
    }

    /// The process dies: its further operations have no effect, and no part of it wakes again.
    pub(crate) fn crash(&self) {
        self.life.end();
    }
}

/// The life of a process, which ends once.
#[derive(Clone)]
struct Life {
    dead: Arc<AtomicBool>,
    publisher: MemoryPublisher,
    time: TimeSource,
}

impl Life {
    fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.publisher.kill();
        self.time.hold(None);
    }
}

impl World {
    pub(crate) fn new(wheels: u16, slots: i64) -> Self {
        Self::with_tick(wheels, slots, Duration::from_secs(1))
    }

    /// A world whose ticks are of this length.
    pub(crate) fn with_tick(wheels: u16, slots: i64, tick: Duration) -> Self {
        let tick = TickLength::new(tick).unwrap();
        let shape = Shape::new(wheels, tick, slots).unwrap();
        let time = TimeSource::simulated(EPOCH, 1);
        Self {
            store: MemoryStore::new(shape, time.clone()),
            on_disk: None,
            queue: MemoryQueue::new(time.clone(), 4, Keep::Everything),
            rules: Rules {
                shape,
                look_ahead: 2,
                lease: Duration::from_secs(5),
                grace: Duration::from_secs(3),
                skew_max: Duration::from_secs(1),
                stall_max: Duration::from_secs(15),
            },
            settings: Settings {
                erase_delay: Duration::from_secs(30),
                ..Settings::default()
            },
            polled: true,
            in_process: false,
            executions: Arc::default(),
            time,
        }
    }

    /// A world whose nodes use an embedded store. It loses no replies of its own; the fates do that.
    pub(crate) fn on_disk(wheels: u16, slots: i64) -> Self {
        let world = Self::new(wheels, slots);
        let directory = TempDir::new().unwrap();
        let settings = embedded::Settings {
            mode: Mode::Inline,
            ..embedded::Settings::new(directory.path(), world.rules.shape)
        };
        let store = embedded::Store::open(settings, &world.time).unwrap();
        Self {
            on_disk: Some((store, directory.into())),
            ..world
        }
    }

    pub(crate) fn node(&self, number: u64) -> Simulated {
        self.node_with(number, Arc::new(|_, _| Fate::Go))
    }

    pub(crate) fn node_with(&self, number: u64, fates: Fates) -> Simulated {
        let operations = Arc::new(AtomicUsize::new(0));
        let life = Life {
            dead: Arc::default(),
            publisher: self.queue.handle(),
            time: self.time.simulated_peer(number),
        };
        let hook = {
            let (life, operations) = (life.clone(), Arc::clone(&operations));
            move |call: Call| {
                if life.dead.load(Ordering::SeqCst) {
                    return Fate::StopBefore;
                }
                let fate = fates(operations.fetch_add(1, Ordering::SeqCst), call);
                if matches!(fate, Fate::StopBefore | Fate::StopAfter) {
                    life.end();
                }
                fate
            }
        };
        let time = life.time.clone();
        let context = self.context_at(number, time.clone(), &life.publisher, Arc::new(hook));
        Simulated {
            node: Node::start(context, Duration::from_secs(3)),
            operations,
            time,
            life,
        }
    }

    /// The store of the nodes, without their fates.
    pub(crate) fn plain_store(&self) -> Arc<dyn Store> {
        match &self.on_disk {
            Some((store, _)) => Arc::clone(store) as _,
            None => Arc::clone(&self.store) as _,
        }
    }

    /// The parts of a node whose calls of the store meet these fates.
    pub(crate) fn context(&self, number: u64, publisher: &MemoryPublisher, hook: Hook) -> Context {
        self.context_at(number, self.time.simulated_peer(number), publisher, hook)
    }

    fn context_at(
        &self,
        number: u64,
        time: TimeSource,
        publisher: &MemoryPublisher,
        hook: Hook,
    ) -> Context {
        let store = self.plain_store();
        let me = NodeId(time.random_uuid());
        publisher.name_node(me);
        Context {
            name: format!("node-{number}"),
            subscriptions: self
                .polled
                .then(|| Arc::new(publisher.clone()) as Arc<dyn Subscriptions>),
            levels: super::drafts::levels(),
            settings: self.settings,
            ..Context::new(
                me,
                Arc::new(Faulty::new(store, self.time.clone(), hook)),
                Arc::new(if self.in_process {
                    publisher.clone().in_process(EMBEDDED_RECORDS_AT_ONCE)
                } else {
                    publisher.clone()
                }),
                time,
                self.rules,
            )
        }
    }

    /// The store on disk.
    pub(crate) fn disk(&self) -> Arc<embedded::Store> {
        Arc::clone(&self.on_disk.as_ref().expect("the world is on disk").0)
    }

    /// The directory of the store on disk.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.on_disk
            .as_ref()
            .expect("the world is on disk")
            .1
            .path()
    }

    /// The same world with a queue whose groups have sessions of this length, and rebalances.
    pub(crate) fn with_sessions(self, session: Duration) -> Self {
        self.queue.sessions(session);
        self
    }

    /// The same world with one node at a time, whose queue is in its process.
    pub(crate) fn in_one_process(self) -> Self {
        Self {
            in_process: true,
            ..self
        }
    }

    /// The owner of a wheel.
    pub(crate) async fn owner(&self, wheel: WheelNumber) -> NodeId {
        match &self.on_disk {
            Some((store, _)) => store.clock(wheel, Freshness::Serial).await.unwrap().owner,
            None => self.store.clock_row(wheel).unwrap().owner,
        }
    }

    pub(crate) async fn pass(&self, duration: Duration) {
        self.time.sleep(duration).await;
    }

    /// Starts a worker of the callback `work` that claims through `service`.
    pub(crate) fn worker(
        &self,
        service: Arc<Service>,
        behaviour: Behaviour,
    ) -> tokio::task::JoinHandle<()> {
        let topics: Vec<String> = Priority::ALL
            .iter()
            .map(|priority| message::topic("work", *priority))
            .collect();
        for topic in &topics {
            self.queue.create_topic(topic, None);
        }
        let mut consumer = self.queue.consumer(&message::group("work"), &topics);
        let (time, executions) = (self.time.clone(), Arc::clone(&self.executions));
        tokio::spawn(async move {
            loop {
                let deliveries = consumer
                    .receive(64, Duration::from_secs(1))
                    .await
                    .unwrap_or_default();
                let mut requests = Vec::new();
                for delivery in &deliveries {
                    let message = TaskMessage::decode(delivery.value.clone()).unwrap();
                    requests.push(ClaimRequest {
                        id: message.dispatch.id,
                        generation: message.dispatch.generation,
                        expected_attempt: message.dispatch.expected_attempt,
                        spec: Some(Arc::new(message.spec)),
                        published: Some(message.published),
                        with_content: false,
                        admitted: false,
                    });
                }
                if requests.is_empty() {
                    continue;
                }
                let answers = service.claim("worker", requests).await;
                let handled: Vec<_> = deliveries
                    .iter()
                    .map(|d| (d.topic.clone(), d.partition, d.offset))
                    .collect();
                consumer.handled(&handled);
                for answer in answers {
                    let ClaimAnswer::Claimed(task) = answer else {
                        continue;
                    };
                    let run = Run {
                        service: Arc::clone(&service),
                        time: time.clone(),
                        executions: Arc::clone(&executions),
                        behaviour: Arc::clone(&behaviour),
                    };
                    tokio::spawn(run.attempt(task.id, task.attempt));
                }
            }
        })
    }

    /// Starts a worker of the callback `work` that polls. It gives up the polls that `gives_up` chooses,
    /// after the wait given there.
    pub(crate) fn polling_worker(
        &self,
        service: Arc<Service>,
        gives_up: impl Fn(usize) -> Option<Duration> + Send + 'static,
        behaviour: Behaviour,
    ) -> tokio::task::JoinHandle<()> {
        let (time, executions) = (self.time.clone(), Arc::clone(&self.executions));
        tokio::spawn(async move {
            for number in 0.. {
                let polling = service.poll(PollRequest {
                    worker: "worker".to_owned(),
                    callbacks: vec!["work".to_owned()],
                    max: 16,
                    wait: Duration::from_secs(20),
                    version: None,
                });
                let limit = gives_up(number).unwrap_or(Duration::from_secs(600));
                let Some(Ok(handout)) = time.within(limit, polling).await else {
                    time.sleep(Duration::from_millis(100)).await;
                    continue;
                };
                for task in handout.accept() {
                    let run = Run {
                        service: Arc::clone(&service),
                        time: time.clone(),
                        executions: Arc::clone(&executions),
                        behaviour: Arc::clone(&behaviour),
                    };
                    tokio::spawn(run.attempt(task.id, task.attempt));
                }
            }
        })
    }

    pub(crate) fn executions_of(&self, id: TaskId) -> Vec<Execution> {
        self.executions
            .lock()
            .unwrap()
            .iter()
            .filter(|e| e.id == id)
            .cloned()
            .collect()
    }

    /// Checks the rules that hold in every run, whatever happened.
    pub(crate) fn check(&self) {
        assert_eq!(self.store.clock_violations(), Vec::<String>::new());
        let executions = self.executions.lock().unwrap().clone();
        for (index, one) in executions.iter().enumerate() {
            assert!(
                one.began >= one.id.first_start(),
                "early: {one:?} of {}",
                one.id.first_start()
            );
            for other in executions
                .iter()
                .skip(index + 1)
                .filter(|other| other.id == one.id)
            {
                assert_ne!(one.attempt, other.attempt, "one attempt ran twice");
                let apart = one.ended <= other.began || other.ended <= one.began;
                assert!(apart, "two live executions of one task: {one:?} {other:?}");
            }
        }
    }

    /// Waits until a task is terminal and returns how it ended.
    pub(crate) async fn end_of(
        &self,
        service: &Service,
        id: TaskId,
        limit: Duration,
    ) -> VisibleState {
        let task = service
            .get_when_terminal(id, View::Basic, limit)
            .await
            .unwrap();
        task.expect("the task exists").state
    }
}

struct Run {
    service: Arc<Service>,
    time: TimeSource,
    executions: Arc<Mutex<Vec<Execution>>>,
    behaviour: Behaviour,
}

impl Run {
    async fn attempt(self, id: TaskId, attempt: u32) {
        let began = self.time.now();
        let (duration, outcome) = (self.behaviour)(id, attempt);
        self.executions.lock().unwrap().push(Execution {
            id,
            attempt,
            began,
            ended: began.after(duration),
        });
        self.time.sleep(duration).await;
        let Some(outcome) = outcome else { return };
        loop {
            let request = SettleRequest {
                id,
                attempt,
                outcome: outcome.clone(),
                answered: None,
            };
            match self.service.settle("worker", vec![request]).await.pop() {
                Some(SettleAnswer::Fault(_)) => self.time.sleep(Duration::from_millis(500)).await,
                Some(SettleAnswer::Ok | SettleAnswer::Lost(_)) | None => return,
            }
        }
    }
}

/// A worker that succeeds after this long.
pub(crate) fn succeeds(after: Duration) -> Behaviour {
    Arc::new(move |_, _| (after, Some(Outcome::Succeeded { result: None })))
}

/// The times when a callback's task was handed to the queue, by its messages.
pub(crate) fn published(world: &World, id: TaskId) -> Vec<Millis> {
    let topics: Vec<String> = Priority::ALL
        .iter()
        .map(|priority| message::topic("work", *priority))
        .collect();
    topics
        .iter()
        .flat_map(|topic| world.queue.records(topic))
        .filter_map(|published| TaskMessage::decode(published.record.value.clone()).ok())
        .filter(|message| message.dispatch.id == id)
        .map(|message| message.published)
        .collect()
}
