//! The store keeps large contents apart for entries, and parked entries for people.

use std::sync::Arc;

use bytes::Bytes;
use tickwheel::{
    model::{
        entry::{Key, KeyCode},
        result,
        time::Millis,
    },
    store::Parked,
};

use super::{Stores, content};

pub(super) async fn check(stores: &Stores) {
    contents_are_written_read_and_deleted(stores).await;
    results_are_kept_apart_from_contents(stores).await;
    what_was_set_aside_is_listed_by_the_day(stores).await;
}

async fn results_are_kept_apart_from_contents(stores: &Stores) {
    let id = stores.task(0, stores.tick());
    let keys = [id, result::key(id, 1), result::key(id, 2)];
    let body = |key, bytes| (key, Arc::new(content(bytes)));
    let bodies = [body(keys[0], 5), body(keys[1], 900_000)];
    for answer in stores.one.put_bodies(&bodies, 20, Some(3600)).await {
        answer.unwrap();
    }
    let read = stores.other.bodies(&keys).await.unwrap();
    assert_eq!(read, [Some(content(5)), Some(content(900_000)), None]);
    stores.one.delete_bodies(&keys[1..], 21).await.unwrap();
    let read = stores.other.bodies(&keys).await.unwrap();
    assert_eq!(read, [Some(content(5)), None, None]);
}

async fn contents_are_written_read_and_deleted(stores: &Stores) {
    let tick = stores.tick();
    let ids: Vec<_> = (0..4).map(|_| stores.task(0, tick)).collect();
    let bodies: Vec<_> = [10, 900_000, 0]
        .into_iter()
        .zip(&ids)
        .map(|(bytes, id)| (*id, Arc::new(content(bytes))))
        .collect();
    for ttl in [None, Some(3600)] {
        for answer in stores.one.put_bodies(&bodies, 20, ttl).await {
            answer.unwrap();
        }
        let read = stores.other.bodies(&ids).await.unwrap();
        let expected: Vec<_> = bodies.iter().map(|(_, c)| Some((**c).clone())).collect();
        assert_eq!(read[..3], expected);
        assert_eq!(read[3], None);
    }
    stores.one.delete_bodies(&ids, 19).await.unwrap();
    assert_eq!(
        stores.other.bodies(&ids[..1]).await.unwrap(),
        [Some(content(10))]
    );
    stores.one.delete_bodies(&ids, 20).await.unwrap();
    assert_eq!(
        stores.other.bodies(&ids).await.unwrap(),
        [None, None, None, None]
    );
    let newer = [(ids[0], Arc::new(content(3)))];
    for written in [21, 18] {
        for answer in stores.one.put_bodies(&newer, written, None).await {
            answer.unwrap();
        }
    }
    assert_eq!(
        stores.other.bodies(&ids[..1]).await.unwrap(),
        [Some(content(3))]
    );
}

async fn what_was_set_aside_is_listed_by_the_day(stores: &Stores) {
    let day = 24 * 3600 * 1000;
    let midnight = 12_345 * day;
    let parked = |at: i64, code: i32| {
        let id = stores.task_at(0, Millis(1_000));
        Parked {
            key: Key {
                due: Millis(1_000),
                id,
                generation: 2,
                code: KeyCode(code),
            },
            at: Millis(at),
            reason: format!("because {at}"),
            raw: Bytes::from_static(b"\x00\xff"),
        }
    };
    let all = [
        parked(midnight, 0),
        parked(midnight + 5, 1),
        parked(midnight + day - 1, 2),
        parked(midnight + day, 3),
        parked(midnight - 1, 4),
    ];
    for row in all.iter().rev().chain(&all) {
        stores.one.park(row).await.unwrap();
    }
    let read = stores
        .other
        .parked(Millis(midnight + 77), 10)
        .await
        .unwrap();
    assert_eq!(read, all[..3]);
    let read = stores.other.parked(Millis(midnight), 2).await.unwrap();
    assert_eq!(read, all[..2]);
}
