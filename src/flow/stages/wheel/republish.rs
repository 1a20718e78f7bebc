//! The republisher publishes tasks for their looks.
//!
//! The successor of a look is written behind it, and says that the task was published. A look whose publication the queue does
//! not acknowledge is not done: its stage tries it again, in its place. When the publication fails for another reason, the
//! successor comes soon and does not say that the task was published.

use std::sync::Arc;

use super::held_back::is_first;
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{api::Fault, context::Context, entries::entry_writer::EntryWriter},
        life::{
            look_entries::look_soon,
            send::Sender,
            sending::{Sending, Unsent},
        },
    },
    limits,
    model::{
        decision::Decision,
        dispatch::Dispatch,
        entry::{Entry, Kind},
        state::TaskRow,
        undelivered::{self, Action, Stage},
    },
};

/// How the publication for a look went.
#[derive(Debug)]
pub(super) enum Sent {
    /// The look asks for none.
    NotAsked,
    /// The task went out, or something else stands for it.
    Out,
    /// It did not, and this look comes to it soon.
    Later(Box<Entry>),
    /// It did not, and the look waits in its place.
    Waits(Fault),
}

/// The stage that publishes tasks for their looks.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Republisher {
    ctx: Arc<Context>,
    entry_writer: EntryWriter,
    sender: Sender,
}

impl Republisher {
    /// Publishes through the sender.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        entry_writer: EntryWriter,
        sender: Sender,
    ) -> Self {
        Self {
            ctx,
            entry_writer,
            sender,
        }
    }

    /// Publishes what the looks ask for. Returns for each look, in order, how that went.
    pub(super) async fn publish(
        &self,
        looks: &[&Entry],
        decisions: &[Decision],
        rows: &[Option<TaskRow>],
    ) -> Vec<Sent> {
        let mut all: Vec<Sent> = looks.iter().map(|_| Sent::NotAsked).collect();
        let in_order = looks.iter().zip(decisions).zip(rows).enumerate();
        let wanted = in_order.filter_map(|(index, ((look, decision), row))| {
            let Decision::Publish(publish) = decision else {
                return None;
            };
            let sending = Sending {
                dispatch: Dispatch::asked(look.key.id, publish),
                spec: Arc::clone(&look.spec),
                first: is_first(look, row.as_ref()),
                opened: None,
            };
            Some((index, sending))
        });
        let (indices, sendings): (Vec<usize>, Vec<Sending>) = wanted.unzip();
        if sendings.is_empty() {
            return all;
        }
        let sent = self.sender.send(&sendings).await;
        // A gate that was closed since the decision.
        let in_order = sendings.iter().zip(&sent);
        let gated = in_order.filter_map(|(sending, sent)| match sent {
            Err(unsent @ Unsent::Gated(_)) => Some((sending.clone(), unsent.clone())),
            _ => None,
        });
        self.sender.hold(gated.collect()).await;
        for ((index, sending), sent) in indices.into_iter().zip(&sendings).zip(sent) {
            if let (Some(look), Some(place)) = (looks.get(index), all.get_mut(index)) {
                *place =
                    sent.map_or_else(|unsent| self.unsent(look, sending, &unsent), |()| Sent::Out);
            }
        }
        all
    }

    fn unsent(&self, look: &Entry, sending: &Sending, unsent: &Unsent) -> Sent {
        let Kind::Look { published, .. } = look.kind else {
            return Sent::NotAsked;
        };
        if flaw::is(Flaw::UnsentTakenForSent) {
            return Sent::Out;
        }
        match undelivered::action(unsent.reason(), Stage::Look, sending.spec.target.class()) {
            Action::RetryHere => Sent::Waits(Fault::Unavailable {
                reason: format!("task {} did not go out: {unsent}", look.key.id),
                retry_after: limits::STEP_PAUSE,
            }),
            Action::LookSoon => Sent::Later(Box::new(look_soon(&self.ctx, sending, published))),
            // Its successor stands for it.
            Action::LeaveToLook | Action::FurtherOn | Action::Hold | Action::SetAside => Sent::Out,
        }
    }

    /// Puts looks at tasks whose publication has failed. When that fails, too, the looks that they have
    /// anyway remain.
    pub(super) async fn come_back(&self, looks: Vec<Entry>) {
        if looks.is_empty() || flaw::is(Flaw::UnsentTakenForSent) {
            return;
        }
        let count = looks.len();
        let placed = self.entry_writer.place(looks).await;
        let failed = placed.iter().filter(|placed| placed.is_err()).count();
        tracing::debug!(count, failed, "publications have failed: looks come soon");
    }
}
