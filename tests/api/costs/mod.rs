//! The page of capacity tells operators how many rows each feature writes and reads; these tests count them in the store.
//!
//! A line of its table is the difference of two runs, one of which has one task, child or run more.

mod counted;

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use serde_json::{Value, json};
use tickwheel::model::{state::Outcome, time::rfc3339};

use counted::{Counted, Rows, SECOND};

/// The name of a line, and what it says.
type Line = (&'static str, Rows);

/// Tasks of one shape, and their surroundings.
struct Case {
    /// The configuration of their callback, if there is one.
    callback: Value,
    task: Value,
    outcome: fn(u32) -> Outcome,
}

fn succeeded(_: u32) -> Outcome {
    Outcome::Succeeded { result: None }
}

fn failed(_: u32) -> Outcome {
    Outcome::Failed {
        error: "no".to_owned(),
    }
}

fn retries_once(attempt: u32) -> Outcome {
    if attempt > 1 {
        return succeeded(attempt);
    }
    Outcome::Retry {
        error: "no".to_owned(),
        after: None,
    }
}

fn has_a_large_result(_: u32) -> Outcome {
    let result = vec![b'"'; 20_000];
    Outcome::Succeeded {
        result: Some(bytes::Bytes::from(result).into()),
    }
}

/// Tasks that succeed.
fn tasks(task: Value) -> Case {
    Case {
        callback: Value::Null,
        task,
        outcome: succeeded,
    }
}

impl Case {
    fn of(self, callback: Value) -> Self {
        Self { callback, ..self }
    }

    fn ending(self, outcome: fn(u32) -> Outcome) -> Self {
        Self { outcome, ..self }
    }

    async fn count(&self, tasks: u32) -> Rows {
        let counted = Counted::new().await;
        if self.task.get("http").is_some() {
            counted.delivers();
        } else {
            counted.executes();
        }
        if !self.callback.is_null() {
            let answer = counted.site.put("/v1/callbacks/work", &self.callback);
            assert_eq!(answer.await.status, 201);
        }
        counted.site.world.pass(5 * SECOND).await;
        counted.works(self.outcome);
        counted.take();
        for number in 1..=tasks {
            counted.register(number, &self.task).await;
        }
        counted.all().await
    }

    /// Counts what one task costs.
    async fn each(self) -> Rows {
        self.count(2).await - self.count(1).await
    }
}

/// Counts trees that have so many children each.
async fn trees(trees: u32, children: usize) -> Rows {
    let child = json!({"callback": "work", "delay": "5m"});
    tasks(json!({"children": vec![child; children]}))
        .count(trees)
        .await
}

/// Counts tasks that wait for as many others.
async fn waiters(waiters: u32, dependencies: u32) -> Rows {
    let counted = Counted::new().await;
    counted.succeeds();
    counted.take();
    for waiter in 0..waiters {
        let mut ids = Vec::new();
        for number in 1..=dependencies {
            ids.push(counted.register(number + 4 * waiter, &json!({})).await);
        }
        let after = json!({"after": {"ids": ids, "condition": "all_succeeded"}, "delay": "0s"});
        counted.register(0, &after).await;
    }
    counted.all().await
}

/// Counts tasks that are held for a while and then released. Opening and closing the gate is the same for each number of them.
async fn held(tasks: u32) -> Rows {
    let counted = Counted::new().await;
    counted.succeeds();
    let path = "/v1/callbacks/work";
    let gate = format!("{path}/gate");
    counted.site.post(&gate, r#"{"gate":"paused"}"#).await.ok();
    counted.site.world.pass(5 * SECOND).await;
    counted.take();
    for _ in 0..tasks {
        counted.register(0, &json!({})).await;
    }
    counted.site.world.pass(40 * SECOND).await;
    counted.site.post(&gate, r#"{"gate":"open"}"#).await.ok();
    counted.all().await
}

/// Counts tasks that have died, and their redrives until they have succeeded.
async fn redriven(tasks: u32) -> Rows {
    let counted = Counted::new().await;
    counted.works(retries_once);
    let mut ids = Vec::new();
    for number in 1..=tasks {
        ids.push(counted.register(number, &json!({"max_attempts": 1})).await);
    }
    counted.all().await;
    // So that the time is the same for each number of them.
    for number in 0..2 {
        if let Some(id) = ids.get(number) {
            let path = format!("/v1/tasks/{id}/run");
            counted.site.post(&path, "").await.ok();
        }
        counted.site.world.pass(30 * SECOND).await;
    }
    counted.all().await
}

/// Counts what cancels tasks: one call each, or one job.
async fn cancelled(tasks: u32, by_job: bool) -> Rows {
    let counted = Counted::new().await;
    let mut ids = Vec::new();
    for number in 1..=tasks {
        ids.push(counted.register(number, &json!({"delay": "1h"})).await);
    }
    counted.site.world.pass(5 * SECOND).await;
    let site = &counted.site;
    let to = rfc3339(site.world.time.now().after(7200 * SECOND));
    counted.take();
    if by_job {
        let filter = json!({"callback": "work", "start_time_to": to});
        let job = json!({"kind": "cancel", "filter": filter});
        let answer = site.post("/v1/jobs", job.to_string()).await;
        assert_eq!(answer.status, 202, "{:?}", answer.body);
    } else {
        for id in &ids {
            let path = format!("/v1/tasks/{id}/cancel");
            site.post(&path, "").await.ok();
        }
    }
    let rows = counted.all().await;
    let last = format!("/v1/tasks/{}", ids[ids.len() - 1]);
    assert_eq!(counted.site.get(&last).await.ok()["state"], "cancelled");
    rows
}

/// Counts the runs of a schedule.
async fn runs(limit: u64) -> Rows {
    let counted = Counted::new().await;
    counted.succeeds();
    let body =
        json!({"every": "20s", "limit": limit, "overlap": "allow", "task": {"callback": "work"}});
    let answer = counted.site.put("/v1/schedules/s", &body).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    counted.all().await
}

/// Counts a plain task.
async fn plain() -> Rows {
    tasks(json!({})).each().await
}

/// Counts what the names of a task add to a plain one.
async fn names(base: Rows) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, field) in [
        ("`key`", "key"),
        ("`Idempotency-Key`", "idempotency_key"),
        ("`ordering_key`", "ordering_key"),
    ] {
        let rows = tasks(json!({field: "k#"})).each().await;
        lines.push((name, rows - base));
    }
    lines
}

/// Counts what the shape of a task, its callback and its end add to a plain one.
async fn shapes_and_ends(base: Rows) -> Vec<Line> {
    let label = tasks(json!({"labels": {"t": "a"}})).of(json!({"indexed_labels": ["t"]}));
    let rate = tasks(json!({})).of(json!({"rate": {"per_second": 10}}));
    let running = tasks(json!({})).of(json!({"max_in_flight": 10}));
    let retry = json!({"initial": "20s", "factor": 1, "max": "20s", "jitter": "none"});
    let cases = [
        (
            "content above 1 KiB",
            tasks(json!({"payload": "x".repeat(5000)})),
        ),
        (
            "a task over `http`",
            tasks(json!({"http": {"url": "http://a.example/"}})),
        ),
        ("a label in `indexed_labels`", label),
        ("`rate`, a task that comes alone", rate),
        ("`max_in_flight`, a task that comes alone", running),
        (
            "a retry",
            tasks(json!({"retry": retry})).ending(retries_once),
        ),
        ("ended as failed", tasks(json!({})).ending(failed)),
        (
            "a dead letter",
            tasks(json!({"max_attempts": 1})).ending(retries_once),
        ),
        (
            "a result above 16 KiB",
            tasks(json!({})).ending(has_a_large_result),
        ),
    ];
    let mut lines = Vec::new();
    for (name, case) in cases {
        lines.push((name, case.each().await - base));
    }
    lines.push((
        "held by a gate and released",
        held(2).await - held(1).await - base,
    ));
    lines
}

/// Counts what other tasks cost that come with one.
async fn relatives(base: Rows) -> Vec<Line> {
    let tree = trees(1, 1).await;
    let child = trees(1, 2).await - tree - base;
    let parent = trees(2, 1).await - tree - base - base - child;
    let join = waiters(1, 1).await;
    let dependency = waiters(1, 2).await - join - base;
    let waiter = waiters(2, 1).await - join - base - base - dependency;
    let follow_up = json!({"then": [{"states": ["succeeded"], "task": {"callback": "work"}}]});
    let notify = json!({"notify": {"kafka": {"topic": "ends"}}});
    vec![
        ("a parent", parent),
        ("a child", child),
        (
            "`then`, for each follow-up",
            tasks(follow_up).each().await - base - base,
        ),
        ("`after`", waiter),
        ("`after`, for each task in it", dependency),
        (
            "`notify`, with its delivery",
            tasks(notify).each().await - base,
        ),
    ]
}

/// Counts what is done to tasks by calls, jobs and schedules.
async fn by_others(base: Rows) -> Vec<Line> {
    let job = cancelled(41, true).await - cancelled(1, true).await;
    vec![
        (
            "a run of a schedule",
            (runs(15).await - runs(5).await) * 0.1 - base,
        ),
        (
            "a redrive of a dead task",
            redriven(2).await - redriven(1).await,
        ),
        (
            "a cancel",
            cancelled(2, false).await - cancelled(1, false).await,
        ),
        ("a cancel by a job", job * (1.0 / 40.0)),
    ]
}

fn numbers(rows: Rows) -> String {
    let number = |rows: f64| {
        let text = format!("{:.1}", (rows * 10.0).round() / 10.0 + 0.0);
        text.trim_end_matches(".0").to_owned()
    };
    let Rows {
        plain,
        conditional,
        read,
    } = rows;
    format!(
        "{} | {} | {} |",
        number(plain),
        number(conditional),
        number(read)
    )
}

/// The lines of the page: each name with its numbers.
fn told() -> BTreeMap<String, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/capacity.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (_, section) = page.split_once("### What a feature adds\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let lines = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let lines = lines.map(|(name, rest)| (name.to_owned(), rest.to_owned()));
    // The head of the table has no name.
    lines.filter(|(name, _)| !name.starts_with('|')).collect()
}

#[track_caller]
fn are_told(lines: &[Line]) {
    let told = told();
    let mut counted = String::new();
    for (name, rows) in lines {
        writeln!(counted, "| {name} | {}", numbers(*rows)).unwrap();
    }
    // All at once: the count takes minutes.
    let differs = |(name, rows): &&Line| told.get(*name) != Some(&numbers(*rows));
    let other: Vec<&str> = lines
        .iter()
        .filter(differs)
        .map(|(name, _)| *name)
        .collect();
    assert!(
        other.is_empty(),
        "docs/capacity.md has other numbers of {other:?}; counted:\n{counted}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_without_any_feature_costs_two_plain_and_two_conditional_writes() {
    let base = plain().await;
    assert_eq!((base.plain, base.conditional), (2.0, 2.0), "{base:?}");
    are_told(&[("a task of a callback", base)]);
}

#[tokio::test(start_paused = true)]
#[ignore = "counts some fifty simulated runs of ten minutes: make test-all"]
async fn the_page_of_capacity_says_what_each_feature_writes_and_reads() {
    let base = plain().await;
    let mut lines = vec![("a task of a callback", base)];
    lines.extend(names(base).await);
    lines.extend(shapes_and_ends(base).await);
    lines.extend(relatives(base).await);
    lines.extend(by_others(base).await);
    are_told(&lines);
    assert_eq!(told().len(), lines.len(), "{:?}", told());
}
