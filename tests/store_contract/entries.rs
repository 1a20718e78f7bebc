//! The store writes, reads and finds entries for every node.

use std::sync::Arc;

use futures_util::future::join_all;
use tickwheel::{
    limits::BATCH_BYTES_MAX,
    model::{
        entry::{DoneReason, Entry, Key},
        time::{Millis, Tick},
        wheel::{Span, WheelNumber},
    },
    store::{RangePage, RangeScan},
};

use super::{Stores, content, read_tick, shape, spec, spec_with};

pub(super) async fn check(stores: &Stores) {
    what_was_acknowledged_is_seen_by_the_other_handle(stores).await;
    the_newest_write_wins_in_any_order(stores).await;
    a_newer_entry_replaces_every_part_of_an_older_one(stores).await;
    a_scan_is_ordered_bounded_and_pages_by_key(stores).await;
    another_revolution_of_the_wheel_is_not_seen(stores).await;
    a_range_is_read_over_many_ticks_in_key_order(stores).await;
    many_entries_of_many_slots_in_one_call_are_all_written(stores).await;
    many_callers_at_once_are_each_answered_for_what_they_wrote(stores).await;
    entries_of_a_task_are_found_at_the_instants_asked_for(stores).await;
    a_look_is_found_at_its_place_unless_an_entry_there_starts_its_task(stores).await;
    entries_of_many_tasks_are_found_each_at_its_place(stores).await;
}

async fn put(stores: &Stores, entries: &[Entry]) {
    let answers = stores.one.put_entries(entries).await;
    assert_eq!(answers.len(), entries.len());
    for answer in answers {
        answer.unwrap();
    }
}

fn due(stores: &Stores, tick: Tick, attempt: u32, written: i64) -> Entry {
    let id = stores.task(1, tick);
    Entry::due(id, 0, attempt, id.first_start(), spec(), written)
}

async fn what_was_acknowledged_is_seen_by_the_other_handle(stores: &Stores) {
    let tick = stores.tick();
    let entry = due(stores, tick, 0, 5).first_of_generation();
    put(stores, std::slice::from_ref(&entry)).await;
    assert_eq!(read_tick(&*stores.other, 1, tick, 10).await, [entry]);
    assert!(stores.one.put_entries(&[]).await.is_empty());
}

async fn the_newest_write_wins_in_any_order(stores: &Stores) {
    let tick = stores.tick();
    let entry = due(stores, tick, 0, 100);
    let done = entry.marked_done(DoneReason::Cancelled, Millis(1), 200);
    let later = Entry {
        spills: 3,
        written: 300,
        ..entry.clone()
    };
    for (write, wins) in [
        (&entry, &entry),
        (&entry, &entry),
        (&done, &done),
        (&entry, &done),
        (&done, &done),
        (&later, &later),
        (&done, &later),
        (&entry, &later),
    ] {
        put(stores, std::slice::from_ref(write)).await;
        let read = read_tick(&*stores.other, 1, tick, 10).await;
        assert_eq!(read, std::slice::from_ref(wins));
    }
    let other = due(stores, tick, 0, 100);
    let overwritten = other.marked_done(DoneReason::Published, Millis(2), 101);
    put(stores, &[overwritten.clone(), other]).await;
    let found = stores
        .one
        .find_entries(overwritten.key.id, &[overwritten.key.due])
        .await;
    assert_eq!(found.unwrap(), [overwritten]);
}

async fn a_newer_entry_replaces_every_part_of_an_older_one(stores: &Stores) {
    let tick = stores.tick();
    let id = stores.task(1, tick);
    let at = id.first_start();
    let look = |published, written| Entry::look(id, 2, at, published, Millis(9), spec(), written);
    let seen = look(Some(Millis(77)), 1);
    let moved = |to| DoneReason::Moved { to: Millis(to) };
    let steps = [
        seen.clone(),
        look(None, 2),
        seen.marked_done(moved(5), Millis(4), 3),
        seen.marked_done(DoneReason::Cancelled, Millis(6), 4),
        look(None, 5),
        look(Some(Millis(0)), 6),
    ];
    for step in steps {
        put(stores, std::slice::from_ref(&step)).await;
        assert_eq!(read_tick(&*stores.other, 1, tick, 10).await, [step]);
    }
}

/// Entries all over a tick, and on and just outside its edges.
fn all_over(stores: &Stores, tick: Tick) -> Vec<Entry> {
    let span = shape().span_of(tick);
    let mut entries = Vec::new();
    for due in [-1, 0, 1, 2, 500, 999, 1000, 1001].map(|at| Millis(span.after.0 + at)) {
        for _ in 0..3 {
            let id = stores.task_at(2, Millis(span.through.0 - 1));
            entries.push(Entry::due(id, 0, 1, due, spec(), 7));
            entries.push(Entry::due(id, 1, 0, due, spec(), 7));
            entries.push(Entry::look(id, 0, due, None, due, spec(), 7));
        }
    }
    entries
}

async fn a_scan_is_ordered_bounded_and_pages_by_key(stores: &Stores) {
    let tick = stores.tick();
    let mut entries = all_over(stores, tick);
    put(stores, &entries).await;
    let span = shape().span_of(tick);
    entries.retain(|entry| span.contains(entry.key.due));
    entries.sort_by_key(|entry| entry.key);
    assert_eq!(entries.len(), 6 * 9 - 9);
    for rows_max in [1, 7, 9, entries.len(), 1000] {
        let read = read_tick(&*stores.other, 2, tick, rows_max).await;
        let keys = |entries: &[Entry]| -> Vec<Key> { entries.iter().map(|e| e.key).collect() };
        assert_eq!(keys(&read), keys(&entries), "{rows_max}");
        assert_eq!(read, entries);
    }
    assert_eq!(read_tick(&*stores.one, 3, tick, 10).await, []);
}

async fn another_revolution_of_the_wheel_is_not_seen(stores: &Stores) {
    let tick = stores.tick();
    let revolution = shape().slots();
    let ticks = [-2, -1, 0, 1, 2].map(|turn| tick.plus(turn * revolution));
    let entries = ticks.map(|tick| due(stores, tick, 0, 1));
    put(stores, &entries).await;
    for (tick, entry) in ticks.into_iter().zip(entries) {
        assert_eq!(shape().slot_of(tick), shape().slot_of(ticks[0]));
        assert_eq!(read_tick(&*stores.other, 1, tick, 10).await, [entry]);
    }
}

async fn a_range_is_read_over_many_ticks_in_key_order(stores: &Stores) {
    let first = stores.tick();
    let mut entries = Vec::new();
    for offset in [0, 1, 5, 6, 30] {
        entries.extend(all_over(stores, first.plus(offset)));
    }
    entries.extend(all_over(stores, first.plus(-shape().slots())));
    put(stores, &entries).await;
    let span = Span {
        after: Millis(shape().span_of(first).after.0 + 1),
        through: Millis(shape().span_of(first.plus(30)).through.0 - 1),
    };
    let mut wanted: Vec<Key> = entries.iter().map(|entry| entry.key).collect();
    wanted.retain(|key| span.contains(key.due) && key.wheel().get() == 2);
    wanted.sort_unstable();
    wanted.dedup();
    for (rows_max, slots_max) in [(1, 3), (7, 1), (9, 100), (1000, 4), (1000, 100)] {
        let mut range = RangeScan {
            wheel: WheelNumber::new(2).unwrap(),
            shape: shape(),
            span,
            behind: None,
            rows_max,
            slots_max,
        };
        let mut read = Vec::new();
        while range.from() < Key::behind(span.through) {
            let RangePage { rows, reached } = stores.other.scan_range(&range).await.unwrap();
            assert!(rows.len() <= rows_max);
            assert!(
                reached > range.from(),
                "{reached:?} behind {:?}",
                range.from()
            );
            assert!(
                rows.iter()
                    .all(|row| row.key > range.from() && row.key <= reached)
            );
            read.extend(rows.into_iter().map(|row| row.key));
            range.behind = Some(reached);
        }
        assert_eq!(read, wanted, "{rows_max} rows, {slots_max} slots");
    }
}

async fn many_callers_at_once_are_each_answered_for_what_they_wrote(stores: &Stores) {
    let first = stores.tick();
    // Each call has one to three entries of as many slots; some are large.
    let calls: Vec<Vec<Entry>> = (0..150_i64)
        .map(|caller| {
            let bytes = if caller % 25 == 0 {
                BATCH_BYTES_MAX / 2
            } else {
                10
            };
            let entry = |place: i64| {
                let id = stores.task(1, first.plus((caller + place) % 6));
                let spec = spec_with(content(bytes));
                Entry::due(id, 0, 0, id.first_start(), spec, 1)
            };
            (0..=caller % 3).map(entry).collect()
        })
        .collect();
    let written = calls.iter().map(|entries| async {
        put(stores, entries).await;
        // The entry is found as soon as its caller has the answer, not only when all are done.
        let (id, due) = (entries[0].key.id, entries[0].key.due);
        let found = stores.other.find_entries(id, &[due]).await.unwrap();
        assert_eq!(found, entries[..1]);
    });
    join_all(written).await;
    let mut read = Vec::new();
    for offset in 0..6 {
        read.extend(read_tick(&*stores.other, 1, first.plus(offset), 50).await);
    }
    let mut entries = calls.concat();
    let key = |entry: &Entry| entry.key;
    entries.sort_by_key(key);
    read.sort_by_key(key);
    assert_eq!(read, entries);
}

async fn many_entries_of_many_slots_in_one_call_are_all_written(stores: &Stores) {
    let first = stores.tick();
    let large = spec_with(content(BATCH_BYTES_MAX / 3));
    let mut entries = Vec::new();
    for offset in 0..6 {
        for number in 0..70 {
            let id = stores.task(1, first.plus(offset));
            let spec = if number % 10 == 0 {
                Arc::clone(&large)
            } else {
                spec()
            };
            entries.push(Entry::due(id, 0, 0, id.first_start(), spec, 1));
        }
    }
    put(stores, &entries).await;
    let mut read = Vec::new();
    for offset in 0..6 {
        read.extend(read_tick(&*stores.other, 1, first.plus(offset), 1000).await);
    }
    entries.sort_by_key(|entry| entry.key);
    assert_eq!(read, entries);
}

async fn entries_of_a_task_are_found_at_the_instants_asked_for(stores: &Stores) {
    let tick = stores.tick();
    let id = stores.task(3, tick);
    let start = id.first_start();
    let later = Millis(start.0 + 61_000);
    let entries = [
        Entry::look(id, 0, start, None, start, spec(), 1),
        Entry::due(id, 1, 1, start, spec(), 1),
        Entry::look(id, 1, later, Some(start), start, spec(), 1),
    ];
    let other = Entry::due(stores.task(3, tick), 0, 0, start, spec(), 1);
    put(stores, &entries).await;
    put(stores, &[other]).await;
    let dues = [later, Millis(start.0 + 1), start, later];
    let found = stores.other.find_entries(id, &dues).await.unwrap();
    assert_eq!(found, entries);
    assert_eq!(stores.one.find_entries(id, &[]).await.unwrap(), []);
}

async fn a_look_is_found_at_its_place_unless_an_entry_there_starts_its_task(stores: &Stores) {
    let tick = stores.tick();
    let id = stores.task(3, tick);
    let start = id.first_start();
    let look = Entry::look(id, 0, start, None, start, spec(), 1);
    let due = Entry::due(id, 1, 1, start, spec(), 1);
    let moved = DoneReason::Moved {
        to: Millis(start.0 + 60_000),
    };
    let mark = due.marked_done(moved, start, 2);
    let at_start = async || {
        let found = stores.other.entries_at(&[(id, start)]).await;
        let found: Vec<Entry> = found.into_iter().next().unwrap().unwrap();
        found
    };
    put(stores, std::slice::from_ref(&look)).await;
    assert_eq!(at_start().await, std::slice::from_ref(&look));
    put(stores, std::slice::from_ref(&due)).await;
    assert!(at_start().await.contains(&due));
    put(stores, std::slice::from_ref(&mark)).await;
    assert_eq!(at_start().await, [look, mark]);
}

async fn entries_of_many_tasks_are_found_each_at_its_place(stores: &Stores) {
    let tick = stores.tick();
    let ids: Vec<_> = (0..200).map(|n| stores.task(n % 4, tick)).collect();
    // Some tasks have a look only, some entries were written twice.
    let entry = |place: usize, written| {
        let id = ids[place];
        match place % 10 {
            7 => Entry::look(
                id,
                0,
                id.first_start(),
                None,
                id.first_start(),
                spec(),
                written,
            ),
            _ => Entry::due(id, 0, 0, id.first_start(), spec(), written),
        }
    };
    let last_written = |place: usize| if place.is_multiple_of(3) { 2 } else { 1 };
    for written in [1, 2] {
        let entries: Vec<Entry> = (1..ids.len())
            .filter(|place| written <= last_written(*place))
            .map(|place| entry(place, written))
            .collect();
        put(stores, &entries).await;
    }
    // The lists ask for no places, few, all, some with others between them, and some twice.
    let asked: [Vec<usize>; 5] = [
        vec![],
        vec![1, 0],
        (0..ids.len()).rev().collect(),
        (0..ids.len()).step_by(7).collect(),
        vec![3, 50, 3, 0, 50],
    ];
    for places in asked {
        let count = places.len();
        let asked = places.iter().map(|at| (ids[*at], ids[*at].first_start()));
        let found = stores.other.entries_at(&asked.collect::<Vec<_>>()).await;
        assert_eq!(found.len(), count);
        for (place, found) in places.into_iter().zip(found) {
            // The first entry was not written.
            let wanted: Vec<Entry> = if place == 0 {
                vec![]
            } else {
                vec![entry(place, last_written(place))]
            };
            assert_eq!(found.unwrap(), wanted);
        }
    }
}
