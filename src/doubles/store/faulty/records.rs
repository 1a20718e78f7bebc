//! The faulty store passes the calls of records and of the index on, each with the fate that its hook chooses.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Call, Faulty, Reply};
use crate::{
    model::record::{Change, Name, Record},
    store::{
        Error, Freshness, IndexStore, RecordStore, Store, Swapped,
        index::{IndexPage, IndexPut, IndexRange, IndexRemoval},
    },
};

#[async_trait]
impl IndexStore for Faulty {
    async fn put_index(&self, rows: &[IndexPut]) -> Vec<Result<(), Error>> {
        let (count, written) = (rows.len(), rows.to_vec());
        let put = |store: Arc<dyn Store>| async move { store.put_index(&written).await };
        let kind = rows.first().map(|row| row.place().partition().kind());
        let call = Call {
            index: kind,
            ..Call::write("put_index").of(count)
        };
        self.plain_all(call, count, put).await
    }

    async fn remove_index(&self, rows: &[IndexRemoval]) -> Vec<Result<(), Error>> {
        let (count, removed) = (rows.len(), rows.to_vec());
        let remove = |store: Arc<dyn Store>| async move { store.remove_index(&removed).await };
        let kind = rows.first().map(|row| row.place.partition().kind());
        let call = Call {
            index: kind,
            ..Call::write("remove_index").of(count)
        };
        self.plain_all(call, count, remove).await
    }

    async fn index_range(&self, range: &IndexRange) -> Result<IndexPage, Error> {
        let call = Call {
            index: Some(range.partition.kind()),
            ..Call::read("index_range")
        };
        let range = range.clone();
        let read = |store: Arc<dyn Store>| async move { store.index_range(&range).await };
        self.plain(call, read).await
    }
}

#[async_trait]
impl RecordStore for Faulty {
    async fn record(&self, name: &Name, freshness: Freshness) -> Result<Option<Record>, Error> {
        let name = name.clone();
        let read = move |store: Arc<dyn Store>| async move { store.record(&name, freshness).await };
        self.plain(Call::read("record"), read).await
    }

    async fn swap_record(&self, change: &Change) -> Result<Swapped<Option<Record>>, Error> {
        let change = change.clone();
        let call = Call::swap("swap_record");
        let swap = |store: Arc<dyn Store>| async move { store.swap_record(&change).await };
        match self.call(call, swap).await {
            Reply::Here(swapped) => swapped,
            Reply::Lost => Ok(Swapped::Unknown),
            Reply::Failed => Err(call.fault("it failed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use uuid::Uuid;

    use super::*;
    use crate::{
        doubles::store::{faulty::Fate, memory::MemoryStore},
        model::{
            record::{Kind, Mark},
            time::{Millis, TickLength},
            wheel::Shape,
        },
        store::index::{IndexKind, Partition, Place},
        time_source::TimeSource,
    };

    const LATER: Duration = Duration::from_secs(5);

    fn store() -> (TimeSource, Arc<MemoryStore>) {
        let time = TimeSource::simulated(Millis(1_800_000_000_000), 1);
        let tick = TickLength::new(Duration::from_secs(1)).unwrap();
        let store = MemoryStore::new(Shape::new(1, tick, 8).unwrap(), time.clone());
        (time, store)
    }

    fn change() -> Change {
        let name = Name::new(Kind::IdempotencyKey, "k").unwrap();
        let mark = Mark {
            nonce: Uuid::from_u128(1),
            stamp: 1,
        };
        Change::put(name, None, "v".into(), None, mark).unwrap()
    }

    fn partition() -> Partition {
        Partition::new(IndexKind::Held, "p").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_meets_every_fate_of_a_conditional_write() {
        // The fate, whether its outcome is unknown, and whether it is there at once and later.
        for (fate, unknown, at_once, later) in [
            (Fate::Go, false, true, true),
            (Fate::Delay(LATER), false, true, true),
            (Fate::Fail, false, false, false),
            (Fate::FailLate(LATER), false, false, false),
            (Fate::LoseReply, true, true, true),
            (Fate::ApplyLater(LATER), true, false, true),
        ] {
            let (time, store) = store();
            let handle = store.handle_with(Arc::new(move |call: Call| {
                assert!(call.writes && call.conditional, "{call:?}");
                fate
            }));
            let swapped = handle.put_if(&change()).await;
            assert_eq!(swapped.is_err(), !later, "{fate:?}");
            let is_unknown = swapped.is_ok_and(|swapped| swapped == Swapped::Unknown);
            assert_eq!(is_unknown, unknown, "{fate:?}");
            let name = &change().record().name.clone();
            for there in [at_once, later] {
                let read = store.record(name, Freshness::Serial).await.unwrap();
                assert_eq!(read.is_some(), there, "{fate:?}");
                time.sleep(2 * LATER).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_of_the_index_is_lost_or_late_and_its_writer_is_told() {
        for (fate, at_once, later) in [
            (Fate::Fail, 0, 0),
            (Fate::LoseReply, 1, 1),
            (Fate::ApplyLater(LATER), 0, 1),
        ] {
            let (time, store) = store();
            let handle = store.handle_with(Arc::new(move |call: Call| match call.operation {
                "put_index" | "remove_index" => fate,
                _ => Fate::Go,
            }));
            let place = Place::new(partition(), "s").unwrap();
            let put = [IndexPut::new(place.clone(), "v", 7).unwrap()];
            let range = IndexRange {
                partition: partition(),
                after: None,
                rows_max: 9,
            };
            assert!(handle.put_index(&put).await.iter().all(Result::is_err));
            for rows in [at_once, later] {
                assert_eq!(handle.index_range(&range).await.unwrap().rows.len(), rows);
                time.sleep(2 * LATER).await;
            }
            let removal = [IndexRemoval { place, written: 8 }];
            let removed = handle.remove_index(&removal).await;
            assert!(removed.iter().all(Result::is_err), "{fate:?}");
            time.sleep(2 * LATER).await;
            assert_eq!(handle.index_range(&range).await.unwrap().rows.len(), 0);
        }
    }
}
