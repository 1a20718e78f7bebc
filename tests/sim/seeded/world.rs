//! `Sim` is the world of a run: the store, the queue and the network that all processes share,
//! and the faults over them.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tickwheel::{
    app::executor::Executor,
    doubles::queue::memory::{Keep, MemoryQueue},
    flow::{
        base::context::{Context, Settings},
        stages::{node::Node, service::Service},
    },
    limits,
    model::{
        clock::Rules,
        ids::NodeId,
        time::{Millis, TickLength},
        wheel::Shape,
    },
    time_source::TimeSource,
};
use tokio_util::sync::CancellationToken;

use super::{
    chance::Chance, draw::LANES, history::History, plan::Plan, process::Process,
    queue::ProcessQueue, scene::ScenePlan, store::NodesStore, trace::Trace,
};
use crate::{
    letters::Letters,
    replicas::{Faults, Replicas, Set, Wait},
    world::EPOCH,
};

/// The topic of the users' own records.
pub(crate) const TOPIC: &str = "users";

/// The topic to which ends of tasks are told.
pub(crate) const ENDS: &str = "ends";

/// The callback of all tasks.
pub(crate) const CALLBACK: &str = "work";

/// The present faults.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    /// Replicas of the store that are down, each with a reason.
    pub(crate) down: Vec<Set>,
    /// Nodes that do not reach some replicas.
    pub(crate) cut: Vec<(usize, Set)>,
    /// This many of a thousand operations fail.
    pub(crate) unruly: Vec<u16>,
    pub(crate) slow: [u64; LANES.len()],
    pub(crate) queue_away: usize,
    pub(crate) api: u64,
    /// The error of each node's wall clock.
    pub(crate) errors: Vec<i64>,
}

/// A running node.
pub(crate) struct Life {
    pub(crate) process: Arc<Process>,
    pub(crate) service: Arc<Service>,
    /// Its number in the store.
    pub(crate) handle: usize,
    /// The node; none once it is being stopped.
    pub(crate) node: Option<Node>,
    /// Stops its executor, if it has one.
    pub(crate) executor: CancellationToken,
}

/// The world of a run.
pub(crate) struct Sim {
    pub(crate) seed: u64,
    pub(crate) latency_ms: u64,
    pub(crate) time: TimeSource,
    pub(crate) queue: MemoryQueue,
    pub(crate) store: Arc<Replicas>,
    noise: u16,
    pub(crate) rules: Rules,
    settings: Settings,
    trace: Mutex<Trace>,
    history: Mutex<History>,
    weather: Mutex<Weather>,
    lives: Mutex<Vec<Option<Life>>>,
    births: Mutex<u64>,
    /// Nodes run the service's own tasks: only where a scene has some, so that all other plans go on as before.
    executes: bool,
    /// The e-mails that were sent.
    pub(crate) letters: Letters,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Sim {
    pub(crate) fn new(plan: &Plan, keep_trace: bool) -> Arc<Self> {
        let tick = TickLength::new(Duration::from_millis(plan.tick_ms)).expect("a tick");
        let shape = Shape::new(plan.wheels, tick, plan.slots).expect("a shape");
        let time = TimeSource::simulated(EPOCH, plan.seed);
        let mut chance = Chance::new(plan.seed, 2);
        let skew = |_| {
            let span = chance.below(2 * plan.skew_ms + 1).cast_signed();
            span - plan.skew_ms.cast_signed()
        };
        let errors: Vec<i64> = (0..plan.nodes.len()).map(skew).collect();
        let queue = MemoryQueue::new(time.clone(), plan.partitions, Keep::Everything);
        queue.create_topic(TOPIC, None);
        queue.create_topic(ENDS, None);
        // The brokers of a user may keep all messages.
        if !plan.keeps_messages {
            queue.faults().retention(Some(limits::TOPIC_RETENTION));
        }
        // Of the other seeds a member that dies leaves at once.
        if plan.seed.is_multiple_of(3) {
            queue.sessions(limits::CONSUMER_SESSION);
        }
        let mut history = History::default();
        history.clock_errors.extend(
            errors
                .iter()
                .enumerate()
                .map(|(node, error)| (0, node, *error)),
        );
        Arc::new(Self {
            seed: plan.seed,
            latency_ms: plan.latency_ms,
            store: Replicas::new(shape, time.clone(), plan.seed),
            noise: plan.noise,
            queue,
            rules: Rules {
                shape,
                look_ahead: 2,
                lease: Duration::from_secs(5),
                grace: Duration::from_secs(3),
                skew_max: Duration::from_secs(1),
                stall_max: Duration::from_secs(15),
            },
            settings: Settings {
                erase_delay: Duration::from_secs(4),
                // This is longer than a clock may be set forward: entries behind the hands of such a clock
                // are swept like all others.
                sweep_delay: Duration::from_secs(75 * 60),
                page_rows_max: plan.page_rows,
                ahead_entries_max: plan.buffers,
                near_tasks_max: plan.buffers,
                ..Settings::default()
            },
            trace: Mutex::new(Trace::new(keep_trace)),
            history: Mutex::new(history),
            weather: Mutex::new(Weather {
                errors,
                ..Weather::default()
            }),
            lives: Mutex::new(plan.nodes.iter().map(|_| None).collect()),
            births: Mutex::new(0),
            executes: plan.scenes.iter().any(ScenePlan::has_internal_tasks),
            letters: Letters::default(),
            time,
        })
    }

    /// Milliseconds since the run began.
    pub(crate) fn now(&self) -> i64 {
        self.time.now().0 - EPOCH.0
    }

    /// The instant of a millisecond of the run.
    pub(crate) const fn instant(at: i64) -> Millis {
        Millis(EPOCH.0 + at)
    }

    /// Waits until a millisecond of the run.
    pub(crate) async fn until(&self, at: u64) {
        self.time
            .sleep_until_wall(Self::instant(at.cast_signed()))
            .await;
    }

    pub(crate) fn note(&self, event: std::fmt::Arguments<'_>) {
        lock(&self.trace).note(self.now(), event);
    }

    /// Tells whether a reader wants the notes.
    pub(crate) fn is_traced(&self) -> bool {
        lock(&self.trace).is_kept()
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    pub(crate) fn weather(&self) -> MutexGuard<'_, Weather> {
        lock(&self.weather)
    }

    pub(crate) fn lives(&self) -> MutexGuard<'_, Vec<Option<Life>>> {
        lock(&self.lives)
    }

    pub(crate) fn take_trace(&self) -> Trace {
        std::mem::take(&mut *lock(&self.trace))
    }

    pub(crate) fn events(&self) -> u64 {
        lock(&self.trace).events()
    }

    /// A number for a new process.
    pub(crate) fn birth(&self) -> u64 {
        let mut births = lock(&self.births);
        *births += 1;
        *births
    }

    /// How much longer an operation takes.
    pub(crate) fn slowness(&self, lane: &str) -> Duration {
        let weather = self.weather();
        let place = LANES.iter().position(|name| *name == lane);
        let slow = place.map_or(0, |place| weather.slow[place]);
        Duration::from_millis(slow)
    }

    /// Sets the error of a node's wall clock.
    pub(crate) fn set_clock(&self, node: usize, error: i64) {
        self.weather().errors[node] = error;
        let now = self.now();
        self.history().clock_errors.push((now, node, error));
        self.note(format_args!("the clock of n{node} is off by {error} ms"));
        if let Some(life) = &self.lives()[node] {
            life.process.time.set_wall_error_ms(error);
        }
    }

    /// Takes a dead process off the list.
    pub(crate) fn died(&self, process: &Process) {
        let is_it = |life: &mut Life| std::ptr::eq(&*life.process, process);
        let dead: Vec<Life> = self
            .lives()
            .iter_mut()
            .filter_map(|life| life.take_if(is_it))
            .collect();
        for life in dead {
            self.store.control().kill(life.handle);
        }
    }

    /// Starts a node, unless it runs.
    pub(crate) fn start(self: &Arc<Self>, node: usize) {
        if self.lives()[node].is_some() {
            return;
        }
        let birth = self.birth();
        let time = self.time.simulated_peer(self.seed ^ (birth << 8));
        time.set_wall_error_ms(self.weather().errors[node]);
        let name = format!("n{node}.{birth}");
        let process = Process::new(self, name.clone(), time.clone(), 100 + birth);
        let queue = ProcessQueue {
            process: Arc::clone(&process),
        };
        let handle = self.store.handle(time.clone());
        let number = handle.node();
        let me = NodeId(time.random_uuid());
        process.publisher.name_node(me);
        let context = Context {
            name,
            subscriptions: Some(Arc::new(queue.clone())),
            settings: self.settings,
            ..Context::new(
                me,
                Arc::new(NodesStore {
                    inner: handle,
                    process: Arc::clone(&process),
                }),
                Arc::new(queue),
                time,
                self.rules,
            )
        };
        self.note(format_args!("{} starts", process.name));
        let running = Node::start(context, Duration::from_secs(3));
        let service = running.service();
        let executor = CancellationToken::new();
        if self.executes {
            let runs = Executor {
                service: Arc::clone(&service),
                node: process.name.clone(),
                time: process.time.clone(),
                drain_limit: Duration::from_secs(3),
                allowed: Default::default(),
                mail: Some(Arc::new(self.letters.clone())),
            };
            tokio::spawn(runs.run(executor.clone()));
        }
        let life = Life {
            handle: number,
            process,
            service,
            node: Some(running),
            executor,
        };
        self.lives()[node] = Some(life);
        self.tell_store();
    }

    /// Sets the faults of the store.
    pub(crate) fn tell_store(&self) {
        let (lives, weather) = (self.lives(), self.weather());
        let unruly = weather.unruly.iter().max().copied().unwrap_or(0);
        let faults = Faults::all(unruly);
        let noise = self.noise.max(unruly);
        let control = self.store.control();
        control.set(Faults {
            latency: Wait::millis(0, self.latency_ms),
            pages_cut: noise,
            pages_empty: noise,
            writes_miss_one: noise,
            reads_unrepaired: noise,
            decisions_missed: noise,
            ..faults
        });
        control.down(
            weather
                .down
                .iter()
                .fold(Set::NONE, |all, one| all.with(*one)),
        );
        for (node, life) in lives.iter().enumerate() {
            let Some(life) = life else { continue };
            let cut = weather.cut.iter().filter(|(at, _)| *at == node);
            control.cut(
                life.handle,
                cut.fold(Set::NONE, |all, (_, one)| all.with(*one)),
            );
        }
    }
}
