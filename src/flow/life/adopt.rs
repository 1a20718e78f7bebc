//! The adopter makes parents, for the admission, of tasks that were registered without children when their first child comes.
//!
//! One conditional write of the row of the task decides between its first child and its end. It comes before any row of a child,
//! so no row lies under an id that is not a parent's. A task to which nothing has happened yet has no row. Its entry is seen to
//! first: a row says to the repetition of a registration that nothing is left to do. A crash behind the write leaves a parent
//! without children, and its tree ends with its own run.

use std::sync::Arc;

use super::{
    door::{Applied, Basis, Door},
    enter::Entrance,
    existence::ExistenceCheck,
    incoming::Incoming,
};
use crate::{
    flow::base::{api::Fault, context::Context, documents, read::find::Finder, rows::stored},
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
    door: Door,
    finder: Finder,
    standing: ExistenceCheck,
    entrance: Entrance,
}

impl Adopter {
    /// Adopts through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        door: Door,
        finder: Finder,
        standing: ExistenceCheck,
        entrance: Entrance,
    ) -> Self {
        Self {
            ctx,
            door,
            finder,
            standing,
            entrance,
        }
    }

    /// Sees to it that a task may have children, and tells what its row says about its tree.
    ///
    /// # Errors
    /// It is not known, cannot have any, or has ended; or the store is away. Repeating it is safe.
    pub(super) async fn parent(&self, parent: TaskId) -> Result<Parent, Fault> {
        let row = stored::row(&self.ctx, parent).await?;
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
        match self.door.apply(parent, Basis::guessed(row), decide).await? {
            Applied::To(owing) => {
                let row = owing.pay_or_leave(&self.ctx).await;
                Ok(Parent::of(Some(&row)))
            }
            // Another add was first.
            Applied::Refused(_, Some(row)) if row.detail.spec.is_parent() => {
                Ok(Parent::of(Some(&row)))
            }
            Applied::Refused(_, Some(row)) if row.state.is_terminal() => {
                refused(Refusal::Ended(parent))
            }
            Applied::Refused(_, Some(row)) if row.detail.next.is_some() => {
                refused(Refusal::Replaced(parent))
            }
            Applied::Refused(..) => Err(documents::raced(format_args!("the tree of {parent}"))),
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
        self.entrance.enter_one(Incoming::of_holder(task)).await
    }
}

const fn refused(refusal: Refusal) -> Result<Parent, Fault> {
    Err(Fault::Family(refusal))
}
