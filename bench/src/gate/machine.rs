//! The machine watch tells the gate how much of the machine others use, so that it does not judge on a busy one.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::embedded::service::TICKS_PER_SECOND;

/// The greatest part of all cores that others may use. A build takes half of two cores at the least. The kernel's work for the
/// services, such as writing to the disk, counts among others, and takes some hundredths.
pub(super) const OTHERS_MAX: f64 = 0.1;
/// The service under load has one core, the generator the other.
const CORES_MIN: usize = 2;

/// The time of all cores so far, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cores {
    busy: u64,
    all: u64,
}

/// A stretch of time under watch.
#[derive(Debug)]
pub(super) struct Watch {
    begun: Cores,
    /// Seconds of CPU that the gate itself had used before.
    own: f64,
}

impl Watch {
    /// Begins; `own` is the CPU of the gate and its services so far, in seconds.
    pub(super) fn begin(own: f64) -> anyhow::Result<Self> {
        Ok(Self { begun: now()?, own })
    }

    /// Returns the part of all cores that others have used since then.
    pub(super) fn others(&self, own: f64) -> anyhow::Result<f64> {
        Ok(part_of_others(self.begun, now()?, own - self.own))
    }
}

/// Tells why the machine has too few cores, if it has.
pub(super) fn too_small() -> anyhow::Result<Option<String>> {
    let cores = std::thread::available_parallelism()?.get();
    Ok((cores < CORES_MIN).then(|| {
        format!("the machine has {cores} core, and service and generator need {CORES_MIN}")
    }))
}

/// Tells why the machine is too busy, if it is.
pub(super) fn too_busy(others: f64) -> Option<String> {
    (others > OTHERS_MAX).then(|| {
        format!(
            "the machine is busy: others use {:.0} % of its cores, at most {:.0} % allow a judgement",
            others * 100.0,
            OTHERS_MAX * 100.0
        )
    })
}

fn now() -> anyhow::Result<Cores> {
    cores(&fs::read_to_string("/proc/stat")?)
}

/// Reads the first line: user, nice, system, idle, waiting for the disk, interrupts, soft interrupts, taken by other machines.
fn cores(stat: &str) -> anyhow::Result<Cores> {
    let line = stat
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("cpu "));
    let figures = line.context("no line of all cores in /proc/stat")?;
    let figures: Vec<u64> = figures
        .split_whitespace()
        .take(8)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    ensure!(
        figures.len() == 8,
        "a short line of all cores in /proc/stat"
    );
    let all: u64 = figures.iter().sum();
    let idle: u64 = figures.iter().skip(3).take(2).sum();
    Ok(Cores {
        busy: all - idle,
        all,
    })
}

/// Returns the part of all cores that others had between two looks, in which the gate used so many seconds.
fn part_of_others(from: Cores, to: Cores, own: f64) -> f64 {
    let busy = to.busy.saturating_sub(from.busy) as f64 - own * TICKS_PER_SECOND;
    // Each figure is a count of ticks, so a little may be missing.
    busy.max(0.0) / (to.all.saturating_sub(from.all).max(1)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 10 40 500 50 5 15 20 7 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";

    #[test]
    fn all_but_idle_and_waiting_is_busy() {
        let read = cores(STAT).unwrap();
        assert_eq!((read.busy, read.all), (190, 740));
        assert!(cores("intr 1 2 3").is_err());
        assert!(cores("cpu  1 2 3").is_err());
    }

    #[test]
    fn work_of_the_gate_is_not_that_of_others() {
        let (from, to) = (
            Cores {
                busy: 100,
                all: 1000,
            },
            Cores {
                busy: 180,
                all: 1400,
            },
        );
        assert!((part_of_others(from, to, 0.0) - 0.2).abs() < 1e-9);
        assert!((part_of_others(from, to, 0.6) - 0.05).abs() < 1e-9);
        assert!(part_of_others(from, to, 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_machine_at_the_bound_is_quiet_enough() {
        assert_eq!(too_busy(OTHERS_MAX), None);
        let said = too_busy(OTHERS_MAX + 0.05).unwrap();
        assert!(said.contains("15 %") && said.contains("10 %"), "{said}");
    }
}
