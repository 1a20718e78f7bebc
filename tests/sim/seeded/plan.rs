//! `Plan` tells a run its steps as plain data: it is drawn from a seed ([`super::draw`]), printed, cut down
//! ([`super::shrink`]) and executed ([`super::run`]). Times are milliseconds from the beginning of the run,
//! when every clock starts right.

use std::fmt;

use tickwheel::model::http_call::QUEUE;

use super::{scene::ScenePlan, world::CALLBACK};

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) wheels: u16,
    /// The slots are few, so that the wheel turns many times in a run.
    pub(crate) slots: i64,
    pub(crate) tick_ms: u64,
    pub(crate) partitions: i32,
    /// The queue keeps messages for ever, not only for the retention of our topics.
    pub(crate) keeps_messages: bool,
    /// Rows of a page of the reader.
    pub(crate) page_rows: usize,
    /// Entries that a wheel holds ahead, and near tasks that a node holds.
    pub(crate) buffers: usize,
    /// Every clock has its own error of up to this, all the time.
    pub(crate) skew_ms: u64,
    /// Operations of store, queue and API take up to this time.
    pub(crate) latency_ms: u64,
    /// This many of a thousand store operations meet events that no caller may notice: short and empty pages,
    /// replicas that miss a write, reads that repair nothing.
    pub(crate) noise: u16,
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) workers: Vec<WorkerPlan>,
    pub(crate) tasks: Vec<TaskPlan>,
    /// Only seeds of the second family have some.
    pub(crate) scenes: Vec<ScenePlan>,
    pub(crate) faults: Vec<FaultPlan>,
}

/// A node: when it joins, and when it leaves in order, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodePlan {
    pub(crate) joins: u64,
    pub(crate) leaves: Option<u64>,
}

/// How a worker gets its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerPlan {
    /// It consumes the queue and claims at a node.
    Queue,
    /// It polls a node.
    Poll,
}

/// A task as its client wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskPlan {
    /// The name of the task, which stays when others are cut away.
    pub(crate) number: usize,
    /// The feature that drew it.
    pub(crate) feature: &'static str,
    /// When the client registers it.
    pub(crate) at: u64,
    /// When it shall start.
    pub(crate) start: u64,
    /// A record of the user's own topic; else it is for a callback.
    pub(crate) record: bool,
    pub(crate) priority: u8,
    pub(crate) body_bytes: usize,
    pub(crate) max_attempts: u32,
    pub(crate) claim_timeout: u64,
    pub(crate) heartbeat_timeout: u64,
    pub(crate) expire_after: Option<u64>,
    /// The plan of the handler for each attempt; the last one is repeated.
    pub(crate) attempts: Vec<AttemptPlan>,
    /// The later calls of the client, one after the other.
    pub(crate) calls: Vec<CallPlan>,
}

/// One attempt of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttemptPlan {
    pub(crate) runs: u64,
    pub(crate) ends: EndPlan,
}

/// How an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndPlan {
    Succeeds,
    Retries,
    Fails,
    Snoozes(u64),
    /// The handler stops and no report comes.
    Vanishes,
}

/// A call of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallPlan {
    pub(crate) at: u64,
    pub(crate) what: Request,
}

impl CallPlan {
    /// When it is made, or the task starts by it.
    pub(crate) fn ends(&self) -> u64 {
        match self.what {
            Request::Cancel | Request::Run => self.at,
            Request::Reschedule(to) => self.at.max(to),
        }
    }
}

/// The request of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Cancel,
    /// To this instant; a past instant means now.
    Reschedule(u64),
    /// Now, also if the task is dead.
    Run,
}

/// A fault, and how long it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FaultPlan {
    pub(crate) number: usize,
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) what: Fault,
}

impl FaultPlan {
    pub(crate) const fn ends(&self) -> u64 {
        self.at + self.lasts
    }

    /// The largest error that it gives a wall clock, in milliseconds.
    pub(crate) const fn clock_error(&self) -> u64 {
        match self.what {
            Fault::ClockStep { by, .. } => by.unsigned_abs(),
            Fault::ClockDrift { ppm, .. } => self.lasts * ppm.unsigned_abs() / 1_000_000 + 1,
            _ => 0,
        }
    }
}

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The node dies at its n-th operation from then on, without its effect or with it, and is restarted.
    Crash {
        node: usize,
        operations: u64,
        effect: bool,
    },
    /// The node stops, as by SIGSTOP, and goes on.
    Pause { node: usize },
    /// The node's wall clock is set, and set right at the end.
    ClockStep { node: usize, by: i64 },
    /// The node's wall clock runs wrong by this many millionths, and is set right at the end.
    ClockDrift { node: usize, ppm: i64 },
    /// The store does not answer one node, or all nodes when none is named.
    StoreAway { node: Option<usize> },
    /// This many of a thousand store operations meet each kind of fault: they fail, time out, take effect
    /// late or on some replicas only, or leave the outcome unknown.
    StoreUnruly { per_mille: u16 },
    /// One of three replicas is down, and has missed writes when it is back.
    ReplicaDown { replica: usize },
    /// The node does not reach one of three replicas.
    ReplicaCut { node: usize, replica: usize },
    /// The store is slow for one kind of operation.
    StoreSlow { lane: usize, by: u64 },
    /// The queue does not answer.
    QueueAway,
    /// The next records are published twice.
    Duplicates { records: usize },
    /// The next records are published without an acknowledgement.
    AcknowledgementsLost { records: usize },
    /// The next records are lost without a report.
    RecordsLost { records: usize },
    /// The partitions change hands: unhandled messages are delivered again.
    Rebalance,
    /// The consumers' positions fall back by this many records.
    CommitsLost { records: i64 },
    /// The user's topic does not exist.
    TopicMissing,
    /// The user's topic acknowledges nothing, as below `min.insync.replicas`.
    TopicSilent,
    /// The group of the workers begins with the oldest messages again.
    OffsetsLost,
    /// All nodes and workers are switched off, and on again days later; the time between needs no computing.
    Off,
    /// Requests and answers of the API are lost, this many of a hundred each.
    ApiUnruly { percent: u64 },
    /// The worker stops, as by SIGSTOP, and goes on.
    WorkerPause { worker: usize },
    /// The worker dies, and is restarted.
    WorkerCrash { worker: usize },
}

impl Fault {
    /// Tells whether it happens to one of these nodes and workers, or to none in particular.
    pub(crate) const fn concerns(&self, nodes: usize, workers: usize) -> bool {
        match self {
            Self::Crash { node, .. }
            | Self::Pause { node }
            | Self::ClockStep { node, .. }
            | Self::ClockDrift { node, .. }
            | Self::StoreAway { node: Some(node) }
            | Self::ReplicaCut { node, .. } => *node < nodes,
            Self::WorkerPause { worker } | Self::WorkerCrash { worker } => *worker < workers,
            _ => true,
        }
    }

    /// Tells whether it can make two clocks differ by more than a worker's margin.
    pub(crate) const fn is_of_clocks(&self) -> bool {
        matches!(self, Self::ClockStep { .. } | Self::ClockDrift { .. })
    }
}

impl Plan {
    /// Tells whether a scene of a feature is in it.
    pub(crate) fn has(&self, feature: &str) -> bool {
        self.scenes.iter().any(|scene| scene.feature == feature)
    }

    /// The callbacks of its tasks, and the queue of those for hosts.
    pub(crate) fn callbacks(&self) -> Vec<String> {
        let scenes = self.scenes.iter().map(ScenePlan::callback);
        let hosts = self.has_hosts().then(|| QUEUE.to_owned());
        [CALLBACK.to_owned()]
            .into_iter()
            .chain(scenes)
            .chain(hosts)
            .collect()
    }

    /// Tells whether tasks of a scene are for a host.
    pub(crate) fn has_hosts(&self) -> bool {
        self.scenes.iter().any(|scene| scene.for_host)
    }

    /// The time of the last planned event.
    pub(crate) fn last(&self) -> u64 {
        let tasks = self.tasks.iter().flat_map(|task| {
            let calls = task.calls.iter().map(CallPlan::ends);
            calls.chain([task.at, task.start]).collect::<Vec<_>>()
        });
        let nodes = self
            .nodes
            .iter()
            .flat_map(|node| [node.joins, node.leaves.unwrap_or(0)]);
        let scenes = self.scenes.iter().map(ScenePlan::last);
        tasks
            .chain(nodes)
            .chain(scenes)
            .max()
            .unwrap_or(0)
            .max(self.healed())
    }

    /// The longest time that an attempt of its tasks may be silent.
    pub(crate) fn silence_max(&self) -> u64 {
        let silences = self.tasks.iter().map(|task| task.heartbeat_timeout);
        silences.max().unwrap_or(0)
    }

    /// When the last fault is over. A node that leaves counts as a fault, too.
    pub(crate) fn healed(&self) -> u64 {
        let left = self.nodes.iter().filter_map(|node| node.leaves);
        self.faults
            .iter()
            .map(FaultPlan::ends)
            .chain(left)
            .max()
            .unwrap_or(0)
    }

    /// The largest error that a fault gives a wall clock.
    pub(crate) fn clock_error_max(&self) -> u64 {
        let errors = self.faults.iter().map(FaultPlan::clock_error);
        self.skew_ms + errors.max().unwrap_or(0)
    }

    /// Tells whether the plan has no fault.
    pub(crate) fn is_calm(&self) -> bool {
        self.faults.is_empty() && self.nodes.iter().all(|node| node.leaves.is_none())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            wheels,
            slots,
            tick_ms,
            partitions,
            page_rows,
            buffers,
            ..
        } = self;
        writeln!(
            f,
            "seed {seed}: {wheels} wheels of {slots} slots of {tick_ms} ms, {partitions} partitions, pages of {page_rows}, \
             buffers of {buffers}, clocks within {} ms, latencies up to {} ms, noise of {}",
            self.skew_ms, self.latency_ms, self.noise
        )?;
        for (number, node) in self.nodes.iter().enumerate() {
            writeln!(f, "  node {number}: {node:?}")?;
        }
        writeln!(f, "  workers: {:?}", self.workers)?;
        for task in &self.tasks {
            writeln!(f, "  {task:?}")?;
        }
        for scene in &self.scenes {
            let (number, feature, rate) = (scene.number, scene.feature, scene.rate);
            let in_flight = scene.in_flight;
            let host = if scene.for_host { ", for a host" } else { "" };
            writeln!(
                f,
                "  scene {number}, {feature}, rate {rate:?}, {in_flight:?} in flight{host}"
            )?;
            for item in &scene.items {
                writeln!(f, "    {item:?}")?;
            }
            for step in &scene.steps {
                writeln!(f, "    {step:?}")?;
            }
        }
        for fault in &self.faults {
            writeln!(f, "  {fault:?}")?;
        }
        Ok(())
    }
}
