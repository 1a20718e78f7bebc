//! Updates a record on the condition that nobody changed it meanwhile: the one loop of conditional writes.
//!
//! Callers say where the record comes from before each try ([`Reads`]), what a write with an unknown outcome means to them
//! ([`Unsure`]), and how many writes may be lost. A pure or asynchronous closure decides of what is there.

use std::fmt::Display;

use uuid::Uuid;

use crate::{
    flow::base::api::Fault,
    limits::RACED_RETRY_AFTER,
    model::record::{Change, Name, Record},
    store::{Error, Freshness, Store, Swapped},
};

/// Where the record comes from before a try.
#[derive(Debug)]
pub(in crate::flow) enum Reads {
    /// The first try assumes that none is there, which saves a read for records that are mostly new. The record
    /// that a lost write found is decided of behind the last of them as well.
    Blind,
    /// The caller has read it. A later try has what the lost write found.
    Known(Option<Record>),
    /// It is read before the first try. A later try has what the lost write found.
    Once(Freshness),
    /// It is read before each try: the decision rests on more than the record, such as the row of a task.
    Each(Freshness),
}

/// The meaning of a write whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) enum Unsure {
    /// A serial read settles it: the record has the nonce of the write, or the write is lost for good.
    Settled,
    /// The next try finds it or not in what is read: by a serial read, or by that of [`Reads::Each`]. Its decision recognizes it.
    ReadAgain,
    /// The loop ends: the write gave something away that must not be given twice, or its caller reports that it is unknown.
    Final,
}

/// The record before a try.
#[derive(Debug)]
pub(in crate::flow) struct Found {
    pub(in crate::flow) record: Option<Record>,
    /// No write was made before.
    pub(in crate::flow) is_first: bool,
    /// The outcome of an earlier try is unknown.
    pub(in crate::flow) is_unsure: bool,
}

/// A decision about a record.
#[derive(Debug)]
pub(in crate::flow) enum Step<R> {
    /// This is written, and then this is the answer.
    Write(Change, R),
    /// It stays, and this is the answer.
    Answer(R),
}

/// The end of the loop.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::flow) enum Updated<R> {
    /// The answer of the decision.
    Done(R),
    /// Others were first each time.
    Raced,
    /// The outcome is unknown: [`Unsure::Final`].
    Unknown,
}

impl<R> Updated<R> {
    /// Returns the answer, or this error where there is none.
    pub(in crate::flow) fn or<E>(self, error: impl FnOnce() -> E) -> Result<R, E> {
        match self {
            Self::Done(answer) => Ok(answer),
            Self::Raced | Self::Unknown => Err(error()),
        }
    }
}

/// A conditional write of a record, repeated until one is applied or the decision needs none.
#[derive(Clone, Copy)]
pub(in crate::flow) struct Update<'a> {
    pub(in crate::flow) store: &'a dyn Store,
    pub(in crate::flow) name: &'a Name,
    pub(in crate::flow) unsure: Unsure,
    /// How many writes may be lost.
    pub(in crate::flow) tries: usize,
}

impl Update<'_> {
    /// Writes what `decide` says of what is there.
    ///
    /// # Errors
    /// Of the store and of `decide`. The record may have been written.
    pub(in crate::flow) async fn run<R, E, F>(
        self,
        reads: Reads,
        decide: impl FnMut(Found) -> F,
    ) -> Result<Updated<R>, E>
    where
        E: From<Error>,
        F: Future<Output = Result<Step<R>, E>>,
    {
        let store = self.store;
        self.run_by(reads, decide, |change| async move {
            store.put_if(&change).await
        })
        .await
    }

    /// As [`Update::run`], by a write that does more than the store's own.
    ///
    /// # Errors
    /// As [`Update::run`].
    pub(in crate::flow) async fn run_by<R, E, F, P>(
        self,
        reads: Reads,
        mut decide: impl FnMut(Found) -> F,
        mut put: impl FnMut(Change) -> P,
    ) -> Result<Updated<R>, E>
    where
        E: From<Error>,
        F: Future<Output = Result<Step<R>, E>>,
        P: Future<Output = Result<Swapped<Option<Record>>, Error>>,
    {
        let (is_blind, each) = match reads {
            Reads::Each(freshness) => (false, Some(freshness)),
            Reads::Blind => (true, None),
            Reads::Known(_) | Reads::Once(_) => (false, None),
        };
        let mut there = match reads {
            Reads::Blind | Reads::Each(_) => None,
            Reads::Known(record) => record,
            Reads::Once(freshness) => self.store.record(self.name, freshness).await?,
        };
        let mut is_unsure = false;
        for written in 0..self.tries + usize::from(is_blind) {
            if let Some(freshness) = each {
                there = self.store.record(self.name, freshness).await?;
            }
            let found = Found {
                record: there.take(),
                is_first: written == 0,
                is_unsure,
            };
            let (change, answer) = match decide(found).await? {
                Step::Answer(answer) => return Ok(Updated::Done(answer)),
                Step::Write(..) if written == self.tries => break,
                Step::Write(change, answer) => (change, answer),
            };
            let nonce = change.record().nonce;
            match put(change).await? {
                Swapped::Applied => return Ok(Updated::Done(answer)),
                Swapped::Conflict(other) => there = other,
                Swapped::Unknown if self.unsure == Unsure::Final => return Ok(Updated::Unknown),
                Swapped::Unknown if each.is_some() => is_unsure = true,
                Swapped::Unknown => match settle(self.store, self.name, nonce).await? {
                    Put::Done(_) if self.unsure == Unsure::Settled => {
                        return Ok(Updated::Done(answer));
                    }
                    Put::Done(other) => (there, is_unsure) = (Some(other), true),
                    Put::Lost(other) => (there, is_unsure) = (other, true),
                },
            }
        }
        Ok(Updated::Raced)
    }
}

/// The outcome of one conditional write.
#[derive(Debug)]
pub(in crate::flow) enum Put {
    /// The record is this now.
    Done(Record),
    /// It was not written, and will not be: this is there.
    Lost(Option<Record>),
}

/// Writes a record once.
///
/// # Errors
/// Of the store. It may have been written.
pub(in crate::flow) async fn put(store: &dyn Store, change: &Change) -> Result<Put, Error> {
    let record = change.record();
    match store.put_if(change).await? {
        Swapped::Applied => Ok(Put::Done(record.clone())),
        Swapped::Conflict(there) => Ok(Put::Lost(there)),
        Swapped::Unknown => settle(store, &record.name, record.nonce).await,
    }
}

/// Finds out whether a write with this nonce was applied. The serial read settles what is in flight.
///
/// # Errors
/// Of the store: it is still unknown.
pub(in crate::flow) async fn settle(
    store: &dyn Store,
    name: &Name,
    nonce: Uuid,
) -> Result<Put, Error> {
    let there = store.record(name, Freshness::Serial).await?;
    Ok(match there {
        Some(record) if record.nonce == nonce => Put::Done(record),
        there => Put::Lost(there),
    })
}

/// The answer when a record was written by others all the time.
pub(in crate::flow) fn raced(what: impl Display) -> Fault {
    unavailable(format_args!("{what} is being changed by many at once"))
}

/// The answer when a record cannot be written or read now.
pub(in crate::flow) fn unavailable(reason: impl Display) -> Fault {
    Fault::Unavailable {
        reason: reason.to_string(),
        retry_after: RACED_RETRY_AFTER,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::ready,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use super::*;
    use crate::{
        doubles::store::{
            faulty::{Call, Fate},
            memory::MemoryStore,
        },
        model::{
            record::Kind,
            time::{Millis, TickLength},
            wheel::Shape,
        },
        store::records::RecordStore as _,
        time_source::TimeSource,
    };

    /// A store with one record, and what a caller saw of it.
    struct World {
        time: TimeSource,
        store: Arc<MemoryStore>,
        name: Name,
        seen: Mutex<Vec<(Option<&'static str>, bool, bool)>>,
        reads: Arc<Mutex<Vec<&'static str>>>,
    }

    impl World {
        fn new() -> Self {
            let time = TimeSource::simulated(Millis(1_800_000_000_000), 1);
            let tick = TickLength::new(Duration::from_secs(1)).unwrap();
            let store = MemoryStore::new(Shape::new(1, tick, 8).unwrap(), time.clone());
            Self {
                time,
                store,
                name: Name::new(Kind::IdempotencyKey, "k").unwrap(),
                seen: Mutex::default(),
                reads: Arc::default(),
            }
        }

        fn change(&self, replaced: Option<&Record>, value: &'static str) -> Change {
            let mark = self.time.mark();
            Change::put(self.name.clone(), replaced, value.into(), None, mark).unwrap()
        }

        /// Writes by another caller.
        async fn other(&self, value: &'static str) -> Record {
            let there = self.there().await;
            let change = self.change(there.as_ref(), value);
            assert_eq!(self.store.put_if(&change).await.unwrap(), Swapped::Applied);
            change.record().clone()
        }

        async fn there(&self) -> Option<Record> {
            self.store
                .record(&self.name, Freshness::Serial)
                .await
                .unwrap()
        }

        /// Writes "mine" unless it is there, or answers what is there where that is "taken". The outcome of the first write is
        /// unknown if `is_lost`.
        async fn update(
            &self,
            (reads, unsure, tries): (Reads, Unsure, usize),
            is_lost: bool,
        ) -> Updated<&'static str> {
            let (calls, lost) = (Arc::clone(&self.reads), Mutex::new(is_lost));
            let hook = move |call: Call| {
                calls.lock().unwrap().push(call.operation);
                let is_lost = call.conditional && std::mem::take(&mut *lost.lock().unwrap());
                if is_lost { Fate::LoseReply } else { Fate::Go }
            };
            let store = self.store.handle_with(Arc::new(hook));
            let update = Update {
                store: &*store,
                name: &self.name,
                unsure,
                tries,
            };
            let decide = |found: Found| {
                let value = found
                    .record
                    .as_ref()
                    .and_then(|record| record.value.clone());
                let value = value.map(|value| match &value[..] {
                    b"mine" => "mine",
                    b"taken" => "taken",
                    _ => "other",
                });
                let saw = (value, found.is_first, found.is_unsure);
                self.seen.lock().unwrap().push(saw);
                ready(Ok::<_, Error>(match value {
                    Some(value @ ("mine" | "taken")) => Step::Answer(value),
                    _ => Step::Write(self.change(found.record.as_ref(), "mine"), "written"),
                }))
            };
            update.run(reads, decide).await.unwrap()
        }

        fn seen(&self) -> Vec<(Option<&'static str>, bool, bool)> {
            std::mem::take(&mut self.seen.lock().unwrap())
        }

        fn calls(&self) -> Vec<&'static str> {
            std::mem::take(&mut self.reads.lock().unwrap())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_with_an_unknown_outcome_is_settled_recognized_or_final() {
        let first = (None, true, false);
        let mine = (Some("mine"), false, true);
        let serial = Freshness::Serial;
        for (reads, unsure, ended, seen, calls) in [
            (
                Reads::Blind,
                Unsure::Settled,
                Updated::Done("written"),
                vec![first],
                2,
            ),
            (
                Reads::Blind,
                Unsure::ReadAgain,
                Updated::Done("mine"),
                vec![first, mine],
                2,
            ),
            (
                Reads::Blind,
                Unsure::Final,
                Updated::Unknown,
                vec![first],
                1,
            ),
            (
                Reads::Once(serial),
                Unsure::Settled,
                Updated::Done("written"),
                vec![first],
                3,
            ),
            (
                Reads::Each(serial),
                Unsure::ReadAgain,
                Updated::Done("mine"),
                vec![first, mine],
                3,
            ),
            (
                Reads::Known(None),
                Unsure::Final,
                Updated::Unknown,
                vec![first],
                1,
            ),
        ] {
            let world = World::new();
            let case = format!("{reads:?} {unsure:?}");
            assert_eq!(
                world.update((reads, unsure, 2), true).await,
                ended,
                "{case}"
            );
            assert_eq!((world.seen(), world.calls().len()), (seen, calls), "{case}");
            assert!(world.there().await.is_some(), "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_write_is_decided_again_on_what_is_there_as_often_as_may_be() {
        let world = World::new();
        let old = world.other("other").await;
        world.other("newer").await;
        // The record that the caller has read is old: the lost write brings what is there.
        let known = || Reads::Known(Some(old.clone()));
        assert_eq!(
            world.update((known(), Unsure::Settled, 1), false).await,
            Updated::Raced
        );
        assert_eq!(world.seen().len(), 1);
        let done = world.update((known(), Unsure::Settled, 2), false).await;
        assert_eq!((done, world.seen().len()), (Updated::Done("written"), 2));
        assert!(!world.calls().contains(&"record"), "it was read");
        // It is there now, and stays.
        let done = world.update((Reads::Once(Freshness::Quorum), Unsure::Settled, 1), false);
        assert_eq!(done.await, Updated::Done("mine"));
        assert_eq!(world.seen(), [(Some("mine"), true, false)]);
        assert_eq!(world.calls(), ["record"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_blind_write_is_decided_of_behind_the_last_try_and_not_written_then() {
        for (there, ended) in [("taken", Updated::Done("taken")), ("other", Updated::Raced)] {
            let world = World::new();
            let before = world.other(there).await;
            assert_eq!(
                world
                    .update((Reads::Blind, Unsure::Settled, 1), false)
                    .await,
                ended
            );
            assert_eq!(
                world.seen(),
                [(None, true, false), (Some(there), false, false)]
            );
            assert_eq!(world.there().await, Some(before));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_write_tells_what_is_in_its_way() {
        let world = World::new();
        let store: &dyn Store = &*world.store.handle();
        let change = world.change(None, "mine");
        assert!(
            matches!(put(store, &change).await.unwrap(), Put::Done(it) if it == *change.record())
        );
        let late = world.change(None, "late");
        assert!(
            matches!(put(store, &late).await.unwrap(), Put::Lost(Some(it)) if it == *change.record())
        );
        let lost = world.store.handle_with(Arc::new(|call: Call| {
            if call.conditional {
                Fate::LoseReply
            } else {
                Fate::Go
            }
        }));
        let next = world.change(Some(change.record()), "other");
        assert!(matches!(put(&*lost, &next).await.unwrap(), Put::Done(it) if it == *next.record()));
    }
}
