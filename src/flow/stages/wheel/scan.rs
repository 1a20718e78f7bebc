//! The read stage reads `(fired, opened]` of an owned wheel for the fire stage, in due order and page by
//! page, into the memory wheel.
//!
//! It runs seconds ahead of the due times, so that no step between due time and hand-over waits for the
//! store. This includes the look of a tracked task's first publication, which is written here, for a whole
//! page in one batch. The settings bound the memory, however much is due: a full memory wheel stops the
//! reader, not the clock. One callback cannot fill it: where a callback has its share, the reader passes over
//! its rows, and a second one takes them as room comes ([`super::deferred`]). Ticks that are behind the clock
//! are read in turns with the other wheels ([`crate::flow::base::permits`]). On one machine those ahead of it are read
//! in turns as well ([`crate::flow::base::permits::read_permits`]).
//!
//! Crash points: a page that was read and not fired is read again by the next owner, and its looks are
//! written again under the same keys. A corrupt entry is set aside, counted and passed;
//! the wheel stops before an entry of a later version.

use std::{sync::Arc, time::Duration};

use super::{
    cursor::Cursor,
    deferred::{self, HasShare},
    held::{Held, Noted},
    prefetch::Amount,
    term::Term,
};
use crate::{
    flaw::{self, Flaw},
    flow::base::{
        api::Fault,
        context::{Context, Stepped},
        entries::entry_writer::EntryWriter,
        permits::{
            catch_up::{self, CatchUp, Patience},
            read_permits::{self, ReadPermits},
        },
    },
    limits,
    model::{
        clock::Position,
        decision::{self, Decision, Known},
        entry::{Entry, Kind},
        time::Tick,
        wheel::Span,
    },
    store::{Page, Parked, Scan, ScannedRow},
};

/// The last wheel keeps this part of the time between the opening of a tick and its first due time, to read
/// the tick and to write its looks. It is many times what that takes on a store that is well. The others
/// begin before, spread over the rest.
const READ_TIME: Duration = Duration::from_millis(500);

/// The reader of one term.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Reader {
    pub(in crate::flow) ctx: Arc<Context>,
    entry_writer: EntryWriter,
    catch_up: Arc<CatchUp>,
    turns: Arc<ReadPermits>,
    pub(in crate::flow) term: Arc<Term>,
}

impl Reader {
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        entry_writer: EntryWriter,
        catch_up: Arc<CatchUp>,
        turns: Arc<ReadPermits>,
        term: Arc<Term>,
    ) -> Self {
        Self {
            ctx,
            entry_writer,
            catch_up,
            turns,
            term,
        }
    }

    /// Reads one page.
    async fn step(&self, patience: &mut Patience) -> Result<Stepped, Fault> {
        let cursor = {
            let state = self.term.lock();
            let full = state.in_memory().is_full(self.memory_max());
            if full || state.cursor.tick > state.row.opened {
                return Ok(Stepped::Idle);
            }
            state.cursor
        };
        if self.wait_for_phase(cursor).await == Stepped::Idle {
            return Ok(Stepped::Idle);
        }
        let _turn = self.turn(cursor.tick, patience).await;
        let ahead = self.turn_ahead(cursor.tick).await;
        // The next owner reads from here as well.
        if self.term.ended.is_cancelled() {
            return Ok(Stepped::Idle);
        }
        let page = self.ctx.store.scan(&self.scan(cursor)).await?;
        // Writes of many wheels share a sync.
        drop(ahead);
        for row in page.rows.iter().filter(|row| row.entry.is_err()) {
            self.park(row).await?;
        }
        let entries = self.choose(cursor, entries_of(&page));
        self.put_looks(&entries).await?;
        self.take(cursor, &page, entries);
        Ok(Stepped::More)
    }

    /// Returns how much may be in memory.
    pub(super) fn memory_max(&self) -> Amount {
        Amount {
            entries: self.ctx.settings.ahead_entries_max,
            bytes: self.ctx.settings.ahead_bytes_max,
        }
    }

    /// Returns those entries of a page that are to be held now; lanes that have their share of the memory are
    /// passed over. In a tick that was missed long ago no further lane is passed over: to read it twice would
    /// cost more than it gains.
    fn choose(&self, cursor: Cursor, entries: Vec<Entry>) -> Vec<Entry> {
        let may_defer = {
            let end = self.ctx.tick().end_of(cursor.tick);
            self.ctx.now() < end.after(limits::DEFERRED_BEHIND_MAX) && !flaw::is(Flaw::OneLane)
        };
        let max = self.memory_max();
        let mut guard = self.term.lock();
        let state = &mut *guard;
        let (held, fired) = (state.in_memory(), state.ledger.fired());
        let ahead = &state.ahead;
        let has_share = |lane, of_lane, all| {
            let mine = ahead.of_lane(lane).and(of_lane);
            mine.is_its_share(held.and(all), max)
        };
        let has_share: Option<&HasShare<'_>> = may_defer.then_some(&has_share);
        state.deferred.choose(cursor, fired, entries, has_share)
    }

    /// Waits, before the first page of a tick that has just been opened, until it is this wheel's turn in the tick; idle if
    /// the term has ended meanwhile.
    async fn wait_for_phase(&self, cursor: Cursor) -> Stepped {
        let (tick, now) = (self.ctx.tick(), self.ctx.now());
        let opened = tick.end_of(cursor.tick.plus(-self.ctx.rules.look_ahead));
        // A tick is opened `look_ahead` ticks before it ends, and lasts one.
        let ahead = u32::try_from(self.ctx.rules.look_ahead - 1).unwrap_or(0);
        let spare = (tick.duration() * ahead).saturating_sub(READ_TIME);
        let span = spare.min(limits::PHASE_SPAN_MAX);
        let from = opened.after(self.ctx.shape().phase_of(self.term.wheel, span));
        if cursor.behind.is_some() || now >= from {
            return Stepped::More;
        }
        tokio::select! {
            biased;
            () = self.term.ended.cancelled() => Stepped::Idle,
            () = self.ctx.time.sleep_until_wall(from) => Stepped::More,
        }
    }

    fn is_missed(&self, tick: Tick) -> bool {
        self.ctx.tick().end_of(tick) <= self.ctx.now()
    }

    /// Waits for a turn to read a tick that is behind the clock.
    pub(in crate::flow) async fn turn(
        &self,
        tick: Tick,
        patience: &mut Patience,
    ) -> Option<catch_up::Turn<'_>> {
        if self.is_missed(tick) {
            Some(self.catch_up.turn(tick, patience).await)
        } else {
            None
        }
    }

    /// Waits for a turn to read a tick that is ahead of the clock.
    pub(super) async fn turn_ahead(&self, tick: Tick) -> Option<read_permits::Turn<'_>> {
        if self.is_missed(tick) {
            None
        } else {
            self.turns.read().await
        }
    }

    pub(in crate::flow) fn scan(&self, cursor: Cursor) -> Scan {
        let shape = self.ctx.shape();
        let Span { after, through } = shape.span_of(cursor.tick);
        Scan {
            wheel: self.term.wheel,
            slot: shape.slot_of(cursor.tick),
            span: Span { after, through },
            behind: cursor.behind,
            rows_max: self.ctx.settings.page_rows_max,
        }
    }

    /// Writes the looks of a page's first publications. A slot that closed meanwhile moves a look to its next grid point.
    pub(super) async fn put_looks(&self, entries: &[Entry]) -> Result<(), Fault> {
        let now = self.ctx.now();
        let unread = Known {
            row: None,
            heartbeat: None,
        };
        let looks: Vec<Entry> = entries
            .iter()
            .filter(|entry| entry.needs_look())
            .filter_map(
                |entry| match decision::decide(entry, unread, now, self.ctx.shape()) {
                    Decision::Publish(publish) => Some(Entry::look(
                        entry.key.id,
                        publish.generation,
                        publish.look_at?,
                        Some(entry.key.due.max(now)),
                        entry.start,
                        Arc::clone(&entry.spec),
                        self.ctx.time.stamp(),
                    )),
                    Decision::Drop
                    | Decision::LookAgain { .. }
                    | Decision::End { .. }
                    | Decision::EndSteps => None,
                },
            )
            .collect();
        if looks.is_empty() || flaw::is(Flaw::NoLookBeforePublish) {
            return Ok(());
        }
        for placed in self.entry_writer.place(looks).await {
            placed?;
        }
        Ok(())
    }

    /// Hands a page to the memory wheel and moves the cursor.
    fn take(&self, cursor: Cursor, page: &Page, entries: Vec<Entry>) {
        let (tick_end, now) = (self.ctx.tick().end_of(cursor.tick), self.ctx.now());
        {
            let mut state = self.term.lock();
            for row in &page.rows {
                state.note(cursor.tick, row, self.ctx.settings.noted_tasks_max);
            }
            for entry in entries {
                let number = state.ledger.note(deferred::position(&entry));
                let held = Held::new(Noted::InOrder(number), entry, now);
                state.ahead.push(held);
            }
            state.deferred.chosen();
            let last = page.rows.last().map(|row| row.key);
            if page.more && !flaw::is(Flaw::ShortPageTakenForLast) {
                state.cursor.behind = last.or(cursor.behind);
            } else {
                state.ledger.reached(Position::behind(tick_end));
                state.cursor = Cursor {
                    tick: cursor.tick.plus(1),
                    behind: None,
                };
            }
        }
        self.term.held.notify_one();
        self.term.deferred.notify_one();
    }

    /// Sets a row aside that cannot be understood: it is kept, counted, logged once and passed. A row of a
    /// later version is left alone.
    async fn park(&self, row: &ScannedRow) -> Result<(), Fault> {
        let Err(unreadable) = &row.entry else {
            return Ok(());
        };
        if unreadable.newer {
            // If it were set aside it would be lost, although the node that wrote it could deliver it.
            return Err(Fault::Unavailable {
                reason: format!(
                    "an entry of task {} was written by a later version ({}): its wheel stops before it; update this node, \
                     or stop it so that another one takes the wheel",
                    row.key.id, unreadable.reason
                ),
                retry_after: limits::STEP_PAUSE,
            });
        }
        let parked = Parked {
            key: row.key,
            at: self.ctx.now(),
            reason: unreadable.reason.clone(),
            raw: unreadable.raw.clone(),
        };
        self.ctx.store.park(&parked).await?;
        metrics::counter!("tickwheel_parked_total", "reason" => "unreadable").increment(1);
        tracing::error!(task = %row.key.id, reason = unreadable.reason, "set an entry aside that cannot be understood");
        Ok(())
    }

    /// Reads until the term ends.
    pub(in crate::flow) async fn run(self) {
        let mut reported = false;
        let mut patience = Patience::new(self.ctx.tick().duration(), self.term.ended.clone());
        loop {
            let wait = match self.step(&mut patience).await {
                Ok(Stepped::More) => {
                    reported = false;
                    continue;
                }
                Ok(Stepped::Idle) => None,
                Err(error) => {
                    if !std::mem::replace(&mut reported, true) {
                        tracing::warn!(wheel = self.term.wheel.get(), %error, "could not read ahead");
                    }
                    Some(limits::STEP_PAUSE)
                }
            };
            tokio::select! {
                biased;
                () = self.term.ended.cancelled() => return,
                () = self.term.readable.notified(), if wait.is_none() => {}
                () = async { self.ctx.time.sleep(wait.unwrap_or_default()).await }, if wait.is_some() => {}
            }
        }
    }
}

/// Returns the entries of a page that ask for something to be done.
pub(super) fn entries_of(page: &Page) -> Vec<Entry> {
    let entries = page.rows.iter().filter_map(|row| row.entry.as_ref().ok());
    let open = entries.filter(|entry| !matches!(entry.kind, Kind::Done { .. }));
    open.cloned().collect()
}
