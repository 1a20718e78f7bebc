//! The clock rows.

use async_trait::async_trait;
use scylla::{DeserializeRow, SerializeRow, value::CqlValue};
use uuid::Uuid;

use super::{
    Store,
    link::{Found, Reply, corrupt},
};
use crate::{
    model::{clock::ClockRow, wheel::WheelNumber},
    store::{ClockStore, Error, Freshness, Swapped, row::ClockColumns},
};

/// A wall time that no row has, so that a comparison with it holds for every row.
const NEVER: i64 = i64::MIN;

#[async_trait]
impl ClockStore for Store {
    async fn clock(&self, wheel: WheelNumber, freshness: Freshness) -> Result<ClockRow, Error> {
        let (operation, statement) = match freshness {
            Freshness::Quorum => ("clock", &self.statements.clock),
            Freshness::Serial => ("clock_serial", &self.statements.clock_serial),
        };
        let _timed = self.timed(operation);
        let rows: Vec<StoredClock> = self
            .link
            .rows("read a clock", statement, (column(wheel),), 1)
            .await?;
        let stored = rows.into_iter().next().ok_or_else(|| missing(wheel))?;
        let row = stored.columns().into_row();
        row.map_err(|cause| corrupt("read a clock", &format!("wheel {}: {cause}", wheel.get())))
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
