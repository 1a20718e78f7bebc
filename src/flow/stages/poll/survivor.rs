//! The survivor takes the members of dead nodes out of the groups of the queue, so that messages do not wait for the end of a
//! session.
//!
//! The nodes take turns, since one is enough: the first one begins at once, and the others find nothing left to do. A list that
//! is wrong costs a rebalance: the queue fences the member, which joins again.

use std::{collections::BTreeMap, sync::Arc};

use tokio_util::sync::CancellationToken;

use crate::{
    flaw::{self, Flaw},
    flow::{
        base::context::Context,
        stages::cluster::members::{Gone, Members},
    },
    limits::{TAKE_OUT_EVERY, TAKE_OUT_FOR, TAKE_OUT_TURN},
    model::ids::NodeId,
    queue::Subscriptions,
    time_source::Moment,
};

/// Nodes that have a turn of their own. The others come together: not each of the first ones need have members of the groups.
const TURNS_MAX: usize = 4;

/// The stage.
#[derive(Clone)]
pub(in crate::flow) struct Survivor {
    pub(in crate::flow) ctx: Arc<Context>,
    pub(in crate::flow) members: Members,
    pub(in crate::flow) subscriptions: Arc<dyn Subscriptions>,
}

impl Survivor {
    /// Looks for members of each node that has gone, for a while, until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let mut changes = self.members.changes();
        let mut next: BTreeMap<NodeId, Moment> = BTreeMap::new();
        loop {
            let due = self.due(&mut next);
            let step = async {
                for dead in &due {
                    if let Err(error) = self.subscriptions.take_out(*dead).await {
                        tracing::debug!(%error, "cannot take members of a dead node out of groups");
                    }
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = step => {}
            }
            let waits = !next.is_empty();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = changes.changed() => {}
                () = self.ctx.time.sleep(TAKE_OUT_TURN), if waits => {}
            }
        }
    }

    /// Returns the nodes whose members are to be looked for now. `next` has those that died lately, and when to look again.
    fn due(&self, next: &mut BTreeMap<NodeId, Moment>) -> Vec<NodeId> {
        let (view, now) = (self.members.view(), self.ctx.time.moment());
        let lately = |gone: &&Gone| !gone.left && now.since(gone.seen) < TAKE_OUT_FOR;
        let died: Vec<&Gone> = view.gone().iter().filter(lately).collect();
        next.retain(|node, _| died.iter().any(|gone| gone.node == *node));
        let mut due = Vec::new();
        if flaw::is(Flaw::MembersLeftToSession) {
            return due;
        }
        for gone in died {
            let turn = view.turn_of(self.ctx.me, gone.node.0.as_u64_pair().1);
            let turn = u32::try_from(turn.min(TURNS_MAX)).unwrap_or(0);
            let first = gone.seen.after(TAKE_OUT_TURN * turn);
            let at = next.entry(gone.node).or_insert(first);
            if now >= *at {
                *at = now.after(TAKE_OUT_EVERY);
                due.push(gone.node);
            }
        }
        due
    }
}
