//! The REST client registers tasks for scenarios at the least cost to itself, since it shares the cores with
//! the service.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context as _, ensure};
use uuid::Uuid;

use crate::{
    embedded::{http::Connection, wire},
    payload,
    servers::Server,
    tasks::{self, Kind},
};

use tickwheel::model::{
    ids::TaskId,
    time::{Millis, rfc3339},
};

/// The fields of each task alone: its start, its payload, their names.
const OWN_BYTES: usize = payload::BYTES + 64;

/// Connections to a server, as many as there were requests under way at once, and the common fields of all
/// tasks.
pub(super) struct Rest {
    address: SocketAddr,
    idle: Mutex<Vec<Connection>>,
    /// A task's fields, without its start and its payload.
    fields: String,
}

impl Rest {
    pub(super) fn to(server: &Server, kind: Kind, name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            address: server.address()?,
            idle: Mutex::default(),
            fields: tasks::fields(kind, name).to_string(),
        })
    }

    /// Registers a task by the call for one.
    pub(super) async fn register(&self, start: Millis) -> anyhow::Result<TaskId> {
        let mut body = String::with_capacity(self.fields.len() + OWN_BYTES);
        self.push(&mut body, start);
        let ids = self.post("/v1/tasks", body.as_bytes(), 1).await?;
        ids.first().copied().context("no id")
    }

    /// Registers tasks in one request; returns their ids in order.
    pub(super) async fn register_batch(&self, starts: &[Millis]) -> anyhow::Result<Vec<TaskId>> {
        let mut body = String::with_capacity((self.fields.len() + OWN_BYTES) * starts.len());
        body.push_str(r#"{"tasks":["#);
        for (index, start) in starts.iter().enumerate() {
            if index > 0 {
                body.push(',');
            }
            self.push(&mut body, *start);
        }
        body.push_str("]}");
        let path = "/v1/tasks:batchCreate";
        self.post(path, body.as_bytes(), starts.len()).await
    }

    fn push(&self, body: &mut String, start: Millis) {
        let start = rfc3339(start);
        body.push_str(r#"{"start_time":""#);
        body.push_str(&start);
        body.push_str(r#"","payload":"#);
        body.push_str(&payload::next());
        body.push(',');
        // Without its opening brace.
        body.push_str(self.fields.get(1..).unwrap_or_default());
    }

    async fn post(&self, path: &str, body: &[u8], count: usize) -> anyhow::Result<Vec<TaskId>> {
        let idle = self.lock().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => Connection::open(self.address).await?,
        };
        let answer = connection.post(path, body).await?;
        let id = |id: anyhow::Result<u128>| anyhow::Ok(TaskId::bound(Uuid::from_u128(id?)));
        let ids: Vec<TaskId> = wire::ids(answer).map(id).collect::<anyhow::Result<_>>()?;
        let answered = ids.len();
        ensure!(answered == count, "{answered} of {count} were registered");
        self.lock().push(connection);
        Ok(ids)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
