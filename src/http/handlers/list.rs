//! The list handler answers `GET /v1/tasks` for clients, page by page.

use axum::{
    extract::{Query, State},
    http::Uri,
    response::Response,
};

use super::query::unquoted;
use crate::{
    api::{
        problem::Problem,
        task_list::ListTasksResponse,
        task_response::TaskState,
        text::{InstantText, shorten},
        time,
        worker::View,
    },
    flow::{self, api::VisibleState, query::list::Filter},
    http::{
        Api,
        convert::{
            self, Violations, asked::checked_name, page_token, task_view::task_response, unknown,
        },
        error::{Code, Error},
    },
    limits::{LIST_TASKS_DEFAULT, LIST_TASKS_MAX},
    model::time::Millis,
};

/// The parameters of the query.
const PARAMETERS: [&str; 8] = [
    "callback",
    "key",
    "state",
    "start_time_from",
    "start_time_to",
    "ended",
    "page_size",
    "page_token",
];

/// Lists tasks page by page: first tasks that have not ended, then tasks that have ended and can still be
/// read by their ids.
///
/// Tasks that wait for their start come in order of start time; within a page, all tasks do. With Cassandra,
/// the list has only tasks that start within a day, unless `start_time_to` says otherwise, and tasks that
/// ended within about ten minutes.
///
/// There is no index behind it. One request reads a bounded part of the store and answers with the tasks that
/// it found there; with Cassandra a page may be empty. Only the absence of `next_page_token` says that the
/// list has ended. A task that changes between two pages may be listed twice or not at all.
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks", operation_id = "listTasks",
    params(
        ("callback" = Option<String>, Query, description = "Only tasks of this callback"),
        ("key" = Option<String>, Query,
            description = "Only the task that this key names, the live one or the last: with `callback`, and without further filters"),
        ("state" = Option<TaskState>, Query, description = "Only tasks in this state"),
        ("start_time_from" = Option<InstantText>, Query, description = "Only tasks that start at or after this"),
        ("start_time_to" = Option<InstantText>, Query,
            description = "Only tasks that start before this; by default all, with Cassandra a day after now or `start_time_from`"),
        ("ended" = Option<bool>, Query,
            description = "false leaves out tasks that have ended; true, which lists them, too, is the default"),
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many tasks; 100 by default; more than 1000 is 1000"),
        ("page_token" = Option<String>, Query,
            description = "`next_page_token` of the page before, with the same filters")),
    responses(
        (status = 200, description = "A page", body = ListTasksResponse),
        (status = "default", description = "Not listed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn list(State(api): State<Api>, uri: Uri) -> Result<Response, Error> {
    let query = ListQuery::read(&uri)?;
    if let (Some(callback), Some(key)) = (&query.filter.callback, &query.key) {
        return Ok(crate::http::answer::json(
            &by_key(&api, callback, key).await?,
        ));
    }
    let cursor = match &query.page_token {
        None => None,
        Some(token) => Some(
            page_token::read(token, &query.filter)
                .map_err(|detail| Error::field(Code::InvalidRequest, "?page_token", detail))?,
        ),
    };
    let page = api
        .service
        .list(&query.filter, cursor, query.page_size)
        .await?;
    let tasks = page.tasks.iter();
    Ok(crate::http::answer::json(&ListTasksResponse {
        tasks: tasks.map(|task| task_response(task, View::Basic)).collect(),
        next_page_token: page
            .next
            .map(|cursor| page_token::write(&query.filter, &cursor)),
        start_time_to: page.to.min(time::latest()).into(),
    }))
}

/// Returns the list of the task that a key names: one task at most.
async fn by_key(api: &Api, callback: &str, key: &str) -> Result<ListTasksResponse, Error> {
    let task = match api.service.id_by_key(callback, key).await? {
        Some(id) => api.service.get(id, flow::api::View::Basic).await?,
        None => None,
    };
    let tasks = task.iter().map(|task| task_response(task, View::Basic));
    Ok(ListTasksResponse {
        tasks: tasks.collect(),
        next_page_token: None,
        start_time_to: time::latest().into(),
    })
}

/// The query of a list.
#[derive(Debug)]
struct ListQuery {
    filter: Filter,
    key: Option<String>,
    page_size: usize,
    page_token: Option<String>,
}

impl ListQuery {
    fn read(uri: &Uri) -> Result<Self, Error> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Error::new(Code::InvalidRequest, error.body_text()))?;
        let mut query = Self {
            filter: Filter::default(),
            key: None,
            page_size: LIST_TASKS_DEFAULT,
            page_token: None,
        };
        let mut violations = Violations::default();
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in pairs.0 {
            let pointer = format!("?{}", shorten(&name));
            if seen.contains(&name) {
                violations.add(pointer, "is given twice: give it once");
                continue;
            }
            if let Some(Err(detail)) = query.set(&name, value) {
                violations.add(pointer, detail);
            } else if !PARAMETERS.contains(&name.as_str()) {
                violations.add(pointer, unknown("query parameter", &name, &PARAMETERS));
            }
            seen.push(name);
        }
        if let (Some(from), Some(to)) = (query.filter.from, query.filter.to)
            && from >= to
        {
            violations.add("?start_time_to", "must be later than `start_time_from`");
        }
        if query.filter.pending && query.filter.state.is_some_and(VisibleState::is_terminal) {
            violations.add("?ended", "must not be false for a `state` that has ended");
        }
        if query.key.is_some()
            && seen
                .iter()
                .any(|name| !matches!(&**name, "key" | "callback"))
        {
            violations.add("?key", "goes with `callback` alone: leave the others out");
        } else if query.key.is_some() && query.filter.callback.is_none() {
            violations.add("?key", "needs a `callback`: keys are names within one");
        }
        violations.finish().map(|()| query)
    }

    /// Takes a parameter. Returns none when no parameter has this name.
    fn set(&mut self, name: &str, value: String) -> Option<Result<(), String>> {
        Some(match name {
            "callback" => put(&mut self.filter.callback, convert::name(value)),
            "key" => put(&mut self.key, checked_name(value)),
            "state" => put(&mut self.filter.state, state(&value)),
            "start_time_from" => put(&mut self.filter.from, instant(value)),
            "start_time_to" => put(&mut self.filter.to, instant(value)),
            "ended" => ended(&value).map(|ended| self.filter.pending = !ended),
            "page_size" => page_size(&value).map(|size| self.page_size = size),
            // An empty token asks for the first page, so that clients that build queries need not leave it
            // out.
            "page_token" => {
                self.page_token = Some(value).filter(|token| !token.is_empty());
                Ok(())
            }
            _ => return None,
        })
    }
}

fn ended(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

fn put<T>(field: &mut Option<T>, read: Result<T, String>) -> Result<(), String> {
    *field = Some(read?);
    Ok(())
}

fn instant(text: String) -> Result<Millis, String> {
    // A plus sign that is not escaped arrives as a space.
    let text = match text.rsplit_once(' ') {
        Some((time, offset)) if time.contains(['T', 't']) => format!("{time}+{offset}"),
        Some(_) | None => text,
    };
    time::instant(&InstantText(text)).map_err(|detail| unquoted(&detail))
}

fn state(text: &str) -> Result<VisibleState, String> {
    let names = VisibleState::ALL.map(VisibleState::name);
    let known = VisibleState::ALL
        .into_iter()
        .find(|state| state.name() == text);
    known.ok_or_else(|| unknown("state", text, &names))
}

pub(super) fn page_size(text: &str) -> Result<usize, String> {
    let size: Option<usize> = text.parse().ok().filter(|size| *size > 0);
    // A larger number counts as the largest: a client that wants all tasks need not know the limit.
    size.map(|size| size.min(LIST_TASKS_MAX)).ok_or_else(|| {
        let text = shorten(text);
        format!("`{text}` is not a whole number from 1 to {LIST_TASKS_MAX}")
    })
}
