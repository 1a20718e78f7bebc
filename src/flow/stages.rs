//! Starts the stages of a term, and joins them when the node stops.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::{
    catch_up::CatchUp, context::Context, erase::Eraser, leftovers::Leftovers, look::Looker,
    place::Placer, publish::Publisher, read::Reader, send::Sender, term::Term, turns::Turns,
    withdraw::Withdrawer,
};

/// What the stages of every term are made of.
#[derive(Debug, Clone)]
pub struct Stages {
    pub(super) ctx: Arc<Context>,
    pub(super) placer: Placer,
    pub(super) sender: Sender,
    pub(super) looker: Looker,
    pub(super) withdrawer: Withdrawer,
    pub(super) leftovers: Leftovers,
    pub(super) catch_up: Arc<CatchUp>,
    pub(super) turns: Arc<Turns>,
    /// Owns them.
    pub(super) tasks: TaskTracker,
}

impl Stages {
    /// Starts the stages of a term; each ends with it.
    pub(super) fn begin(&self, term: &Arc<Term>) {
        let reader = Reader::new(
            Arc::clone(&self.ctx),
            self.placer.clone(),
            Arc::clone(&self.catch_up),
            Arc::clone(&self.turns),
            Arc::clone(term),
        );
        let publisher = Publisher::new(
            Arc::clone(&self.ctx),
            self.placer.clone(),
            self.sender.clone(),
            self.looker.clone(),
            Arc::clone(&self.catch_up),
            self.leftovers.clone(),
            Arc::clone(term),
        );
        let eraser = Eraser::new(
            Arc::clone(&self.ctx),
            self.withdrawer.clone(),
            Arc::clone(&self.catch_up),
            Arc::clone(term),
        );
        self.watch(term, "read", reader.run());
        self.watch(term, "publish", publisher.run());
        self.watch(term, "erase", eraser.run());
    }

    /// Runs a stage. One that panics ends its term: a wheel whose stage is gone would look owned and stand still.
    fn watch(
        &self,
        term: &Arc<Term>,
        name: &'static str,
        stage: impl Future<Output = ()> + Send + 'static,
    ) {
        let term = Arc::clone(term);
        let running = tokio::spawn(stage);
        self.tasks.spawn(async move {
            if let Err(error) = running.await {
                tracing::error!(wheel = term.wheel.get(), name, %error, "a stage failed; its wheel is taken anew");
                term.ended.cancel();
            }
        });
    }
}
