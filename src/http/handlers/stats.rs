//! The statistics handlers serve `/v1/stats` and `/v1/cluster` to dashboards and scripts.

use axum::{extract::State, response::Response};

use crate::{
    api::stats::{ClusterResponse, StatsResponse},
    http::{Api, answer::json, convert::stats_view, error::Error},
};

/// Shows how many tasks are pending, by horizon, why others wait, and the work of the node that was asked in the last minute.
#[utoipa::path(get, path = "/v1/stats", tag = "cluster", operation_id = "getStats",
    responses((status = 200, description = "What was seen within the last second", body = StatsResponse),
        (status = "default", description = "Any failure", body = crate::api::problem::Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn read(State(api): State<Api>) -> Result<Response, Error> {
    let stats = api.service.stats().await?;
    Ok(json(&StatsResponse::from(&*stats)))
}

/// Shows the nodes, and the clock of every wheel.
#[utoipa::path(get, path = "/v1/cluster", tag = "cluster", operation_id = "getCluster",
    responses((status = 200, description = "What was seen within the last second", body = ClusterResponse),
        (status = "default", description = "Any failure", body = crate::api::problem::Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn cluster(State(api): State<Api>) -> Result<Response, Error> {
    let stats = api.service.stats().await?;
    Ok(json(&stats_view::cluster(
        &stats,
        api.service.shape().tick(),
    )))
}
