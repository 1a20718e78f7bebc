//! The page of dead letters shows them by callback and class of error, with a sample, and starts them again.

use askama::Template;

use super::rows::{Row, written};
use crate::{
    api::dead_letter::{DeadLetterGroup, ListDeadLettersResponse},
    http::ui::{
        gate::Failure,
        parts::{
            chart,
            frame::{Frame, with},
            text::{grouped, short, visible},
            time,
        },
        visit::Visit,
    },
};

/// Tasks of the sample.
const SAMPLE: usize = 20;

/// The name of what is left out of the groups.
const OTHER: &str = "(other)";

struct Group {
    callback: String,
    error: String,
    tasks: String,
    share: String,
    newest: String,
    oldest: String,
    path: String,
    here: bool,
}

struct Letter {
    row: Option<Row>,
    id: String,
    died: String,
    error: String,
}

/// The group that is looked at.
struct Chosen {
    callback: Option<String>,
    error: Option<String>,
    tasks: String,
    count: u64,
    letters: Vec<Letter>,
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "letters.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    groups: Vec<Group>,
    at_least: bool,
    chosen: Option<Chosen>,
    whole: Option<String>,
}

/// Shows the groups, and the letters of the one that the query names.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    let own = visit.who.callbacks.as_ref().and_then(|all| all.first());
    let callback = visit.parameter("callback").or_else(|| own.cloned());
    let error = visit.parameter("error");
    let of_callback = |path: &str| match &callback {
        Some(callback) => with(path, "callback", callback),
        None => path.to_owned(),
    };
    let counted: Vec<DeadLetterGroup> = visit.get(&of_callback("/v1/dead-letters:groups")).await?;
    let most = counted
        .iter()
        .map(|group| group.tasks)
        .max()
        .unwrap_or_default();
    let is_here = |group: &DeadLetterGroup| {
        error.as_deref() == Some(&group.error) && callback.as_deref() == Some(&group.callback)
    };
    let chosen = match &error {
        Some(_) => {
            let found = counted.iter().filter(|group| is_here(group));
            let tasks = found.map(|group| group.tasks).sum();
            Some(chosen(visit, callback.clone(), error.clone(), tasks).await?)
        }
        None => None,
    };
    written(&Page {
        frame: visit.frame(),
        at_least: counted.iter().any(|group| group.at_least),
        groups: counted
            .iter()
            .map(|group| line(group, most, is_here(group)))
            .collect(),
        chosen,
        whole: visit
            .parameter("callback")
            .map(|_| "/dead-letters".to_owned()),
    })
}

fn line(group: &DeadLetterGroup, most: u64, here: bool) -> Group {
    let is_other = group.callback == OTHER || group.error == OTHER;
    let path = with("/dead-letters", "callback", &group.callback);
    Group {
        callback: visible(&group.callback),
        error: short(&group.error, 160),
        tasks: grouped(group.tasks),
        share: chart::gauge(group.tasks, most, "bad", "Share of the dead tasks"),
        newest: time::row(&group.newest),
        oldest: time::row(&group.oldest),
        path: if is_other {
            String::new()
        } else {
            with(&path, "error", &group.error)
        },
        here,
    }
}

async fn chosen(
    visit: &Visit,
    callback: Option<String>,
    error: Option<String>,
    tasks: u64,
) -> Result<Chosen, Failure> {
    let narrowed = |path: &str| {
        let path = match &callback {
            Some(callback) => with(path, "callback", callback),
            None => path.to_owned(),
        };
        match &error {
            Some(error) => with(&path, "error", error),
            None => path,
        }
    };
    let mut path = narrowed(&format!("/v1/dead-letters?page_size={SAMPLE}"));
    if let Some(token) = visit.parameter("page") {
        path = with(&path, "page_token", &token);
    }
    let list: ListDeadLettersResponse = visit.get(&path).await?;
    let next = list.next_page_token.as_deref();
    let next = next.map(|token| with(&narrowed("/dead-letters"), "page", token));
    let letters = list.dead_letters.iter().map(|letter| Letter {
        row: letter.task.as_ref().map(Row::of),
        id: letter.id.clone(),
        died: time::row(&letter.end_time),
        error: letter
            .task
            .as_ref()
            .and_then(|task| task.error.as_deref())
            .map_or_else(|| visible(&letter.error), |error| short(error, 300)),
    });
    Ok(Chosen {
        letters: letters.collect(),
        tasks: grouped(tasks),
        count: tasks,
        next,
        callback,
        error,
    })
}
