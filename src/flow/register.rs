//! Registration: write the entry, look at the clock, acknowledge.
//!
//! A task that is due behind everything closed gets a due entry in its slot: one plain write and one shared read. A task that
//! is due sooner ("near") gets its durable record first, a look (tracked) or a backup entry (`kafka` target), and waits in
//! this node's memory. A crash before the acknowledgement may leave a task that fires though nobody was told its id; a crash
//! after it loses nothing.

use std::sync::Arc;

use super::{
    TASK_EVENTS,
    api::{Fault, NewTask, TaskView},
    context::Context,
    find,
    hand::Hands,
    near::{Near, NearTask},
    place::{Placed, Placer},
    send::Sending,
    topics::Topics,
};
use crate::{
    flaw::{self, Flaw},
    limits,
    model::{
        backup,
        entry::{Entry, Key, KeyCode, Kind},
        ids::TaskId,
        look::Grid,
        look_step::LookStep,
        preference::mix,
        task::{Body, CONTENT_WRITTEN, Content, Spec, Target},
        time::{Millis, Tick},
    },
    schema,
};

/// A task with its id, on its way into the wheel.
#[derive(Debug, Clone)]
struct Incoming {
    id: TaskId,
    start: Millis,
    spec: Arc<Spec>,
}

/// The registrar.
#[derive(Debug, Clone)]
pub struct Registrar {
    ctx: Arc<Context>,
    hands: Hands,
    placer: Placer,
    near: Near,
    topics: Topics,
}

impl Registrar {
    /// Registers through these.
    #[must_use]
    pub fn new(ctx: Arc<Context>, hands: Hands, placer: Placer, near: Near) -> Self {
        let topics = Topics::new(Arc::clone(&ctx));
        Self {
            ctx,
            hands,
            placer,
            near,
            topics,
        }
    }

    /// Registers tasks; one result per task, in order. What is returned is durable.
    pub async fn register(&self, tasks: Vec<NewTask>) -> Vec<Result<TaskView, Fault>> {
        // Before anything is decided on: a wheel may go on meanwhile.
        if let Err(full) = self.ctx.store.let_in(tasks.len()).await {
            return vec![Err(full.into()); tasks.len()];
        }
        let mut bodies: Vec<(TaskId, Arc<Content>)> = Vec::new();
        let incoming: Vec<Incoming> = tasks
            .into_iter()
            .map(|task| self.admit(task, &mut bodies))
            .collect();
        let mut results: Vec<Option<Fault>> = vec![None; incoming.len()];
        self.put_bodies(&bodies, &incoming, &mut results).await;

        let mut near: Vec<(usize, Tick)> = Vec::new();
        let mut far: Vec<(usize, Entry)> = Vec::new();
        for (index, task) in incoming.iter().enumerate() {
            if results.get(index).is_some_and(Option::is_some) {
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
        incoming
            .into_iter()
            .zip(results)
            .map(|(task, fault)| self.answer(&task, fault))
            .collect()
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
            // Its entry stands. What the wheel publishes later is refused by the claim.
            Placed::Open if entry.spec.target.is_tracked() => {
                self.hold(entry.key.id, entry.start, &entry.spec, None, true);
                Ok(None)
            }
            Placed::Open => Ok(None),
        }
    }

    /// Tells whether a record goes around its wheel, which is late. Nobody claims a record, so it must not be in two places; and
    /// it cannot be cancelled then, so only one that is due at once does.
    fn goes_around(&self, task: &Incoming) -> bool {
        !task.spec.target.is_tracked()
            && task.start < self.ctx.now().after(limits::BEHIND_MIN)
            && self.hands.will_be_late(task.id.wheel(), task.start)
    }

    fn admit(&self, task: NewTask, bodies: &mut Vec<(TaskId, Arc<Content>)>) -> Incoming {
        let random = self.ctx.time.random();
        let start = task.start.max(self.ctx.now());
        let wheel = self.ctx.shape().wheel_of_hash(mix(random));
        let step = LookStep::covering(task.spec.claim_timeout);
        let id = TaskId::new(start, wheel, random).with_look_step(step);
        let mut spec = task.spec;
        if let Body::Inline(content) = &spec.body {
            let bytes = schema::content_bytes(content);
            if bytes > limits::INLINE_BYTES_MAX {
                bodies.push((id, Arc::new(content.clone())));
                spec.body = Body::Apart {
                    bytes: bytes as u64,
                };
            }
        }
        Incoming {
            id,
            start,
            spec: Arc::new(spec),
        }
    }

    /// Contents that are kept apart are durable before any entry names them.
    async fn put_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        incoming: &[Incoming],
        results: &mut [Option<Fault>],
    ) {
        if bodies.is_empty() {
            return;
        }
        let put = self
            .ctx
            .store
            .put_bodies(bodies, CONTENT_WRITTEN, None)
            .await;
        for ((id, _), result) in bodies.iter().zip(put) {
            let index = incoming.iter().position(|task| task.id == *id);
            if let (Err(error), Some(index)) = (result, index) {
                set(results, index, error.into());
            }
        }
    }

    fn due_entry(&self, task: &Incoming) -> Entry {
        let stamp = self.ctx.time.stamp();
        Entry::due(task.id, 0, 0, task.start, Arc::clone(&task.spec), stamp).first_of_generation()
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
                    self.hold(task.id, task.start, &task.spec, backup, false);
                }
                Err(fault) => set(results, index, fault),
            }
        }
    }

    /// The durable record of a near task.
    fn record(&self, task: &Incoming, opened: Tick) -> Entry {
        let mut record = near_record(&self.ctx, task.id, 0, 0, task.start, &task.spec, opened);
        // Left to its look, it goes out for the first time by that.
        if let Kind::Look { published } = &mut record.kind
            && !self.near.has_room()
        {
            *published = None;
        }
        record
    }

    fn hold(
        &self,
        id: TaskId,
        start: Millis,
        spec: &Arc<Spec>,
        backup: Option<Entry>,
        stands: bool,
    ) {
        let sending = Sending {
            id,
            generation: 0,
            expected_attempt: 0,
            start,
            spec: Arc::clone(spec),
            first: true,
        };
        let task = NearTask {
            sending,
            backup,
            stands,
        };
        if !self.near.hold(task) {
            tracing::debug!(task = %id, "no room for a near task: left to its durable record");
        }
    }

    async fn withdraw(&self, entry: &Entry) -> Result<(), Fault> {
        let reason = crate::model::entry::DoneReason::Moved { to: entry.start };
        let mark = entry.marked_done(reason, self.ctx.now(), self.ctx.time.stamp());
        self.placer.mark(vec![mark]).await.into_iter().collect()
    }

    fn answer(&self, task: &Incoming, fault: Option<Fault>) -> Result<TaskView, Fault> {
        let target = match task.spec.target {
            Target::Callback { .. } => "callback",
            Target::Kafka { .. } => "kafka",
        };
        match fault {
            Some(fault) => Err(fault),
            None => {
                self.topics.expect(&task.spec);
                // The clock is read only if anybody listens.
                tracing::debug!(
                    target: TASK_EVENTS, task = %task.id, to = task.spec.target.name(),
                    due_in_ms = task.start.0 - self.ctx.now().0, "registered"
                );
                metrics::counter!("tickwheel_tasks_registered_total", "target" => target)
                    .increment(1);
                Ok(find::unwritten_view(task.id, &task.spec, task.start))
            }
        }
    }
}

/// Builds the durable record of a task that a node is about to fire from memory: its look, or its backup entry.
pub(super) fn near_record(
    ctx: &Context,
    id: TaskId,
    generation: u32,
    expected_attempt: u32,
    start: Millis,
    spec: &Arc<Spec>,
    opened: Tick,
) -> Entry {
    let stamp = ctx.time.stamp();
    if spec.target.is_tracked() {
        let grid = Grid::of(id, ctx.shape());
        let at = grid.for_near(start, ctx.tick().end_of(opened));
        return Entry::look(
            id,
            generation,
            at,
            Some(start),
            start,
            Arc::clone(spec),
            stamp,
        );
    }
    let chance = ctx.time.random();
    let due = backup::due(ctx.shape(), opened, start, ctx.rules.look_ahead, chance);
    let entry = Entry::due(
        id,
        generation,
        expected_attempt,
        start,
        Arc::clone(spec),
        stamp,
    );
    let key = Key {
        due,
        code: KeyCode::due(expected_attempt),
        ..entry.key
    };
    Entry { key, ..entry }.first_of_generation()
}

fn set(results: &mut [Option<Fault>], index: usize, fault: Fault) {
    if let Some(result) = results.get_mut(index) {
        *result = Some(fault);
    }
}
