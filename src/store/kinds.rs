//! Lists every kind of record and of rows of the index: its key, its value, how long it lives, and who uses it.
//!
//! A kind without a line here does not compile. The comments of `schemas/cassandra/tables.cql` are made from this list.
//! Numbers are those of [`Kind`] and [`IndexKind`]. Text is UTF-8, numbers are big-endian, ids are their 16 bytes.

use std::time::Duration;

use super::index::IndexKind;
use crate::{
    limits,
    model::{audit, key, record::Kind},
};

/// How long a record or a row lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// As this says.
    Until(&'static str),
    /// So long, from when this says.
    For(Duration, &'static str),
}

/// A kind of record. A removed record of any kind is remembered for [`REMOVED_KEPT`](crate::model::record::REMOVED_KEPT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordKind {
    /// The key among the records of the kind.
    pub key: &'static str,
    /// The message of `schemas/tickwheel.proto` that is the value.
    pub value: &'static str,
    /// How long it lives.
    pub life: Life,
    /// The part of the service that uses it.
    pub used_by: &'static str,
}

/// A kind of rows of the index, or a part of the kind that has its own form of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowKind {
    /// The name of the partition.
    pub partition: &'static str,
    /// The sort key.
    pub sort: &'static str,
    /// The value: a message of `schemas/tickwheel.proto`, or bytes.
    pub value: &'static str,
    /// How long it lives.
    pub life: Life,
    /// The part of the service that uses it.
    pub used_by: &'static str,
}

const KEY: Life = Life::For(
    key::RECORD_KEPT,
    "from the start of its task, renewed while it is live",
);
const REMOVED: Life = Life::Until("stays until it is removed");
const READ: &str = "as long as its task can be read";

/// Returns what records of a kind are.
#[must_use]
pub const fn records(kind: Kind) -> RecordKind {
    let (key, value, life, used_by) = match kind {
        Kind::Epoch => (
            "'configuration'",
            "Epoch",
            Life::Until("stays"),
            "configuration",
        ),
        Kind::Callback => ("callback", "Callback", REMOVED, "callbacks and gates"),
        Kind::ApiKey => ("id of the key", "ApiKey", REMOVED, "keys of the API"),
        Kind::IdempotencyKey => {
            let life = Life::For(limits::IDEMPOTENCY_KEPT, "from the request");
            ("key of the client", "MarkedRequest", life, "idempotency")
        }
        Kind::Key => ("callback '/' key", "KeyHolder", KEY, "keys"),
        Kind::Limit => {
            let life = Life::Until("as long as it says more than no record");
            ("callback", "LimitPool", life, "limits of callbacks")
        }
        Kind::Job => {
            let life = Life::For(limits::JOB_KEPT, "from its end");
            ("id of the job", "Job", life, "jobs")
        }
        Kind::Joins => ("'marks'", "JoinMarks", Life::Until("stays"), "joins"),
        Kind::Turn => {
            let life = Life::For(limits::TURN_KEPT, "from the time when no task has the turn");
            ("callback '/' ordering key", "Turn", life, "sequences")
        }
        Kind::Schedule => {
            let life = Life::For(
                limits::SCHEDULE_DELETED_KEPT,
                "from its deletion, and stays before",
            );
            ("name", "Schedule", life, "schedules")
        }
        Kind::Family => {
            let life = Life::For(
                limits::FAMILY_KEPT,
                "from when the parent can be read no more",
            );
            ("id of the parent", "Family", life, "trees")
        }
        Kind::ApiKeyChange => (
            "'last'",
            "ApiKeyChange",
            Life::Until("stays"),
            "keys of the API",
        ),
    };
    RecordKind {
        key,
        value,
        life,
        used_by,
    }
}

/// Returns what rows of a kind are, by the forms of their keys.
#[must_use]
pub const fn rows(kind: IndexKind) -> &'static [RowKind] {
    match kind {
        IndexKind::Records => RECORDS,
        IndexKind::Held => HELD,
        IndexKind::Dead => DEAD,
        IndexKind::Member => MEMBER,
        IndexKind::Schedule => SCHEDULE,
        IndexKind::Label => &[RowKind {
            partition: "XXH3 of callback, ff, name, ff, value, ff",
            sort: "id",
            value: "empty",
            life: Life::Until("until the task has ended and can be read no more"),
            used_by: "lists by a label",
        }],
        IndexKind::Child => CHILD,
        IndexKind::Join => &[RowKind {
            partition: "id of the waiter",
            sort: "id of the dependency",
            value: "Dependency",
            life: JOIN,
            used_by: "joins",
        }],
        IndexKind::Audit => AUDIT,
        IndexKind::Ended => ENDED,
        IndexKind::Level => &[RowKind {
            partition: "'nodes'",
            sort: "id of the node",
            value: "level as 4 bytes",
            life: Life::For(limits::LEVEL_KEPT, "from its write"),
            used_by: "rolling upgrades",
        }],
        IndexKind::Waiter => &[RowKind {
            partition: "id of the dependency",
            sort: "id of the waiter",
            value: "empty",
            life: JOIN,
            used_by: "joins",
        }],
        IndexKind::Share => &[RowKind {
            partition: "callback, or * for the names of those that are polled",
            sort: "id of the node",
            value: "CallbackShare",
            life: Life::For(limits::SHARES_KEPT, "from its write"),
            used_by: "figures of callbacks",
        }],
    }
}

const RECORDS: &[RowKind] = &[RowKind {
    partition: "number of the kind of record, 1 byte",
    sort: "key of the record",
    value: "empty",
    life: Life::Until("as long as the record"),
    used_by: "lists of records",
}];

const HELD: &[RowKind] = &[RowKind {
    partition: "callback, 00, collection, 00, wheel as 2 bytes",
    sort: "start, id",
    value: "HeldTask",
    life: Life::For(limits::HELD_KEPT, "from its write"),
    used_by: "gates",
}];

const MEMBER: &[RowKind] = &[RowKind {
    partition: "callback, 00, ordering key",
    sort: "start, id, generation as 4 bytes, stamp",
    value: "OrderedMember",
    life: Life::For(
        limits::TURN_KEPT,
        "from its start where its task may not be there, else until it is removed",
    ),
    used_by: "sequences",
}];

const CHILD: &[RowKind] = &[RowKind {
    partition: "id of the parent, bucket as 1 byte, 16 for children that wait",
    sort: "id of the child",
    value: "ChildRow",
    life: Life::For(
        limits::FAMILY_KEPT,
        "from when the parent can be read no more",
    ),
    used_by: "trees",
}];

const AUDIT: &[RowKind] = &[RowKind {
    partition: "day since 1970 as 8 bytes",
    sort: "time as 8 bytes, random as 8 bytes",
    value: "AuditEntry",
    life: Life::For(audit::KEPT, "from the call"),
    used_by: "the audit",
}];

const ENDED: &[RowKind] = &[RowKind {
    partition: "day since 1970 as 8 bytes, then state as 1 byte, callback, or ff, callback, XXH3 of the class of the error",
    sort: "id",
    value: "empty",
    life: Life::Until(READ),
    used_by: "lists of tasks that have ended",
}];

const JOIN: Life = Life::For(
    limits::JOIN_ROWS_KEPT,
    "from the registration, and for as long as the wait once that stands",
);

const DEAD: &[RowKind] = &[
    RowKind {
        partition: "01, scope: 01 for all letters, or 02, callback",
        sort: "day descending, shard as 1 byte, days of life as 8 bytes",
        value: "empty",
        life: Life::Until("as long as the letters of the day"),
        used_by: "dead letters: days and shards that have some",
    },
    RowKind {
        partition: "02, day as 8 bytes, shard as 1 byte, scope as above",
        sort: "time of the death descending, id",
        value: "DeadLetter",
        life: Life::Until("as its callback says"),
        used_by: "dead letters",
    },
];

const SCHEDULE: &[RowKind] = &[
    RowKind {
        partition: "00, second since 1970 as 8 bytes",
        sort: "00, name, or 01, name for a repair",
        value: "time as 8 bytes, for a repair also incarnation and run",
        life: Life::For(limits::WAKE_KEPT, "from the time"),
        used_by: "schedules: looks",
    },
    RowKind {
        partition: "01, name",
        sort: "time descending, number of the run descending, id",
        value: "ListedRun",
        life: Life::For(limits::RUN_LISTED, "from its time"),
        used_by: "schedules: lists of runs",
    },
];

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/cassandra/tables.cql");

    /// Where the list of a table begins in its file; it ends where the table begins.
    fn head(table: &str) -> String {
        format!("-- Kinds of `{table}`, from src/store/kinds.rs:\n")
    }

    fn life(life: Life) -> String {
        let (duration, from) = match life {
            Life::Until(text) => return text.to_owned(),
            Life::For(duration, from) => (duration, from),
        };
        let seconds = duration.as_secs();
        let (number, unit) = match seconds {
            _ if seconds % 86_400 == 0 => (seconds / 86_400, "day"),
            _ if seconds % 3600 == 0 => (seconds / 3600, "hour"),
            _ => (seconds, "second"),
        };
        let plural = if number == 1 { "" } else { "s" };
        format!("{number} {unit}{plural} {from}")
    }

    fn of_records() -> String {
        let mut text = head("record");
        for kind in Kind::ALL {
            let of = records(kind);
            let listed = if kind.is_listed() { ", listed" } else { "" };
            writeln!(
                text,
                "-- {:2} {kind:?}: {}. Value: {}. Life: {}. For {}{listed}.",
                kind.number(),
                of.key,
                of.value,
                life(of.life),
                of.used_by
            )
            .unwrap();
        }
        text
    }

    fn of_rows() -> String {
        let mut text = head("index_row");
        for kind in IndexKind::ALL {
            for of in rows(kind) {
                writeln!(
                    text,
                    "-- {:2} {kind:?}: ({}), {}.\n--    Value: {}. Life: {}. For {}.",
                    kind.number(),
                    of.partition,
                    of.sort,
                    of.value,
                    life(of.life),
                    of.used_by
                )
                .unwrap();
            }
        }
        text
    }

    /// Returns the file with the list of a table in place of the one that it has.
    fn with_list(text: &str, table: &str, list: &str) -> String {
        let begin = text.find(&head(table)).expect("the head of the list");
        let table = format!("CREATE TABLE IF NOT EXISTS {{keyspace}}.{table} (");
        let end = begin + text[begin..].find(&table).expect("the table");
        [&text[..begin], list, &text[end..]].concat()
    }

    #[test]
    fn the_tables_of_cassandra_list_every_kind() {
        let text = std::fs::read_to_string(TABLES).unwrap();
        let listed = with_list(&text, "record", &of_records());
        let listed = with_list(&listed, "index_row", &of_rows());
        if std::env::var_os("TICKWHEEL_UPDATE_GOLDEN").is_some() {
            std::fs::write(TABLES, &listed).unwrap();
        }
        let text = std::fs::read_to_string(TABLES).unwrap();
        assert!(
            text == listed,
            "schemas/cassandra/tables.cql does not list the kinds as the code does; write it anew with \
             `TICKWHEEL_UPDATE_GOLDEN=1 cargo test --workspace --lib -- store::kinds` and look at the difference"
        );
    }

    #[test]
    fn values_are_messages_of_the_schema() {
        let schema = include_str!("../../schemas/tickwheel.proto");
        let of_records = Kind::ALL.map(|kind| records(kind).value);
        let of_rows = IndexKind::ALL.into_iter().flat_map(rows).map(|of| of.value);
        let is_message = |value: &&str| value.starts_with(char::is_uppercase);
        for value in of_records.into_iter().chain(of_rows.filter(is_message)) {
            assert!(schema.contains(&format!("\nmessage {value} {{")), "{value}");
        }
    }
}
