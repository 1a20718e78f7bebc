//! The idempotency stage makes a request that a client marked with a key count once, however often it is sent.
//!
//! The record of the key is written on the condition that none is there, and before the task: it names the id that the
//! task will have. A request that finds the record takes that id instead of its own. So all of them register one task,
//! and a crash between the record and the task is repaired by the next of them. One conditional write decides, so two
//! requests at once are one task as well.

use std::{future::ready, sync::Arc};

use crate::{
    flow::base::{
        api::Fault,
        context::Context,
        documents::{self, Found, Reads, Step, Unsure, Update},
    },
    limits,
    model::{
        ids::TaskId,
        record::{Change, Kind, Name, Record},
    },
    schema::{Request, decode_request, encode_request},
    store::{self, Freshness},
};

/// The mark by which a request is known again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestMark {
    /// The key, as the client chose it.
    pub key: String,
    /// The hash of the request as it was sent.
    pub hash: u128,
}

/// The meaning of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) enum Marked {
    /// The request is the first of its key.
    First,
    /// The request has come before, and its task has this id.
    Again(TaskId),
    /// The key belongs to a request with another body.
    OtherRequest,
}

/// Marks a request whose task would have this id.
///
/// # Errors
/// [`Fault::Unavailable`] when the store cannot decide. A record that was written all the same does no harm: the
/// repetition of the request finds it.
pub(in crate::flow) async fn mark(
    ctx: &Arc<Context>,
    mark: &RequestMark,
    id: TaskId,
) -> Result<Marked, Fault> {
    let name = Name::new(Kind::IdempotencyKey, &mark.key)?;
    // One mark for all tries: a record with it is of this request, whatever try wrote it.
    let write = ctx.time.mark();
    let hash = mark.hash;
    let value = encode_request(&Request { id, hash });
    let expires = Some(ctx.now().after(limits::IDEMPOTENCY_KEPT));
    let update = Update {
        store: &*ctx.store,
        name: &name,
        unsure: Unsure::ReadAgain,
        tries: limits::RACES_MAX,
    };
    let updated = update.run(Reads::Blind, |found| {
        ready(match found.record {
            Some(record) if record.nonce == write.nonce => Ok(Step::Answer(Marked::First)),
            Some(record) if !record.is_removed() => read(&record, hash).map(Step::Answer),
            // Removed or not there: nothing is known, and the write is repeated as it is.
            there => {
                let (name, value) = (name.clone(), value.clone());
                let change = Change::put(name, there.as_ref(), value, expires, write);
                change
                    .map(|change| Step::Write(change, Marked::First))
                    .map_err(Fault::from)
            }
        })
    });
    updated
        .await?
        .or(|| documents::unavailable("the idempotency key is being written by many at once"))
}

/// Returns what is known of a request that is not written down here; none if it has not come before.
///
/// # Errors
/// [`Fault::Unavailable`] when the store is away.
pub(in crate::flow) async fn known(
    ctx: &Arc<Context>,
    mark: &RequestMark,
) -> Result<Option<Marked>, Fault> {
    let name = Name::new(Kind::IdempotencyKey, &mark.key)?;
    let record = ctx.store.record(&name, Freshness::Quorum).await?;
    let record = record.filter(|record| !record.is_removed());
    record.map(|record| read(&record, mark.hash)).transpose()
}

/// Lets the record of a mark name another task: the one that has the key of the task it named.
///
/// # Errors
/// When it may not name it. The repetition asks for the key again then.
pub(in crate::flow) async fn point(
    ctx: &Arc<Context>,
    mark: &RequestMark,
    from: TaskId,
    to: TaskId,
) -> Result<(), Fault> {
    let name = Name::new(Kind::IdempotencyKey, &mark.key)?;
    let update = Update {
        store: &*ctx.store,
        name: &name,
        unsure: Unsure::ReadAgain,
        tries: 1,
    };
    let hash = mark.hash;
    let value = encode_request(&Request { id: to, hash });
    let decide = |found: Found| {
        let there = found.record.filter(|record| !record.is_removed());
        let Some(record) = there else {
            return Ok(Step::Answer(()));
        };
        if read(&record, hash)? != Marked::Again(from) {
            return Ok(Step::Answer(()));
        }
        let (value, write) = (value.clone(), ctx.time.mark());
        let change = Change::put(name.clone(), Some(&record), value, record.expires, write)?;
        Ok::<_, Fault>(Step::Write(change, ()))
    };
    let each = Reads::Each(Freshness::Serial);
    let updated = update.run(each, |found| ready(decide(found)));
    let raced =
        || documents::unavailable("the idempotency key is being written by another request");
    updated.await?.or(raced)
}

fn read(record: &Record, hash: u128) -> Result<Marked, Fault> {
    let value = record.value.clone().unwrap_or_default();
    let request = decode_request(value).map_err(|cause| store::Error::Corrupt {
        operation: "read the record of an idempotency key",
        reason: cause.to_string(),
    })?;
    Ok(if request.hash == hash {
        Marked::Again(request.id)
    } else {
        Marked::OtherRequest
    })
}
