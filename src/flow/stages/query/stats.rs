//! The statistics describe the whole service for people and dashboards: wheels, nodes, pending tasks by
//! horizon, and the recent work of this node.
//!
//! The work for them is bounded, shared by all requests within [`limits::STATS_KEPT`], and never in the way
//! of firing. Where the store is this node's alone, pending tasks are counted as they come and go
//! ([`crate::flow::base::figures::pending`]). On a cluster a bounded walk ahead of each wheel finds some of them, and the figures
//! say so.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::Mutex;

use super::{remembered::Remembered, standing::Standing, stock::Stock};
use crate::{
    flow::{
        base::{
            api::Fault,
            context::Context,
            figures::{
                recent::Fired,
                second::{self, Lateness, Second},
                unclaimed::Unclaimed,
            },
        },
        life::near::Near,
    },
    limits,
    model::{
        clock::ClockRow,
        entry::{Entry, Key, Kind},
        gate::{Gate, GateState},
        time::Millis,
        wheel::{Span, WheelNumber},
    },
    store::{Freshness, NodeRow, RangeScan},
    time_source::Moment,
};

/// Wheels that are read at once.
const WHEELS_AT_ONCE: usize = 8;

/// The seconds that rates and lateness are taken over.
const LATELY: usize = 60;

/// An owner reports once a tick what it has fired: an entry due for less than this may be long gone.
const REPORTED_WITHIN: Duration = Duration::from_secs(3);

/// How far ahead tasks are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Horizon {
    /// Due for more than three seconds, and not handed over.
    Overdue,
    /// Within a minute.
    Minute,
    /// Within an hour.
    Hour,
    /// Within a day.
    Day,
    /// Later.
    Later,
}

impl Horizon {
    /// All of them, the nearest first.
    pub const ALL: [Self; 5] = [
        Self::Overdue,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Later,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overdue => "overdue",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Later => "later",
        }
    }

    /// Returns the horizon; none for an entry that is due and may have been handed over since the last clock swap.
    fn of(due: Millis, now: Millis) -> Option<Self> {
        const MINUTE: Duration = Duration::from_secs(60);
        Some(match due.since(now) {
            ahead if ahead.is_zero() && now.since(due) < REPORTED_WITHIN => return None,
            ahead if ahead.is_zero() => Self::Overdue,
            ahead if ahead <= MINUTE => Self::Minute,
            ahead if ahead <= MINUTE * 60 => Self::Hour,
            ahead if ahead <= MINUTE * 60 * 24 => Self::Day,
            _ => Self::Later,
        })
    }
}

/// Tasks that wait for their time, by how far that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// How far ahead.
    pub horizon: Horizon,
    /// How many were counted.
    pub tasks: u64,
    /// The count was not cut short: there are no others.
    pub complete: bool,
}

/// The whole picture.
#[derive(Debug, Clone)]
pub struct Stats {
    /// When it was looked at.
    pub at: Millis,
    /// The nodes.
    pub nodes: Vec<NodeRow>,
    /// The wheels' clocks, in order.
    pub wheels: Vec<(WheelNumber, ClockRow)>,
    /// The pending tasks, the nearest first.
    pub pending: Vec<Pending>,
    /// All that is pending was counted, and nothing twice; else the counts are lower bounds.
    pub exact: bool,
    /// Due tasks that no worker has taken.
    pub unclaimed: Unclaimed,
    /// The others.
    pub standing: Standing,
    /// The gates that are not open, by callback; those behind the first [`limits::CALLBACKS_TOLD_MAX`] are left out.
    pub gates: Vec<(String, Gate)>,
    /// The last seconds of this node, the oldest first.
    pub seconds: Vec<Second>,
    /// How late this node handed tasks over in the last minute.
    pub lateness: Option<Lateness>,
    /// The tasks this node handed over last, the newest first.
    pub recent: Vec<Fired>,
}

impl Stats {
    /// Returns a mean per second of this node over the last minute.
    #[must_use]
    pub fn per_second(&self, count: impl Fn(&Second) -> u64) -> f64 {
        let lately = self.lately();
        let sum: u64 = lately.iter().map(count).sum();
        sum as f64 / lately.len().max(1) as f64
    }

    /// Returns the seconds of the last minute, the oldest first.
    #[must_use]
    pub fn lately(&self) -> &[Second] {
        let from = self.seconds.len().saturating_sub(LATELY);
        self.seconds.get(from..).unwrap_or_default()
    }

    /// Returns how far the slowest wheel is behind.
    #[must_use]
    pub fn behind(&self) -> Duration {
        let behind = |(_, row): &(WheelNumber, ClockRow)| self.at.since(row.fired.due);
        self.wheels.iter().map(behind).max().unwrap_or_default()
    }
}

/// The statistics that were made last, and when.
type Seen = (Moment, Arc<Stats>);

/// Makes the statistics.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Statistician {
    ctx: Arc<Context>,
    known: Remembered,
    near: Near,
    stock: Stock,
    last: Arc<Mutex<Option<Seen>>>,
}

impl Statistician {
    pub(super) fn new(ctx: Arc<Context>, known: Remembered, near: Near, stock: Stock) -> Self {
        Self {
            ctx,
            known,
            near,
            stock,
            last: Arc::default(),
        }
    }

    /// Returns the statistics of a moment ago, or makes them.
    pub(in crate::flow) async fn stats(&self) -> Result<Arc<Stats>, Fault> {
        let mut last = self.last.lock().await;
        let moment = self.ctx.time.moment();
        if let Some((at, stats)) = &*last
            && moment.since(*at) < limits::STATS_KEPT
        {
            return Ok(Arc::clone(stats));
        }
        let stats = Arc::new(self.look().await?);
        *last = Some((moment, Arc::clone(&stats)));
        Ok(stats)
    }

    async fn look(&self) -> Result<Stats, Fault> {
        let now = self.ctx.now();
        let nodes = self.ctx.store.nodes().await?;
        let seen: Vec<(WheelNumber, ClockRow, Walk)> = stream::iter(self.ctx.shape().all_wheels())
            .map(|wheel| self.wheel(wheel, now))
            .buffered(WHEELS_AT_ONCE)
            .try_collect()
            .await?;
        let near = self.near(now);
        let exact = self.known.pending.is_exact();
        let counting = self.known.pending.is_counting();
        let pending = Horizon::ALL.map(|horizon| {
            let tasks = seen
                .iter()
                .filter_map(|(_, _, walk)| walk.counts.get(horizon as usize));
            Pending {
                horizon,
                tasks: tasks.sum::<u64>() + near.get(horizon as usize).copied().unwrap_or(0),
                complete: if counting {
                    exact
                } else {
                    seen.iter()
                        .all(|(_, _, walk)| walk.ended.is_none_or(|at| horizon < at))
                },
            }
        });
        let unclaimed = self.known.unclaimed();
        let mut stats = Stats {
            at: now,
            nodes,
            wheels: seen.iter().map(|(wheel, row, _)| (*wheel, *row)).collect(),
            pending: pending.to_vec(),
            exact,
            standing: self.standing(&unclaimed, now).await,
            unclaimed,
            gates: self.gates(now),
            seconds: self.known.pulse.seconds(now),
            lateness: None,
            recent: self.known.pulse.recent(),
        };
        stats.lateness = second::lateness(stats.lately());
        Ok(stats)
    }

    /// Counts what waits for something else than its start or a worker.
    pub(super) async fn standing(&self, unclaimed: &Unclaimed, now: Millis) -> Standing {
        Standing::read(&self.ctx, &self.known, &self.stock, unclaimed, now).await
    }

    fn gates(&self, now: Millis) -> Vec<(String, Gate)> {
        let gates = self.known.callbacks.snapshot().gates().into_iter();
        let closed = gates.filter(|(_, gate)| gate.state_at(now) != GateState::Open);
        closed.take(limits::CALLBACKS_TOLD_MAX).collect()
    }

    /// Counts what waits in this node's memory for its start.
    fn near(&self, now: Millis) -> [u64; Horizon::ALL.len()] {
        let mut counts = [0; Horizon::ALL.len()];
        self.near.each(|due, _| add(&mut counts, due, now, 1));
        counts
    }

    /// Reads a wheel's clock and counts what is pending in it, or walks a bounded way ahead of its `fired` hand.
    async fn wheel(
        &self,
        wheel: WheelNumber,
        now: Millis,
    ) -> Result<(WheelNumber, ClockRow, Walk), Fault> {
        let row = self.ctx.store.clock(wheel, Freshness::Quorum).await?;
        if self.known.pending.is_counting() {
            let mut walk = Walk::default();
            let take = |due, tasks| add(&mut walk.counts, due, now, tasks);
            self.known.pending.each(wheel, row.fired.due, take);
            return Ok((wheel, row, walk));
        }
        let range = RangeScan {
            wheel,
            shape: *self.ctx.shape(),
            span: Span {
                after: Millis(row.fired.due.0 - 1),
                through: Millis::MAX,
            },
            behind: None,
            rows_max: limits::STATS_ROWS_MAX,
            slots_max: limits::STATS_SLOTS_MAX,
        };
        let page = self.ctx.store.scan_range(&range).await?;
        let mut walk = Walk::default();
        for found in &page.rows {
            let fired = found.position() <= row.fired;
            let first = |entry: &Entry| matches!(entry.kind, Kind::Due { first: true, .. });
            if !fired && found.entry.as_ref().is_ok_and(first) {
                add(&mut walk.counts, found.key.due, now, 1);
            }
        }
        if page.reached < Key::behind(Millis::MAX) {
            walk.ended = Some(Horizon::of(page.reached.due, now).unwrap_or(Horizon::Minute));
        }
        Ok((wheel, row, walk))
    }
}

/// Counts tasks that are due at `due`.
fn add(counts: &mut [u64; Horizon::ALL.len()], due: Millis, now: Millis, tasks: u64) {
    let horizon = Horizon::of(due, now);
    if let Some(count) = horizon.and_then(|at| counts.get_mut(at as usize)) {
        *count += tasks;
    }
}

/// The counts of a wheel.
#[derive(Debug, Default)]
struct Walk {
    counts: [u64; Horizon::ALL.len()],
    /// Where it was cut short.
    ended: Option<Horizon>,
}
