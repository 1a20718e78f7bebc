//! The claim group writes conditional changes of tasks that share a partition in one batch for the task
//! store.
//!
//! A conditional write costs the round of its partition, not its rows: a handful of slot-mates in one batch
//! costs as much as one of them alone. A batch is all or nothing, so one lost race refuses all of it. The
//! answer names the rows that are there. The losers are taken out, and the rest is sent once more. Items that
//! are refused again go one by one.
//!
//! An item that may have been applied is never sent again: a batch whose outcome is unknown is the end for
//! all its rows.

use std::collections::HashMap;

use bytes::Bytes;
use scylla::{
    SerializeRow,
    statement::batch::{Batch, BatchStatement, BatchType},
    value::CqlValue,
};
use uuid::Uuid;

use super::{
    Store,
    link::{Found, Reply, corrupt, unavailable},
    ttl::{NO_TTL, ttl_seconds},
};
use crate::{
    limits::{GROUP_BYTES_MAX, GROUP_ROWS_MAX},
    model::{
        state::{Expect, Transition},
        time::Millis,
    },
    store::{
        Error, Swapped,
        row::{ExpectColumns, TaskColumns},
    },
};

const OPERATION: &str = "swap tasks";

/// How often the rest of a group is sent as a batch before its items go one by one.
const BATCHES_MAX: usize = 2;

type Answer = Result<Swapped<Expect>, Error>;

/// One conditional write, ready to be sent.
pub(super) struct Item {
    index: usize,
    expect: Expect,
    values: SwapValues,
}

/// The values of `swap_task`, in order.
#[derive(SerializeRow)]
#[scylla(flavor = "enforce_order", skip_name_checks)]
struct SwapValues {
    ttl: i32,
    state: Option<i8>,
    generation: Option<i32>,
    attempt: Option<i32>,
    cancel_requested: Option<bool>,
    tries: Option<i32>,
    next_ms: Option<i64>,
    last_ms: Option<i64>,
    nonce: Uuid,
    detail: Bytes,
    wheel: i16,
    slot: i64,
    id: Uuid,
    if_state: Option<i8>,
    if_generation: Option<i32>,
    if_attempt: Option<i32>,
    if_cancel_requested: Option<bool>,
    if_nonce: Option<Uuid>,
}

impl Item {
    pub(super) fn new(
        index: usize,
        transition: &Transition,
        partition: (i16, i64),
        now: Millis,
    ) -> Self {
        let Transition { expect, row, ttl } = transition;
        let columns = TaskColumns::of(row);
        let seen = ExpectColumns::of(expect);
        let values = SwapValues {
            ttl: ttl.map_or(NO_TTL, |ttl| ttl_seconds(ttl, now)),
            state: columns.state,
            generation: columns.generation,
            attempt: columns.attempt,
            cancel_requested: columns.cancel_requested,
            tries: columns.tries,
            next_ms: columns.next_ms,
            last_ms: columns.last_ms,
            nonce: row.nonce,
            detail: columns.detail.unwrap_or_default(),
            wheel: partition.0,
            slot: partition.1,
            id: row.id.uuid(),
            if_state: seen.state,
            if_generation: seen.generation,
            if_attempt: seen.attempt,
            if_cancel_requested: seen.cancel_requested,
            if_nonce: seen.nonce,
        };
        Self {
            index,
            expect: *expect,
            values,
        }
    }

    const fn partition(&self) -> (i16, i64) {
        (self.values.wheel, self.values.slot)
    }

    const fn bytes(&self) -> usize {
        self.values.detail.len() + 192
    }

    /// Returns the meaning of a refusal for this item; none when its own condition held and others refused
    /// it.
    fn judge(&self, found: Option<&Seen>) -> Option<Answer> {
        let Some(seen) = found else {
            return (self.expect != Expect::Absent)
                .then_some(Ok(Swapped::Conflict(Expect::Absent)));
        };
        if seen.columns.nonce == Some(self.values.nonce) {
            return Some(Ok(Swapped::Applied));
        }
        match seen.columns.into_expect() {
            Ok(expect) if expect == self.expect => None,
            Ok(expect) => Some(Ok(Swapped::Conflict(expect))),
            Err(cause) => {
                let id = self.values.id;
                Some(Err(corrupt(OPERATION, &format!("task {id}: {cause}"))))
            }
        }
    }
}

/// The facts that a refusal tells about a row.
#[derive(Debug)]
struct Seen {
    columns: ExpectColumns,
}

impl Seen {
    fn of(found: &Found) -> Self {
        let columns = ExpectColumns {
            state: found.get("state").and_then(CqlValue::as_tinyint),
            generation: found.get("generation").and_then(CqlValue::as_int),
            attempt: found.get("attempt").and_then(CqlValue::as_int),
            cancel_requested: found.get("cancel_requested").and_then(CqlValue::as_boolean),
            nonce: found.get("nonce").and_then(CqlValue::as_uuid),
        };
        Self { columns }
    }
}

/// Divides items into partitions, and those into batches. They are in the order of their keys, so the server
/// need not sort them each time that it builds the group: about a tenth of its work for it.
pub(super) fn groups(mut items: Vec<Item>) -> Vec<Vec<Vec<Item>>> {
    items.sort_by_key(|item| (item.partition(), item.values.id));
    let mut partitions: Vec<Vec<Vec<Item>>> = Vec::new();
    let mut last = None;
    let mut bytes = 0;
    for item in items {
        if last != Some(item.partition()) {
            last = Some(item.partition());
            partitions.push(Vec::new());
        }
        bytes += item.bytes();
        let fits =
            |group: &&mut Vec<Item>| group.len() < GROUP_ROWS_MAX && bytes <= GROUP_BYTES_MAX;
        let Some(groups) = partitions.last_mut() else {
            continue;
        };
        if let Some(group) = groups.last_mut().filter(fits) {
            group.push(item);
        } else {
            bytes = item.bytes();
            groups.push(vec![item]);
        }
    }
    partitions
}

impl Store {
    /// Sends the groups of one partition, one after the other: two at once would only contend.
    pub(super) async fn swap_partition(&self, groups: Vec<Vec<Item>>) -> Vec<(usize, Answer)> {
        let mut answers = Vec::new();
        let deadline = self.link.deadline();
        for group in groups {
            self.swap_group(group, deadline, &mut answers).await;
        }
        answers
    }

    async fn swap_group(
        &self,
        mut pending: Vec<Item>,
        deadline: crate::time_source::Moment,
        answers: &mut Vec<(usize, Answer)>,
    ) {
        for _ in 0..BATCHES_MAX {
            if pending.len() < 2 || self.link.is_past(deadline) {
                break;
            }
            let found = match self.send(&pending).await {
                Ok(Reply::Refused(found)) => found,
                settled => return answers.extend(same_for_all(&pending, &settled)),
            };
            let seen = by_id(&found);
            pending.retain(|item| match item.judge(seen.get(&item.values.id)) {
                Some(answer) => {
                    answers.push((item.index, answer));
                    false
                }
                None => true,
            });
        }
        for item in pending {
            let answer = self.swap_alone(&item, deadline).await;
            answers.push((item.index, answer));
        }
    }

    async fn swap_alone(&self, item: &Item, deadline: crate::time_source::Moment) -> Answer {
        if self.link.is_past(deadline) {
            return Err(unavailable(OPERATION, "not sent, the time for it is up"));
        }
        let statement = &self.statements.swap_task;
        match self.link.swap(OPERATION, statement, &item.values).await? {
            Reply::Applied => Ok(Swapped::Applied),
            Reply::Unknown => Ok(Swapped::Unknown),
            Reply::Refused(found) => {
                // A refusal without columns comes from an absent row.
                let seen = found.first().map(Seen::of);
                let seen = seen.filter(|seen| seen.columns != ExpectColumns::default());
                let held = || Ok(Swapped::Conflict(item.expect));
                item.judge(seen.as_ref()).unwrap_or_else(held)
            }
        }
    }

    async fn send(&self, items: &[Item]) -> Result<Reply, Error> {
        let statement = BatchStatement::PreparedStatement(self.statements.swap_task.clone());
        let statements = vec![statement; items.len()];
        let batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        let values: Vec<&SwapValues> = items.iter().map(|item| &item.values).collect();
        self.link.swap_batch(OPERATION, &batch, values).await
    }
}

/// The answer of a batch that was applied, is unknown, or was not sent, for each of its items.
fn same_for_all(items: &[Item], settled: &Result<Reply, Error>) -> Vec<(usize, Answer)> {
    let answer = match settled {
        Ok(Reply::Applied) => Ok(Swapped::Applied),
        Ok(Reply::Unknown | Reply::Refused(_)) => Ok(Swapped::Unknown),
        Err(error) => Err(error.clone()),
    };
    items
        .iter()
        .map(|item| (item.index, answer.clone()))
        .collect()
}

/// The rows that a refused batch names. Cassandra names those that exist; Scylla answers a row per statement, with
/// nulls for one that does not.
fn by_id(found: &[Found]) -> HashMap<Uuid, Seen> {
    let named = found.iter().filter_map(|row| {
        let id = row.get("id").and_then(CqlValue::as_uuid)?;
        Some((id, Seen::of(row)))
    });
    named
        .filter(|(_, seen)| seen.columns != ExpectColumns::default())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(columns: &[(&str, Option<CqlValue>)]) -> Found {
        let columns = columns.iter().cloned();
        Found(
            columns
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }

    fn named(id: u128, nonce: u128, generation: i32) -> Found {
        found(&[
            ("[applied]", Some(CqlValue::Boolean(false))),
            ("wheel", Some(CqlValue::SmallInt(1))),
            ("slot", Some(CqlValue::BigInt(2))),
            ("id", Some(CqlValue::Uuid(Uuid::from_u128(id)))),
            ("state", Some(CqlValue::TinyInt(2))),
            ("generation", Some(CqlValue::Int(generation))),
            ("attempt", Some(CqlValue::Int(1))),
            ("cancel_requested", Some(CqlValue::Boolean(false))),
            ("nonce", Some(CqlValue::Uuid(Uuid::from_u128(nonce)))),
        ])
    }

    /// Scylla answers a refused batch with a row for every statement, in their order; the row of a task that is not there is
    /// empty, with or without its key.
    #[test]
    fn an_answer_with_a_row_for_every_statement_names_those_that_are_there() {
        let names = [
            "wheel",
            "slot",
            "id",
            "state",
            "generation",
            "attempt",
            "cancel_requested",
            "nonce",
        ];
        let mut empty = vec![("[applied]", Some(CqlValue::Boolean(false)))];
        empty.extend(names.map(|name| (name, None)));
        let mut keyed = empty.clone();
        for (name, value) in &mut keyed {
            if *name == "id" {
                *value = Some(CqlValue::Uuid(Uuid::from_u128(9)));
            }
        }
        let answer = [
            named(7, 70, 3),
            found(&empty),
            found(&keyed),
            named(8, 80, 4),
        ];
        let seen = by_id(&answer);
        let generations = [7, 8, 9].map(|id| {
            let seen = seen.get(&Uuid::from_u128(id));
            seen.and_then(|seen| seen.columns.generation)
        });
        assert_eq!(generations, [Some(3), Some(4), None]);
        let nonce = |id| {
            seen.get(&Uuid::from_u128(id))
                .and_then(|seen| seen.columns.nonce)
        };
        assert_eq!(nonce(8), Some(Uuid::from_u128(80)));
    }
}
