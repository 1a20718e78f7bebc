//! Clock rows become columns, and columns clock rows, for every store.

use uuid::Uuid;

use super::{Undecodable, there};
use crate::model::{
    clock::{ClockRow, Position},
    ids::{NodeId, TaskId},
    time::{Millis, Tick},
};

/// The stored columns of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockColumns {
    /// Optimistic locking.
    pub version: Option<i64>,
    /// The first hand.
    pub opened: Option<i64>,
    /// The second hand's due time.
    pub fired_due_ms: Option<i64>,
    /// The second hand's id.
    pub fired_id: Option<Uuid>,
    /// The third hand.
    pub erased: Option<i64>,
    /// The owner; nil if there is none.
    pub owner: Option<Uuid>,
    /// End of the lease.
    pub lease_until_ms: Option<i64>,
    /// The proposer's wall clock.
    pub wall_ms: Option<i64>,
}

impl ClockColumns {
    /// Returns the columns of a row: all of them are there.
    #[must_use]
    pub fn of(row: &ClockRow) -> Self {
        let ClockRow {
            version,
            opened,
            fired,
            erased,
            owner,
            lease_until,
            wall,
        } = row;
        Self {
            version: Some(*version),
            opened: Some(opened.0),
            fired_due_ms: Some(fired.due.0),
            fired_id: Some(fired.id.uuid()),
            erased: Some(erased.0),
            owner: Some(owner.0),
            lease_until_ms: Some(lease_until.0),
            wall_ms: Some(wall.0),
        }
    }

    /// Reads a row back.
    ///
    /// # Errors
    /// [`Undecodable`] with the first column that is missing.
    pub fn into_row(self) -> Result<ClockRow, Undecodable> {
        Ok(ClockRow {
            version: there(self.version, "version")?,
            opened: Tick(there(self.opened, "opened")?),
            fired: Position {
                due: Millis(there(self.fired_due_ms, "fired_due_ms")?),
                id: TaskId::bound(there(self.fired_id, "fired_id")?),
            },
            erased: Tick(there(self.erased, "erased")?),
            owner: NodeId(there(self.owner, "owner")?),
            lease_until: Millis(there(self.lease_until_ms, "lease_until_ms")?),
            wall: Millis(there(self.wall_ms, "wall_ms")?),
        })
    }
}
