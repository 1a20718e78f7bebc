//! The body table keeps contents that are too large for entries, and rows that were set aside, for the wheel
//! store.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use uuid::Uuid;

use super::{
    Store,
    link::{Purpose, corrupt},
    ttl::{NO_TTL, ttl_seconds},
};
use crate::{
    limits::{STORE_READS_IN_FLIGHT_MAX, STORE_WRITES_IN_FLIGHT_MAX},
    model::{
        entry::{Key, KeyCode},
        ids::TaskId,
        task::Content,
        time::Millis,
    },
    schema::{decode_content, encode_content},
    store::{Error, Parked, row::to_i32},
};

/// Rows that were set aside are listed by the day.
const DAY_MS: i64 = 24 * 3600 * 1000;

impl Store {
    pub(super) async fn write_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        written: i64,
        ttl: Option<u32>,
    ) -> Vec<Result<(), Error>> {
        let written_ms = Millis(written.div_euclid(1000));
        let ttl = ttl.map_or(NO_TTL, |seconds| {
            ttl_seconds(Duration::from_secs(seconds.into()), written_ms)
        });
        let statement = &self.statements.put_body;
        stream::iter(bodies.to_vec())
            .map(|(id, content)| async move {
                let values = (id.uuid(), encode_content(&content), written, ttl);
                self.link.write("put a body", statement, values).await
            })
            .buffered(STORE_WRITES_IN_FLIGHT_MAX)
            .collect()
            .await
    }

    pub(super) async fn read_bodies(&self, ids: &[TaskId]) -> Result<Vec<Option<Content>>, Error> {
        let operation = "read a body";
        stream::iter(ids.to_vec())
            .map(|id| async move {
                let statement = &self.statements.body;
                let rows: Vec<(Option<Bytes>,)> = self
                    .link
                    .rows((Purpose::Rows, operation), statement, (id.uuid(),), 1)
                    .await?;
                let stored = rows.into_iter().next().and_then(|(content,)| content);
                let content = stored.map(decode_content).transpose();
                content.map_err(|cause| corrupt(operation, &format!("body of {id}: {cause}")))
            })
            .buffered(STORE_READS_IN_FLIGHT_MAX)
            .try_collect()
            .await
    }

    pub(super) async fn remove_bodies(&self, ids: &[TaskId], written: i64) -> Result<(), Error> {
        let statement = &self.statements.delete_body;
        stream::iter(ids.to_vec())
            .map(|id| {
                self.link
                    .write("delete a body", statement, (written, id.uuid()))
            })
            .buffer_unordered(STORE_WRITES_IN_FLIGHT_MAX)
            .try_collect()
            .await
    }

    pub(super) async fn set_aside(&self, parked: &Parked) -> Result<(), Error> {
        let Parked {
            key,
            at,
            reason,
            raw,
        } = parked;
        let values = (
            at.0.div_euclid(DAY_MS),
            at.0,
            key.due.0,
            key.id.uuid(),
            to_i32(key.generation),
            key.code.0,
            reason,
            raw,
            at.0.saturating_mul(1000),
        );
        let statement = &self.statements.park;
        self.link.write("set a row aside", statement, values).await
    }

    pub(super) async fn list_parked(&self, at: Millis, max: usize) -> Result<Vec<Parked>, Error> {
        type Row = (i64, i64, Uuid, i32, i32, Option<String>, Option<Bytes>);
        let limit = i32::try_from(max.max(1)).unwrap_or(i32::MAX);
        let values = (at.0.div_euclid(DAY_MS), limit);
        let statement = &self.statements.parked;
        let rows: Vec<Row> = self
            .link
            .rows(
                (Purpose::List, "list what was set aside"),
                statement,
                values,
                max,
            )
            .await?;
        let parked = |(at, due, id, generation, code, reason, raw): Row| Parked {
            key: Key {
                due: Millis(due),
                id: TaskId::bound(id),
                generation: u32::try_from(generation).unwrap_or(0),
                code: KeyCode(code),
            },
            at: Millis(at),
            reason: reason.unwrap_or_default(),
            raw: raw.unwrap_or_default(),
        };
        Ok(rows.into_iter().map(parked).collect())
    }
}
