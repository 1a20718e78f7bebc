//! This conversion reads requests over HTTP, and what callbacks say of them, for the domain, and writes them for clients.
//!
//! Addresses are not judged here: a name may lead to another one at any time. The executor judges the address that it connects
//! to ([`crate::model::address`]).

use std::{collections::BTreeMap, time::Duration};

use axum::http::{HeaderName, HeaderValue};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    http_url,
    violations::{Violations, unknown},
};
use crate::{
    api::{
        callback::HttpDefaults,
        target::{HttpTarget, TargetResponse},
        text::{DurationText, shorten},
        time,
    },
    limits::{
        HEADERS_MAX, HTTP_HEADERS_BYTES_MAX, HTTP_IN_FLIGHT_MAX, HTTP_TIMEOUT_MAX,
        HTTP_TIMEOUT_MIN, SECRETS_MAX,
    },
    model::{
        credential,
        http_call::{HttpCall, HttpPolicy, Method, Secret},
    },
};

/// Headers that the service, or the connection, sets.
const OWN: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "traceparent",
];

/// Prefixes of headers that the service sets.
const OWN_PREFIXES: [&str; 2] = ["webhook-", "tickwheel-"];

/// Reads a request, which is the field at `at`. Returns none only when a violation was noted.
pub(super) fn read(at: &str, target: &HttpTarget, wrong: &mut Violations) -> Option<HttpCall> {
    let url = wrong.take(&format!("{at}/url"), http_url::checked(&target.url));
    let methods = Method::ALL.map(Method::name);
    let method = target.method.as_deref().map(|text| {
        let method = Method::named(text);
        method.ok_or_else(|| unknown("method", text, &methods))
    });
    let method = match method {
        None => Some(Method::Post),
        Some(method) => wrong.take(&format!("{at}/method"), method),
    };
    let headers = headers(at, target.headers.as_ref(), wrong);
    let timeout = timeout(at, target.timeout.as_ref(), wrong);
    Some(HttpCall {
        url: url?,
        method: method?,
        headers,
        timeout,
        message_id: None,
    })
}

/// Reads what a callback says.
pub(super) fn policy(defaults: &HttpDefaults, wrong: &mut Violations) -> HttpPolicy {
    let at = defaults.url.as_deref();
    let at = at.and_then(|text| wrong.take("/http/url", http_url::checked(text)));
    let given = defaults.secrets.as_deref().unwrap_or_default();
    if given.len() > SECRETS_MAX {
        let detail = format!("more than {SECRETS_MAX} secrets: the new one and the old one");
        wrong.add("/http/secrets", detail);
    }
    let given = given.iter().take(SECRETS_MAX).enumerate();
    let secrets = given
        .filter_map(|(index, text)| wrong.take(&format!("/http/secrets/{index}"), secret(text)));
    let secrets = secrets.collect();
    let most = defaults.max_in_flight;
    if most.is_some_and(|most| !(1..=HTTP_IN_FLIGHT_MAX).contains(&most)) {
        wrong.add(
            "/http/max_in_flight",
            format!("must be 1 to {HTTP_IN_FLIGHT_MAX} requests of a node to a host; pause the callback to send none"),
        );
    }
    HttpPolicy {
        url: at,
        headers: headers("/http", defaults.headers.as_ref(), wrong),
        timeout: timeout("/http", defaults.timeout.as_ref(), wrong),
        secrets,
        retry_4xx: defaults.retry_4xx,
        max_in_flight: most,
    }
}

/// Returns the name of the callback of a request that names none: `http:`, the host, and its port if it has one.
#[must_use]
pub fn callback_of(call: &HttpCall) -> String {
    http_url::callback_of_url(&call.url)
}

/// Checks a request that did not come from a registration.
///
/// # Errors
/// A text about the first mistake in it.
pub(super) fn check(call: &HttpCall) -> Result<(), String> {
    http_url::checked(&call.url)?;
    call.headers
        .iter()
        .try_for_each(|(name, value)| header(name, value).map(drop))?;
    match call.timeout {
        Some(timeout) if timeout > HTTP_TIMEOUT_MAX => Err("has a timeout out of range".to_owned()),
        Some(_) | None => Ok(()),
    }
}

fn headers(
    at: &str,
    headers: Option<&BTreeMap<String, String>>,
    wrong: &mut Violations,
) -> Vec<(String, String)> {
    let Some(headers) = headers else {
        return Vec::new();
    };
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if headers.len() > HEADERS_MAX || bytes > HTTP_HEADERS_BYTES_MAX {
        let detail =
            format!("more than {HEADERS_MAX} headers, or {HTTP_HEADERS_BYTES_MAX} bytes together");
        wrong.add(format!("{at}/headers"), detail);
        return Vec::new();
    }
    let mut read: Vec<(String, String)> = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let pointer = format!("{at}/headers/{}", super::json::escape(name));
        let Some((name, value)) = wrong.take(&pointer, header(name, value)) else {
            continue;
        };
        if read.iter().any(|(other, _)| *other == name) {
            wrong.add(pointer, "is given twice: names of headers ignore case");
        } else {
            read.push((name, value));
        }
    }
    read
}

fn header(name: &str, value: &str) -> Result<(String, String), String> {
    let known = HeaderName::try_from(name);
    let known = known.map_err(|_| format!("`{}` is no name of a header", shorten(name)))?;
    let lower = known.as_str();
    let is_own = OWN.contains(&lower) || OWN_PREFIXES.iter().any(|own| lower.starts_with(own));
    if is_own {
        return Err(format!("the service sets the header `{lower}` itself"));
    }
    HeaderValue::from_str(value).map_err(|_| "has a value with control characters".to_owned())?;
    if value == credential::MASK && credential::is_name(lower) {
        return Err(format!(
            "has `{value}`, which is shown in the place of a credential: give it whole"
        ));
    }
    Ok((lower.to_owned(), value.to_owned()))
}

fn timeout(at: &str, text: Option<&DurationText>, wrong: &mut Violations) -> Option<Duration> {
    let pointer = format!("{at}/timeout");
    let timeout = wrong.take(&pointer, time::duration(text?, HTTP_TIMEOUT_MIN))?;
    if timeout > HTTP_TIMEOUT_MAX {
        let most = HTTP_TIMEOUT_MAX.as_secs();
        wrong.add(pointer, format!("must be at most {most}s"));
        return None;
    }
    Some(timeout)
}

fn secret(text: &str) -> Result<Secret, String> {
    const RULE: &str = "must be `whsec_` and 24 to 64 bytes as base64; one that is shown in part has to be given whole";
    let key = text
        .strip_prefix("whsec_")
        .and_then(|key| STANDARD.decode(key).ok());
    match key {
        Some(key) if (24..=64).contains(&key.len()) => Ok(Secret::new(text.to_owned())),
        Some(_) | None => Err(RULE.to_owned()),
    }
}

/// Writes a request.
pub(super) fn shown_call(call: &HttpCall) -> HttpTarget {
    let HttpCall {
        url,
        method,
        headers,
        timeout,
        // A part of a task that was delivered again, not of a request.
        message_id: _,
    } = call;
    HttpTarget {
        url: url.clone(),
        method: Some(method.name().to_owned()),
        headers: shown(headers),
        timeout: timeout.map(DurationText::readable),
    }
}

/// Writes a request by the rules of a callback.
pub(super) fn response(callback: &str, call: &HttpCall) -> TargetResponse {
    let HttpCall {
        url,
        method,
        headers,
        timeout,
        message_id,
    } = call;
    TargetResponse::Http {
        callback: callback.to_owned(),
        url: url.clone(),
        method: method.name().to_owned(),
        headers: headers.iter().cloned().collect(),
        timeout: timeout.map(DurationText::readable),
        message_id: message_id.clone(),
    }
}

/// Writes what a callback says, without its secrets.
pub(super) fn policy_response(policy: &HttpPolicy) -> HttpDefaults {
    let secrets: Vec<String> = policy.secrets.iter().map(Secret::shown).collect();
    HttpDefaults {
        url: policy.url.clone(),
        headers: shown(&policy.headers),
        timeout: policy.timeout.map(DurationText::readable),
        secrets: (!secrets.is_empty()).then_some(secrets),
        retry_4xx: policy.retry_4xx,
        max_in_flight: policy.max_in_flight,
    }
}

fn shown(headers: &[(String, String)]) -> Option<BTreeMap<String, String>> {
    (!headers.is_empty()).then(|| headers.iter().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{convert::json, error::Error};

    fn read_text(text: &str) -> Result<HttpCall, Error> {
        let mut wrong = Violations::default();
        let call = read("/http", &json::read::<HttpTarget>(text)?, &mut wrong);
        wrong.finish()?;
        Ok(call.unwrap())
    }

    fn pointers(error: &Error) -> Vec<&str> {
        error.errors.iter().map(|e| e.pointer.as_str()).collect()
    }

    #[test]
    fn a_request_is_shown_as_it_was_given() {
        let text = r#"{"url":"http://a.example:8080/x?y=1","method":"PUT","headers":{"authorization":"Bearer x"},"timeout":"3s"}"#;
        let call = read_text(text).unwrap();
        let (_, _, shown) = response("c", &call).into_fields();
        assert_eq!(serde_json::to_string(&shown).unwrap(), text);
        assert_eq!(callback_of(&call), "http:a.example:8080");
        let call = read_text(r#"{"url":"http://A.example"}"#).unwrap();
        assert_eq!(
            (call.method, callback_of(&call).as_str()),
            (Method::Post, "http:a.example")
        );
    }

    #[test]
    fn every_mistake_of_a_request_is_named() {
        for (text, pointer, says) in [
            (r#"{"url":"ftp://a"}"#, "/http/url", "http://"),
            (r#"{"url":"/x"}"#, "/http/url", "http://"),
            (r#"{"url":""}"#, "/http/url", "not a URL"),
            (r#"{"url":"http://u:p@a/"}"#, "/http/url", "user"),
            (
                r#"{"url":"http://a","method":"post"}"#,
                "/http/method",
                "POST",
            ),
            (
                r#"{"url":"http://a","timeout":"61s"}"#,
                "/http/timeout",
                "60s",
            ),
            (r#"{"url":"http://a","timeout":"1ms"}"#, "/http/timeout", ""),
            (
                r#"{"url":"http://a","headers":{"a b":"c"}}"#,
                "/http/headers/a b",
                "no name",
            ),
            (
                r#"{"url":"http://a","headers":{"Host":"c"}}"#,
                "/http/headers/Host",
                "itself",
            ),
            (
                r#"{"url":"http://a","headers":{"Webhook-Id":"c"}}"#,
                "/http/headers/Webhook-Id",
                "itself",
            ),
            (
                r#"{"url":"http://a","headers":{"a":"b\r\nc: d"}}"#,
                "/http/headers/a",
                "control",
            ),
        ] {
            let error = read_text(text).unwrap_err();
            assert_eq!(pointers(&error), [pointer], "{text}");
            assert!(error.detail.contains(says), "{text}: {error:?}");
        }
        let long = format!(r#"{{"url":"http://{}.example"}}"#, "x".repeat(130));
        assert!(read_text(&long).unwrap_err().detail.contains("host"));
    }

    #[test]
    fn secrets_are_checked_and_not_shown() {
        let good = "whsec_plJ3nmyCDGBKInavdOK15jslAAAAAAAA";
        let read = |text: &str| {
            let mut wrong = Violations::default();
            let read = policy(&json::read::<HttpDefaults>(text)?, &mut wrong);
            wrong.finish().map(|()| read)
        };
        let more = r#""retry_4xx":false,"max_in_flight":128"#;
        let policy = read(&format!(r#"{{"secrets":["{good}"],{more}}}"#)).unwrap();
        let shown = serde_json::to_string(&policy_response(&policy)).unwrap();
        assert_eq!(shown, format!(r#"{{"secrets":["AAAA"],{more}}}"#));
        for text in [r#"{"max_in_flight":0}"#, r#"{"max_in_flight":129}"#] {
            let refused = read(text).unwrap_err();
            assert_eq!(pointers(&refused), ["/http/max_in_flight"], "{text}");
        }
        for text in [
            r#"{"secrets":["AAAA"]}"#,
            r#"{"secrets":["whsec_AAAA"]}"#,
            r#"{"secrets":["whsec_?"]}"#,
        ] {
            assert_eq!(
                pointers(&read(text).unwrap_err()),
                ["/http/secrets/0"],
                "{text}"
            );
        }
        let three = format!(r#"{{"secrets":["{good}","{good}","{good}"]}}"#);
        assert_eq!(pointers(&read(&three).unwrap_err()), ["/http/secrets"]);
    }
}
