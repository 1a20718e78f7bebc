//! The raw driver works without the service for comparison with it: the same tables, statements and
//! consistency.

mod lives;

use std::{collections::HashSet, ops::ControlFlow, sync::Arc};

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use scylla::{
    client::{
        execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder,
    },
    policies::retry::FallthroughRetryPolicy,
    response::PagingState,
    statement::{Consistency, prepared::PreparedStatement},
    value::MaybeUnset,
};
use tickwheel::{
    model::{ids::TaskId, time::Millis, wheel::Shape},
    schema::encode_spec,
    time_source::TimeSource,
};
use uuid::Uuid;

use lives::Lives;

use crate::{
    servers::{Servers, shape},
    tasks,
};

/// Rows of a page, as in the service.
const PAGE_ROWS: i32 = 1000;

/// Reads under way when rows are counted.
const READS: usize = 64;

type Row = (
    i64,
    Uuid,
    i32,
    i32,
    Option<i64>,
    Option<i8>,
    Option<i8>,
    Option<i8>,
    Option<i32>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<Vec<u8>>,
);

/// A session of the driver, and the service's own statements.
pub(crate) struct Raw {
    session: Session,
    shape: Shape,
    time: TimeSource,
    insert: PreparedStatement,
    scan: PreparedStatement,
    ids_of_raw: PreparedStatement,
    ids_of_service: PreparedStatement,
    lives: Lives,
}

impl Raw {
    /// Connects, and prepares the statements on the raw keyspace.
    pub(crate) async fn connect(servers: &Servers) -> anyhow::Result<Arc<Self>> {
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::Quorum)
            .retry_policy(Arc::new(FallthroughRetryPolicy))
            .build();
        let session = SessionBuilder::new()
            .known_nodes(servers.cassandra.split(','))
            .default_execution_profile_handle(profile.into_handle())
            .build()
            .await?;
        let (raw, ours) = (servers.raw_keyspace(), &servers.keyspace);
        let insert = format!(
            "INSERT INTO {raw}.wheel (wheel, slot, due_ms, id, generation, code, kind, flags, reason, spills, \
             start_ms, at_ms, moved_ms, spec) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
             USING TIMESTAMP ? AND TTL ?"
        );
        let scan = format!(
            "SELECT due_ms, id, generation, code, WRITETIME(kind), kind, flags, reason, spills, start_ms, at_ms, \
             moved_ms, spec FROM {raw}.wheel WHERE wheel = ? AND slot = ?"
        );
        let ids = |keyspace: &str| {
            format!("SELECT id FROM {keyspace}.wheel WHERE wheel = ? AND slot = ?")
        };
        let mut scan = session.prepare(scan).await?;
        scan.set_page_size(PAGE_ROWS);
        Ok(Arc::new(Self {
            insert: session.prepare(insert).await?,
            scan,
            ids_of_raw: session.prepare(ids(&raw)).await?,
            ids_of_service: session.prepare(ids(ours)).await?,
            lives: Lives::prepare(&session, &raw).await?,
            shape: shape()?,
            time: servers.time.clone(),
            session,
        }))
    }

    /// Returns an id as the service would draw it.
    pub(crate) fn draw(&self, due: Millis) -> TaskId {
        let random = self.time.random();
        TaskId::new(due, self.shape.wheel_of_hash(random >> 32), random)
    }

    /// Inserts the row of a task that is due then, as registration does; the spec is encoded each time, as
    /// there.
    pub(crate) async fn insert(&self, id: TaskId, name: &str) -> anyhow::Result<()> {
        let due = id.first_start();
        let target = tasks::target(tasks::Kind::Callback, name);
        let spec = encode_spec(&tasks::spec(target, self.time.now()));
        let values = (
            id.wheel().get().cast_signed(),
            self.shape.slot_of_due(due).0,
            due.0,
            id.uuid(),
            0_i32,
            0_i32,
            0_i8,
            1_i8,
            MaybeUnset::<i8>::Unset,
            0_i32,
            due.0,
            MaybeUnset::<i64>::Unset,
            MaybeUnset::<i64>::Unset,
            &spec[..],
            self.time.stamp(),
            0_i32,
        );
        self.session.execute_unpaged(&self.insert, values).await?;
        Ok(())
    }

    /// Reads every row that is due in a tick, one reader a wheel; returns their number.
    pub(crate) async fn scan(self: &Arc<Self>, due: Millis) -> anyhow::Result<u64> {
        let slot = self.shape.slot_of_due(due).0;
        let readers = self.shape.all_wheels().map(|wheel| {
            let raw = Arc::clone(self);
            tokio::spawn(async move { raw.scan_slot(wheel.get().cast_signed(), slot).await })
        });
        let mut rows = 0;
        for reader in readers.collect::<Vec<_>>() {
            rows += reader.await??;
        }
        Ok(rows)
    }

    async fn scan_slot(&self, wheel: i16, slot: i64) -> anyhow::Result<u64> {
        let mut rows = 0;
        let mut paging = PagingState::start();
        loop {
            let (page, next) = self
                .session
                .execute_single_page(&self.scan, (wheel, slot), paging)
                .await?;
            for row in page.into_rows_result()?.rows::<Row>()? {
                let (_, _, _, _, _, kind, ..) = row?;
                kind.context("a row without kind")?;
                rows += 1;
            }
            match next.into_paging_control_flow() {
                ControlFlow::Continue(state) => paging = state,
                ControlFlow::Break(()) => return Ok(rows),
            }
        }
    }

    /// Returns the ids in all slots of a range of due times, in the service's keyspace or the raw one.
    pub(crate) async fn ids(
        &self,
        of_service: bool,
        from: Millis,
        to: Millis,
    ) -> anyhow::Result<HashSet<Uuid>> {
        let tick = self.shape.tick();
        let ticks = tick.tick_of(from).0..=tick.tick_of(to).0;
        let statement = if of_service {
            &self.ids_of_service
        } else {
            &self.ids_of_raw
        };
        let slots = ticks.flat_map(|tick| {
            let slot = self.shape.slot_of(tickwheel::model::time::Tick(tick)).0;
            let wheels = self.shape.all_wheels();
            wheels.map(move |wheel| (wheel.get().cast_signed(), slot))
        });
        let found: Vec<Vec<Uuid>> = stream::iter(slots)
            .map(|values| async move {
                let rows = self.session.execute_iter(statement.clone(), values).await?;
                let ids: Vec<(Uuid,)> = rows.rows_stream::<(Uuid,)>()?.try_collect().await?;
                anyhow::Ok(ids.into_iter().map(|(id,)| id).collect())
            })
            .buffer_unordered(READS)
            .try_collect()
            .await?;
        Ok(found.into_iter().flatten().collect())
    }
}
