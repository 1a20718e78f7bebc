//! The forecaster tells people and autoscalers how many tasks are due in the time ahead, by callback.
//!
//! Where the store is this node's alone, it reads the counts that are kept as tasks come and go, and costs next to nothing. On a
//! cluster a bounded walk ahead of each wheel finds some of them. It is shared by all who ask within
//! [`limits::FORECAST_WALK_KEPT`], and beyond its end the counts are lower bounds.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::Mutex;

use super::remembered::Remembered;
use crate::{
    flow::{
        base::{api::Fault, context::Context, labels},
        life::near::Near,
    },
    limits,
    model::{
        entry::{Entry, Key, Kind},
        forecast::{Due, Forecast},
        time::Millis,
        wheel::{Span, WheelNumber},
    },
    store::{Freshness, RangeScan},
    time_source::Moment,
};

/// The horizons of the metric of the forecast, with their names.
pub(super) const HORIZONS: [(&str, u32); 5] = [
    ("1m", 60),
    ("5m", 300),
    ("15m", 900),
    ("1h", 3600),
    ("1d", 86_400),
];

/// Wheels that are read at once.
const WHEELS_AT_ONCE: usize = 8;

/// The span of a forecast.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// The length of each step, in seconds; at least 1.
    pub seconds: u32,
    /// The number of steps.
    pub count: usize,
}

/// The number of tasks that are due in a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// So many at least.
    pub at_least: u64,
    /// And so many at most; none where it is not known.
    pub at_most: Option<u64>,
}

/// The tasks that are due in the time ahead.
#[derive(Debug, Clone)]
pub struct Ahead {
    /// When they were counted: the first step begins at the second before.
    pub at: Millis,
    /// By callback, those with tasks, in the order of their names: those behind the first hundred are `(other)`, and records of
    /// Kafka have an empty name.
    pub callbacks: BTreeMap<String, Vec<Count>>,
    /// There are no others, and each count has one value.
    pub exact: bool,
}

/// The tasks of a cluster that a walk has found, and how far it has come.
#[derive(Debug)]
struct Walked {
    forecast: Forecast,
    reached: Millis,
}

/// The walk that was made last, and when.
type Last = Option<(Moment, Arc<Walked>)>;

/// The forecaster. Cheap to clone; clones share their walks.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Forecaster {
    ctx: Arc<Context>,
    known: Remembered,
    near: Near,
    last: Arc<Mutex<Last>>,
}

impl Forecaster {
    pub(in crate::flow) fn new(ctx: Arc<Context>, known: Remembered, near: Near) -> Self {
        Self {
            ctx,
            known,
            near,
            last: Arc::default(),
        }
    }

    /// Counts the tasks that are due in steps ahead, of one callback or of all.
    ///
    /// # Errors
    /// When the store is away.
    pub(in crate::flow) async fn ahead(
        &self,
        callback: Option<&str>,
        steps: Steps,
    ) -> Result<Ahead, Fault> {
        let at = self.ctx.now();
        if let Some(ahead) = self.counted(callback, steps, at) {
            return Ok(ahead);
        }
        let walked = self.walked(at).await?;
        let callbacks = counts(&walked.forecast, callback, steps, at);
        let mut ahead = Ahead {
            at,
            callbacks,
            exact: false,
        };
        for counts in ahead.callbacks.values_mut() {
            let ends = (1_u64..).map(|step| {
                at.after(Duration::from_secs(
                    step.saturating_mul(u64::from(steps.seconds)),
                ))
            });
            for (count, end) in counts.iter_mut().zip(ends) {
                count.at_most = count.at_most.filter(|_| end <= walked.reached);
            }
        }
        Ok(ahead)
    }

    /// Returns the counts that are kept; none where tasks are not counted.
    fn counted(&self, callback: Option<&str>, steps: Steps, at: Millis) -> Option<Ahead> {
        let near = self.near_ahead(at);
        let (mut callbacks, has_all) = self.known.pending.forecast(|forecast| {
            forecast.pass(at);
            counts(forecast, callback, steps, at)
        })?;
        for (label, more) in counts(&near, callback, steps, at) {
            let sums = callbacks
                .entry(label)
                .or_insert_with(|| vec![Count::exactly(0); steps.count]);
            for (sum, more) in sums.iter_mut().zip(more) {
                sum.add(more);
            }
        }
        let is_exact = |count: &Count| count.at_most == Some(count.at_least);
        let exact = has_all && callbacks.values().flatten().all(is_exact);
        if !has_all {
            let counts = callbacks.values_mut().flatten();
            counts.for_each(|count| count.at_most = None);
        }
        Some(Ahead {
            at,
            callbacks,
            exact,
        })
    }

    /// Returns what waits in this node's memory for its start.
    fn near_ahead(&self, now: Millis) -> Forecast {
        let mut near = Forecast::default();
        self.near.each(|due, callback| {
            let label = labels::label(callback.unwrap_or_default());
            near.change(&label, due, true, now, limits::FORECAST_CELLS_MAX);
        });
        near
    }

    /// Returns the walk of a moment ago, or makes one.
    async fn walked(&self, now: Millis) -> Result<Arc<Walked>, Fault> {
        let mut last = self.last.lock().await;
        let moment = self.ctx.time.moment();
        if let Some((at, walked)) = &*last
            && moment.since(*at) < limits::FORECAST_WALK_KEPT
        {
            return Ok(Arc::clone(walked));
        }
        let parts: Vec<(Vec<(Millis, String)>, Millis)> =
            stream::iter(self.ctx.shape().all_wheels())
                .map(|wheel| self.walk(wheel))
                .buffered(WHEELS_AT_ONCE)
                .try_collect()
                .await?;
        let mut walked = Walked {
            forecast: self.near_ahead(now),
            reached: Millis::MAX,
        };
        for (tasks, reached) in parts {
            walked.reached = walked.reached.min(reached);
            for (due, label) in tasks {
                let room = limits::FORECAST_CELLS_MAX;
                walked.forecast.change(&label, due, true, now, room);
            }
        }
        let walked = Arc::new(walked);
        *last = Some((moment, Arc::clone(&walked)));
        Ok(walked)
    }

    /// Reads a wheel on from its `fired` hand, as far as the bounds allow.
    async fn walk(&self, wheel: WheelNumber) -> Result<(Vec<(Millis, String)>, Millis), Fault> {
        let row = self.ctx.store.clock(wheel, Freshness::Quorum).await?;
        let range = RangeScan {
            wheel,
            shape: *self.ctx.shape(),
            span: Span {
                after: Millis(row.fired.due.0 - 1),
                through: Millis::MAX,
            },
            behind: None,
            rows_max: limits::STATS_ROWS_MAX,
            slots_max: limits::FORECAST_SLOTS_MAX,
        };
        let page = self.ctx.store.scan_range(&range).await?;
        let mut tasks = Vec::new();
        for found in &page.rows {
            let fired = found.position() <= row.fired;
            let first = |entry: &&Entry| matches!(entry.kind, Kind::Due { first: true, .. });
            if let Some(entry) = found.entry.as_ref().ok().filter(first)
                && !fired
                && !entry.key.id.is_internal()
            {
                let name = entry.spec.callback().unwrap_or_default();
                tasks.push((found.key.due, labels::label(name)));
            }
        }
        let all = page.reached >= Key::behind(Millis::MAX);
        let reached = if all { Millis::MAX } else { page.reached.due };
        Ok((tasks, reached))
    }

    /// Counts for the metrics the tasks that are due within each horizon, by callback; none where tasks are not counted.
    pub(super) fn within(&self) -> Option<Vec<(String, &'static str, u64)>> {
        let at = self.ctx.now();
        let mut all = BTreeMap::new();
        for (horizon, seconds) in HORIZONS {
            let ahead = self.counted(None, Steps { seconds, count: 1 }, at)?;
            for (label, counts) in ahead.callbacks {
                let tasks = counts.first().map_or(0, |count| count.at_least);
                all.insert((label, horizon), tasks);
            }
        }
        let all = all.into_iter();
        Some(
            all.map(|((label, horizon), tasks)| (label, horizon, tasks))
                .collect(),
        )
    }
}

impl Count {
    const fn exactly(tasks: u64) -> Self {
        Self {
            at_least: tasks,
            at_most: Some(tasks),
        }
    }

    fn add(&mut self, more: Self) {
        self.at_least += more.at_least;
        let sum = self.at_most.zip(more.at_most);
        self.at_most = sum.map(|(one, other)| one + other);
    }
}

impl From<Due> for Count {
    fn from(due: Due) -> Self {
        Self {
            at_least: due.at_least,
            at_most: Some(due.at_most),
        }
    }
}

/// Counts the tasks of a forecast, of one callback or of all. A callback that is one of the others may have any of theirs.
fn counts(
    forecast: &Forecast,
    callback: Option<&str>,
    steps: Steps,
    at: Millis,
) -> BTreeMap<String, Vec<Count>> {
    let known: BTreeSet<&str> = forecast.labels().collect();
    let of = |label: &str| -> Vec<Count> {
        let steps = forecast.steps(label, at, steps.seconds, steps.count);
        steps.into_iter().map(Count::from).collect()
    };
    let Some(callback) = callback else {
        let all = known.into_iter().map(|label| (label.to_owned(), of(label)));
        return all.collect();
    };
    let mut own = of(callback);
    if !known.contains(callback) && known.contains(labels::OTHERS) && !labels::is_known(callback) {
        for (count, other) in own.iter_mut().zip(of(labels::OTHERS)) {
            count.at_most = other.at_most;
        }
    }
    [(callback.to_owned(), own)].into()
}
