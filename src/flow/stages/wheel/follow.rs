//! The second reader of a wheel reads entries again for callbacks and topics that the first reader has passed
//! over ([`super::deferred`]), as room comes.
//!
//! It follows at a distance, so that it never waits in front of the first reader. Its crash points are those
//! of [`super::scan`].

use super::{
    cursor::Cursor,
    held::{Held, Noted},
    prefetch::Amount,
    scan::{Reader, entries_of},
    term::TermState,
};
use crate::{
    flow::base::{api::Fault, context::Stepped, permits::catch_up::Patience},
    limits,
    model::{
        clock::Position,
        entry::{Entry, Key},
    },
    store::{Page, ScannedRow},
};

impl Reader {
    /// Tells whether there is room again for entries that are passed over. With a page more, each of their
    /// lanes must have less than its share, so that room is left for entries that the first reader finds, or
    /// hold nothing at all.
    fn has_room_to_follow(&self, state: &TermState) -> bool {
        let max = self.memory_max();
        let page = Amount {
            entries: self.ctx.settings.page_rows_max,
            bytes: 0,
        };
        let all = state.in_memory();
        let mut lanes = state.deferred.lanes().map(|lane| state.ahead.of_lane(lane));
        !all.is_full(max)
            && lanes
                .all(|held| held.entries == 0 || !held.and(page).is_its_share(all.and(page), max))
    }

    /// Reads one page of what was passed over.
    async fn follow(&self, patience: &mut Patience) -> Result<Stepped, Fault> {
        let cursor = {
            let state = self.term.lock();
            match state.deferred.cursor(state.cursor) {
                Some(cursor) if self.has_room_to_follow(&state) => cursor,
                Some(_) | None => return Ok(Stepped::Idle),
            }
        };
        let _turn = self.turn(cursor.tick, patience).await;
        let ahead = self.turn_ahead(cursor.tick).await;
        if self.term.ended.is_cancelled() {
            return Ok(Stepped::Idle);
        }
        let page = self.ctx.store.scan(&self.scan(cursor)).await?;
        // Writes of many wheels share a sync.
        drop(ahead);
        let (last, entries) = {
            let state = self.term.lock();
            // Where the first reader stands now: it may be in the midst of the same tick.
            let within = state.cursor.tick == cursor.tick;
            let last = state.cursor.behind.filter(|_| within);
            (last, state.deferred.passed_over(entries_of(&page), last))
        };
        self.put_looks(&entries).await?;
        self.take_deferred(cursor, last, &page, entries);
        Ok(Stepped::More)
    }

    /// Hands the entries of a page that were passed over, up to `last`, to the memory wheel, and moves the
    /// second cursor.
    fn take_deferred(&self, cursor: Cursor, last: Option<Key>, page: &Page, entries: Vec<Entry>) {
        let (tick_end, now) = (self.ctx.tick().end_of(cursor.tick), self.ctx.now());
        let read = page.rows.last().map(|row| row.key);
        let on = |behind| Cursor {
            tick: cursor.tick,
            behind,
        };
        let (to, reached) = match last {
            Some(last) if !page.more || read >= Some(last) => (on(Some(last)), None),
            None if !page.more => {
                let next = Cursor {
                    tick: cursor.tick.plus(1),
                    behind: None,
                };
                (next, Some(Position::behind(tick_end)))
            }
            Some(_) | None => (on(read.or(cursor.behind)), None),
        };
        {
            let mut state = self.term.lock();
            let up_to = |row: &&ScannedRow| last.is_none_or(|last| row.key <= last);
            for row in page.rows.iter().filter(up_to) {
                state.note_again(cursor.tick, row);
            }
            for entry in entries {
                let number = Noted::Deferred(state.deferred.note(&entry));
                state.ahead.push(Held::new(number, entry, now));
            }
            let first = state.cursor;
            state.deferred.came_to(to, reached, first);
        }
        self.term.held.notify_one();
    }

    /// Follows the first reader until the term ends.
    pub(super) async fn run_behind(self) {
        let mut patience = Patience::new(self.ctx.tick().duration(), self.term.ended.clone());
        loop {
            let wait = match self.follow(&mut patience).await {
                Ok(Stepped::More) => continue,
                Ok(Stepped::Idle) => None,
                Err(error) => {
                    tracing::debug!(wheel = self.term.wheel.get(), %error, "could not read what was passed over");
                    Some(limits::STEP_PAUSE)
                }
            };
            tokio::select! {
                biased;
                () = self.term.ended.cancelled() => return,
                () = self.term.deferred.notified(), if wait.is_none() => {}
                () = async { self.ctx.time.sleep(wait.unwrap_or_default()).await }, if wait.is_some() => {}
            }
        }
    }
}
