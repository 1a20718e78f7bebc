//! The finder finds a task by its id for clients and for other stages: its row, else the entries that a registration left.
//!
//! A task that was never claimed, cancelled or rescheduled has no row. Its entry lies at the tick of its start. A near or
//! re-routed task has a look at one of the next points of its grid instead, or a backup entry a few ticks later.

use std::sync::Arc;

use futures_util::future::join_all;

use super::places::Places;
pub(in crate::flow) use super::views::{
    as_expired, unwritten_view, view_of_attempt, view_of_entry, view_of_row,
};
use crate::{
    flow::base::{
        api::{Fault, TaskView, View},
        budget::Budget,
        context::Context,
        rows::{content, results, stored},
        tables::joins,
    },
    limits,
    model::{
        backup,
        clock::Position,
        dead_letter,
        entry::{DoneReason, Entry, Kind},
        ids::TaskId,
        look::{Grid, NEAR_POINTS},
        state::{State, TaskRow},
        task::{Body, Spec},
        time::Millis,
    },
    store::{self, Freshness, Heartbeat},
};

/// Ticks, from the distance of a backup on, in which the backup entry of a near `kafka` task may lie.
const BACKUP_TICKS: i64 = 12;

/// The trace that a registration left of a task.
#[derive(Debug, Clone)]
pub struct Registered {
    /// The task.
    pub spec: Arc<Spec>,
    /// The entry that was found.
    pub entry: Entry,
}

/// The state of knowledge about a task that is to be changed.
#[derive(Debug)]
pub(in crate::flow) struct Subject {
    pub(in crate::flow) row: Option<TaskRow>,
    pub(in crate::flow) spec: Arc<Spec>,
    pub(in crate::flow) entry: Option<Entry>,
}

impl Subject {
    fn of_row(row: TaskRow) -> Self {
        Self {
            spec: Arc::clone(&row.detail.spec),
            row: Some(row),
            entry: None,
        }
    }
}

/// A task of a list, as it was read.
#[derive(Debug)]
pub(in crate::flow) enum OneOfList {
    /// It is there.
    Task(Box<TaskView>),
    /// There is no such task.
    Absent,
    /// Its row cannot be understood.
    Unreadable,
}

/// A task as it was read last.
#[derive(Debug)]
pub(in crate::flow) enum Told {
    /// By its row, with the last sign of life of its attempt.
    Row(Box<TaskRow>, Option<Heartbeat>),
    /// By the entry that its registration left, and whether it was handed over.
    Entry(Box<Entry>, bool),
}

/// Tells whether an entry says what a task without a row is. One of a later generation is of a move whose row was not written:
/// its mover died, or is about to write it, and the task is as it was registered. A record has no row, and its entry is all.
fn tells(entry: &Entry) -> bool {
    let is_moving = entry.spec.target.is_tracked() && entry.key.generation > 0;
    !entry.is_withdrawn() && !is_moving
}

/// The finder. Its clones share its places. Claims have a finder of their own, as clients may use up all places.
#[derive(Debug, Clone)]
pub struct Finder {
    ctx: Arc<Context>,
    /// Memory for contents that are read for people. It is apart from the memory of tasks on their way, which must not wait.
    reading: Budget,
    finds: Places,
    searches: Places,
}

impl Finder {
    /// Reads through these.
    #[must_use]
    pub(in crate::flow) fn new(ctx: Arc<Context>) -> Self {
        let finds = limits::FINDS_IN_FLIGHT_MAX;
        // A store in this process reads on threads of its own, of which there are few.
        let at_once = ctx.store.reads_at_once();
        let searches = at_once.unwrap_or(limits::SEARCHES_IN_FLIGHT_MAX);
        Self {
            finds: Places::new(ctx.time.clone(), finds, "reads by id"),
            searches: Places::new(ctx.time.clone(), searches, "searches for tasks by id")
                .waiting_for(limits::SEARCH_WAIT_MAX),
            ctx,
            reading: Budget::new(limits::CONTENTS_READ_BYTES_MAX),
        }
    }

    /// Reads a task.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(in crate::flow) async fn get(
        &self,
        id: TaskId,
        view: View,
    ) -> Result<Option<TaskView>, Fault> {
        let Some(task) = self.listed(id).await? else {
            return Ok(None);
        };
        let task = self.with_result(task).await?;
        let task = joins::shown(&self.ctx, task).await?;
        match view {
            View::Full => Ok(Some(self.with_content(task).await?)),
            View::Basic => Ok(Some(task)),
        }
    }

    /// Reads a task as lists show it: without what is kept apart.
    pub(in crate::flow) async fn listed(&self, id: TaskId) -> Result<Option<TaskView>, Fault> {
        let place = self.finds.enter().await?;
        let row = stored::row(&self.ctx, id).await?;
        let found = self.with_row(id, row).await;
        drop(place);
        found
    }

    /// Reads what tells where a task stands.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(in crate::flow) async fn told(&self, id: TaskId) -> Result<Option<Told>, Fault> {
        let _place = self.finds.enter().await?;
        match stored::row(&self.ctx, id).await?.filter(is_told_by) {
            Some(row) if is_hidden(&row, self.ctx.now()) => Ok(None),
            Some(row) => {
                let heartbeat = self.heartbeat(&row).await?;
                Ok(Some(Told::Row(Box::new(row), heartbeat)))
            }
            None => {
                let Some(Registered { entry, .. }) = self.registered(id).await? else {
                    return Ok(None);
                };
                let fired = self.fired(&entry).await?;
                Ok(Some(Told::Entry(Box::new(entry), fired)))
            }
        }
    }

    /// Reads the row of a task alone.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(in crate::flow) async fn row(&self, id: TaskId) -> Result<Option<TaskRow>, Fault> {
        let _place = self.finds.enter().await?;
        stored::row(&self.ctx, id).await
    }

    /// Reads a task of a list, in which it is one of many: a row that cannot be understood is no fault of the list.
    pub(in crate::flow) async fn one_of_list(&self, id: TaskId) -> Result<OneOfList, Fault> {
        let place = self.finds.enter().await?;
        let row = match stored::rows_each(&self.ctx, &[id]).await.pop() {
            Some(Err(error)) if error.is_of_a_row() => {
                tracing::debug!(task = %id, %error, "left out of a list");
                return Ok(OneOfList::Unreadable);
            }
            row => row.transpose()?.flatten(),
        };
        let found = self.with_row(id, row).await;
        drop(place);
        Ok(found?.map_or(OneOfList::Absent, |task| OneOfList::Task(Box::new(task))))
    }

    async fn with_row(&self, id: TaskId, row: Option<TaskRow>) -> Result<Option<TaskView>, Fault> {
        match row.filter(is_told_by) {
            Some(row) => self.of_row(row).await,
            None => match self.registered(id).await? {
                Some(found) => Ok(Some(self.of_entry(found).await?)),
                None => Ok(None),
            },
        }
    }

    /// Returns the knowledge about tasks that are to be changed, by one read of rows and one of entries for
    /// most of them; none where there is no such task.
    pub(in crate::flow) async fn subjects(
        &self,
        ids: &[TaskId],
    ) -> Vec<Result<Option<Subject>, Fault>> {
        let rows = stored::rows_each(&self.ctx, ids).await;
        let is_tracked = |row: &TaskRow| row.detail.spec.target.is_tracked();
        let needs_entry = |row: &Option<TaskRow>| !row.as_ref().is_some_and(is_tracked);
        let unread = ids.iter().zip(&rows);
        let unread = unread.filter(|(_, row)| row.as_ref().is_ok_and(needs_entry));
        let unread: Vec<TaskId> = unread.map(|(id, _)| *id).collect();
        let mut found = self.registered_all(&unread).await.into_iter();
        let subject = |row: Result<Option<TaskRow>, store::Error>| match row? {
            Some(row) if is_tracked(&row) => Ok(Some(Subject::of_row(row))),
            row => match (row, found.next().unwrap_or(Ok(None))?) {
                (row, Some(Registered { spec, entry })) => Ok(Some(Subject {
                    row,
                    spec,
                    entry: Some(entry),
                })),
                (Some(row), None) if row.state == State::Cancelled => {
                    Ok(Some(Subject::of_row(row)))
                }
                (_, None) => Ok(None),
            },
        };
        rows.into_iter().map(subject).collect()
    }

    /// Finds what the registration of a task without row left.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(in crate::flow) async fn registered(
        &self,
        id: TaskId,
    ) -> Result<Option<Registered>, Fault> {
        let found = self.registered_all(&[id]).await.pop();
        found.unwrap_or(Ok(None))
    }

    /// Finds what the registrations of tasks left: those that lie at their starts, as most do, by one read.
    pub(in crate::flow) async fn registered_all(
        &self,
        ids: &[TaskId],
    ) -> Vec<Result<Option<Registered>, Fault>> {
        if ids.is_empty() {
            return Vec::new();
        }
        let starts: Vec<(TaskId, Millis)> = ids.iter().map(|id| (*id, id.first_start())).collect();
        let at_start = self.ctx.store.entries_at(&starts).await;
        let finds = ids.iter().zip(at_start).map(|(id, entries)| async move {
            match self.registered_among(entries?).await? {
                Some(found) => Ok(Some(found)),
                None => {
                    let _place = self.searches.enter().await?;
                    self.registered_elsewhere(*id).await
                }
            }
        });
        join_all(finds).await
    }

    /// Finds what the registration of a task left that was found at about this time once. Nothing comes to it any more if it is
    /// not found by the present time.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(in crate::flow) async fn registered_then(
        &self,
        id: TaskId,
        then: Millis,
    ) -> Result<Option<Registered>, Fault> {
        let _place = self.searches.enter().await?;
        let grid = Grid::of(id, self.ctx.shape());
        self.registered_at(id, &grid.points_around(then)).await
    }

    async fn registered_elsewhere(&self, id: TaskId) -> Result<Option<Registered>, Fault> {
        // Up to a thousand of these may follow each other without a wait: the yield lets other tasks run.
        tokio::task::yield_now().await;
        for dues in self.later_dues(id) {
            let found = self.registered_at(id, &dues).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let dues = self.dues_behind_the_hand(id).await?;
        self.registered_at(id, &dues).await
    }

    async fn registered_at(
        &self,
        id: TaskId,
        dues: &[Millis],
    ) -> Result<Option<Registered>, Fault> {
        if dues.is_empty() {
            return Ok(None);
        }
        self.registered_among(self.ctx.store.find_entries(id, dues).await?)
            .await
    }

    async fn registered_among(&self, entries: Vec<Entry>) -> Result<Option<Registered>, Fault> {
        match entries.into_iter().rev().find(tells) {
            Some(entry) => Ok(Some(self.follow(entry).await?)),
            None => Ok(None),
        }
    }

    /// Returns where the entry of a near task may lie in a wheel that is closed far beyond its start, because
    /// a clock was set back or is ahead. Such a task is held in memory, with its durable record behind what
    /// is closed. The time of the node that is asked is no evidence: it may be the one that is ahead.
    async fn dues_behind_the_hand(&self, id: TaskId) -> Result<Vec<Millis>, Fault> {
        // An id that somebody made up may name any wheel.
        if id.wheel().get() >= self.ctx.shape().wheels() {
            return Ok(Vec::new());
        }
        let clock = self.ctx.store.clock(id.wheel(), Freshness::Quorum);
        let opened = clock.await?.opened;
        if opened <= self.ctx.tick().tick_of(id.first_start()) {
            return Ok(Vec::new());
        }
        let (tick, grid) = (self.ctx.tick(), Grid::of(id, self.ctx.shape()));
        // The hand may have gone on by as much as the distance since.
        let ticks = backup::distance_ticks(tick) - 1 + BACKUP_TICKS;
        let backups = (1..=ticks).map(|k| tick.end_of(opened.plus(k)));
        // The hand may have moved on a little since.
        let first = grid.for_near(id.first_start(), tick.end_of(opened));
        let looks = grid.points_from(first.before(grid.step()));
        Ok(backups.chain(looks.take(NEAR_POINTS + 1)).collect())
    }

    /// Returns where an entry of the task may lie that is not at its start, the likeliest first: the look or
    /// backup of a near task, then the looks of a task that still waits for a worker.
    fn later_dues(&self, id: TaskId) -> [Vec<Millis>; 2] {
        let (start, tick, grid) = (
            id.first_start(),
            self.ctx.tick(),
            Grid::of(id, self.ctx.shape()),
        );
        let first = tick.tick_of(start);
        let distance = backup::distance_ticks(tick);
        let mut near: Vec<Millis> = (0..BACKUP_TICKS)
            .map(|k| tick.end_of(first.plus(distance + k)))
            .collect();
        near.extend(grid.near_points(start, self.ctx.shape(), self.ctx.rules.look_ahead));
        let later = grid.points_around(self.ctx.now());
        [near, later]
    }

    /// Follows the marks of a `kafka` task that was rescheduled, a few steps at most.
    async fn follow(&self, entry: Entry) -> Result<Registered, Fault> {
        let mut entry = entry;
        for _ in 0..limits::RACES_MAX {
            let Kind::Done {
                reason: DoneReason::Moved { to },
                ..
            } = entry.kind
            else {
                break;
            };
            let next = self.ctx.store.find_entries(entry.key.id, &[to]).await?;
            match next.into_iter().max_by_key(|next| next.key.generation) {
                Some(next) if next.key != entry.key => entry = next,
                Some(_) | None => break,
            }
        }
        Ok(Registered {
            spec: Arc::clone(&entry.spec),
            entry,
        })
    }

    async fn of_row(&self, row: TaskRow) -> Result<Option<TaskView>, Fault> {
        let heartbeat = self.heartbeat(&row).await?;
        let now = self.ctx.now();
        Ok((!is_hidden(&row, now))
            .then(|| view_of_attempt(row, heartbeat, now, self.ctx.time.moved_to())))
    }

    /// Returns the task of a row as a read by its id shows it, for the answer of a change.
    pub(in crate::flow) async fn shown(&self, row: TaskRow) -> TaskView {
        let heartbeat = self.heartbeat(&row).await;
        let now = self.ctx.now();
        match heartbeat {
            Ok(heartbeat) => view_of_attempt(row, heartbeat, now, self.ctx.time.moved_to()),
            // The change stands, and its answer says more than a fault would.
            Err(error) => {
                tracing::debug!(task = %row.id, %error, "shown without its heartbeat");
                view_of_row(row, None, now)
            }
        }
    }

    /// Reads the last sign of life of the attempt that a row says is running.
    async fn heartbeat(&self, row: &TaskRow) -> Result<Option<Heartbeat>, store::Error> {
        if row.state != State::Claimed {
            return Ok(None);
        }
        let attempt = [(row.id, row.attempt)];
        match self.ctx.store.heartbeats_each(&attempt).await.pop() {
            // It is shown without its progress.
            Some(Err(error)) if error.is_of_a_row() => Ok(None),
            beat => Ok(beat.transpose()?.flatten()),
        }
    }

    async fn of_entry(&self, found: Registered) -> Result<TaskView, Fault> {
        let Registered { entry, .. } = found;
        let fired = self.fired(&entry).await?;
        Ok(as_expired(view_of_entry(&entry, fired), self.ctx.now()))
    }

    /// Tells whether the entry's task has been handed over, as far as its wheel's clock shows.
    async fn fired(&self, entry: &Entry) -> Result<bool, Fault> {
        if self.ctx.now() < entry.start {
            return Ok(false);
        }
        if matches!(entry.kind, Kind::Look { .. }) {
            // A near task: it goes out from memory at its start.
            return Ok(true);
        }
        let clock = self
            .ctx
            .store
            .clock(entry.key.wheel(), Freshness::Quorum)
            .await?;
        Ok(Position {
            due: entry.key.due,
            id: entry.key.id,
        } <= clock.fired)
    }

    async fn with_result(&self, mut task: TaskView) -> Result<TaskView, Fault> {
        if let Some(result) = task.result.take() {
            let result = results::read(&self.ctx, task.id, result, &self.reading).await?;
            task.result = Some(result);
        }
        Ok(task)
    }

    /// Reads the content of a task, if it has one.
    pub(in crate::flow) async fn with_content(
        &self,
        mut task: TaskView,
    ) -> Result<TaskView, Fault> {
        task.content = match &task.spec.body {
            Body::Inline(content) => Some(content.clone()),
            Body::Apart { bytes } => {
                // Many requests may come at once. The memory of an answer is counted when it is made, right after this.
                let _room = self.reading.take(2 * bytes).await;
                content::read(&self.ctx, task.id).await?
            }
        };
        Ok(task)
    }
}

/// Tells whether a task's row gives its state. The row of a task that is never claimed only tells that it was
/// cancelled, or that a cancel came too late.
pub(in crate::flow) fn is_told_by(row: &TaskRow) -> bool {
    row.detail.spec.target.is_tracked() || row.state == State::Cancelled
}

/// A terminal task is shown for as long as it asked to be, a dead one at least thirty days. One that was deleted is not shown.
pub(in crate::flow) fn is_hidden(row: &TaskRow, now: Millis) -> bool {
    let is_past = |end: Millis| now > end.after(dead_letter::kept(row));
    row.detail.erased || row.ended_at().is_some_and(is_past)
}
