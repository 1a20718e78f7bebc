//! The registry registers the internal tasks that stages ask for, in batches.
//!
//! An internal task whose time came long ago may have been registered, and may have run, before. Its row tells that. A task
//! without row is written once more over itself: a claim of a second publication is refused.
//!
//! It registers the follow-ups of tasks, too, which are tasks of clients ([`crate::model::chain`]). One whose order may be a
//! repetition is looked for in the wheel: it may wait for its start there, or may have been moved.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    flow::{
        base::{
            agendas::outbox::{Order, unanswered},
            api::Fault,
            context::Context,
            rows::stored,
        },
        life::{existence::ExistenceCheck, incoming::Incoming, register::Registrar},
    },
    limits,
    model::{holder::Holder, ids::TaskId},
};

/// How long the start of an internal task must have passed before its row is looked for: a first order is younger.
const REPEATED_AFTER: Duration = Duration::from_secs(1);

/// The registry of a node.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Registry {
    ctx: Arc<Context>,
    registrar: Registrar,
    standing: ExistenceCheck,
}

impl Registry {
    /// Registers through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        registrar: Registrar,
        standing: ExistenceCheck,
    ) -> Self {
        Self {
            ctx,
            registrar,
            standing,
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
        let known = self.known(&orders).await;
        let (mut answers, mut incoming) = (Vec::new(), Vec::<Incoming>::new());
        for order in orders {
            match known.get(&order.task.id) {
                Some(Ok(true)) => answer(order.answer, Ok(())),
                Some(Err(fault)) => answer(order.answer, Err(fault.clone())),
                Some(Ok(false)) | None => {
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
        let own: Vec<bool> = incoming.iter().map(|task| task.id.is_internal()).collect();
        let entered = self.registrar.enter(incoming).await;
        let written = |of_service: bool| {
            let results = entered.iter().zip(&own);
            let written = results.filter(|(result, own)| **own == of_service && result.is_ok());
            written.count() as u64
        };
        metrics::counter!("tickwheel_internal_tasks_registered_total").increment(written(true));
        metrics::counter!("tickwheel_follow_ups_registered_total").increment(written(false));
        for (to, place) in answers {
            let entered = entered
                .get(place)
                .cloned()
                .unwrap_or_else(|| Err(unanswered()));
            answer(to, entered.map(drop));
        }
    }

    /// Tells of the tasks whose orders may be repetitions whether they need no registration any more.
    async fn known(&self, orders: &[Order]) -> HashMap<TaskId, Result<bool, Fault>> {
        let repeated_before = self.ctx.now().before(REPEATED_AFTER);
        let is_old = |task: &Holder| {
            if task.id.is_internal() {
                task.id.first_start() < repeated_before
            } else {
                // The end that it follows, whenever it starts itself.
                task.spec.create_time < repeated_before
            }
        };
        let old = orders.iter().map(|order| &order.task);
        let old = old.filter(|task| is_old(task)).map(|task| task.id);
        let (own, of_clients): (Vec<TaskId>, Vec<TaskId>) = old.partition(|id| id.is_internal());
        let mut known = HashMap::new();
        if !own.is_empty() {
            let rows = stored::rows_each(&self.ctx, &own).await.into_iter();
            let there = rows.map(|row| Ok::<bool, Fault>(row?.is_some()));
            known.extend(own.into_iter().zip(there));
        }
        if !of_clients.is_empty() {
            let found = self.standing.find(&of_clients).await.into_iter();
            let there = found.map(|found| Ok::<bool, Fault>(found?.is_some()));
            known.extend(of_clients.into_iter().zip(there));
        }
        known
    }
}

/// A stage that does not wait any more repeats its work later.
fn answer(to: tokio::sync::oneshot::Sender<Result<(), Fault>>, answer: Result<(), Fault>) {
    drop(to.send(answer));
}

const _: () = assert!(limits::OUTBOX_BATCH_MAX <= limits::OUTBOX_ORDERS_MAX);
