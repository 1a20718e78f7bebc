//! The stock counts for metrics the tasks of each callback that are held, and those that are dead and kept.
//!
//! Both lie in the index, so a count reads rows: at most once a minute, for at most a hundredth of the time, and only when
//! somebody asks for metrics or statistics. In between the last count is shown. Counts are bounded, and lower bounds beyond
//! that. They are those of the whole cluster, whichever node tells them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    flow::{
        base::{
            api::Fault, context::Context, labels, panics, records::callbacks::Callbacks,
            tables::letters::Scope,
        },
        features::gate::gatekeeper::Gatekeeper,
        stages::letters::walk::{self, Wanted},
    },
    limits::{CALLBACKS_TOLD_MAX, DEAD_LETTERS_STOCK_MAX, STOCK_COUNTED_EVERY},
    model::gate::GateState,
    time_source::Moment,
};

/// A count takes at most one part in so many of the time.
const SHARE: u32 = 100;

/// Numbers by the label of the callback.
pub(in crate::flow) type ByCallback = BTreeMap<String, u64>;

/// A count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Tasks that gates hold.
    pub(super) held: ByCallback,
    /// Tasks that are dead and kept.
    pub(super) dead: ByCallback,
}

#[derive(Debug, Default)]
struct Last {
    counted: Option<Counted>,
    /// The next count begins at this time at the earliest; none while one goes on.
    next: Option<Moment>,
    has_begun: bool,
}

/// The stock. Cheap to clone; clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Stock {
    ctx: Arc<Context>,
    callbacks: Callbacks,
    gatekeeper: Gatekeeper,
    last: Arc<Mutex<Last>>,
}

impl Stock {
    pub(super) fn new(ctx: Arc<Context>, callbacks: Callbacks) -> Self {
        Self {
            gatekeeper: Gatekeeper::new(Arc::clone(&ctx), callbacks.clone()),
            ctx,
            callbacks,
            last: Arc::default(),
        }
    }

    /// Returns the last count; none before the first. A count that is due is begun, and waited for this long: it goes on behind.
    pub(super) async fn counted(&self, patience: Duration) -> Option<Counted> {
        if self.begins() {
            let counting = tokio::spawn(self.clone().count());
            // A count notes by itself how it ended, since its caller may not be there any more.
            self.ctx.time.within(patience, counting).await;
        }
        let last = self.last.lock();
        last.counted.clone()
    }

    /// Tells whether the caller is to count now.
    fn begins(&self) -> bool {
        let now = self.ctx.time.moment();
        let mut last = self.last.lock();
        let is_due = !last.has_begun || last.next.is_some_and(|next| next <= now);
        if is_due {
            (last.has_begun, last.next) = (true, None);
        }
        is_due
    }

    async fn count(self) {
        let began = self.ctx.time.moment();
        let counting = futures_util::future::try_join(self.held(), self.dead());
        let counted = panics::caught("stock", counting).await;
        let now = self.ctx.time.moment();
        let mut last = self.last.lock();
        last.next = Some(now.after(STOCK_COUNTED_EVERY.max(now.since(began) * SHARE)));
        match counted {
            Ok((held, dead)) => last.counted = Some(Counted { held, dead }),
            Err(fault) => tracing::debug!(%fault, "held and dead tasks are counted later"),
        }
    }

    async fn held(&self) -> Result<ByCallback, Fault> {
        let now = self.ctx.now();
        let gates = self.callbacks.snapshot().gates();
        let closed = gates
            .iter()
            .filter(|(_, gate)| gate.state_at(now) != GateState::Open);
        let names: BTreeSet<&String> = closed.map(|(name, _)| name).collect();
        let mut sums = ByCallback::new();
        for name in names.into_iter().take(CALLBACKS_TOLD_MAX) {
            let (held, _) = self.gatekeeper.held(name).await?;
            *sums.entry(labels::label(name)).or_default() += held;
        }
        Ok(sums)
    }

    async fn dead(&self) -> Result<ByCallback, Fault> {
        let all = Wanted {
            scope: Scope::All,
            error: None,
        };
        let groups = walk::count_up_to(&self.ctx, &all, DEAD_LETTERS_STOCK_MAX).await?;
        let mut sums = ByCallback::new();
        for group in groups.groups {
            *sums.entry(labels::label(&group.callback)).or_default() += group.tasks;
        }
        Ok(sums)
    }
}
