//! The republisher publishes tasks for their looks, and tries those again that the queue has not acknowledged.
//!
//! The successor of a look is durable before this stage gets its task, and it says that the task was published. When
//! the publication fails, another look is put, which does not say so. It comes half a step later at the earliest, so
//! the task is also tried from memory for some seconds, as far as there is room for such tasks. When the look cannot be put,
//! the task is left to the successor. A look that comes behind a try that went out may publish the task once more: the claim
//! of the copy is refused.

use std::sync::Arc;

use super::{
    held_back::is_first,
    look_entries::look_soon,
    near::Near,
    send::{Sender, Sending, Unsent},
};
use crate::{
    flaw::{self, Flaw},
    flow::{api::Fault, context::Context, entries::entry_writer::Placer},
    model::{
        decision::Decision,
        dispatch::Dispatch,
        entry::{Entry, Kind},
        state::TaskRow,
        undelivered::{self, Action, Stage},
    },
};

/// The stage that publishes tasks for their looks.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Republisher {
    ctx: Arc<Context>,
    placer: Placer,
    sender: Sender,
    near: Near,
}

impl Republisher {
    /// Publishes through the sender, and tries again in the memory of near tasks.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        placer: Placer,
        sender: Sender,
        near: Near,
    ) -> Self {
        Self {
            ctx,
            placer,
            sender,
            near,
        }
    }

    /// Publishes what the looks ask for, where the successor is durable.
    pub(super) async fn publish(
        &self,
        looks: &[&Entry],
        decisions: &[Decision],
        results: &[Result<(), Fault>],
        rows: &[Option<TaskRow>],
    ) {
        let in_order = looks.iter().zip(decisions).zip(results).zip(rows);
        let wanted = in_order.filter_map(|(((look, decision), result), row)| {
            let (Decision::Publish(publish), Ok(())) = (decision, result) else {
                return None;
            };
            let sending = Sending {
                dispatch: Dispatch::asked(look.key.id, publish),
                spec: Arc::clone(&look.spec),
                first: is_first(look, row.as_ref()),
            };
            Some((*look, sending))
        });
        let (looks, sendings): (Vec<&Entry>, Vec<Sending>) = wanted.unzip();
        if sendings.is_empty() {
            return;
        }
        let sent = self.sender.send(&sendings).await;
        // A gate that was closed since the decision.
        let in_order = sendings.iter().zip(&sent);
        let gated = in_order.filter_map(|(sending, sent)| match sent {
            Err(unsent @ Unsent::Gated(_)) => Some((sending.clone(), unsent.clone())),
            _ => None,
        });
        self.sender.hold(gated.collect()).await;
        let (mut soon, mut again) = (Vec::new(), Vec::new());
        for ((look, sending), sent) in looks.iter().zip(sendings).zip(sent) {
            let (Kind::Look { published }, Err(unsent)) = (look.kind, sent) else {
                continue;
            };
            match undelivered::action(unsent.reason(), Stage::Look, sending.spec.target.class()) {
                Action::LookSoon => soon.push(look_soon(&self.ctx, &sending, published)),
                Action::LookSoonAndRetry => {
                    let look = look_soon(&self.ctx, &sending, published);
                    again.push((sending, look.key.due));
                    soon.push(look);
                }
                // The successor of the look is durable: whatever else is asked for, nothing is lost.
                Action::LeaveToLook
                | Action::RetryHere
                | Action::FurtherOn
                | Action::Hold
                | Action::SetAside => {}
            }
        }
        self.come_back(soon).await;
        self.near.try_until_looks(again);
    }

    /// Puts looks at tasks whose publication has failed. When that fails, too, the looks that they have
    /// anyway remain.
    pub(super) async fn come_back(&self, looks: Vec<Entry>) {
        if looks.is_empty() || flaw::is(Flaw::UnsentTakenForSent) {
            return;
        }
        let count = looks.len();
        let placed = self.placer.place(looks).await;
        let failed = placed.iter().filter(|placed| placed.is_err()).count();
        tracing::debug!(count, failed, "publications have failed: looks come soon");
    }
}
