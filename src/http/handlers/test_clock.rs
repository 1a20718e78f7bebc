//! The handlers of the test clock move the clock of a service for tests of programs that wait for days.
//!
//! Only `tickwheel dev --test-clock` has one. Everywhere else the calls are answered by 404, in words.

use std::sync::Arc;

use axum::{extract::State, response::Response};

use crate::{
    api::{
        problem::Problem,
        test_clock::{AdvanceClockRequest, AdvanceClockResponse, ClockResponse, SetClockRequest},
    },
    flow::stages::walk::Walk,
    http::{
        Api,
        answer::json,
        convert::test_clock::{jump, way},
        error::{Code, Error},
        extract::Json,
    },
};

/// Shows the clock.
#[utoipa::path(get, path = "/v1/dev/clock", tag = "test clock", operation_id = "getTestClock",
    responses((status = 200, description = "The time that it shows", body = ClockResponse),
        (status = 404, description = "`not_found`: the service has no test clock", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any failure", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(State(api): State<Api>) -> Result<Response, Error> {
    let walk = walk(&api)?;
    Ok(json(&ClockResponse::new(walk.now().into())))
}

/// Moves the clock forward: to the next start, retry, expiry or deadline, to the one behind it, and so on. At each of these stops
/// it waits until workers have done what came due, so nothing is late.
#[utoipa::path(post, path = "/v1/dev/clock:advance", tag = "test clock", operation_id = "advanceTestClock",
    request_body = AdvanceClockRequest,
    responses((status = 200, description = "How far it came, and what happened on the way", body = AdvanceClockResponse),
        (status = 404, description = "`not_found`: the service has no test clock", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any failure", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn advance(
    State(api): State<Api>,
    Json(request): Json<AdvanceClockRequest>,
) -> Result<Response, Error> {
    let walk = walk(&api)?;
    let (to, settle_within) = way(&request, walk.now())?;
    let walked = walk.advance(to, settle_within).await?;
    Ok(json(&AdvanceClockResponse::from(walked)))
}

/// Moves the clock forward at once. Tasks that came due meanwhile are late, as they are behind an outage.
#[utoipa::path(post, path = "/v1/dev/clock:set", tag = "test clock", operation_id = "setTestClock",
    request_body = SetClockRequest,
    responses((status = 200, description = "The time that it shows", body = ClockResponse),
        (status = 404, description = "`not_found`: the service has no test clock", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Any failure", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn set(
    State(api): State<Api>,
    Json(request): Json<SetClockRequest>,
) -> Result<Response, Error> {
    let walk = walk(&api)?;
    let to = jump(&request, walk.now())?;
    walk.jump(to).await;
    Ok(json(&ClockResponse::new(walk.now().into())))
}

fn walk(api: &Api) -> Result<&Arc<Walk>, Error> {
    let missing = || {
        let detail = "the clock of this service cannot be moved: `tickwheel dev --test-clock` starts one for tests whose can";
        Error::new(Code::NotFound, detail)
    };
    api.options.walk.as_ref().ok_or_else(missing)
}
