//! The key stage decides for registration whether a task may take the key that its client gave it.
//!
//! One conditional write of the record of the key decides, and only then is the entry of the task written
//! ([`crate::model::key`] has the rules). A request that finds the record of a live task writes that task again if it does
//! not stand: its writer may have died in between. The key of such a task is never taken over, so a slow writer does no harm.
//! Claims ask for nothing: a key costs its writes at the registration, and its task is a task like any other.

use std::{future::ready, sync::Arc};

use crate::{
    flaw::{self, Flaw},
    flow::base::{
        api::Fault,
        context::Context,
        documents::{self, Found, Reads, Step, Unsure, Update},
        rows::stored,
    },
    limits,
    model::{
        decision::Decision,
        entry::Entry,
        ids::TaskId,
        key::{self, Holder, Verdict},
        record::{Change, Kind, Name, Record},
        row::TaskRow,
        task::Spec,
        time::Millis,
    },
    schema::{decode_holder, encode_holder},
    store::{self, Freshness, Swapped},
};

/// The answer to a task that asks for a key.
#[derive(Debug)]
pub(in crate::flow) enum Reserved {
    /// The record names the task for the first time: it is to be written.
    Mine,
    /// The record named the task before, or did and has moved on since the task ended. Where it still does, this is the task
    /// that it names: the repetition of a request may name the task of another one.
    MineBefore(Option<Holder>),
    /// Another task is live, or is to be written still.
    Taken(Holder),
    /// Another task is dead, and its redrive is to be finished first.
    Redriven(TaskId),
}

/// The keeper of keys.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Keys {
    ctx: Arc<Context>,
}

impl Keys {
    /// Keeps keys in this store.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// Asks for a key. `was_out` says that the task may have been registered before: by a repetition, or by this request.
    pub(in crate::flow) async fn reserve(
        &self,
        task: (TaskId, &Arc<Spec>),
        name: &Name,
        was_out: bool,
    ) -> Result<Reserved, Fault> {
        let (id, spec) = task;
        let holder = Holder {
            id,
            generation: 0,
            spec: Arc::clone(spec),
        };
        let (unsure, tries) = (Unsure::ReadAgain, limits::KEY_RACES_MAX);
        let update = self.update(name, unsure, tries);
        let holder = &holder;
        let updated = update.run(Reads::Blind, |found| async move {
            if found.is_first {
                return self.take(name, None, holder);
            }
            // A write whose outcome was unknown may have been this task's.
            self.reserve_again(name, holder, found.record, was_out || found.is_unsure)
                .await
        });
        updated
            .await?
            .or(|| documents::raced(format_args!("the record of {name}")))
    }

    /// Decides of what was in the way of a task that asks for a key.
    async fn reserve_again(
        &self,
        name: &Name,
        holder: &Holder,
        there: Option<Record>,
        was_out: bool,
    ) -> Result<Step<Reserved>, Fault> {
        let id = holder.id;
        let Some(record) = there.filter(|record| !record.is_removed()) else {
            if was_out && stored::row(&self.ctx, id).await?.is_some() {
                return Ok(Step::Answer(Reserved::MineBefore(None)));
            }
            return self.take(name, None, holder);
        };
        let found = read(&record)?;
        // The record only moves on from a task that has ended, and then the row of that task is there.
        if was_out && found.id != id && stored::row(&self.ctx, id).await?.is_some() {
            return Ok(Step::Answer(Reserved::MineBefore(None)));
        }
        let row = stored::row(&self.ctx, found.id).await?;
        match key::judge(&found, row.as_ref(), id) {
            Verdict::Mine => Ok(Step::Answer(Reserved::MineBefore(Some(found)))),
            Verdict::Free => self.take(name, Some(&record), holder),
            Verdict::Live if flaw::is(Flaw::LiveKeyTaken) => self.take(name, Some(&record), holder),
            Verdict::Redriven => Ok(Step::Answer(Reserved::Redriven(found.id))),
            Verdict::Replaced => {
                if let Some(next) = row.and_then(|row| row.detail.next) {
                    self.advance(name, found.id, &next).await?;
                }
                self.take(name, None, holder)
            }
            Verdict::Live => {
                self.rescue(&record, &found).await?;
                Ok(Step::Answer(Reserved::Taken(found)))
            }
        }
    }

    fn take(
        &self,
        name: &Name,
        replaced: Option<&Record>,
        holder: &Holder,
    ) -> Result<Step<Reserved>, Fault> {
        let change = self.change(name, replaced, holder, holder.id.first_start())?;
        Ok(Step::Write(change, Reserved::Mine))
    }

    fn update<'a>(&'a self, name: &'a Name, unsure: Unsure, tries: usize) -> Update<'a> {
        Update {
            store: &*self.ctx.store,
            name,
            unsure,
            tries,
        }
    }

    /// Lets the record of a key name `to` if it names `from`, which was replaced, and tells whether it names `to` then. Otherwise
    /// another task has taken the place of `from`, or `to` has ended.
    pub(in crate::flow) async fn advance(
        &self,
        name: &Name,
        from: TaskId,
        to: &Holder,
    ) -> Result<bool, Fault> {
        let decide = |found: Found| {
            let there = found.record.as_ref();
            if let Some(record) = there.filter(|record| !record.is_removed()) {
                let named = read(record)?.id;
                if named != from {
                    return Ok(Step::Answer(named == to.id));
                }
            }
            let change = self.change(name, there, to, to.id.first_start())?;
            Ok::<_, Fault>(Step::Write(change, true))
        };
        let update = self.update(name, Unsure::ReadAgain, limits::KEY_RACES_MAX);
        let updated = update.run(Reads::Each(Freshness::Serial), |found| ready(decide(found)));
        updated
            .await?
            .or(|| documents::raced(format_args!("the record of {name}")))
    }

    /// Returns the task that replaced another one, whose row this is, if the replacing request may have died before it wrote that
    /// task. The record of the key names it then.
    ///
    /// # Errors
    /// When the store is away.
    pub(in crate::flow) async fn left_unwritten<'a>(
        &self,
        row: &'a TaskRow,
    ) -> Result<Option<&'a Holder>, Fault> {
        let (Some(next), Some(name)) = (&row.detail.next, name_of(&row.detail.spec)?) else {
            return Ok(None);
        };
        let record = self.ctx.store.record(&name, Freshness::Serial).await?;
        // A record that is gone has outlived the next task, whose row may be gone as well: it must not run again.
        let is_there = record.is_some_and(|record| !record.is_removed());
        let is_unwritten = is_there
            && self.advance(&name, row.id, next).await?
            && stored::row(&self.ctx, next.id).await?.is_none();
        Ok(is_unwritten.then_some(&**next))
    }

    /// Returns the task that a key names; none when the key is not known.
    pub(in crate::flow) async fn find(&self, name: &Name) -> Result<Option<TaskId>, Fault> {
        let record = self.ctx.store.record(name, Freshness::Quorum).await?;
        let record = record.filter(|record| !record.is_removed());
        record.map(|record| Ok(read(&record)?.id)).transpose()
    }

    /// Renews a record that is about to expire, before its task is answered as live.
    async fn rescue(&self, record: &Record, holder: &Holder) -> Result<(), Fault> {
        let now = self.ctx.now();
        let left = record.expires.map(|at| at.since(now));
        if left.is_none_or(|left| left >= key::RESCUED_BELOW) {
            return Ok(());
        }
        let change = self.change(&record.name, Some(record), holder, holder.id.first_start())?;
        // Else another request or a look has renewed it, or the task has ended meanwhile: the client asks again.
        let is_renewed = self.ctx.store.put_if(&change).await? == Swapped::Applied;
        is_renewed
            .then_some(())
            .ok_or_else(|| documents::raced(format_args!("the record of {}", record.name)))
    }

    /// Renews the records of keys whose tasks have been live for days, for their looks. One for which this fails is left to
    /// the next look: it has days left.
    pub(in crate::flow) async fn keep_all<'a>(
        &self,
        tasks: impl Iterator<Item = ((&'a &'a Entry, &'a Decision), &'a Option<TaskRow>)>,
        now: Millis,
    ) {
        for ((look, decision), row) in tasks {
            let (id, spec) = (look.key.id, &look.spec);
            let lives = matches!(decision, Decision::Publish(_) | Decision::LookAgain { .. });
            let start = row.as_ref().map(|row| row.detail.start);
            let start = start.unwrap_or_else(|| id.first_start());
            // A retry or a snooze may lie days ahead, and no look comes before.
            let acts = row.as_ref().map_or(now, |row| row.next.max(now));
            if spec.key.is_none() || !lives || !key::may_need_renewal(start, acts) {
                continue;
            }
            let until = acts.after(key::RENEWED_BELOW);
            if let Err(fault) = self.keep_until(id, spec, acts, until).await {
                tracing::debug!(task = %id, %fault, "the record of its key was left to the next look");
            }
        }
    }

    /// Sees to it that the record of a live task that is to start at `start` lives long enough, before it may start then.
    ///
    /// # Errors
    /// When it may not live so long.
    pub(in crate::flow) async fn keep(
        &self,
        id: TaskId,
        spec: &Arc<Spec>,
        start: Millis,
    ) -> Result<(), Fault> {
        let until = key::kept_until(start, self.ctx.now());
        self.keep_until(id, spec, start, until).await
    }

    /// Renews the record of a live task if it does not live until then. A record that names another task is left alone: this
    /// one has ended.
    async fn keep_until(
        &self,
        id: TaskId,
        spec: &Arc<Spec>,
        start: Millis,
        until: Millis,
    ) -> Result<(), Fault> {
        let Some(name) = name_of(spec)? else {
            return Ok(());
        };
        let decide = |found: Found| {
            let there = found.record.as_ref();
            let mut holder = Holder {
                id,
                generation: 0,
                spec: Arc::clone(spec),
            };
            if let Some(record) = there.filter(|record| !record.is_removed()) {
                holder = read(record)?;
                let lives = record.expires.is_none_or(|at| at >= until);
                if holder.id != id || lives {
                    return Ok(Step::Answer(()));
                }
            }
            let change = self.change(&name, there, &holder, start)?;
            Ok::<_, Fault>(Step::Write(change, ()))
        };
        let update = self.update(&name, Unsure::ReadAgain, limits::RACES_MAX);
        let updated = update.run(Reads::Each(Freshness::Quorum), |found| ready(decide(found)));
        updated
            .await?
            .or(|| documents::raced(format_args!("the record of {name}")))
    }

    /// Gives a dead task its key back before it is redriven to `generation`. False when the key names another task that is live.
    ///
    /// A crash behind this leaves a dead task whose record names a later generation: the next request for the key finishes
    /// the redrive.
    pub(in crate::flow) async fn take_back(
        &self,
        id: TaskId,
        spec: &Arc<Spec>,
        generation: u32,
        start: Millis,
    ) -> Result<bool, Fault> {
        let Some(name) = name_of(spec)? else {
            return Ok(true);
        };
        let holder = Holder {
            id,
            generation,
            spec: Arc::clone(spec),
        };
        let (name, holder) = (&name, &holder);
        let decide = |found: Found| async move {
            let there = found.record.as_ref();
            if let Some(record) = there.filter(|record| !record.is_removed()) {
                let other = read(record)?;
                let row = stored::row(&self.ctx, other.id).await?;
                match key::judge(&other, row.as_ref(), id) {
                    Verdict::Mine if other.generation >= generation => {
                        return Ok(Step::Answer(true));
                    }
                    Verdict::Mine | Verdict::Free => {}
                    Verdict::Replaced | Verdict::Redriven | Verdict::Live => {
                        return Ok(Step::Answer(false));
                    }
                }
            }
            let change = self.change(name, there, holder, start)?;
            Ok::<_, Fault>(Step::Write(change, true))
        };
        let update = self.update(name, Unsure::ReadAgain, limits::RACES_MAX);
        let updated = update.run(Reads::Each(Freshness::Serial), decide);
        updated
            .await?
            .or(|| documents::raced(format_args!("the record of {name}")))
    }

    fn change(
        &self,
        name: &Name,
        replaced: Option<&Record>,
        holder: &Holder,
        start: Millis,
    ) -> Result<Change, Fault> {
        let mark = self.ctx.time.mark();
        let until = key::kept_until(start, self.ctx.now());
        // Never lowered for one task. The end for another task must not lie behind the row of this one: a helper would wake it.
        let names_it = |record: &&Record| read(record).is_ok_and(|named| named.id == holder.id);
        let before = replaced.filter(names_it).and_then(|record| record.expires);
        let expires = Some(before.map_or(until, |before| before.max(until)));
        let value = encode_holder(holder);
        Change::put(name.clone(), replaced, value, expires, mark).map_err(Fault::from)
    }
}

/// Returns the name of the record of a key. The name of a callback has no slash, so no two keys share a record.
pub(in crate::flow) fn name(callback: &str, key: &str) -> Result<Name, Fault> {
    Name::new(Kind::Key, &format!("{callback}/{key}")).map_err(Fault::from)
}

/// Returns the name of the record of a task; none for a task without key.
pub(in crate::flow) fn name_of(spec: &Spec) -> Result<Option<Name>, Fault> {
    match (spec.callback(), &spec.key) {
        (Some(callback), Some(key)) => name(callback, key).map(Some),
        _ => Ok(None),
    }
}

fn read(record: &Record) -> Result<Holder, Fault> {
    let value = record.value.clone().unwrap_or_default();
    decode_holder(value).map_err(|cause| {
        let error = store::Error::Corrupt {
            operation: "read the record of a key",
            reason: cause.to_string(),
        };
        error.into()
    })
}
