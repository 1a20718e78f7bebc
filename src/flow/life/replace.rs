//! The replacement stage puts for clients a new task in the place of the live task that has its key.
//!
//! The row of the old task decides, by one conditional write: it ends the task, or tells its attempt to stop, and names the
//! new one. From there on the old task cannot start (again), and the new one is promised. Then the record of the key
//! names the new task, then its entry is written, then the old entry is marked. A crash in between is repaired by the
//! next request for the key, or by the first look of the old task: the mark comes last, since it ends the looks.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{
    cancel::Canceller,
    door::{Applied, Basis, Door},
    enter::unanswered,
    incoming::Incoming,
    register::Registrar,
};
use crate::{
    flow::{
        base::{
            api::{Fault, TaskView},
            rows::{
                run_to_completion::{caller_waits, run_to_completion},
                stored,
            },
        },
        features::key::keys::Keys,
    },
    model::{
        key::Holder,
        record::Name,
        state::{self, Event, Refusal, State, TaskRow},
        time::Millis,
    },
};

/// The outcome of a replacement.
#[derive(Debug)]
pub(super) enum Replaced {
    /// The new task has its place.
    By(Box<TaskView>),
    /// The old one has ended, or was replaced by another: the key is to be read again.
    ReadAgain,
    /// The old one may have children, so it stays.
    HasTree,
}

/// The replacer of tasks.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Replacer {
    door: Door,
    keys: Keys,
    registrar: Registrar,
    canceller: Canceller,
}

impl Replacer {
    /// Replaces through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        door: Door,
        keys: Keys,
        registrar: Registrar,
        canceller: Canceller,
    ) -> Self {
        Self {
            door,
            keys,
            registrar,
            canceller,
        }
    }

    /// Replaces a task. Once the row of the old task promises the new one, it runs to its end even if its caller is cancelled.
    /// Before that it stops then.
    ///
    /// # Errors
    /// When it may have been replaced. A repetition finishes that, and replaces once more.
    pub(super) async fn replace(
        &self,
        old: &Holder,
        name: &Name,
        new: Incoming,
    ) -> Result<Replaced, Fault> {
        let (replacer, old, name) = (self.clone(), old.clone(), name.clone());
        run_to_completion(async move { replacer.replace_all(&old, &name, new).await }).await?
    }

    async fn replace_all(
        &self,
        old: &Holder,
        name: &Name,
        new: Incoming,
    ) -> Result<Replaced, Fault> {
        let next = Arc::new(Holder {
            id: new.id,
            generation: 0,
            spec: Arc::clone(&new.spec),
        });
        let first = AtomicBool::new(false);
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            let is_new = row.is_none_or(|row| row.state == State::New);
            first.store(is_new, Ordering::Relaxed);
            if caller_waits().is_err() {
                return Err(Refusal::Stale);
            }
            let next = Arc::clone(&next);
            state::next(old.id, row, &old.spec, Event::Replace { next }, now, nonce)
        };
        let row = stored::row(&self.registrar.ctx, old.id).await?;
        let applied = self.door.apply(old.id, Basis::read(row), decide).await?;
        let replaced = match applied {
            Applied::To(owing) => Some(owing),
            // A user told its attempt to stop, so it never starts again: nothing is left to decide by its row.
            Applied::Refused(Refusal::Running, Some(row)) if row.detail.next.is_none() => {
                caller_waits()?;
                None
            }
            Applied::Refused(Refusal::HasTree, _) => return Ok(Replaced::HasTree),
            // Its own run is over, and its tree is not.
            Applied::Refused(_, Some(row))
                if row.detail.spec.is_parent() && row.state.is_terminal() && !row.has_ended() =>
            {
                return Ok(Replaced::HasTree);
            }
            Applied::Refused(..) => return Ok(Replaced::ReadAgain),
        };
        let named = self.keys.advance(name, old.id, &next).await?;
        if replaced.is_none() && !named {
            // Of several that replace it without its row, the record has let one.
            return Ok(Replaced::ReadAgain);
        }
        let entered = self.registrar.enter(vec![new]).await.pop();
        let view = entered.unwrap_or_else(|| Err(unanswered()))?;
        if let Some(owing) = replaced {
            let first = first.load(Ordering::Relaxed);
            self.canceller.replaced(owing, first).await;
        }
        Ok(Replaced::By(Box::new(view)))
    }
}
