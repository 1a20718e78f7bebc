//! The ordering scenario measures for the report how fast tasks of many lanes, and of one lane, run one after the other.
//!
//! Tasks of a lane start a millisecond apart and all before a worker can be done with the first, so each lane is always
//! behind. A lane must hand out its tasks in the order of their starts, and each only after the report on the one before was
//! sent.

use std::{collections::HashMap, time::Duration};

use anyhow::ensure;
use tickwheel::model::time::Millis;

use super::parts::{BATCH_CONNECTIONS, PATIENCE, read_back};
use crate::{
    embedded::{
        Setup,
        check::{Arrival, Registered, verdict},
        crew::{self, Shift},
        load::{self, Plan},
        meter::Meter,
        service::Service,
        wire::{self, Form},
    },
    report::Report,
};

pub(super) const MANY: &str = "ordering: many lanes";
pub(super) const ONE: &str = "ordering: one lane";

/// The tasks of a measurement.
#[derive(Debug, Clone, Copy)]
struct Lanes {
    case: &'static str,
    lanes: u64,
    tasks: u64,
    /// Tasks a second.
    aim: f64,
}

/// Measures many lanes, then one.
pub(in crate::embedded) async fn ordering(
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let sizes = &setup.sizes;
    report.note(format!(
        "ordering: {} tasks in {} lanes, then {} tasks in one",
        setup.tasks, sizes.lanes, sizes.lane_tasks
    ));
    for lanes in [
        Lanes {
            case: MANY,
            lanes: sizes.lanes,
            tasks: setup.tasks,
            aim: 15_000.0,
        },
        Lanes {
            case: ONE,
            lanes: 1,
            tasks: sizes.lane_tasks,
            aim: 300.0,
        },
    ] {
        let service = setup.start().await?;
        measure(&service, lanes, round, report).await?;
        setup.end(service, report)?;
    }
    Ok(())
}

async fn measure(
    service: &Service,
    of: Lanes,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let Lanes {
        case,
        lanes,
        tasks,
        aim,
    } = of;
    let (loaded, first) = register(service, of, report).await?;
    service
        .time
        .sleep_until_wall(first.before(Duration::from_secs(1)))
        .await;
    let meter = Meter::start(service)?;
    // A lane that moves at a tenth of its aim is still waited for.
    let patience = PATIENCE + Duration::from_secs(tasks / (aim as u64 / 10));
    let mut shift = Shift::new(tasks, patience);
    shift.notes_reports = true;
    let seen = crew::work_shift(service.address, service.time.clone(), shift).await?;
    meter.stop(service, tasks)?.report(case, report);
    let took = (seen.last_settled_us - first.0 * 1000).max(1) as f64 / 1e6;
    let broken = judge(&loaded.registered, &seen.arrivals, &seen.reports, lanes);
    if broken != Broken::default() {
        report.fault(format!("{case}, round {round}: {broken:?}"));
    }
    read_back(service, &loaded.registered, "succeeded").await?;
    let verdict = verdict(loaded.registered, seen.arrivals, Millis(0))?;
    let rate = tasks as f64 / took;
    report.rate(case, round, rate, verdict.check);
    report.aimed(
        format!("{case}, {lanes}: claimed and settled"),
        rate,
        "tasks/s",
        aim,
    );
    report.times(
        format!("{case}: due to worker"),
        &verdict.lateness,
        crate::check::Check::default(),
    );
    Ok(())
}

/// Registers the tasks of lanes; returns them, and the moment from which on they are due.
async fn register(
    service: &Service,
    of: Lanes,
    report: &mut Report,
) -> anyhow::Result<(load::Loaded, Millis)> {
    let Lanes {
        case, lanes, tasks, ..
    } = of;
    let lead = Duration::from_secs(10 + tasks / 1500);
    let first = service.time.now().after(lead);
    let due = move |index: u64| first.after(Duration::from_millis(index / lanes));
    let items = move |body: &mut String, index: u64, start: Millis| {
        let fields = format!(r#""ordering_key":"lane-{}","#, index % lanes);
        wire::push_task(body, Form::USUAL, &fields, start);
    };
    let plan = Plan {
        tasks,
        batch: 100,
        connections: BATCH_CONNECTIONS,
        interval: None,
        keep_every: 1,
    };
    let meter = Meter::start(service)?;
    let loaded = load::register_as(service, plan, items, due, |_| Ok(())).await?;
    meter
        .stop(service, tasks)?
        .report(&format!("{case}: registered"), report);
    ensure!(service.time.now() < first, "not registered in time");
    let rate = tasks as f64 / loaded.took.as_secs_f64();
    report.figure(format!("{case}: registered"), rate, "tasks/s");
    Ok((loaded, first))
}

/// Tasks that came at a wrong moment within their lanes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Broken {
    /// They came behind a task that starts later.
    out_of_order: u64,
    /// They came before the report on the task before was sent.
    together: u64,
}

/// Checks the first arrival of each task, lane by lane.
fn judge(
    registered: &[Registered],
    arrivals: &[Arrival],
    reports: &[Arrival],
    lanes: u64,
) -> Broken {
    let reported: HashMap<u128, i64> = reports.iter().map(|sent| (sent.id, sent.seen_us)).collect();
    let mut arrived: HashMap<u128, i64> = HashMap::with_capacity(arrivals.len());
    for arrival in arrivals {
        let first = arrived.entry(arrival.id).or_insert(arrival.seen_us);
        *first = arrival.seen_us.min(*first);
    }
    let mut by_lane: HashMap<u64, Vec<(i64, Registered)>> = HashMap::new();
    for task in registered {
        // Tasks that never came are counted as lost elsewhere.
        if let Some(seen_us) = arrived.get(&task.id) {
            by_lane
                .entry(task.index % lanes)
                .or_default()
                .push((*seen_us, *task));
        }
    }
    let mut broken = Broken::default();
    for mut lane in by_lane.into_values() {
        lane.sort_unstable_by_key(|(seen_us, task)| (*seen_us, task.due));
        for pair in lane.windows(2) {
            let [(_, before), (seen_us, task)] = pair else {
                continue;
            };
            broken.out_of_order += u64::from(task.due < before.due);
            let free = reported.get(&before.id).is_some_and(|sent| sent <= seen_us);
            broken.together += u64::from(!free);
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks of two lanes by number, arrival and report.
    fn broken(tasks: &[(u64, i64, i64)]) -> Broken {
        let registered: Vec<Registered> = (0..6)
            .map(|index| Registered {
                id: u128::from(index),
                due: Millis(i64::try_from(index / 2).unwrap()),
                index,
            })
            .collect();
        let at = |of: fn(&(u64, i64, i64)) -> i64| -> Vec<Arrival> {
            let note = |task: &(u64, i64, i64)| Arrival {
                id: u128::from(task.0),
                seen_us: of(task),
            };
            tasks.iter().map(note).collect()
        };
        judge(&registered, &at(|task| task.1), &at(|task| task.2), 2)
    }

    #[test]
    fn lanes_go_on_beside_each_other() {
        let tasks = [
            (0, 10, 20),
            (1, 10, 90),
            (2, 20, 30),
            (4, 31, 32),
            (3, 95, 96),
        ];
        assert_eq!(broken(&tasks), Broken::default());
    }

    #[test]
    fn a_task_that_overtakes_is_out_of_order() {
        let found = broken(&[(0, 10, 11), (4, 20, 21), (2, 30, 31)]);
        assert_eq!((found.out_of_order, found.together), (1, 0));
    }

    #[test]
    fn two_of_a_lane_at_once_are_found() {
        let found = broken(&[(1, 10, 30), (3, 20, 40)]);
        assert_eq!((found.out_of_order, found.together), (0, 1));
    }
}
