//! These tests check the error table for the API.

use axum::http::StatusCode;

use super::*;
use crate::flow::base::api::Fault;

#[test]
fn codes_are_listed_once_and_are_error_statuses() {
    let names: std::collections::BTreeSet<_> = Code::ALL.iter().map(|c| c.name()).collect();
    assert_eq!(names.len(), Code::ALL.len());
    for code in Code::ALL {
        assert!(code.status().is_client_error() || code.status().is_server_error());
    }
}

#[test]
fn a_fault_says_when_to_come_back() {
    let error = Error::from(Fault::Unavailable {
        reason: "store: no quorum".to_owned(),
        retry_after: Duration::from_millis(1200),
    });
    let response = error.into_response();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()[header::RETRY_AFTER], "2");
    let error = Error::from(Fault::Full {
        reason: "3 MiB are free".to_owned(),
        retry_after: Duration::from_secs(30),
    });
    assert_eq!(
        (error.code, error.code.status().as_u16()),
        (Code::StoreFull, 507)
    );
    let error = Error::from(Fault::Upgrading {
        field: "after_parent",
    });
    assert_eq!(
        (error.code.name(), error.code.status().as_u16()),
        ("cluster_upgrading", 503)
    );
    assert!(error.retry_after.is_some() && error.code.is_retryable());
    let error = Error::from(Fault::Unknown {
        reason: "timed out".to_owned(),
    });
    assert_eq!(error.code, Code::OutcomeUnknown);
}

#[test]
fn the_detail_names_the_first_field_and_counts_the_others() {
    let field = |pointer: &str| FieldError {
        pointer: pointer.to_owned(),
        detail: "bad".to_owned(),
    };
    let error = Error::fields(Code::InvalidRequest, vec![field("/a"), field("/b")]);
    assert_eq!(error.detail, "/a: bad (and 1 more, see errors)");
}
