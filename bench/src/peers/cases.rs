//! The cases measure a peer for the report, one after the other; a case that fails or takes too long is a
//! line of the result.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tickwheel::time_source::TimeSource;

use super::{Manner, Scenario, Setup, case::Case, scenarios::Run};
use crate::report::{Report, setting::Setting, table::Figure};

/// How long the harness tries to remove the files of a peer: its processes may still be ending.
const REMOVE_LIMIT: Duration = Duration::from_secs(10);

/// Returns the cases of a scenario, in their order.
pub(super) fn of(scenario: Scenario, setting: &Setting, rates: &[u64]) -> Vec<Case> {
    match scenario {
        Scenario::Register if setting.has_batches() => {
            let manners = [Manner::Singly, Manner::Batched];
            manners.map(Case::Register).to_vec()
        }
        Scenario::Register => vec![Case::Register(Manner::Singly)],
        Scenario::Burst => vec![Case::Burst],
        Scenario::Steady => {
            let mut rates = rates.to_vec();
            rates.sort_unstable_by(|a, b| b.cmp(a));
            rates.into_iter().map(Case::Steady).collect()
        }
        Scenario::Pending => vec![Case::Pending],
    }
}

/// Measures all cases of a scenario.
pub(super) async fn run(
    setup: &Setup,
    scenario: Scenario,
    setting: &Setting,
    round: u32,
    report: &mut Report,
) {
    let mut running: Option<Run<'_>> = None;
    for case in of(scenario, setting, &setup.rates) {
        let measured = one(setup, case, setting, round, &mut running, report).await;
        let is_steady = scenario == Scenario::Steady;
        match measured {
            // A peer that holds a rate holds a lower one, too. This service runs all, since others are
            // compared with its figures.
            Ok(()) if is_steady && !setting.is_own() => break,
            Ok(()) if is_steady => running = None,
            Ok(()) => {}
            Err(error) => {
                // The next case begins with a fresh peer.
                running = None;
                report.peer(Figure::failed(&case.to_string(), setting, round, &error));
            }
        }
    }
    drop(running);
    if let Err(error) = setup.clear().await {
        report.note(format!("{scenario:?}, {}: {error:#}", setting.name));
    }
}

/// Measures a case with the peer that is running, or with a fresh one when none is.
async fn one<'a>(
    setup: &'a Setup,
    case: Case,
    setting: &'a Setting,
    round: u32,
    running: &mut Option<Run<'a>>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let limit = setup.limit;
    let measuring = async {
        let run = match running {
            Some(run) => run,
            None => {
                let peer = setup.start(setting).await.context("it did not start")?;
                running.insert(Run::new(setup, setting, round, peer))
            }
        };
        run.measure(case, report).await
    };
    let measured = setup.place.time.within(limit, Box::pin(measuring)).await;
    measured.unwrap_or_else(|| Err(anyhow!("not done within {limit:?}")))
}

/// Removes a directory with all its files.
pub(super) async fn remove(directory: &std::path::Path, time: &TimeSource) -> anyhow::Result<()> {
    let begun = time.moment();
    loop {
        match std::fs::remove_dir_all(directory) {
            Ok(()) => return Ok(()),
            Err(_) if !directory.exists() => return Ok(()),
            Err(error) if time.moment().since(begun) > REMOVE_LIMIT => return Err(error.into()),
            Err(_) => time.sleep(Duration::from_millis(200)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{peers::catalogue::chosen, report::setting::Kind};

    #[test]
    fn every_rate_is_a_case_and_the_highest_comes_first() {
        let setting = chosen(&[Kind::Rocketmq], &["1 s".to_owned()])[0];
        let cases = of(Scenario::Steady, &setting, &[500, 5000]);
        assert_eq!(cases, [Case::Steady(5000), Case::Steady(500)]);
        assert_eq!(cases[0].to_string(), "steady, 5000/s");
        let cases = of(Scenario::Register, &setting, &[]);
        assert_eq!(cases, [Case::Register(Manner::Singly)]);
    }
}
