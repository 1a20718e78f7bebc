//! The store writes records on a condition, and lists those of some kinds, for every part of the service.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use tickwheel::{
    limits::{LISTING_ORPHAN_MIN, RECORD_VALUE_BYTES_MAX},
    model::{
        record::{Change, Kind, Mark, Name, Record},
        time::Millis,
    },
    store::{
        Freshness, Swapped,
        index::{IndexPut, IndexRange, Partition, Place},
        records::RecordRange,
    },
};

use super::Stores;

pub(super) async fn check(stores: &Stores) {
    a_record_is_written_over_what_was_read_and_nothing_else(stores).await;
    a_removed_record_stops_a_late_creation_and_can_be_made_again(stores).await;
    a_record_that_expires_is_not_there_any_more(stores).await;
    one_of_many_writers_wins(stores).await;
    a_list_has_every_record_of_a_kind_once(stores).await;
    a_late_row_of_a_list_undoes_nothing(stores).await;
    a_row_without_a_record_leaves_the_list_after_a_day(stores).await;
}

fn name(stores: &Stores, kind: Kind) -> Name {
    Name::new(kind, &stores.time.random_uuid().to_string()).unwrap()
}

fn put(stores: &Stores, name: &Name, replaced: Option<&Record>, value: impl Into<Bytes>) -> Change {
    put_until(stores, name, replaced, value, None)
}

fn put_until(
    stores: &Stores,
    name: &Name,
    replaced: Option<&Record>,
    value: impl Into<Bytes>,
    expires: Option<Millis>,
) -> Change {
    Change::put(name.clone(), replaced, value.into(), expires, mark(stores)).unwrap()
}

fn mark(stores: &Stores) -> Mark {
    Mark {
        nonce: stores.time.random_uuid(),
        stamp: stores.time.stamp(),
    }
}

fn removal(stores: &Stores, replaced: &Record) -> Change {
    Change::remove(replaced, stores.time.now(), mark(stores))
}

async fn applied(stores: &Stores, change: &Change) -> Record {
    let swapped = stores.one.put_if(change).await.unwrap();
    assert_eq!(swapped, Swapped::Applied);
    change.record().clone()
}

async fn conflicts(stores: &Stores, change: &Change, there: Option<&Record>) {
    let swapped = stores.other.put_if(change).await.unwrap();
    assert_eq!(swapped, Swapped::Conflict(there.cloned()));
}

async fn read(stores: &Stores, name: &Name) -> Option<Record> {
    let serial = stores.one.record(name, Freshness::Serial).await.unwrap();
    let quorum = stores.other.record(name, Freshness::Quorum).await.unwrap();
    assert_eq!(serial, quorum);
    quorum
}

async fn a_record_is_written_over_what_was_read_and_nothing_else(stores: &Stores) {
    let name = name(stores, Kind::IdempotencyKey);
    assert_eq!(read(stores, &name).await, None);
    let first_change = put(stores, &name, None, "");
    let first = applied(stores, &first_change).await;
    assert_eq!(read(stores, &name).await.as_ref(), Some(&first));
    // The same write again is its own, and an other creation is not.
    applied(stores, &first_change).await;
    conflicts(stores, &put(stores, &name, None, "x"), Some(&first)).await;

    let largest = vec![7; RECORD_VALUE_BYTES_MAX];
    let second = applied(stores, &put(stores, &name, Some(&first), largest)).await;
    assert!(second.version > first.version);
    assert_eq!(read(stores, &name).await.as_ref(), Some(&second));
    conflicts(
        stores,
        &put(stores, &name, Some(&first), "x"),
        Some(&second),
    )
    .await;
    conflicts(stores, &first_change, Some(&second)).await;
    conflicts(stores, &removal(stores, &first), Some(&second)).await;

    // The key alone names nothing: the kind does too.
    let same_key = Name::new(Kind::ApiKey, name.key()).unwrap();
    assert_eq!(read(stores, &same_key).await, None);
    conflicts(stores, &put(stores, &same_key, Some(&first), "x"), None).await;
}

async fn a_removed_record_stops_a_late_creation_and_can_be_made_again(stores: &Stores) {
    let name = name(stores, Kind::IdempotencyKey);
    let late = put(stores, &name, None, "late");
    let first = applied(stores, &put(stores, &name, None, "v")).await;
    let removed = applied(stores, &removal(stores, &first)).await;
    assert!(removed.is_removed() && removed.version > first.version);
    let there = read(stores, &name).await;
    assert_eq!(there.as_ref(), Some(&removed));
    conflicts(stores, &late, Some(&removed)).await;
    let again = applied(stores, &put(stores, &name, there.as_ref(), "again")).await;
    assert!(again.version > removed.version);
    conflicts(stores, &removal(stores, &first), Some(&again)).await;
    assert_eq!(read(stores, &name).await, Some(again));
}

async fn a_record_that_expires_is_not_there_any_more(stores: &Stores) {
    let name = name(stores, Kind::IdempotencyKey);
    let at = |seconds| stores.time.now().after(Duration::from_secs(seconds));
    let long = put_until(stores, &name, None, "v", Some(at(3600)));
    let long = applied(stores, &long).await;
    assert_eq!(read(stores, &name).await.as_ref(), Some(&long));
    // The end moves with each write.
    let short = put_until(stores, &name, Some(&long), "v", Some(at(1)));
    let short = applied(stores, &short).await;
    for _ in 0..100 {
        // One read, because the record may end between two.
        let there = stores.one.record(&name, Freshness::Quorum).await;
        if there.unwrap().is_none() {
            break;
        }
        stores.time.sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(read(stores, &name).await, None);
    conflicts(stores, &put(stores, &name, Some(&short), "x"), None).await;
    applied(stores, &put(stores, &name, None, "again")).await;
}

async fn one_of_many_writers_wins(stores: &Stores) {
    let name = name(stores, Kind::IdempotencyKey);
    let changes: Vec<Change> = (0..8).map(|_| put(stores, &name, None, "v")).collect();
    let writes = changes.iter().enumerate().map(|(number, change)| {
        let store = if number % 2 == 0 {
            &stores.one
        } else {
            &stores.other
        };
        store.put_if(change)
    });
    let answers = futures_util::future::join_all(writes).await;
    let there = read(stores, &name).await.expect("one has won");
    for (change, answer) in changes.iter().zip(answers) {
        match answer.unwrap() {
            Swapped::Applied => assert_eq!(*change.record(), there),
            Swapped::Conflict(found) => {
                assert_eq!(found.as_ref(), Some(&there));
                assert_ne!(*change.record(), there);
            }
            // A busy server may leave it open.
            Swapped::Unknown => {}
        }
    }
}

/// Lists the keys of a kind, in pages of this many.
async fn listed(stores: &Stores, kind: Kind, rows_max: usize, now: Millis) -> Vec<Record> {
    let mut range = RecordRange {
        kind,
        after: None,
        rows_max,
        now,
    };
    let mut records = Vec::new();
    loop {
        let page = stores.other.list_records(&range).await.unwrap();
        assert!(page.records.len() <= rows_max);
        records.extend(page.records);
        if page.next.is_none() {
            return records;
        }
        range.after = page.next;
    }
}

async fn a_list_has_every_record_of_a_kind_once(stores: &Stores) {
    let now = stores.time.now();
    let mut made = Vec::new();
    for number in 0..7 {
        let name = name(stores, Kind::Callback);
        made.push(applied(stores, &put(stores, &name, None, format!("{number}"))).await);
    }
    made.sort_by(|one, other| one.name.cmp(&other.name));
    // A write does not move it, a removal takes it out, and a creation puts it back.
    let changed = put(stores, &made[1].name, Some(&made[1]), "changed");
    made[1] = applied(stores, &changed).await;
    let removed = applied(stores, &removal(stores, &made[4])).await;
    let unlisted = made.remove(4);
    let mine: BTreeSet<&Name> = made.iter().map(|record| &record.name).collect();
    for rows_max in [1, 3, 100] {
        let listed = listed(stores, Kind::Callback, rows_max, now).await;
        assert!(listed.iter().all(|record| record.name != unlisted.name));
        let listed = listed.into_iter();
        let listed: Vec<Record> = listed
            .filter(|record| mine.contains(&record.name))
            .collect();
        assert_eq!(listed, made);
    }
    let again = applied(stores, &put(stores, &removed.name, Some(&removed), "again")).await;
    assert!(
        listed(stores, Kind::Callback, 3, now)
            .await
            .contains(&again)
    );
    let others = listed(stores, Kind::ApiKey, 100, now).await;
    assert!(
        others
            .iter()
            .all(|record| record.name.kind() == Kind::ApiKey)
    );
}

fn row_of(name: &Name, written: i64) -> IndexPut {
    let sort = Bytes::copy_from_slice(name.key().as_bytes());
    let place = Place::new(Partition::of_records(name.kind()), sort).unwrap();
    IndexPut::new(place, "", written).unwrap()
}

async fn a_late_row_of_a_list_undoes_nothing(stores: &Stores) {
    let now = stores.time.now();
    let name = name(stores, Kind::ApiKey);
    let first = applied(stores, &put(stores, &name, None, "v")).await;
    let removed = applied(stores, &removal(stores, &first)).await;
    // The row of the first creation arrives behind the removal.
    let late = row_of(&name, first.version.0);
    let answers = stores.one.put_index(&[late]).await;
    assert!(answers.iter().all(Result::is_ok));
    let again = applied(stores, &put(stores, &name, Some(&removed), "again")).await;
    // The removal of the row arrives behind the second creation.
    let place = row_of(&name, 0).place().clone();
    let written = removed.version.0;
    let late = tickwheel::store::index::IndexRemoval { place, written };
    let answers = stores.one.remove_index(&[late]).await;
    assert!(answers.iter().all(Result::is_ok));
    assert!(
        listed(stores, Kind::ApiKey, 100, now)
            .await
            .contains(&again)
    );
}

async fn a_row_without_a_record_leaves_the_list_after_a_day(stores: &Stores) {
    let name = name(stores, Kind::ApiKey);
    let row = row_of(&name, stores.time.stamp());
    let written = Millis(row.written.div_euclid(1000));
    stores.one.put_index(&[row]).await.remove(0).unwrap();
    let is_there = async || {
        let mut range = IndexRange {
            partition: Partition::of_records(Kind::ApiKey),
            after: None,
            rows_max: 1000,
        };
        loop {
            let page = stores.other.index_range(&range).await.unwrap();
            let mut rows = page.rows.iter();
            if rows.any(|row| row.sort[..] == *name.key().as_bytes()) {
                return true;
            }
            if page.next.is_none() {
                return false;
            }
            range.after = page.next;
        }
    };
    let day = written.after(LISTING_ORPHAN_MIN);
    for (now, stays) in [(Millis(day.0 - 1), true), (day, false)] {
        let records = listed(stores, Kind::ApiKey, 100, now).await;
        assert!(records.iter().all(|record| record.name != name));
        assert_eq!(is_there().await, stays);
    }
}
