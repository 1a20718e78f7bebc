//! `run_many` runs any number of seeds for `make sim`, on every core, and can resume.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tickwheel::time_source::TimeSource;

use super::{draw, run, shrink};
use crate::invariants::Violation;

/// Seeds that a thread takes at once.
const BLOCK: u64 = 16;

/// Runs of the search for a smaller plan.
pub(crate) const SHRINK_RUNS: usize = 400;

/// The search for failing seeds stops after this many.
const FAILURES_MAX: usize = 5;

/// The seeds to run.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    pub(crate) jobs: usize,
    /// Stop after this time, with the seeds that were done.
    pub(crate) limit: Option<Duration>,
    /// The file that remembers how far it got.
    pub(crate) state: Option<PathBuf>,
    pub(crate) progress: bool,
}

/// The result.
#[derive(Debug)]
pub(crate) struct Result {
    pub(crate) done: u64,
    pub(crate) seconds: f64,
    pub(crate) failed: BTreeSet<u64>,
}

struct Shared {
    next: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
    /// Blocks that are under way.
    open: Mutex<BTreeSet<u64>>,
    failed: Mutex<Vec<(u64, Vec<Violation>)>>,
}

/// Runs seeds until all are done, time is up, or enough have failed; prints the failures, cut down.
pub(crate) fn run_many(task: &Task) -> Result {
    let time = TimeSource::real();
    let began = time.moment();
    let resumed = task
        .state
        .as_deref()
        .and_then(read_state)
        .filter(|at| *at >= task.from);
    let from = resumed.unwrap_or(task.from);
    let end = task.from + task.seeds;
    if task.progress && from > task.from {
        eprintln!("goes on at seed {from}; FROM=.. begins elsewhere");
    }
    let shared = Shared {
        next: AtomicU64::new(from),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        open: Mutex::default(),
        failed: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for job in 0..task.jobs {
            let (shared, time) = (&shared, time.clone());
            scope.spawn(move || {
                while take_block(shared, end) {
                    let spent = time.moment().since(began);
                    if task.limit.is_some_and(|limit| spent >= limit) {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    if job == 0 {
                        report(task, shared, end, spent);
                    }
                }
            });
        }
    });
    let spent = time.moment().since(began);
    report(task, &shared, end, spent);
    let failed = shared.failed.into_inner();
    for (seed, violations) in &failed {
        explain(*seed, violations);
    }
    Result {
        done: shared.done.into_inner(),
        seconds: spent.as_secs_f64(),
        failed: failed.into_iter().map(|(seed, _)| seed).collect(),
    }
}

/// Runs one block; returns whether there may be another.
fn take_block(shared: &Shared, end: u64) -> bool {
    let block = {
        let mut open = lock(&shared.open);
        let block = shared.next.fetch_add(BLOCK, Ordering::Relaxed);
        open.insert(block);
        block
    };
    let mut whole = block < end;
    for seed in block..end.min(block + BLOCK) {
        if shared.stop.load(Ordering::Relaxed) {
            whole = false;
            break;
        }
        let report = run::run(&draw::draw(seed), None, false);
        shared.done.fetch_add(1, Ordering::Relaxed);
        if !report.violations.is_empty() {
            let mut failed = lock(&shared.failed);
            failed.push((seed, report.violations));
            if failed.len() >= FAILURES_MAX {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
    }
    if whole {
        lock(&shared.open).remove(&block);
    }
    whole
}

fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    mutex.lock()
}

fn report(task: &Task, shared: &Shared, end: u64, spent: Duration) {
    // Every seed before the oldest open block is done, or has failed and will fail again.
    let next = shared.next.load(Ordering::Relaxed);
    let at = lock(&shared.open).first().copied().unwrap_or(next).min(end);
    let failed = lock(&shared.failed).first().map(|(seed, _)| *seed);
    if let Some(path) = &task.state {
        write_state(path, failed.map_or(at, |seed| seed.min(at)));
    }
    if task.progress {
        let (done, seconds) = (shared.done.load(Ordering::Relaxed), spent.as_secs_f64());
        let rate = done as f64 / seconds.max(0.001);
        let left = end.saturating_sub(at) as f64 / rate.max(0.001);
        eprint!("\r{done} seeds, up to {at} of {end}, {rate:.0} a second, {left:.0} s left  ");
    }
}

/// Prints a failing seed: what broke, the smallest plan that was found, and how to run it again.
pub(crate) fn explain(seed: u64, violations: &[Violation]) {
    let Some(first) = violations.first() else {
        return;
    };
    eprintln!("\nseed {seed} fails:");
    for violation in violations.iter().take(6) {
        eprintln!("  {}: {}", violation.invariant, violation.what);
    }
    let keep = shrink::shrink(seed, None, first, SHRINK_RUNS);
    eprintln!(
        "the smallest plan that fails alike:\n{}",
        keep.of(draw::draw(seed))
    );
    eprintln!("again, with its trace: make sim-replay SEED={seed} KEEP={keep}");
}

fn read_state(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn write_state(path: &Path, at: u64) {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("a folder for the state");
    }
    fs::write(path, at.to_string()).expect("the state is kept");
}
