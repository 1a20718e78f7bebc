//! The last step of a drill reads every task over REST and the slots with CQL, and logs them for the checker.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    response::query_result::QueryResult,
};
use serde_json::{Value, json};

use crate::{
    check::read_lines,
    journal::Journal,
    members::Kind,
    servers::STORE_PORT,
    site::{KEYSPACE, SLOTS, Site, WHEELS},
};

/// After the last fault every task has ended within this, or it is lost: see `check`.
const END_MAX: Duration = Duration::from_secs(150);

const TERMINAL: [&str; 5] = ["succeeded", "failed", "cancelled", "expired", "dead"];

/// Reads each known task until all have ended or the time is up. Tasks that become known meanwhile are read as well.
pub(crate) async fn read_tasks(site: &Site) {
    let journal = Journal::open(&site.root, "finals");
    let until = site.time.moment().after(END_MAX);
    let mut ended = BTreeSet::new();
    while site.time.moment() < until {
        // A task whose registration was not answered is known by its run, which may begin meanwhile.
        let left: Vec<String> = known(site).difference(&ended).cloned().collect();
        if left.is_empty() {
            return;
        }
        let reads = left.into_iter().map(|id| async move {
            let answer = site.ask(&format!("/v1/tasks/{id}")).await;
            (id, answer)
        });
        let read: Vec<(String, Option<Value>)> =
            stream::iter(reads).buffer_unordered(8).collect().await;
        let mut under_way = 0;
        for (id, answer) in read {
            let state = answer
                .as_ref()
                .and_then(|answer| answer["body"]["state"].as_str());
            let over = state.is_some_and(|state| TERMINAL.contains(&state));
            // The last answer counts.
            if let Some(answer) = answer {
                journal.note(json!({"what": "final", "id": id, "status": answer["status"], "task": answer["body"]}));
            }
            if over {
                ended.insert(id);
            } else {
                under_way += 1;
            }
        }
        say!("{under_way} tasks have not ended");
        site.time.sleep(Duration::from_secs(2)).await;
    }
}

/// The ids that a client or a worker has seen, and those that a task names as its follow-ups.
fn known(site: &Site) -> BTreeSet<String> {
    let workers = Kind::Worker.members().map(|worker| worker.to_string());
    let logs = workers.chain(["clients", "finals"].map(str::to_owned));
    let lines = logs.flat_map(|name| read_lines(&site.root, &name));
    // The records of a topic are read from the topic.
    let lines = lines.filter(|line| line["op"] != "record");
    let ids = lines.flat_map(|line| {
        let follows = line["task"]["then"].as_array().into_iter().flatten();
        let follows = follows.map(|follow| follow["id"].clone());
        let ids: Vec<Value> = follows.chain([line["id"].clone()]).collect();
        ids
    });
    let ids = ids.filter_map(|id| Some(id.as_str()?.to_owned()));
    ids.filter(|id| !id.is_empty()).collect()
}

/// A plain client of the store that reads the slots from outside.
pub(crate) struct Slots {
    session: Session,
    journal: Journal,
}

impl Slots {
    pub(crate) async fn connect(site: &Site) -> Self {
        let stores = site.net.addresses(Kind::Store, STORE_PORT);
        let session = SessionBuilder::new()
            .known_nodes(stores.split(','))
            .connection_timeout(Duration::from_secs(3))
            .build()
            .await;
        Self {
            session: session.expect("the store answers"),
            journal: Journal::open(&site.root, "slots"),
        }
    }

    /// Counts the live entries of each task: those that lie ahead of their wheel's hand. None when the store does not answer.
    pub(crate) async fn count(&self, site: &Site) -> Option<usize> {
        let counting = self.live();
        let live = site
            .time
            .within(Duration::from_secs(20), counting)
            .await??;
        let total: usize = live.values().sum();
        let many: BTreeMap<&String, &usize> =
            live.iter().filter(|(_, count)| **count > 2).collect();
        let tasks = live.len();
        self.journal
            .note(json!({"what": "slots", "entries": total, "tasks": tasks, "many": many}));
        Some(total)
    }

    async fn query(&self, text: &str) -> Option<QueryResult> {
        self.session.query_unpaged(text, &[]).await.ok()
    }

    async fn live(&self) -> Option<BTreeMap<String, usize>> {
        let mut live = BTreeMap::new();
        let text = format!("SELECT wheel, fired_due_ms FROM {KEYSPACE}.clock");
        let clocks = self.query(&text).await?.into_rows_result().ok()?;
        let clocks: Vec<(i16, i64)> = clocks.rows().ok()?.filter_map(Result::ok).collect();
        if clocks.len() != usize::try_from(WHEELS).ok()? {
            return None;
        }
        for (wheel, fired) in clocks {
            for slot in 0..SLOTS {
                let text = format!(
                    "SELECT id, kind FROM {KEYSPACE}.wheel WHERE wheel = {wheel} AND slot = {slot} AND due_ms > {fired}"
                );
                let rows = self.query(&text).await?.into_rows_result().ok()?;
                for row in rows.rows::<(uuid::Uuid, i8)>().ok()? {
                    let (id, kind) = row.ok()?;
                    // Kind 2 is an entry that acts no more.
                    if kind != 2 {
                        *live.entry(id.to_string()).or_default() += 1;
                    }
                }
            }
        }
        Some(live)
    }
}

/// Waits until no slot holds a live entry, which shows that nothing multiplies; the time it took is in the log.
pub(crate) async fn wait_until_empty(site: &Site, slots: &Slots) {
    let until = site.time.moment().after(END_MAX);
    while site.time.moment() < until {
        if slots.count(site).await == Some(0) {
            return;
        }
        site.time.sleep(Duration::from_secs(3)).await;
    }
}
