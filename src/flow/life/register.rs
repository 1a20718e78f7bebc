//! Registration stores new tasks for clients: it writes the entry, looks at the clock, and acknowledges.
//!
//! A task that is due behind everything closed gets a due entry in its slot: one plain write and one shared
//! read. A task that is due sooner is "near". It first gets its durable record, a look (tracked) or a backup
//! entry (`kafka` target), and then waits in this node's memory. A crash before the acknowledgement may leave
//! a task that fires though no client was told its id. A crash after the acknowledgement loses nothing.
//!
//! A task of a sequence gets its place there before its entry, and is acknowledged once the place is sure.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    add::Admission,
    complete,
    line::Line,
    near::{Near, NearTask},
    sending::Sending,
    topics::Topics,
};
use crate::{
    flaw::{self, Flaw},
    flow::{
        TASK_EVENTS,
        base::{
            api::{Fault, NewTask, TaskView, Waits},
            context::Context,
            entries::{
                entry_writer::{Placed, Placer},
                near_record::near_record,
                watermarks::Hands,
            },
            read::find,
            records::callbacks::{Callbacks, Known},
        },
        features::{
            join::enlist::Enlister,
            lists::label_rows,
            sequence::place::{self, Announced, Newcomer},
        },
    },
    limits,
    model::{
        dispatch::Dispatch,
        entry::{Entry, Kind},
        holder::Holder,
        ids::TaskId,
        look_step::LookStep,
        ordering::Sequence,
        preference::mix,
        task::{Body, CONTENT_WRITTEN, Content, Spec},
        time::{Millis, Tick},
    },
    schema,
};

/// A task with its id, on its way into the wheel.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Incoming {
    pub(in crate::flow) id: TaskId,
    pub(in crate::flow) start: Millis,
    pub(in crate::flow) spec: Arc<Spec>,
    /// The content, if it is kept apart.
    pub(in crate::flow) content: Option<Arc<Content>>,
    /// The write time of that content.
    pub(in crate::flow) content_written: i64,
    /// The tasks that it waits for.
    pub(in crate::flow) after: Vec<TaskId>,
    /// The rows of that wait are durable.
    pub(in crate::flow) enlisted: bool,
}

impl Incoming {
    /// The task that the record of a key names. A content that is kept apart was written before the record.
    pub(in crate::flow) fn of_holder(holder: Holder) -> Self {
        Self {
            id: holder.id,
            start: holder.id.first_start(),
            spec: holder.spec,
            content: None,
            content_written: CONTENT_WRITTEN,
            // Their rows are durable before anything names the task.
            after: Vec::new(),
            enlisted: true,
        }
    }

    /// A task of the service's own. A large content is taken out of its spec: it is written again whenever the task is.
    pub(in crate::flow) fn of_internal(holder: Holder) -> Self {
        let (spec, content) = apart(Arc::unwrap_or_clone(holder.spec));
        let spec = Arc::new(spec);
        Self {
            content,
            ..Self::of_holder(Holder { spec, ..holder })
        }
    }

    const fn dispatch(&self) -> Dispatch {
        Dispatch::first(self.id, self.start)
    }
}

/// The registrar.
#[derive(Debug, Clone)]
pub struct Registrar {
    pub(super) ctx: Arc<Context>,
    hands: Hands,
    pub(super) placer: Placer,
    near: Near,
    topics: Topics,
    callbacks: Callbacks,
    pub(super) admission: Admission,
    pub(super) enlister: Enlister,
}

impl Registrar {
    /// Registers through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        hands: Hands,
        placer: Placer,
        near: Near,
        callbacks: Callbacks,
        (admission, enlister): (Admission, Enlister),
    ) -> Self {
        let topics = Topics::new(Arc::clone(&ctx));
        Self {
            ctx,
            hands,
            placer,
            near,
            topics,
            callbacks,
            admission,
            enlister,
        }
    }

    /// Registers tasks; one result per task, in order. Each task that is returned is durable.
    pub async fn register(&self, tasks: Vec<NewTask>) -> Vec<Result<TaskView, Fault>> {
        // Before anything is decided on: a wheel may go on meanwhile.
        if let Err(full) = self.ctx.store.let_in(tasks.len()).await {
            return vec![Err(full.into()); tasks.len()];
        }
        let drafts = tasks.iter().map(|task| &task.draft);
        let known = self.callbacks.known(complete::callbacks(drafts)).await;
        let mut admitted = Vec::with_capacity(tasks.len());
        let mut incoming = Vec::with_capacity(tasks.len());
        let (mut line, now) = (Line::default(), self.ctx.now());
        for mut task in tasks {
            task.start = line.start(&task, now);
            admitted.push(match self.complete(task, &known) {
                Ok(task) => {
                    incoming.push(task);
                    Ok(())
                }
                Err(fault) => Err(fault),
            });
        }
        let mut entered = self.enter(incoming).await.into_iter();
        let answer = |admitted: Result<(), Fault>| {
            admitted.and_then(|()| entered.next().unwrap_or_else(|| Err(unanswered())))
        };
        admitted.into_iter().map(answer).collect()
    }

    /// Writes tasks as [`Self::enter`] does. The parents of children among them have admitted them.
    pub(in crate::flow) async fn enter_admitted(
        &self,
        incoming: Vec<Incoming>,
    ) -> Vec<Result<TaskView, Fault>> {
        let mut results: Vec<Option<Fault>> = vec![None; incoming.len()];
        self.enter_checks(&incoming, &mut results).await;
        self.put_bodies(&incoming, &mut results).await;
        let tasks = incoming.iter().map(|task| (task.id, &*task.spec));
        for (index, fault) in label_rows::put(&self.ctx, tasks).await {
            set(&mut results, index, fault);
        }
        let places = self.announce(&incoming, &mut results).await;

        let mut near: Vec<(usize, Tick)> = Vec::new();
        let mut far: Vec<(usize, Entry)> = Vec::new();
        let mut waiting: Vec<usize> = Vec::new();
        for (index, task) in incoming.iter().enumerate() {
            if results.get(index).is_some_and(Option::is_some) {
                continue;
            }
            if task.spec.awaits() {
                waiting.push(index);
                continue;
            }
            let opened = self.hands.closing(task.id.wheel());
            if self.ctx.tick().tick_of(task.start) > opened && !self.goes_around(task) {
                far.push((index, self.due_entry(task)));
            } else {
                near.push((index, opened));
            }
        }
        if !far.is_empty() {
            let entries: Vec<Entry> = far.iter().map(|(_, entry)| entry.clone()).collect();
            for ((index, entry), placed) in far.into_iter().zip(self.placer.write(&entries).await) {
                match self.follow_up(&entry, placed).await {
                    Ok(None) => {}
                    Ok(Some(opened)) => near.push((index, opened)),
                    Err(fault) => set(&mut results, index, fault),
                }
            }
        }
        self.register_near(&incoming, near, &mut results).await;
        if !waiting.is_empty() {
            Box::pin(self.wait(&incoming, &waiting, &mut results)).await;
        }
        self.confirm(places, &mut results).await;
        incoming
            .into_iter()
            .zip(results)
            .map(|(task, fault)| self.answer(&task, fault))
            .collect()
    }

    /// Announces the places of tasks of sequences, before anything names these tasks.
    async fn announce(
        &self,
        incoming: &[Incoming],
        results: &mut [Option<Fault>],
    ) -> Vec<(usize, Announced)> {
        let newcomers = incoming.iter().zip(results.iter()).enumerate();
        let newcomers = newcomers.filter_map(|(index, (task, fault))| {
            // One that waits for others gets its place when it is released.
            let has_place = fault.is_none() && !task.spec.awaits();
            let sequence = Sequence::of(&task.spec).filter(|_| has_place)?;
            let newcomer = Newcomer {
                sequence,
                id: task.id,
                generation: 0,
                start: task.start,
            };
            Some((index, newcomer))
        });
        let (indices, newcomers): (Vec<usize>, Vec<Newcomer>) = newcomers.unzip();
        let announced = place::announce(&self.ctx, newcomers).await;
        let announced = indices.into_iter().zip(announced);
        let places = announced.filter_map(|(index, place)| match place {
            Ok(place) => Some((index, place)),
            Err(fault) => {
                set(results, index, fault);
                None
            }
        });
        places.collect()
    }

    /// Makes the places sure of tasks that were written.
    async fn confirm(&self, places: Vec<(usize, Announced)>, results: &mut [Option<Fault>]) {
        let written = places.into_iter().filter(|(index, _)| {
            // The place of another is a ghost, unless it was written all the same.
            results.get(*index).is_some_and(Option::is_none)
        });
        let (indices, places): (Vec<usize>, Vec<Announced>) = written.unzip();
        let confirmed = place::confirm(&self.ctx, places).await;
        for (index, confirmed) in indices.into_iter().zip(confirmed) {
            if let Err(fault) = confirmed {
                set(results, index, fault);
            }
        }
    }

    /// Sees to an entry that was written: returns up to where its wheel is closed if the task is near from now on.
    async fn follow_up(
        &self,
        entry: &Entry,
        placed: Result<Placed, Fault>,
    ) -> Result<Option<Tick>, Fault> {
        let wheel = entry.key.wheel();
        match placed? {
            // It may or may not be seen where it is: the copy is a duplicate.
            Placed::Closed(opened) => {
                self.withdraw(entry).await?;
                Ok(Some(opened))
            }
            Placed::Open if !self.hands.will_be_late(wheel, entry.start) => Ok(None),
            // Its entry stands. A later publication by the wheel is refused by the claim.
            Placed::Open if entry.spec.target.is_tracked() => {
                let dispatch = Dispatch::first(entry.key.id, entry.start);
                self.hold(dispatch, &entry.spec, None, true);
                Ok(None)
            }
            Placed::Open => Ok(None),
        }
    }

    /// Tells whether a record goes around its wheel, which is late. Records are not claimed, so a record must not
    /// be in two places. It cannot be cancelled on this way, so only a record that is due at once takes it.
    fn goes_around(&self, task: &Incoming) -> bool {
        !task.spec.target.is_tracked()
            && task.start < self.ctx.now().after(limits::BEHIND_MIN)
            && self.hands.will_be_late(task.id.wheel(), task.start)
    }

    /// Completes a task as [`Self::admit_in_line`] does; it starts no earlier than now.
    ///
    /// # Errors
    /// As of [`Self::admit_in_line`].
    pub(in crate::flow) async fn admit(&self, mut task: NewTask) -> Result<Incoming, Fault> {
        task.start = task.start.max(self.ctx.now());
        self.admit_in_line(task).await
    }

    /// Completes a task whose start is final, and draws its id. One that a node of the cluster does not know whole is refused
    /// here, before a record of a key or a row under a parent names it: others would bring it to life later.
    ///
    /// # Errors
    /// The rules of its callback cannot be told now, or as of [`Self::check_level`].
    pub(super) async fn admit_in_line(&self, task: NewTask) -> Result<Incoming, Fault> {
        let names = complete::callbacks(std::iter::once(&task.draft));
        let known = self.callbacks.known(names).await;
        let task = self.complete(task, &known)?;
        self.check_level(&task.spec).await?;
        Ok(task)
    }

    /// Completes a task from the rules of its callback, and draws its id. Where these cannot be told the task is refused: it
    /// must not be registered with other rules than its callback has.
    fn complete(&self, mut task: NewTask, known: &Known) -> Result<Incoming, Fault> {
        let after = task.draft.after.as_mut();
        let after = after.map(|asked| std::mem::take(&mut asked.ids));
        let spec = complete::complete(task.draft, known)?;
        let random = self.ctx.time.random();
        let start = task.start;
        let wheel = self.ctx.shape().wheel_of_hash(mix(random));
        let step = LookStep::covering(spec.claim_timeout);
        let id = TaskId::new(start, wheel, random).with_look_step(step);
        let (spec, content) = apart(spec);
        Ok(Incoming {
            id,
            start,
            spec: Arc::new(spec),
            content,
            content_written: CONTENT_WRITTEN,
            after: after.unwrap_or_default(),
            enlisted: false,
        })
    }

    /// Contents that are kept apart are durable before any entry names them.
    pub(super) async fn put_bodies(&self, incoming: &[Incoming], results: &mut [Option<Fault>]) {
        let mut by_time: BTreeMap<i64, Vec<(usize, TaskId, Arc<Content>)>> = BTreeMap::new();
        for (index, task) in incoming.iter().enumerate() {
            if let Some(content) = &task.content {
                let bodies = by_time.entry(task.content_written).or_default();
                bodies.push((index, task.id, Arc::clone(content)));
            }
        }
        for (written, bodies) in by_time {
            let (places, bodies): (Vec<usize>, Vec<_>) = bodies
                .into_iter()
                .map(|(index, id, content)| (index, (id, content)))
                .unzip();
            let put = self.ctx.store.put_bodies(&bodies, written, None).await;
            for (index, result) in places.into_iter().zip(put) {
                if let Err(error) = result {
                    set(results, index, error.into());
                }
            }
        }
    }

    fn due_entry(&self, task: &Incoming) -> Entry {
        let stamp = self.ctx.time.stamp();
        let entry = task.dispatch().entry(Arc::clone(&task.spec), stamp);
        entry.first_of_generation()
    }

    async fn register_near(
        &self,
        incoming: &[Incoming],
        near: Vec<(usize, Tick)>,
        results: &mut [Option<Fault>],
    ) {
        if near.is_empty() {
            return;
        }
        let records = near
            .iter()
            .filter_map(|(index, opened)| Some(self.record(incoming.get(*index)?, *opened)))
            .collect();
        let placed = if flaw::is(Flaw::NearWithoutRecord) {
            let records: Vec<Entry> = records;
            records.into_iter().map(Ok).collect()
        } else {
            self.placer.place(records).await
        };
        for ((index, _), placed) in near.into_iter().zip(placed) {
            let Some(task) = incoming.get(index) else {
                continue;
            };
            match placed {
                Ok(record) => {
                    let backup = (!task.spec.target.is_tracked()).then_some(record);
                    self.hold(task.dispatch(), &task.spec, backup, false);
                }
                Err(fault) => set(results, index, fault),
            }
        }
    }

    /// Builds the durable record of a near task.
    fn record(&self, task: &Incoming, opened: Tick) -> Entry {
        let mut record = near_record(&self.ctx, task.dispatch(), &task.spec, opened);
        // A task that is left to its look is published by the look for the first time.
        if let Kind::Look { published, held_by } = &mut record.kind
            && !self.near.has_room()
        {
            (*published, *held_by) = (None, None);
        }
        record
    }

    fn hold(&self, dispatch: Dispatch, spec: &Arc<Spec>, backup: Option<Entry>, stands: bool) {
        let sending = Sending {
            dispatch,
            spec: Arc::clone(spec),
            first: true,
            opened: None,
        };
        let task = NearTask {
            sending,
            backup,
            stands,
        };
        if let Err(action) = self.near.hold(task) {
            tracing::debug!(task = %dispatch.id, ?action, "no room for a near task");
        }
    }

    async fn withdraw(&self, entry: &Entry) -> Result<(), Fault> {
        let reason = crate::model::entry::DoneReason::Moved { to: entry.start };
        let mark = entry.marked_done(reason, self.ctx.now(), self.ctx.time.stamp());
        self.placer.mark(vec![mark]).await.into_iter().collect()
    }

    fn answer(&self, task: &Incoming, fault: Option<Fault>) -> Result<TaskView, Fault> {
        match fault {
            Some(fault) => Err(fault),
            None => {
                self.topics.expect(&task.spec);
                // The clock is read only if anybody listens.
                tracing::debug!(
                    target: TASK_EVENTS, task = %task.id, to = task.spec.target.name(),
                    due_in_ms = task.start.0 - self.ctx.now().0, "registered"
                );
                metrics::counter!("tickwheel_tasks_registered_total", "target" => task.spec.target.kind())
                    .increment(1);
                let view = find::unwritten_view(task.id, &task.spec, task.start);
                let waits = (!task.after.is_empty()).then(|| Waits::new(task.after.clone()));
                Ok(TaskView { waits, ..view })
            }
        }
    }
}

/// Takes a large content out of its spec.
fn apart(mut spec: Spec) -> (Spec, Option<Arc<Content>>) {
    let Body::Inline(content) = &mut spec.body else {
        return (spec, None);
    };
    let bytes = schema::content_bytes(content);
    if bytes <= limits::INLINE_BYTES_MAX {
        return (spec, None);
    }
    let content = Arc::new(std::mem::take(content));
    let bytes = bytes as u64;
    spec.body = Body::Apart { bytes };
    (spec, Some(content))
}

/// Every task that was entered has its result, so this never happens.
pub(super) fn unanswered() -> Fault {
    Fault::Unknown {
        reason: "the write of the task gave no answer".to_owned(),
    }
}

pub(super) fn set(results: &mut [Option<Fault>], index: usize, fault: Fault) {
    if let Some(result) = results.get_mut(index) {
        *result = Some(fault);
    }
}
