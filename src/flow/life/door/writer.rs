//! The row writer writes transitions for the door, which alone has one: each is conditional on the row that it replaces.
//!
//! On a cluster a conditional write costs the round of its partition, so slot-mates share rounds. At most one write is under way
//! per (wheel, slot) and node, and the requests that arrive meanwhile are the next group. Groups grow with load and vanish
//! without it. No request waits to fill a group, and the members of a group never race each other. The store of one machine has
//! no rounds, and its own thread groups writes of all kinds: there a write costs no task and no line.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use crate::{
    failpoint,
    flow::base::{api::Fault, context::Context},
    limits,
    model::{
        ids::TaskId,
        state::{Expect, TaskRow, Transition},
        wheel::{Slot, WheelNumber},
    },
    store::{self, Swapped},
};

type Answer = Result<Swapped<Expect>, store::Error>;
type Partition = (WheelNumber, Slot);
type Line = VecDeque<(Transition, oneshot::Sender<Answer>)>;

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

/// The writer of rows. Cheap to clone; clones share their groups.
#[derive(Debug, Clone)]
pub(super) struct RowWriter {
    ctx: Arc<Context>,
    lines: Arc<Mutex<HashMap<Partition, Line>>>,
    in_flight: Arc<Semaphore>,
}

impl RowWriter {
    /// Writes through this store.
    #[must_use]
    pub(super) fn new(ctx: Arc<Context>) -> Self {
        let in_flight = Arc::new(Semaphore::new(limits::GROUPS_IN_FLIGHT_MAX));
        Self {
            ctx,
            lines: Arc::default(),
            in_flight,
        }
    }

    /// Writes one transition; where the store has rounds, together with those of its slot-mates that wait at the same time.
    ///
    /// A caller that is cancelled meanwhile does not learn whether it was written.
    pub(super) async fn swap(&self, transition: &Transition) -> Result<Swapped<Expect>, Fault> {
        if !self.ctx.store.has_rounds() {
            let answer = self.write(std::slice::from_ref(transition)).await.pop();
            return answer.map_or_else(|| Err(unanswered()), |answer| Ok(answer?));
        }
        let id = transition.row.id;
        let partition = (id.wheel(), id.home_slot(self.ctx.shape()));
        let (sender, receiver) = oneshot::channel();
        let first = {
            let mut lines = self.lines.lock();
            let first = !lines.contains_key(&partition);
            lines
                .entry(partition)
                .or_default()
                .push_back((transition.clone(), sender));
            first
        };
        if first {
            tokio::spawn(self.clone().serve(partition));
        }
        match receiver.await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(unanswered()),
        }
    }

    /// Writes transitions of distinct tasks, and wakes those who wait for what was written.
    async fn write(&self, transitions: &[Transition]) -> Vec<Answer> {
        let answers = self.ctx.store.swap_tasks(transitions).await;
        failpoint::pass("swapped");
        self.ctx.end_waits.wake(ended(transitions, &answers));
        self.ctx.watches.wrote(written(transitions, &answers));
        answers
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
            let answers = self.write(&transitions).await;
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

fn unanswered() -> Fault {
    Fault::Unknown {
        reason: "the write ended without an answer".to_owned(),
    }
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
