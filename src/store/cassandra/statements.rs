//! The statement table prepares once, for the running service, every statement that it sends.
//!
//! Values are bound by position. The order of the columns here is the order of the fields of the row types
//! beside the calls.

use scylla::statement::{Consistency, prepared::PreparedStatement};

use super::link::Link;
use crate::store::Error;

pub(super) struct Statements {
    pub(super) keyspace: String,
    pub(super) put_entry: PreparedStatement,
    pub(super) scan_from_start: PreparedStatement,
    pub(super) scan_behind: PreparedStatement,
    pub(super) find_entries: PreparedStatement,
    pub(super) erase: PreparedStatement,
    pub(super) put_body: PreparedStatement,
    pub(super) body: PreparedStatement,
    pub(super) delete_body: PreparedStatement,
    pub(super) park: PreparedStatement,
    pub(super) parked: PreparedStatement,
    pub(super) clock: PreparedStatement,
    pub(super) clocks: PreparedStatement,
    pub(super) clock_serial: PreparedStatement,
    pub(super) swap_clock: PreparedStatement,
    pub(super) tasks: PreparedStatement,
    pub(super) tasks_serial: PreparedStatement,
    pub(super) swap_task: PreparedStatement,
    pub(super) put_heartbeat: PreparedStatement,
    pub(super) heartbeats: PreparedStatement,
    pub(super) put_node: PreparedStatement,
    pub(super) remove_node: PreparedStatement,
    pub(super) nodes: PreparedStatement,
    pub(super) record: PreparedStatement,
    pub(super) record_serial: PreparedStatement,
    pub(super) swap_record: PreparedStatement,
    pub(super) put_index: PreparedStatement,
    pub(super) remove_index: PreparedStatement,
    pub(super) index_range: PreparedStatement,
}

const ENTRY: &str = "due_ms, id, generation, code, WRITETIME(kind), kind, flags, reason, spills, start_ms, at_ms, \
                     moved_ms, spec";

const CLOCK: &str = "SELECT wheel, version, opened, fired_due_ms, fired_id, erased, owner, lease_until_ms, wall_ms \
                     FROM {}.clock WHERE wheel";

const TASKS: &str = "SELECT id, state, generation, attempt, cancel_requested, tries, next_ms, last_ms, nonce, detail \
                     FROM {}.task WHERE wheel = ? AND slot = ? AND id IN ?";

/// Names every column but the wall in its condition, because a refusal returns the named columns. A
/// comparison that always holds names the wall.
const SWAP_CLOCK: &str = "UPDATE {}.clock SET version = ?, opened = ?, fired_due_ms = ?, fired_id = ?, erased = ?, \
                          owner = ?, lease_until_ms = ?, wall_ms = ? WHERE wheel = ? \
                          IF version = ? AND opened = ? AND fired_due_ms = ? AND fired_id = ? AND erased = ? \
                          AND owner = ? AND lease_until_ms = ? AND wall_ms != ?";

/// One statement for both expectations: an absent row is one whose columns are all null. The nonce names the row that is
/// replaced, and a refusal returns it: a refusal by our own write is a success.
const SWAP_TASK: &str = "UPDATE {}.task USING TTL ? SET state = ?, generation = ?, attempt = ?, \
                         cancel_requested = ?, tries = ?, next_ms = ?, last_ms = ?, nonce = ?, detail = ? \
                         WHERE wheel = ? AND slot = ? AND id = ? \
                         IF state = ? AND generation = ? AND attempt = ? AND cancel_requested = ? AND nonce = ?";

const RECORD: &str =
    "SELECT version, nonce, state, value, expires_ms FROM {}.record WHERE kind = ? AND key = ?";

/// Compares the version and the nonce. The other columns are named by comparisons that always hold, so that a refusal returns
/// the whole record.
const SWAP_RECORD: &str = "UPDATE {}.record USING TTL ? SET version = ?, nonce = ?, state = ?, value = ?, \
                           expires_ms = ? WHERE kind = ? AND key = ? IF version = ? AND nonce = ? \
                           AND state != ? AND value != ? AND expires_ms != ?";

/// The rows behind a key of a slot. Scylla refuses a relation of one column beside a relation of several, so the upper bound
/// is in the form of several, too. Cassandra takes both forms.
const BEHIND: &str = "(due_ms, id, generation, code) > (?, ?, ?, ?) AND (due_ms) <= (?)";

impl Statements {
    pub(super) async fn prepare(link: &Link, keyspace: &str) -> Result<Self, Error> {
        let of = |text: &str| link.prepare(text.replace("{}", keyspace));
        let serial = async |text: &str| -> Result<PreparedStatement, Error> {
            let mut statement = of(text).await?;
            statement.set_consistency(Consistency::Serial);
            Ok(statement)
        };
        let (clock, clocks) = (format!("{CLOCK} = ?"), format!("{CLOCK} IN ?"));
        let slice = format!("SELECT {ENTRY} FROM {{}}.wheel WHERE wheel = ? AND slot = ?");
        Ok(Self {
            keyspace: keyspace.to_owned(),
            put_entry: of(
                "INSERT INTO {}.wheel (wheel, slot, due_ms, id, generation, code, \
                           kind, flags, reason, spills, start_ms, at_ms, moved_ms, spec) \
                           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
                           USING TIMESTAMP ? AND TTL ?",
            )
            .await?,
            scan_from_start: of(&format!("{slice} AND due_ms > ? AND due_ms <= ? LIMIT ?")).await?,
            scan_behind: of(&format!("{slice} AND {BEHIND} LIMIT ?")).await?,
            find_entries: of(&format!("{slice} AND due_ms = ? AND id = ?")).await?,
            erase: of("DELETE FROM {}.wheel USING TIMESTAMP ? \
                       WHERE wheel = ? AND slot = ? AND due_ms > ? AND due_ms <= ?")
            .await?,
            put_body: of(
                "INSERT INTO {}.body (id, content) VALUES (?, ?) USING TIMESTAMP ? AND TTL ?",
            )
            .await?,
            body: of("SELECT content FROM {}.body WHERE id = ?").await?,
            delete_body: of("DELETE FROM {}.body USING TIMESTAMP ? WHERE id = ?").await?,
            park: of(
                "INSERT INTO {}.parked (day, at_ms, due_ms, id, generation, code, reason, raw) \
                      VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
            )
            .await?,
            parked: of("SELECT at_ms, due_ms, id, generation, code, reason, raw \
                        FROM {}.parked WHERE day = ? LIMIT ?")
            .await?,
            clock: of(&clock).await?,
            clocks: of(&clocks).await?,
            clock_serial: serial(&clock).await?,
            swap_clock: of(SWAP_CLOCK).await?,
            tasks: of(TASKS).await?,
            tasks_serial: serial(TASKS).await?,
            swap_task: of(SWAP_TASK).await?,
            put_heartbeat: of(
                "INSERT INTO {}.heartbeat (wheel, slot, id, attempt, at_ms, progress) \
                               VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?",
            )
            .await?,
            heartbeats: of("SELECT id, attempt, at_ms, progress FROM {}.heartbeat \
                            WHERE wheel = ? AND slot = ? AND (id, attempt) IN ?")
            .await?,
            put_node: of(
                "INSERT INTO {}.node (ring, node, name, address, wall_ms, ready) \
                          VALUES (0, ?, ?, ?, ?, ?) USING TIMESTAMP ?",
            )
            .await?,
            remove_node: of("DELETE FROM {}.node USING TIMESTAMP ? WHERE ring = 0 AND node = ?")
                .await?,
            nodes: of("SELECT node, name, address, wall_ms, ready FROM {}.node WHERE ring = 0")
                .await?,
            record: of(RECORD).await?,
            record_serial: serial(RECORD).await?,
            swap_record: of(SWAP_RECORD).await?,
            put_index: of("INSERT INTO {}.index_row (kind, part, sort, value) \
                           VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?")
            .await?,
            remove_index: of("DELETE FROM {}.index_row USING TIMESTAMP ? \
                              WHERE kind = ? AND part = ? AND sort = ?")
            .await?,
            index_range: of("SELECT sort, value, WRITETIME(value) FROM {}.index_row \
                             WHERE kind = ? AND part = ? AND sort > ? LIMIT ?")
            .await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_of_several_columns_stand_beside_no_relation_of_one() {
        for relation in BEHIND.split(" AND ") {
            assert!(relation.starts_with('('), "{relation}");
        }
    }
}
