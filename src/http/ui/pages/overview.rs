//! The overview shows what is wrong now, the worst first, and how much goes on and comes.

use std::{collections::BTreeMap, time::Duration};

use askama::Template;
use axum::http::Method;
use serde::Deserialize;

use super::{
    comes::{self, Hour},
    minute::{self, Past},
    polled,
    rows::written,
    waits::{self, Waits},
};
use crate::{
    api::{
        dead_letter::ListDeadLettersResponse,
        stats::{ClusterResponse, StatsResponse, UnclaimedCallback},
    },
    http::ui::{
        gate::{Condition, Failure},
        parts::{
            chart,
            frame::{Frame, part, with},
            text::{counted, grouped, rate, short, span, visible},
            time,
        },
        visit::Visit,
    },
    model::time::Millis,
};

/// A worker that does not ask for so long is gone: a poll begins within seconds of the last.
const ALARMING: Duration = Duration::from_secs(10);

/// A task that is due for less may yet be taken.
const OVERDUE: Duration = Duration::from_secs(3);

/// Tasks of a callback whose workers poll and are this far behind need more of them.
const BEHIND: Duration = Duration::from_secs(60);

/// A wheel this far behind is late for everybody; an owner reports once a tick.
const WHEEL_BEHIND: Duration = Duration::from_secs(5);

/// Lateness at which people ask: a hundred times the usual.
const LATE_MS: i64 = 1000;

/// A dead letter that is younger is news.
const FRESH: Duration = Duration::from_secs(15 * 60);

/// A clock of a node this far away from that of this one is wrong.
const CLOCK_OFF: Duration = Duration::from_secs(15);

/// Something that is wrong.
struct News {
    class: &'static str,
    /// The place where more is said of it.
    path: String,
    text: String,
    /// The element of the time since when.
    since: String,
}

struct Figure {
    name: &'static str,
    value: String,
    about: String,
    /// The page with more of it; empty where there is none.
    path: &'static str,
    class: &'static str,
}

struct Horizon {
    name: &'static str,
    tasks: String,
    gauge: String,
}

#[derive(Template)]
#[template(path = "overview.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    news: Vec<News>,
    figures: Vec<Figure>,
    horizons: Vec<Horizon>,
    hour: Option<Hour>,
    past: Vec<Past>,
    standing: Vec<Figure>,
    waits: Vec<Waits>,
    unclaimed: Vec<Unclaimed>,
    exact: bool,
    is_new: bool,
}

struct Unclaimed {
    callback: String,
    path: String,
    tasks: String,
    oldest: String,
    cause: &'static str,
    polled: String,
    bad: bool,
}

#[derive(Template)]
#[template(path = "welcome.html", config = "src/http/ui/askama.toml")]
struct Welcome {
    frame: Frame,
    callbacks: Vec<String>,
}

/// Whether the node can do its work, as it says.
#[derive(Deserialize)]
struct Readiness {
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    name: String,
    #[serde(default)]
    problem: Option<String>,
}

/// Shows the overview; to a reader who may not see the whole, the ways to what it may see.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    let frame = visit.frame();
    if !(visit.rights.look && visit.rights.whole) {
        let callbacks = visit.who.callbacks.clone().unwrap_or_default();
        return written(&Welcome { frame, callbacks });
    }
    let stats: StatsResponse = visit.get("/v1/stats").await?;
    let cluster: ClusterResponse = visit.get("/v1/cluster").await?;
    let letters: ListDeadLettersResponse = visit.get("/v1/dead-letters?page_size=1").await?;
    let now = time::read(&stats.time).unwrap_or(visit.now);
    let mut news = unready(visit).await?;
    news.extend(away(&cluster, now));
    let polled = polled::near(visit, &idle(&stats)).await?;
    news.extend(unclaimed_news(&stats, &polled, now));
    news.extend(held(&stats));
    news.extend(late(&stats));
    news.extend(dying(&stats, &letters, now));
    // The sort keeps the order within a class.
    news.sort_by_key(|one| one.class != "bad");
    let waiting = stats.pending.iter().any(|pending| pending.tasks > 0);
    let is_new = !waiting
        && stats.unclaimed.tasks == 0
        && letters.dead_letters.is_empty()
        && stats.node.fired_per_second == 0.0
        && stats.tasks.waiting + stats.tasks.retrying == 0;
    written(&Page {
        frame,
        news,
        figures: figures(&stats),
        horizons: horizons(&stats),
        hour: comes::hour(visit).await?,
        past: stats
            .node
            .seconds
            .as_ref()
            .map_or_else(Vec::new, minute::past),
        standing: standing(&stats),
        waits: waits::by_callback(&stats),
        unclaimed: unclaimed(&stats, now),
        exact: stats.exact,
        is_new,
    })
}

/// Reads the conditions of the node that do not hold.
async fn unready(visit: &Visit) -> Result<Vec<News>, Failure> {
    let (gate, line) = (&visit.head.ui.gate, &visit.head.line);
    let answer = gate
        .ask(line, Method::GET, "/readyz?verbose", None, Condition::Any)
        .await?;
    let checks = answer.read::<Readiness>()?.checks.into_iter();
    let failed = checks.filter_map(|check| {
        let problem = check.problem?;
        Some(News {
            class: "bad",
            path: "/cluster".to_owned(),
            text: format!("{}: {}", check.name, visible(&problem)),
            since: String::new(),
        })
    });
    Ok(failed.collect())
}

/// Returns what is wrong with nodes and wheels.
fn away(cluster: &ClusterResponse, now: Millis) -> Vec<News> {
    let news = |text: String| News {
        class: "bad",
        path: "/cluster".to_owned(),
        text,
        since: String::new(),
    };
    let mut all = Vec::new();
    for node in &cluster.nodes {
        let name = visible(&node.name);
        if !node.ready {
            all.push(news(format!("The node {name} is not ready.")));
        }
        if let Some(wall) = time::read(&node.wall_time)
            && wall.since(now).max(now.since(wall)) > CLOCK_OFF
        {
            all.push(news(format!(
                "The clock of the node {name} is {} away, or it gives no sign of life.",
                span(wall.since(now).max(now.since(wall)))
            )));
        }
    }
    let free = cluster.wheels.iter().filter(|wheel| wheel.owner.is_none());
    let free = free.count() as u64;
    if free > 0 {
        all.push(news(format!(
            "{} no node.",
            counted(free, "wheel has", "wheels have")
        )));
    }
    all
}

/// Tells whether no worker asks for the tasks of a callback, which have waited for one.
fn is_idle(waiting: &UnclaimedCallback) -> bool {
    let polled = waiting.last_poll_ms.map(Duration::from_millis);
    let is_left = polled.is_none_or(|ago| ago >= ALARMING);
    waiting.cause == "worker" && is_left && age(waiting) >= OVERDUE
}

fn age(waiting: &UnclaimedCallback) -> Duration {
    Duration::from_millis(waiting.oldest_age_ms)
}

/// Returns the callbacks whose tasks wait for a worker that does not come.
fn idle(stats: &StatsResponse) -> Vec<String> {
    let waiting = stats.unclaimed.callbacks.iter();
    let idle = waiting.filter(|waiting| is_idle(waiting));
    idle.map(|waiting| waiting.callback.clone()).collect()
}

fn unclaimed_news(
    stats: &StatsResponse,
    polled: &BTreeMap<String, String>,
    now: Millis,
) -> Vec<News> {
    let told = stats.unclaimed.callbacks.iter().filter_map(|waiting| {
        let name = visible(&waiting.callback);
        let tasks = counted(waiting.tasks, "due task", "due tasks");
        let (class, text) = match waiting.cause.as_str() {
            "worker" if is_idle(waiting) => {
                let meant = polled.get(&waiting.callback);
                let meant = meant.map_or_else(String::new, |meant| {
                    format!(" Workers ask for {}: is that the one?", visible(meant))
                });
                let text = match waiting.last_poll_ms {
                    None => format!("{name} has {tasks} and no worker.{meant}"),
                    Some(ago) => {
                        let ago = span(Duration::from_millis(ago));
                        format!("{name} has {tasks}, and its last worker asked {ago} ago.{meant}")
                    }
                };
                ("bad", text)
            }
            "worker" if age(waiting) >= BEHIND => (
                "warn",
                format!("The workers of {name} are behind: {tasks} wait for one."),
            ),
            "rate" => ("warn", format!("The rate of {name} holds {tasks}.")),
            "max_in_flight" => (
                "warn",
                format!("{name} runs as many tasks as it may, which holds {tasks}."),
            ),
            _ => return None,
        };
        Some(News {
            class,
            path: format!("/callbacks/{}", part(&waiting.callback)),
            text,
            since: time::ago(now.before(age(waiting))),
        })
    });
    told.collect()
}

fn held(stats: &StatsResponse) -> Vec<News> {
    let told = stats.gates.iter().map(|closed| {
        let name = visible(&closed.callback);
        let of = closed.gate.collection.as_deref();
        let of = of.map_or_else(String::new, |of| format!(", collection {of},"));
        let who = closed.gate.who.as_deref();
        let who = who.map_or_else(String::new, |who| format!(" by {}", visible(who)));
        let reason = closed.gate.reason.as_deref();
        let reason = reason.map_or_else(String::new, |reason| format!(": {}", short(reason, 80)));
        let held = closed.held.filter(|held| *held > 0);
        let held = held.map_or_else(String::new, |held| {
            format!(" It holds {}.", counted(held, "task", "tasks"))
        });
        let state = match closed.gate.gate {
            crate::api::callback::GateState::Dropping => "drops its due tasks",
            _ => "is paused",
        };
        News {
            class: "warn",
            path: format!("/callbacks/{}", part(&closed.callback)),
            text: format!("{name}{of} {state}{who}{reason}.{held}"),
            since: time::read(&closed.gate.since).map_or_else(String::new, time::ago),
        }
    });
    told.collect()
}

fn late(stats: &StatsResponse) -> Vec<News> {
    let news = |class, text| News {
        class,
        path: "/cluster".to_owned(),
        text,
        since: String::new(),
    };
    let behind = Duration::from_millis(stats.behind_ms);
    let mut all = Vec::new();
    if behind > WHEEL_BEHIND {
        all.push(news(
            "bad",
            format!("The slowest wheel is {} behind.", span(behind)),
        ));
    }
    if let Some(late) = stats
        .node
        .lateness
        .as_ref()
        .filter(|late| late.p99_ms > LATE_MS)
    {
        let text = format!(
            "One task in a hundred is handed over {} ms late or more.",
            late.p99_ms
        );
        all.push(news("warn", text));
    }
    all
}

fn dying(stats: &StatsResponse, letters: &ListDeadLettersResponse, now: Millis) -> Option<News> {
    let newest = letters.dead_letters.first()?;
    let died = time::read(&newest.end_time)?;
    if now.since(died) > FRESH {
        return None;
    }
    let (callback, error) = (visible(&newest.callback), short(&newest.error, 80));
    // They are counted about once a minute.
    let dead = stats.tasks.dead.filter(|dead| *dead > 0);
    let dead = dead.map_or_else(String::new, |dead| {
        format!(" {}.", counted(dead, "task is dead", "tasks are dead"))
    });
    Some(News {
        class: "warn",
        path: with("/dead-letters", "callback", &newest.callback),
        text: format!("Tasks of {callback} die: {error}.{dead}"),
        since: time::ago(died),
    })
}

fn figures(stats: &StatsResponse) -> Vec<Figure> {
    let minute = || "a second, in the last minute".to_owned();
    let figure = |name, value, about| Figure {
        name,
        value,
        about,
        path: "",
        class: "",
    };
    let (late, about) = match &stats.node.lateness {
        Some(late) => (
            format!("{} ms", late.p99_ms),
            format!("99 of 100; half within {} ms", late.p50_ms),
        ),
        None => (
            "–".to_owned(),
            "nothing was due in the last minute".to_owned(),
        ),
    };
    let oldest = stats.unclaimed.callbacks.iter().map(age).max();
    let oldest = oldest.map_or_else(
        || "every due task has a worker".to_owned(),
        |age| format!("the oldest for {}", span(age)),
    );
    vec![
        figure("Handed over", rate(stats.node.fired_per_second), minute()),
        figure("Settled", rate(stats.node.settled_per_second), minute()),
        figure("Lateness", late, about),
        figure("Due, no worker yet", grouped(stats.unclaimed.tasks), oldest),
    ]
}

fn horizons(stats: &StatsResponse) -> Vec<Horizon> {
    let most = stats.pending.iter().map(|pending| pending.tasks).max();
    let most = most.unwrap_or_default();
    let rows = stats.pending.iter().map(|pending| {
        let name = match pending.horizon.as_str() {
            "overdue" => "overdue",
            "minute" => "within a minute",
            "hour" => "within an hour",
            "day" => "within a day",
            _ => "later",
        };
        let class = if name == "overdue" { "bad" } else { "run" };
        Horizon {
            name,
            tasks: match (pending.complete, pending.tasks) {
                (true, tasks) => grouped(tasks),
                (false, 0) => "not counted".to_owned(),
                (false, tasks) => format!("≥ {}", grouped(tasks)),
            },
            gauge: chart::gauge(pending.tasks, most, class, name),
        }
    });
    rows.collect()
}

fn standing(stats: &StatsResponse) -> Vec<Figure> {
    let tasks = &stats.tasks;
    let maybe = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), grouped);
    let figure = |name, value, path, class| Figure {
        name,
        value,
        about: String::new(),
        path,
        class,
    };
    vec![
        figure(
            "retrying",
            grouped(tasks.retrying),
            "/tasks?q=state%3Aretrying",
            "warn",
        ),
        figure(
            "waiting for others",
            grouped(tasks.waiting),
            "/tasks?q=state%3Awaiting",
            "wait",
        ),
        figure(
            "held by limits",
            grouped(tasks.limited),
            "/callbacks",
            "warn",
        ),
        figure("held by gates", maybe(tasks.held), "/callbacks", "warn"),
        figure("dead", maybe(tasks.dead), "/dead-letters", "bad"),
    ]
}

fn unclaimed(stats: &StatsResponse, now: Millis) -> Vec<Unclaimed> {
    const SHOWN: usize = 12;
    let rows = stats.unclaimed.callbacks.iter().take(SHOWN);
    let rows = rows.map(|waiting| Unclaimed {
        callback: visible(&waiting.callback),
        path: format!("/callbacks/{}", part(&waiting.callback)),
        tasks: grouped(waiting.tasks),
        oldest: time::ago(now.before(age(waiting))),
        cause: match waiting.cause.as_str() {
            "rate" => "its rate",
            "max_in_flight" => "its bound of running tasks",
            _ => "a worker",
        },
        polled: waiting.last_poll_ms.map_or_else(
            || "not in ten minutes".to_owned(),
            |ago| format!("{} ago", span(Duration::from_millis(ago / 1000 * 1000))),
        ),
        bad: is_idle(waiting),
    });
    rows.collect()
}
