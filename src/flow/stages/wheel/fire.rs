//! The fire stage takes due entries out of a wheel's memory for its owner, and hands each over at its
//! millisecond and never before.
//!
//! Due entries go to the queue, looks to [`super::look`]. An entry counts as done, and lets
//! `fired` pass, when the queue has acknowledged it, or when something durable stands in for it: the look of
//! a tracked task, a copy further on, a parked row. One bad target never stops a wheel: while the queue
//! acknowledges others, an entry that it does not take is passed that way after [`PATIENCE`]. Only when
//! nothing at all is acknowledged does `fired` wait, and everything is tried again. A look that fails for [`LOOK_PATIENCE`]
//! while others pass is put further on.
//!
//! Crash point: an entry that was published and is not yet done is published again by the next owner, and its
//! claim is refused.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    held::{Held, Noted, weight_of},
    look::{Looker, Undone},
    term::Term,
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            context::{Context, Firing, Lane, Stepped},
            entries::{entry_writer::EntryWriter, leftovers::Leftovers},
            permits::catch_up::CatchUp,
        },
        life::{
            look_entries::look_soon,
            send::Sender,
            sending::{Sending, Unsent},
            undelivered as set_aside,
        },
    },
    limits,
    model::{
        dispatch::Dispatch,
        entry::{DoneReason, Entry, Key, Kind},
        ids::TaskId,
        look::Grid,
        state::TaskRow,
        time::Millis,
        undelivered::{self, Action, LOOK_PATIENCE, PATIENCE, Stage},
    },
    time_source::Moment,
};

/// The publisher of one term.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Publisher {
    ctx: Arc<Context>,
    entry_writer: EntryWriter,
    sender: Sender,
    looker: Looker,
    catch_up: Arc<CatchUp>,
    leftovers: Leftovers,
    term: Arc<Term>,
}

impl Publisher {
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        entry_writer: EntryWriter,
        sender: Sender,
        looker: Looker,
        catch_up: Arc<CatchUp>,
        leftovers: Leftovers,
        term: Arc<Term>,
    ) -> Self {
        Self {
            ctx,
            entry_writer,
            sender,
            looker,
            catch_up,
            leftovers,
            term,
        }
    }

    /// Takes what is due of a lane, unless the lease has ended.
    fn take(&self, lane: Lane, max: usize) -> Vec<Held> {
        let (mut now, moment) = (self.ctx.now(), self.ctx.time.moment());
        if flaw::is(Flaw::PublishEarly) {
            now = now.after(Duration::from_millis(900));
        }
        if !self.term.is_live(moment) {
            return Vec::new();
        }
        let batch = self.term.take_due(lane, now, max);
        if flaw::is(Flaw::FiredBeforeAcknowledged) {
            let numbers: Vec<Noted> = batch.iter().map(|held| held.number).collect();
            self.term.done(&numbers, moment, usize::MAX);
        }
        batch
    }

    /// Takes one batch of each lane of what is due and starts handing it over; says whether more is due and may be taken.
    fn step(&self, firing: &mut Firing) -> Stepped {
        let fire = |batch| {
            let publisher = self.clone();
            async move { publisher.fire(batch).await }
        };
        firing.hand_over(|lane, max| self.take(lane, max), fire)
    }

    /// Returns when the next of what there is a place for is due.
    fn next_due(&self, firing: &Firing) -> Option<Millis> {
        let state = self.term.lock();
        firing.next_due(|lane| state.ahead.next_due(lane))
    }

    async fn fire(&self, batch: Vec<Held>) {
        let bytes = weight_of(&batch);
        let (looks, dues): (Vec<Held>, Vec<Held>) = batch
            .into_iter()
            .partition(|held| matches!(held.entry.kind, Kind::Look { .. }));
        futures_util::future::join(self.fire_dues(dues), self.fire_looks(looks)).await;
        self.term.landed(bytes);
    }

    async fn fire_looks(&self, looks: Vec<Held>) {
        if looks.is_empty() {
            return;
        }
        let entries: Vec<&Entry> = looks.iter().map(|held| &held.entry).collect();
        let results = self.looker.look(&entries).await;
        let (mut done, mut again, mut late) = (Vec::new(), Vec::new(), Vec::new());
        let moment = self.ctx.time.moment();
        for (mut held, result) in looks.into_iter().zip(results) {
            let Err(Undone { fault, published }) = result else {
                done.push(held.number);
                continue;
            };
            if let (
                Some(_),
                Kind::Look {
                    published: known, ..
                },
            ) = (published, &mut held.entry.kind)
            {
                *known = published;
            }
            let since = self.failing_since(&mut held, moment);
            let (task, is_late) = (held.entry.key.id, moment.since(since) >= LOOK_PATIENCE);
            tracing::debug!(%task, %fault, is_late, "a look is tried again");
            if is_late {
                late.push(held);
            } else {
                again.push(held);
            }
        }
        self.look_later(late, &mut done, &mut again).await;
        self.finish(&done, again);
    }

    /// Returns since when an entry fails while others pass. While the queue takes nothing at all, that has not begun: the entry
    /// goes out when the queue is back, and what passed before it says nothing about it.
    fn failing_since(&self, held: &mut Held, moment: Moment) -> Moment {
        if self.sender.is_silent() {
            held.failing_since = Some(moment);
        }
        *held.failing_since.get_or_insert(moment)
    }

    /// Puts looks further on that have failed for long, so that the hand of the wheel passes them: what they need may be away for
    /// days, and all that lies behind the hand is kept, and read again at a start.
    async fn look_later(&self, late: Vec<Held>, done: &mut Vec<Noted>, again: &mut Vec<Held>) {
        let (now, shape) = (self.ctx.now(), self.ctx.shape());
        let later = |held: &Held| {
            let Entry { key, .. } = held.entry;
            let due = Grid::of(key.id, shape).soon_after(now, LOOK_PATIENCE);
            Entry {
                key: Key { due, ..key },
                written: self.ctx.time.stamp(),
                ..held.entry.clone()
            }
        };
        let looks = late.iter().map(later).collect();
        for (mut held, placed) in late.into_iter().zip(self.entry_writer.place(looks).await) {
            if placed.is_ok() {
                done.push(held.number);
            } else {
                // The write may take effect all the same, so it is not repeated at once.
                held.failing_since = Some(self.ctx.time.moment());
                again.push(held);
            }
        }
    }

    async fn fire_dues(&self, dues: Vec<Held>) {
        let (dues, passed) = self.without_passed(dues);
        let (dues, mut done) = self.without_stale(dues).await;
        done.extend(passed);
        if dues.is_empty() {
            return self.finish(&done, Vec::new());
        }
        let sendings: Vec<Sending> = dues
            .iter()
            .filter_map(|held| sending(&held.entry))
            .collect();
        let timely = |held: &&Held| held.timely && held.failing_since.is_none();
        let handing = self.catch_up.handing(dues.iter().filter(timely).count());
        let results = self.sender.send(&sendings).await;
        let now = self.ctx.now();
        let in_order = dues.iter().zip(&results);
        let came = in_order.filter(|(held, result)| timely(held) && result.is_ok());
        handing.acknowledged(came.map(|(held, _)| now.since(held.entry.key.due)));
        let (mut again, mut spills, mut left) = (Vec::new(), Vec::new(), Vec::new());
        let mut gated = Vec::new();
        for (mut held, result) in dues.into_iter().zip(results) {
            let Err(unsent) = result else {
                done.push(held.number);
                continue;
            };
            let moment = self.ctx.time.moment();
            let failing = moment.since(self.failing_since(&mut held, moment));
            match self.action(&held.entry, &unsent, failing) {
                Action::RetryHere => again.push(held),
                Action::LeaveToLook => done.push(held.number),
                Action::LookSoon => {
                    // The look that was written ahead takes it for published.
                    let unpublished = sending(&held.entry);
                    left.extend(unpublished.map(|sending| look_soon(&self.ctx, &sending, None)));
                    done.push(held.number);
                }
                Action::FurtherOn => spills.push(held),
                Action::Hold => gated.push((held, unsent)),
                Action::SetAside => {
                    if set_aside::unsent(&self.ctx, &held.entry, &unsent).await {
                        done.push(held.number);
                    } else {
                        again.push(held);
                    }
                }
            }
        }
        self.looker.come_back(left).await;
        self.hold(gated, &mut done, &mut again).await;
        self.spill(spills, &mut done, &mut again).await;
        self.finish(&done, again);
    }

    /// Holds tasks behind gates that are not open. `fired` passes an entry once the row that holds its task is durable.
    async fn hold(&self, gated: Vec<(Held, Unsent)>, done: &mut Vec<Noted>, again: &mut Vec<Held>) {
        let (gated, unsent): (Vec<Held>, Vec<Unsent>) = gated.into_iter().unzip();
        let sendings = gated.iter().filter_map(|held| sending(&held.entry));
        let results = self.sender.hold(sendings.zip(unsent).collect()).await;
        for (held, result) in gated.into_iter().zip(results) {
            match result {
                Ok(()) => done.push(held.number),
                Err(_) => again.push(held),
            }
        }
    }

    /// Leaves out entries of tasks that were cancelled or moved since they were read, as far as this node knows.
    fn without_passed(&self, dues: Vec<Held>) -> (Vec<Held>, Vec<Noted>) {
        let version = |held: &Held| {
            let (id, generation) = (held.entry.key.id, held.entry.key.generation);
            let attempt = match held.entry.kind {
                Kind::Due {
                    expected_attempt, ..
                } => expected_attempt,
                Kind::Look { .. } | Kind::Done { .. } => u32::MAX,
            };
            (id, generation, attempt)
        };
        let mut passed = self
            .leftovers
            .are_stale(dues.iter().map(version))
            .into_iter();
        if passed.len() == 0 {
            return (dues, Vec::new());
        }
        let (passed, rest): (Vec<Held>, Vec<Held>) =
            dues.into_iter().partition(|_| passed.next() == Some(true));
        (rest, passed.iter().map(|held| held.number).collect())
    }

    /// Leaves out entries of a wheel that is behind whose tasks have been claimed already, and returns the others and the numbers
    /// of these.
    ///
    /// While a wheel is behind, new tasks go out from the memory of the node that took them. If they were
    /// handed over once more when the wheel comes to their entries, each would be work twice, and a node that
    /// was busy for half of its time would never catch up. An entry that is left out has its look, which was
    /// written when the entry was read.
    async fn without_stale(&self, dues: Vec<Held>) -> (Vec<Held>, Vec<Noted>) {
        let may_be_stale = |held: &&Held| {
            let entry = &held.entry;
            let registered = Millis(entry.written.div_euclid(1000));
            let from_memory = entry.key.due.since(registered) < limits::BEHIND_HELD_MAX;
            !held.timely && from_memory && entry.spec.target.is_tracked()
        };
        let ids: Vec<TaskId> = dues
            .iter()
            .filter(may_be_stale)
            .map(|held| held.entry.key.id)
            .collect();
        if ids.is_empty() {
            return (dues, Vec::new());
        }
        // An entry whose row cannot be read is handed over: the claim finds out.
        let rows = self.looker.rows(&ids).await;
        let rows: HashMap<TaskId, TaskRow> = rows
            .into_iter()
            .flatten()
            .map(|row| (row.id, row))
            .collect();
        let is_stale = |held: &Held| match (&held.entry.kind, rows.get(&held.entry.key.id)) {
            (
                Kind::Due {
                    expected_attempt, ..
                },
                Some(row),
            ) => row.has_passed(*expected_attempt),
            _ => false,
        };
        let (stale, rest): (Vec<Held>, Vec<Held>) = dues.into_iter().partition(is_stale);
        (rest, stale.iter().map(|held| held.number).collect())
    }

    fn action(&self, entry: &Entry, unsent: &Unsent, failing: Duration) -> Action {
        let stage = Stage::Fire {
            failing,
            others_pass: self.sender.acknowledged_within(PATIENCE),
        };
        undelivered::action(unsent.reason(), stage, entry.spec.target.class())
    }

    /// Returns the entry that is put further on, with its true start kept. It lies the later, the more often
    /// that was done and the longer the entry fails. A write that failed may still take effect later, so it
    /// is repeated with the same place: each new place may be one more copy.
    fn further_on(&self, held: &Held) -> Entry {
        let open = |copy: &Entry| self.ctx.tick().tick_of(copy.key.due) > self.ctx.opened_soon();
        if let Some(copy) = held.copy.as_deref().filter(|copy| open(copy)) {
            return copy.clone();
        }
        let moment = self.ctx.time.moment();
        let failing = held.failing_since.map(|since| moment.since(since));
        let wait = limits::SPILL_WAIT_MIN * (1 << held.entry.spills.min(6));
        let wait = wait
            .max(failing.unwrap_or_default())
            .min(limits::SPILL_WAIT_MAX);
        Entry {
            key: Key {
                due: self.ctx.now().after(wait),
                ..held.entry.key
            },
            spills: held.entry.spills.saturating_add(1),
            written: self.ctx.time.stamp(),
            ..held.entry.clone()
        }
    }

    /// Puts entries further on.
    async fn spill(&self, mut spills: Vec<Held>, done: &mut Vec<Noted>, again: &mut Vec<Held>) {
        if spills.is_empty() {
            return;
        }
        let copies: Vec<Entry> = spills.iter().map(|held| self.further_on(held)).collect();
        for (held, copy) in spills.iter_mut().zip(&copies) {
            held.copy = Some(Box::new(copy.clone()));
        }
        let placed = if flaw::is(Flaw::SpillNotWritten) {
            copies.into_iter().map(Ok).collect()
        } else {
            self.entry_writer.place(copies).await
        };
        let (mut marks, mut moved) = (Vec::new(), Vec::new());
        for (held, placed) in spills.into_iter().zip(placed) {
            if let Ok(copy) = placed {
                metrics::counter!("tickwheel_spilled_total").increment(1);
                let key = held.entry.key;
                self.term.leave_body(self.ctx.tick().tick_of(key.due), key);
                // So that the eraser of another term leaves the content to the copy, too.
                let reason = DoneReason::Moved { to: copy.key.due };
                marks.push(
                    held.entry
                        .marked_done(reason, self.ctx.now(), self.ctx.time.stamp()),
                );
                moved.push(held);
            } else {
                again.push(held);
            }
        }
        for (held, marked) in moved.into_iter().zip(self.entry_writer.mark(marks).await) {
            if marked.is_ok() || flaw::is(Flaw::OldPlaceNotMarked) {
                done.push(held.number);
            } else {
                again.push(held);
            }
        }
    }

    fn finish(&self, done: &[Noted], again: Vec<Held>) {
        let moment = self.ctx.time.moment();
        self.term.done(done, moment, limits::ENTRIES_PER_SWAP_MAX);
        self.term
            .put_back(again, self.ctx.now().after(limits::STEP_PAUSE));
    }

    /// Hands over what is due until the term ends.
    pub(in crate::flow) async fn run(self) {
        let mut firing = Firing::new(self.ctx.publisher.records_at_once());
        loop {
            while self.step(&mut firing) == Stepped::More {}
            let next = self.next_due(&firing);
            // When an entry is due and yet not taken, the lease has ended. Only a new lease goes on.
            let pause = if self.term.is_live(self.ctx.time.moment()) {
                Duration::from_millis(1)
            } else {
                limits::STEP_PAUSE
            };
            let wake = next.map(|due| due.max(self.ctx.now().after(pause)));
            tokio::select! {
                biased;
                () = self.term.ended.cancelled() => return,
                Some(fired) = firing.ended() => if let Err(error) = fired {
                    // The entries of the batch are held nowhere now: end the term, so that they are read
                    // again.
                    tracing::error!(wheel = self.term.wheel.get(), %error, "a batch failed; its wheel is taken anew");
                    self.term.ended.cancel();
                },
                () = self.term.held.notified() => {}
                () = async { self.ctx.time.sleep_until_wall(wake.unwrap_or(Millis::MAX)).await }, if wake.is_some() => {}
            }
        }
    }
}

/// Returns the task that a due entry hands over; none for looks and marks.
fn sending(entry: &Entry) -> Option<Sending> {
    Some(Sending {
        dispatch: Dispatch::of_entry(entry)?,
        spec: Arc::clone(&entry.spec),
        first: matches!(entry.kind, Kind::Due { first: true, .. }),
        opened: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{
            clock::{ClockRow, Position},
            fixtures,
            time::TickLength,
            wheel::{Shape, WheelNumber},
        },
        time_source::TimeSource,
    };

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_in_memory_until_all_of_it_is_done() {
        let tick = TickLength::new(Duration::from_secs(1)).unwrap();
        let shape = Shape::new(4, tick, 64).unwrap();
        let (row, now) = (
            ClockRow::first(&shape, Millis(0)),
            TimeSource::real().moment(),
        );
        let wheel = WheelNumber::from_low_bits(1);
        let term = Term::new(wheel, row, now.after(Duration::from_secs(10)), now, &shape);
        for number in 0..10 {
            let (due, spec) = (Millis(1000), Arc::new(fixtures::laden()));
            let id = TaskId::new(due, wheel, number);
            let entry = Entry::due(id, 0, 0, due, spec, 1);
            let mut state = term.lock();
            let noted = state.ledger.note(Position { due, id });
            let held = Held::new(Noted::InOrder(noted), entry, Millis(0));
            state.ahead.push(held);
        }
        let all = term.lock().in_memory();
        assert!(all.bytes >= 10 * fixtures::LADEN_BYTES as u64);
        let batch = term.take_due(Lane::Small, Millis(1000), 4);
        let bytes = weight_of(&batch);
        assert_eq!((batch.len(), term.lock().in_memory()), (4, all));
        let (done, again) = (batch[0].number, batch[1..].to_vec());
        term.done(&[done], now, 9);
        term.put_back(again, Millis(2000));
        // Counted twice for a moment rather than not at all.
        assert!(term.lock().in_memory().bytes > all.bytes);
        term.landed(bytes);
        let left = term.lock().in_memory();
        assert_eq!((left.entries, left.bytes), (9, all.bytes / 10 * 9));
    }
}
