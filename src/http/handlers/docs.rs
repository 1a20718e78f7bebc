//! These handlers serve the description of the API to clients: `/openapi.json`, a page to try it at `/docs`,
//! and a page for each kind of problem.
//!
//! The description is generated from the table of calls and the wire types, and brought into a shape that generators of
//! clients read. Its examples lie in `schemas/examples.json`. A copy of the whole is checked in as
//! `schemas/openapi.json`, and a test fails when the two differ. To write it anew:
//! `TICKWHEEL_UPDATE_GOLDEN=1 cargo test --lib openapi`.

mod examples;
mod shape;
#[cfg(test)]
mod tests;

use axum::{
    Router,
    extract::Path,
    http::{HeaderValue, header},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        OpenApi as Description,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_swagger_ui::{Config, SwaggerUi};

use self::{examples::Examples, shape::Readable};
use crate::http::{
    Api,
    error::{Code, Error},
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tickwheel",
        description = "A durable, distributed timer service: register a task, and it starts at its time.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
        contact()
    ),
    // A service without any key is open.
    security(("api_key" = []), ()),
    // The data of events: no answer of one type has it.
    components(schemas(crate::api::event::TaskEvent)),
    tags(
        (name = "tasks", description = "Register, read, list, cancel and reschedule tasks"),
        (name = "dead letters", description = "Look at, redrive and delete dead tasks"),
        (name = "jobs", description = "Cancel, move, redrive and delete many tasks"),
        (name = "schedules", description = "Start tasks at the times of a clock"),
        (name = "callbacks", description = "Configure callbacks, and pause them"),
        (name = "access", description = "API keys, and the audit of who did what"),
        (name = "worker", description = "For consumers of callbacks"),
        (name = "cluster", description = "A look at the whole"),
        (name = "test clock", description = "Move the clock, in tests of programs that wait for days"),
        (name = "health", description = "For orchestrators and monitoring"),
    )
)]
struct Frame;

/// Adds the keys of the API to the description.
struct ApiKeys;

impl Modify for ApiKeys {
    fn modify(&self, description: &mut Description) {
        let about = "An API key, as `POST /v1/api-keys` shows it once. A service without any key asks for none.";
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("twk_<id>_<secret>")
            .description(Some(about))
            .build();
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("api_key", SecurityScheme::Http(scheme));
    }
}

/// Returns the description without its calls.
pub(in crate::http) fn frame() -> Description {
    Frame::openapi()
}

/// Returns a description in the shape that generators read, with its examples: pretty JSON with a line end.
pub(in crate::http) fn text(mut description: Description) -> String {
    let modifiers: [&dyn Modify; 3] = [&ApiKeys, &Readable, &Examples];
    for modifier in modifiers {
        modifier.modify(&mut description);
    }
    let mut text = description.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The page loads only what this server sends, and no other page may show it in a frame. The interface writes
/// styles into its elements.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Returns the routes of the description and of the page to try it.
pub(in crate::http) fn pages(text: String) -> Router<Api> {
    let page = SwaggerUi::new("/docs").config(Config::from("/openapi.json"));
    let protected = middleware::map_response(async |mut response: Response| {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
        response
    });
    Router::new()
        .merge(Router::from(page).layer(protected))
        .route(
            "/openapi.json",
            get(move || {
                let text = text.clone();
                async { ([(header::CONTENT_TYPE, "application/json")], text) }
            }),
        )
}

/// Explains a kind of problem. The `type` of a problem document points here.
pub(in crate::http) async fn problem(Path(name): Path<String>) -> Response {
    let Some(code) = Code::ALL.into_iter().find(|code| code.name() == name) else {
        return Error::new(Code::NotFound, "there is no problem of this name").into_response();
    };
    let again = if code.is_retryable() {
        "The same request may succeed later."
    } else {
        "The same request will not succeed later."
    };
    format!(
        "{} ({})\n\n{}\n\n{}\n{again}\n",
        code.name(),
        code.status(),
        code.title(),
        code.advice()
    )
    .into_response()
}
