//! This adapter takes the operations on records and on the index of a node through its process.

use async_trait::async_trait;
use tickwheel::{
    model::record::{Change, Name, Record},
    store::{
        Error, Freshness, IndexStore, RecordStore, Swapped,
        index::{IndexPage, IndexPut, IndexRange, IndexRemoval},
    },
};

use super::store::{NodesStore, outcome, outcomes};

#[async_trait]
impl IndexStore for NodesStore {
    async fn put_index(&self, rows: &[IndexPut]) -> Vec<Result<(), Error>> {
        let act = self.inner.put_index(rows);
        self.pass("put_index", act, |out| outcomes(out)).await
    }

    async fn remove_index(&self, rows: &[IndexRemoval]) -> Vec<Result<(), Error>> {
        let act = self.inner.remove_index(rows);
        self.pass("remove_index", act, |out| outcomes(out)).await
    }

    async fn index_range(&self, range: &IndexRange) -> Result<IndexPage, Error> {
        self.pass("index_range", self.inner.index_range(range), outcome)
            .await
    }
}

#[async_trait]
impl RecordStore for NodesStore {
    async fn record(&self, name: &Name, freshness: Freshness) -> Result<Option<Record>, Error> {
        self.pass("record", self.inner.record(name, freshness), outcome)
            .await
    }

    async fn swap_record(&self, change: &Change) -> Result<Swapped<Option<Record>>, Error> {
        self.pass("swap_record", self.inner.swap_record(change), outcome)
            .await
    }
}
