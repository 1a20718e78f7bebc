//! `/v1/stats` and `/v1/cluster`: a look at the whole, for dashboards and scripts.

use axum::{Router, extract::State, response::Response, routing::get};

use super::{
    Api,
    dto::stats::{self, ClusterResponse, StatsResponse},
    error::Error,
    json,
};

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/stats", get(read))
        .route("/v1/cluster", get(cluster))
}

/// What is pending, by horizon, and what the node that was asked has done in the last minute.
#[utoipa::path(get, path = "/v1/stats", tag = "cluster", operation_id = "getStats",
    responses((status = 200, description = "What was seen within the last second", body = StatsResponse),
        (status = "default", description = "Any failure", body = super::dto::problem::Problem, content_type = "application/problem+json")))]
pub(super) async fn read(State(api): State<Api>) -> Result<Response, Error> {
    let stats = api.service.stats().await?;
    Ok(json(&StatsResponse::from(&*stats)))
}

/// The nodes, and the clock of every wheel.
#[utoipa::path(get, path = "/v1/cluster", tag = "cluster", operation_id = "getCluster",
    responses((status = 200, description = "What was seen within the last second", body = ClusterResponse),
        (status = "default", description = "Any failure", body = super::dto::problem::Problem, content_type = "application/problem+json")))]
pub(super) async fn cluster(State(api): State<Api>) -> Result<Response, Error> {
    let stats = api.service.stats().await?;
    Ok(json(&stats::cluster(&stats, api.service.shape().tick())))
}
