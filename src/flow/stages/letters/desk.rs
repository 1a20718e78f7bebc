//! The desk lists, counts, redrives and deletes dead tasks for the people who look after them.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt, stream};

use super::walk::{self, Found, Groups, Wanted};
use crate::{
    flow::{
        base::{
            api::{Fault, RescheduleOutcome, TaskView},
            context::Context,
            read::find::{is_hidden, view_of_row},
            rows::stored,
            tables::letters::Spot,
        },
        features::letter::filing,
        life::{
            door::{By, settle_debts},
            erase::{Erased, Eraser, Of},
            reschedule::Rescheduler,
        },
    },
    limits::{DRY_RUN_SAMPLE, REDRIVES_IN_FLIGHT_MAX},
    model::{
        dead_letter,
        ids::TaskId,
        state::{State, TaskRow},
    },
    store,
};

/// The answer to the redrive of one task: whether it was dead, and the task after the call; none when there is no such task.
pub type Redriven = Result<Option<(bool, TaskView)>, Fault>;

/// A letter of a list with its task; none when its row cannot be read.
#[derive(Debug)]
pub struct Listed {
    /// The letter.
    pub letter: Found,
    /// The task.
    pub task: Option<TaskView>,
    /// Whether the row may be read later: the store did not answer.
    pub is_away: bool,
}

/// A page of letters.
#[derive(Debug, Default)]
pub struct Page {
    /// The letters, newest first.
    pub letters: Vec<Listed>,
    /// Where there may be more; none at the end.
    pub next: Option<Spot>,
}

/// The effect that a redrive would have.
#[derive(Debug, Default)]
pub struct Preview {
    /// So many tasks are dead.
    pub tasks: u64,
    /// The first of them.
    pub sample: Vec<TaskView>,
}

/// The desk.
#[derive(Debug, Clone)]
pub struct Desk {
    ctx: Arc<Context>,
    rescheduler: Rescheduler,
    eraser: Eraser,
}

impl Desk {
    /// Works through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        rescheduler: Rescheduler,
        eraser: Eraser,
    ) -> Self {
        Self {
            eraser,
            ctx,
            rescheduler,
        }
    }

    /// Lists dead tasks, newest first: one page, and where the next one begins.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(
        &self,
        wanted: &Wanted,
        behind: Option<Spot>,
        letters_max: usize,
    ) -> Result<Page, Fault> {
        let walked = walk::walk(&self.ctx, wanted, behind, letters_max).await?;
        let ids: Vec<TaskId> = walked.letters.iter().map(|letter| letter.id).collect();
        let rows = stored::rows_each(&self.ctx, &ids).await;
        let mut page = Page {
            letters: Vec::with_capacity(ids.len()),
            next: walked.next,
        };
        for ((letter, id), row) in walked.letters.into_iter().zip(ids).zip(rows) {
            page.letters.extend(self.listed(id, letter, row).await);
        }
        Ok(page)
    }

    /// Returns a letter with its task, if that is dead. A letter whose death is over is removed.
    async fn listed(
        &self,
        id: TaskId,
        letter: Found,
        row: Result<Option<TaskRow>, store::Error>,
    ) -> Option<Listed> {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                tracing::debug!(task = %id, %error, "the row of a dead letter cannot be read");
                let is_away = matches!(error, store::Error::Unavailable { .. });
                return Some(Listed {
                    letter,
                    task: None,
                    is_away,
                });
            }
        };
        if dead_letter::is_spent(letter.stamp, row.as_ref()) {
            self.remove(id, &letter, row.as_ref()).await;
            return None;
        }
        let now = self.ctx.now();
        let row = row.filter(|row| row.state == State::Dead && !is_hidden(row, now))?;
        let task = Some(view_of_row(row, None, now));
        Some(Listed {
            letter,
            task,
            is_away: false,
        })
    }

    /// Removes a letter whose death is over, and repeats what may have been left undone with it.
    async fn remove(&self, id: TaskId, letter: &Found, row: Option<&TaskRow>) {
        let removed = match row {
            Some(row) if row.state.is_terminal() => settle_debts(&self.ctx, row, By::Again).await,
            Some(_) | None => Ok(()),
        };
        let removed = match removed {
            Ok(()) => filing::remove(&self.ctx, id, &letter.callback, letter.stamp).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = removed {
            tracing::debug!(task = %id, %fault, "a letter was left to the next reader");
        }
    }

    /// Counts the dead tasks of a filter by callback and error.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn groups(&self, wanted: &Wanted) -> Result<Groups, Fault> {
        walk::count(&self.ctx, wanted).await
    }

    /// Makes dead tasks run again, at once; one answer per id, in order.
    pub async fn redrive(&self, ids: &[TaskId]) -> Vec<Redriven> {
        stream::iter(ids.to_vec())
            .map(|id| async move {
                let answer = self.rescheduler.redrive(id).await?;
                Ok(answer.map(|(outcome, view)| (outcome == RescheduleOutcome::Rescheduled, view)))
            })
            .buffered(REDRIVES_IN_FLIGHT_MAX)
            .collect()
            .await
    }

    /// Tells what the redrive of these ids would do.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn preview(&self, ids: &[TaskId]) -> Result<Preview, Fault> {
        let now = self.ctx.now();
        let mut dead: BTreeMap<TaskId, TaskView> = BTreeMap::new();
        for row in stored::rows_each(&self.ctx, ids).await {
            let row = row?.filter(|row| row.state == State::Dead && !is_hidden(row, now));
            dead.extend(row.map(|row| (row.id, view_of_row(row, None, now))));
        }
        Ok(Preview {
            tasks: dead.len() as u64,
            sample: dead.into_values().take(DRY_RUN_SAMPLE).collect(),
        })
    }

    /// Deletes a dead task.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub async fn delete(&self, id: TaskId) -> Result<Erased, Fault> {
        self.eraser.erase(id, Of::Dead).await
    }
}
