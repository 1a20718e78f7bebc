//! The table of pages and forms of the dashboard.
//!
//! Each asks the API with the key of its reader, which decides what may be seen and done; so the table has no rights.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get, post},
};
use tokio::sync::Semaphore;

use super::{
    Gate, Parts, Settings, Ui, assets,
    forms::{self, Done, Posted},
    gate::Failure,
    live,
    pages::{self, tasks::Found},
    visit::{Head, Visit},
};
use crate::limits::PAGE_LIVE_STREAMS_MAX;

/// Answers with a page.
macro_rules! page {
    ($page:path) => {
        get(|visit: Visit| async move {
            let html = $page(&visit).await;
            visit.answer(html)
        })
    };
}

/// Takes a form.
macro_rules! form {
    ($form:path) => {
        |visit: Visit, posted: Posted| async move {
            let done = $form(&visit, &posted).await;
            taken(&visit, done)
        }
    };
}

/// The path of a page, and whether it takes forms.
type Page = (&'static str, bool, fn() -> MethodRouter<Ui>);

/// Every page.
const PAGES: &[Page] = &[
    ("/", false, || page!(pages::overview::page)),
    ("/tasks", true, || {
        get(found).post(form!(forms::tasks::some))
    }),
    ("/tasks/all", true, || {
        page!(pages::act_on_all::asked).post(form!(forms::tasks::all))
    }),
    ("/tasks/{id}", true, || {
        page!(pages::task::page).post(form!(forms::task::act))
    }),
    ("/tasks/{id}/payload", false, || get(payload)),
    ("/callbacks", false, || page!(pages::callbacks::page)),
    ("/callbacks/{name}", true, || {
        page!(pages::callback::page).post(form!(forms::callback::set))
    }),
    ("/callbacks/{name}/gate", true, || {
        post(form!(forms::callback::gate))
    }),
    ("/dead-letters", true, || {
        page!(pages::letters::page).post(form!(forms::letters::act))
    }),
    ("/schedules", false, || page!(pages::schedules::page)),
    ("/new/schedules", true, || {
        page!(pages::schedule_change::fresh).post(form!(forms::schedule_change::make))
    }),
    ("/schedules/{name}", true, || {
        page!(pages::schedule::page).post(form!(forms::schedule::act))
    }),
    ("/schedules/{name}/change", true, || {
        page!(pages::schedule_change::page).post(form!(forms::schedule_change::act))
    }),
    ("/jobs", false, || page!(pages::jobs::list)),
    ("/jobs/{id}", true, || {
        page!(pages::jobs::one).post(form!(forms::job::act))
    }),
    ("/cluster", false, || page!(pages::cluster::page)),
    ("/keys", true, || {
        page!(pages::keys::page).post(form!(forms::keys::act))
    }),
    ("/audit", false, || page!(pages::audit::page)),
    ("/suggest", false, || page!(pages::suggest::page)),
    ("/sign-in", true, || {
        get(forms::sign::ask).post(forms::sign::sign_in)
    }),
    ("/sign-out", true, || post(forms::sign::sign_out)),
    ("/assets/{name}", false, || get(assets::asset)),
];

/// The path of the stream of changes.
const LIVE: &str = "/live";

/// Returns method and path of every page and form.
pub(in crate::http) fn paths() -> impl Iterator<Item = (Method, &'static str)> {
    let forms = PAGES.iter().filter(|(_, takes_forms, _)| *takes_forms);
    let pages = PAGES.iter().map(|(path, ..)| (Method::GET, *path));
    pages
        .chain(forms.map(|(path, ..)| (Method::POST, *path)))
        .chain([(Method::GET, LIVE)])
}

/// Returns the dashboard over a way to the API.
pub(in crate::http) fn router(gate: Gate, settings: Settings) -> Router {
    let ui = Ui(Arc::new(Parts {
        gate,
        settings,
        streams: Arc::new(Semaphore::new(PAGE_LIVE_STREAMS_MAX)),
        made: live::Made::default(),
    }));
    let pages = PAGES.iter().fold(Router::new(), |router, (path, _, made)| {
        router.route(path, made())
    });
    let pages = pages.with_state(ui.clone());
    let watched = pages.clone();
    let live = get(move |head: Head, request: Request| live::stream(head, watched, request));
    pages.merge(Router::new().route(LIVE, live).with_state(ui))
}

/// Answers a form.
fn taken(visit: &Visit, done: Result<Done, Failure>) -> Response {
    match done {
        Ok(Done::To(path, said)) => visit.head.sent(&path, Some(&said)),
        Ok(Done::Again(html)) => visit.head.shown(StatusCode::OK, html),
        Err(failure) => visit.fail(&failure),
    }
}

/// Shows the list of tasks, or leads to the one that the query names.
async fn found(visit: Visit) -> Response {
    match pages::tasks::page(&visit).await {
        Ok(Found::Page(html)) => visit.answer(Ok(html)),
        Ok(Found::Task(id)) => visit.head.sent(&format!("/tasks/{id}"), None),
        Err(failure) => visit.fail(&failure),
    }
}

/// Sends the payload of a task as a file, which no browser runs.
async fn payload(visit: Visit) -> Response {
    match pages::task::sent(&visit).await {
        Ok((kind, bytes)) => {
            let name = format!("attachment; filename=\"payload.{kind}\"");
            let name = HeaderValue::try_from(name);
            let mut answer = (assets::headers(), bytes).into_response();
            let binary = HeaderValue::from_static("application/octet-stream");
            answer.headers_mut().insert(header::CONTENT_TYPE, binary);
            let named = name.ok().map(|name| (header::CONTENT_DISPOSITION, name));
            answer.headers_mut().extend(named);
            answer
        }
        Err(failure) => visit.fail(&failure),
    }
}
