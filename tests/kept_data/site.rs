//! A site sends the requests of a test of kept data to a node.

use serde_json::Value;

/// Parts of answers that another minute may show differently: tokens, the version of the data about time zones, and figures of
/// a callback that a node counts since its start.
const LEFT_OUT: [&str; 8] = [
    "next_page_token",
    "time_zone_version",
    "workers",
    "lateness",
    "partial",
    "ready",
    "retrying",
    "running",
];

/// A node, and the key to get in with.
pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) key: String,
    http: reqwest::Client,
}

impl Site {
    pub(crate) fn new(url: &str, key: &str) -> Self {
        Self {
            url: url.to_owned(),
            key: key.to_owned(),
            http: reqwest::Client::new(),
        }
    }

    /// Sends a request; returns status and answer.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let method = method.parse().unwrap();
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if !self.key.is_empty() {
            request = request.bearer_auth(&self.key);
        }
        if !body.is_null() {
            let json = "application/json";
            request = request.header("content-type", json).body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let bytes = answer.bytes().await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Sends a request that must be a success.
    pub(crate) async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(method, path, &body).await;
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {answer} for {body}"
        );
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.done("GET", path, Value::Null).await
    }

    /// Hands out tasks of these callbacks that are due.
    pub(crate) async fn poll(&self, callbacks: &[&str], max: u32, wait: &str) -> Vec<Value> {
        let poll = serde_json::json!({
            "worker": "w", "callbacks": callbacks, "max_tasks": max, "wait": wait,
        });
        let polled = self.done("POST", "/v1/worker/poll", poll).await;
        polled["tasks"].as_array().unwrap().clone()
    }

    /// Reports on a task; `more` has the outcome.
    pub(crate) async fn settle(&self, task: &Value, more: &Value) -> Value {
        let mut item = serde_json::json!({"id": task["id"], "attempt": task["attempt"]});
        for (name, value) in more.as_object().unwrap() {
            item[name] = value.clone();
        }
        let body = serde_json::json!({"worker": "w", "tasks": [item]});
        let settled = self.done("POST", "/v1/worker/settle", body).await;
        settled["results"][0].clone()
    }
}

/// Tells whether everything that is kept is in the answer of now, which may have more fields.
pub(super) fn is_within(kept: &Value, now: &Value) -> Result<(), String> {
    match (kept, now) {
        (Value::Object(kept), Value::Object(now)) => {
            let told = kept
                .iter()
                .filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
            for (name, kept) in told {
                let now = now
                    .get(name)
                    .ok_or_else(|| format!(" {name} is not there"))?;
                is_within(kept, now).map_err(|differs| format!(" {name}{differs}"))?;
            }
            Ok(())
        }
        (Value::Array(kept), Value::Array(now)) => {
            if kept.len() != now.len() {
                return Err(format!(": {} items instead of {}", now.len(), kept.len()));
            }
            for (at, (kept, now)) in kept.iter().zip(now).enumerate() {
                is_within(kept, now).map_err(|differs| format!(" [{at}]{differs}"))?;
            }
            Ok(())
        }
        _ if kept == now => Ok(()),
        _ => Err(format!(": {now} instead of {kept}")),
    }
}
