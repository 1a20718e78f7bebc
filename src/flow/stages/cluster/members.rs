//! Membership lists the live nodes of the cluster for each node, which writes its own row every second and
//! reads those of the others.
//!
//! The list is a hint. It chooses which node should own which wheel, and it shows clocks that are off. A
//! wrong list can neither lose nor double a task.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::clock_step::Watch;
use crate::{
    flow::{
        base::{api::Check, context::Context, levels},
        life::send::Sender,
    },
    limits,
    model::{
        clock, entry::HeldBy, ids::NodeId, preference, stalls::Stalls, time::Millis,
        wheel::WheelNumber,
    },
    store::{self, NodeRow},
    time_source::Moment,
    wake::{Changes, Watcher},
};

/// How often a node writes its row.
const EVERY: Duration = Duration::from_secs(1);

/// A node that has not written its row for this long is taken for dead.
const SILENT_MAX: Duration = Duration::from_millis(3500);

/// A node that has not written its row for this long is called quiet: two of its rows are missing. Work that costs little if it
/// lives after all begins then.
const QUIET: Duration = Duration::from_secs(2);

/// A node that died, or left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gone {
    /// The node.
    pub node: NodeId,
    /// Its last sign of life, by its own clock.
    pub died: Millis,
    /// When that was seen.
    pub seen: Moment,
    /// It left in order.
    pub left: bool,
}

impl Gone {
    const fn new(node: NodeId, died: Millis, seen: Moment, left: bool) -> Self {
        Self {
            node,
            died,
            seen,
            left,
        }
    }
}

/// The list as it was read last.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Live nodes, and how far each wall clock was from ours when it was read, in milliseconds.
    live: Arc<[(NodeId, bool, i64)]>,
    /// Nodes that were seen and are gone.
    gone: Arc<[Gone]>,
    /// Nodes whose rows stand still: they are dead, or about to be taken for dead.
    quiet: Arc<[Gone]>,
    read: Option<Moment>,
}

impl View {
    /// Returns the node that should own a wheel.
    #[must_use]
    pub fn preferred(&self, wheel: WheelNumber) -> Option<NodeId> {
        let ready = self
            .live
            .iter()
            .filter(|(_, ready, _)| *ready)
            .map(|(node, _, _)| *node);
        preference::preferred(wheel, ready)
    }

    /// Returns the nodes that have gone lately.
    #[must_use]
    pub fn gone(&self) -> &[Gone] {
        &self.gone
    }

    /// Returns the nodes whose rows have stood still for a moment, and those that have left lately.
    pub fn silent(&self) -> impl Iterator<Item = &Gone> {
        let left = self.gone.iter().filter(|gone| gone.left);
        self.quiet.iter().chain(left)
    }

    /// Tells whether a live node has this name in the looks of tasks that it holds.
    #[must_use]
    pub fn lives(&self, held_by: HeldBy) -> bool {
        let mut live = self.live.iter();
        live.any(|(node, _, _)| HeldBy::of(*node) == held_by)
    }

    /// Returns the median of the live nodes' wall clocks now, when at least three are known from a fresh list.
    #[must_use]
    pub fn median_wall(&self, now: Millis, moment: Moment) -> Option<Millis> {
        let fresh = self
            .read
            .is_some_and(|read| moment.since(read) < SILENT_MAX);
        if !fresh || self.live.len() < 3 {
            return None;
        }
        let mut apart: Vec<i64> = self.live.iter().map(|(_, _, apart)| *apart).collect();
        apart.sort_unstable();
        apart
            .get(apart.len() / 2)
            .map(|middle| Millis(now.0 + middle))
    }
}

#[derive(Debug, Default)]
struct Seen {
    view: View,
    /// When each node's row was last seen to change, so that a wrong wall clock does not make a node look dead.
    changes: BTreeMap<NodeId, (Millis, Moment)>,
    /// Nodes that have gone.
    gone: BTreeMap<NodeId, Gone>,
    /// When the list was read last, and since when without a gap: in one all rows stand still.
    unbroken: Option<(Moment, Moment)>,
    store_problem: Option<String>,
    queue_problem: Option<String>,
    watch: Watch,
    stepped: bool,
}

/// The node's membership.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Members {
    ctx: Arc<Context>,
    seen: Arc<Mutex<Seen>>,
    leaving: Arc<AtomicBool>,
    started: Arc<AtomicBool>,
    /// The wheels of this node that stood still although they had work.
    stalls: Arc<Mutex<Stalls>>,
    /// It knows when the queue last took something from this node.
    sender: Sender,
    began: Moment,
    /// Counts how often nodes have come or gone.
    changes: Arc<Changes>,
    /// Counts how often nodes have fallen silent, or gone on.
    silences: Arc<Changes>,
}

impl Members {
    /// Knows nobody yet.
    #[must_use]
    pub(in crate::flow) fn new(ctx: Arc<Context>, sender: Sender) -> Self {
        Self {
            began: ctx.time.moment(),
            ctx,
            sender,
            seen: Arc::default(),
            leaving: Arc::default(),
            started: Arc::default(),
            stalls: Arc::default(),
            changes: Arc::default(),
            silences: Arc::default(),
        }
    }

    /// Returns the list as it was read last.
    #[must_use]
    pub(in crate::flow) fn view(&self) -> View {
        self.lock().view.clone()
    }

    /// Returns what tells when nodes have come or gone.
    #[must_use]
    pub(in crate::flow) fn changes(&self) -> Watcher {
        self.changes.watcher()
    }

    /// Returns what tells when nodes have fallen silent, or gone on.
    #[must_use]
    pub(in crate::flow) fn silences(&self) -> Watcher {
        self.silences.watcher()
    }

    /// Tells whether the node is about to stop.
    #[must_use]
    pub(in crate::flow) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Takes notice that a wheel of this node stands still: nothing of it is acknowledged. For a while the node does not
    /// offer itself, so that another takes the wheel.
    pub(in crate::flow) fn note_stalled(&self) {
        let (now, taken) = self.now_and_taken();
        let mut stalls = self.stalls.lock();
        stalls.note(now, taken);
    }

    /// Tells whether the node leaves wheels to others, because wheels of it stood still.
    fn stays_away(&self) -> bool {
        let (now, taken) = self.now_and_taken();
        let stalls = self.stalls.lock();
        stalls.stays_away(now, taken)
    }

    /// Returns the present moment, and when the queue last took something from this node.
    fn now_and_taken(&self) -> (Duration, Option<Duration>) {
        let since = |moment: Moment| moment.since(self.began);
        let taken = self.sender.acknowledged().map(since);
        (since(self.ctx.time.moment()), taken)
    }

    /// Tells whether the others' clocks agree with this node's. One that is off may not propose, so it must not be offered
    /// wheels either: they would stand still until its lease is over, again and again.
    fn has_sane_clock(&self) -> bool {
        let (now, moment) = (self.ctx.now(), self.ctx.time.moment());
        let median = self.lock().view.median_wall(now, moment);
        median.is_none_or(|median| clock::is_sane(&self.ctx.rules, median, now))
    }

    /// Announces that the node is about to stop: it takes no more wheels and leaves those it has.
    pub(in crate::flow) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Tells whether the node has been ready once.
    #[must_use]
    pub(in crate::flow) fn started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// Tells whether the node can do its work.
    #[must_use]
    pub(in crate::flow) fn readiness(&self) -> Vec<Check> {
        let seen = self.lock();
        let unknown = (!seen.stepped).then(|| "not checked yet".to_owned());
        let leaving = self
            .is_leaving()
            .then(|| "the node is about to stop".to_owned());
        vec![
            Check {
                name: "store",
                problem: seen.store_problem.clone().or_else(|| unknown.clone()),
            },
            Check {
                name: "queue",
                problem: seen.queue_problem.clone().or(unknown),
            },
            Check {
                name: "draining",
                problem: leaving,
            },
        ]
    }

    /// Returns why the queue does not answer this node; none when it does, or was not asked yet.
    #[must_use]
    pub(in crate::flow) fn queue_problem(&self) -> Option<String> {
        self.lock().queue_problem.clone()
    }

    /// Asks the queue for a sign of life.
    async fn ask_queue(&self) {
        let answer = self.ctx.publisher.ping().await;
        let problem = answer.err().map(|error| error.to_string());
        let mut seen = self.lock();
        log_change("queue", &mut seen.queue_problem, problem);
    }

    /// Writes this node's row, and reads the others'.
    async fn tell_and_read(&self) {
        let queue_answers = self.lock().queue_problem.is_none();
        let row = NodeRow {
            node: self.ctx.me,
            name: self.ctx.name.clone(),
            address: self.ctx.address.clone(),
            wall: self.ctx.now(),
            ready: queue_answers
                && self.ctx.settings.scans
                && !self.is_leaving()
                && !self.stays_away()
                && self.has_sane_clock(),
        };
        let listed = self.list(&row).await;
        self.take(listed.map_err(|error| error.to_string()));
    }

    /// Writes this node's row, its level before it, and reads those of all.
    async fn list(&self, own: &NodeRow) -> Result<Vec<NodeRow>, store::Error> {
        let ctx = &self.ctx;
        levels::announce(ctx).await?;
        ctx.store.put_node(own).await?;
        let rows = ctx.store.nodes().await?;
        levels::learn(ctx, &rows).await?;
        Ok(rows)
    }

    fn take(&self, listed: Result<Vec<NodeRow>, String>) {
        let (now, moment) = (self.ctx.now(), self.ctx.time.moment());
        let mut seen = self.lock();
        if let Some(step) = seen.watch.look(now, moment)
            && !self.ctx.time.is_by_hand()
        {
            step.report();
        }
        match listed {
            Ok(rows) => {
                let view = seen.view_of(self.ctx.me, &rows, now, moment);
                if view.differs(&seen.view) {
                    self.changes.announce();
                }
                if view.silent().ne(seen.view.silent()) {
                    self.silences.announce();
                }
                seen.view = view;
                log_change("store", &mut seen.store_problem, None);
            }
            Err(problem) => log_change("store", &mut seen.store_problem, Some(problem)),
        }
        seen.stepped = true;
        let ready = seen.store_problem.is_none() && seen.queue_problem.is_none();
        if ready && !self.is_leaving() {
            self.started.store(true, Ordering::Relaxed);
        }
        if let Some(median) = seen.view.median_wall(now, moment) {
            let skew = median.since(now).max(now.since(median));
            metrics::gauge!("tickwheel_clock_skew_seconds").set(skew.as_secs_f64());
        }
    }

    /// Steps every second until `stop`; then removes the node's row, so that others need not wait for its silence.
    ///
    /// The queue is asked beside the rows: one that is slow to answer must not make its nodes look dead to each other.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        if !stop.is_cancelled() {
            self.ask_queue().await;
        }
        let asking = self.every(&stop, || self.ask_queue());
        let telling = self.every(&stop, || self.tell_and_read());
        tokio::join!(asking, telling);
        if let Err(error) = self.ctx.store.remove_node(self.ctx.me).await {
            tracing::debug!(%error, "could not remove the node's row: it expires by itself");
        }
    }

    /// Does something every second until `stop`.
    async fn every<F: Future<Output = ()>>(&self, stop: &CancellationToken, step: impl Fn() -> F) {
        while !stop.is_cancelled() {
            step().await;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = self.ctx.time.sleep(EVERY) => {}
            }
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Seen> {
        self.seen.lock()
    }
}

impl Seen {
    /// Takes the rows that have changed lately for live.
    fn view_of(&mut self, me: NodeId, rows: &[NodeRow], now: Millis, moment: Moment) -> View {
        let mut changes = BTreeMap::new();
        let mut live = Vec::new();
        let (mut gone, unbroken) = (std::mem::take(&mut self.gone), self.read_at(moment));
        for row in rows {
            let (wall, changed) = match self.changes.get(&row.node) {
                Some((wall, changed)) if *wall == row.wall => (*wall, *changed),
                Some(_) | None => (row.wall, moment),
            };
            changes.insert(row.node, (wall, changed));
            if row.node != me && moment.since(changed.max(unbroken)) >= SILENT_MAX {
                gone.entry(row.node)
                    .or_insert_with(|| Gone::new(row.node, wall, moment, false));
            }
            if moment.since(changed) < SILENT_MAX {
                gone.remove(&row.node);
                // A row is seen to change up to a period after it was written: half of one on average.
                let unseen = if row.node == me {
                    Duration::ZERO
                } else {
                    EVERY / 2
                };
                let age = moment.since(changed) + unseen;
                let age = i64::try_from(age.as_millis()).unwrap_or(0);
                live.push((row.node, row.ready, row.wall.0 + age - now.0));
            }
        }
        // A dead node is known as such long before its row expires.
        for (node, (wall, _)) in &self.changes {
            if !changes.contains_key(node) {
                gone.entry(*node)
                    .or_insert_with(|| Gone::new(*node, *wall, moment, true));
            }
        }
        gone.retain(|_, gone| moment.since(gone.seen) < limits::GONE_KEPT);
        let all: Arc<[Gone]> = gone.values().copied().collect();
        let others = changes.iter().filter(|(node, _)| **node != me);
        let quiet = others.filter_map(|(node, (wall, changed))| {
            let since = (*changed).max(unbroken).after(QUIET);
            (moment >= since).then(|| Gone::new(*node, *wall, since, false))
        });
        let quiet = quiet.collect();
        (self.changes, self.gone) = (changes, gone);
        live.sort_unstable();
        View {
            live: live.into(),
            gone: all,
            quiet,
            read: Some(moment),
        }
    }
}

impl View {
    /// Tells whether other nodes are live and ready, or gone.
    fn differs(&self, other: &Self) -> bool {
        let live = |view: &Self| -> Vec<(NodeId, bool)> {
            let live = view.live.iter();
            live.map(|(node, ready, _)| (*node, *ready)).collect()
        };
        self.gone != other.gone || live(self) != live(other)
    }
}

impl Seen {
    /// Notes that the list was read, and returns since when it is read without a gap.
    fn read_at(&mut self, moment: Moment) -> Moment {
        let whole = self
            .unbroken
            .filter(|(last, _)| moment.since(*last) < SILENT_MAX);
        let since = whole.map_or(moment, |(_, since)| since);
        self.unbroken = Some((moment, since));
        since
    }
}

fn log_change(what: &str, before: &mut Option<String>, after: Option<String>) {
    match (before.is_some(), &after) {
        (false, Some(problem)) => {
            tracing::warn!(what, problem, "a dependency went away; trying again")
        }
        (true, None) => tracing::info!(what, "a dependency is back"),
        (false, None) | (true, Some(_)) => {}
    }
    *before = after;
}
