//! The adopter makes parents, for the admission, of tasks that were registered without children when their first child comes.
//!
//! One conditional write of the row of the task decides between its first child and its end. It comes before any row of a child,
//! so no row lies under an id that is not a parent's. A task to which nothing has happened yet has no row. Its entry is seen to
//! first: a row says to the repetition of a registration that nothing is left to do. A crash behind the write leaves a parent
//! without children, and its tree ends with its own run.

use std::sync::Arc;

use super::{replaced, standing::Standing};
use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        documents,
        entries::entry_writer::Placer,
        read::find::Finder,
        rows::transition::{Moved, Mover},
    },
    model::{
        family::Refusal,
        holder::Holder,
        ids::TaskId,
        row::TaskRow,
        state::{self, Event},
        task::Spec,
    },
};

/// The words of the row of a parent about its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Parent {
    /// The round of its tree.
    pub(super) round: u32,
    /// Its tree has ended in that round.
    pub(super) has_ended: bool,
}

impl Parent {
    /// Returns what a row says; none is a task to which nothing has happened.
    pub(super) fn of(row: Option<&TaskRow>) -> Self {
        row.map_or_else(Self::default, |row| Self {
            round: row.detail.rounds.round,
            has_ended: row.detail.tree.is_some(),
        })
    }
}

/// The adopter. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Adopter {
    ctx: Arc<Context>,
    mover: Mover,
    finder: Finder,
    standing: Standing,
    placer: Placer,
}

impl Adopter {
    /// Adopts through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        mover: Mover,
        finder: Finder,
        standing: Standing,
        placer: Placer,
    ) -> Self {
        Self {
            ctx,
            mover,
            finder,
            standing,
            placer,
        }
    }

    /// Sees to it that a task may have children, and tells what its row says about its tree.
    ///
    /// # Errors
    /// It is not known, cannot have any, or has ended; or the store is away. Repeating it is safe.
    pub(super) async fn parent(&self, parent: TaskId) -> Result<Parent, Fault> {
        let row = self.mover.row(parent).await?;
        let spec = match &row {
            Some(row) if row.detail.erased => return refused(Refusal::NoParent(parent)),
            Some(row) => Arc::clone(&row.detail.spec),
            None => match self.finder.registered(parent).await? {
                Some(found) => found.spec,
                None => return refused(Refusal::NoParent(parent)),
            },
        };
        if !spec.target.is_tracked() {
            return refused(Refusal::NeverEnds(parent));
        }
        if spec.is_parent() {
            return Ok(Parent::of(row.as_ref()));
        }
        self.adopt(parent, row, &spec).await
    }

    async fn adopt(
        &self,
        parent: TaskId,
        row: Option<TaskRow>,
        spec: &Arc<Spec>,
    ) -> Result<Parent, Fault> {
        if row.is_none() {
            self.see_to_its_entry(parent, spec).await?;
        }
        let decide = |row: Option<&TaskRow>, now, nonce| {
            state::next(parent, row, spec, Event::Adopt, now, nonce)
        };
        match self.mover.apply(parent, row, false, decide).await? {
            Moved::To(row) => Ok(Parent::of(Some(&row))),
            // Another add was first.
            Moved::Refused(_, Some(row)) if row.detail.spec.is_parent() => {
                Ok(Parent::of(Some(&row)))
            }
            Moved::Refused(_, Some(row)) if row.state.is_terminal() => {
                refused(Refusal::Ended(parent))
            }
            Moved::Refused(_, Some(row)) if row.detail.next.is_some() => {
                refused(Refusal::Replaced(parent))
            }
            Moved::Refused(..) => Err(documents::raced(format_args!("the tree of {parent}"))),
        }
    }

    /// Writes a task again whose registration may have died between its writes. One that stands is left as it is.
    async fn see_to_its_entry(&self, id: TaskId, spec: &Arc<Spec>) -> Result<(), Fault> {
        if self.standing.one(id).await?.is_some() {
            return Ok(());
        }
        let task = Holder {
            id,
            generation: 0,
            spec: Arc::clone(spec),
        };
        replaced::enter(&self.ctx, &self.placer, &task).await
    }
}

const fn refused(refusal: Refusal) -> Result<Parent, Fault> {
    Err(Fault::Family(refusal))
}
