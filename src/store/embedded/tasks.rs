//! The task store keeps clocks, tasks, heartbeats and nodes for the service on one machine.

use std::time::Duration;

use async_trait::async_trait;
use fjall::Slice;

use super::{
    Store, clock,
    disk::database::{Open, Space},
    faults::{corrupt, fault},
    key,
    reading::ended,
    value,
    writing::command::{Act, Newest, TaskSwap},
};
use crate::{
    model::{
        clock::ClockRow,
        ids::{NodeId, TaskId},
        state::{Expect, TaskRow, Transition},
        time::Millis,
        wheel::WheelNumber,
    },
    store::{
        ClockStore, EndedPage, Error, Freshness, Heartbeat, NodeRow, NodeStore, Swapped, TaskStore,
    },
};

/// Reads of more rows than this run on a thread where they delay no task, since each may wait for a merge
/// that is being finished.
pub(super) const INLINE_READS_MAX: usize = 16;

/// Rows of the node list vanish after this time.
const NODE_TTL: Duration = Duration::from_secs(30);

#[async_trait]
impl ClockStore for Store {
    async fn clock(&self, wheel: WheelNumber, freshness: Freshness) -> Result<ClockRow, Error> {
        self.settle(freshness).await?;
        clock::read(&*self.shared.open()?, wheel)
    }

    async fn swap_clock(
        &self,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Result<Swapped<ClockRow>, Error> {
        let (from, to) = (Box::new(*from), value::clock(to));
        let ask = self.pen.ask(to.len(), |answer| Act::SwapClock {
            key: key::clock(wheel),
            from,
            to,
            answer,
        });
        ask.await?.unwrap_or(Ok(Swapped::Unknown))
    }
}

impl Store {
    /// Waits, if a read must see it, until everything that was asked of the writer before has been decided. A
    /// write whose outcome is unknown to its caller may still lie in the queue, or in a journal that is read
    /// again when the database is opened anew.
    pub(super) async fn settle(&self, freshness: Freshness) -> Result<(), Error> {
        if freshness == Freshness::Quorum {
            return Ok(());
        }
        let settled = self.pen.ask(0, |answer| Act::Settle { answer }).await?;
        settled.unwrap_or_else(|| {
            Err(Error::Unavailable {
                operation: "settle what is unknown",
                reason: "the disk does not answer".to_owned(),
            })
        })
    }
}

/// Reads a row. One that has expired is absent.
fn live_row(
    open: &Open,
    space: Space,
    key: &Slice,
    now: Millis,
    operation: &'static str,
) -> Result<Option<Slice>, Error> {
    let found = open.get(space, key);
    let found = found.map_err(|cause| fault(operation, &cause))?;
    Ok(found.filter(|found| value::is_live(found, open.expired_by(now))))
}

fn read_tasks(open: &Open, ids: &[TaskId], now: Millis) -> Result<Vec<Option<TaskRow>>, Error> {
    let operation = "read tasks";
    let read = |id: &TaskId| {
        let live = live_row(open, Space::Row, &key::task(*id), now, operation)?;
        let row = live.map(|found| value::parse_task(*id, &found)).transpose();
        row.map_err(|cause| corrupt(operation, &cause))
    };
    ids.iter().map(read).collect()
}

#[async_trait]
impl TaskStore for Store {
    async fn tasks(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Result<Vec<Option<TaskRow>>, Error> {
        self.settle(freshness).await?;
        let now = self.shared.time.now();
        if ids.len() <= INLINE_READS_MAX {
            return read_tasks(&*self.shared.open()?, ids, now);
        }
        let ids = ids.to_vec();
        self.read(move |open| read_tasks(open, &ids, now)).await
    }

    fn lists_ended_tasks(&self) -> bool {
        true
    }

    fn expired_by(&self, now: Millis) -> Millis {
        // While the database is opened anew nothing is read, and nothing has expired.
        self.shared
            .open()
            .map_or(Millis::EPOCH, |open| open.expired_by(now))
    }

    async fn ended_tasks(&self, behind: TaskId, rows_max: usize) -> Result<EndedPage, Error> {
        let now = self.shared.time.now();
        self.read(move |open| ended::page(open, behind, rows_max, now))
            .await
    }

    fn has_rounds(&self) -> bool {
        false
    }

    async fn swap_tasks(&self, transitions: &[Transition]) -> Vec<Result<Swapped<Expect>, Error>> {
        if transitions.is_empty() {
            return Vec::new();
        }
        let now = self.shared.time.now();
        let swap = |transition: &Transition| {
            let Transition { expect, row, ttl } = transition;
            TaskSwap {
                key: key::task(row.id),
                expect: *expect,
                nonce: row.nonce,
                value: value::task(row, ttl.map_or(value::NEVER, |ttl| now.after(ttl))),
            }
        };
        let swaps: Vec<TaskSwap> = transitions.iter().map(swap).collect();
        let begins = transitions.iter().all(begins_an_attempt);
        let bytes = swaps.iter().map(|swap| swap.value.len()).sum();
        let answer = self.pen.ask(bytes, |answer| Act::SwapTasks {
            swaps,
            begins,
            answer,
        });
        match answer.await {
            Ok(Some(swapped)) => swapped,
            Ok(None) => vec![Ok(Swapped::Unknown); transitions.len()],
            Err(error) => vec![Err(error); transitions.len()],
        }
    }

    async fn put_heartbeats(
        &self,
        heartbeats: &[Heartbeat],
        kept: Duration,
    ) -> Vec<Result<(), Error>> {
        if heartbeats.is_empty() {
            return Vec::new();
        }
        let expires = self.shared.time.now().after(kept);
        let write = |beat: &Heartbeat| Newest {
            space: Space::Clock,
            key: key::heartbeat(beat.id, beat.attempt),
            written: beat.at.0,
            value: Some(value::heartbeat(beat, expires)),
        };
        let writes: Vec<Newest> = heartbeats.iter().map(write).collect();
        let bytes = writes
            .iter()
            .filter_map(|write| write.value.as_ref())
            .map(|value| value.len())
            .sum();
        let put = self.done("put heartbeats", bytes, |answer| Act::PutNewest {
            writes,
            synced: false,
            answer,
        });
        vec![put.await; heartbeats.len()]
    }

    async fn heartbeats(
        &self,
        attempts: &[(TaskId, u32)],
    ) -> Result<Vec<Option<Heartbeat>>, Error> {
        let operation = "read heartbeats";
        let (open, now) = (self.shared.open()?, self.shared.time.now());
        let read = |(id, attempt): &(TaskId, u32)| {
            let found = live_row(
                &open,
                Space::Clock,
                &key::heartbeat(*id, *attempt),
                now,
                operation,
            )?;
            let parse = |found: Slice| {
                value::parse_heartbeat(*id, *attempt, &found).ok_or_else(|| Error::Corrupt {
                    operation,
                    reason: format!("that of attempt {attempt} of {id} is cut short"),
                })
            };
            found.map(parse).transpose()
        };
        attempts.iter().map(read).collect()
    }

    /// Heartbeats are not synced one by one. A loss of power takes those of the last seconds, about which
    /// their workers were told.
    fn heartbeats_kept_since(&self) -> Option<Millis> {
        Some(self.shared.opened_at)
    }
}

/// Tells whether a write begins an attempt: the row has one more than the one that must be there.
const fn begins_an_attempt(transition: &Transition) -> bool {
    let before = match transition.expect {
        Expect::Absent => 0,
        Expect::Row { attempt, .. } => attempt,
    };
    transition.row.attempt > before
}

/// Only one process has the directory, so the list need not outlive it.
#[async_trait]
impl NodeStore for Store {
    /// Fails while the store takes no writes, as that of a store on servers does.
    async fn put_node(&self, node: &NodeRow) -> Result<(), Error> {
        let problem = self.shared.problem();
        let row = NodeRow {
            ready: node.ready && problem.is_none(),
            ..node.clone()
        };
        self.shared.nodes().insert(node.node, row);
        problem.map_or(Ok(()), |reason| {
            Err(Error::Unavailable {
                operation: "write",
                reason,
            })
        })
    }

    async fn remove_node(&self, node: NodeId) -> Result<(), Error> {
        self.shared.nodes().remove(&node);
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>, Error> {
        let now: Millis = self.shared.time.now();
        let mut nodes = self.shared.nodes();
        nodes.retain(|_, row| row.wall.after(NODE_TTL) > now);
        Ok(nodes.values().cloned().collect())
    }
}
