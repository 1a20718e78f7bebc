//! The erase stage truncates a wheel for its owner behind `fired`, by one range delete per tick that held
//! anything.
//!
//! A delete carries the newest write time that was seen in its range, never "now". So a row that was written
//! later and not seen survives as a leftover instead of being shadowed, and so does a row of the next
//! revolution. Fired rows are kept readable for a while first. The embedded store deletes nothing here: it
//! hides all rows that a clock's `erased` has passed, regardless of their write time, and drops them later.
//! `erased` moves after the deletes are acknowledged, and a crash in between repeats them.
//!
//! An entry that is written into a slot behind its reader has no effect, and no caller was told that it is
//! durable. Its writer died before it looked at the clock, or could not look, or a replica got late what it
//! had missed. Each tick is looked at once more, [`SWEEP_DELAY`](crate::limits::SWEEP_DELAY) behind the hand,
//! so that such an entry does not stay for ever. The tick that is erased says which tick that is, so no place
//! has to be stored. A content that such an entry names is left, because another entry may name it, too.
//!
//! After an outage there are as many ticks to look at here as to fire. They are read by one wheel of a node
//! at a time ([`crate::flow::base::permits`]).

use std::sync::Arc;

use super::term::{Term, TickNotes};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            api::Fault,
            context::{Context, Stepped},
            permits::catch_up::{CatchUp, Patience},
        },
        life::withdraw::Withdrawer,
    },
    limits,
    model::{entry::Key, ids::TaskId, time::Tick},
    store::{Erasure, Scan},
};

/// More ticks than this to erase at once are those of an outage: one a tick, and one that was held up, are the rule.
const TICKS_IN_STEP: i64 = 2;

/// The eraser of one term.
#[derive(Debug)]
pub(super) struct Eraser {
    ctx: Arc<Context>,
    withdrawer: Withdrawer,
    catch_up: Arc<CatchUp>,
    term: Arc<Term>,
}

impl Eraser {
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        withdrawer: Withdrawer,
        catch_up: Arc<CatchUp>,
        term: Arc<Term>,
    ) -> Self {
        Self {
            ctx,
            withdrawer,
            catch_up,
            term,
        }
    }

    /// Returns up to where is erased, up to where it can be, and from where on this term has seen what there is.
    fn erasable(&self) -> (Tick, Tick, Tick) {
        let tick = self.ctx.tick();
        let mut state = self.term.lock();
        let fired = state.fired();
        let fired = if flaw::is(Flaw::EraseWithinATick) {
            tick.last_ended(fired.due)
        } else {
            fired.last_passed(tick)
        };
        let settled = tick.last_ended(self.ctx.now().before(self.ctx.settings.erase_delay));
        (state.erased, fired.min(settled), state.noted_from)
    }

    /// Erases some ticks.
    async fn step(&self, patience: &mut Patience) -> Result<Stepped, Fault> {
        let (from, through, noted_from) = self.erasable();
        if from >= through {
            return Ok(Stepped::Idle);
        }
        let mut in_turn = (through.0 - from.0 > TICKS_IN_STEP).then_some(patience);
        let through = through.min(from.plus(limits::ERASE_TICKS_MAX));
        let mut erasures = Vec::new();
        let mut bodies: Vec<TaskId> = Vec::new();
        for number in from.0 + 1..=through.0 {
            if self.term.ended.is_cancelled() {
                return Ok(Stepped::Idle);
            }
            let at = Tick(number);
            let noted = self.term.lock().notes.get(&at).cloned();
            let noted = noted.unwrap_or_default();
            let spared = noted.spared.clone();
            let notes = if at >= noted_from && !noted.unlisted {
                noted
            } else {
                self.read_through(at, in_turn.as_deref_mut()).await?
            };
            let taken = notes.bodies.iter().filter(|key| !spared.contains(key));
            bodies.extend(taken.map(|key| key.id));
            for marks in notes.withdrawn.chunks(limits::STEP_ENTRIES_MAX) {
                bodies.extend(self.withdrawer.without_content(marks).await?);
            }
            erasures.extend(notes.newest_written.map(|newest_written| Erasure {
                tick: at,
                newest_written,
            }));
        }
        if !bodies.is_empty() {
            self.ctx
                .store
                .delete_bodies(&bodies, self.ctx.time.stamp())
                .await?;
        }
        if flaw::is(Flaw::EraseTakesTheSlot) {
            let newest_written = self.ctx.time.stamp();
            let (from, slots) = (through.0, self.ctx.shape().slots());
            erasures.extend((1..20).map(|turn| Erasure {
                tick: Tick(from + turn * slots),
                newest_written,
            }));
        }
        if !erasures.is_empty() {
            self.ctx.store.erase(self.term.wheel, &erasures).await?;
        }
        if self.sweep(from, through, in_turn).await? == Stepped::Idle {
            return Ok(Stepped::Idle);
        }
        self.term.lock().erased(through);
        Ok(Stepped::More)
    }

    /// Removes what is left in the ticks that lie so far behind those that are being erased; idle if the term ends before.
    async fn sweep(
        &self,
        from: Tick,
        through: Tick,
        mut in_turn: Option<&mut Patience>,
    ) -> Result<Stepped, Fault> {
        if self.ctx.store.removes_leftovers() {
            return Ok(Stepped::More);
        }
        let behind = self.ctx.tick().count(self.ctx.settings.sweep_delay);
        let ticks = (from.0 + 1..=through.0).map(|number| Tick(number).plus(-behind));
        let mut erasures = Vec::new();
        for tick in ticks {
            if self.term.ended.is_cancelled() {
                return Ok(Stepped::Idle);
            }
            let notes = self.read_through(tick, in_turn.as_deref_mut()).await?;
            let (wheel, rows) = (self.term.wheel.get(), notes.rows);
            if rows == 0 {
                continue;
            }
            if notes.unreadable {
                // For a person to look at.
                tracing::warn!(
                    wheel,
                    tick = tick.0,
                    "a leftover cannot be understood, and stays"
                );
                continue;
            }
            tracing::debug!(wheel, tick = tick.0, rows, "removes leftovers");
            metrics::counter!("tickwheel_leftovers_total").increment(rows);
            erasures.extend(notes.newest_written.map(|newest_written| Erasure {
                tick,
                newest_written,
            }));
        }
        if !erasures.is_empty() {
            self.ctx.store.erase(self.term.wheel, &erasures).await?;
        }
        Ok(Stepped::More)
    }

    /// Reads a tick whole, for what the eraser must know of it.
    async fn read_through(
        &self,
        tick: Tick,
        in_turn: Option<&mut Patience>,
    ) -> Result<TickNotes, Fault> {
        let _turn = match in_turn {
            Some(patience) => Some(self.catch_up.turn_to_erase(tick, patience).await),
            None => None,
        };
        let shape = self.ctx.shape();
        let mut notes = TickNotes::default();
        let mut behind: Option<Key> = None;
        loop {
            let page = self
                .ctx
                .store
                .scan(&Scan {
                    wheel: self.term.wheel,
                    slot: shape.slot_of(tick),
                    span: shape.span_of(tick),
                    behind,
                    rows_max: self.ctx.settings.page_rows_max,
                })
                .await?;
            for row in &page.rows {
                notes.note(row);
            }
            behind = page.rows.last().map(|row| row.key).or(behind);
            if !page.more {
                return Ok(notes);
            }
        }
    }

    /// Erases until the term ends, a little each tick.
    pub(in crate::flow) async fn run(self) {
        // For each of the two reads of a tick.
        let length = self.ctx.tick().duration() / 2;
        let mut patience = Patience::new(length, self.term.ended.clone());
        loop {
            let pause = match self.step(&mut patience).await {
                Ok(Stepped::More) if !self.term.ended.is_cancelled() => continue,
                Ok(Stepped::More) => return,
                Ok(Stepped::Idle) => self.ctx.tick().duration(),
                Err(error) => {
                    tracing::debug!(wheel = self.term.wheel.get(), %error, "could not erase");
                    self.ctx.tick().duration()
                }
            };
            tokio::select! {
                biased;
                () = self.term.ended.cancelled() => return,
                () = self.ctx.time.sleep(pause) => {}
            }
        }
    }
}
