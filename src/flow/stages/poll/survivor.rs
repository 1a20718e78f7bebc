//! The survivor takes the members of dead nodes out of the groups of the queue, so that messages do not wait for the end of a
//! session.
//!
//! It begins as soon as a node falls silent, before the node is taken for dead. All survivors ask the queue for it, which knows
//! who has members where, and so who acts. A list that is wrong costs few rebalances: the queue fences the member, which joins
//! anew. A node that has left is looked for as well, in case that it did not get to leave its groups.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::{
    flaw::{self, Flaw},
    flow::{
        base::context::Context,
        stages::cluster::members::{Gone, Members},
    },
    limits::{TAKE_OUT_EVERY, TAKE_OUT_FOR},
    model::ids::NodeId,
    queue::Subscriptions,
    time_source::Moment,
};

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
        let mut changes = self.members.silences();
        let mut next: BTreeMap<NodeId, Moment> = BTreeMap::new();
        loop {
            let due = self.due(&mut next);
            let step = async {
                let asked = due.iter().map(|dead| self.subscriptions.take_out(*dead));
                for outcome in join_all(asked).await {
                    if let Err(error) = outcome {
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
                () = self.ctx.time.sleep(TAKE_OUT_EVERY), if waits => {}
            }
        }
    }

    /// Returns the nodes whose members are to be looked for now. `next` has those that died lately, and when to look again.
    fn due(&self, next: &mut BTreeMap<NodeId, Moment>) -> Vec<NodeId> {
        let (view, now) = (self.members.view(), self.ctx.time.moment());
        let lately = |gone: &&Gone| now.since(gone.seen) < TAKE_OUT_FOR;
        let died: Vec<&Gone> = view.silent().filter(lately).collect();
        next.retain(|node, _| died.iter().any(|gone| gone.node == *node));
        let mut due = Vec::new();
        if flaw::is(Flaw::MembersLeftToSession) {
            return due;
        }
        for gone in died {
            let at = next.entry(gone.node).or_insert(now);
            if now >= *at {
                *at = now.after(TAKE_OUT_EVERY);
                due.push(gone.node);
            }
        }
        due
    }
}
