//! The call codec converts requests over HTTP, and what callbacks say of them, to and from messages for specs and callbacks.

use std::time::Duration;

use super::{Malformed, v1};
use crate::model::{
    http_call::{HttpCall, HttpPolicy, Method, Secret},
    target::Target,
    time::whole_millis,
};

/// Converts a request to its message.
pub(super) fn to_message(callback: &str, call: &HttpCall) -> v1::HttpTarget {
    let HttpCall {
        url,
        method,
        headers,
        timeout,
        message_id,
    } = call;
    v1::HttpTarget {
        callback: callback.to_owned(),
        url: url.clone(),
        method: method.name().to_owned(),
        headers: headers_to(headers),
        timeout_ms: timeout.map(millis),
        message_id: message_id.clone(),
    }
}

/// Reads a request from its message.
///
/// # Errors
/// [`Malformed`] when its method is not known.
pub(super) fn from_message(mut message: v1::HttpTarget) -> Result<Target, Malformed> {
    Ok(Target::Http {
        callback: std::mem::take(&mut message.callback),
        call: Box::new(call_from_message(message)?),
    })
}

/// Reads a request that has no callback from its message.
///
/// # Errors
/// As [`from_message`].
pub(super) fn call_from_message(message: v1::HttpTarget) -> Result<HttpCall, Malformed> {
    let method = Method::named(&message.method);
    Ok(HttpCall {
        url: message.url,
        method: method.ok_or(Malformed::OutOfRange("http.method"))?,
        headers: headers_from(message.headers),
        timeout: message.timeout_ms.map(duration),
        message_id: message.message_id,
    })
}

/// Converts what a callback says to its message.
pub(super) fn policy_to_message(policy: &HttpPolicy) -> v1::HttpPolicy {
    let HttpPolicy {
        url,
        headers,
        timeout,
        secrets,
        retry_4xx,
        max_in_flight,
    } = policy;
    let secrets = secrets.iter();
    v1::HttpPolicy {
        url: url.clone(),
        headers: headers_to(headers),
        timeout_ms: timeout.map(millis),
        secrets: secrets.map(|secret| secret.text().to_owned()).collect(),
        retry_4xx: *retry_4xx,
        max_in_flight: *max_in_flight,
    }
}

/// Reads what a callback says from its message.
pub(super) fn policy_from_message(message: v1::HttpPolicy) -> HttpPolicy {
    HttpPolicy {
        url: message.url,
        headers: headers_from(message.headers),
        timeout: message.timeout_ms.map(duration),
        secrets: message.secrets.into_iter().map(Secret::new).collect(),
        retry_4xx: message.retry_4xx,
        max_in_flight: message.max_in_flight,
    }
}

fn headers_to(headers: &[(String, String)]) -> Vec<v1::Label> {
    let header = |(name, value): &(String, String)| v1::Label {
        name: name.clone(),
        value: value.clone(),
    };
    headers.iter().map(header).collect()
}

fn headers_from(headers: Vec<v1::Label>) -> Vec<(String, String)> {
    let headers = headers.into_iter();
    headers.map(|header| (header.name, header.value)).collect()
}

fn duration(millis: u64) -> Duration {
    Duration::from_millis(millis.min(i64::MAX.unsigned_abs()))
}

fn millis(duration: Duration) -> u64 {
    whole_millis(duration).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> Vec<(String, String)> {
        vec![("a".to_owned(), "b".to_owned())]
    }

    #[test]
    fn a_request_survives_its_message() {
        for timeout in [None, Some(Duration::from_millis(1500))] {
            for method in Method::ALL {
                let call = HttpCall {
                    url: "https://example.org/x?y=1".to_owned(),
                    method,
                    headers: headers(),
                    timeout,
                    message_id: timeout.map(|_| "m".to_owned()),
                };
                let target = from_message(to_message("c", &call)).unwrap();
                let expected = Target::Http {
                    callback: "c".to_owned(),
                    call: Box::new(call),
                };
                assert_eq!(target, expected);
            }
        }
        let later = v1::HttpTarget {
            method: "BREW".to_owned(),
            ..v1::HttpTarget::default()
        };
        assert_eq!(
            from_message(later),
            Err(Malformed::OutOfRange("http.method"))
        );
    }

    #[test]
    fn what_a_callback_says_survives_its_message() {
        let full = HttpPolicy {
            url: Some("https://example.org".to_owned()),
            headers: headers(),
            timeout: Some(Duration::from_secs(3)),
            secrets: vec![Secret::new("whsec_plJ3nmyCDGBKInavdOK15jsl".to_owned())],
            retry_4xx: Some(false),
            max_in_flight: Some(3),
        };
        for policy in [full, HttpPolicy::default()] {
            assert_eq!(policy_from_message(policy_to_message(&policy)), policy);
        }
    }
}
