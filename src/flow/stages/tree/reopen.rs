//! The opener opens trees again that have ended, for the retry of their failed parts and for the checks that complete it.
//!
//! ```text
//! row of the child, for its next round -> the same for each parent above that has ended -> records and rows of these parents,
//! from the root down -> the child begins its round
//! ```
//!
//! A crash in between leaves rows that are open for a round which nothing has begun. They count as children that go on, so their
//! trees wait for them: the check of their parent lets them begin ([`crate::model::family`] has the rules). A task that cannot
//! run takes its round all the same, and ends it at once.

use std::sync::Arc;

use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            api::Fault,
            context::Context,
            documents,
            rows::stored,
            tables::trees::{self, Read, Written},
        },
        life::reschedule::Rescheduler,
    },
    limits::{FAMILY_RACES_MAX, TREE_LEVELS_OPENED_MAX},
    model::{
        again::{self, Seen, Standing},
        family::{Outcome, Tree, TreeOutcome},
        ids::TaskId,
        kin::Runs,
        row::{State, TaskRow},
    },
    schema::Opened,
    store::Freshness,
};

/// The result of a begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    /// Its own run, or its wait for it.
    Run,
    /// Its tree alone, or nothing.
    Left,
    /// It had begun this round before, or goes on.
    Before,
}

/// A parent that does not go on, with the round that it is to have.
struct Level {
    row: TaskRow,
    read: Read,
    round: u32,
    standing: Standing,
}

/// The opener. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Opener {
    ctx: Arc<Context>,
    rescheduler: Rescheduler,
}

impl Opener {
    /// Opens through these.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>, rescheduler: Rescheduler) -> Self {
        Self { ctx, rescheduler }
    }

    /// Opens the tree of a parent, and all trees above it that have ended. The row of a child is open below it by then, so it
    /// goes on until that has ended. False when a task above was deleted, is not known any more, or its
    /// tree was cancelled.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn open(&self, parent: TaskId) -> Result<bool, Fault> {
        for _ in 0..FAMILY_RACES_MAX {
            if let Some(done) = self.try_open(parent).await? {
                return Ok(done);
            }
        }
        Err(documents::raced(format_args!("the tree of {parent}")))
    }

    /// Tries once; none when somebody else was first.
    async fn try_open(&self, parent: TaskId) -> Result<Option<bool>, Fault> {
        let (mut levels, mut at) = (Vec::new(), parent);
        loop {
            let read = trees::read(&self.ctx, at, Freshness::Serial).await?;
            let row = stored::row(&self.ctx, at).await?;
            if let Some(row) = row.as_ref().filter(|row| trees::lacks_record(&read, row)) {
                trees::begin(&self.ctx, at, &read, row.detail.rounds.round).await?;
                return Ok(None);
            }
            let standing = again::standing(read.tree, read.round, row.as_ref().map(Seen::of));
            let round = match (standing, &row) {
                (Standing::Open, _) => break,
                (Standing::Closing, _) => {
                    match trees::write(&self.ctx, at, &read, Tree::Open, None).await? {
                        Written::Done(_) => break,
                        Written::Lost => return Ok(None),
                    }
                }
                (Standing::ReadAgain, _) => return Ok(None),
                (Standing::Gone, _) | (Standing::Follow | Standing::Ended(_), None) => {
                    return Ok(Some(false));
                }
                (Standing::Follow, Some(_)) => read.round,
                (Standing::Ended(round), Some(_)) => round,
            };
            let Some(row) = row else { return Ok(None) };
            let above = row.detail.spec.parent();
            if above.is_none() && !self.takes_key(&row).await? {
                // Another task got the key behind the first check of the call.
                return Ok(Some(false));
            }
            if let Some(above) = above {
                let opened = Opened {
                    round,
                    run: Runs::None,
                };
                self.mark(above, &[(row.clone(), opened)]).await?;
            }
            levels.push(Level {
                row,
                read,
                round,
                standing,
            });
            match above {
                Some(_) if levels.len() > TREE_LEVELS_OPENED_MAX => return Err(too_deep(parent)),
                Some(above) => at = above,
                None => break,
            }
        }
        self.down(levels).await
    }

    /// Opens parents whose rows are open above, the upper ones first.
    async fn down(&self, mut levels: Vec<Level>) -> Result<Option<bool>, Fault> {
        while let Some(level) = levels.pop() {
            let id = level.row.id;
            if matches!(level.standing, Standing::Ended(_)) {
                let begun = trees::begin(&self.ctx, id, &level.read, level.round).await?;
                if matches!(begun, Written::Lost) {
                    return Ok(None);
                }
            }
            if !self.rescheduler.tree_again(&level.row, level.round).await? {
                return Ok(None);
            }
            self.ctx.pokes.add(id, self.ctx.time.moment());
        }
        Ok(Some(true))
    }

    /// Opens the rows of children for their next rounds, all of them at once.
    pub(super) async fn mark(
        &self,
        parent: TaskId,
        children: &[(TaskRow, Opened)],
    ) -> Result<(), Fault> {
        if flaw::is(Flaw::RetryUnmarked) {
            return Ok(());
        }
        let row = |(child, opened): &(TaskRow, Opened)| {
            trees::opened(&self.ctx, parent, child.id, &child.detail.spec, *opened)
        };
        trees::put(&self.ctx, children.iter().map(row).collect()).await
    }

    /// Lets a root, whose tree has ended and is to go on again, take its key back. False when another live task has it.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn takes_key(&self, root: &TaskRow) -> Result<bool, Fault> {
        self.rescheduler.takes_key(root).await
    }

    /// Lets a task begin a round for which its row above is open, and below whose parent tasks may run. A root has no row.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn begin(&self, row: &TaskRow, opened: Opened) -> Result<Begun, Fault> {
        if row.detail.rounds.round >= opened.round || !row.state.is_terminal() {
            return Ok(Begun::Before);
        }
        if row.detail.spec.is_parent() && !row.detail.erased {
            let read = trees::read(&self.ctx, row.id, Freshness::Serial).await?;
            let is_root = row.detail.spec.parent().is_none();
            if is_root && row.has_ended() && !self.takes_key(row).await? {
                return Ok(Begun::Left);
            }
            if read.round < opened.round {
                let begun = trees::begin(&self.ctx, row.id, &read, opened.round).await?;
                if matches!(begun, Written::Lost) {
                    return Ok(Begun::Before);
                }
            }
        }
        if again::is_one(row, opened.run) && self.rescheduler.run_again(row, opened).await? {
            return Ok(Begun::Run);
        }
        if again::can_wait(row) && self.wait(row, opened.round).await? {
            return Ok(Begun::Run);
        }
        self.leave(row, opened.round).await
    }

    /// Lets a task wait for the own run of its parent again: its row among those that wait comes first, so the check of the
    /// parent finds it.
    async fn wait(&self, row: &TaskRow, round: u32) -> Result<bool, Fault> {
        let Some(parent) = row.detail.spec.parent() else {
            return Ok(false);
        };
        let opened = Opened {
            round,
            run: Runs::Failed,
        };
        let waiting = trees::opened(&self.ctx, parent, row.id, &row.detail.spec, opened);
        trees::put_waiting(&self.ctx, vec![waiting]).await?;
        let waits = self.rescheduler.wait_again(row, round).await?;
        // Behind its rows: the own run of the parent may have ended before these were there.
        self.ctx.pokes.add(parent, self.ctx.time.moment());
        Ok(waits)
    }

    /// Lets the tree of a task begin the round, or nothing of it.
    async fn leave(&self, row: &TaskRow, round: u32) -> Result<Begun, Fault> {
        let is_tree = row.detail.spec.is_parent() && !row.detail.erased;
        let left = if is_tree {
            self.rescheduler.tree_again(row, round).await?
        } else {
            self.rescheduler.leave_out(row, round).await?
        };
        if !left {
            return Ok(Begun::Before);
        }
        // The row above of one that was left out says so by now; a crash before is repaired by the check of its parent.
        if is_tree {
            self.ctx.pokes.add(row.id, self.ctx.time.moment());
        }
        Ok(Begun::Left)
    }

    /// Completes the retry of a child whose row is open for a round that it has not begun: the call that opened it has died. The
    /// tree of the parent may have ended before the row was opened; then nothing is done.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn complete(
        &self,
        parent: TaskId,
        child: &TaskRow,
        opened: Opened,
    ) -> Result<(), Fault> {
        let read = trees::read(&self.ctx, parent, Freshness::Serial).await?;
        if read.tree.has_ended() || !self.open(parent).await? {
            return Ok(());
        }
        tracing::debug!(task = %child.id, %parent, "a retry that was not finished goes on");
        self.begin(child, opened).await.map(drop)
    }

    /// Ends the row of a child that is open for a later round, and whose own row is gone: nothing of it can run.
    pub(super) async fn close(
        &self,
        parent: TaskId,
        child: TaskId,
        round: u32,
    ) -> Result<(), Fault> {
        let outcome = Outcome {
            state: State::Failed,
            tree: TreeOutcome::Faulted,
            at: self.ctx.now(),
        };
        trees::put_outcome(&self.ctx, parent, child, (&outcome, round)).await
    }

    /// Opens the row of a task that can run again, or its place in its tree, and lets it begin: the task, or the tree below it,
    /// is open then. Of a parent the round is one that its row has not, so no check that is under way ends its tree. With an
    /// attempt the task begins only if that is its last one.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(super) async fn again(
        &self,
        task: TaskId,
        run: Runs,
        attempt: Option<u32>,
    ) -> Result<Begun, Fault> {
        for _ in 0..FAMILY_RACES_MAX {
            let read = trees::read(&self.ctx, task, Freshness::Serial).await?;
            let Some(row) = stored::row(&self.ctx, task).await? else {
                return Ok(Begun::Left);
            };
            let waits = run == Runs::Failed && again::can_wait(&row);
            let is_ready = waits || again::is_one(&row, run);
            let is_other = attempt.is_some_and(|attempt| attempt != row.attempt);
            if !row.state.is_terminal() || !is_ready || is_other {
                return Ok(Begun::Before);
            }
            let round = again::next_round(read.tree, read.round, row.detail.rounds.round);
            let opened = Opened { round, run };
            if let Some(parent) = row.detail.spec.parent() {
                self.mark(parent, &[(row.clone(), opened)]).await?;
                if !self.open(parent).await? {
                    return Ok(Begun::Left);
                }
            }
            match self.begin(&row, opened).await? {
                Begun::Before => {}
                begun => return Ok(begun),
            }
        }
        Err(documents::raced(format_args!("the tree of {task}")))
    }
}

fn too_deep(parent: TaskId) -> Fault {
    Fault::Unavailable {
        reason: format!(
            "the tree of {parent} lies below more than {TREE_LEVELS_OPENED_MAX} levels"
        ),
        retry_after: crate::limits::RACED_RETRY_AFTER,
    }
}
