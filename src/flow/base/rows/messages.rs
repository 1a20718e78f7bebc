//! The keeper of messages writes what workers tell with their heartbeats, for people, and reads it.
//!
//! The messages of an attempt lie apart from the row of its task, under a key of their own, so that rows stay small and tasks
//! without messages pay nothing. They are read, added to and written as a whole: of two heartbeats of one attempt that come at
//! the same moment one message may be lost. They have an end of life from the start. A worker tells the same with each heartbeat
//! until it has something new, so a node remembers what it wrote last.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    flow::base::{api::Fault, context::Context},
    limits::TOLD_ATTEMPTS_MAX,
    model::{
        ids::TaskId,
        messages::{self, MESSAGES_RENEWED, Message},
        row::TaskRow,
        task::{Content, Spec},
        time::Millis,
    },
    schema::{decode_messages, encode_messages},
    time_source::Moment,
};

/// Attempts whose messages are read and written together: some 16 KiB each at most.
const AT_ONCE: usize = 64;

/// A message that came with a heartbeat.
#[derive(Debug)]
pub(in crate::flow) struct Told<'a> {
    pub(in crate::flow) id: TaskId,
    pub(in crate::flow) attempt: u32,
    pub(in crate::flow) spec: &'a Spec,
    pub(in crate::flow) note: &'a Bytes,
}

/// The memory of what was written last: for each attempt the hash of its last message, and when that was written.
#[derive(Debug, Default)]
pub(in crate::flow) struct Memory(Mutex<HashMap<(TaskId, u32), (u64, Moment)>>);

impl Memory {
    fn has(&self, told: &Told<'_>, now: Moment) -> bool {
        let known = self.0.lock();
        known
            .get(&(told.id, told.attempt))
            .is_some_and(|(hash, written)| {
                *hash == xxh3_64(told.note) && now.since(*written) < MESSAGES_RENEWED
            })
    }

    fn note(&self, told: &Told<'_>, now: Moment) {
        let mut known = self.0.lock();
        if known.len() >= TOLD_ATTEMPTS_MAX {
            // Each costs one read and one write more with its next heartbeat.
            known.clear();
        }
        known.insert((told.id, told.attempt), (xxh3_64(told.note), now));
    }

    /// Writes the messages that are new. One that cannot be written is told again with the next heartbeat.
    pub(in crate::flow) async fn keep(&self, ctx: &Context, told: Vec<Told<'_>>, at: Millis) {
        let now = ctx.time.moment();
        let is_new = |told: &Told<'_>| !self.has(told, now);
        let told: Vec<Told<'_>> = told.into_iter().filter(is_new).collect();
        for told in told.chunks(AT_ONCE) {
            match put(ctx, told, at).await {
                Ok(()) => told.iter().for_each(|told| self.note(told, now)),
                Err(fault) => tracing::debug!(%fault, "messages of attempts are not written"),
            }
        }
    }
}

async fn put(ctx: &Context, told: &[Told<'_>], at: Millis) -> Result<(), Fault> {
    let attempts: Vec<(TaskId, u32)> = told.iter().map(|told| (told.id, told.attempt)).collect();
    let there = read(ctx, &attempts).await?;
    let written = ctx.time.stamp();
    let puts = told.iter().zip(there).map(|(told, there)| {
        let message = Message {
            at,
            note: told.note.clone(),
        };
        let messages = messages::with(there, message);
        let content = Content {
            payload: encode_messages(&messages),
            ..Content::default()
        };
        let kept = u32::try_from(messages::kept(told.spec).as_secs()).unwrap_or(u32::MAX);
        let body = (messages::key(told.id, told.attempt), Arc::new(content));
        async move { ctx.store.put_bodies(&[body], written, Some(kept)).await }
    });
    let put = futures_util::future::join_all(puts).await;
    put.into_iter().flatten().collect::<Result<(), _>>()?;
    Ok(())
}

/// Reads the messages of attempts, in their order; none where there are none, or they are damaged.
///
/// # Errors
/// When the store is away.
pub(in crate::flow) async fn read(
    ctx: &Context,
    attempts: &[(TaskId, u32)],
) -> Result<Vec<Vec<Message>>, Fault> {
    let keys: Vec<TaskId> = attempts
        .iter()
        .map(|(id, attempt)| messages::key(*id, *attempt))
        .collect();
    let found = ctx.store.bodies_each(&keys).await.into_iter();
    let told = found.map(|found| match found {
        Ok(Some(content)) => Ok(decode_messages(content.payload).unwrap_or_default()),
        Ok(None) => Ok(Vec::new()),
        Err(error) if error.is_of_a_row() => {
            tracing::error!(%error, "messages of an attempt are damaged, and count as gone");
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    });
    told.collect()
}

/// Deletes the messages of the attempts that a task shows.
///
/// # Errors
/// When the store is away; repeating it is safe.
pub(in crate::flow) async fn delete(ctx: &Context, row: &TaskRow) -> Result<(), Fault> {
    let first = row.attempt.saturating_sub(DELETED_ATTEMPTS_MAX - 1).max(1);
    let attempts = first..=row.attempt;
    let keys: Vec<TaskId> = attempts
        .map(|attempt| messages::key(row.id, attempt))
        .collect();
    if keys.is_empty() {
        return Ok(());
    }
    Ok(ctx.store.delete_bodies(&keys, ctx.time.stamp()).await?)
}

/// Attempts of a task whose messages a deletion removes, the last ones. Those before end with their retention.
const DELETED_ATTEMPTS_MAX: u32 = 100;
