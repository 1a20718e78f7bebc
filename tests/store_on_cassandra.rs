//! The contract runs on a real Cassandra or Scylla, with checks of its own.

mod migration;

use std::{future::Future, sync::Arc, time::Duration};

use scylla::client::{session::Session, session_builder::SessionBuilder};
use tickwheel::{
    model::{
        entry::{DoneReason, Entry},
        state::{Expect, State},
        time::{Millis, Tick, TickLength},
        wheel::{Shape, WheelNumber},
    },
    store::{
        ClockStore, Error, Freshness, Heartbeat, Scan, Swapped,
        cassandra::{Initialized, Settings, Store, init},
    },
    time_source::TimeSource,
};

use crate::store_contract::{
    Stores, read_tick, shape, spec, suite,
    tasks::{row, transition},
};

/// A keyspace of its own.
struct Keyspace {
    settings: Settings,
    time: TimeSource,
    raw: Session,
}

impl Keyspace {
    async fn cql(&self, text: &str) -> scylla::response::query_result::QueryResult {
        let text = text.replace("{}", &self.settings.keyspace);
        self.raw.query_unpaged(text, ()).await.unwrap()
    }

    async fn connect(&self) -> Arc<Store> {
        Store::connect(&self.settings, &self.time).await.unwrap()
    }

    async fn stores(&self) -> Stores {
        Stores::new(self.connect().await, self.connect().await)
    }
}

/// Runs a test in a keyspace that exists only for it, and removes the keyspace whatever the outcome.
async fn in_keyspace<F: Future<Output = ()> + Send + 'static>(
    test: impl FnOnce(Arc<Keyspace>) -> F,
) {
    let server = std::env::var("TICKWHEEL_TEST_CASSANDRA")
        .expect("TICKWHEEL_TEST_CASSANDRA names no server: run the tests with `make test`");
    let time = TimeSource::real();
    let name = format!("contract_{:x}", time.random());
    let mut settings = Settings::new(vec![server.clone()], name);
    settings.replication_factor = 1;
    let raw = SessionBuilder::new().known_node(server).build().await;
    let keyspace = Arc::new(Keyspace {
        settings,
        time,
        raw: raw.unwrap(),
    });
    let outcome = tokio::spawn(test(Arc::clone(&keyspace))).await;
    keyspace.cql("DROP KEYSPACE IF EXISTS {}").await;
    if let Err(failure) = outcome {
        std::panic::resume_unwind(failure.into_panic());
    }
}

async fn initialized(keyspace: &Keyspace) {
    let done = init(&keyspace.settings, shape(), &keyspace.time).await;
    assert_eq!(done.unwrap(), Initialized::Created);
}

fn reason(error: &Error) -> &str {
    match error {
        Error::Unavailable { reason, .. }
        | Error::Full { reason }
        | Error::Corrupt { reason, .. }
        | Error::Newer { reason, .. }
        | Error::Unsuitable { reason } => reason,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_on_cassandra() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        suite(&keyspace.stores().await).await;
    })
    .await;
}

#[tokio::test]
async fn a_keyspace_is_initialised_once_and_keeps_its_settings() {
    in_keyspace(|keyspace| async move {
        let Keyspace { settings, time, .. } = &*keyspace;
        let missing = Store::connect(settings, time).await.unwrap_err();
        assert!(matches!(missing, Error::Unsuitable { .. }), "{missing}");
        assert!(
            reason(&missing).contains("run `tickwheel init` first"),
            "{missing}"
        );

        initialized(&keyspace).await;
        let store = keyspace.connect().await;
        assert_eq!(store.shape(), shape());
        let wheel = WheelNumber::new(3).unwrap();
        let clock = store.clock(wheel, Freshness::Quorum).await.unwrap();
        let again = init(settings, shape(), time).await;
        assert_eq!(again.unwrap(), Initialized::AlreadyThere);
        assert_eq!(store.clock(wheel, Freshness::Quorum).await.unwrap(), clock);

        let tick = TickLength::new(Duration::from_millis(500)).unwrap();
        let other = Shape::new(4, tick, 8).unwrap();
        let refused = init(settings, other, time).await.unwrap_err();
        assert!(matches!(refused, Error::Unsuitable { .. }), "{refused}");
        for part in ["ticks of 1000 ms", "ticks of 500 ms", "another keyspace"] {
            assert!(reason(&refused).contains(part), "{refused}");
        }
        assert_eq!(keyspace.connect().await.shape(), shape());
    })
    .await;
}

#[tokio::test]
async fn an_unfinished_or_newer_keyspace_is_refused_with_what_to_do() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let Keyspace { settings, time, .. } = &*keyspace;
        for (set, says) in [
            ("ready = false", "run `tickwheel init` again"),
            ("schema_version = 3", "needs schema version 2"),
        ] {
            keyspace
                .cql(&format!(
                    "UPDATE {{}}.meta SET {set} WHERE name = 'settings' IF EXISTS"
                ))
                .await;
            let refused = Store::connect(settings, time).await.unwrap_err();
            assert!(reason(&refused).contains(says), "{refused}");
        }
        keyspace
            .cql("UPDATE {}.meta SET schema_version = 2 WHERE name = 'settings' IF EXISTS")
            .await;
        initialized(&keyspace).await;
        keyspace.connect().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_down_is_reported_at_once() {
    let time = TimeSource::real();
    let nobody = Settings::new(vec!["127.0.0.1:1".to_owned()], "timers");
    let started = time.moment();
    let refused = Store::connect(&nobody, &time).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    assert!(time.moment().since(started) < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_refused_costs_nobody_beside_it_anything() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let stores = keyspace.stores().await;
        let tick = Tick(2_000_000_000);
        let calls = (0..120_i64).map(|caller| {
            let id = stores.task(1, tick.plus(caller % 4));
            // No server takes a row that was written before all time.
            let written = if caller % 40 == 7 { i64::MIN } else { 9 };
            Entry::due(id, 0, 0, id.first_start(), spec(), written)
        });
        let calls: Vec<[Entry; 1]> = calls.map(|entry| [entry]).collect();
        let written = calls.iter().map(|entry| stores.one.put_entries(entry));
        let answers = futures_util::future::join_all(written).await;
        for ([entry], answers) in calls.iter().zip(answers) {
            let [answer] = answers.as_slice() else {
                panic!("one answer each: {answers:?}");
            };
            if entry.written == i64::MIN {
                assert!(
                    matches!(answer, Err(Error::Unsuitable { .. })),
                    "{answer:?}"
                );
            } else {
                assert!(answer.is_ok(), "{answer:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn rows_that_cannot_be_understood_are_handed_out_and_stop_nothing() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let stores = keyspace.stores().await;
        let tick = Tick(2_000_000_000);
        let due = shape().tick().end_of(tick);
        let (first, last) = (stores.task_at(1, Millis(1)), stores.task(1, tick));
        for id in [first, last] {
            let entry = Entry::due(id, 0, 0, due, spec(), 9);
            stores.one.put_entries(&[entry]).await.remove(0).unwrap();
        }
        let slot = shape().slot_of(tick).0;
        let between = stores.task_at(1, Millis(2)).uuid();
        let foreign = uuid::Uuid::from_u128(5);
        for (id, generation, code, kind, spec) in [
            (between, 0, 8, 0, "0xfc"),
            (between, 0, 7, 0, "0xfd"),
            (between, -1, 0, 0, "0xfe"),
            (foreign, 0, 0, 9, "0xff"),
        ] {
            let due = due.0;
            let text = format!(
                "INSERT INTO {{}}.wheel (wheel, slot, due_ms, id, generation, code, kind, flags, spills, \
                 start_ms, spec) VALUES (1, {slot}, {due}, {id}, {generation}, {code}, {kind}, 0, 0, 1, {spec}) \
                 USING TIMESTAMP 4"
            );
            keyspace.cql(&text).await;
        }
        let scan = Scan {
            wheel: WheelNumber::new(1).unwrap(),
            slot: shape().slot_of(tick),
            span: shape().span_of(tick),
            behind: None,
            rows_max: 100,
        };
        let page = stores.one.scan(&scan).await.unwrap();
        let good: Vec<_> = page.rows.iter().filter(|row| row.entry.is_ok()).collect();
        assert_eq!(good.iter().map(|row| row.key.id).collect::<Vec<_>>(), [first, last]);
        let raw: std::collections::BTreeSet<u8> = page
            .rows
            .iter()
            .filter_map(|row| row.entry.as_ref().err())
            .map(|unreadable| unreadable.raw[0])
            .collect();
        assert_eq!(raw.into_iter().collect::<Vec<_>>(), [0xfc, 0xfd, 0xfe, 0xff]);
        assert!(page.rows.iter().all(|row| row.entry.is_ok() || row.written == 4));
        let mut behind = 0;
        let mut scan = Scan { rows_max: 1, ..scan };
        loop {
            let page = stores.one.scan(&scan).await.unwrap();
            let Some(last) = page.rows.last() else { break };
            scan.behind = Some(last.key);
            behind += 1;
        }
        assert_eq!(behind, 6);
    })
    .await;
}

/// Reads one number of one row.
async fn number(keyspace: &Keyspace, text: &str) -> Option<i32> {
    let rows = keyspace.cql(text).await.into_rows_result().unwrap();
    rows.single_row::<(Option<i32>,)>().unwrap().0
}

#[tokio::test]
async fn terminal_rows_expire_as_a_whole_and_others_never() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let stores = keyspace.stores().await;
        let id = stores.task(1, stores.tick());
        let claimed = row(&stores, id, State::Claimed, 1);
        let ended = row(&stores, id, State::Dead, 1);
        let columns = [
            "state",
            "generation",
            "attempt",
            "cancel_requested",
            "tries",
            "next_ms",
            "last_ms",
            "nonce",
            "detail",
        ];
        for (expect, row, ttl) in [
            (Expect::Absent, &claimed, None),
            (claimed.seen(), &ended, Some(1000)),
        ] {
            let answers = stores.one.swap_tasks(&[transition(expect, row)]).await;
            assert_eq!(answers[0].clone().unwrap(), Swapped::Applied);
            for column in columns {
                let text = format!("SELECT TTL({column}) FROM {{}}.task");
                let all = keyspace.cql(&text).await.into_rows_result().unwrap();
                let ttls: Vec<Option<i32>> = all
                    .rows::<(Option<i32>,)>()
                    .unwrap()
                    .map(|row| row.unwrap().0)
                    .filter(|ttl| ttl.is_none_or(|ttl| ttl > 60))
                    .collect();
                let [found] = ttls[..] else {
                    panic!("{column}: {ttls:?}")
                };
                assert_eq!(found.is_some(), ttl.is_some(), "{column}");
                let left = found.zip(ttl).map(|(found, ttl)| ttl - found);
                assert!(left.is_none_or(|left| (0..60).contains(&left)), "{column}");
            }
        }
    })
    .await;
}

/// A serial read settles pending writes by a round of Paxos, which leaves its promise on the
/// server; a plain one does not.
#[tokio::test]
async fn a_serial_read_is_a_round_of_paxos() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let stores = keyspace.stores().await;
        let id = stores.task(1, stores.tick());
        let name = &keyspace.settings.keyspace;
        let table = format!(
            "SELECT id FROM system_schema.tables WHERE keyspace_name = '{name}' AND table_name = 'task'"
        );
        let table = keyspace.cql(&table).await.into_rows_result().unwrap();
        let table = table.single_row::<(uuid::Uuid,)>().unwrap().0;
        let promises = async || {
            let all = keyspace.cql("SELECT cf_id FROM system.paxos").await;
            let all = all.into_rows_result().unwrap();
            let tables = all.rows::<(uuid::Uuid,)>().unwrap();
            let ours = tables.filter(|row| row.as_ref().unwrap().0 == table);
            ours.count()
        };
        // The trials of `init` have left some.
        let before = promises().await;
        for (freshness, more) in [(Freshness::Quorum, 0), (Freshness::Serial, 1)] {
            assert_eq!(stores.one.tasks(&[id], freshness).await.unwrap(), [None]);
            assert_eq!(promises().await, before + more, "{freshness:?}");
        }
    })
    .await;
}

/// Unknown ids cost some fifty reads each, and lists read slot by slot: a caller that asks for thousands
/// delays only itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_searches_and_lists_does_not_hold_up_the_scanner() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let stores = keyspace.stores().await;
        let tick = stores.tick();
        let scan = Scan {
            wheel: WheelNumber::new(1).unwrap(),
            slot: shape().slot_of(tick),
            span: shape().span_of(tick),
            behind: None,
            rows_max: 100,
        };
        let mut flood = tokio::task::JoinSet::new();
        for number in 0..4000 {
            let (store, scan) = (Arc::clone(&stores.one), scan);
            let id = stores.task(1, tick);
            flood.spawn(async move {
                if number % 2 == 0 {
                    drop(store.scan_aside(&scan).await);
                } else {
                    drop(store.find_entries(id, &[Millis(number)]).await);
                }
            });
        }
        tokio::task::yield_now().await;
        let time = &keyspace.time;
        let begun = time.moment();
        stores.one.scan(&scan).await.unwrap();
        let scanned = time.moment().since(begun);
        let left = flood.len();
        flood.join_all().await;
        let all = time.moment().since(begun);
        assert!(left > 0 && scanned < all / 4, "{scanned:?} of {all:?}");
    })
    .await;
}

/// A heartbeat that is gone before its timeout has passed makes a live worker look dead.
#[tokio::test]
async fn heartbeats_are_kept_as_long_as_they_are_asked_to_be() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let stores = keyspace.stores().await;
        let id = stores.task(1, stores.tick());
        let day = Duration::from_secs(24 * 3600);
        for (step, kept) in [(0, day), (1, 28 * day)] {
            let beat = Heartbeat {
                id,
                attempt: 1,
                at: Millis(stores.time.now().0 + step),
                progress: None,
            };
            for answer in stores.one.put_heartbeats(&[beat], kept).await {
                answer.unwrap();
            }
            let ttl = number(&keyspace, "SELECT TTL(at_ms) FROM {}.heartbeat").await;
            let left = kept.as_secs() - u64::try_from(ttl.unwrap()).unwrap();
            assert!(left < 60, "{left} s of {kept:?} are missing");
        }
    })
    .await;
}

#[tokio::test]
async fn done_entries_and_bodies_expire_and_live_entries_never() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let stores = keyspace.stores().await;
        let now = stores.time.now();
        let id = stores.task_at(1, now.after(Duration::from_secs(100)));
        let entry = Entry::due(id, 0, 0, id.first_start(), spec(), now.0 * 1000);
        let done = entry.marked_done(DoneReason::Cancelled, now, now.0 * 1000 + 1);
        let ttl = "SELECT TTL(spec) FROM {}.wheel";
        stores.one.put_entries(&[entry]).await.remove(0).unwrap();
        assert_eq!(number(&keyspace, ttl).await, None);
        stores.one.put_entries(&[done]).await.remove(0).unwrap();
        let left = number(&keyspace, ttl).await.unwrap() - 2 * 24 * 3600;
        assert!((40..=102).contains(&left), "{left}");

        let body = [(id, Arc::new(crate::store_contract::content(9)))];
        let stamp = now.0 * 1000;
        stores
            .one
            .put_bodies(&body, stamp, None)
            .await
            .remove(0)
            .unwrap();
        let ttl = "SELECT TTL(content) FROM {}.body";
        assert_eq!(number(&keyspace, ttl).await, None);
        let short = stores.one.put_bodies(&body, stamp + 1, Some(1)).await;
        assert!(short.iter().all(Result::is_ok));
        while stores.one.bodies(&[id]).await.unwrap() != [None] {
            stores.time.sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_lies_behind_the_lower_bound_is_never_walked() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let stores = keyspace.stores().await;
        let tick = stores.tick();
        let previous = tick.plus(-shape().slots());
        for tick in [previous, tick] {
            let id = stores.task(1, tick);
            let entry = Entry::due(id, 0, 0, id.first_start(), spec(), 1);
            stores.one.put_entries(&[entry]).await.remove(0).unwrap();
        }
        let first = read_tick(&*stores.one, 1, previous, 10).await.remove(0);
        let scan = Scan {
            wheel: WheelNumber::new(1).unwrap(),
            slot: shape().slot_of(tick),
            span: shape().span_of(tick),
            behind: Some(first.key),
            rows_max: 10,
        };
        let page = stores.one.scan(&scan).await.unwrap();
        assert_eq!(page.rows.len(), 1);
        assert!(shape().span_of(tick).contains(page.rows[0].key.due));
    })
    .await;
}
