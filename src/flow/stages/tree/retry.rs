//! The retrier runs the failed part of a tree again for clients: its tasks that failed, died or expired, and the children that
//! were cancelled because the own run of their parent did not succeed. It also reopens one task that has succeeded.
//!
//! It walks down from the task of the request, parents before their children, within a bound. The rows of the children are opened
//! by pages, then the tree of their parent and all above (`reopen`), then the children begin. So a crash leaves nothing
//! half done that checks do not complete, and the same request goes on: what runs again is passed over. Tasks that fail anew
//! while a walk of several requests goes on are left alone, by the time before which tasks must have ended.

use std::{collections::VecDeque, sync::Arc};

use futures_util::future::try_join_all;

use super::reopen::{Begun, Opener};
use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        documents,
        read::find::{Finder, is_hidden},
        rows::stored,
        tables::trees::{self, Cursor},
    },
    limits::{
        CHILDREN_PAGE, FAMILY_RACES_MAX, RETRIES_IN_FLIGHT_MAX, TREE_LEVELS_OPENED_MAX,
        TREE_RETRIES_MAX,
    },
    model::{
        again,
        family::{Outcome, TreeOutcome},
        ids::TaskId,
        kin::Runs,
        reopen::{NotReopened, reopens},
        row::{State, TaskRow},
        task::Spec,
        time::Millis,
    },
    schema::{ChildRow, Opened},
};

/// Why no part of a tree runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRetried {
    /// The task is in no tree.
    NoTree,
    /// It, or something below it, goes on.
    GoesOn,
    /// It has ended, and nothing of it failed.
    NothingFailed,
    /// It, or a tree that it is in, was cancelled as a whole.
    Cancelled,
    /// Another live task has the key of the root of its tree.
    KeyTaken,
}

/// The part of a tree that runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeRetried {
    /// Tasks that run again, or wait for their parents again.
    pub retried: u64,
    /// Tasks that failed and cannot run again: they, or a task above them, are not kept any more, or they waited for others in
    /// vain.
    pub left: u64,
    /// More is left: the next request is to name this time, before which a task must have ended.
    pub next: Option<Millis>,
}

/// A walk of one request.
struct Walk {
    /// Tasks that ended before this run again.
    before: Millis,
    /// How many tasks may still run again.
    room: usize,
    /// Parents whose children are to be looked at.
    open: VecDeque<TaskId>,
    done: TreeRetried,
    is_whole: bool,
    ended: Ended,
    /// Nothing runs again, since another task has the key of the root.
    is_key_taken: bool,
}

/// The root of a tree that has ended, until it has taken its key back.
struct Ended(Option<TaskRow>);

impl Walk {
    fn note(&mut self, begun: Begun) {
        match begun {
            Begun::Run => self.done.retried += 1,
            Begun::Left => self.done.left += 1,
            Begun::Before => return,
        }
        self.room = self.room.saturating_sub(1);
    }

    /// Tells whether the own run of a task failed in time for this walk.
    fn failed(&self, row: &TaskRow) -> bool {
        let in_time = row.detail.end_time.is_some_and(|end| end < self.before);
        again::can_run(row) && in_time
    }
}

/// The retrier. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Retrier {
    ctx: Arc<Context>,
    finder: Finder,
    opener: Opener,
}

impl Retrier {
    /// Retries through these.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>, finder: Finder, opener: Opener) -> Self {
        Self {
            ctx,
            finder,
            opener,
        }
    }

    /// Runs the failed part of the tree of a task again; none when there is no such task. Tasks that end at `before` or later are
    /// left alone. A tree that goes on in a later round is walked, too.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub async fn retry(
        &self,
        root: TaskId,
        before: Option<Millis>,
    ) -> Result<Option<Result<TreeRetried, NotRetried>>, Fault> {
        let Some(view) = self.finder.listed(root).await? else {
            return Ok(None);
        };
        if view.spec.kin.is_none() {
            return Ok(Some(Err(NotRetried::NoTree)));
        }
        let now = self.ctx.now();
        let Some(ended) = self.ended_root(root, &view.spec).await? else {
            return Ok(Some(Err(NotRetried::Cancelled)));
        };
        let row = stored::row(&self.ctx, root).await?;
        let row = match row.as_ref().map(|row| (row, why_not(row, before))) {
            None => return Ok(Some(Err(NotRetried::GoesOn))),
            Some((_, Some(why))) => return Ok(Some(Err(why))),
            Some((row, None)) => row,
        };
        let mut walk = Walk {
            before: before.unwrap_or(Millis(i64::MAX)),
            room: TREE_RETRIES_MAX,
            open: VecDeque::new(),
            done: TreeRetried::default(),
            is_whole: true,
            ended,
            is_key_taken: false,
        };
        if walk.failed(row) {
            self.begin(row, &mut walk).await?;
        }
        if row.detail.spec.is_parent() {
            walk.open.push_back(root);
        }
        while let Some(parent) = walk.open.pop_front() {
            self.below(parent, &mut walk).await?;
            if !walk.is_whole {
                break;
            }
        }
        if walk.is_key_taken {
            return Ok(Some(Err(NotRetried::KeyTaken)));
        }
        walk.done.next = (!walk.is_whole).then_some(before.unwrap_or(now));
        Ok(Some(Ok(walk.done)))
    }

    /// Lets a task of a tree that has succeeded begin a new round; none when there is no such task. With an attempt, or the name
    /// of a worker, only if its last attempt is this one, or that worker's.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub async fn reopen(
        &self,
        id: TaskId,
        attempt: Option<u32>,
        worker: Option<&str>,
    ) -> Result<Option<Result<(), NotReopened>>, Fault> {
        let Some(view) = self.finder.listed(id).await? else {
            return Ok(None);
        };
        for _ in 0..FAMILY_RACES_MAX {
            let row = stored::row(&self.ctx, id).await?;
            match reopens(row.as_ref(), attempt, worker) {
                Ok(true) => {}
                Ok(false) => return Ok(Some(Ok(()))),
                Err(why) => return Ok(Some(Err(why))),
            }
            let Some(mut ended) = self.ended_root(id, &view.spec).await? else {
                return Ok(Some(Err(NotReopened::Cancelled)));
            };
            if !self.has_key(&mut ended).await? {
                return Ok(Some(Err(NotReopened::KeyTaken)));
            }
            match self.opener.again(id, Runs::Succeeded, attempt).await? {
                Begun::Run => return Ok(Some(Ok(()))),
                Begun::Left => return Ok(Some(Err(NotReopened::Gone))),
                // Another request was first: its row says how the task stands.
                Begun::Before => {}
            }
        }
        Err(documents::raced(format_args!("the tree of {id}")))
    }

    /// Looks at a task and those above it. None when one of them was cancelled with all below. Else the root, if its tree has
    /// ended: it is to take its key back before anything is written.
    async fn ended_root(&self, task: TaskId, spec: &Arc<Spec>) -> Result<Option<Ended>, Fault> {
        let (mut at, mut spec) = (task, Arc::clone(spec));
        for _ in 0..=TREE_LEVELS_OPENED_MAX {
            let row = stored::row(&self.ctx, at).await?;
            let has_ended_so = row.as_ref().is_some_and(again::is_cancelled);
            if has_ended_so || (spec.is_parent() && trees::is_cancelled(&self.ctx, at).await?) {
                return Ok(None);
            }
            let Some(above) = spec.parent() else {
                return Ok(Some(Ended(row.filter(TaskRow::has_ended))));
            };
            // A parent that is gone says nothing, and what is below it cannot run again.
            let Some(view) = self.finder.listed(above).await? else {
                return Ok(Some(Ended(None)));
            };
            (at, spec) = (above, view.spec);
        }
        Ok(Some(Ended(None)))
    }

    /// Lets the root of the tree take its key back, if it is to and has one. False when another live task has the key.
    async fn has_key(&self, root: &mut Ended) -> Result<bool, Fault> {
        match root.0.take() {
            Some(root) => self.opener.takes_key(&root).await,
            None => Ok(true),
        }
    }

    /// Runs again what failed among the children of a parent, and notes those below which something may have failed. A part that
    /// was cancelled is left alone.
    async fn below(&self, parent: TaskId, walk: &mut Walk) -> Result<(), Fault> {
        if trees::is_cancelled(&self.ctx, parent).await? {
            return Ok(());
        }
        let row = stored::row(&self.ctx, parent).await?;
        // Then its children that were left with it run once it has succeeded.
        let runs = row.is_none_or(|row| !row.state.is_terminal() || row.state == State::Succeeded);
        let mut from = Some(Cursor::default());
        while let Some(at) = from {
            if walk.room == 0 {
                walk.is_whole = false;
                return Ok(());
            }
            let page = trees::page(&self.ctx, parent, &at, CHILDREN_PAGE).await?;
            let is_wanted = |row: &ChildRow| match row {
                // It may have got its first child since: its own row says so.
                ChildRow::Added { .. } => true,
                ChildRow::Ended { outcome, .. } => match outcome.tree {
                    TreeOutcome::Faulted => true,
                    TreeOutcome::Completed => runs && outcome.state == State::Cancelled,
                    TreeOutcome::Cancelled => false,
                },
            };
            let wanted = page.rows.into_iter().filter(|(_, row)| is_wanted(row));
            let wanted: Vec<(TaskId, ChildRow)> = wanted.collect();
            self.some(parent, wanted, runs, walk).await?;
            from = page.next;
        }
        Ok(())
    }

    async fn some(
        &self,
        parent: TaskId,
        children: Vec<(TaskId, ChildRow)>,
        runs: bool,
        walk: &mut Walk,
    ) -> Result<(), Fault> {
        let ids: Vec<TaskId> = children.iter().map(|(id, _)| *id).collect();
        let rows = stored::rows_each(&self.ctx, &ids).await;
        let mut leaves = Vec::new();
        for ((id, child), row) in children.into_iter().zip(rows) {
            let Some(row) = row? else {
                match child {
                    ChildRow::Added { spec, .. } if spec.is_parent() => walk.open.push_back(id),
                    ChildRow::Added { .. } => {}
                    ChildRow::Ended { outcome, .. } => {
                        walk.done.left += u64::from(outcome.faults());
                    }
                }
                continue;
            };
            let (is_open, opened) = match child {
                ChildRow::Added { opened, .. } => (true, opened),
                ChildRow::Ended { .. } => (false, Opened::default()),
            };
            let is_parent = row.detail.spec.is_parent();
            if is_open && opened.round == 0 && !is_parent {
                continue;
            }
            let waits = runs && again::can_wait(&row);
            if is_parent {
                walk.open.push_back(id);
            }
            if opened.round > row.detail.rounds.round && row.has_ended() {
                // A call before has opened its row, and died.
                leaves.push((row, opened));
            } else if !walk.failed(&row) && !waits {
                let is_told = row.detail.end_time.is_some_and(|end| end < walk.before);
                walk.done.left += u64::from(is_told && is_left(&row));
            } else if is_hidden(&row, self.ctx.now()) {
                walk.done.left += 1;
            } else if is_parent {
                self.parent_again(&row, walk).await?;
            } else {
                let round = row.detail.rounds.round.saturating_add(1);
                let run = Runs::Failed;
                leaves.push((row, Opened { round, run }));
            }
        }
        self.leaves(parent, leaves, walk).await
    }

    /// Lets a parent begin another round, if there is room for it.
    async fn parent_again(&self, row: &TaskRow, walk: &mut Walk) -> Result<(), Fault> {
        if walk.room == 0 {
            walk.is_whole = false;
            return Ok(());
        }
        self.begin(row, walk).await
    }

    /// Lets the tree of a walk go on, before its first write. False when another task has the key of the root: the walk is over.
    async fn goes_on(&self, walk: &mut Walk) -> Result<bool, Fault> {
        if !walk.is_key_taken && !self.has_key(&mut walk.ended).await? {
            walk.is_key_taken = true;
            walk.is_whole = false;
        }
        Ok(!walk.is_key_taken)
    }

    /// Lets a task begin another round. The rows of the children that wait for it are opened first, so its tree does not end
    /// without them if the call dies in between.
    async fn begin(&self, row: &TaskRow, walk: &mut Walk) -> Result<(), Fault> {
        if !self.goes_on(walk).await? {
            return Ok(());
        }
        if row.detail.spec.is_parent() {
            self.mark_waiting(row.id).await?;
        }
        walk.note(self.opener.again(row.id, Runs::Failed, None).await?);
        Ok(())
    }

    /// Opens the rows of the children that were left with a parent, and of those that were left with these.
    async fn mark_waiting(&self, parent: TaskId) -> Result<(), Fault> {
        let mut parents = vec![parent];
        while let Some(parent) = parents.pop() {
            let mut from = Some(Cursor::default());
            while let Some(at) = from {
                let page = trees::page(&self.ctx, parent, &at, CHILDREN_PAGE).await?;
                let is_left = |row: &ChildRow| match row {
                    ChildRow::Added { .. } => false,
                    ChildRow::Ended { outcome, .. } => {
                        let is_whole = outcome.tree == TreeOutcome::Cancelled;
                        outcome.state == State::Cancelled && !is_whole
                    }
                };
                let left = page.rows.iter().filter(|(_, row)| is_left(row));
                let ids: Vec<TaskId> = left.map(|(id, _)| *id).collect();
                let mut waiting = Vec::new();
                for row in stored::rows_each(&self.ctx, &ids).await {
                    let Some(row) = row?.filter(again::can_wait) else {
                        continue;
                    };
                    parents.extend(row.detail.spec.is_parent().then_some(row.id));
                    let round = row.detail.rounds.round.saturating_add(1);
                    let run = Runs::Failed;
                    waiting.push((row, Opened { round, run }));
                }
                self.opener.mark(parent, &waiting).await?;
                from = page.next;
            }
        }
        Ok(())
    }

    /// Lets children begin the rounds that their rows are opened for: all rows first, then the trees above.
    async fn leaves(
        &self,
        parent: TaskId,
        mut leaves: Vec<(TaskRow, Opened)>,
        walk: &mut Walk,
    ) -> Result<(), Fault> {
        if leaves.len() > walk.room {
            leaves.truncate(walk.room);
            walk.is_whole = false;
        }
        if leaves.is_empty() || !self.goes_on(walk).await? {
            return Ok(());
        }
        self.opener.mark(parent, &leaves).await?;
        if !self.opener.open(parent).await? {
            walk.done.left += leaves.len() as u64;
            return Ok(());
        }
        for some in leaves.chunks(RETRIES_IN_FLIGHT_MAX) {
            let begins = some
                .iter()
                .map(|(row, opened)| self.opener.begin(row, *opened));
            for begun in try_join_all(begins).await? {
                walk.note(begun);
            }
        }
        Ok(())
    }
}

/// Tells why nothing of the tree of a task may run again; none when it may.
fn why_not(row: &TaskRow, before: Option<Millis>) -> Option<NotRetried> {
    let goes_on = !row.has_ended();
    let is_later = row.detail.rounds.round > 0 && row.detail.spec.is_parent();
    let has_failed = Outcome::of(row).is_none_or(|outcome| outcome.faults());
    if goes_on && !is_later {
        Some(NotRetried::GoesOn)
    } else if !has_failed && before.is_none() {
        Some(NotRetried::NothingFailed)
    } else {
        None
    }
}

/// Tells whether the end of a task faults its tree, and the task cannot run again.
const fn is_left(row: &TaskRow) -> bool {
    matches!(row.state, State::Failed | State::Dead | State::Expired)
}
