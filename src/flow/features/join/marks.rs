//! The marks say for end steps which callbacks have tasks that others wait for.
//!
//! A registration sets the marks of its dependencies, in one record, before it writes any row. They stay, but for those of
//! tasks that are not known, which end behind the deadline of the wait. A node reads the record again when its copy is some
//! seconds old, and only where a task ends whose mark is not set. So ends of tasks for which nobody ever waited cost a read in
//! two seconds, all together.

use std::future::ready;

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        documents::{self, Reads, Step, Unsure, Update},
    },
    limits::FAMILY_RACES_MAX,
    model::{
        join::Marks,
        record::{Change, Kind, Name, Record},
    },
    schema::{decode_marks, encode_marks},
    store::{self, Freshness},
};

/// The key of the one record.
const KEY: &str = "marks";

/// Tells whether a task of this callback may have waiters.
///
/// # Errors
/// When the store is away.
pub(super) async fn may_be_awaited(ctx: &Context, callback: &str) -> Result<bool, Fault> {
    let (joins, mark) = (&ctx.joins, Marks::of(callback));
    let now = || (ctx.time.moment(), ctx.now());
    if let Some(answer) = joins.may_have(mark, now()) {
        return Ok(answer);
    }
    // Many tasks may end at once: one of them reads for all.
    let _one = joins.reading.lock().await;
    if let Some(answer) = joins.may_have(mark, now()) {
        return Ok(answer);
    }
    let began = ctx.time.moment();
    let record = ctx.store.record(&name()?, Freshness::Quorum).await?;
    let marks = marks_of(record.as_ref())?;
    joins.learn(marks, Some(began));
    Ok(marks.covers(mark, ctx.now()))
}

/// Sets marks. They are durable then.
///
/// # Errors
/// When they may not be.
pub(super) async fn set(ctx: &Context, marks: Marks) -> Result<(), Fault> {
    if ctx.joins.knows(marks) {
        return Ok(());
    }
    let name = name()?;
    let update = Update {
        store: &*ctx.store,
        name: &name,
        unsure: Unsure::ReadAgain,
        tries: FAMILY_RACES_MAX,
    };
    let decide = |record: Option<Record>| {
        let there = marks_of(record.as_ref())?;
        if there.has(marks) {
            return Ok(Step::Answer(there));
        }
        let (value, mark) = (encode_marks(there.with(marks)), ctx.time.mark());
        let change = Change::put(name.clone(), record.as_ref(), value, None, mark)?;
        Ok::<_, Fault>(Step::Write(change, marks))
    };
    let each = Reads::Each(Freshness::Serial);
    let updated = update.run(each, |found| ready(decide(found.record)));
    let raced = || documents::unavailable("the marks of joins are being changed by many at once");
    ctx.joins.learn(updated.await?.or(raced)?, None);
    Ok(())
}

fn marks_of(record: Option<&Record>) -> Result<Marks, Fault> {
    let value = record.and_then(|record| record.value.clone());
    let marks = value.map_or_else(|| Ok(Marks::default()), decode_marks);
    marks.map_err(|cause| {
        let operation = "read the marks of joins";
        let reason = cause.to_string();
        store::Error::Corrupt { operation, reason }.into()
    })
}

fn name() -> Result<Name, Fault> {
    Name::new(Kind::Joins, KEY).map_err(Fault::from)
}
