//! The entry writer puts entries into slots that are still open, for every stage that writes entries.
//!
//! This order prevents the loss of a task: write the entry (acknowledged), *then* look at the clock, then
//! tell the caller that it is safe. An entry whose slot was closed meanwhile may not have been seen by its
//! scanner. It is written again further on, and the first one is marked done. A check before the write, or
//! with a read that started before the acknowledgement, loses tasks in eight steps.
//!
//! A crash anywhere leaves at worst one entry too many: its claim is refused, or its record is a duplicate.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::future::join_all;

use super::watermarks::Watermarks;
use crate::{
    flaw::{self, Flaw},
    flow::base::{api::Fault, context::Context, figures::pending::Pending},
    limits,
    model::{
        entry::{DoneReason, Entry},
        time::{Millis, Tick},
        wheel::WheelNumber,
    },
};

/// Where a written entry turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) enum Placed {
    /// In an open slot: its scanner will see it.
    Open,
    /// In a slot that was closed by the time it was durable; all slots up to here are closed.
    Closed(Tick),
}

/// An entry on its way to an open slot.
struct Way {
    index: usize,
    entry: Entry,
    /// The place in a slot that was closed by the time the entry was durable.
    left: Option<Entry>,
}

/// The writer of entries.
#[derive(Debug, Clone)]
pub struct EntryWriter {
    ctx: Arc<Context>,
    watermarks: Watermarks,
    pending: Pending,
}

impl EntryWriter {
    /// Writes through this store, checks against these hands.
    #[must_use]
    pub fn new(ctx: Arc<Context>, watermarks: Watermarks) -> Self {
        Self::counting(ctx, watermarks, Pending::default())
    }

    /// Counts what it puts into open slots, too.
    #[must_use]
    pub const fn counting(ctx: Arc<Context>, watermarks: Watermarks, pending: Pending) -> Self {
        Self {
            ctx,
            watermarks,
            pending,
        }
    }

    /// Takes a due entry out of the counts that will not start its task any more.
    pub(in crate::flow) fn gone(&self, entry: &Entry) {
        self.pending.gone(entry);
    }

    /// Writes entries once and tells of each whether its slot was still open afterwards.
    pub(in crate::flow) async fn write(&self, entries: &[Entry]) -> Vec<Result<Placed, Fault>> {
        let opened = async {
            let wheels: BTreeSet<WheelNumber> =
                entries.iter().map(|entry| entry.key.wheel()).collect();
            let opened = wheels
                .iter()
                .map(|wheel| async { (*wheel, self.watermarks.opened(*wheel).await) });
            join_all(opened).await.into_iter().collect()
        };
        let (written, opened): (_, BTreeMap<_, _>) = if flaw::is(Flaw::ClockReadBeforeWritten) {
            let opened = opened.await;
            (self.put(entries).await, opened)
        } else {
            (self.put(entries).await, opened.await)
        };
        let verdict = |entry: &Entry, written: Result<(), Fault>| {
            written?;
            let opened = opened
                .get(&entry.key.wheel())
                .cloned()
                .transpose()
                // The entry is written, but it is not known whether it counts.
                .map_err(|fault| Fault::Unknown {
                    reason: fault.to_string(),
                })?
                .unwrap_or(Tick(i64::MAX));
            let tick = self.ctx.tick().tick_of(entry.key.due);
            Ok(if tick > opened || flaw::is(Flaw::NoClockCheckAfterWrite) {
                Placed::Open
            } else {
                Placed::Closed(opened)
            })
        };
        entries
            .iter()
            .zip(written)
            .map(|(entry, written)| {
                let placed = verdict(entry, written);
                match placed {
                    Ok(Placed::Open) => self.pending.stands(entry),
                    Ok(Placed::Closed(_)) => {}
                    // Refused before it was begun.
                    Err(Fault::Full { .. }) => {}
                    Err(_) => self.pending.unknown(entry),
                }
                placed
            })
            .collect()
    }

    /// Writes entries until each is in an open slot, further on where it must be, and returns them as they were placed.
    ///
    /// A place is marked as moved only when the next one is durable. Two callers that put one task further on
    /// at the same time may write the same places; looks on their grid always do. An earlier mark would be
    /// all that is left of both when the write behind it fails. The more often a slot was closed by the time
    /// an entry was durable, the further on the next one lies. Otherwise a store that is slower than ticks
    /// would never be in time for the next slot.
    pub async fn place(&self, entries: Vec<Entry>) -> Vec<Result<Entry, Fault>> {
        let mut results: Vec<Option<Result<Entry, Fault>>> = entries.iter().map(|_| None).collect();
        let first = |(index, entry)| Way {
            index,
            entry,
            left: None,
        };
        let mut open: Vec<Way> = entries.into_iter().enumerate().map(first).collect();
        let mut left: Vec<(usize, Entry)> = Vec::new();
        for hop in 0..limits::REPLACEMENTS_MAX {
            let batch: Vec<Entry> = open.iter().map(|way| way.entry.clone()).collect();
            let (placed, ()) =
                tokio::join!(self.write(&batch), self.leave(&mut left, &mut results));
            for (way, placed) in std::mem::take(&mut open).into_iter().zip(placed) {
                let Way {
                    index,
                    entry,
                    left: behind,
                } = way;
                let Some(result) = results.get_mut(index).filter(|result| result.is_none()) else {
                    continue;
                };
                if let (Ok(_), Some(behind)) = (&placed, behind) {
                    left.push((index, self.moved(&behind, entry.key.due)));
                }
                match placed {
                    Ok(Placed::Closed(opened)) if !flaw::is(Flaw::LateEntryNotMoved) => {
                        let next = self.further_on(&entry, opened, hop);
                        if flaw::is(Flaw::MarkedBeforeCopied) {
                            self.mark(vec![self.moved(&entry, next.key.due)]).await;
                        }
                        open.push(Way {
                            index,
                            entry: next,
                            left: Some(entry),
                        });
                    }
                    Ok(Placed::Open | Placed::Closed(_)) => *result = Some(Ok(entry)),
                    Err(fault) => *result = Some(Err(fault)),
                }
            }
            if open.is_empty() {
                break;
            }
        }
        self.leave(&mut left, &mut results).await;
        let late = || Fault::Unknown {
            reason: "the wheel's slots kept closing before an entry was written".to_owned(),
        };
        results
            .into_iter()
            .map(|result| result.unwrap_or_else(|| Err(late())))
            .collect()
    }

    /// Returns the copy of an entry whose slot was closed up to `opened`, after `hop` earlier slots of it
    /// were closed, too.
    fn further_on(&self, entry: &Entry, opened: Tick, hop: usize) -> Entry {
        let ahead = ((1_i64 << hop.min(8)) - 1).min(limits::REPLACED_AHEAD_MAX);
        let opened = opened.plus(ahead);
        let next = entry.moved_behind(opened, self.ctx.shape(), self.ctx.time.random());
        let written = self.ctx.time.stamp();
        Entry { written, ..next }
    }

    fn moved(&self, entry: &Entry, to: Millis) -> Entry {
        let reason = DoneReason::Moved { to };
        entry.marked_done(reason, self.ctx.now(), self.ctx.time.stamp())
    }

    /// Marks places whose slots were closed too early for their entries. Mostly this only saves work for the
    /// scanner.
    async fn leave(
        &self,
        left: &mut Vec<(usize, Entry)>,
        results: &mut [Option<Result<Entry, Fault>>],
    ) {
        let (indices, marks): (Vec<usize>, Vec<Entry>) = left.drain(..).unzip();
        for (index, marked) in indices.into_iter().zip(self.mark(marks).await) {
            if let (Err(fault), Some(result)) = (marked, results.get_mut(index)) {
                *result = Some(Err(fault));
            }
        }
    }

    /// Overwrites entries with marks, best effort. Returns an error for each mark that failed and takes the
    /// content of its task along; nothing depends on the other marks.
    pub async fn mark(&self, marks: Vec<Entry>) -> Vec<Result<(), Fault>> {
        if marks.is_empty() {
            return Vec::new();
        }
        let marked = self.put(&marks).await;
        let failed = marked.iter().filter(|one| one.is_err()).count();
        if failed > 0 {
            tracing::debug!(failed, "could not mark entries as done");
        }
        let needed = |(mark, marked): (&Entry, Result<(), Fault>)| {
            if mark.takes_content_along() {
                marked
            } else {
                Ok(())
            }
        };
        marks.iter().zip(marked).map(needed).collect()
    }

    /// Writes entries; a failed write is repeated as it is, with the same write time.
    async fn put(&self, entries: &[Entry]) -> Vec<Result<(), Fault>> {
        let mut results: Vec<Result<(), Fault>> = Vec::with_capacity(entries.len());
        results.extend(
            self.ctx
                .store
                .put_entries(entries)
                .await
                .into_iter()
                .map(|r| r.map_err(Fault::from)),
        );
        let failed: Vec<usize> = results
            .iter()
            .enumerate()
            .filter(|(_, r)| r.is_err())
            .map(|(index, _)| index)
            .collect();
        if failed.is_empty() {
            return results;
        }
        let repeated: Vec<Entry> = failed
            .iter()
            .filter_map(|index| entries.get(*index).cloned())
            .collect();
        let second = self.ctx.store.put_entries(&repeated).await;
        for (index, result) in failed.into_iter().zip(second) {
            if let Some(place) = results.get_mut(index) {
                *place = result.map_err(Fault::from);
            }
        }
        results
    }
}
