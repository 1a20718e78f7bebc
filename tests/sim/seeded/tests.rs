//! These tests check determinism first, then as many seeds as time allows.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use tickwheel::flaw::Flaw;

use super::{
    draw::{HOSTS, OPERATING, SILENT, draw},
    flaws,
    many::{self, Task},
    run::run,
    shrink::{self, Keep},
};
use crate::workload::scenes::SCENES;

/// How many seeds `make test` runs: a count, so that every machine runs the same ones.
const SEEDS: u64 = 24;

/// How many seeds of each other family `make test` runs.
const OPERATING_SEEDS: u64 = 8;

/// How long `make test-all` goes on behind those of each of the two large families.
const LIMIT: Duration = Duration::from_secs(300);

/// How many it runs at most. `make sim` runs more.
const SEEDS_MAX: u64 = 10_000;

/// The value of a variable of the environment, if it has one.
pub(super) fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} cannot be read")),
    )
}

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn the_same_seed_gives_the_same_trace(seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        let plan = draw(seed);
        let (one, other) = (run(&plan, None, true), run(&plan, None, true));
        let (digest, again) = (one.trace.digest(), other.trace.digest());
        let (one, other) = (one.trace.into_text(), other.trace.into_text());
        let lines = one.lines().zip(other.lines()).enumerate();
        let differs = lines.filter(|(_, (one, other))| one != other).take(3);
        let differs: Vec<_> = differs.collect();
        assert!(
            differs.is_empty(),
            "seed {seed} goes two ways: {differs:#?}"
        );
        assert_eq!((one.len(), digest), (other.len(), again), "seed {seed}");
    }
}

#[test]
fn a_seed_gives_the_same_trace_twice() {
    the_same_seed_gives_the_same_trace(0..6);
    the_same_seed_gives_the_same_trace(one_of_each_feature());
}

/// Seeds of the second family that have all features, each with several wheels in a node. The named one went two ways once.
fn one_of_each_feature() -> BTreeSet<u64> {
    let first = |feature: &str| {
        let fits = |seed: &u64| {
            let plan = draw(*seed);
            usize::from(plan.wheels) > plan.nodes.len() && plan.has(feature)
        };
        (OPERATING..).find(fits).expect("seeds do not end")
    };
    let seeds = SCENES.iter().map(|scene| first(scene.name()));
    seeds.chain([OPERATING + 32]).collect()
}

/// Runs seeds, and fails with the numbers of those that break an invariant.
fn run_seeds(task: &Task) {
    let result = many::run_many(task);
    let rate = result.done as f64 / result.seconds;
    let each = rate / task.jobs as f64;
    eprintln!(
        "\n{} seeds from {}, {rate:.0} a second, {each:.0} a thread",
        result.done, task.from
    );
    assert!(result.failed.is_empty(), "failed: {:?}", result.failed);
    assert!(result.done > 0, "no seed was run");
}

/// With SEEDS (and FROM, JOBS) any number, resumable.
#[test]
fn seeds_break_nothing() {
    let from = setting("FROM").unwrap_or(0);
    let seeds: Option<u64> = setting("SEEDS");
    // A simulation that does not repeat itself proves nothing. Without SEEDS the first test shows it.
    the_same_seed_gives_the_same_trace(from..from + seeds.map_or(0, |_| 8));
    run_seeds(&Task {
        from,
        seeds: seeds.unwrap_or(SEEDS),
        jobs: setting("JOBS").unwrap_or_else(cores),
        limit: None,
        state: seeds.is_some().then(|| state_file(from)),
        progress: seeds.is_some(),
    });
}

/// Runs some seeds of a family, unless SEEDS names others.
fn run_family(from: u64) {
    if setting::<u64>("SEEDS").is_some() {
        return;
    }
    run_seeds(&Task {
        from,
        seeds: OPERATING_SEEDS,
        jobs: cores(),
        limit: None,
        state: None,
        progress: false,
    });
}

/// The second family.
#[test]
fn seeds_of_the_operating_model_break_nothing() {
    run_family(OPERATING);
}

/// Those with tasks for hosts.
#[test]
fn seeds_with_tasks_for_hosts_break_nothing() {
    run_family(HOSTS);
}

/// Those with attempts that may be silent for long.
#[test]
fn seeds_with_long_silences_break_nothing() {
    run_family(SILENT);
}

#[test]
fn some_attempts_may_be_silent_for_an_hour() {
    let tasks = |seeds: std::ops::Range<u64>| seeds.flat_map(|seed| draw(seed).tasks);
    let longest = |seeds| tasks(seeds).map(|task| task.heartbeat_timeout).max();
    assert_eq!(longest(SILENT - 100..SILENT), Some(10_000));
    assert_eq!(longest(SILENT..SILENT + 100), Some(3_600_000));
    let long = tasks(SILENT..SILENT + 100).filter(|task| task.heartbeat_timeout > 10_000);
    let (long, all) = (long.count(), tasks(SILENT..SILENT + 100).count());
    assert!(
        (all / 16..=all / 6).contains(&long),
        "{long} tasks of {all}"
    );
}

/// Goes on behind the seeds of an ordinary run.
fn run_more(from: u64, limit: Duration) {
    run_seeds(&Task {
        from,
        seeds: SEEDS_MAX,
        jobs: cores(),
        limit: Some(limit),
        state: None,
        progress: false,
    });
}

#[test]
#[ignore = "searches for ten minutes: make test-all"]
fn more_seeds_of_each_family_break_nothing() {
    run_more(SEEDS, LIMIT);
    run_more(OPERATING + OPERATING_SEEDS, LIMIT);
    for special in [HOSTS, SILENT] {
        run_more(special + OPERATING_SEEDS, LIMIT / 5);
    }
}

fn state_file(from: u64) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/sim");
    folder.join(format!("from-{from}"))
}

/// With SEED (and KEEP, and FLAW) replays that run, and leaves its trace under `target/sim`.
#[test]
fn a_plan_that_is_cut_down_can_be_named_and_replayed() {
    let wanted: Option<u64> = setting("SEED");
    let seed = wanted.unwrap_or(7);
    let keep: Keep = setting("KEEP").unwrap_or_else(|| match wanted {
        Some(_) => Keep::default(),
        None => "t1,2,3,4/f0/s1/n0/w1".parse().expect("it is written well"),
    });
    let again: Keep = keep
        .to_string()
        .parse()
        .expect("what is printed can be read");
    assert_eq!(again, keep);
    let plan = keep.of(draw(seed));
    let report = run(&plan, flaws::planted(), true);
    let (violations, lasted) = (report.violations, report.lasted);
    let text = report.trace.into_text();
    assert!(
        wanted.is_some() || text.contains("registered"),
        "nothing happens in it"
    );
    if wanted.is_some() {
        let path = state_file(seed).with_file_name(format!("trace-{seed}"));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("the trace is kept");
        eprintln!("{plan}\n{lasted} ms, trace in {}", path.display());
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

#[test]
fn a_failing_plan_is_cut_down_to_what_makes_it_fail() {
    let flaw = Some(Flaw::CancelNotWritten);
    let seed = (0..200).find(|seed| !run(&draw(*seed), flaw, false).violations.is_empty());
    let seed = seed.expect("one of them cancels");
    let first = run(&draw(seed), flaw, false).violations.swap_remove(0);
    let keep = shrink::shrink(seed, flaw, &first, 200);
    let (whole, small) = (draw(seed), keep.of(draw(seed)));
    let report = run(&small, flaw, false);
    assert!(
        report
            .violations
            .iter()
            .any(|violation| violation.invariant == first.invariant)
    );
    assert!(
        small.tasks.len() <= 2 && small.faults.is_empty(),
        "{whole}\nbecame\n{small}"
    );
}
