//! The withdrawal cancels for clients the tasks that are never claimed (`kafka` targets). The slot decides
//! whether they go out; a row decides who won.
//!
//! An overwritten entry stops the publication if the slot was still open afterwards: every later reader of
//! the slot sees the mark. If the slot closed meanwhile, it is unknown whether the entry was read before. The
//! task is then kept and a copy is put further on, since a lost task is worse than a duplicate. Two cancels
//! of one task can see its slot open and closed, in either order, and one mark hides the other. So neither
//! answers before a row of the task says who won. The row is written on condition that there is none. Only a
//! cancel that saw its mark in an open slot writes [`State::Cancelled`], only one that puts the copy further
//! on writes [`State::Succeeded`], and each obeys the row it finds.
//!
//! Crash points: a mark without a row is a cancel whose caller got no answer, and the next operation that
//! meets it goes on from there. A row that keeps the task without its copy is treated like such a mark, and
//! the copy is put then. The next cancel of the task does it, or, if its content is kept apart, the eraser of
//! the mark does it before it would delete that content.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::future::join_all;

use super::door::{Applied, Basis, Door};
use super::undelivered;
use crate::{
    flow::base::{
        api::{CancelOutcome, Fault},
        context::Context,
        entries::{
            entry_writer::{EntryWriter, Placed},
            watermarks::Watermarks,
        },
        rows::stored,
    },
    model::{
        entry::{DoneReason, Entry, Key, Kind},
        ids::TaskId,
        state::{self, Event, Refusal, State, TaskRow},
        time::{Millis, Tick},
        wheel::WheelNumber,
    },
    store,
};

/// The canceller of tasks that have no attempts.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Withdrawer {
    ctx: Arc<Context>,
    watermarks: Watermarks,
    entry_writer: EntryWriter,
    door: Door,
}

/// The answer: who won, and the row that says that the task is cancelled.
type Told = (CancelOutcome, Option<TaskRow>);

impl Withdrawer {
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        watermarks: Watermarks,
        entry_writer: EntryWriter,
        door: Door,
    ) -> Self {
        Self {
            ctx,
            watermarks,
            entry_writer,
            door,
        }
    }

    /// Cancels the tasks that have these entries and rows; one answer per task, in order. An error means that the store is
    /// away; repeating it is safe.
    pub(in crate::flow) async fn cancel(
        &self,
        tasks: &[(Entry, Option<TaskRow>)],
    ) -> Vec<Result<Told, Fault>> {
        let opened = self.opened(tasks).await;
        let known = tasks.iter().map(|task| self.known(task, &opened));
        let mut answers: Vec<Option<Result<Told, Fault>>> = known.collect();
        let open = tasks.iter().zip(&answers).enumerate();
        let open = open.filter(|(_, (_, known))| known.is_none());
        let open: Vec<(usize, &Entry)> = open.map(|(at, ((entry, _), _))| (at, entry)).collect();
        if !open.is_empty() {
            let entries: Vec<&Entry> = open.iter().map(|(_, entry)| *entry).collect();
            for ((at, _), told) in open.iter().zip(self.withdraw(&entries).await) {
                if let Some(answer) = answers.get_mut(*at) {
                    *answer = Some(told);
                }
            }
        }
        let told = |answer: Option<_>| answer.unwrap_or(Ok((CancelOutcome::TooLate, None)));
        answers.into_iter().map(told).collect()
    }

    /// Reads the hands of the wheels that decide whether a cancel comes too late.
    async fn opened(
        &self,
        tasks: &[(Entry, Option<TaskRow>)],
    ) -> BTreeMap<WheelNumber, Result<Tick, Fault>> {
        let asked = tasks.iter().filter(|(entry, row)| {
            !is_cancelled(row.as_ref()) && is_first(entry) && !entry.is_moved()
        });
        let wheels: BTreeSet<WheelNumber> = asked.map(|(entry, _)| entry.key.wheel()).collect();
        let read = |wheel| async move { (wheel, self.watermarks.opened(wheel).await) };
        join_all(wheels.into_iter().map(read))
            .await
            .into_iter()
            .collect()
    }

    /// Returns the answers that entry, row and hand alone decide.
    fn known(
        &self,
        (entry, row): &(Entry, Option<TaskRow>),
        opened: &BTreeMap<WheelNumber, Result<Tick, Fault>>,
    ) -> Option<Result<Told, Fault>> {
        const TOO_LATE: Told = (CancelOutcome::TooLate, None);
        if is_cancelled(row.as_ref()) {
            return Some(Ok((CancelOutcome::AlreadyCancelled, row.clone())));
        }
        match entry.kind {
            Kind::Due { .. } => {}
            Kind::Done {
                reason: DoneReason::Cancelled,
                ..
            } => return None,
            Kind::Done { .. } | Kind::Look { .. } => return Some(Ok(TOO_LATE)),
        }
        // The backup of a near task may be published from memory at any moment, and a copy further on from its old place.
        if entry.is_moved() {
            return Some(Ok(TOO_LATE));
        }
        match opened.get(&entry.key.wheel()) {
            Some(Ok(opened)) if self.ctx.tick().tick_of(entry.key.due) > *opened => None,
            Some(Err(fault)) => Some(Err(fault.clone())),
            Some(Ok(_)) | None => Some(Ok(TOO_LATE)),
        }
    }

    /// Marks entries, writes the rows that record the outcome, and puts the kept tasks further on.
    async fn withdraw(&self, entries: &[&Entry]) -> Vec<Result<Told, Fault>> {
        // A mark that is found may lie on too few replicas yet, so it is written again.
        let (now, cancelled) = (self.ctx.now(), DoneReason::Cancelled);
        let mark = |entry: &&Entry| entry.marked_done(cancelled, now, self.ctx.time.stamp());
        let marks: Vec<Entry> = entries.iter().map(mark).collect();
        let began = self.ctx.time.moment();
        let mut written = self.entry_writer.write(&marks).await.into_iter();
        // The eraser of an undecided mark deletes the content with it.
        let in_time = self.ctx.time.moment().since(began) < self.ctx.settings.erase_delay / 2;
        let decisions = entries.iter().map(|entry| {
            let event = match written.next() {
                Some(Ok(Placed::Open)) => Ok(Event::Cancel),
                Some(Ok(Placed::Closed(_))) | None if in_time => Ok(Event::Kept),
                Some(Ok(Placed::Closed(_))) | None => Err(Fault::Unknown {
                    reason: "the store took too long to tell who won".to_owned(),
                }),
                Some(Err(fault)) => Err(fault),
            };
            async move { self.decide(entry, event?).await }
        });
        let decided = join_all(decisions).await;
        let is_kept =
            |decided: &Result<Told, Fault>| matches!(decided, Ok((CancelOutcome::TooLate, _)));
        let kept = entries.iter().zip(&decided);
        let kept = kept.filter(|(_, decided)| is_kept(decided));
        let mut kept = self.keep(kept.map(|(entry, _)| *entry)).await.into_iter();
        let told = |decided: Result<Told, Fault>| match decided {
            Ok((CancelOutcome::TooLate, _)) => match kept.next() {
                Some(Err(fault)) => Err(fault),
                Some(Ok(_)) | None => decided,
            },
            Ok(_) | Err(_) => decided,
        };
        decided.into_iter().map(told).collect()
    }

    /// Writes the row unless there is one; returns the answer of the row, and whether this call wrote it.
    async fn decide(&self, entry: &Entry, event: Event) -> Result<Told, Fault> {
        let (id, spec) = (entry.key.id, &entry.spec);
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            let mut made = state::next(id, row, spec, event.clone(), now, nonce)?;
            made.row.generation = entry.key.generation;
            made.row.detail.start = entry.start;
            Ok(made)
        };
        let applied = self.door.apply(id, Basis::read(None), decide).await?;
        match applied {
            // No record has a callback, so nothing is owed.
            Applied::To(owing) if owing.row().state == State::Cancelled => {
                self.entry_writer.gone(entry);
                let row = owing.pay_or_leave(&self.ctx).await;
                Ok((CancelOutcome::Cancelled, Some(*row)))
            }
            Applied::Refused(
                Refusal::Ended {
                    state: State::Cancelled,
                },
                row,
            ) => Ok((CancelOutcome::AlreadyCancelled, row.map(|row| *row))),
            Applied::To(_) | Applied::Refused(Refusal::Ended { .. }, _) => {
                Ok((CancelOutcome::TooLate, None))
            }
            Applied::Refused(refusal, _) => Err(Fault::Unknown {
                reason: format!("task {id} has a row that no such task has: {refusal:?}"),
            }),
        }
    }

    /// Returns the tasks among those with these marks, all behind `fired`, whose contents are needed no more.
    /// A kept task still needs its content. If its copy has not been put further on yet, it is put now.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(in crate::flow) async fn without_content(
        &self,
        marks: &[Key],
    ) -> Result<Vec<TaskId>, Fault> {
        let ids: Vec<TaskId> = marks.iter().map(|mark| mark.id).collect();
        let rows = stored::rows_each(&self.ctx, &ids).await;
        let (mut kept, mut ended) = (Vec::new(), Vec::new());
        for (mark, row) in marks.iter().zip(rows) {
            match row {
                Ok(Some(row)) if row.state != State::Cancelled => kept.push(mark),
                Ok(_) => ended.push(mark.id),
                // It is unknown who won: its content stays, and its wheel goes on without it.
                Err(error @ store::Error::Corrupt { .. }) => {
                    if let Some(entry) = self.marked(mark).await? {
                        undelivered::unreadable_row(&self.ctx, &entry, &error).await?;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        for mark in kept {
            if let Some(entry) = self.marked(mark).await?.filter(|entry| !is_moved_on(entry)) {
                for kept in self.keep(std::iter::once(&entry)).await {
                    kept?;
                }
            }
        }
        Ok(ended)
    }

    /// Reads a mark.
    async fn marked(&self, mark: &Key) -> Result<Option<Entry>, Fault> {
        let found = self.ctx.store.find_entries(mark.id, &[mark.due]).await?;
        Ok(found.into_iter().find(|entry| entry.key == *mark))
    }

    /// Puts tasks further on, then marks their first places as moved: until then the next cancel repeats this.
    async fn keep(&self, entries: impl Iterator<Item = &Entry>) -> Vec<Result<(), Fault>> {
        let entries: Vec<&Entry> = entries.collect();
        if entries.is_empty() {
            return Vec::new();
        }
        let copies = entries.iter().map(|entry| {
            let (opened, chance) = (
                self.watermarks.closing(entry.key.wheel()),
                self.ctx.time.random(),
            );
            let copy = entry.due_again(self.ctx.time.stamp());
            copy.moved_behind(opened, self.ctx.shape(), chance)
        });
        let placed = self.entry_writer.place(copies.collect()).await;
        let marks = entries.iter().zip(&placed).filter_map(|(entry, placed)| {
            let to = placed.as_ref().ok()?.key.due;
            let moved = DoneReason::Moved { to };
            Some(entry.marked_done(moved, self.ctx.now(), self.ctx.time.stamp()))
        });
        let marks: Vec<Entry> = marks.collect();
        let mut marked = self.entry_writer.write(&marks).await.into_iter();
        placed
            .into_iter()
            .map(|placed| {
                placed?;
                marked.next().map_or(Ok(()), |marked| marked.map(drop))
            })
            .collect()
    }
}

const fn is_moved_on(entry: &Entry) -> bool {
    matches!(
        entry.kind,
        Kind::Done {
            reason: DoneReason::Moved { .. },
            ..
        }
    )
}

fn is_cancelled(row: Option<&TaskRow>) -> bool {
    row.is_some_and(|row| row.state == State::Cancelled)
}

/// Tells whether nobody has withdrawn the entry yet.
const fn is_first(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::Due { .. })
}
