//! The erase stage deletes tasks that have ended for people: what the client gave and what the callback returned is gone after
//! that.
//!
//! The row is written first and stays as a tombstone, so that no entry or message of the task can bring it back. Then the
//! content that is kept apart goes, and the letter last. A crash in between leaves a letter, and the reader that meets it
//! repeats the steps behind the row. So does a repeated call.

use std::sync::Arc;

use super::door::{Applied, Basis, By, Door, settle_debts};
use crate::{
    flow::base::{
        api::{Fault, TaskView},
        context::Context,
        read::find::{is_hidden, view_of_row},
        rows::{run_to_completion::run_to_completion, stored},
    },
    model::{
        ids::TaskId,
        owed::Forgetting,
        state::{self, Event, Refusal, State, TaskRow},
    },
};

/// The outcome of a deletion.
#[derive(Debug)]
pub enum Erased {
    /// It is deleted.
    Done,
    /// It is not one that was to be deleted.
    Left(Box<TaskView>),
    /// There is no such task, or none that can be read.
    Unknown,
}

/// The tasks that may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) enum Of {
    /// A dead one.
    Dead,
    /// One that has ended, in this generation: one that was redriven since has another.
    Ended {
        /// The generation.
        generation: u32,
    },
}

impl Of {
    fn has(self, row: &TaskRow) -> bool {
        match self {
            Self::Dead => row.state == State::Dead,
            Self::Ended { generation } => row.has_ended() && row.generation == generation,
        }
    }
}

/// The eraser.
#[derive(Debug, Clone)]
pub struct Eraser {
    ctx: Arc<Context>,
    door: Door,
}

impl Eraser {
    /// Erases through these.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>, door: Door) -> Self {
        Self { ctx, door }
    }

    /// Deletes a task, if it is one of these. It runs to its end even if its caller is cancelled, so that no content is left.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(in crate::flow) async fn erase(&self, id: TaskId, of: Of) -> Result<Erased, Fault> {
        let eraser = self.clone();
        run_to_completion(async move { eraser.erase_all(id, of).await }).await?
    }

    async fn erase_all(&self, id: TaskId, of: Of) -> Result<Erased, Fault> {
        let Some(row) = stored::row(&self.ctx, id).await? else {
            return Ok(Erased::Unknown);
        };
        if row.detail.erased {
            settle_debts(&self.ctx, &row, By::First).await?;
            return Ok(Erased::Unknown);
        }
        if is_hidden(&row, self.ctx.now()) {
            return Ok(Erased::Unknown);
        }
        if !of.has(&row) {
            return Ok(self.left(row));
        }
        // Its tombstone tells no end: the end is told first, in case the stage that ended it died before.
        let told = self.door.forget(Forgetting::All, &row).await?;
        let spec = Arc::clone(&row.detail.spec);
        let decide = |row: Option<&TaskRow>, now, nonce| {
            // It may have been redriven meanwhile, and have ended well.
            if !row.is_some_and(|row| of.has(row)) {
                return Err(Refusal::Stale);
            }
            state::next(id, row, &spec, Event::Erase, now, nonce)
        };
        let basis = Basis::read(Some(row)).told(Some(told));
        match self.door.apply(id, basis, decide).await? {
            Applied::To(owing) => {
                owing.pay(&self.ctx).await.1?;
                Ok(Erased::Done)
            }
            Applied::Refused(_, Some(row)) if !row.detail.erased => Ok(self.left(*row)),
            Applied::Refused(..) => Ok(Erased::Unknown),
        }
    }

    fn left(&self, row: TaskRow) -> Erased {
        Erased::Left(Box::new(view_of_row(row, None, self.ctx.now())))
    }
}
