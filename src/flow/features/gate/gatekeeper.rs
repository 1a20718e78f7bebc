//! The gatekeeper tells the stages of a node which tasks may go out, and holds those that may not.
//!
//! A held task is a row of the index. It is durable before the stage that had the task lets go of it, and the task's look
//! stands behind both, so a row that is lost costs lateness and never the task. The owner of the wheel releases it
//! (`flow::stages::wheel::release`).

use std::sync::Arc;

use crate::{
    flaw::{self, Flaw},
    flow::base::{
        api::Fault,
        context::Context,
        records::callbacks::{Callbacks, Passage, Snapshot},
        tables::held,
    },
    limits::{HELD_COUNTED_MAX, INDEX_PAGE_ROWS_MAX},
    model::{
        dispatch::Dispatch,
        gate::{GateState, Held},
        task::Spec,
        time::Millis,
    },
    store::index::{IndexPut, IndexRange, Refused},
};

/// A task that is to be held, and the gate that holds it.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Holding {
    pub(in crate::flow) dispatch: Dispatch,
    pub(in crate::flow) spec: Arc<Spec>,
    /// The collection of the gate; empty is the gate of the whole callback.
    pub(in crate::flow) gate: String,
}

/// The gatekeeper of a node. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Gatekeeper {
    ctx: Arc<Context>,
    callbacks: Callbacks,
}

/// The knowledge of the gatekeeper for one batch.
#[derive(Debug)]
pub(in crate::flow) struct Gates {
    /// None when the copy is not current.
    copy: Option<Arc<Snapshot>>,
    now: Millis,
}

impl Gates {
    /// Tells whether a task may go out.
    pub(in crate::flow) fn passage(&self, spec: &Spec) -> Passage {
        match &self.copy {
            Some(_) if flaw::is(Flaw::GateNotAsked) => Passage::Open,
            Some(copy) => copy.passage(spec, self.now),
            None if spec.target.is_tracked() => Passage::Unknown,
            None => Passage::Open,
        }
    }
}

impl Gatekeeper {
    /// Keeps the gates of these callbacks.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>, callbacks: Callbacks) -> Self {
        Self { ctx, callbacks }
    }

    /// Returns what it knows now.
    pub(in crate::flow) fn gates(&self) -> Gates {
        Gates {
            copy: self.callbacks.current(),
            now: self.ctx.now(),
        }
    }

    /// Returns the callbacks.
    pub(in crate::flow) const fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }

    /// Holds tasks; one result per task, in order. A task that is held already stays so: its row has the same place.
    pub(in crate::flow) async fn hold(&self, tasks: &[Holding]) -> Vec<Result<(), Fault>> {
        if tasks.is_empty() {
            return Vec::new();
        }
        let rows: Result<Vec<IndexPut>, Refused> =
            tasks.iter().map(|task| self.row(task)).collect();
        let rows = match rows {
            Ok(rows) => rows,
            Err(refused) => return vec![Err(refused.into()); tasks.len()],
        };
        let put = self.ctx.store.put_index(&rows).await;
        let held = put.iter().filter(|result| result.is_ok()).count();
        metrics::counter!("tickwheel_held_total").increment(held as u64);
        let results = put.into_iter();
        results.map(|result| result.map_err(Fault::from)).collect()
    }

    /// Counts the held tasks of a callback, up to [`HELD_COUNTED_MAX`]. Tells whether there are no others.
    ///
    /// # Errors
    /// When the store is away.
    pub(in crate::flow) async fn held(&self, callback: &str) -> Result<(u64, bool), Fault> {
        let now = self.ctx.now();
        let known = self.callbacks.get(callback).await?;
        let gates = known.into_iter().flat_map(|callback| callback.gates);
        // Tasks that an open gate held go out within seconds.
        let closed = gates.filter(|gate| gate.state_at(now) != GateState::Open);
        let mut count = 0;
        for gate in closed {
            for wheel in self.ctx.shape().all_wheels() {
                let partition = held::partition(callback, &gate.collection, wheel)?;
                let mut after = Some(None);
                while let Some(behind) = after {
                    let range = IndexRange {
                        partition: partition.clone(),
                        after: behind,
                        rows_max: INDEX_PAGE_ROWS_MAX,
                    };
                    let page = self.ctx.store.index_range(&range).await?;
                    count += page.rows.len() as u64;
                    if count >= HELD_COUNTED_MAX {
                        return Ok((HELD_COUNTED_MAX, false));
                    }
                    after = page.next.map(Some);
                }
            }
        }
        Ok((count, true))
    }

    fn row(&self, task: &Holding) -> Result<IndexPut, Refused> {
        let Dispatch {
            id,
            generation,
            expected_attempt,
            start,
        } = task.dispatch;
        let task_held = Held {
            id,
            start,
            generation,
            attempt: expected_attempt,
        };
        let (written, now) = (self.ctx.time.stamp(), self.ctx.now());
        held::row(&task.gate, (&task_held, &task.spec), written, now)
    }
}
