//! The transfer handlers hand out all schedules for clients, as they were set, and set schedules together: from one cluster to
//! another, or back from a file.
//!
//! Neither has a bound over all schedules: an export is read in pages, an import is sent in batches. An import that ends early
//! has set some of its schedules; sent again, it changes nothing about those.

use axum::{
    extract::{FromRequestParts, State},
    http::request::Parts,
    response::Response,
};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    schedule_query::SchedulesQuery,
    schedules::{page, put},
};
use crate::{
    api::{
        problem::Problem,
        schedule::{
            ExportSchedulesResponse, ImportOutcome, ImportScheduleResult, ImportSchedulesRequest,
            ImportSchedulesResponse, NamedSchedule, ScheduleRequest,
        },
    },
    flow::stages::schedules::desk::Changed,
    http::{
        Api,
        access::Caller,
        answer,
        convert::{json, name as checked_name, schedule_view},
        error::{Code, Error},
        extract::{BatchOfClient, NoIdempotencyKey, Params, Text},
    },
};

/// Schedules of an import that are set at once: each is a conditional write.
const IMPORTS_IN_FLIGHT: usize = 8;

/// Hands out schedules by name, as they were set. The number of their runs, and their state beside a pause, are left out.
#[utoipa::path(get, path = "/v1/schedules:export", tag = "schedules", operation_id = "exportSchedules",
    params(
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many; 100 by default; more than 100 is 100"),
        ("page_token" = Option<String>, Query, description = "`next_page_token` of the page before")),
    responses(
        (status = 200, description = "A page: `schedules` is what an import takes", body = ExportSchedulesResponse),
        (status = 403, description = "`access_denied`: the key sees no payloads or no credentials, and without them this would be no export", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "Not read", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn export(
    State(api): State<Api>,
    _: SeesAll,
    Params(query): Params<SchedulesQuery>,
) -> Result<Response, Error> {
    let (page, next_page_token) = page(&api, query).await?;
    let schedules = page.iter().map(|(name, schedule)| NamedSchedule {
        name: name.clone(),
        schedule: schedule_view::settings(schedule),
    });
    Ok(answer::json(&ExportSchedulesResponse {
        schedules: schedules.collect(),
        next_page_token,
    }))
}

/// Makes sure that the caller sees payloads and credentials: schedules without them cannot be set again.
pub(in crate::http) struct SeesAll;

impl FromRequestParts<Api> for SeesAll {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Error> {
        let caller = Caller::of(&parts.extensions);
        let (what, remedy) = match (caller.sees_payloads(), caller.sees_credentials()) {
            (true, true) => return Ok(Self),
            (false, _) => ("payloads", "a key that sees them"),
            (true, false) => (
                "credentials that requests over HTTP carry",
                "a key of an operator",
            ),
        };
        let detail = format!(
            "the key `{}` sees no {what}, and schedules without them cannot be set again: use {remedy}",
            caller.name()
        );
        Err(Error::new(Code::AccessDenied, detail))
    }
}

/// Sets schedules, each as a PUT would; one bad schedule fails only itself. A schedule that is as it is to be stays untouched. A
/// new one begins anew: its limit counts from none.
#[utoipa::path(post, path = "/v1/schedules:import", tag = "schedules", operation_id = "importSchedules",
    request_body = ImportSchedulesRequest,
    responses(
        (status = 200, description = "A result for each, in order", body = ImportSchedulesResponse),
        (status = "default", description = "None was set", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn import(
    State(api): State<Api>,
    _: NoIdempotencyKey,
    text: Text<BatchOfClient>,
) -> Result<Response, Error> {
    let call: ImportCall<'_> = text.read()?;
    let items: Vec<Result<_, Error>> = call.schedules.0.into_iter().map(read).collect();
    let _held = api.admission.contents(text.len())?;
    drop(text);
    let set = stream::iter(items).map(async |item| match item {
        Err(error) => error.into(),
        Ok((name, asked)) => match put(&api, &name, &asked, id(&api), &|_| true).await {
            Ok(changed) => result(name, &changed),
            Err(error) => ImportScheduleResult {
                name: Some(name),
                ..error.into()
            },
        },
    });
    let results = set.buffered(IMPORTS_IN_FLIGHT).collect().await;
    Ok(answer::json(&ImportSchedulesResponse { results }))
}

/// An [`ImportSchedulesRequest`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImportCall<'a> {
    #[serde(borrow)]
    schedules: json::Items<'a>,
}

fn read(item: &RawValue) -> Result<(String, ScheduleRequest), Error> {
    let read: NamedSchedule = json::read_item(item)?;
    let name = checked_name(read.name);
    let name = name.map_err(|detail| Error::field(Code::InvalidRequest, "/name", detail))?;
    Ok((name, read.schedule))
}

/// The id of a change of its own.
fn id(api: &Api) -> u128 {
    api.options.time.random_uuid().as_u128()
}

fn result(name: String, changed: &Changed) -> ImportScheduleResult {
    let outcome = match changed {
        Changed::Created(_) => ImportOutcome::Created,
        Changed::Same(_) => ImportOutcome::Unchanged,
        // The others answer conditions, and an import sets none.
        Changed::Now(_)
        | Changed::Absent
        | Changed::OtherRequest
        | Changed::Mismatch(_)
        | Changed::Ended(_) => ImportOutcome::Replaced,
    };
    ImportScheduleResult {
        name: Some(name),
        outcome: Some(outcome),
        error: None,
    }
}

impl From<Error> for ImportScheduleResult {
    fn from(error: Error) -> Self {
        Self {
            error: Some(error.problem_of_item()),
            ..Self::default()
        }
    }
}
