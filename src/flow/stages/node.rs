//! A node builds its stages on a store and a queue for the program, runs them, and stops them in order.

use std::{sync::Arc, time::Duration};

use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    cluster::members::Members,
    ends::registry::Registry,
    join::check::Checker,
    makers::{entrance, looker, near, recovery, sender, service, withdrawer},
    poll::survivor::Survivor,
    query::remembered::Remembered,
    sequence::{dispatcher::TurnDispatcher, reminder::Reminder},
    service::Service,
    tree::{cancel::TreeCanceller, completion::TreeCompleter, release::Releaser, reopen::Opener},
    walk::Walk,
    wheel::{
        expirer::Expirer,
        heir::Heir,
        lapses::Watcher,
        look::Looker,
        owner::Clock,
        recover::Recovery,
        stages::{self, Stages},
        terms::Terms,
    },
};
use crate::flow::{
    base::{
        context::Context,
        entries::{entry_writer::EntryWriter, watermarks::Watermarks},
        figures::pending::Census,
        permits::{catch_up::CatchUp, read_permits::ReadPermits},
        read::find::Finder,
        records::callbacks::Callbacks,
    },
    features::sequence::turn::SequenceLock,
    life::{door::Door, late_runs::LateRuns, near::Near, unfinished::Finisher},
};

/// A running node.
#[derive(Debug)]
pub struct Node {
    ctx: Arc<Context>,
    service: Arc<Service>,
    members: Members,
    stop: CancellationToken,
    stop_members: CancellationToken,
    stop_near: CancellationToken,
    clocks: TaskTracker,
    near: TaskTracker,
    rest: TaskTracker,
    /// The parts that a walk of the clock looks at.
    walked: (Remembered, Near, Terms),
}

impl Node {
    /// Starts the node's stages on the current runtime.
    ///
    /// `drain` is how long near tasks may take to go out when the node stops.
    #[must_use]
    pub fn start(ctx: Context, drain: Duration) -> Self {
        let ctx = Arc::new(ctx);
        let marks = Watermarks::new(Arc::clone(&ctx));
        let known = Remembered::new(&ctx, &marks);
        let writer = EntryWriter::counting(Arc::clone(&ctx), marks.clone(), known.pending.clone());
        let sender = sender(&ctx, &known);
        let door = Door::new(Arc::clone(&ctx));
        let catch_up = Arc::new(CatchUp::new(ctx.time.clone()));
        let turns = Arc::new(ReadPermits::new(ctx.store.reads_at_once()));
        let near = near(&ctx, &sender, &writer, &catch_up, &known);
        let entrance = entrance(&ctx, &marks, &writer, &near, &door);
        let members = Members::new(Arc::clone(&ctx), sender.clone());
        let looker = looker(&ctx, &sender, (&writer, &entrance), &door, &turns, &known);
        let recovery = recovery(&ctx, &marks, (&looker, &sender, &near), &known);
        let (clocks, rest) = (TaskTracker::new(), TaskTracker::new());
        let stages = Stages {
            ctx: Arc::clone(&ctx),
            entry_writer: writer.clone(),
            sender,
            looker,
            door: door.clone(),
            withdrawer: withdrawer(&ctx, &marks, &writer, &door),
            leftovers: known.leftovers.clone(),
            catch_up,
            turns,
            terms: Terms::default(),
            tasks: rest.clone(),
        };
        let node = Self {
            walked: (known.clone(), near.clone(), stages.terms.clone()),
            stop: CancellationToken::new(),
            stop_members: CancellationToken::new(),
            stop_near: CancellationToken::new(),
            clocks,
            near: TaskTracker::new(),
            rest,
            service: Arc::new(service(
                &ctx,
                &marks,
                &writer,
                (&near, &entrance),
                &door,
                &members,
                &known,
            )),
            members: members.clone(),
            ctx: Arc::clone(&ctx),
        };
        node.keep_running(members, near.clone(), drain);
        node.keep_registering();
        node.tend(door, near);
        node.watch(&known, stages.looker.clone(), recovery);
        if ctx.settings.scans {
            node.scan(&marks, &stages);
            node.lead(stages.sender.late_runs().clone());
        }
        node
    }

    /// Starts the stages that one node of all does the work of: bulk work, and schedules.
    fn lead(&self, late: LateRuns) {
        let runner = self.service.jobs.runner();
        self.keep("jobs", &self.stop, move |stop| runner.clone().run(stop));
        let stage = self.service.schedules.stage(self.members.clone(), late);
        self.keep("schedules", &self.stop, move |stop| stage.clone().run(stop));
    }

    /// Starts the stage that takes over what dead nodes held in memory, of the parts of a recovery.
    fn inherit(&self, parts: Recovery) {
        let heir = Heir {
            ctx: parts.ctx,
            members: self.members.clone(),
            looker: parts.looker,
            near: parts.near,
            deadlines: parts.deadlines,
            searched: Arc::default(),
        };
        self.keep("inheritance", &self.stop, move |stop| {
            heir.clone().run(stop)
        });
    }

    /// Starts the list of nodes and the near tasks.
    fn keep_running(&self, members: Members, near: Near, drain: Duration) {
        self.keep("members", &self.stop_members, move |stop| {
            members.clone().run(stop)
        });
        let near = move |stop| near.clone().run(stop, drain);
        self.keep_in(&self.near, "near", &self.stop_near, near);
        self.survive();
    }

    /// Starts the stage that takes members of dead nodes out of the groups of the queue, if this node consumes.
    fn survive(&self) {
        let Some(subscriptions) = self.ctx.subscriptions.clone() else {
            return;
        };
        let survivor = Survivor {
            ctx: Arc::clone(&self.ctx),
            members: self.members.clone(),
            subscriptions,
        };
        self.keep("groups", &self.stop, move |stop| survivor.clone().run(stop));
    }

    /// Starts the stages that publish tasks of sequences whose turn has come, and that look after those that wait for long.
    fn dispatcher(&self, near: Near) {
        let ctx = || Arc::clone(&self.ctx);
        let finder = Finder::new(ctx());
        let finisher = self.finisher();
        // With a finder of its own: its searches do not hurry.
        let slow = Finder::new(ctx());
        let reminder = SequenceLock::new(ctx(), slow);
        let reminder = Reminder::new(ctx(), reminder, finisher);
        let turns = SequenceLock::new(ctx(), finder.clone());
        let dispatcher = TurnDispatcher::new(ctx(), turns, finder, near);
        self.keep("turns", &self.stop, move |stop| {
            dispatcher.clone().run(stop)
        });
        self.keep("held turns", &self.stop, move |stop| {
            reminder.clone().run(stop)
        });
    }

    /// Returns what ends registrations for stages that wait for their tasks.
    fn finisher(&self) -> Finisher {
        let finder = Finder::new(Arc::clone(&self.ctx));
        let standing = self.service.asker.standing().clone();
        let registrar = self.service.registrar.clone();
        Finisher::new(Arc::clone(&self.ctx), finder, standing, registrar)
    }

    /// Starts the stages that check whether trees have ended, and what tasks wait for, and those of sequences.
    fn tend(&self, door: Door, near: Near) {
        self.dispatcher(near);
        let ctx = || Arc::clone(&self.ctx);
        let finder = Finder::new(ctx());
        let service = &self.service;
        let (rescheduler, canceller) = (service.rescheduler.clone(), service.canceller.clone());
        let opener = Opener::new(ctx(), rescheduler.clone());
        let releaser = Releaser::new(ctx(), rescheduler, canceller, opener.clone());
        let (rescheduler, canceller) = (service.rescheduler.clone(), service.canceller.clone());
        let changes = door.clone();
        let finisher = self.finisher();
        let checker = Checker::new(
            ctx(),
            changes,
            finder,
            finisher.clone(),
            rescheduler,
            canceller,
        );
        self.keep("joins", &self.stop, move |stop| checker.clone().run(stop));
        let registrar = service.registrar.clone();
        let tree_canceller = TreeCanceller::new(ctx(), service.canceller.clone());
        let tender = TreeCompleter::new(
            ctx(),
            door,
            finisher,
            registrar,
            releaser,
            (opener, tree_canceller),
        );
        self.keep("trees", &self.stop, move |stop| tender.clone().run(stop));
    }

    /// Starts the registry of internal tasks and follow-ups. It runs as long as stages may ask for some.
    fn keep_registering(&self) {
        let registrar = self.service.registrar.clone();
        let standing = self.service.asker.standing().clone();
        let registry = Registry::new(Arc::clone(&self.ctx), registrar, standing);
        self.keep("registry", &self.stop_members, move |stop| {
            registry.clone().run(stop)
        });
    }

    /// Keeps the node's copy of the configuration current. It runs until the last near task has gone out, which needs it.
    fn keep_current(&self, callbacks: &Callbacks) {
        let cache = callbacks.cache().clone();
        self.keep("configuration", &self.stop_members, move |stop| {
            let cache = cache.clone();
            async move {
                // A store that does not answer must not keep the node from stopping.
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = cache.run(stop.clone()) => {}
                }
            }
        });
    }

    /// Starts the stages that keep the records of callbacks current, and look at running attempts, at tasks that wait for
    /// workers, and at tasks that the process before has left.
    fn watch(&self, known: &Remembered, looker: Looker, recovery: Recovery) {
        self.keep_current(&known.callbacks);
        let watcher = Watcher {
            ctx: Arc::clone(&self.ctx),
            deadlines: known.deadlines.clone(),
            looker: looker.clone(),
        };
        self.keep("deadlines", &self.stop, move |stop| {
            watcher.clone().run(stop)
        });
        let expirer = Expirer {
            ctx: Arc::clone(&self.ctx),
            expiries: known.demand.expiries().clone(),
            looker,
        };
        self.keep("expiries", &self.stop, move |stop| {
            expirer.clone().run(stop)
        });
        let limiter = known.limiter.clone();
        self.keep("limits", &self.stop, move |stop| limiter.clone().run(stop));
        let shares = self.service.shares.clone();
        self.keep("shares", &self.stop, move |stop| shares.clone().run(stop));
        let refusals = self.service.refusals.clone();
        self.keep("refusals", &self.stop_members, move |stop| {
            refusals.clone().run(stop)
        });
        let (demand, limiter) = (known.demand.clone(), known.limiter.clone());
        self.keep("demand", &self.stop, move |stop| {
            let limiter = limiter.clone();
            let bound = move |callback: &str| limiter.bound(callback);
            demand.clone().run(bound, stop)
        });
        if let Some(underway) = self.ctx.underway.clone() {
            let census = Census::new(Arc::clone(&self.ctx), known.pending.clone(), known.began);
            let store = Arc::clone(&underway);
            self.keep("census", &self.stop, move |stop| {
                census.clone().run(Arc::clone(&store), stop)
            });
            self.keep("recovery", &self.stop, move |stop| {
                recovery.clone().run(Arc::clone(&underway), stop)
            });
        } else if self.ctx.settings.scans {
            self.inherit(recovery);
        }
    }

    /// Starts a clock for each wheel.
    fn scan(&self, watermarks: &Watermarks, stages: &Stages) {
        for wheel in self.ctx.shape().all_wheels() {
            let (ctx, members) = (Arc::clone(&self.ctx), self.members.clone());
            let (watermarks, stages, stop) =
                (watermarks.clone(), stages.clone(), self.stop.clone());
            let clock = move || {
                let (ctx, members) = (Arc::clone(&ctx), members.clone());
                Clock::new(ctx, watermarks.clone(), members, stages.clone(), wheel)
                    .run(stop.clone())
            };
            let (time, stop) = (self.ctx.time.clone(), self.stop.clone());
            self.clocks.spawn(stages::keep("clock", time, stop, clock));
        }
    }

    /// Runs a stage of the node until `stop`; one that panics is started again.
    fn keep<F>(
        &self,
        name: &'static str,
        stop: &CancellationToken,
        start: impl Fn(CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.keep_in(&self.rest, name, stop, start);
    }

    /// Runs a stage as [`Self::keep`] does, among those that this tracker waits for.
    fn keep_in<F>(
        &self,
        tracker: &TaskTracker,
        name: &'static str,
        stop: &CancellationToken,
        start: impl Fn(CancellationToken) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let (time, token) = (self.ctx.time.clone(), stop.clone());
        let start = move || start(token.clone());
        let kept = stages::keep(name, time, stop.clone(), start);
        tracker.spawn(kept);
    }

    /// Returns what requests go to.
    #[must_use]
    pub fn service(&self) -> Arc<Service> {
        Arc::clone(&self.service)
    }

    /// Returns what moves the clock of the node; none unless it is moved by hand. One of them moves it.
    #[must_use]
    pub fn walk(&self) -> Option<Arc<Walk>> {
        let (known, near, terms) = self.walked.clone();
        let (ctx, service) = (Arc::clone(&self.ctx), self.service());
        let is_by_hand = ctx.time.is_by_hand();
        is_by_hand.then(|| Arc::new(Walk::new(ctx, service, known, near, terms)))
    }

    /// Announces that the node is about to stop: `/readyz` fails from now on, it takes no more wheels, and polls that wait
    /// are answered.
    pub fn leave(&self) {
        self.members.leave();
        if let Some(poller) = &self.service.poller {
            poller.leave();
        }
    }

    /// Returns guards that end the stages of the node, without any order, when they are dropped.
    #[must_use]
    pub fn guards(&self) -> [DropGuard; 3] {
        [&self.stop, &self.stop_near, &self.stop_members].map(|stop| stop.clone().drop_guard())
    }

    /// Stops in order: ends the polls, leaves the wheels (others take them at once), sends what is near, leaves the list,
    /// closes the queue.
    pub async fn stop(self, limit: Duration) {
        let time = &self.ctx.time;
        let until = time.moment().after(limit);
        let left = || until.since(time.moment());
        self.leave();
        if let Some(poller) = &self.service.poller {
            // The polls end first, because the stages below publish the tasks that they release.
            self.ended(poller.stopped(), left(), "polls").await;
        }
        self.stop.cancel();
        self.clocks.close();
        self.ended(self.clocks.wait(), left(), "clocks").await;
        self.stop_near.cancel();
        self.near.close();
        self.ended(self.near.wait(), left(), "near tasks").await;
        // While it is in the list, no other node takes over what it holds.
        self.stop_members.cancel();
        self.rest.close();
        self.ended(self.rest.wait(), left(), "stages").await;
        self.ctx.publisher.close(left()).await;
    }

    async fn ended(&self, what: impl Future<Output = ()>, limit: Duration, name: &str) {
        if self.ctx.time.within(limit, what).await.is_none() {
            tracing::warn!(name, "did not end in time");
        }
    }
}
