//! The replicas keep records and rows of the index for the nodes: records are rounds of a register each, rows are plain writes.

use std::{collections::btree_map, ops::Bound};

use async_trait::async_trait;
use bytes::Bytes;
use tickwheel::{
    limits::INDEX_PAGE_ROWS_MAX,
    model::record::{Change as RecordChange, Judged, Name, Record},
    store::{
        Error, Freshness, IndexStore, RecordStore, Swapped,
        index::{IndexPage, IndexPut, IndexRange, IndexRemoval, IndexRow, Place},
    },
};

use super::{
    cluster::{Cluster, Who},
    faults::SwapFate,
    handle::Handle,
    read::{View, decided, seen},
    round::{Change, Partition, Spread},
    row::{Row, Version},
    tables::Write,
};

impl Cluster {
    /// Compares a change with the decided record.
    pub(super) fn judge_record(&self, change: &RecordChange) -> Judged {
        let there = self.decided_record(&change.record().name);
        change.judge(there.map(Record::seen))
    }

    fn decided_record(&self, name: &Name) -> Option<&Record> {
        let row = self.tables.records.get(name)?;
        row.newest().live(|| self.now())
    }

    /// Replaces a record.
    fn swap_record(
        &mut self,
        node: usize,
        change: &RecordChange,
        fate: SwapFate,
    ) -> Swapped<Option<Record>> {
        let name = &change.record().name;
        let whole = || Change::Record(change.clone());
        let Some(fate) = self.before_the_round(node, fate, whole) else {
            return Swapped::Unknown;
        };
        let partition = Partition::Record(name.clone());
        self.settle(&partition);
        let reached = self.reached_by(node, fate);
        if let Some(row) = self.tables.records.get_mut(name) {
            row.teach(reached);
        }
        let told = fate == SwapFate::Answered;
        match self.judge_record(change) {
            Judged::Mine if told => return Swapped::Applied,
            Judged::Conflict if told => {
                return Swapped::Conflict(self.decided_record(name).cloned());
            }
            Judged::Mine | Judged::Conflict => return Swapped::Unknown,
            Judged::Holds => {}
        }
        let Some(spread) = self.spread(node, fate) else {
            self.accepted.insert(partition, (node, whole()));
            return Swapped::Unknown;
        };
        self.last_ballot += 1;
        self.decide_record(node, change, spread);
        if told {
            Swapped::Applied
        } else {
            Swapped::Unknown
        }
    }

    pub(super) fn decide_record(&mut self, node: usize, change: &RecordChange, spread: Spread) {
        let record = change.record().clone();
        let (name, expires) = (record.name.clone(), record.expires);
        let version = Version::new(self.last_ballot, record, expires);
        match self.tables.records.entry(name.clone()) {
            btree_map::Entry::Occupied(mut there) => {
                there.get_mut().succeed(version, spread.at_once);
            }
            btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Row::new(version, spread.at_once));
            }
        }
        self.tell_others(node, Write::LearnRecord(name, self.last_ballot), spread);
    }

    fn record(&mut self, name: &Name, freshness: Freshness, view: View) -> Option<Record> {
        if freshness == Freshness::Serial {
            self.settle(&Partition::Record(name.clone()));
        }
        let time = &self.time;
        let row = self.tables.records.get_mut(name)?;
        decided(row, freshness, view)?.live(|| time.now()).cloned()
    }

    fn index_range(&mut self, range: &IndexRange, view: View) -> IndexPage {
        let now = self.now();
        let rows_max = range.rows_max.clamp(1, INDEX_PAGE_ROWS_MAX);
        // No sort key is less than this one.
        let from = Place::new(range.partition.clone(), vec![0]).unwrap();
        let from = match &range.after {
            Some(after) => {
                let behind = Place::new(range.partition.clone(), after.clone()).unwrap();
                Bound::Excluded(behind)
            }
            None => Bound::Included(from),
        };
        let rows = self.tables.index.range_mut((from, Bound::Unbounded));
        let mine = rows.take_while(|(place, _)| *place.partition() == range.partition);
        let live = mine.filter_map(|(place, row)| {
            let version = seen(row, view)?;
            Some(IndexRow {
                sort: place.sort().clone(),
                value: version.live(|| now)?.clone(),
                written: version.written,
            })
        });
        let mut rows: Vec<IndexRow> = live.take(rows_max).collect();
        let mut more = rows.len() == rows_max;
        if !rows.is_empty() && self.dice.hits(self.faults.pages_cut) {
            let kept = 1 + self.dice.below(rows.len() as u64);
            rows.truncate(usize::try_from(kept).unwrap_or(1));
            more = true;
        }
        let last = rows.last().filter(|_| more);
        let next = last.map(|last| last.sort.clone());
        IndexPage { rows, next }
    }
}

/// Writes of neighbours of one partition are one write.
fn packs(rows: &[(Place, Version<Bytes>)]) -> Vec<(usize, Write)> {
    let same = |one: &(Place, _), next: &(Place, _)| one.0.partition() == next.0.partition();
    let packs = rows.chunk_by(same);
    packs
        .map(|pack| (pack.len(), Write::Index(pack.to_vec())))
        .collect()
}

#[async_trait]
impl IndexStore for Handle {
    async fn put_index(&self, rows: &[IndexPut]) -> Vec<Result<(), Error>> {
        let row = |row: &IndexPut| {
            let version = Version::new(row.written, row.value().clone(), row.expires);
            (row.place().clone(), version)
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let writes = packs(&rows);
        self.write("put_index", writes.into_iter()).await
    }

    async fn remove_index(&self, rows: &[IndexRemoval]) -> Vec<Result<(), Error>> {
        let row = |IndexRemoval { place, written }: &IndexRemoval| {
            (place.clone(), Version::deletion(*written))
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let writes = packs(&rows);
        self.write("remove_index", writes.into_iter()).await
    }

    async fn index_range(&self, range: &IndexRange) -> Result<IndexPage, Error> {
        let node = Who::Node(self.node);
        self.read("index_range", |cluster, view| {
            let page = cluster.index_range(range, view);
            let (rows, partition) = (page.rows.len(), &range.partition);
            let more = if page.next.is_some() { ", more" } else { "" };
            cluster.note(
                node,
                format_args!(
                    "index_range {partition:?} behind {:?}: {rows}{more}",
                    range.after
                ),
            );
            page
        })
        .await
    }
}

#[async_trait]
impl RecordStore for Handle {
    async fn record(&self, name: &Name, freshness: Freshness) -> Result<Option<Record>, Error> {
        let node = Who::Node(self.node);
        self.read("record", |cluster, view| {
            let record = cluster.record(name, freshness, view);
            let version = record.as_ref().map(|record| record.version);
            cluster.note(
                node,
                format_args!("record {name} {freshness:?}: {version:?}"),
            );
            record
        })
        .await
    }

    async fn swap_record(&self, change: &RecordChange) -> Result<Swapped<Option<Record>>, Error> {
        let node = Who::Node(self.node);
        self.swap("swap_record", |cluster, fate| {
            let swapped = cluster.swap_record(self.node, change, fate);
            let name = &change.record().name;
            cluster.note(
                node,
                format_args!("swap_record {name} {fate:?}: {swapped:?}"),
            );
            swapped
        })
        .await
    }
}
