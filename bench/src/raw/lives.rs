//! The raw lives lead tasks through their lives for comparison with the service, by the driver alone.
//!
//! Claim and settle are a conditional write each, and a slot that has fired is deleted.

use anyhow::ensure;
use scylla::{
    client::session::Session,
    statement::{SerialConsistency, prepared::PreparedStatement},
    value::Row,
};
use tickwheel::{
    model::{ids::TaskId, state::State, time::Millis},
    schema::encode_spec,
};

use super::Raw;
use crate::tasks;

/// The statements.
pub(super) struct Lives {
    swap: PreparedStatement,
    erase: PreparedStatement,
}

impl Lives {
    /// Prepares them on a keyspace.
    pub(super) async fn prepare(session: &Session, keyspace: &str) -> anyhow::Result<Self> {
        let swap = format!(
            "UPDATE {keyspace}.task SET state = ?, generation = 0, attempt = 1, cancel_requested = false, tries = 1, \
             next_ms = ?, last_ms = ?, nonce = ?, detail = ? WHERE wheel = ? AND slot = ? AND id = ? IF state = ?"
        );
        let mut swap = session.prepare(swap).await?;
        swap.set_serial_consistency(Some(SerialConsistency::Serial));
        let erase = format!("DELETE FROM {keyspace}.wheel WHERE wheel = ? AND slot = ?");
        Ok(Self {
            swap,
            erase: session.prepare(erase).await?,
        })
    }
}

impl Raw {
    /// Claims a task that nobody has claimed.
    pub(crate) async fn claim(&self, id: TaskId) -> anyhow::Result<()> {
        self.swap(id, None, State::Claimed).await
    }

    /// Settles a task that was claimed.
    pub(crate) async fn settle(&self, id: TaskId) -> anyhow::Result<()> {
        self.swap(id, Some(State::Claimed), State::Succeeded).await
    }

    async fn swap(&self, id: TaskId, from: Option<State>, to: State) -> anyhow::Result<()> {
        let due = id.first_start();
        // As large as the spec of a task that was claimed or settled.
        let target = tasks::target(tasks::Kind::Callback, "send_email");
        let detail = encode_spec(&tasks::spec(target, self.time.now()));
        let values = (
            to.number(),
            due.0,
            due.0,
            self.time.random_uuid(),
            &detail[..],
            id.wheel().get().cast_signed(),
            self.shape.slot_of_due(due).0,
            id.uuid(),
            from.map(State::number),
        );
        let answer = self
            .session
            .execute_unpaged(&self.lives.swap, values)
            .await?;
        let row: Row = answer.into_rows_result()?.single_row()?;
        let applied = row.columns.first().and_then(|column| column.as_ref());
        ensure!(
            applied.and_then(|value| value.as_boolean()) == Some(true),
            "task {id} is not {from:?}"
        );
        Ok(())
    }

    /// Deletes the slots of a tick, in every wheel.
    pub(crate) async fn erase(&self, due: Millis) -> anyhow::Result<()> {
        let slot = self.shape.slot_of_due(due).0;
        for wheel in self.shape.all_wheels() {
            let values = (wheel.get().cast_signed(), slot);
            self.session
                .execute_unpaged(&self.lives.erase, values)
                .await?;
        }
        Ok(())
    }
}
