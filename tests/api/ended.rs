//! A list of a callback shows ended tasks for their whole retention, also where the store cannot list them itself.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::model::{ids::TaskId, state::Outcome};

use super::Site;
use crate::sim::world::Behaviour;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A task that starts in some seconds.
async fn register(site: &Site, rest: Value) -> String {
    let mut body = json!({"callback": "work", "delay": "5s"});
    body.as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    let answer = site.post("/v1/tasks", body.to_string()).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    answer.json()["id"].as_str().unwrap().to_owned()
}

fn id_of(text: &str) -> TaskId {
    text.parse().unwrap()
}

/// All tasks of a list, by pages of this size: each once.
async fn listed(site: &Site, query: &str, page_size: usize) -> BTreeSet<(String, String)> {
    let (mut all, mut token) = (Vec::new(), String::new());
    for _ in 0..200 {
        let query = format!("/v1/tasks?{query}&page_size={page_size}&page_token={token}");
        let page = site.get(&query).await.ok();
        let tasks = page["tasks"].as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        all.extend(
            tasks
                .iter()
                .map(|task| (text(&task["id"]), text(&task["state"]))),
        );
        match page["next_page_token"].as_str() {
            Some(next) => token = next.to_owned(),
            None => {
                let count = all.len();
                let each: BTreeSet<_> = all.into_iter().collect();
                assert_eq!(each.len(), count, "a task is listed twice: {query}");
                return each;
            }
        }
    }
    panic!("the list has no end");
}

struct Ended {
    site: Site,
    failed: String,
    dead: String,
    /// It dies, and succeeds once it is redriven.
    mended: String,
    cancelled: String,
    succeeded: String,
}

/// One task in each of these states, long after their entries were erased. The failed one can be read for two hours.
async fn ended() -> Ended {
    let site = Site::new();
    site.world.pass(5 * SECOND).await;
    let failed = register(&site, json!({"retention": "2h"})).await;
    let dead = register(&site, json!({"max_attempts": 1})).await;
    let mended = register(&site, json!({"max_attempts": 1})).await;
    let succeeded = register(&site, json!({})).await;
    let cancelled = register(&site, json!({"delay": "20h"})).await;
    let (fails, dies, mends) = (id_of(&failed), id_of(&dead), id_of(&mended));
    let behaviour: Behaviour = Arc::new(move |id, attempt| {
        let error = "no route".to_owned();
        let outcome = if id == fails {
            Outcome::Failed { error }
        } else if id == dies || id == mends && attempt == 1 {
            Outcome::Retry { error, after: None }
        } else {
            Outcome::Succeeded { result: None }
        };
        (SECOND / 10, Some(outcome))
    });
    site.world.worker(site.node.service(), behaviour);
    let path = format!("/v1/tasks/{cancelled}/cancel");
    site.post(&path, "").await.ok();
    site.world.pass(20 * MINUTE).await;
    Ended {
        site,
        failed,
        dead,
        mended,
        cancelled,
        succeeded,
    }
}

fn set(tasks: &[(&String, &str)]) -> BTreeSet<(String, String)> {
    let tasks = tasks.iter();
    tasks
        .map(|(id, state)| ((*id).clone(), (*state).to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_ended_badly_is_listed_as_long_as_it_can_be_read() {
    let Ended {
        site,
        failed,
        dead,
        mended,
        cancelled,
        succeeded,
    } = ended().await;
    let waits = register(&site, json!({"delay": "2h"})).await;
    let all = set(&[
        (&waits, "scheduled"),
        (&failed, "failed"),
        (&dead, "dead"),
        (&mended, "dead"),
        (&cancelled, "cancelled"),
    ]);
    for page_size in [100, 1] {
        assert_eq!(listed(&site, "callback=work", page_size).await, all);
    }
    for (id, state) in [(&failed, "failed"), (&cancelled, "cancelled")] {
        let query = format!("callback=work&state={state}");
        assert_eq!(listed(&site, &query, 100).await, set(&[(id, state)]));
    }
    let error = "callback=work&state=failed&error=another";
    assert_eq!(listed(&site, error, 100).await, set(&[]));
    let other = listed(&site, "callback=other", 100).await;
    assert_eq!(other, set(&[]));
    let good = listed(&site, "callback=work&state=succeeded", 100).await;
    assert_eq!(good, set(&[]), "{succeeded}");
    // A redriven task is listed as it is now, and a deleted one no more.
    for id in [&dead, &mended] {
        site.post(&format!("/v1/tasks/{id}/run"), "").await.ok();
    }
    site.world.pass(10 * MINUTE).await;
    let again = listed(&site, "callback=work&state=dead", 1).await;
    assert_eq!(
        again,
        set(&[(&dead, "dead")]),
        "it died again and is listed once, and the other has succeeded"
    );
    let letter = format!("/v1/dead-letters/{dead}");
    assert_eq!(site.delete(&letter).await.status, 204);
    assert_eq!(
        listed(&site, "callback=work&state=dead", 100).await,
        set(&[])
    );
    site.world.pass(60 * MINUTE).await;
    let failures = listed(&site, "callback=work&state=failed", 100).await;
    assert_eq!(failures, set(&[(&failed, "failed")]));
    site.world.pass(40 * MINUTE).await;
    assert_eq!(
        listed(&site, "callback=work&state=failed", 100).await,
        set(&[]),
        "it can be read no more"
    );
}

#[tokio::test(start_paused = true)]
async fn what_succeeded_is_listed_where_the_callback_asks_for_it() {
    let Ended {
        site, succeeded, ..
    } = ended().await;
    let answer = site
        .put("/v1/callbacks/work", &json!({"list_succeeded": true}))
        .await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
    assert_eq!(answer.json()["list_succeeded"], true);
    site.world.pass(3 * SECOND).await;
    let later = register(&site, json!({})).await;
    site.world.pass(20 * MINUTE).await;
    let query = "callback=work&state=succeeded";
    assert_eq!(
        listed(&site, query, 100).await,
        set(&[(&later, "succeeded")]),
        "{succeeded} ended before"
    );
    assert!(
        listed(&site, "callback=work", 1)
            .await
            .contains(&(later, "succeeded".to_owned()))
    );
}
