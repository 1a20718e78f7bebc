//! The mover takes tasks through their life cycle for all stages. It decides purely, writes conditionally,
//! and does both again after a lost race.
//!
//! A conditional write costs the round of its partition, so slot-mates share rounds. At most one write is
//! under way per (wheel, slot) and node, and the requests that arrive meanwhile are the next group. Groups
//! grow with load and vanish without it. No request waits to fill a group, and the members of a group never
//! race each other.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use super::{attempt_span, end_note};
use crate::{
    failpoint,
    flaw::{self, Flaw},
    flow::base::{agendas::end_waits::EndWaits, api::Fault, context::Context},
    limits,
    model::{
        ids::TaskId,
        state::{Expect, Refusal, TaskRow, Transition},
        time::Millis,
        wheel::{Slot, WheelNumber},
    },
    store::{self, Freshness, Swapped},
};

type Answer = Result<Swapped<Expect>, store::Error>;
type Partition = (WheelNumber, Slot);
type Line = VecDeque<(Transition, oneshot::Sender<Answer>)>;

/// The outcome of an event.
#[derive(Debug)]
pub enum Moved {
    /// The row is now this.
    To(Box<TaskRow>),
    /// The event does not apply to the row as it was read last.
    Refused(Refusal, Option<Box<TaskRow>>),
}

/// The guard of the task that writes the groups of a partition. When that task panics, its line goes with it:
/// the waiting callers are told that the outcome is unknown, and the next caller begins a new line.
struct Serving<'a> {
    lines: &'a Mutex<HashMap<Partition, Line>>,
    partition: Partition,
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut lines = self.lines.lock();
            lines.remove(&self.partition);
        }
    }
}

/// The mover of tasks.
#[derive(Debug, Clone)]
pub struct Mover {
    ctx: Arc<Context>,
    lines: Arc<Mutex<HashMap<Partition, Line>>>,
    in_flight: Arc<Semaphore>,
    end_waits: EndWaits,
}

impl Mover {
    /// Writes through this store.
    #[must_use]
    pub(in crate::flow) fn new(ctx: Arc<Context>) -> Self {
        let in_flight = Arc::new(Semaphore::new(limits::GROUPS_IN_FLIGHT_MAX));
        Self {
            ctx,
            lines: Arc::default(),
            in_flight,
            end_waits: EndWaits::default(),
        }
    }

    /// Returns the requests that wait for the ends of tasks: every end that this node writes wakes them.
    pub(in crate::flow) const fn end_waits(&self) -> &EndWaits {
        &self.end_waits
    }

    /// Applies the transition that `decide` makes of the row. It starts from `row` as the caller knows it
    /// (possibly stale), and ends when the write is applied or `decide` refuses a row that was just read.
    ///
    /// # Errors
    /// [`Fault::Unknown`] when it cannot be found out whether a write was applied, [`Fault::Unavailable`] when it was not.
    pub(in crate::flow) async fn apply(
        &self,
        id: TaskId,
        row: Option<TaskRow>,
        fresh: bool,
        decide: impl Fn(Option<&TaskRow>, Millis, Uuid) -> Result<Transition, Refusal> + Send,
    ) -> Result<Moved, Fault> {
        let (mut row, mut fresh) = (row, fresh);
        for _ in 0..limits::RACES_MAX {
            let decided = decide(row.as_ref(), self.ctx.now(), self.ctx.time.random_uuid());
            let transition = match decided {
                Ok(transition) => transition,
                Err(refusal) if fresh => return Ok(Moved::Refused(refusal, row.map(Box::new))),
                Err(_) => {
                    row = self.read(id, Freshness::Quorum).await?;
                    fresh = true;
                    continue;
                }
            };
            match self.swap(transition.clone()).await? {
                Swapped::Applied => {
                    note(row.as_ref(), &transition.row);
                    return Ok(Moved::To(Box::new(transition.row)));
                }
                // The write that won may be decided and not yet learned by a quorum: a lesser read could show
                // the same old row for ever.
                Swapped::Conflict(_) => row = self.read(id, Freshness::Serial).await?,
                Swapped::Unknown if flaw::is(Flaw::UnknownMoveTakenForApplied) => {
                    return Ok(Moved::To(Box::new(transition.row)));
                }
                Swapped::Unknown => {
                    let before = std::mem::replace(&mut row, self.settle_unknown(id).await?);
                    if row
                        .as_ref()
                        .is_some_and(|row| row.nonce == transition.row.nonce)
                    {
                        note(before.as_ref(), &transition.row);
                        return Ok(Moved::To(Box::new(transition.row)));
                    }
                }
            }
            fresh = true;
        }
        Err(Fault::Unavailable {
            reason: format!("task {id} is being changed by many at once"),
            retry_after: Duration::from_secs(1),
        })
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`Fault::Unavailable`] when the store cannot be read.
    pub(in crate::flow) async fn row(&self, id: TaskId) -> Result<Option<TaskRow>, Fault> {
        self.read(id, Freshness::Quorum).await
    }

    /// Reads rows, each with an outcome of its own: one that cannot be understood, or be read for now, fails alone.
    pub(in crate::flow) async fn rows_each(
        &self,
        ids: &[TaskId],
    ) -> Vec<Result<Option<TaskRow>, store::Error>> {
        if ids.is_empty() {
            return Vec::new();
        }
        self.ctx.store.tasks_each(ids, Freshness::Quorum).await
    }

    /// Reads rows as [`Self::rows_each`] does, for entries of these generations. A row of an earlier
    /// generation is read once more, serially. The transition that its entry was written for may be decided
    /// and not learned by a quorum: the serial read completes it, and no lesser read ever would.
    pub(in crate::flow) async fn rows_of_generations(
        &self,
        tasks: &[(TaskId, u32)],
    ) -> Vec<Result<Option<TaskRow>, store::Error>> {
        let ids: Vec<TaskId> = tasks.iter().map(|(id, _)| *id).collect();
        let mut rows = self.rows_each(&ids).await;
        for ((id, generation), row) in tasks.iter().zip(&mut rows) {
            let found = row
                .as_ref()
                .map(|row| row.as_ref().map_or(0, |row| row.generation));
            if found.is_ok_and(|found| found < *generation) {
                *row = self.stored(*id, Freshness::Serial).await;
            }
        }
        rows
    }

    async fn read(&self, id: TaskId, freshness: Freshness) -> Result<Option<TaskRow>, Fault> {
        Ok(self.stored(id, freshness).await?)
    }

    async fn stored(
        &self,
        id: TaskId,
        freshness: Freshness,
    ) -> Result<Option<TaskRow>, store::Error> {
        let rows = self.ctx.store.tasks(&[id], freshness).await?;
        Ok(rows.into_iter().next().flatten())
    }

    /// After an unknown outcome only a serial read says what the row is: it settles what is still in flight.
    async fn settle_unknown(&self, id: TaskId) -> Result<Option<TaskRow>, Fault> {
        self.read(id, Freshness::Serial)
            .await
            .map_err(|fault| Fault::Unknown {
                reason: format!("task {id}: {fault}"),
            })
    }

    /// Writes one transition, together with those of its slot-mates that wait at the same time.
    async fn swap(&self, transition: Transition) -> Result<Swapped<Expect>, Fault> {
        let id = transition.row.id;
        let partition = (id.wheel(), id.home_slot(self.ctx.shape()));
        let (sender, receiver) = oneshot::channel();
        let first = {
            let mut lines = self.lines.lock();
            let first = !lines.contains_key(&partition);
            lines
                .entry(partition)
                .or_default()
                .push_back((transition, sender));
            first
        };
        if first {
            tokio::spawn(self.clone().serve(partition));
        }
        match receiver.await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Fault::Unknown {
                reason: "the write ended without an answer".to_owned(),
            }),
        }
    }

    /// Writes a partition's groups, one after the other, until its line is empty.
    async fn serve(self, partition: Partition) {
        let _serving = Serving {
            lines: &self.lines,
            partition,
        };
        loop {
            let Ok(_permit) = self.in_flight.acquire().await else {
                return;
            };
            let Some(group) = self.next_group(partition) else {
                return;
            };
            let (transitions, senders): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            let answers = self.ctx.store.swap_tasks(&transitions).await;
            failpoint::pass("swapped");
            self.end_waits.wake(ended(&transitions, &answers));
            self.ctx.watches.wrote(written(&transitions, &answers));
            for (sender, answer) in senders.into_iter().zip(answers) {
                // A caller that does not wait any more finds out by reading.
                drop(sender.send(answer));
            }
        }
    }

    /// Takes the next group of distinct tasks; removes the line when there is none.
    fn next_group(
        &self,
        partition: Partition,
    ) -> Option<Vec<(Transition, oneshot::Sender<Answer>)>> {
        let mut lines = self.lines.lock();
        let line = lines.get_mut(&partition)?;
        let mut ids = BTreeSet::new();
        let mut group = Vec::new();
        while group.len() < limits::GROUP_ROWS_MAX {
            let distinct = line
                .front()
                .is_some_and(|(next, _)| ids.insert(next.row.id));
            if !distinct {
                break;
            }
            group.extend(line.pop_front());
        }
        if group.is_empty() {
            lines.remove(&partition);
            return None;
        }
        Some(group)
    }
}

/// Notes for operators what a transition has ended: an attempt, or the task.
fn note(before: Option<&TaskRow>, after: &TaskRow) {
    attempt_span::note(before, after);
    end_note::note(before, after);
}

/// Returns the rows of transitions that were applied.
fn written<'a>(
    transitions: &'a [Transition],
    answers: &'a [Answer],
) -> impl Iterator<Item = &'a TaskRow> + use<'a> {
    let written = transitions.iter().zip(answers);
    let applied = written.filter(|(_, answer)| matches!(answer, Ok(Swapped::Applied)));
    applied.map(|(transition, _)| &transition.row)
}

/// Returns the tasks that are terminal by transitions that were applied, or may have been.
fn ended<'a>(
    transitions: &'a [Transition],
    answers: &'a [Answer],
) -> impl Iterator<Item = TaskId> + use<'a> {
    let written = transitions.iter().zip(answers);
    let ended = written.filter(|(transition, answer)| {
        let refused = matches!(answer, Ok(Swapped::Conflict(_)) | Err(_));
        transition.row.state.is_terminal() && !refused
    });
    ended.map(|(transition, _)| transition.row.id)
}
