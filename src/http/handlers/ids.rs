//! The ids handler tells clients what they need to make the ids of their tasks. It reads nothing from the store.

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
    let wheels = api.service.shape().wheels();
    json(&IdsResponse::new(wheels, api.options.time.now().into()))
}
