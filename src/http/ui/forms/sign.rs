//! The sign-in keeps a key in a cookie of the browser, and the sign-out forgets it. The service keeps nothing of either.

use axum::{
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
};

use super::posted::Posted;
use crate::{
    http::ui::{
        gate::{Condition, Failure},
        pages::sign_in,
        visit::{Head, own_path},
    },
    model::access::KeyText,
};

/// Takes a key, if the service knows it.
pub(in crate::http::ui) async fn sign_in(head: Head, posted: Posted) -> Response {
    let next = own_path(&posted.or_empty("next"));
    let key = posted.or_empty("key");
    let refused = |problem: &str| again(&head, next.clone(), problem);
    let Some(key) = KeyText::read(&key) else {
        return refused(
            "This is no API key: a key begins with twk_ and is shown once, when it is made.",
        );
    };
    let key = key.reveal();
    let line = head.line.clone().with_key(&key);
    let gate = &head.ui.gate;
    match gate
        .call(&line, Method::GET, "/v1/whoami", None, Condition::Any)
        .await
    {
        Ok(_) => head.signed(&key, &next),
        Err(failure) if failure.is_of_key() => refused(&failure.detail),
        Err(Failure { detail, .. }) => refused(&detail),
    }
}

fn again(head: &Head, next: String, problem: &str) -> Response {
    match sign_in::page(head, next, Some(problem.to_owned())) {
        Ok(html) => head.shown(StatusCode::UNAUTHORIZED, html),
        Err(failure) => (failure.status, failure.detail).into_response(),
    }
}

/// Shows the form.
pub(in crate::http::ui) async fn ask(head: Head) -> Response {
    let next = own_path(&head.parameter("next").unwrap_or_default());
    match sign_in::page(&head, next, None) {
        Ok(html) => head.shown(StatusCode::OK, html),
        Err(failure) => (failure.status, failure.detail).into_response(),
    }
}

/// Forgets the key.
pub(in crate::http::ui) async fn sign_out(head: Head, _: Posted) -> Response {
    head.signed("", "/sign-in")
}
