//! The heir takes over for a node what dead nodes held in their memory.
//!
//! A task that is due soon is held by the node that registered it, whoever owns its wheel. When that node dies, nothing but the
//! task's look comes to it, up to a claim timeout later. The look names its node. So as soon as the list of nodes shows one
//! that has gone, the node that each wheel prefers reads the looks ahead in that wheel. It takes those tasks into its own memory
//! that have not gone out ([`crate::model::inheritance`]).
//!
//! This writes nothing. If the heir dies in between, the next one finds the same looks. A node that was only paused may send a
//! task as well: the claim refuses one of the two.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::look::{Looker, of_generation};
use crate::{
    flaw::{self, Flaw},
    flow::{
        base::{api::Fault, context::Context},
        features::limit::deadlines::Deadlines,
        life::{
            near::{Near, NearTask},
            sending::Sending,
        },
        stages::cluster::members::{Members, View},
    },
    limits,
    model::{
        decision::{Known, Publish},
        dispatch::Dispatch,
        entry::{Entry, HeldBy, Key, Kind},
        ids::NodeId,
        inheritance::{self, Inherited},
        time::{Millis, Tick},
        wheel::{Span, WheelNumber},
    },
    queue::{Probe, message},
    store::{Page, Scan},
};

/// The stage. Clones go on where one has stopped.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Heir {
    pub(in crate::flow) ctx: Arc<Context>,
    pub(in crate::flow) members: Members,
    pub(in crate::flow) looker: Looker,
    pub(in crate::flow) near: Near,
    pub(in crate::flow) deadlines: Deadlines,
    pub(in crate::flow) searched: Arc<Mutex<Searched>>,
}

/// The dead nodes whose tasks were searched for in each wheel, among those that are remembered.
#[derive(Debug, Default)]
pub(in crate::flow) struct Searched(BTreeMap<WheelNumber, BTreeSet<NodeId>>);

impl Searched {
    /// Forgets nodes that have come back, or that the list has forgotten.
    fn keep(&mut self, view: &View) {
        for nodes in self.0.values_mut() {
            nodes.retain(|node| view.gone().iter().any(|gone| gone.node == *node));
        }
    }

    fn of(&self, wheel: WheelNumber) -> BTreeSet<NodeId> {
        self.0.get(&wheel).cloned().unwrap_or_default()
    }
}

/// A search of one wheel.
struct Search<'a> {
    wheel: WheelNumber,
    view: &'a View,
    /// Those whose tasks were taken before, and are not to be taken again.
    done: BTreeSet<HeldBy>,
}

impl Search<'_> {
    /// Tells whether a look is at a task that a node held which is gone.
    fn finds(&self, look: &Entry) -> bool {
        matches!(look.kind, Kind::Look { held_by: Some(held_by), .. }
            if !self.view.lives(held_by) && !self.done.contains(&held_by))
    }

    /// Returns the last sign of life of the node that held the task of a look.
    fn died(&self, look: &Entry) -> Option<Millis> {
        let Kind::Look { held_by, .. } = look.kind else {
            return None;
        };
        let mut gone = self.view.gone().iter();
        let of = gone.find(|gone| held_by == Some(HeldBy::of(gone.node)))?;
        Some(of.died)
    }
}

impl Heir {
    /// Searches whenever nodes have gone, until `stop`.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let mut changes = self.members.changes();
        loop {
            let whole = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                whole = self.search() => whole,
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = changes.changed() => {}
                () = self.ctx.time.sleep(limits::STEP_PAUSE), if !whole => {}
            }
        }
    }

    /// Searches the wheels that prefer this node for tasks of nodes that have gone; tells whether all were searched.
    async fn search(&self) -> bool {
        let view = self.members.view();
        self.searched.lock().keep(&view);
        if view.gone().is_empty() || flaw::is(Flaw::HeldLeftToLook) {
            return true;
        }
        let mine = self.ctx.shape().all_wheels().filter_map(|wheel| {
            let searched = self.searched.lock().of(wheel);
            let all_done = view.gone().iter().all(|gone| searched.contains(&gone.node));
            let is_mine = !all_done && view.preferred(wheel) == Some(self.ctx.me);
            let done = searched.into_iter().map(HeldBy::of).collect();
            let view = &view;
            is_mine.then_some(Search { wheel, view, done })
        });
        let mine: Vec<Search<'_>> = mine.collect();
        let (tick, now) = (self.ctx.tick(), self.ctx.now());
        let [from, first, last] = [
            now,
            now.after(limits::INHERITED_FIRST),
            now.after(limits::INHERITED_AHEAD),
        ]
        .map(|at| tick.tick_of(at));
        // Nearly all looks of all wheels come before the last looks of the first one.
        let near = self.search_all(&mine, (from, first)).await;
        let far = self.search_all(&mine, (first.plus(1), last)).await;
        let mut searched = self.searched.lock();
        let mut whole = true;
        for (search, found) in mine.iter().zip(near.into_iter().zip(far)) {
            match (found.0, found.1) {
                (Ok(near), Ok(far)) => {
                    if near + far > 0 {
                        let (wheel, tasks) = (search.wheel.get(), near + far);
                        tracing::info!(wheel, tasks, "took over what a dead node held in memory");
                    }
                    let nodes = searched.0.entry(search.wheel).or_default();
                    nodes.extend(view.gone().iter().map(|gone| gone.node));
                }
                (Err(fault), _) | (_, Err(fault)) => {
                    tracing::debug!(wheel = search.wheel.get(), %fault, "cannot read looks now");
                    whole = false;
                }
            }
        }
        whole
    }

    /// Searches wheels between two ticks; one result for each, in order.
    async fn search_all(
        &self,
        all: &[Search<'_>],
        ticks: (Tick, Tick),
    ) -> Vec<Result<usize, Fault>> {
        let mut searches: Vec<BoxFuture<'_, Result<usize, Fault>>> = Vec::new();
        for search in all {
            searches.push(self.search_one(search, ticks).boxed());
        }
        stream::iter(searches)
            .buffered(limits::INHERITED_WHEELS_AT_ONCE)
            .collect()
            .await
    }

    async fn search_one(
        &self,
        search: &Search<'_>,
        (from, last): (Tick, Tick),
    ) -> Result<usize, Fault> {
        let mut taken = 0;
        for tick in (from.0..=last.0).map(Tick) {
            let mut behind = None;
            loop {
                let page = self.page(search.wheel, tick, behind).await?;
                let entries = page.rows.iter().filter_map(|row| row.entry.as_ref().ok());
                let looks: Vec<&Entry> = entries.filter(|look| search.finds(look)).collect();
                taken += self.inherit(search, &looks).await?;
                behind = page.rows.last().map(|row| row.key).or(behind);
                if !page.more {
                    break;
                }
            }
        }
        Ok(taken)
    }

    async fn page(
        &self,
        wheel: WheelNumber,
        tick: Tick,
        behind: Option<Key>,
    ) -> Result<Page, Fault> {
        let shape = self.ctx.shape();
        let Span { after, through } = shape.span_of(tick);
        let scan = Scan {
            wheel,
            slot: shape.slot_of(tick),
            span: Span { after, through },
            behind,
            rows_max: self.ctx.settings.page_rows_max,
        };
        Ok(self.ctx.store.scan_aside(&scan).await?)
    }

    /// Takes the tasks of looks into memory that have not gone out; returns how many.
    async fn inherit(&self, search: &Search<'_>, looks: &[&Entry]) -> Result<usize, Fault> {
        if looks.is_empty() {
            return Ok(0);
        }
        let now = self.ctx.now();
        let tasks: Vec<_> = looks.iter().map(|look| of_generation(look)).collect();
        let known = self.looker.known(&tasks).await?;
        let (mut taken, mut asked) = (Vec::new(), Vec::new());
        for (look, row) in looks.iter().zip(&known.rows) {
            // Its look sets a corrupt row aside, and tries other failures again.
            if known.unreadable.contains_key(&look.key.id) {
                continue;
            }
            let beat = known.heartbeats.get(&look.key.id).map(|beat| beat.at);
            let heartbeat = self.ctx.sign_of_life(beat);
            if let Some(row) = row {
                // The node that served its attempt may be the dead one.
                self.deadlines.watch(row, heartbeat);
            }
            let known = Known {
                row: row.as_ref(),
                heartbeat,
            };
            let (died, shape) = (search.died(look), self.ctx.shape());
            match inheritance::inherit(look, known, died, now, shape) {
                Inherited::Left => {}
                Inherited::Taken(publish) => taken.push((*look, publish)),
                Inherited::Asked(publish) => asked.push((*look, publish)),
            }
        }
        let mut held = 0;
        for (look, publish) in taken {
            held += usize::from(self.hold(look, publish, publish.expected_attempt == 0));
        }
        for (look, publish) in self.not_queued(asked).await {
            held += usize::from(self.hold(look, publish, false));
        }
        metrics::counter!("tickwheel_near_inherited_total").increment(held as u64);
        Ok(held)
    }

    /// Leaves out tasks whose messages certainly wait in the queue.
    async fn not_queued<'a>(&self, asked: Vec<(&'a Entry, Publish)>) -> Vec<(&'a Entry, Publish)> {
        let probes = asked.iter().filter_map(|(look, publish)| {
            let queue = look.spec.queue()?;
            Some(Probe {
                topic: message::topic(queue, look.spec.priority),
                group: message::group(queue),
                wheel: look.key.wheel(),
                since: publish.start,
            })
        });
        let probes: Vec<Probe> = probes.collect();
        if probes.is_empty() {
            return Vec::new();
        }
        let queued = self.ctx.publisher.still_queued(&probes).await;
        let both = asked.into_iter().zip(queued);
        both.filter_map(|(one, queued)| (!queued).then_some(one))
            .collect()
    }

    /// Holds a task in the memory of near tasks, if there is room. Its look stands for it.
    fn hold(&self, look: &Entry, publish: Publish, first: bool) -> bool {
        let dispatch = Dispatch::asked(look.key.id, &publish);
        let sending = Sending::new(dispatch, Arc::clone(&look.spec), first);
        self.near.hold(NearTask::with_look(sending)).is_ok()
    }
}
