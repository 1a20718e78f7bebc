//! The door: the one way in which the row of a task changes.
//!
//! A change is decided purely ([`crate::model::state`]), written on the condition of the row that it replaces, and decided again
//! after a lost race. Its debts follow from the two rows alone ([`crate::model::owed`]):
//!
//! - Before a row forgets an end, the debts of that end that no later row can pay are paid ([`Door::forget`], else by the change
//!   itself). So a crash, or a race, forgets no end that was not told.
//! - Behind the row its own debts are paid ([`Owing`]). A caller gets the row by paying, and can do something in between.
//! - A look repeats what a row owes ([`settle_debts`]), until one has paid all.

mod attempt_span;
mod debts;
mod end_note;
mod writer;

use std::{sync::Arc, time::Duration};

use uuid::Uuid;

pub(in crate::flow) use self::debts::{By, keep_redriven, settle_debts, undo};
use self::writer::RowWriter;
use crate::{
    flaw::{self, Flaw},
    flow::base::{api::Fault, context::Context, rows::stored},
    limits,
    model::{
        ids::TaskId,
        owed::{self, Ends, Forgetting, Owes},
        state::{self, Event, Refusal, TaskRow, Transition},
        task::Spec,
        time::Millis,
    },
    store::{Freshness, Swapped},
};

/// The row that a change starts from, as its caller knows it.
#[derive(Debug)]
pub(in crate::flow) struct Basis {
    row: Option<TaskRow>,
    is_read: bool,
    told: Option<Ends>,
}

impl Basis {
    /// The row as it was read for this change; none where there was none.
    pub(in crate::flow) const fn read(row: Option<TaskRow>) -> Self {
        Self::read_if(true, row)
    }

    /// The row as it may have been: a refusal is decided on anew with the row that is read then.
    pub(in crate::flow) const fn guessed(row: Option<TaskRow>) -> Self {
        Self::read_if(false, row)
    }

    /// The row as it was read for this change, or else may have been.
    pub(in crate::flow) const fn read_if(is_read: bool, row: Option<TaskRow>) -> Self {
        let told = None;
        Self { row, is_read, told }
    }

    /// The debts of these ends were paid by [`Door::forget`].
    pub(in crate::flow) fn told(self, told: Option<Ends>) -> Self {
        Self { told, ..self }
    }
}

/// The outcome of a change.
#[derive(Debug)]
pub(in crate::flow) enum Applied {
    /// The row is now this.
    To(Owing),
    /// The event does not apply to the row as it was read last.
    Refused(Refusal, Option<Box<TaskRow>>),
}

/// A row that was written, with what it owes. The row is given for the payment.
#[must_use = "debts that are not paid wait for a look, which may be far"]
#[derive(Debug)]
pub(in crate::flow) struct Owing {
    row: Box<TaskRow>,
    owes: Owes,
}

impl Owing {
    /// An end that was written before, and whose writer may have died before it had paid.
    pub(in crate::flow) const fn found(row: Box<TaskRow>) -> Self {
        let owes = Owes::End;
        Self { row, owes }
    }

    /// Returns the row.
    pub(in crate::flow) fn row(&self) -> &TaskRow {
        &self.row
    }

    /// Pays. An error says that something was left to the look of the task.
    pub(in crate::flow) async fn pay(self, ctx: &Context) -> (Box<TaskRow>, Result<(), Fault>) {
        let paid = match self.owes {
            Owes::Nothing => Ok(()),
            // Rare, or large: apart, so that other changes are as small as they can be.
            Owes::FirstClaim => Box::pin(debts::tell_claim(ctx, &self.row)).await,
            Owes::End => Box::pin(settle_debts(ctx, &self.row, By::First)).await,
        };
        (self.row, paid)
    }

    /// Pays. A failure is left to the look of the task.
    pub(in crate::flow) async fn pay_or_leave(self, ctx: &Context) -> Box<TaskRow> {
        let (row, paid) = self.pay(ctx).await;
        if let Err(fault) = paid {
            tracing::debug!(task = %row.id, %fault, "its debts were left to the look");
        }
        row
    }
}

/// The door. Cheap to clone; clones share their writes.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Door {
    ctx: Arc<Context>,
    writer: RowWriter,
}

impl Door {
    /// Writes through this store. A node has one, so that its writes share the rounds of the store.
    #[must_use]
    pub(in crate::flow) fn new(ctx: Arc<Context>) -> Self {
        let writer = RowWriter::new(Arc::clone(&ctx));
        Self { ctx, writer }
    }

    /// Applies the transition that `decide` makes of the row. It starts from the row as the caller knows it, and ends when the
    /// write is applied or `decide` refuses a row that was just read.
    ///
    /// # Errors
    /// [`Fault::Unknown`] when it cannot be found out whether a write was applied, [`Fault::Unavailable`] when it was not, and
    /// what the debts of an end say that the row would forget.
    pub(in crate::flow) async fn apply(
        &self,
        id: TaskId,
        basis: Basis,
        decide: impl Fn(Option<&TaskRow>, Millis, Uuid) -> Result<Transition, Refusal> + Send,
    ) -> Result<Applied, Fault> {
        let Basis {
            mut row,
            mut is_read,
            mut told,
        } = basis;
        for _ in 0..limits::RACES_MAX {
            let decided = decide(row.as_ref(), self.ctx.now(), self.ctx.time.random_uuid());
            let transition = match decided {
                Ok(transition) => transition,
                Err(refusal) if is_read => return Ok(Applied::Refused(refusal, row.map(Box::new))),
                Err(_) => {
                    row = self.read(id, Freshness::Quorum).await?;
                    is_read = true;
                    continue;
                }
            };
            if let Some(row) = &row
                && let Some(forgetting) = owed::forgets(row, &transition.row)
                && told != Some(Ends::of(row))
            {
                // Of a row that was guessed, or of one that came in between.
                told = Some(Box::pin(self.forget(forgetting, row)).await?);
            }
            match self.writer.swap(&transition).await? {
                Swapped::Applied => return Ok(applied(row.as_ref(), transition)),
                // The write that won may be decided and not yet learned by a quorum: a lesser read could show
                // the same old row for ever.
                Swapped::Conflict(_) => row = self.read(id, Freshness::Serial).await?,
                Swapped::Unknown if flaw::is(Flaw::UnknownMoveTakenForApplied) => {
                    return Ok(applied(row.as_ref(), transition));
                }
                Swapped::Unknown => {
                    let before = std::mem::replace(&mut row, self.settle_unknown(id).await?);
                    if row
                        .as_ref()
                        .is_some_and(|row| row.nonce == transition.row.nonce)
                    {
                        return Ok(applied(before.as_ref(), transition));
                    }
                }
            }
            is_read = true;
        }
        Err(Fault::Unavailable {
            reason: format!("task {id} is being changed by many at once"),
            retry_after: Duration::from_secs(1),
        })
    }

    /// Lets a task wait: for the own run of its parent, or for other tasks. One that has a row is left as it is. False where a
    /// race keeps that from being seen.
    ///
    /// # Errors
    /// As of [`Self::apply`].
    pub(in crate::flow) async fn wait(&self, id: TaskId, spec: &Arc<Spec>) -> Result<bool, Fault> {
        let decide = |row: Option<&TaskRow>, now, nonce| {
            state::next(id, row, spec, Event::Await, now, nonce)
        };
        let applied = self.apply(id, Basis::guessed(None), decide).await?;
        Ok(!matches!(applied, Applied::Refused(_, None)))
    }

    /// Pays the debts of the ends of a row that a change is about to make it forget, as far as no later row can pay them.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub(in crate::flow) async fn forget(
        &self,
        forgetting: Forgetting,
        row: &TaskRow,
    ) -> Result<Ends, Fault> {
        debts::before(&self.ctx, forgetting, row).await?;
        Ok(Ends::of(row))
    }

    async fn read(&self, id: TaskId, freshness: Freshness) -> Result<Option<TaskRow>, Fault> {
        Ok(stored::one(&self.ctx, id, freshness).await?)
    }

    /// After an unknown outcome only a serial read says what the row is: it settles what is still in flight.
    async fn settle_unknown(&self, id: TaskId) -> Result<Option<TaskRow>, Fault> {
        let settled = self.read(id, Freshness::Serial).await;
        settled.map_err(|fault| Fault::Unknown {
            reason: format!("task {id}: {fault}"),
        })
    }
}

/// Notes for operators what a transition has ended, an attempt or the task, and returns what it owes.
fn applied(before: Option<&TaskRow>, transition: Transition) -> Applied {
    let row = transition.row;
    attempt_span::note(before, &row);
    end_note::note(before, &row);
    let owes = owed::of_change(before, &row);
    let row = Box::new(row);
    Applied::To(Owing { row, owes })
}
