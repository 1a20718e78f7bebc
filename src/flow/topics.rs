//! Creates a callback's topic when its first task is registered, so that the task does not wait for it when it is due.
//!
//! A hint: the publisher creates a topic that is missing all the same.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use super::context::Context;
use crate::{
    limits,
    model::task::{Spec, Target},
    queue::message,
};

/// The topics that this node has seen to.
#[derive(Debug, Clone)]
pub struct Topics {
    ctx: Arc<Context>,
    seen: Arc<Mutex<BTreeSet<String>>>,
}

impl Topics {
    /// Has seen to nothing yet.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        Self {
            ctx,
            seen: Arc::default(),
        }
    }

    /// Takes notice of a registered task: sees to its topic in the background, once.
    pub fn expect(&self, spec: &Spec) {
        let Target::Callback { name } = &spec.target else {
            return;
        };
        let topic = message::topic(name, spec.priority);
        let first = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.len() < limits::TOPICS_SEEN_MAX && seen.insert(topic.clone())
        };
        if first {
            let (publisher, seen) = (Arc::clone(&self.ctx.publisher), Arc::clone(&self.seen));
            tokio::spawn(async move {
                if let Err(error) = publisher.ensure_topics(std::slice::from_ref(&topic)).await {
                    tracing::debug!(topic, %error, "a topic is left to its first publication");
                    seen.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .remove(&topic);
                }
            });
        }
    }
}
