//! The registry registers the internal tasks that stages ask for, in batches.
//!
//! An internal task whose time came long ago may have been registered, and may have run, before. Its row tells that. A task
//! without row is written once more over itself: a claim of a second publication is refused.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::outbox::{Order, unanswered};
use crate::{
    flow::{
        api::Fault,
        context::Context,
        tasks::{
            register::{Incoming, Registrar},
            transition::Mover,
        },
    },
    limits,
    model::ids::TaskId,
};

/// How long the start of an internal task must have passed before its row is looked for: a first order is younger.
const REPEATED_AFTER: Duration = Duration::from_secs(1);

/// The registry of a node.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Registry {
    ctx: Arc<Context>,
    registrar: Registrar,
    mover: Mover,
}

impl Registry {
    /// Registers through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        registrar: Registrar,
        mover: Mover,
    ) -> Self {
        Self {
            ctx,
            registrar,
            mover,
        }
    }

    /// Registers until it is told to stop. An order that is not answered is asked for again.
    pub(in crate::flow) async fn run(self, stop: CancellationToken) {
        let mut orders = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.ctx.outbox.take(&mut orders) => {}
            }
            self.step(std::mem::take(&mut orders)).await;
        }
    }

    /// Registers a batch, and answers it.
    async fn step(&self, orders: Vec<Order>) {
        let repeated_before = self.ctx.now().before(REPEATED_AFTER);
        let is_old = |order: &&Order| order.task.id.first_start() < repeated_before;
        let old: Vec<TaskId> = orders
            .iter()
            .filter(is_old)
            .map(|order| order.task.id)
            .collect();
        let mut rows = self.mover.rows_each(&old).await.into_iter();
        let (mut answers, mut incoming) = (Vec::new(), Vec::<Incoming>::new());
        for order in orders {
            let row = if is_old(&&order) {
                rows.next().unwrap_or(Ok(None))
            } else {
                Ok(None)
            };
            match row {
                Ok(Some(_)) => answer(order.answer, Ok(())),
                Err(error) => answer(order.answer, Err(error.into())),
                Ok(None) => {
                    let same = incoming.iter().position(|task| task.id == order.task.id);
                    let place = same.unwrap_or(incoming.len());
                    if same.is_none() {
                        incoming.push(Incoming::of_internal(order.task));
                    }
                    answers.push((order.answer, place));
                }
            }
        }
        if incoming.is_empty() {
            return;
        }
        let entered = self.registrar.enter(incoming).await;
        let written = entered.iter().filter(|result| result.is_ok()).count();
        metrics::counter!("tickwheel_internal_tasks_registered_total").increment(written as u64);
        for (to, place) in answers {
            let entered = entered
                .get(place)
                .cloned()
                .unwrap_or_else(|| Err(unanswered()));
            answer(to, entered.map(drop));
        }
    }
}

/// A stage that does not wait any more repeats its work later.
fn answer(to: tokio::sync::oneshot::Sender<Result<(), Fault>>, answer: Result<(), Fault>) {
    drop(to.send(answer));
}

const _: () = assert!(limits::OUTBOX_BATCH_MAX <= limits::OUTBOX_ORDERS_MAX);
