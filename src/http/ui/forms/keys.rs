//! The form of keys makes one, which is shown once, or revokes one.

use std::borrow::Cow;

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::posted::{Done, Posted};
use crate::{
    api::api_key::ApiKeyResponse,
    http::ui::{
        gate::Failure,
        pages::keys::{fields, shown},
        parts::{form::mistaken, frame::part, text::visible},
        visit::Visit,
    },
};

/// Does what the form says.
pub(in crate::http::ui) async fn act(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    match posted.text("act").unwrap_or_default() {
        "create" => create(visit, posted).await,
        "revoke" => {
            let path = format!("/v1/api-keys/{}", part(&posted.or_empty("id")));
            visit.call(Method::DELETE, &path, None::<&()>).await?;
            Ok(Done::good("/keys", "The key is revoked."))
        }
        other => Err(Failure::not_found(format!(
            "nothing is done by {}",
            visible(other)
        ))),
    }
}

async fn create(visit: &Visit, posted: &Posted) -> Result<Done, Failure> {
    let mut wish = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        wish.extend(value.map(|value| (name.to_owned(), value)));
    };
    let text = |name| posted.text(name);
    add("name", Some(json!(posted.or_empty("name"))));
    add("role", text("role").map(|role| json!(role)));
    add(
        "callbacks",
        text("callbacks").map(|names| {
            let names = names.split(',').map(str::trim);
            json!(names.filter(|name| !name.is_empty()).collect::<Vec<_>>())
        }),
    );
    add("expire_time", text("expire_time").map(|time| json!(time)));
    add(
        "payloads",
        text("payloads").map(|sees| json!(sees == "true")),
    );
    match visit.call(Method::POST, "/v1/api-keys", Some(&wish)).await {
        Ok(answer) => {
            let made: ApiKeyResponse = answer.read()?;
            let empty = fields(&|_| String::new());
            shown(visit, empty, None, made.key).await.map(Done::Again)
        }
        Err(failure) if failure.status.is_client_error() && !failure.is_of_key() => {
            let mut sent = fields(&|name| posted.or_empty(name));
            let wrong = mistaken(&mut sent, &failure, |name| Cow::Owned(format!("/{name}")));
            shown(visit, sent, Some(wrong), None).await.map(Done::Again)
        }
        Err(failure) => Err(failure),
    }
}
