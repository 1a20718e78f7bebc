//! The second counts for figures what was done in a short time, and how late.

use std::time::Duration;

/// How long a second is remembered.
pub(in crate::flow) const KEPT: Duration = Duration::from_secs(300);

/// Upper bounds of the classes of lateness, in milliseconds; the last class has none. Nodes tell each other the numbers of their
/// classes, so these never change.
const CLASSES_MS: [i64; 15] = [
    0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 60_000,
];

/// A second of a node's work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Second {
    /// Seconds since 1970.
    pub at: i64,
    /// Tasks registered.
    pub registered: u64,
    /// Tasks handed over.
    pub fired: u64,
    /// Attempts settled.
    pub settled: u64,
    /// The latest of those that were handed over, in milliseconds.
    pub latest_ms: i64,
    classes: [u64; CLASSES_MS.len() + 1],
}

impl Second {
    /// Returns a second in which nothing was done yet.
    pub(super) fn new(at: i64) -> Self {
        Self {
            at,
            ..Self::default()
        }
    }

    /// Counts a task that was handed over so late.
    pub(super) fn fire(&mut self, late_ms: i64) {
        let class = CLASSES_MS.partition_point(|bound| *bound < late_ms);
        if let Some(class) = self.classes.get_mut(class) {
            *class += 1;
        }
        self.fired += 1;
        self.latest_ms = self.latest_ms.max(late_ms);
    }
}

/// Sums up what was handed over in these seconds: how many of each class, and the latest.
pub(super) fn classes(seconds: &[Second]) -> (Vec<u64>, i64) {
    let mut sums = vec![0; CLASSES_MS.len() + 1];
    for second in seconds {
        for (sum, count) in sums.iter_mut().zip(second.classes) {
            *sum += count;
        }
    }
    let latest = seconds.iter().map(|second| second.latest_ms).max();
    (sums, latest.unwrap_or_default())
}

/// Returns how late tasks were handed over, of which so many are of each class; none when there were none.
pub(in crate::flow) fn lateness_of(late: &[u64], latest_ms: i64) -> Option<Lateness> {
    let mut sum = Second::new(0);
    for (class, count) in sum.classes.iter_mut().zip(late) {
        *class = *count;
    }
    sum.fired = late.iter().sum();
    sum.latest_ms = latest_ms;
    lateness(&[sum])
}

/// How late tasks were handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    /// Half of them at most so late, in milliseconds, rounded up to a class.
    pub p50_ms: i64,
    /// All but one in a hundred.
    pub p99_ms: i64,
    /// The latest, exactly.
    pub max_ms: i64,
}

/// Sums up how late what was handed over in these seconds was; none when there was nothing.
#[must_use]
pub fn lateness(seconds: &[Second]) -> Option<Lateness> {
    let total: u64 = seconds.iter().map(|second| second.fired).sum();
    let max_ms = seconds.iter().map(|second| second.latest_ms).max()?;
    let within = |share: f64| {
        let wanted = (total as f64 * share).ceil() as u64;
        let mut sum = 0;
        let class = (0..CLASSES_MS.len()).find(|class| {
            let of_class = seconds
                .iter()
                .filter_map(|second| second.classes.get(*class));
            sum += of_class.sum::<u64>();
            sum >= wanted
        });
        class
            .and_then(|class| CLASSES_MS.get(class))
            .map_or(max_ms, |bound| (*bound).min(max_ms))
    };
    (total > 0).then(|| Lateness {
        p50_ms: within(0.5),
        p99_ms: within(0.99),
        max_ms,
    })
}
