//! The workers of a kill test use plain HTTP, so that they know every acknowledgement exactly.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel::time_source::Moment;
use tokio_util::sync::CancellationToken;

use super::{
    clients::CALLBACK,
    history::{Execution, Site, instant},
};

const PAUSE: Duration = Duration::from_millis(25);

/// A worker ends its run before its claim ends: the heartbeat timeout of the tasks, less a margin
/// for its own delays.
const RUN_MAX: Duration = Duration::from_millis(2700);

/// A settle that was not answered is repeated for this long; the claim is over long before.
const SETTLE_MAX: Duration = Duration::from_secs(8);

/// Polls and runs until `stop`.
pub(super) async fn work(site: Site, name: String, stop: CancellationToken) {
    let body = json!({"worker": name, "callbacks": [CALLBACK], "max_tasks": 40, "wait": "5s"});
    while !stop.is_cancelled() {
        let asked = site.time.moment();
        let Some(answer) = site.call("/v1/worker/poll", &body).await else {
            site.time.sleep(PAUSE).await;
            continue;
        };
        let waited = answer["waited"].as_str().map_or(Duration::ZERO, millis);
        for task in answer["tasks"].as_array().expect("tasks") {
            tokio::spawn(run(
                site.clone(),
                name.clone(),
                task.clone(),
                asked.after(waited),
            ));
        }
    }
}

/// Reads a duration of an answer: seconds or milliseconds.
fn millis(text: &str) -> Duration {
    let number = |text: &str| text.parse().expect("a whole number");
    match text.strip_suffix("ms") {
        Some(text) => Duration::from_millis(number(text)),
        None => Duration::from_secs(number(text.trim_end_matches('s'))),
    }
}

async fn run(site: Site, worker: String, task: Value, claimed: Moment) {
    let id = task["id"].as_str().expect("an id").to_owned();
    let attempt = task["attempt"].as_u64().expect("an attempt");
    let began = site.time.moment();
    let execution = Execution {
        attempt,
        start: instant(&task["start_time"]),
        began_wall: site.time.now(),
        began,
        ended: None,
        settled: None,
    };
    let index = {
        let mut history = site.history();
        let of_task = history.executions.entry(id.clone()).or_default();
        of_task.push(execution);
        of_task.len() - 1
    };
    let dies = attempt == 1 && task["payload"]["dies"] == true;
    let wanted = Duration::from_millis(task["payload"]["run_ms"].as_u64().expect("a number"));
    let end = began.after(wanted).min(claimed.after(RUN_MAX));
    site.time.sleep_until(end).await;
    let ended = site.time.moment();
    note(&site, &id, index, |execution| execution.ended = Some(ended));
    if dies {
        return;
    }
    let retries = task["payload"]["retries"].as_u64().expect("a number");
    let outcome = if attempt <= retries {
        "retry"
    } else {
        "succeeded"
    };
    let mut item = json!({"id": id, "attempt": attempt, "outcome": outcome});
    if outcome == "retry" {
        item["error"] = json!("once more");
    } else {
        item["result"] = json!({"attempt": attempt});
    }
    let body = json!({"worker": worker, "tasks": [item]});
    while site.time.moment().since(ended) < SETTLE_MAX {
        let answer = site.call("/v1/worker/settle", &body).await;
        match answer
            .as_ref()
            .and_then(|answer| answer["results"][0]["status"].as_str())
        {
            Some("ok") => {
                let now = site.time.moment();
                note(&site, &id, index, |run| run.settled = Some((outcome, now)));
                return;
            }
            Some("lost") => return,
            Some(_) | None => site.time.sleep(PAUSE).await,
        }
    }
}

fn note(site: &Site, id: &str, index: usize, change: impl FnOnce(&mut Execution)) {
    let mut history = site.history();
    let of_task = history.executions.get_mut(id).expect("it was noted");
    change(&mut of_task[index]);
}
