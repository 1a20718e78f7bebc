//! A keyspace of an earlier schema version is raised on a real Cassandra or Scylla.

use tickwheel::{
    model::{
        entry::Entry,
        state::{Expect, State},
        time::Tick,
        wheel::WheelNumber,
    },
    store::{
        ClockStore, Error, Freshness, Swapped, TaskStore, WheelStore,
        cassandra::{Initialized, Store, init},
    },
};

use super::{Keyspace, in_keyspace, initialized, reason};
use crate::store_contract::{
    shape, spec,
    tasks::{row, transition},
};

impl Keyspace {
    /// Turns the keyspace into one of schema version 1.
    async fn lower(&self, tables: &[&str]) {
        for table in tables {
            self.cql(&format!("DROP TABLE {{}}.{table}")).await;
        }
        self.cql("UPDATE {}.meta SET schema_version = 1 WHERE name = 'settings' IF EXISTS")
            .await;
    }
}

#[tokio::test]
async fn a_keyspace_of_version_1_is_raised_by_init_and_keeps_every_row() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let Keyspace { settings, time, .. } = &*keyspace;
        let stores = keyspace.stores().await;
        let (id, wheel) = (
            stores.task(1, Tick(2_000_000_000)),
            WheelNumber::new(1).unwrap(),
        );
        let claimed = row(&stores, id, State::Claimed, 1);
        let answers = stores
            .one
            .swap_tasks(&[transition(Expect::Absent, &claimed)])
            .await;
        assert_eq!(answers[0].clone().unwrap(), Swapped::Applied);
        let entry = Entry::due(id, 0, 0, id.first_start(), spec(), 9);
        let put = stores.one.put_entries(std::slice::from_ref(&entry)).await;
        assert!(put[0].is_ok());
        let clock = stores.one.clock(wheel, Freshness::Serial).await.unwrap();
        // The second time an earlier run has made one of the tables and died.
        for dropped in [&["record", "index_row"][..], &["index_row"]] {
            keyspace.lower(dropped).await;
            let refused = Store::connect(settings, time).await.unwrap_err();
            let says = reason(&refused);
            assert!(
                says.contains("has schema version 1") && says.contains("run `tickwheel init`"),
                "{refused}"
            );
            let done = init(settings, shape(), time).await;
            assert_eq!(done.unwrap(), Initialized::Migrated);
            let again = init(settings, shape(), time).await;
            assert_eq!(again.unwrap(), Initialized::AlreadyThere);
            let store = keyspace.connect().await;
            let rows = store.tasks(&[id], Freshness::Serial).await.unwrap();
            assert_eq!(rows, [Some(claimed.clone())]);
            let found = store.find_entries(id, &[entry.key.due]).await.unwrap();
            assert_eq!(found, std::slice::from_ref(&entry));
            assert_eq!(store.clock(wheel, Freshness::Serial).await.unwrap(), clock);
        }
        // An initialisation by the earlier version that was not finished is finished.
        keyspace.lower(&["record"]).await;
        keyspace
            .cql("UPDATE {}.meta SET ready = false WHERE name = 'settings' IF EXISTS")
            .await;
        initialized(&keyspace).await;
        let store = keyspace.connect().await;
        assert_eq!(store.clock(wheel, Freshness::Serial).await.unwrap(), clock);
    })
    .await;
}

#[tokio::test]
async fn a_keyspace_of_a_later_version_is_refused_in_words_and_left_as_it_is() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let Keyspace { settings, time, .. } = &*keyspace;
        let store = keyspace.connect().await;
        let wheel = WheelNumber::new(1).unwrap();
        let clock = store.clock(wheel, Freshness::Serial).await.unwrap();
        drop(store);
        // A later version has other tables, and may be half made.
        keyspace.cql("DROP TABLE {}.parked").await;
        for ready in [true, false] {
            let set = format!("schema_version = 3, ready = {ready}");
            keyspace
                .cql(&format!(
                    "UPDATE {{}}.meta SET {set} WHERE name = 'settings' IF EXISTS"
                ))
                .await;
            let refused = [
                Store::connect(settings, time).await.map(drop).unwrap_err(),
                init(settings, shape(), time).await.map(drop).unwrap_err(),
            ];
            for refused in refused {
                assert!(matches!(refused, Error::Unsuitable { .. }), "{refused}");
                for part in [
                    "schema version 3",
                    "this program needs schema version 2",
                    "use the program that made it",
                ] {
                    assert!(reason(&refused).contains(part), "{refused}");
                }
            }
        }
        let tables = keyspace
            .cql("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{}'")
            .await;
        let tables = tables.into_rows_result().unwrap();
        let tables: Vec<String> = tables
            .rows::<(String,)>()
            .unwrap()
            .map(|row| row.unwrap().0)
            .collect();
        assert_eq!(tables.len(), 9, "nothing is made: {tables:?}");
        assert!(!tables.contains(&"parked".to_owned()), "{tables:?}");
        // The later program finds its keyspace as it left it.
        let left = keyspace
            .cql("SELECT schema_version, ready FROM {}.meta WHERE name = 'settings'")
            .await;
        let left = left.into_rows_result().unwrap();
        assert_eq!(left.single_row::<(i32, bool)>().unwrap(), (3, false));
        keyspace
            .cql("UPDATE {}.meta SET schema_version = 2, ready = false WHERE name = 'settings' IF EXISTS")
            .await;
        initialized(&keyspace).await;
        let store = keyspace.connect().await;
        assert_eq!(store.clock(wheel, Freshness::Serial).await.unwrap(), clock);
    })
    .await;
}
