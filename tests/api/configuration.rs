//! The configuration of a service is carried to another one over HTTP, for its administrators.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Site,
    callbacks::ready,
    keys_and_roles::{closed, code},
};

const SECOND: Duration = Duration::from_secs(1);
const EXPORT: &str = "/v1/configuration:export";
const IMPORT: &str = "/v1/configuration:import";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A callback with every field that can be set.
fn everything() -> Value {
    json!({
        "description": "Sends mail",
        "max_attempts": 8,
        "retry": {"initial": "2s", "factor": 3.0, "max": "1h", "jitter": "none"},
        "claim_timeout": "2m",
        "heartbeat_timeout": "1m",
        "attempt_timeout": "10m",
        "retention": "3d",
        "dead_retention": "30d",
        "expire_after": "24h",
        "priority": "high",
        "labels": {"team": "mail"},
        "rate": {"per_second": 50.0, "burst": 100},
        "max_in_flight": 200,
        "indexed_labels": ["order", "user"],
        "notify": {"http": {"url": "https://hooks.example/ended", "method": "POST"}},
        "http": {
            "url": "https://hooks.example/mail",
            "headers": {"x-team": "mail"},
            "timeout": "5s",
            "secrets": [SECRET],
            "retry_4xx": false,
            "max_in_flight": 40
        },
        "on_retry": "skip",
        "list_succeeded": true
    })
}

/// Reads all pages of an export.
async fn export(site: &Site, key: &str) -> Vec<Value> {
    let (mut items, mut asked) = (Vec::new(), json!({}));
    loop {
        let answer = site.post_by(key, EXPORT, asked).await;
        assert_eq!(answer.header("cache-control"), "no-store");
        let mut page = answer.ok();
        items.append(page["items"].as_array_mut().unwrap());
        let Some(token) = page["next_page_token"].as_str() else {
            return items;
        };
        asked = json!({"page_token": token});
    }
}

/// Imports items; returns for each its outcome, or the pointer or the code of its error.
async fn import(site: &Site, key: &str, items: &[Value]) -> Vec<String> {
    let answer = match key {
        "" => {
            let body = json!({"items": items}).to_string();
            site.post(IMPORT, body).await
        }
        key => site.post_by(key, IMPORT, json!({"items": items})).await,
    };
    let results = answer.ok();
    let said = |result: &Value| {
        let error = &result["error"];
        let pointer = error["errors"][0]["pointer"].as_str();
        let error = pointer.or_else(|| error["code"].as_str());
        let outcome = result["outcome"].as_str();
        outcome.or(error).unwrap().to_owned()
    };
    results["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(said)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn everything_that_is_configured_is_the_same_at_another_service() {
    let (site, admin) = closed().await;
    for (name, set) in [("send_email", everything()), ("plain", json!({}))] {
        let path = format!("/v1/callbacks/{name}");
        let put = site.by(&admin, axum::http::Method::PUT, &path, &set).await;
        assert_eq!(put.status, 201, "{:?}", put.body);
    }
    let gate = |callback: &str| format!("/v1/callbacks/{callback}/gate");
    let pause = json!({"gate": "paused", "collection": "news", "reason": "no mail", "until": "2036-01-01T00:00:00Z"});
    site.post_by(&admin, &gate("send_email"), pause).await.ok();
    let drop = json!({"gate": "dropping"});
    site.post_by(&admin, &gate("unconfigured"), drop).await.ok();
    let wish = json!({"name": "shop", "role": "producer", "callbacks": ["plain"], "rate": {"per_second": 5.0, "burst": 7},
        "expire_time": "2036-01-01T00:00:00Z"});
    let (_, shop) = site.key(&admin, wish).await;
    let viewer = json!({"name": "eye", "role": "viewer", "payloads": true});
    site.key(&admin, viewer).await;

    let items = export(&site, &admin).await;
    assert_eq!(items.len(), 3 + 3, "{items:#?}");
    let mail = &items[1]["callback"];
    let mut set = everything();
    set["http"]["secrets"] = json!([SECRET]);
    assert_eq!(mail["configuration"], set, "the secret is in it");
    assert_eq!(mail["gates"][0]["who"], "root");

    let other = ready().await;
    assert_eq!(import(&other, "", &items).await, ["created"; 6]);
    // From the first key on every call needs one, and the holders of keys go on using them.
    assert_eq!(code(&other.get("/v1/tasks").await).0, 401);
    let who = other.get_by(&shop, "/v1/whoami").await.ok();
    assert_eq!(who["name"], "shop");
    assert_eq!(export(&other, &admin).await, items);
    assert_eq!(import(&other, &admin, &items).await, ["unchanged"; 6]);
    let audit = other.get_by(&admin, "/v1/audit").await.ok();
    let actions: Vec<&str> = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["action"].as_str())
        .collect();
    assert!(actions.contains(&"exportConfiguration"), "{actions:?}");
    assert!(actions.contains(&"importConfiguration"), "{actions:?}");
}

#[tokio::test(start_paused = true)]
async fn an_import_replaces_a_callback_with_its_gates_and_leaves_what_it_does_not_name() {
    let site = ready().await;
    let set = |description: &str| json!({"description": description});
    site.put("/v1/callbacks/a", &set("old")).await;
    site.put("/v1/callbacks/b", &set("kept")).await;
    for collection in ["x", "y"] {
        let gate = json!({"gate": "paused", "collection": collection}).to_string();
        site.post("/v1/callbacks/a/gate", gate).await.ok();
    }
    let past = "2001-01-01T00:00:00Z";
    let gates = json!([{"gate": "paused", "collection": "y"}, {"gate": "dropping", "collection": "z"},
        {"gate": "paused", "collection": "w", "until": past}]);
    let item = json!({"callback": {"name": "a", "configuration": set("new"), "gates": gates}});
    assert_eq!(import(&site, "", &[item]).await, ["replaced"]);
    let read = site.get("/v1/callbacks/a").await.ok();
    assert_eq!(read["description"], "new");
    let closed = |read: &Value| -> Vec<String> {
        let gates = read["gates"].as_array().unwrap().iter();
        gates
            .map(|gate| format!("{} {}", gate["collection"], gate["gate"]))
            .collect()
    };
    assert_eq!(closed(&read), ["\"y\" \"paused\"", "\"z\" \"dropping\""]);
    assert_eq!(
        site.get("/v1/callbacks/b").await.ok()["description"],
        "kept"
    );
    // A member that an item does not have leaves its part as it is.
    let bare = json!({"callback": {"name": "a"}});
    assert_eq!(import(&site, "", &[bare]).await, ["unchanged"]);
    let open = json!({"callback": {"name": "a", "gates": []}});
    assert_eq!(import(&site, "", &[open]).await, ["replaced"]);
    let read = site.get("/v1/callbacks/a").await.ok();
    assert_eq!(
        (closed(&read).len(), &read["description"]),
        (0, &json!("new"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_item_fails_only_itself_and_says_where() {
    let site = ready().await;
    let callback = |more: Value| {
        let mut item = json!({"name": "good"});
        item.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"callback": item})
    };
    let items = [
        callback(json!({"name": "c1", "configuration": {"max_attempts": 0}})),
        callback(json!({"name": "a b"})),
        callback(json!({"name": "c2", "gates": [{"gate": "paused", "until": "soon"}]})),
        callback(json!({"name": "c3", "gates": [{"gate": "open", "who": "x".repeat(129)}]})),
        callback(json!({"configuration": {"dead_letter_topik": "x"}})),
        json!({"gate": {}}),
        json!({"api_key": {"id": "x", "name": "n", "role": "admin", "create_time": "2026-01-01T00:00:00Z", "secret_sha256": ""}}),
        callback(json!({"configuration": {"description": "set"}})),
    ];
    let results = import(&site, "", &items).await;
    let pointers = [
        "/callback/configuration/max_attempts",
        "/callback/name",
        "/callback/gates/0/until",
        "/callback/gates/0/who",
    ];
    assert_eq!(results[..4], pointers);
    assert_eq!(results[6..], ["/api_key/id", "created"], "{results:?}");
    let read = site.get("/v1/callbacks/good").await.ok();
    assert_eq!(read["description"], "set");
    let twice = [callback(json!({})), callback(json!({"gates": []}))];
    assert_eq!(
        import(&site, "", &twice).await,
        ["unchanged", "/callback/name"]
    );
    let refused = site.post(EXPORT, r#"{"page_token": "x"}"#).await;
    assert_eq!(refused.problem().errors[0].pointer, "/page_token");
}

#[tokio::test(start_paused = true)]
async fn keys_are_never_left_without_an_admin() {
    let (site, admin) = closed().await;
    let (id, worker) = site
        .key(&admin, json!({"name": "w", "role": "worker"}))
        .await;
    let items = export(&site, &admin).await;
    let of_worker = |item: &&Value| item["api_key"]["id"] == json!(id);
    let workers: Vec<Value> = items.iter().filter(of_worker).cloned().collect();
    let open = ready().await;
    assert_eq!(import(&open, "", &workers).await, ["admin_key_needed"]);
    open.get("/v1/tasks").await.ok();
    // The last admin cannot become a viewer.
    let mut demoted = items
        .iter()
        .find(|item| item["api_key"]["role"] == "admin")
        .unwrap()
        .clone();
    demoted["api_key"]["role"] = json!("viewer");
    assert_eq!(
        import(&site, &admin, &[demoted]).await,
        ["admin_key_needed"]
    );
    // A key that was revoked works again: an import says so.
    let path = format!("/v1/api-keys/{id}");
    let revoked = site
        .by(&admin, axum::http::Method::DELETE, &path, &Value::Null)
        .await;
    assert_eq!(revoked.status, 204);
    site.world.pass(Duration::from_secs(2)).await;
    assert_eq!(code(&site.get_by(&worker, "/v1/whoami").await).0, 401);
    assert_eq!(import(&site, &admin, &workers).await, ["created"]);
    site.world.pass(Duration::from_secs(2)).await;
    assert_eq!(site.get_by(&worker, "/v1/whoami").await.ok()["name"], "w");
    // Only an admin may ask.
    let refused = site.post_by(&worker, EXPORT, json!({})).await;
    assert_eq!(refused.status, 403);
}

/// An admin's key that has expired is carried, too, in whatever order the keys come.
#[tokio::test(start_paused = true)]
async fn a_key_that_has_expired_is_carried_beside_one_that_holds() {
    let (site, admin) = closed().await;
    let soon = tickwheel::api::text::InstantText::from(site.world.time.now().after(2 * SECOND));
    for number in 0..6 {
        let wish = json!({"name": format!("old {number}"), "role": "admin", "expire_time": soon.0});
        site.key(&admin, wish).await;
    }
    site.world.pass(3 * SECOND).await;
    let items = export(&site, &admin).await;
    let open = ready().await;
    assert_eq!(import(&open, "", &items).await, ["created"; 7]);
}

#[tokio::test(start_paused = true)]
async fn a_page_that_ends_with_a_host_goes_on() {
    let site = ready().await;
    let gate = json!({"gate": "paused"}).to_string();
    let mut names: Vec<String> = (0..99).map(|n| format!("a{n:02}")).collect();
    names.extend(["http:api.example:8080", "z"].map(str::to_owned));
    for name in &names {
        let path = format!("/v1/callbacks/{name}/gate");
        site.post(&path, gate.clone()).await.ok();
    }
    let body = |token: &Value| json!({"page_token": token}).to_string();
    let first = site.post(EXPORT, "{}").await.ok();
    assert_eq!(first["items"].as_array().unwrap().len(), 100);
    let second = site
        .post(EXPORT, body(&first["next_page_token"]))
        .await
        .ok();
    assert_eq!(second["items"][0]["callback"]["name"], "z");
    let listed = site.get("/v1/callbacks?page_size=100").await.ok();
    let token = listed["next_page_token"].as_str().unwrap();
    let path = format!("/v1/callbacks?page_token={token}");
    let rest = site.get(&path).await.ok();
    assert_eq!(rest["callbacks"][0]["name"], "z");
}
