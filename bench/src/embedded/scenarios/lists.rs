//! The lists scenario measures for the report how soon the first page of a list comes when there are many tasks.
//!
//! Tasks of a thousand have one value of an indexed label. Pages are asked for by callback, and by such a value, of tasks that
//! wait and of tasks that have ended. Each page must be full and right, and a walk over all pages of one value must find every
//! task of it once.

use std::{collections::HashSet, time::Duration};

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use serde_json::Value;
use tickwheel::model::time::Millis;
use uuid::Uuid;

use super::{
    beside::soon,
    parts::{CALM, DAY, PATIENCE},
};
use crate::{
    check::Check,
    embedded::{
        Setup,
        check::{Registered, verdict},
        crew::{self, Shift},
        load::{self, Plan},
        service::Service,
        wire::{self, Form, Items},
    },
    generator::{histogram, micros},
    report::Report,
};

/// Tasks that have one value of the label.
const OF_A_VALUE: u64 = 1000;
/// Pages that are asked for, and tasks of each.
const PAGES: u64 = 100;
const PAGE: u64 = 100;
/// Milliseconds.
const AIM: f64 = 50.0;
/// Time until every node knows the index.
const HEARD: Duration = Duration::from_secs(3);
const ENDED: &str = "bench-ended";

/// Measures lists of tasks that wait, then of tasks that have ended.
pub(in crate::embedded) async fn lists(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    report.note(format!(
        "lists: {:?} tasks that wait, {} that have ended, {OF_A_VALUE} of a value",
        setup.pendings, setup.tasks
    ));
    for pending in setup.pendings.iter().filter(|pending| **pending > 0) {
        let service = setup.start().await?;
        waiting(&service, *pending, report).await?;
        setup.end(service, report)?;
    }
    let service = setup.start().await?;
    ended(&service, setup.tasks, report).await?;
    setup.end(service, report)
}

/// Writes tasks with their label.
fn items(callback: &'static str, values: u64) -> impl Items {
    move |body: &mut String, index: u64, start: Millis| {
        let fields = format!(r#""labels":{{"tenant":"t{}"}},"#, index % values);
        let form = Form {
            callback,
            ..Form::USUAL
        };
        wire::push_task(body, form, &fields, start);
    }
}

async fn index(service: &Service, callback: &str) -> anyhow::Result<()> {
    let mut connection = service.connect().await?;
    let path = format!("/v1/callbacks/{callback}");
    connection
        .put(&path, br#"{"indexed_labels":["tenant"]}"#)
        .await?;
    service.time.sleep(HEARD).await;
    Ok(())
}

async fn waiting(service: &Service, tasks: u64, report: &mut Report) -> anyhow::Result<()> {
    let values = tasks.div_ceil(OF_A_VALUE);
    index(service, wire::CALLBACK).await?;
    let first = service.time.now().after(30 * DAY);
    let day = DAY.as_secs() * 1000;
    let due = move |index: u64| first.after(Duration::from_millis(index * 7919 % day));
    let plan = Plan {
        tasks,
        batch: 1000,
        connections: 8,
        interval: None,
        // Those of the first value.
        keep_every: values,
    };
    let items = items(wire::CALLBACK, values);
    let loaded = load::register_as(service, plan, items, due, |_| Ok(())).await?;
    let rate = tasks as f64 / loaded.took.as_secs_f64();
    report.figure(
        format!("lists: {tasks} with a label registered"),
        rate,
        "tasks/s",
    );
    service.time.sleep(CALM).await;
    let case = format!("lists: {tasks} wait");
    let asked = Asked {
        callback: wire::CALLBACK,
        state: "scheduled",
        tasks,
        values,
    };
    measure(service, asked, &case, report).await?;
    walk(service, asked, &loaded.registered, &case, report).await
}

async fn ended(service: &Service, tasks: u64, report: &mut Report) -> anyhow::Result<()> {
    let values = tasks.div_ceil(OF_A_VALUE);
    index(service, ENDED).await?;
    let at = soon(&service.time, Duration::from_secs(8 + tasks / 8000));
    let due = move |index: u64| at.after(Duration::from_millis(index % 3000));
    let plan = Plan {
        tasks,
        batch: 500,
        connections: 8,
        interval: None,
        keep_every: 1,
    };
    let loaded = load::register_as(service, plan, items(ENDED, values), due, |_| Ok(())).await?;
    let patience = PATIENCE + Duration::from_secs(tasks / 1000);
    let mut shift = Shift::new(tasks, patience);
    shift.callback = ENDED;
    let seen = crew::work_shift(service.address, service.time.clone(), shift).await?;
    ensure!(seen.settled == tasks, "some were not settled");
    service.time.sleep(CALM).await;
    let case = format!("lists: {tasks} have ended");
    let asked = Asked {
        callback: ENDED,
        state: "succeeded",
        tasks,
        values,
    };
    measure(service, asked, &case, report).await?;
    let of_first = loaded
        .registered
        .iter()
        .filter(|task| task.index.is_multiple_of(values));
    let of_first: Vec<Registered> = of_first.copied().collect();
    walk(service, asked, &of_first, &case, report).await?;
    let verdict = verdict(loaded.registered, seen.arrivals, Millis(0))?;
    report.times(
        format!("{case}: due to worker"),
        &verdict.lateness,
        verdict.check,
    );
    Ok(())
}

/// The tasks that are listed.
#[derive(Debug, Clone, Copy)]
struct Asked {
    callback: &'static str,
    state: &'static str,
    tasks: u64,
    values: u64,
}

impl Asked {
    fn path(self, value: Option<u64>) -> String {
        let Self {
            callback, state, ..
        } = self;
        let label = value.map_or_else(String::new, |value| format!("&label.tenant=t{value}"));
        format!("/v1/tasks?callback={callback}&state={state}{label}&page_size={PAGE}")
    }
}

/// Asks for first pages.
async fn measure(
    service: &Service,
    asked: Asked,
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    for by_label in [false, true] {
        let (mut latency, mut bad) = (histogram()?, 0);
        let mut connection = service.connect().await?;
        for number in 0..PAGES {
            // Spread over all values.
            let value = by_label.then_some(number * 7919 % asked.values);
            let begun = service.time.moment();
            let answer = connection.get(&asked.path(value)).await?;
            latency.saturating_record(micros(service.time.moment().since(begun)));
            let page: Value = serde_json::from_slice(answer)?;
            let tasks = match value {
                None => asked.tasks,
                Some(value) => (asked.tasks + asked.values - 1 - value) / asked.values,
            };
            bad += u64::from(!is_right(&page, tasks.min(PAGE), value));
        }
        let by = if by_label { "label" } else { "callback" };
        let case = format!("{case}: first page by {by}");
        tell(&latency, &case, report);
        if bad > 0 {
            report.fault(format!(
                "{case}: {bad} of {PAGES} pages were short or wrong"
            ));
        }
    }
    Ok(())
}

fn tell(latency: &Histogram<u64>, case: &str, report: &mut Report) {
    let p99 = latency.value_at_quantile(0.99) as f64 / 1000.0;
    report.times(case.to_owned(), latency, Check::default());
    report.aimed(format!("{case}, p99"), p99, "ms", AIM);
}

/// Tells whether a page has so many tasks, all with this value.
fn is_right(page: &Value, wanted: u64, value: Option<u64>) -> bool {
    let Some(tasks) = page.get("tasks").and_then(Value::as_array) else {
        return false;
    };
    let value = value.map(|value| format!("t{value}"));
    let fits = |task: &Value| {
        let found = task.pointer("/labels/tenant").and_then(Value::as_str);
        value.is_none() || found == value.as_deref()
    };
    tasks.len() as u64 == wanted && tasks.iter().all(fits)
}

/// Reads all pages of the first value, and compares them with what was registered.
async fn walk(
    service: &Service,
    asked: Asked,
    registered: &[Registered],
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut connection = service.connect().await?;
    let (mut found, mut token) = (Vec::new(), String::new());
    let begun = service.time.moment();
    loop {
        let path = format!("{}&page_token={token}", asked.path(Some(0)));
        let page: Value = serde_json::from_slice(connection.get(&path).await?)?;
        let tasks = page
            .get("tasks")
            .and_then(Value::as_array)
            .context("no tasks")?;
        for task in tasks {
            let id: Uuid = task
                .get("id")
                .and_then(Value::as_str)
                .context("no id")?
                .parse()?;
            found.push(id.as_u128());
        }
        match page.get("next_page_token").and_then(Value::as_str) {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
        ensure!(
            service.time.moment().since(begun) < PATIENCE,
            "a list without an end"
        );
    }
    let wrong = differences(registered, &found);
    if wrong > 0 {
        report.fault(format!(
            "{case}: {wrong} tasks of a label were listed wrongly"
        ));
    }
    Ok(())
}

/// Counts tasks that are missing in a list, are listed twice, or should not be there.
fn differences(registered: &[Registered], found: &[u128]) -> usize {
    let wanted: HashSet<u128> = registered.iter().map(|task| task.id).collect();
    let listed: HashSet<u128> = found.iter().copied().collect();
    found.len() - listed.len() + wanted.symmetric_difference(&listed).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_twice_and_strange_tasks_are_counted() {
        let registered = [1, 2, 3].map(|id| Registered {
            id,
            due: Millis(0),
            index: 0,
        });
        assert_eq!(differences(&registered, &[3, 1, 2]), 0);
        assert_eq!(differences(&registered, &[1, 1, 2, 9]), 3);
    }

    #[test]
    fn a_short_page_and_a_wrong_label_are_not_right() {
        let page: Value =
            serde_json::from_str(r#"{"tasks":[{"labels":{"tenant":"t1"}}]}"#).unwrap();
        assert!(is_right(&page, 1, Some(1)));
        assert!(is_right(&page, 1, None));
        assert!(!is_right(&page, 2, Some(1)));
        assert!(!is_right(&page, 1, Some(2)));
        assert!(!is_right(&Value::Null, 0, None));
    }
}
