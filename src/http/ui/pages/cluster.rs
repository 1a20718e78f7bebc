//! The page of the cluster shows its nodes, its wheels with the tasks that are due in them, and the conditions of the node that
//! answers.

use std::time::Duration;

use askama::Template;
use axum::http::Method;
use serde::Deserialize;

use super::{
    rows::written,
    wheel::{self, Map},
};
use crate::{
    api::stats::ClusterResponse,
    http::ui::{
        gate::{Condition, Failure},
        parts::{
            frame::Frame,
            text::{grouped, span, visible},
            time,
        },
        visit::Visit,
    },
};

/// A wheel this far behind is late.
const BEHIND: Duration = Duration::from_secs(5);

struct Node {
    name: String,
    address: String,
    ready: bool,
    wheels: String,
    seen: String,
}

struct Wheel {
    number: u16,
    owner: Option<String>,
    fired: String,
    behind: String,
    late: bool,
    version: String,
}

#[derive(Deserialize)]
struct Readiness {
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    name: String,
    ok: bool,
    #[serde(default)]
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "cluster.html", config = "src/http/ui/askama.toml")]
struct Page {
    frame: Frame,
    checks: Vec<Check>,
    nodes: Vec<Node>,
    wheels: Vec<Wheel>,
    map: Option<Map>,
}

/// Shows the cluster.
pub(in crate::http::ui) async fn page(visit: &Visit) -> Result<String, Failure> {
    let cluster: ClusterResponse = visit.get("/v1/cluster").await?;
    let (gate, line) = (&visit.head.ui.gate, &visit.head.line);
    let ready = gate
        .ask(line, Method::GET, "/readyz?verbose", None, Condition::Any)
        .await?;
    let name_of = |id: &str| {
        let node = cluster.nodes.iter().find(|node| node.id == id);
        node.map_or_else(
            || "a node that is gone".to_owned(),
            |node| visible(&node.name),
        )
    };
    let nodes = cluster.nodes.iter().map(|node| {
        let owned = cluster
            .wheels
            .iter()
            .filter(|wheel| wheel.owner.as_deref() == Some(&node.id));
        Node {
            name: visible(&node.name),
            address: visible(&node.address),
            ready: node.ready,
            wheels: grouped(owned.count() as u64),
            seen: time::of(Some(&node.wall_time)),
        }
    });
    let wheels = cluster.wheels.iter().map(|wheel| {
        let behind = Duration::from_millis(wheel.behind_ms);
        Wheel {
            number: wheel.wheel,
            owner: wheel.owner.as_deref().map(name_of),
            fired: time::of(Some(&wheel.fired)),
            behind: span(behind),
            late: behind > BEHIND,
            version: u64::try_from(wheel.version).map_or_else(|_| "–".to_owned(), grouped),
        }
    });
    written(&Page {
        frame: visit.frame(),
        checks: ready.read::<Readiness>()?.checks,
        nodes: nodes.collect(),
        wheels: wheels.collect(),
        map: wheel::map(visit).await?,
    })
}
