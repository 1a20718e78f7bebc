//! The list handler answers `GET /v1/tasks` for clients, page by page.

use axum::{extract::State, http::Uri, response::Response};

use crate::{
    api::{
        problem::Problem,
        task_list::ListTasksResponse,
        task_response::TaskState,
        text::{InstantText, shorten},
        time,
        worker::View,
    },
    flow::{self, base::api::VisibleState, stages::query::filter::Filter},
    http::{
        Api, answer,
        convert::{
            self, Callbacks, checked_name, job::is_label, page_token, task_view::task_response,
            unknown,
        },
        error::{Code, Error},
        extract::{FromQuery, Params, each_once, page_size, put, unquoted},
    },
    limits::{LABEL_CHARS_MAX, LIST_LABELS_MAX, LIST_TASKS_DEFAULT, LIST_TASKS_MAX},
    model::{callback::is_reserved, error_class::error_class, ids::TaskId, time::Millis},
};

/// The parameters of the query.
const PARAMETERS: [&str; 16] = [
    "callback",
    "collection",
    "key",
    "state",
    "label.NAME",
    "labels",
    "error",
    "start_time_from",
    "start_time_to",
    "ended",
    "internal",
    "parent",
    "roots",
    "schedule",
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
/// A filter by label or error looks at each task that fits otherwise, so a `callback` and a window of start
/// times make it quick.
///
/// There is no index behind it. One request reads a bounded part of the store and answers with the tasks that
/// it found there; with Cassandra a page may be empty. Only the absence of `next_page_token` says that the
/// list has ended. A task that changes between two pages may be listed twice or not at all.
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks", operation_id = "listTasks",
    params(
        ("callback" = Option<String>, Query,
            description = "Only tasks of this callback; with `*` at its end, such as `mail.*`, of those whose names begin so"),
        ("key" = Option<String>, Query,
            description = "Only the task that this key names, the live one or the last: with `callback`, and without further filters"),
        ("collection" = Option<String>, Query, description = "Only tasks of this collection"),
        ("state" = Option<TaskState>, Query, description = "Only tasks in this state; of `waiting` those that wait for other tasks: children that wait for their parent are listed with `parent`"),
        ("label.NAME" = Option<String>, Query,
            description = "Only tasks whose label `NAME` has this value, for example `label.tenant=acme`; 8 of them at most, of which a task has all"),
        ("labels" = Option<String>, Query,
            description = "The same for several labels at once, for example `labels=tenant=acme,plan=free`: of values without commas"),
        ("error" = Option<String>, Query,
            description = "Only tasks whose last error is of the class of this one: its first line, without its numbers"),
        ("start_time_from" = Option<InstantText>, Query, description = "Only tasks that start at or after this"),
        ("start_time_to" = Option<InstantText>, Query,
            description = "Only tasks that start before this; by default all, with Cassandra a day after now or `start_time_from`"),
        ("ended" = Option<bool>, Query,
            description = "false leaves out tasks that have ended; true, which lists them, too, is the default"),
        ("internal" = Option<bool>, Query,
            description = "true lists the service's own tasks, too"),
        ("parent" = Option<String>, Query,
            description = "Only the children of this task, in no particular order: without further filters"),
        ("roots" = Option<bool>, Query, description = "true leaves out tasks that are children of others"),
        ("schedule" = Option<String>, Query, description = "Only runs of this schedule; `GET /v1/schedules/{name}/runs` has those that are over for longer"),
        ("page_size" = Option<usize>, Query, minimum = 1,
            description = "At most so many tasks; 100 by default; more than 1000 is 1000"),
        ("page_token" = Option<String>, Query,
            description = "`next_page_token` of the page before, with the same filters")),
    responses(
        (status = 200, description = "A page", body = ListTasksResponse),
        (status = "default", description = "Not listed", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn list(
    State(api): State<Api>,
    Params(query): Params<ListQuery>,
) -> Result<Response, Error> {
    let page = match (&query.filter.callback, &query.key, query.parent) {
        (Some(callback), Some(key), _) => by_key(&api, callback, key).await?,
        (_, _, Some(parent)) => children(&api, parent, &query).await?,
        _ => filtered(&api, &query).await?,
    };
    Ok(answer::json(&page))
}

/// Returns a page of the tasks of a filter.
async fn filtered(api: &Api, query: &ListQuery) -> Result<ListTasksResponse, Error> {
    let (filter, token) = (&query.filter, query.page_token.as_deref());
    let cursor = token.map(|token| page_token::read(token, filter));
    let cursor = cursor.transpose().map_err(foreign)?;
    let page = api.service.list(filter, cursor, query.page_size).await?;
    let tasks = page.tasks.iter();
    Ok(ListTasksResponse {
        tasks: tasks.map(|task| task_response(task, View::Basic)).collect(),
        next_page_token: page.next.map(|cursor| page_token::write(filter, &cursor)),
        start_time_to: page.to.min(time::latest()).into(),
    })
}

fn foreign(detail: String) -> Error {
    Error::field(Code::InvalidRequest, "?page_token", detail)
}

/// Returns the list of the task that a key names: one task at most.
async fn by_key(api: &Api, callback: &str, key: &str) -> Result<ListTasksResponse, Error> {
    let task = match api.service.id_by_key(callback, key).await? {
        Some(id) => api.service.get(id, flow::base::api::View::Basic).await?,
        None => None,
    };
    let tasks = task.iter().map(|task| task_response(task, View::Basic));
    Ok(ListTasksResponse {
        tasks: tasks.collect(),
        next_page_token: None,
        start_time_to: time::latest().into(),
    })
}

/// Returns a page of the children of a task.
async fn children(
    api: &Api,
    parent: TaskId,
    query: &ListQuery,
) -> Result<ListTasksResponse, Error> {
    let token = query.page_token.as_deref().map(page_token::read_children);
    let from = token.transpose().map_err(foreign)?;
    let trees = api.service.trees();
    let page = trees.children(parent, from, query.page_size).await?;
    let tasks = page.tasks.iter();
    Ok(ListTasksResponse {
        tasks: tasks.map(|task| task_response(task, View::Basic)).collect(),
        next_page_token: page.next.map(page_token::write_children),
        start_time_to: time::latest().into(),
    })
}

/// The query of a list.
#[derive(Debug)]
pub(in crate::http) struct ListQuery {
    filter: Filter,
    key: Option<String>,
    parent: Option<TaskId>,
    page_size: usize,
    page_token: Option<String>,
}

impl FromQuery for ListQuery {
    fn read(uri: &Uri, _: &Api) -> Result<Self, Error> {
        let mut query = Self {
            filter: Filter::default(),
            key: None,
            parent: None,
            page_size: LIST_TASKS_DEFAULT,
            page_token: None,
        };
        let (mut beside_key, mut beside_parent) = (false, false);
        let mut violations = each_once(uri, &PARAMETERS, |name, value| {
            beside_key |= !matches!(name, "key" | "callback");
            beside_parent |= !matches!(name, "parent" | "page_size" | "page_token");
            match name.strip_prefix("label.") {
                Some(label) => Some(query.set_label(label, value)),
                None => query.set(name, value),
            }
        })?;
        if let (Some(from), Some(to)) = (query.filter.from, query.filter.to)
            && from >= to
        {
            violations.add("?start_time_to", "must be later than `start_time_from`");
        }
        if query.filter.pending && query.filter.state.is_some_and(VisibleState::is_terminal) {
            violations.add("?ended", "must not be false for a `state` that has ended");
        }
        if query.key.is_some() && beside_key {
            violations.add("?key", "goes with `callback` alone: leave the others out");
        } else if query.key.is_some() && query.filter.callback.is_none() {
            violations.add("?key", "needs a `callback`: keys are names within one");
        }
        if query.parent.is_some() && beside_parent {
            violations.add(
                "?parent",
                "goes with `page_size` and `page_token`: leave the others out",
            );
        }
        // A list of one of these callbacks asks for them.
        let names = [&query.filter.callback, &query.filter.beginning];
        query.filter.internal |= names.into_iter().flatten().any(|name| is_reserved(name));
        violations.finish().map(|()| query)
    }
}

impl ListQuery {
    fn set_callbacks(&mut self, of: Callbacks) {
        match of {
            Callbacks::One(name) => self.filter.callback = Some(name),
            Callbacks::Beginning(beginning) => self.filter.beginning = Some(beginning),
        }
    }

    /// Takes several labels: `NAME=VALUE`, or `NAME:VALUE`, with commas between them.
    fn set_labels(&mut self, text: &str) -> Result<(), String> {
        text.split(',').try_for_each(|label| {
            let named = label.split_once(['=', ':']);
            let (name, value) = named.ok_or_else(|| {
                let label = shorten(label);
                format!("has `{label}`, which is not NAME=VALUE")
            })?;
            self.set_label(name, value.to_owned())
        })
    }

    fn set_label(&mut self, name: &str, value: String) -> Result<(), String> {
        checked_label(name, &value)?;
        let labels = &mut self.filter.labels;
        if labels.len() >= LIST_LABELS_MAX {
            return Err(format!("is one of more than {LIST_LABELS_MAX} labels"));
        }
        // A task has one value for a label: a list by two would show tasks that one of them does not mean.
        match labels.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(format!("names the label `{}` twice", shorten(name))),
        }
    }

    /// Takes a parameter. Returns none when no parameter has this name.
    fn set(&mut self, name: &str, value: String) -> Option<Result<(), String>> {
        Some(match name {
            "callback" => convert::callbacks(value).map(|of| self.set_callbacks(of)),
            "collection" => put(&mut self.filter.collection, convert::name(value)),
            "error" => {
                self.filter.error = Some(error_class(&value));
                Ok(())
            }
            "labels" => self.set_labels(&value),
            "schedule" => put(&mut self.filter.schedule, convert::name(value)),
            "key" => put(&mut self.key, checked_name(value)),
            "state" => put(&mut self.filter.state, state(&value)),
            "start_time_from" => put(&mut self.filter.from, instant(value)),
            "start_time_to" => put(&mut self.filter.to, instant(value)),
            "ended" => truth(&value).map(|ended| self.filter.pending = !ended),
            "internal" => truth(&value).map(|internal| self.filter.internal = internal),
            "parent" => put(&mut self.parent, parent(&value)),
            "roots" => truth(&value).map(|roots| self.filter.roots = roots),
            "page_size" => put(&mut self.page_size, page_size(&value, LIST_TASKS_MAX)),
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

/// Checks a label of a filter.
fn checked_label(name: &str, value: &str) -> Result<(), String> {
    if !is_label(name, value) {
        return Err(format!(
            "has no label behind `label.`, or one of over {LABEL_CHARS_MAX} characters"
        ));
    }
    Ok(())
}

fn parent(text: &str) -> Result<TaskId, String> {
    text.parse()
        .map_err(|_| format!("`{}` is not the id of a task", shorten(text)))
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
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
