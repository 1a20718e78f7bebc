//! The topic creator makes the topic of a callback for its first task when that is registered. So the task
//! does not wait for the topic when it is due.
//!
//! This is a hint: the publisher still creates a topic that is missing.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;

use crate::{flow::base::context::Context, limits, model::task::Spec, queue::message};

/// The topics that this node has seen to.
#[derive(Debug, Clone)]
pub struct Topics {
    ctx: Arc<Context>,
    seen: Arc<Mutex<BTreeSet<String>>>,
}

impl Topics {
    /// Starts with no topic seen to.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        Self {
            ctx,
            seen: Arc::default(),
        }
    }

    /// Takes notice of a registered task: sees to its topic in the background, once.
    pub fn expect(&self, spec: &Spec) {
        let Some(name) = spec.queue() else {
            return;
        };
        let topic = message::topic(name, spec.priority);
        let first = {
            let mut seen = self.seen.lock();
            seen.len() < limits::TOPICS_SEEN_MAX && seen.insert(topic.clone())
        };
        if first {
            let (publisher, seen) = (Arc::clone(&self.ctx.publisher), Arc::clone(&self.seen));
            tokio::spawn(async move {
                if let Err(error) = publisher.ensure_topics(std::slice::from_ref(&topic)).await {
                    tracing::debug!(topic, %error, "a topic is left to its first publication");
                    seen.lock().remove(&topic);
                }
            });
        }
    }
}
