//! The page of tasks lists those that a query finds, and offers to act on some or on all of them.

use askama::Template;
use futures_util::{StreamExt as _, stream};

use super::rows::{Row, written};
use crate::{
    api::{callback::ListCallbacksResponse, task_list::ListTasksResponse},
    http::ui::{
        gate::Failure,
        parts::{
            frame::{Frame, with},
            query::Query,
            text::visible,
        },
        visit::Visit,
    },
    limits::{PAGE_KEY_CALLBACKS_MAX, PAGE_LIST_ROWS_MAX},
    model::ids::TaskId,
};

/// Callbacks that are asked for a key at once.
const KEYS_AT_ONCE: usize = 8;

/// A filter that a click adds.
struct Quick {
    name: &'static str,
    path: String,
    here: bool,
}

#[derive(Template)]
#[template(path = "tasks.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    quick: Vec<Quick>,
    rows: Vec<Row>,
    wrong: Vec<String>,
    /// The path of the next page.
    next: Option<String>,
    /// The page is not the first.
    first: Option<String>,
    /// Nothing narrows the list.
    is_all: bool,
    query: String,
    /// A page may be empty and not be the last.
    goes_on: bool,
}

/// Where a search has led: to a list, or to the one task that it names.
pub(in crate::http::ui) enum Found {
    Page(String),
    Task(String),
}

/// Shows the tasks of a query.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<Found, Failure> {
    let text = visit.parameter("q").unwrap_or_default();
    let query = Query::read(&text);
    if let Some(bare) = &query.bare {
        if let Ok(id) = bare.parse::<TaskId>() {
            return Ok(Found::Task(id.to_string()));
        }
        return named(visit, &query, bare, &text).await;
    }
    if !query.wrong.is_empty() {
        let wrong = query.wrong.iter().map(|wrong| visible(wrong)).collect();
        return shown(visit, &text, Listed::default(), wrong);
    }
    let token = visit.parameter("page");
    match list(visit, &query, token.as_deref()).await {
        Ok(listed) => shown(visit, &text, listed, Vec::new()),
        Err(failure) if !failure.errors.is_empty() => {
            let wrong = failure.errors.iter().map(|error| {
                let name = error.pointer.trim_start_matches('?');
                visible(&format!("{name} {}", error.detail))
            });
            shown(visit, &text, Listed::default(), wrong.collect())
        }
        Err(failure) => Err(failure),
    }
}

#[derive(Default)]
struct Listed {
    rows: Vec<Row>,
    next: Option<String>,
    /// The page is behind another one.
    is_behind: bool,
}

/// Lists the tasks of a query. A reader whose key is limited sees those of the first callback of it, unless it names another.
async fn list(visit: &Visit, query: &Query, token: Option<&str>) -> Result<Listed, Failure> {
    let size = PAGE_LIST_ROWS_MAX.to_string();
    let mut more = vec![];
    let is_one = query.of("key").is_some();
    if !is_one {
        more.push(("page_size", size.as_str()));
    }
    if let Some(token) = token {
        more.push(("page_token", token));
    }
    let own = visit.who.callbacks.as_ref().and_then(|all| all.first());
    if let Some(own) = own.filter(|_| query.of("callback").is_none()) {
        more.push(("callback", own));
    }
    let path = format!("/v1/tasks?{}", query.written(&more));
    let list: ListTasksResponse = visit.get(&path).await?;
    Ok(Listed {
        rows: list.tasks.iter().map(Row::of).collect(),
        next: list.next_page_token,
        is_behind: token.is_some(),
    })
}

/// Looks for a key: in the callback of the query, else in those that are known.
async fn named(visit: &Visit, query: &Query, key: &str, text: &str) -> Result<Found, Failure> {
    let callbacks = match query.of("callback") {
        Some(callback) => vec![callback.to_owned()],
        None => known(visit).await?,
    };
    let looked = callbacks.len();
    let reads = stream::iter(callbacks).map(|callback| async move {
        let one = Query {
            parameters: vec![
                ("callback".to_owned(), callback),
                ("key".to_owned(), key.to_owned()),
            ],
            ..Query::default()
        };
        list(visit, &one, None).await
    });
    let lists: Vec<Result<Listed, Failure>> = reads.buffer_unordered(KEYS_AT_ONCE).collect().await;
    let mut rows = Vec::new();
    for listed in lists {
        match listed {
            Ok(listed) => rows.extend(listed.rows),
            // Words that are no key find nothing.
            Err(failure) if failure.status.is_client_error() => {}
            Err(failure) => return Err(failure),
        }
    }
    if let [row] = rows.as_slice() {
        return Ok(Found::Task(row.id.clone()));
    }
    let wrong = if rows.is_empty() {
        let key = visible(key);
        vec![format!(
            "No task has the id or the key {key} in the {looked} callbacks that were looked at. A key is found with its \
             callback: callback:NAME {key}"
        )]
    } else {
        Vec::new()
    };
    let listed = Listed {
        rows,
        ..Listed::default()
    };
    shown(visit, text, listed, wrong)
}

/// Returns the callbacks that are known: those of the key, else those that are configured or have due tasks.
async fn known(visit: &Visit) -> Result<Vec<String>, Failure> {
    if let Some(own) = &visit.who.callbacks {
        return Ok(own.clone());
    }
    let path = format!("/v1/callbacks?page_size={PAGE_KEY_CALLBACKS_MAX}");
    let listed: ListCallbacksResponse = visit.get(&path).await?;
    let names = listed.callbacks.into_iter().map(|callback| callback.name);
    let mut names: Vec<String> = names.collect();
    if visit.rights.look {
        let list: ListTasksResponse = visit.get("/v1/tasks?page_size=200").await?;
        let seen = list.tasks.iter();
        let seen = seen.filter_map(|task| super::rows::callback(&task.target));
        names.extend(seen.map(str::to_owned));
    }
    names.sort();
    names.dedup();
    names.truncate(PAGE_KEY_CALLBACKS_MAX);
    Ok(names)
}

fn shown(visit: &Visit, text: &str, listed: Listed, wrong: Vec<String>) -> Result<Found, Failure> {
    let here = if text.is_empty() {
        "/tasks".to_owned()
    } else {
        with("/tasks", "q", text)
    };
    let next = listed.next.as_deref();
    let page = Page {
        frame: visit.frame(),
        quick: quick(text),
        next: next.map(|token| with(&here, "page", token)),
        first: listed.is_behind.then_some(here),
        is_all: text.is_empty() && !listed.is_behind,
        goes_on: listed.rows.is_empty() && listed.next.is_some(),
        rows: listed.rows,
        wrong,
        query: text.to_owned(),
    };
    written(&page).map(Found::Page)
}

/// Returns the states that a click filters by; other words of the query stay.
fn quick(text: &str) -> Vec<Quick> {
    let rest: Vec<&str> = text
        .split_whitespace()
        .filter(|word| !word.starts_with("state:") && !word.starts_with("ended:"))
        .collect();
    let rest = rest.join(" ");
    let all = [
        ("all", ""),
        ("not ended", "ended:false"),
        ("scheduled", "state:scheduled"),
        ("enqueued", "state:enqueued"),
        ("processing", "state:processing"),
        ("retrying", "state:retrying"),
        ("waiting", "state:waiting"),
        ("succeeded", "state:succeeded"),
        ("failed", "state:failed"),
        ("dead", "state:dead"),
        ("cancelled", "state:cancelled"),
    ];
    let has = |word: &str| text.split_whitespace().any(|other| other == word);
    let narrowed = text.contains("state:") || text.contains("ended:");
    let links = all.map(|(name, word)| {
        let query = format!("{rest} {word}");
        Quick {
            name,
            path: match query.trim() {
                "" => "/tasks".to_owned(),
                query => with("/tasks", "q", query),
            },
            here: if word.is_empty() {
                !narrowed
            } else {
                has(word)
            },
        }
    });
    links.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_added_to_the_other_words() {
        let links = quick("callback:mail state:dead");
        let here: Vec<&str> = links
            .iter()
            .filter(|link| link.here)
            .map(|link| link.name)
            .collect();
        assert_eq!(here, ["dead"]);
        assert_eq!(links[0].path, "/tasks?q=callback%3Amail");
        assert_eq!(links[1].path, "/tasks?q=callback%3Amail+ended%3Afalse");
        assert!(quick("")[0].here);
    }
}
