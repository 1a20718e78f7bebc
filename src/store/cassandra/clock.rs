//! The clock store reads and swaps the clock rows of the wheels for their owners.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use futures_util::future::join_all;
use scylla::{
    DeserializeRow, SerializeRow, statement::prepared::PreparedStatement, value::CqlValue,
};
use uuid::Uuid;

use super::{
    Store,
    gather::{Carrier, Gather, Load},
    link::{Found, Link, Purpose, Reply, corrupt, unavailable},
    statements::Statements,
};
use crate::{
    limits::GATHERED_CLOCK_READS,
    model::{clock::ClockRow, wheel::WheelNumber},
    store::{ClockStore, Error, Freshness, Swapped, row::ClockColumns},
    time_source::TimeSource,
};

/// A wall time that no row has, so that a comparison with it holds for every row.
const NEVER: i64 = i64::MIN;

/// The name of a read where it fails.
const OPERATION: &str = "read a clock";

#[async_trait]
impl ClockStore for Store {
    async fn clock(&self, wheel: WheelNumber, freshness: Freshness) -> Result<ClockRow, Error> {
        match freshness {
            Freshness::Quorum => {
                let _timed = self.timed("clock");
                self.clocks.read(wheel).await
            }
            Freshness::Serial => {
                let _timed = self.timed("clock_serial");
                read_one(&self.link, &self.statements.clock_serial, wheel).await
            }
        }
    }

    async fn swap_clock(
        &self,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Result<Swapped<ClockRow>, Error> {
        let _timed = self.timed("swap_clock");
        self.swap(wheel, from, to).await
    }
}

/// Reads clocks. Those that are asked for at the same time share one request.
pub(super) struct Clocks {
    gather: Arc<Gather<Reader>>,
}

impl Clocks {
    pub(super) fn new(link: &Arc<Link>, statements: &Statements, time: &TimeSource) -> Self {
        let reader = Reader {
            link: Arc::clone(link),
            one: statements.clock.clone(),
            some: statements.clocks.clone(),
        };
        Self {
            gather: Gather::new(reader, GATHERED_CLOCK_READS, time.clone()),
        }
    }

    /// Reads a clock. The read is sent after the call has begun.
    async fn read(&self, wheel: WheelNumber) -> Result<ClockRow, Error> {
        // A read of several partitions goes to any server, so clocks share a read only if every server has
        // all of them.
        let Reader { link, one, .. } = &self.gather.carrier;
        let home = link.replicas(one, &(column(wheel),));
        let Some(home) = home.filter(|home| link.are_all(home)) else {
            return read_one(link, one, wheel).await;
        };
        let load = Load {
            rows: 1,
            bytes: 0,
            // The bound is for writes. Reads of many wheels are no more than a page.
            partitions: 0,
        };
        let read = self.gather.ask(home, wheel, load).await;
        read.unwrap_or_else(|| Err(unavailable(OPERATION, "the request was not answered")))
    }
}

struct Reader {
    link: Arc<Link>,
    one: PreparedStatement,
    some: PreparedStatement,
}

#[async_trait]
impl Carrier for Reader {
    type Item = WheelNumber;
    type Answer = Result<ClockRow, Error>;

    async fn carry(&self, wheels: Vec<WheelNumber>) -> Vec<Self::Answer> {
        if let [wheel] = wheels.as_slice() {
            return vec![read_one(&self.link, &self.one, *wheel).await];
        }
        let mut distinct: Vec<i16> = wheels.iter().map(|wheel| column(*wheel)).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let limit = distinct.len();
        let rows = self
            .link
            .rows((Purpose::Urgent, OPERATION), &self.some, (distinct,), limit);
        let rows: Vec<StoredClock> = match rows.await {
            Ok(rows) => rows,
            // A server may be set to refuse reads of several partitions.
            Err(Error::Unsuitable { .. }) => {
                let reads = wheels
                    .iter()
                    .map(|wheel| read_one(&self.link, &self.one, *wheel));
                return join_all(reads).await;
            }
            Err(error) => return vec![Err(error); wheels.len()],
        };
        let mut found: HashMap<i16, Result<ClockRow, Error>> = HashMap::with_capacity(rows.len());
        for row in rows {
            found.insert(row.wheel, read_row(row));
        }
        let answer = |wheel: &WheelNumber| {
            let found = found.get(&column(*wheel)).cloned();
            found.unwrap_or_else(|| Err(missing(*wheel)))
        };
        wheels.iter().map(answer).collect()
    }
}

async fn read_one(
    link: &Link,
    statement: &PreparedStatement,
    wheel: WheelNumber,
) -> Result<ClockRow, Error> {
    let rows: Vec<StoredClock> = link
        .rows((Purpose::Urgent, OPERATION), statement, (column(wheel),), 1)
        .await?;
    let stored = rows.into_iter().next().ok_or_else(|| missing(wheel))?;
    read_row(stored)
}

fn read_row(stored: StoredClock) -> Result<ClockRow, Error> {
    let wheel = stored.wheel;
    let row = stored.columns().into_row();
    row.map_err(|cause| corrupt(OPERATION, &format!("wheel {wheel}: {cause}")))
}

impl Store {
    async fn swap(
        &self,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Result<Swapped<ClockRow>, Error> {
        let operation = "swap a clock";
        let values = SwapValues::of(wheel, from, to);
        let statement = &self.statements.swap_clock;
        match self.link.swap(operation, statement, values).await? {
            Reply::Applied => Ok(Swapped::Applied),
            Reply::Unknown => Ok(Swapped::Unknown),
            Reply::Refused(found) => {
                let found = found.first().filter(|row| row.get("version").is_some());
                let columns = found.map(found_columns).ok_or_else(|| missing(wheel))?;
                let row = columns.into_row();
                row.map(Swapped::Conflict)
                    .map_err(|cause| corrupt(operation, &format!("wheel {}: {cause}", wheel.get())))
            }
        }
    }
}

/// The values of `swap_clock`, in order.
#[derive(SerializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
struct SwapValues {
    version: i64,
    opened: i64,
    fired_due_ms: i64,
    fired_id: Uuid,
    erased: i64,
    owner: Uuid,
    lease_until_ms: i64,
    wall_ms: i64,
    wheel: i16,
    if_version: i64,
    if_opened: i64,
    if_fired_due_ms: i64,
    if_fired_id: Uuid,
    if_erased: i64,
    if_owner: Uuid,
    if_lease_until_ms: i64,
    unless_wall_ms: i64,
}

impl SwapValues {
    fn of(wheel: WheelNumber, from: &ClockRow, to: &ClockRow) -> Self {
        Self {
            version: to.version,
            opened: to.opened.0,
            fired_due_ms: to.fired.due.0,
            fired_id: to.fired.id.uuid(),
            erased: to.erased.0,
            owner: to.owner.0,
            lease_until_ms: to.lease_until.0,
            wall_ms: to.wall.0,
            wheel: column(wheel),
            if_version: from.version,
            if_opened: from.opened.0,
            if_fired_due_ms: from.fired.due.0,
            if_fired_id: from.fired.id.uuid(),
            if_erased: from.erased.0,
            if_owner: from.owner.0,
            if_lease_until_ms: from.lease_until.0,
            unless_wall_ms: NEVER,
        }
    }
}

/// A clock as it is read.
#[derive(DeserializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
struct StoredClock {
    wheel: i16,
    version: Option<i64>,
    opened: Option<i64>,
    fired_due_ms: Option<i64>,
    fired_id: Option<Uuid>,
    erased: Option<i64>,
    owner: Option<Uuid>,
    lease_until_ms: Option<i64>,
    wall_ms: Option<i64>,
}

impl StoredClock {
    const fn columns(self) -> ClockColumns {
        ClockColumns {
            version: self.version,
            opened: self.opened,
            fired_due_ms: self.fired_due_ms,
            fired_id: self.fired_id,
            erased: self.erased,
            owner: self.owner,
            lease_until_ms: self.lease_until_ms,
            wall_ms: self.wall_ms,
        }
    }
}

fn found_columns(found: &Found) -> ClockColumns {
    let number = |name| found.get(name).and_then(CqlValue::as_bigint);
    let uuid = |name| found.get(name).and_then(CqlValue::as_uuid);
    ClockColumns {
        version: number("version"),
        opened: number("opened"),
        fired_due_ms: number("fired_due_ms"),
        fired_id: uuid("fired_id"),
        erased: number("erased"),
        owner: uuid("owner"),
        lease_until_ms: number("lease_until_ms"),
        wall_ms: number("wall_ms"),
    }
}

fn missing(wheel: WheelNumber) -> Error {
    let wheel = wheel.get();
    Error::Unsuitable {
        reason: format!("the clock row of wheel {wheel} is missing: run `tickwheel init` again"),
    }
}

const fn column(wheel: WheelNumber) -> i16 {
    wheel.get().cast_signed()
}
