//! The tests: determinism first, then as many seeds as there is time for.

use super::{draw, run};

#[test]
fn a_seed_gives_the_same_trace_twice() {
    for seed in 0..20 {
        let plan = draw::draw(seed);
        let (one, other) = (run::run(&plan, None, true), run::run(&plan, None, true));
        let (digest, again) = (one.trace.digest(), other.trace.digest());
        let (one, other) = (one.trace.into_text(), other.trace.into_text());
        let differs = one.lines().zip(other.lines()).enumerate().find(|(_, (one, other))| one != other);
        assert!(differs.is_none(), "seed {seed} differs at line {differs:?}");
        assert_eq!((one.len(), digest), (other.len(), again), "seed {seed}");
    }
}

#[test]
fn seeds() {
    let from: u64 = std::env::var("FROM").ok().and_then(|v| v.parse().ok()).unwrap_or(0);
    let count: u64 = std::env::var("SEEDS").ok().and_then(|v| v.parse().ok()).unwrap_or(50);
    let mut failed = 0;
    for seed in from..from + count {
        let plan = draw::draw(seed);
        let report = run::run(&plan, None, false);
        if !report.violations.is_empty() {
            failed += 1;
            eprintln!("seed {seed}:");
            for v in report.violations.iter().take(3) {
                eprintln!("   {}: {}", v.invariant, v.what);
            }
        }
    }
    assert_eq!(failed, 0);
}
