//! First claims have actions and notices where a client asks for them, once for each life of a task.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tickwheel::model::state::Outcome;

use super::actions::{email, read, registered, site};
use crate::sim::world::Behaviour;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn an_action_is_done_at_the_first_claim_and_at_no_later_one() {
    let (site, letters) = site().await;
    // It is given back, fails, and dies.
    let outcomes: Behaviour = Arc::new(|_, attempt| {
        let outcome = match attempt {
            1 => Outcome::Snoozed { after: SECOND },
            _ => Outcome::Retry {
                error: "no route".to_owned(),
                after: Some(SECOND),
            },
        };
        (SECOND / 10, Some(outcome))
    });
    site.world.worker(site.node.service(), outcomes);
    let mail = |subject: &str| email(subject, "{{task.state}} {{task.attempt}}");
    let actions = json!([
        {"states": ["claimed"], "email": mail("begun")},
        {"states": ["dead", "claimed"], "email": mail("both")},
        {"email": mail("ended")},
    ]);
    let body = json!({"callback": "work", "delay": "1s", "max_attempts": 2, "actions": actions});
    let id = registered(&site, &body).await;
    assert_eq!(read(&site, &id).await["actions"], actions);
    let sent = || {
        let mut sent: Vec<(String, String)> = letters
            .taken()
            .into_iter()
            .map(|(_, mail)| (mail.subject, mail.body))
            .collect();
        sent.sort_unstable();
        sent
    };
    let is = |subject: &str, body: &str| (subject.to_owned(), body.to_owned());
    site.world.pass(SECOND * 2).await;
    assert_eq!(sent(), [is("begun", "claimed 1"), is("both", "claimed 1")]);
    let shown = read(&site, &id).await["actions"].clone();
    let outcomes: Vec<Option<&str>> = (0..3)
        .map(|place| shown[place]["outcome"].as_str())
        .collect();
    assert_eq!(outcomes, [Some("done"), Some("done"), None], "{shown}");
    site.world.pass(SECOND * 20).await;
    assert_eq!(read(&site, &id).await["state"], "dead");
    let all = sent();
    let ends = [is("both", "dead 3"), is("ended", "dead 3")];
    assert!(
        all.len() == 4 && ends.iter().all(|end| all.contains(end)),
        "{all:?}"
    );
    // A redrive begins another life.
    site.post(&format!("/v1/tasks/{id}/run"), "").await.ok();
    site.world.pass(SECOND * 20).await;
    let again = sent();
    assert_eq!(again[1], is("begun", "claimed 4"), "{again:?}");
    assert_eq!(again.len(), 8, "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_told_by_those_alone_that_name_it() {
    let (site, letters) = site().await;
    let succeeds: Behaviour = Arc::new(|_, _| (SECOND, Some(Outcome::Succeeded { result: None })));
    site.world.worker(site.node.service(), succeeds);
    let body = json!({"callback": "work", "actions": [{"email": email("s", "{{task.state}}")}]});
    registered(&site, &body).await;
    site.world.pass(SECOND * 5).await;
    let sent = letters.taken();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].1.body, "succeeded");
    let follow = json!([{"states": ["claimed"], "task": {"callback": "work"}}]);
    let body = json!({"callback": "work", "then": follow});
    let answer = site.post("/v1/tasks", body.to_string()).await;
    let errors: Value = answer.json()["errors"].clone();
    assert_eq!(errors[0]["pointer"], "/then/0/states", "{errors}");
}
