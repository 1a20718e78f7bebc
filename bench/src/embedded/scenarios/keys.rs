//! The keys scenario measures registrations with a key beside registrations without one, for the report.
//!
//! Both are sent in batches of 100 by turns. Keys are then registered once more, which must find their tasks.

use std::{collections::HashMap, time::Duration};

use anyhow::ensure;
use tickwheel::model::time::Millis;

use super::parts::{BATCH_CONNECTIONS, PATIENCE, SAMPLES, drain};
use crate::{
    check::Check,
    embedded::{
        Setup,
        check::Registered,
        flat,
        load::{self, Plan},
        meter::Meter,
        service::Service,
        wire::{self, Form, Items},
    },
    report::Report,
};

pub(super) const UNKEYED: &str = "without keys, 100 a request";
pub(super) const KEYED: &str = "with keys, 100 a request";
/// Tasks of a request.
const BATCH: u64 = 100;

/// Measures both, by turns.
pub(in crate::embedded) async fn keys(
    setup: &Setup,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.note(format!(
        "keys: {} tasks each way, {BATCH} a request over {BATCH_CONNECTIONS} connections",
        setup.tasks
    ));
    let service = setup.start().await?;
    let turns = if round.is_multiple_of(2) {
        [KEYED, UNKEYED]
    } else {
        [UNKEYED, KEYED]
    };
    for case in turns {
        measure(setup, &service, case, round, report).await?;
    }
    setup.end(service, report)
}

/// Writes tasks whose keys are their numbers within a round.
fn keyed(round: u32, on_conflict: &'static str) -> impl Items {
    move |body: &mut String, index: u64, start: Millis| {
        let fields = format!(r#""key":"{round}-{index}","on_conflict":"{on_conflict}","#);
        wire::push_task(body, Form::USUAL, &fields, start);
    }
}

async fn measure(
    setup: &Setup,
    service: &Service,
    case: &'static str,
    round: u32,
    report: &mut Report,
) -> anyhow::Result<()> {
    let tasks = setup.tasks;
    // The due time is long after the last registration, even at a tenth of the aim.
    let lead = Duration::from_secs(10 + tasks / 4000);
    let first = service.time.now().after(lead);
    let due = move |index: u64| first.after(Duration::from_millis(index % 3000));
    let plan = Plan {
        tasks,
        batch: BATCH,
        connections: BATCH_CONNECTIONS,
        interval: None,
        keep_every: 1,
    };
    let meter = Meter::start(service)?;
    let loaded = if case == KEYED {
        let items = keyed(round, "reject");
        load::register_as(service, plan, items, due, |_| Ok(())).await?
    } else {
        load::register(service, plan, due).await?
    };
    let used = meter.stop(service, tasks)?;
    if case == KEYED {
        repeat(service, &loaded.registered, round, due, report).await?;
    }
    ensure!(service.time.now() < first, "not registered in time");
    let rate = tasks as f64 / loaded.took.as_secs_f64();
    let (verdict, _) = drain(service, loaded.registered, lead + PATIENCE).await?;
    report.rate(case, round, rate, verdict.check);
    report.times(
        format!("{case}: request"),
        &loaded.latency,
        Check::default(),
    );
    used.report(case, report);
    Ok(())
}

/// Registers some keys once more: each must name the task that it has.
async fn repeat(
    service: &Service,
    registered: &[Registered],
    round: u32,
    due: impl Fn(u64) -> Millis + Copy,
    report: &mut Report,
) -> anyhow::Result<()> {
    let known: HashMap<u64, u128> = registered
        .iter()
        .map(|task| (task.index, task.id))
        .collect();
    let again = (SAMPLES as u64).min(registered.len() as u64);
    let mut answered = Vec::new();
    let items = keyed(round, "ignore");
    let indexes = |request: u64| request * BATCH..again.min((request + 1) * BATCH);
    let request = |number: u64| {
        let body = wire::batch_of(&items, indexes(number), due);
        ("/v1/tasks:batchCreate".to_owned(), body)
    };
    flat::post(
        service,
        1,
        again.div_ceil(BATCH),
        request,
        |number, answer| {
            for (index, id) in indexes(number).zip(wire::ids(answer)) {
                answered.push((index, id?));
            }
            Ok(())
        },
    )
    .await?;
    ensure!(answered.len() as u64 == again, "a repetition has no answer");
    let others = others(&known, &answered);
    if others > 0 {
        report.fault(format!(
            "{KEYED}: {others} of {again} keys named another task"
        ));
    }
    Ok(())
}

/// Counts the answers that do not name the task of their key.
fn others(known: &HashMap<u64, u128>, answered: &[(u64, u128)]) -> usize {
    let differs = |(index, id): &&(u64, u128)| known.get(index) != Some(id);
    answered.iter().filter(differs).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_task_of_a_key_is_counted() {
        let known = HashMap::from([(0, 10), (1, 11), (2, 12)]);
        assert_eq!(others(&known, &[(0, 10), (1, 11)]), 0);
        assert_eq!(others(&known, &[(0, 10), (1, 99), (7, 11)]), 2);
    }

    #[test]
    fn a_keyed_task_is_json() {
        let mut body = String::new();
        keyed(3, "ignore").push(&mut body, 7, Millis(0));
        let task: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(task["key"], "3-7");
        assert_eq!(task["on_conflict"], "ignore");
    }
}
