//! The rescheduler lets tasks of trees go on after their end, for the retry of the failed part of a tree.
//!
//! A run that begins again is a redrive of a task that was not only dead: its entry is written first, then its row. A tree that
//! goes on needs a look ahead, which is written before the row and waits for it ([`crate::model::restart`]). So a crash in
//! between leaves a task that has ended.

use std::time::Duration;

use super::{
    door::{Applied, Basis, undo},
    put::Put,
    reschedule::Rescheduler,
    restart_kind::{RestartKind, Wanted},
};
use crate::{
    flow::{
        base::{
            api::{Fault, RescheduleOutcome},
            entries::near_record::near_record,
            rows::stored,
            tables::trees,
        },
        features::letter::filing,
    },
    limits,
    model::{
        again::{self, Seen, Standing},
        dispatch::Dispatch,
        ids::TaskId,
        kin::Again,
        owed::{Ends, Forgetting},
        state::{self, Event, TaskRow},
        time::Millis,
    },
    schema::Opened,
    store::Freshness,
};

impl Rescheduler {
    /// Runs a task again in this round, if its own run is one of those that may. False when it has begun the round, or cannot
    /// run.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(in crate::flow) async fn run_again(
        &self,
        row: &TaskRow,
        opened: Opened,
    ) -> Result<bool, Fault> {
        let (id, spec) = (row.id, &row.detail.spec);
        let mut row = Some(row.clone());
        for _ in 0..limits::RACES_MAX {
            let wanted = Wanted::Again(self.ctx.now(), opened);
            match self.move_tracked(id, row, spec, wanted).await? {
                Some((outcome, _)) => return Ok(outcome == RescheduleOutcome::Rescheduled),
                None => row = stored::row(&self.ctx, id).await?,
            }
        }
        Err(Fault::Unavailable {
            reason: format!("task {id} is being changed by many at once"),
            retry_after: Duration::from_secs(1),
        })
    }

    /// Lets a task wait for the own run of its parent once more, in this round. False when it does not apply.
    ///
    /// # Errors
    /// As of [`Self::run_again`].
    pub(in crate::flow) async fn wait_again(
        &self,
        row: &TaskRow,
        round: u32,
    ) -> Result<bool, Fault> {
        let Some(told) = self.prepare(row).await? else {
            return Ok(false);
        };
        self.begin(row, round, Again::Wait, Some(told)).await
    }

    /// Lets the row of a parent say that its tree goes on in this round. False when it says so already, or cannot.
    ///
    /// # Errors
    /// As of [`Self::run_again`].
    pub(in crate::flow) async fn tree_again(
        &self,
        row: &TaskRow,
        round: u32,
    ) -> Result<bool, Fault> {
        let told = self.door.forget(Forgetting::Tree, row).await?;
        let spec = &row.detail.spec;
        // The end of its tree gave its labels and its content an end of life. A content that is gone stays so.
        undo(&self.ctx, row.id, spec).await?;
        let dispatch = Dispatch {
            id: row.id,
            generation: row.generation + 1,
            expected_attempt: row.attempt,
            start: self.ctx.now(),
        };
        let opened = self.watermarks.closing(row.id.wheel());
        let look = near_record(&self.ctx, dispatch, spec, opened);
        let mut put = look.clone();
        for placed in self.entry_writer.place(vec![look]).await {
            put = placed?;
        }
        let begun = self.begin(row, round, Again::Tree, Some(told)).await?;
        if begun {
            // The look may have come up before the row said anything to it.
            self.look_again(dispatch, &Put::Near(put)).await?;
        }
        Ok(begun)
    }

    /// Lets a root, whose tree has ended and is to go on again, take its key back. False when the key names another live task.
    ///
    /// # Errors
    /// As of [`Self::run_again`].
    pub(in crate::flow) async fn takes_key(&self, root: &TaskRow) -> Result<bool, Fault> {
        let (id, spec) = (root.id, &root.detail.spec);
        let keys = &self.keys;
        keys.take_back(id, spec, root.generation + 1, self.ctx.now())
            .await
    }

    /// Finishes what a task has taken its key back for, so that the task is live: a dead one runs, and a tree goes on.
    ///
    /// # Errors
    /// As of [`Self::run_again`].
    pub(super) async fn finish_redrive(&self, id: TaskId) -> Result<(), Fault> {
        let there = trees::read(&self.ctx, id, Freshness::Serial).await?;
        let row = stored::row(&self.ctx, id).await?;
        let Some(row) = row.filter(|row| row.detail.spec.kin.is_some()) else {
            return self.run(id, None).await.map(drop);
        };
        let round = match again::standing(there.tree, there.round, Some(Seen::of(&row))) {
            Standing::Ended(round) => {
                trees::begin(&self.ctx, id, &there, round).await?;
                round
            }
            Standing::Follow => there.round,
            Standing::Open | Standing::Closing | Standing::ReadAgain | Standing::Gone => {
                return Ok(());
            }
        };
        self.tree_again(&row, round).await?;
        // Its check ends it once more, or completes the call that was about to let it go on.
        self.ctx.pokes.add(id, self.ctx.time.moment());
        Ok(())
    }

    /// Lets a task take a round in which nothing of it goes on, and end it. False when it has begun the round.
    ///
    /// # Errors
    /// As of [`Self::run_again`].
    pub(in crate::flow) async fn leave_out(
        &self,
        row: &TaskRow,
        round: u32,
    ) -> Result<bool, Fault> {
        self.begin(row, round, Again::Nothing, None).await
    }

    async fn begin(
        &self,
        row: &TaskRow,
        round: u32,
        what: Again,
        told: Option<Ends>,
    ) -> Result<bool, Fault> {
        let (id, spec) = (row.id, &row.detail.spec);
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            state::next(id, row, spec, Event::Again { round, what }, now, nonce)
        };
        let basis = Basis::guessed(Some(row.clone())).told(told);
        match self.door.apply(id, basis, decide).await? {
            Applied::To(owing) => {
                owing.pay(&self.ctx).await.1?;
                Ok(true)
            }
            Applied::Refused(..) => Ok(false),
        }
    }

    /// Makes an ended task ready to run again: its content lives on, the letter of the death before its last one, which its row
    /// is about to forget, is surely gone, and its end is told. None where its content is gone.
    async fn prepare(&self, row: &TaskRow) -> Result<Option<Ends>, Fault> {
        let told = self.door.forget(Forgetting::Run, row).await?;
        let has_content = undo(&self.ctx, row.id, &row.detail.spec).await?;
        Ok(has_content.then_some(told))
    }

    /// Prepares a task that begins again from its end, and returns the ends that were told. None where its content is gone.
    pub(super) async fn prepared(
        &self,
        row: Option<&TaskRow>,
        way: RestartKind,
    ) -> Result<Option<Option<Ends>>, Fault> {
        match row.filter(|_| way.is_from_end()) {
            None => Ok(Some(None)),
            Some(ended) => Ok(self.prepare(ended).await?.map(Some)),
        }
    }

    /// Removes the letter of a task that was dead. One that stays is removed by the look.
    pub(super) async fn withdraw_letter(&self, way: RestartKind, row: &TaskRow) {
        if way.is_from_end()
            && let Err(fault) = filing::withdraw(&self.ctx, row).await
        {
            tracing::debug!(task = %row.id, %fault, "its letter was left to the look");
        }
    }
}
