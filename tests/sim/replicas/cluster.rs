//! `Cluster` is the state of the simulated store: the rows of the replicas, the writes on their
//! way, and the faults.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use tickwheel::{
    model::{time::Millis, wheel::Shape},
    time_source::{Moment, TimeSource},
};

use super::{
    dice::{Dice, Wait},
    faults::{Faults, SwapFate, WriteFate},
    round::{Change, Partition},
    set::{REPLICAS, Set},
    tables::{Tables, Write},
};

/// Gets the trace, one line for each event. It is called while the store is locked, so it must
/// not call the store.
pub(crate) type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// The faults between one node and the replicas.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    /// The replicas that it cannot reach.
    pub(super) cut: Set,
    pub(super) killed: bool,
}

/// Something that takes effect later.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) node: usize,
    pub(super) what: Arrival,
}

/// An event that arrives.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A plain write at some replicas; a sure one has been counted as acknowledged.
    Write {
        write: Arc<Write>,
        at: Set,
        sure: bool,
    },
    /// A conditional write at its coordinator.
    Swap(Change),
}

pub(super) struct Cluster {
    pub(super) time: TimeSource,
    started: Moment,
    pub(super) dice: Dice,
    pub(super) tables: Tables,
    pub(super) faults: Faults,
    /// Operations that take longer.
    pub(super) slow: BTreeMap<&'static str, Wait>,
    pub(super) down: Set,
    pub(super) links: Vec<Link>,
    /// No fault of any kind is set: every call works, on all replicas and at once.
    calm: bool,
    pub(super) next_writes: VecDeque<WriteFate>,
    pub(super) next_swaps: VecDeque<SwapFate>,
    pub(super) pending: BTreeMap<(Moment, u64), Pending>,
    sequence: u64,
    /// The writes that a replica missed while it was down and gets once it is back.
    pub(super) hints: [Vec<Arc<Write>>; REPLICAS],
    pub(super) last_ballot: i64,
    /// Conditional writes that some replicas have accepted and none knows as decided.
    pub(super) accepted: BTreeMap<Partition, (usize, Change)>,
    pub(super) violations: Vec<String>,
    /// The scan that was last answered with an empty page. It gets no second one in a row, or its
    /// reader would never end.
    pub(super) last_empty: Option<tickwheel::store::Scan>,
    pub(super) sink: Option<Sink>,
}

impl Cluster {
    pub(super) fn new(shape: Shape, time: TimeSource, seed: u64) -> Self {
        Self {
            started: time.moment(),
            dice: Dice::new(seed),
            tables: Tables::new(shape, time.now()),
            time,
            faults: Faults::NONE,
            slow: BTreeMap::new(),
            down: Set::NONE,
            links: Vec::new(),
            calm: true,
            next_writes: VecDeque::new(),
            next_swaps: VecDeque::new(),
            pending: BTreeMap::new(),
            sequence: 0,
            hints: Default::default(),
            last_ballot: 0,
            accepted: BTreeMap::new(),
            violations: Vec::new(),
            last_empty: None,
            sink: None,
        }
    }

    pub(super) fn note(&self, who: Who, what: fmt::Arguments<'_>) {
        if let Some(sink) = &self.sink {
            let at = self.time.moment().since(self.started).as_micros();
            sink(&format!("{at} {who} {what}"));
        }
    }

    /// Must be called after every change of the faults.
    pub(super) fn consider_calm(&mut self) {
        self.calm = self.faults.are_none()
            && self.slow.is_empty()
            && self.down.is_empty()
            && self.links.iter().all(|link| link.cut.is_empty())
            && self.next_writes.is_empty()
            && self.next_swaps.is_empty();
    }

    pub(super) const fn is_calm(&self) -> bool {
        self.calm
    }

    pub(super) fn now(&self) -> Millis {
        self.time.now()
    }

    /// The replicas that a node reaches.
    pub(super) fn reach(&self, node: usize) -> Set {
        let cut = self.links.get(node).map_or(Set::NONE, |link| link.cut);
        Set::ALL.without(self.down).without(cut)
    }

    pub(super) fn is_killed(&self, node: usize) -> bool {
        self.links.get(node).is_some_and(|link| link.killed)
    }

    /// How long an immediate refusal takes: never zero, or a caller that asks again would stop time.
    pub(super) fn refusal(&mut self) -> Duration {
        let latency = self.dice.between(self.faults.latency);
        latency.max(Duration::from_millis(1))
    }

    /// The round trips of a call to each replica.
    pub(super) fn round_trips(&mut self, operation: &str) -> [Duration; REPLICAS] {
        let slow = self.slow.get(operation).copied();
        let more = slow.map_or(Duration::ZERO, |slow| self.dice.between(slow));
        std::array::from_fn(|_| more + self.dice.between(self.faults.latency))
    }

    /// How long a quorum of the replicas that a node reaches takes to answer.
    pub(super) fn quorum_trip(&mut self, node: usize, operation: &str) -> Duration {
        let reach = self.reach(node);
        let mut trips = self.round_trips(operation);
        for (replica, trip) in trips.iter_mut().enumerate() {
            if !reach.has(replica) {
                *trip = Duration::MAX;
            }
        }
        trips.sort_unstable();
        trips[1]
    }

    /// Draws a conditional write's fate, how long its caller waits, and whether it is decided only when the wait is over.
    pub(super) fn begin_swap(
        &mut self,
        node: usize,
        operation: &'static str,
    ) -> (SwapFate, Duration, bool) {
        if self.is_calm() {
            return (SwapFate::Answered, Duration::ZERO, false);
        }
        let fate = self.swap_fate(node);
        let wait = match fate {
            SwapFate::Answered => 2 * self.quorum_trip(node, operation),
            SwapFate::Fails => self.unavailability(node),
            SwapFate::Decided { .. }
            | SwapFate::Accepted
            | SwapFate::Late { .. }
            | SwapFate::Lost => self.faults.patience,
        };
        let arrives = !matches!(fate, SwapFate::Late { .. } | SwapFate::Fails);
        let late = arrives && !wait.is_zero() && self.dice.coin();
        (fate, wait, late)
    }

    /// Lets something take effect after a while.
    pub(super) fn schedule(&mut self, node: usize, after: Duration, what: Arrival) {
        let at = self.time.moment().after(after);
        self.sequence += 1;
        let pending = Pending { node, what };
        self.pending.insert((at, self.sequence), pending);
    }

    /// Lets everything take effect whose time has come. Every access to the store does this first.
    pub(super) fn catch_up(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let now = self.time.moment();
        while let Some(first) = self.pending.first_entry()
            && first.key().0 <= now
        {
            let Pending { node, what } = first.remove();
            self.arrive(node, what);
        }
    }

    fn arrive(&mut self, node: usize, what: Arrival) {
        match what {
            Arrival::Write { write, at, sure } => {
                let there = if sure { at } else { at.without(self.down) };
                self.tables.receive(&write, there);
                self.note(Who::Node(node), format_args!("{write} arrives at {there}"));
                for replica in at.without(there).members() {
                    self.hints[replica].push(Arc::clone(&write));
                }
            }
            Arrival::Swap(change) => self.decide_late(node, change),
        }
    }

    /// Sends a plain write on its way; returns how long its caller waits, and what it is told.
    pub(super) fn send(&mut self, node: usize, operation: &'static str, write: Write) -> Sent {
        if self.calm {
            self.tables.receive(&write, Set::ALL);
            self.note(Who::Node(node), format_args!("{operation} {write}"));
            return Sent::AT_ONCE;
        }
        let fate = match self.next_writes.pop_front() {
            Some(fate) => {
                self.consider_calm();
                fate
            }
            None => self.faults.write_fate(&mut self.dice),
        };
        let reach = self.reach(node);
        self.note(
            Who::Node(node),
            format_args!("{operation} {write} {fate:?} reaching {reach}"),
        );
        match fate {
            WriteFate::Fails => Sent::failed(self.refusal(), "it failed"),
            WriteFate::TimesOut { now, later, after } => {
                let write = Arc::new(write);
                self.deliver(node, Duration::ZERO, &write, now.and(reach), false);
                self.deliver(node, after, &write, later, false);
                Sent::failed(self.faults.patience, "no answer in time")
            }
            WriteFate::Reaches => self.replicate(node, operation, write, reach, None),
            WriteFate::Misses { replica, after } => {
                self.replicate(node, operation, write, reach, Some((replica, after)))
            }
        }
    }

    fn deliver(&mut self, node: usize, after: Duration, write: &Arc<Write>, at: Set, sure: bool) {
        if at.is_empty() {
            return;
        }
        let arrival = Arrival::Write {
            write: Arc::clone(write),
            at,
            sure,
        };
        if after.is_zero() {
            self.arrive(node, arrival);
        } else {
            self.schedule(node, after, arrival);
        }
    }

    /// The write goes to all replicas that are reached; two must have it.
    fn replicate(
        &mut self,
        node: usize,
        operation: &'static str,
        write: Write,
        reach: Set,
        missing: Option<(usize, Option<Duration>)>,
    ) -> Sent {
        let write = Arc::new(write);
        let trips = self.round_trips(operation);
        if !reach.is_quorum() {
            // The coordinator may notice before it sends anything, or after one replica has it.
            if self.dice.coin() {
                let after = self.refusal();
                self.deliver(node, after, &write, reach, false);
            }
            return Sent::failed(self.unavailability(node), "no quorum");
        }
        let missed = missing.map_or(Set::NONE, |(replica, _)| Set::only(replica));
        let reached = reach.without(missed);
        let reached = if reached.is_quorum() { reached } else { reach };
        let mut by_time: [usize; REPLICAS] = [0, 1, 2];
        by_time.sort_by_key(|replica| (!reached.has(*replica), trips[*replica]));
        let wait = trips[by_time[1]];
        for (rank, replica) in by_time.into_iter().enumerate() {
            let (at, half) = (Set::only(replica), trips[replica] / 2);
            if reached.has(replica) {
                self.deliver(node, half, &write, at, rank < 2);
            } else if reach.has(replica) {
                if let Some((_, Some(after))) = missing {
                    self.deliver(node, after, &write, at, false);
                }
            } else {
                self.hints[replica].push(Arc::clone(&write));
            }
        }
        Sent {
            wait,
            answer: Ok(()),
        }
    }

    /// How long a node takes to find that there is no quorum: as long as a refusal where servers refuse, else
    /// its patience.
    pub(super) fn unavailability(&mut self, node: usize) -> Duration {
        let cut = self.links.get(node).map_or(Set::NONE, |link| link.cut);
        if cut.is_empty() {
            self.refusal()
        } else {
            self.faults.patience
        }
    }
}

/// The fate of a plain write when it was sent.
pub(super) struct Sent {
    pub(super) wait: Duration,
    pub(super) answer: Result<(), &'static str>,
}

impl Sent {
    const AT_ONCE: Self = Self {
        wait: Duration::ZERO,
        answer: Ok(()),
    };

    const fn failed(wait: Duration, reason: &'static str) -> Self {
        Self {
            wait,
            answer: Err(reason),
        }
    }
}

/// The origin of an event.
#[derive(Clone, Copy)]
pub(super) enum Who {
    Node(usize),
    Control,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(usize::MAX) => f.write_str("hint"),
            Self::Node(node) => write!(f, "n{node}"),
            Self::Control => f.write_str("control"),
        }
    }
}
