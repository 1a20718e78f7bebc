//! The last key of an admin cannot go, whatever happens at the same time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::http::Method;
use serde_json::{Value, json};
use tickwheel::doubles::store::faulty::Fate;

use super::{
    Answer, Site,
    keys_and_roles::{SECOND, closed},
};

async fn revoke(site: &Site, by: &str, id: &str) -> Answer {
    let path = format!("/v1/api-keys/{id}");
    site.by(by, Method::DELETE, &path, &Value::Null).await
}

/// A node of the world of another one.
async fn beside(site: &Site) -> Site {
    let world = site.world.clone();
    let node = world.node(2);
    let other = Site::of(world, node);
    other.world.pass(3 * SECOND).await;
    other
}

fn admin(name: &str) -> Value {
    json!({"name": name, "role": "admin"})
}

#[tokio::test(start_paused = true)]
async fn two_admins_who_revoke_each_other_at_once_leave_one_of_them() {
    let (site, root) = closed().await;
    let other = beside(&site).await;
    let viewer = json!({"name": "v", "role": "viewer"});
    site.key(&root, viewer).await;
    let who = site.get_by(&root, "/v1/whoami").await.ok();
    let mut last = (who["id"].as_str().unwrap().to_owned(), root);
    for round in 0..20 {
        let next = site.key(&last.1, admin("next")).await;
        site.world.pass(3 * SECOND).await;
        let (one, two) = tokio::join!(
            revoke(&site, &last.1, &next.0),
            revoke(&other, &next.1, &last.0)
        );
        let statuses = [one.status.as_u16(), two.status.as_u16()];
        assert!(
            statuses == [204, 409] || statuses == [409, 204],
            "round {round}: {statuses:?} {:?} {:?}",
            one.body,
            two.body
        );
        last = if statuses[0] == 204 { last } else { next };
        site.get_by(&last.1, "/v1/api-keys").await.ok();
    }
}

/// The last key of all may go. A key that is made meanwhile is one of an admin, or it is not made.
#[tokio::test(start_paused = true)]
async fn the_very_last_key_does_not_go_beside_the_first_other_one() {
    let (site, root) = closed().await;
    let other = beside(&site).await;
    let who = site.get_by(&root, "/v1/whoami").await.ok();
    let id = who["id"].as_str().unwrap();
    let viewer = json!({"name": "v", "role": "viewer"});
    let (gone, made) = tokio::join!(
        revoke(&site, &root, id),
        other.post_by(&root, "/v1/api-keys", viewer)
    );
    let statuses = [gone.status.as_u16(), made.status.as_u16()];
    assert!(
        statuses == [204, 409] || statuses == [409, 201],
        "{statuses:?}"
    );
}

/// The writer of a change dies between its decision and its effect: the next change completes it, and counts with it.
#[tokio::test(start_paused = true)]
async fn a_revocation_that_was_decided_counts_for_the_next_one() {
    let (site, root) = closed().await;
    let viewer = json!({"name": "v", "role": "viewer"});
    site.key(&root, viewer).await;
    let (next, key) = site.key(&root, admin("next")).await;
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    let fates: crate::sim::world::Fates = Arc::new(move |_, call| {
        let is_second =
            call.operation == "swap_record" && counted.fetch_add(1, Ordering::SeqCst) == 1;
        if is_second { Fate::Fail } else { Fate::Go }
    });
    let world = site.world.clone();
    let node = world.node_with(2, fates);
    let broken = Site::of(world, node);
    broken.world.pass(3 * SECOND).await;
    writes.store(0, Ordering::SeqCst);
    let failed = revoke(&broken, &root, &next).await;
    assert_eq!(failed.status, 503, "{:?}", failed.body);
    let who = site.get_by(&root, "/v1/whoami").await.ok();
    let last = revoke(&site, &key, who["id"].as_str().unwrap()).await;
    assert_eq!(last.status, 409, "{:?}", last.body);
    let keys = site.get_by(&root, "/v1/api-keys").await.ok();
    let names = keys["api_keys"].as_array().unwrap().iter();
    let mut names: Vec<&str> = names.map(|key| key["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["root", "v"]);
}
