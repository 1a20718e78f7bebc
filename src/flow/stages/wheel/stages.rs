//! The stage starter starts the stages of a term for the clock stage, and joins them when the node stops.
//!
//! A stage that panics does not leave its work undone. A stage of a term ends its term, so that the wheel is
//! taken anew. A stage of the node is started again (`keep`).

use std::sync::Arc;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    erase::Eraser, fire::Publisher, look::Looker, release::Releaser, scan::Reader, term::Term,
    terms::Terms,
};
use crate::{
    flow::{
        base::{
            context::Context,
            entries::{entry_writer::EntryWriter, leftovers::Leftovers},
            panics,
            permits::{catch_up::CatchUp, read_permits::ReadPermits},
            read::find::Finder,
        },
        life::{door::Door, send::Sender, withdraw::Withdrawer},
    },
    limits,
    time_source::TimeSource,
};

/// Runs a stage of the node, and starts it again after a pause when it panics, until it ends by itself or `stop` comes.
pub(in crate::flow) async fn keep<F>(
    name: &'static str,
    time: TimeSource,
    stop: CancellationToken,
    mut start: impl FnMut() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let Err(error) = tokio::spawn(panics::strikable(name, start())).await else {
            return;
        };
        tracing::error!(name, %error, "a stage failed; it is started again");
        metrics::counter!("tickwheel_stage_restarts_total", "stage" => name).increment(1);
        if stop.is_cancelled() {
            return;
        }
        time.sleep(limits::STEP_PAUSE).await;
    }
}

/// The parts that the stages of every term are made of.
#[derive(Debug, Clone)]
pub struct Stages {
    pub(in crate::flow) ctx: Arc<Context>,
    pub(in crate::flow) entry_writer: EntryWriter,
    pub(in crate::flow) sender: Sender,
    pub(in crate::flow) looker: Looker,
    pub(in crate::flow) door: Door,
    pub(in crate::flow) withdrawer: Withdrawer,
    pub(in crate::flow) leftovers: Leftovers,
    pub(in crate::flow) catch_up: Arc<CatchUp>,
    pub(in crate::flow) turns: Arc<ReadPermits>,
    /// The terms that this node has begun.
    pub(in crate::flow) terms: Terms,
    /// Owns the running stages.
    pub(in crate::flow) tasks: TaskTracker,
}

impl Stages {
    /// Starts the stages of a term; each ends with it.
    pub(in crate::flow) fn begin(&self, term: &Arc<Term>) {
        self.terms.begin(term);
        let reader = Reader::new(
            Arc::clone(&self.ctx),
            self.entry_writer.clone(),
            Arc::clone(&self.catch_up),
            Arc::clone(&self.turns),
            Arc::clone(term),
        );
        let publisher = Publisher::new(
            Arc::clone(&self.ctx),
            self.entry_writer.clone(),
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
        let releaser = Releaser {
            ctx: Arc::clone(&self.ctx),
            sender: self.sender.clone(),
            door: self.door.clone(),
            finder: Finder::new(Arc::clone(&self.ctx)),
            term: Arc::clone(term),
        };
        self.watch(term, "follow", reader.clone().run_behind());
        self.watch(term, "read", reader.run());
        self.watch(term, "publish", publisher.run());
        self.watch(term, "erase", eraser.run());
        self.watch(term, "release", releaser.run());
    }

    /// Runs a stage. One that panics ends its term: a wheel whose stage is gone would look owned and stand still.
    fn watch(
        &self,
        term: &Arc<Term>,
        name: &'static str,
        stage: impl Future<Output = ()> + Send + 'static,
    ) {
        let term = Arc::clone(term);
        let running = tokio::spawn(panics::strikable(name, stage));
        self.tasks.spawn(async move {
            if let Err(error) = running.await {
                tracing::error!(wheel = term.wheel.get(), name, %error, "a stage failed; its wheel is taken anew");
                metrics::counter!("tickwheel_stage_restarts_total", "stage" => name).increment(1);
                term.ended.cancel();
            }
        });
    }
}
