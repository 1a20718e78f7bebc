//! The completer checks for a node whether the trees of parents have ended, when children of them have.
//!
//! A check sweeps over the rows of the children, from where the one before stopped, up to the first child that goes on. If there
//! is none, it closes the record, reads all rows once more, and ends the tree or opens it again. Any number of checks may run at
//! once, on any nodes ([`crate::model::family`]). The memory of the completer is a hint: a node that dies leaves the trees to
//! the looks of their parents.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{cancel::TreeCanceller, release::Releaser, reopen::Opener};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{
            api::Fault,
            context::Context,
            documents, panics,
            rows::stored,
            tables::trees::{self, Cursor, Read, Written},
        },
        features::ends::follow_ups,
        life::{
            door::{Applied, Basis, By, Door, Owing, settle_debts},
            incoming::Incoming,
            register::Registrar,
            unfinished::Finisher,
        },
    },
    limits::{
        CHILDREN_PAGE, FAMILIES_IN_FLIGHT_MAX, FAMILY_CURSORS_MAX, FAMILY_KEPT, FAMILY_PAUSE_TIMES,
        FAMILY_RACES_MAX, FAMILY_RETRY_PAUSE, FAMILY_TRIES_MAX, TREE_CANCELS_MAX,
    },
    model::{
        dead_letter,
        family::{self, ADD_OPEN, Check, Tree},
        holder::Holder,
        ids::TaskId,
        look,
        row::TaskRow,
        state::{self, Event, State},
        task::Spec,
        time::Millis,
    },
    schema::{ChildRow, Opened},
    store::Freshness,
    time_source::Moment,
};

/// The memory about a parent.
#[derive(Debug, Clone)]
struct Tended {
    /// All rows before this have ended.
    cursor: Cursor,
    /// Of a tree that is cancelled: the children from here on are to be told next.
    untold: Option<Cursor>,
    /// The next check is not to come before.
    not_before: Moment,
}

/// A child that has not ended.
#[derive(Debug)]
struct Open {
    id: TaskId,
    spec: Box<Spec>,
    added: Millis,
    opened: Opened,
    /// The place before its row.
    before: Cursor,
}

/// The result of a reading of all rows.
#[derive(Debug)]
enum Rows {
    /// All have ended; one of them may have faulted.
    Ended { faulted: bool },
    /// This one goes on.
    Open(Box<Open>),
}

/// The completer of a node. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct TreeCompleter {
    ctx: Arc<Context>,
    door: Door,
    finisher: Finisher,
    registrar: Registrar,
    releaser: Releaser,
    opener: Opener,
    tree_canceller: TreeCanceller,
    tended: Arc<Mutex<HashMap<TaskId, Tended>>>,
}

impl TreeCompleter {
    /// Checks by these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        door: Door,
        finisher: Finisher,
        registrar: Registrar,
        releaser: Releaser,
        (opener, tree_canceller): (Opener, TreeCanceller),
    ) -> Self {
        Self {
            ctx,
            door,
            finisher,
            registrar,
            releaser,
            opener,
            tree_canceller,
            tended: Arc::default(),
        }
    }

    /// Checks what is on the list until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let mut checks = JoinSet::new();
        while !stop.is_cancelled() {
            let room = FAMILIES_IN_FLIGHT_MAX.saturating_sub(checks.len());
            for (parent, tries) in self.ctx.pokes.take(self.ctx.time.moment(), room) {
                let tender = self.clone();
                checks.spawn(async move { tender.tend(parent, tries).await });
            }
            let next = self.ctx.pokes.next().filter(|_| room > 0);
            let until = self.ctx.time.sleep_until_next(next);
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(_) = checks.join_next() => {}
                () = self.ctx.pokes.added(), if room > 0 => {}
                () = until => {}
            }
        }
    }

    /// Checks one parent; what fails is repeated, then left to the look of the parent.
    async fn tend(&self, parent: TaskId, tries: u32) {
        let began = self.ctx.time.moment();
        let wait = self.memory().get(&parent).map(|known| known.not_before);
        if let Some(at) = wait.filter(|at| *at > began) {
            self.ctx.pokes.at(parent, at, tries);
            return;
        }
        let checked = panics::caught("tree", self.check(parent)).await;
        let now = self.ctx.time.moment();
        if let Some(known) = self.memory().get_mut(&parent) {
            known.not_before = now.after(now.since(began) * FAMILY_PAUSE_TIMES);
        }
        if let Err(fault) = checked {
            tracing::debug!(task = %parent, %fault, "its tree could not be checked");
            if tries < FAMILY_TRIES_MAX {
                let at = now.after(FAMILY_RETRY_PAUSE);
                self.ctx.pokes.at(parent, at, tries + 1);
            }
        }
    }

    async fn check(&self, parent: TaskId) -> Result<(), Fault> {
        let row = stored::row(&self.ctx, parent).await?;
        if row.as_ref().is_none_or(|row| !row.state.is_terminal()) {
            return self.goes_on(parent).await;
        }
        let Some(row) = row.filter(TaskRow::waits_for_children) else {
            self.memory().remove(&parent);
            return Ok(());
        };
        // A poke by a child may come before the end steps of the own run.
        follow_ups::join(&self.ctx, &row).await?;
        let there = trees::read_of(&self.ctx, &row).await?;
        if let Some(at) = there.cancelled.filter(|_| !there.tree.has_ended()) {
            if !self.fell(parent).await? {
                return Ok(());
            }
            follow_ups::join_cancelled(&self.ctx, &row, at).await?;
        }
        self.releaser.all(&row).await?;
        self.go_on(row, there).await
    }

    /// Brings a tree as far towards its end as its record and its rows allow.
    async fn go_on(&self, row: TaskRow, mut there: Read) -> Result<(), Fault> {
        let (parent, is_cancelled) = (row.id, there.cancelled.is_some());
        for _ in 0..FAMILY_RACES_MAX {
            if there.round != row.detail.rounds.round {
                return self.other_round(parent, there.tree).await;
            }
            if there.cancelled.is_some() && !is_cancelled {
                // The steps of a cancel come before the end.
                self.ctx.pokes.add(parent, self.ctx.time.moment());
                return Ok(());
            }
            let written = match family::check(there.tree, true) {
                Check::Stop => return Ok(()),
                Check::EndSteps => return self.end(row, &there).await,
                Check::Sweep => match self.sweep(parent).await? {
                    Rows::Open(open) => return self.stop_at(parent, *open).await,
                    Rows::Ended { .. } if self.is_held(&row, &there) => return Ok(()),
                    Rows::Ended { faulted } if flaw::is(Flaw::TreeNotClosed) => {
                        let end = family::end(row.state, faulted, there.cancelled.is_some());
                        trees::write(&self.ctx, parent, &there, end, None).await?
                    }
                    Rows::Ended { .. } => {
                        trees::write(&self.ctx, parent, &there, Tree::Closing, None).await?
                    }
                },
                Check::Read => match self.read_from(parent, Cursor::default()).await? {
                    Rows::Open(open) => {
                        let written =
                            trees::write(&self.ctx, parent, &there, Tree::Open, None).await?;
                        if matches!(written, Written::Done(_)) {
                            self.remember(parent, open.before.clone());
                            return self.stop_at(parent, *open).await;
                        }
                        written
                    }
                    Rows::Ended { faulted } => {
                        let end = family::end(row.state, faulted, there.cancelled.is_some());
                        let expires = Some(self.expires(&row));
                        trees::write(&self.ctx, parent, &there, end, expires).await?
                    }
                },
            };
            there = match written {
                Written::Done(now) => now,
                Written::Lost => trees::read(&self.ctx, parent, Freshness::Serial).await?,
            };
        }
        Err(documents::raced(format_args!("the tree of {parent}")))
    }

    /// Tells whether a tree in which all has ended is held open for children to come. It is checked again when their time has
    /// passed: looks come by until shortly before.
    fn is_held(&self, row: &TaskRow, there: &Read) -> bool {
        let until = family::held_until(row, there.complete, there.cancelled.is_some());
        let left = until.map_or(Duration::ZERO, |until| until.since(self.ctx.now()));
        if !left.is_zero() && left <= look::INTERVAL_MAX * 2 {
            let at = self.ctx.time.moment().after(left);
            self.ctx.pokes.at(row.id, at, 0);
        }
        !left.is_zero()
    }

    /// Sees to a parent whose own run goes on: if its tree was cancelled, that and its children are told, also where the call
    /// that cancelled it has died.
    async fn goes_on(&self, parent: TaskId) -> Result<(), Fault> {
        if !trees::is_cancelled(&self.ctx, parent).await? {
            self.memory().remove(&parent);
            return Ok(());
        }
        self.tree_canceller.own_run(parent).await?;
        self.fell(parent).await.map(drop)
    }

    /// Cancels what is below a parent whose tree is cancelled, within a bound. False when more is left for the next check, which
    /// was asked for.
    async fn fell(&self, parent: TaskId) -> Result<bool, Fault> {
        let known = self.memory().get(&parent).cloned();
        let known = known.map(|known| known.untold.unwrap_or(known.cursor));
        let (mut from, mut left) = (known.unwrap_or_default(), TREE_CANCELS_MAX);
        loop {
            let told = self.tree_canceller.children(parent, &from, left).await?;
            left -= told.open.min(left);
            for below in told.marked {
                self.ctx.pokes.add(below, self.ctx.time.moment());
            }
            let is_over = told.next.is_none();
            if is_over || left == 0 {
                self.note_untold(parent, told.next);
                if !is_over {
                    self.ctx.pokes.add(parent, self.ctx.time.moment());
                }
                return Ok(is_over);
            }
            from = told.next.unwrap_or_default();
        }
    }

    /// Leaves a tree alone whose record and row are of different rounds: its own run may go on again by now. A call that opened
    /// the record and died is completed; that asks for another check.
    async fn other_round(&self, parent: TaskId, tree: Tree) -> Result<(), Fault> {
        if tree.has_ended() {
            // The row was read before it began another round.
            self.ctx.pokes.add(parent, self.ctx.time.moment());
            return Ok(());
        }
        self.opener.open(parent).await.map(drop)
    }

    /// Returns from when on nobody asks for the children of a tree that ends now.
    fn expires(&self, row: &TaskRow) -> Millis {
        let kept = dead_letter::kept(row).max(state::TERMINAL_TTL_MIN);
        self.ctx.now().after(kept).after(FAMILY_KEPT)
    }

    /// Reads from where the check before stopped.
    async fn sweep(&self, parent: TaskId) -> Result<Rows, Fault> {
        let known = self.memory().get(&parent).map(|known| known.cursor.clone());
        let found = self.read_from(parent, known.unwrap_or_default()).await?;
        if let Rows::Open(open) = &found {
            self.remember(parent, open.before.clone());
        }
        Ok(found)
    }

    /// Reads rows up to the first child that goes on.
    async fn read_from(&self, parent: TaskId, from: Cursor) -> Result<Rows, Fault> {
        let (mut from, mut faulted) = (from, false);
        loop {
            let page = trees::page(&self.ctx, parent, &from, CHILDREN_PAGE).await?;
            let mut before = from.clone();
            for (id, row) in page.rows {
                match row {
                    ChildRow::Ended { outcome, .. } => faulted |= outcome.faults(),
                    ChildRow::Added { spec, at, opened } => {
                        return Ok(Rows::Open(Box::new(Open {
                            id,
                            spec,
                            added: at,
                            opened,
                            before,
                        })));
                    }
                }
                before.after = Some(id);
            }
            match page.next {
                Some(next) => from = next,
                None => return Ok(Rows::Ended { faulted }),
            }
        }
    }

    /// Stops a check at a child that goes on. One that nothing stands for, as its add died, is entered.
    async fn stop_at(&self, parent: TaskId, open: Open) -> Result<(), Fault> {
        let age = self.ctx.now().since(open.added);
        if age < ADD_OPEN {
            let at = self.ctx.time.moment().after(ADD_OPEN.saturating_sub(age));
            self.ctx.pokes.at(parent, at, 0);
            return Ok(());
        }
        match stored::row(&self.ctx, open.id).await? {
            Some(row) if row.has_ended() && row.detail.rounds.round < open.opened.round => {
                return self.opener.complete(parent, &row, open.opened).await;
            }
            // Its end steps failed, and were left to a look that may be far.
            Some(row) if row.has_ended() => return settle_debts(&self.ctx, &row, By::First).await,
            Some(row) if row.waits_for_parent() => {
                return self.release(parent, open.id, &row.detail.spec).await;
            }
            // It was cancelled while it waited, and had no look then.
            Some(row) if row.state == State::Cancelled && row.detail.spec.is_after_parent() => {
                self.ctx.pokes.add(row.id, self.ctx.time.moment());
                return Ok(());
            }
            Some(_) => return Ok(()),
            // It would be taken for a new one.
            None if open.opened.round > 0 => {
                return self.opener.close(parent, open.id, open.opened.round).await;
            }
            None if self.finisher.finish(&[open.id], open.added).await? > 0 => return Ok(()),
            None => {}
        }
        // The add may have been refused meanwhile.
        let there = trees::read(&self.ctx, parent, Freshness::Serial).await?;
        if there.tree != Tree::Open {
            self.ctx.pokes.add(parent, self.ctx.time.moment());
            return Ok(());
        }
        if open.spec.is_after_parent() {
            let spec = Arc::new(*open.spec);
            return self.release(parent, open.id, &spec).await;
        }
        tracing::debug!(task = %open.id, %parent, "a child whose add was not finished is entered");
        let child = Holder {
            id: open.id,
            generation: 0,
            spec: Arc::new(*open.spec),
        };
        let entered = self
            .registrar
            .entrance()
            .enter(vec![Incoming::of_holder(child)]);
        entered
            .await
            .into_iter()
            .try_for_each(|entered| entered.map(drop))
    }

    /// Releases a child that waits for the own run of its parent, if that does not go on again.
    async fn release(&self, parent: TaskId, child: TaskId, spec: &Arc<Spec>) -> Result<(), Fault> {
        match self.releaser.over(parent).await? {
            Some(above) => {
                let children = [(child, Arc::clone(spec))];
                self.releaser.some(&above, &children).await
            }
            None => Ok(()),
        }
    }

    /// Does the end steps of a tree: its rows get an end of life, and the row of the parent says how it ended.
    async fn end(&self, row: TaskRow, there: &Read) -> Result<(), Fault> {
        let parent = row.id;
        self.memory().remove(&parent);
        self.let_go(parent, self.expires(&row)).await?;
        let Some(outcome) = there.tree.outcome() else {
            return Ok(());
        };
        let round = row.detail.rounds.round;
        let spec = Arc::clone(&row.detail.spec);
        let is_cancelled = there.cancelled.is_some();
        let time_passed = family::held_until(&row, there.complete, is_cancelled).is_some();
        let decide = |row: Option<&TaskRow>, now, nonce| {
            let event = Event::TreeEnded {
                outcome,
                time_passed,
                round,
            };
            state::next(parent, row, &spec, event, now, nonce)
        };
        let basis = Basis::guessed(Some(row));
        let owing = match self.door.apply(parent, basis, decide).await? {
            Applied::To(owing) => {
                let how = outcome.name();
                metrics::counter!("tickwheel_trees_ended_total", "outcome" => how).increment(1);
                owing
            }
            Applied::Refused(_, Some(row)) if row.has_ended() => Owing::found(row),
            Applied::Refused(..) => return Ok(()),
        };
        // The look of the parent pays what is not paid here.
        owing.pay(&self.ctx).await.1
    }

    async fn let_go(&self, parent: TaskId, expires: Millis) -> Result<(), Fault> {
        let mut from = Cursor::default();
        loop {
            let page = trees::page(&self.ctx, parent, &from, CHILDREN_PAGE).await?;
            trees::let_go(&self.ctx, parent, &page.rows, expires).await?;
            match page.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    fn remember(&self, parent: TaskId, cursor: Cursor) {
        self.note(parent, |known| known.cursor = cursor);
    }

    fn note_untold(&self, parent: TaskId, untold: Option<Cursor>) {
        self.note(parent, |known| known.untold = untold);
    }

    fn note(&self, parent: TaskId, change: impl FnOnce(&mut Tended)) {
        let mut memory = self.memory();
        if memory.len() >= FAMILY_CURSORS_MAX && !memory.contains_key(&parent) {
            memory.clear();
        }
        let new = || Tended {
            cursor: Cursor::default(),
            untold: None,
            not_before: self.ctx.time.moment(),
        };
        change(memory.entry(parent).or_insert_with(new));
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<TaskId, Tended>> {
        self.tended.lock()
    }
}
