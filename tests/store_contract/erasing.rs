//! The store erases ticks for a node by their range.

use tickwheel::{
    model::{entry::Entry, time::Tick, wheel::WheelNumber},
    store::Erasure,
};

use super::{Stores, read_tick, shape, spec};

pub(super) async fn check(stores: &Stores) {
    an_erased_tick_is_empty_and_nothing_else_is(stores).await;
    what_is_newer_than_what_was_read_survives(stores).await;
}

async fn put(stores: &Stores, wheel: u16, tick: Tick, written: i64) -> Entry {
    let id = stores.task(wheel, tick);
    let entry = Entry::due(id, 0, 0, id.first_start(), spec(), written);
    for answer in stores.one.put_entries(std::slice::from_ref(&entry)).await {
        answer.unwrap();
    }
    entry
}

async fn erase(stores: &Stores, ticks: &[Tick], newest_written: i64) {
    let wheel = WheelNumber::new(1).unwrap();
    let erasure = |tick: &Tick| Erasure {
        tick: *tick,
        newest_written,
    };
    let ticks: Vec<Erasure> = ticks.iter().map(erasure).collect();
    stores.one.erase(wheel, &ticks).await.unwrap();
}

async fn an_erased_tick_is_empty_and_nothing_else_is(stores: &Stores) {
    let tick = stores.tick();
    let gone = [tick, tick.plus(1)];
    for tick in gone {
        put(stores, 1, tick, 10).await;
        put(stores, 1, tick, 9).await;
    }
    let revolution = shape().slots();
    let kept = [
        (1, tick.plus(-1)),
        (1, tick.plus(2)),
        (1, tick.plus(revolution)),
        (1, tick.plus(-revolution)),
        (2, tick),
    ];
    let mut entries = Vec::new();
    for (wheel, tick) in kept {
        entries.push(put(stores, wheel, tick, 10).await);
    }
    for _ in 0..2 {
        erase(stores, &gone, 10).await;
        for tick in gone {
            assert_eq!(read_tick(&*stores.other, 1, tick, 10).await, []);
        }
        for ((wheel, tick), entry) in kept.into_iter().zip(&entries) {
            let read = read_tick(&*stores.other, wheel, tick, 10).await;
            assert_eq!(read, std::slice::from_ref(entry));
        }
    }
    let later = put(stores, 1, tick, 11).await;
    assert_eq!(read_tick(&*stores.other, 1, tick, 10).await, [later]);
}

async fn what_is_newer_than_what_was_read_survives(stores: &Stores) {
    let tick = stores.tick();
    put(stores, 1, tick, 10).await;
    let straggler = put(stores, 1, tick, 11).await;
    erase(stores, &[tick], 10).await;
    assert_eq!(read_tick(&*stores.other, 1, tick, 10).await, [straggler]);
}
