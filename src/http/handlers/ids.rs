//! The ids handler tells clients what they need to make the ids of their tasks. It reads nothing from the store.

use std::time::Duration;

use axum::{extract::State, response::Response};

use crate::{
    api::{ids::IdsResponse, problem::Problem},
    http::{Api, answer::json},
};

/// Shows what a client needs to make the id of a task, so that it can repeat a registration.
#[utoipa::path(get, path = "/v1/ids", tag = "tasks", operation_id = "getIds",
    responses((status = 200, description = "The number of wheels, and the time of the service", body = IdsResponse),
        (status = "default", description = "Any failure", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(State(api): State<Api>) -> Response {
    let (wheels, time) = (api.service.shape().wheels(), &api.options.time);
    // The clock may be moved before the client counts on it.
    let valid_for = time.is_by_hand().then(|| Duration::ZERO.into());
    json(&IdsResponse::new(wheels, time.now().into(), valid_for))
}
