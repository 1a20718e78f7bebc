//! The store keeps ordered lists of small rows, of which the newest write wins, for every part of the service.

use std::time::Duration;

use bytes::Bytes;
use tickwheel::{
    limits::{INDEX_PARTITION_BYTES_MAX, INDEX_SORT_BYTES_MAX, INDEX_VALUE_BYTES_MAX},
    store::index::{IndexKind, IndexPut, IndexRange, IndexRemoval, IndexRow, Partition, Place},
};

use super::Stores;

pub(super) async fn check(stores: &Stores) {
    rows_are_read_in_order_page_by_page(stores).await;
    the_newest_write_wins_whenever_it_arrives(stores).await;
    a_removal_is_final_against_older_writes(stores).await;
    a_row_ends_and_an_older_write_does_not_come_up(stores).await;
    partitions_and_kinds_do_not_mix(stores).await;
    the_largest_row_is_kept(stores).await;
}

fn partition(stores: &Stores) -> Partition {
    Partition::new(
        IndexKind::Held,
        stores.time.random_uuid().as_bytes().to_vec(),
    )
    .unwrap()
}

fn place(partition: &Partition, sort: &[u8]) -> Place {
    Place::new(partition.clone(), sort.to_vec()).unwrap()
}

fn row(place: &Place, value: &'static str, written: i64) -> IndexPut {
    IndexPut::new(place.clone(), value, written).unwrap()
}

async fn put(stores: &Stores, rows: &[IndexPut]) {
    let answers = stores.one.put_index(rows).await;
    assert_eq!(answers.len(), rows.len());
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

async fn remove(stores: &Stores, place: &Place, written: i64) {
    let place = place.clone();
    let removal = IndexRemoval { place, written };
    let answers = stores.one.remove_index(&[removal]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
}

/// Reads a partition behind a sort key, in pages of this many.
async fn read_behind(
    stores: &Stores,
    partition: &Partition,
    after: Option<&[u8]>,
    rows_max: usize,
) -> Vec<IndexRow> {
    let mut range = IndexRange {
        partition: partition.clone(),
        after: after.map(Bytes::copy_from_slice),
        rows_max,
    };
    let mut rows = Vec::new();
    loop {
        let page = stores.other.index_range(&range).await.unwrap();
        assert!(page.rows.len() <= rows_max);
        rows.extend(page.rows);
        if page.next.is_none() {
            return rows;
        }
        range.after = page.next;
    }
}

async fn values(stores: &Stores, partition: &Partition) -> Vec<(Bytes, i64)> {
    let rows = read_behind(stores, partition, None, 100).await;
    let value = |row: IndexRow| (row.value, row.written);
    rows.into_iter().map(value).collect()
}

fn sorts(rows: Vec<IndexRow>) -> Vec<Bytes> {
    rows.into_iter().map(|row| row.sort).collect()
}

async fn rows_are_read_in_order_page_by_page(stores: &Stores) {
    let partition = partition(stores);
    let keys: [&[u8]; 6] = [b"\0", b"\0\0", b"\x01", b"a", b"a\0", b"\xff\xff"];
    let rows: Vec<IndexPut> = keys
        .iter()
        .map(|key| row(&place(&partition, key), "v", 5))
        .collect();
    let shuffled: Vec<IndexPut> = [3, 0, 5, 1, 4, 2]
        .map(|at: usize| rows[at].clone())
        .to_vec();
    put(stores, &shuffled).await;
    for rows_max in [1, 2, 6, 100] {
        let read = read_behind(stores, &partition, None, rows_max).await;
        assert_eq!(sorts(read), keys);
    }
    let behind = read_behind(stores, &partition, Some(b"\x01"), 2).await;
    assert_eq!(sorts(behind), keys[3..]);
    let behind = read_behind(stores, &partition, Some(b"b"), 2).await;
    assert_eq!(sorts(behind), keys[5..]);
    let behind = read_behind(stores, &partition, Some(b"\xff\xff"), 2).await;
    assert_eq!(behind, []);
    // A removed row is no row of a page, and its sort key is a place to read on from.
    remove(stores, &place(&partition, b"a"), 5).await;
    let behind = read_behind(stores, &partition, Some(b"\0\0"), 2).await;
    assert_eq!(sorts(behind), [keys[2], keys[4], keys[5]]);
    let behind = read_behind(stores, &partition, Some(b"a"), 2).await;
    assert_eq!(sorts(behind), keys[4..]);
}

async fn the_newest_write_wins_whenever_it_arrives(stores: &Stores) {
    let partition = partition(stores);
    let place = place(&partition, b"k");
    for (value, written, there) in [
        ("b", 20, ("b", 20)),
        ("a", 10, ("b", 20)),
        ("c", 30, ("c", 30)),
    ] {
        put(stores, &[row(&place, value, written)]).await;
        let there = (Bytes::from(there.0), there.1);
        assert_eq!(
            values(stores, &partition).await,
            std::slice::from_ref(&there)
        );
        put(stores, &[row(&place, value, written)]).await;
        assert_eq!(values(stores, &partition).await, [there]);
    }
    // Also within one call.
    let rows = [row(&place, "e", 50), row(&place, "d", 40)];
    put(stores, &rows).await;
    assert_eq!(values(stores, &partition).await, [(Bytes::from("e"), 50)]);
}

async fn a_removal_is_final_against_older_writes(stores: &Stores) {
    let partition = partition(stores);
    let key = place(&partition, b"k");
    put(stores, &[row(&key, "a", 10)]).await;
    remove(stores, &key, 9).await;
    assert_eq!(
        values(stores, &partition).await.len(),
        1,
        "an older removal"
    );
    remove(stores, &key, 20).await;
    for written in [10, 19, 20] {
        put(stores, &[row(&key, "late", written)]).await;
        assert_eq!(values(stores, &partition).await, [], "{written}");
    }
    remove(stores, &key, 15).await;
    put(stores, &[row(&key, "late", 18)]).await;
    assert_eq!(
        values(stores, &partition).await,
        [],
        "the newest removal counts"
    );
    put(stores, &[row(&key, "new", 21)]).await;
    assert_eq!(values(stores, &partition).await, [(Bytes::from("new"), 21)]);

    // A row that was never seen can be removed, before its write arrives.
    let unseen = place(&partition, b"unseen");
    remove(stores, &unseen, 30).await;
    put(
        stores,
        &[row(&unseen, "late", 30), row(&unseen, "late", 29)],
    )
    .await;
    assert_eq!(values(stores, &partition).await.len(), 1);
    // Of a write and a removal of the same time the removal wins, in either order.
    let same = place(&partition, b"same");
    put(stores, &[row(&same, "v", 40)]).await;
    remove(stores, &same, 40).await;
    assert_eq!(values(stores, &partition).await.len(), 1);
}

async fn a_row_ends_and_an_older_write_does_not_come_up(stores: &Stores) {
    let partition = partition(stores);
    let place = place(&partition, b"k");
    let now = stores.time.now();
    let stamp = stores.time.stamp();
    let long = row(&place, "v", stamp).until(now.after(Duration::from_secs(3600)));
    let short = row(&place, "v", stamp + 1).until(now.after(Duration::from_secs(2)));
    put(stores, &[row(&place, "v", stamp - 2), long, short]).await;
    assert_eq!(values(stores, &partition).await.len(), 1);
    for _ in 0..100 {
        if values(stores, &partition).await.is_empty() {
            break;
        }
        stores.time.sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(values(stores, &partition).await, []);
    put(stores, &[row(&place, "late", stamp - 1)]).await;
    assert_eq!(values(stores, &partition).await, []);
    put(stores, &[row(&place, "new", stamp + 2)]).await;
    assert_eq!(
        values(stores, &partition).await,
        [(Bytes::from("new"), stamp + 2)]
    );
}

async fn partitions_and_kinds_do_not_mix(stores: &Stores) {
    let named = |kind, name: &str| {
        let mut bytes = stores.tick().0.to_be_bytes().to_vec();
        bytes.extend(name.as_bytes());
        Partition::new(kind, bytes).unwrap()
    };
    let one = named(IndexKind::Held, "p");
    let partitions = [
        one.clone(),
        Partition::new(IndexKind::Dead, one.name().clone()).unwrap(),
        Partition::new(IndexKind::Held, [one.name(), &b"q"[..]].concat()).unwrap(),
    ];
    let rows: Vec<IndexPut> = partitions
        .iter()
        .flat_map(|partition| [b"q", b"r"].map(|sort| row(&place(partition, sort), "v", 5)))
        .collect();
    put(stores, &rows).await;
    remove(stores, &place(&partitions[0], b"r"), 5).await;
    for (partition, count) in partitions.iter().zip([1, 2, 2]) {
        assert_eq!(values(stores, partition).await.len(), count);
    }
}

async fn the_largest_row_is_kept(stores: &Stores) {
    let mut name = stores.time.random_uuid().as_bytes().to_vec();
    name.resize(INDEX_PARTITION_BYTES_MAX, 0xff);
    let partition = Partition::new(IndexKind::Held, name).unwrap();
    let rows: Vec<IndexPut> = (0..40)
        .map(|number: u8| {
            let mut sort = vec![0xff; INDEX_SORT_BYTES_MAX];
            sort[INDEX_SORT_BYTES_MAX - 1] = number;
            let value = vec![number; INDEX_VALUE_BYTES_MAX];
            IndexPut::new(place(&partition, &sort), value, 5).unwrap()
        })
        .collect();
    put(stores, &rows).await;
    let read = read_behind(stores, &partition, None, 7).await;
    assert_eq!(read.len(), rows.len());
    for (read, row) in read.iter().zip(&rows) {
        assert_eq!((&read.sort, &read.value), (row.place().sort(), row.value()));
    }
}
