//! The outbox brings internal tasks from the stages that ask for them to the registry, and the answers back.
//!
//! It is bounded: a stage that finds it full waits, and fails after a moment. Its own work is then repeated later.

use tokio::sync::{Mutex, mpsc, oneshot};

use crate::{flow::base::api::Fault, limits, model::holder::Holder};

/// An internal task to register, and where the answer goes.
#[derive(Debug)]
pub(in crate::flow) struct Order {
    /// The task.
    pub(in crate::flow) task: Holder,
    /// Told once it is durable, or why it is not.
    pub(in crate::flow) answer: oneshot::Sender<Result<(), Fault>>,
}

/// The outbox of a node.
#[derive(Debug)]
pub struct Outbox {
    orders: mpsc::Sender<Order>,
    /// A registry that is started again goes on where the one before stopped.
    taken: Mutex<mpsc::Receiver<Order>>,
}

impl Default for Outbox {
    fn default() -> Self {
        let (orders, taken) = mpsc::channel(limits::OUTBOX_ORDERS_MAX);
        Self {
            orders,
            taken: Mutex::new(taken),
        }
    }
}

impl Outbox {
    /// Asks for an internal task and waits until it is durable. Dropping the future may or may not take it back.
    ///
    /// # Errors
    /// When it may not be durable; asking again is safe.
    pub(in crate::flow) async fn register(&self, task: Holder) -> Result<(), Fault> {
        let (answer, answered) = oneshot::channel();
        let order = Order { task, answer };
        if self.orders.send(order).await.is_err() {
            return Err(unanswered());
        }
        answered.await.unwrap_or_else(|_| Err(unanswered()))
    }

    /// Tells whether orders wait to be taken.
    pub(in crate::flow) fn has_orders(&self) -> bool {
        self.orders.capacity() < self.orders.max_capacity()
    }

    /// Waits for orders and takes those that are there. Cancel-safe: orders that were not returned are taken by the next call.
    pub(in crate::flow) async fn take(&self, orders: &mut Vec<Order>) {
        let mut taken = self.taken.lock().await;
        taken.recv_many(orders, limits::OUTBOX_BATCH_MAX).await;
    }
}

/// The registry stopped, or failed, before it answered.
pub(in crate::flow) fn unanswered() -> Fault {
    Fault::Unknown {
        reason: "the internal task was not registered in time".to_owned(),
    }
}
