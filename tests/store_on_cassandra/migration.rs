//! A keyspace of another schema version is refused on a real Cassandra or Scylla, and left as it is.

use tickwheel::{
    model::wheel::WheelNumber,
    store::{
        ClockStore, Error, Freshness,
        cassandra::{Store, init},
    },
};

use super::{Keyspace, in_keyspace, initialized, reason};
use crate::store_contract::shape;

#[tokio::test]
async fn a_keyspace_of_another_version_is_refused_in_words_and_left_as_it_is() {
    in_keyspace(|keyspace| async move {
        initialized(&keyspace).await;
        let Keyspace { settings, time, .. } = &*keyspace;
        let store = keyspace.connect().await;
        let wheel = WheelNumber::new(1).unwrap();
        let clock = store.clock(wheel, Freshness::Serial).await.unwrap();
        drop(store);
        // Another version has other tables, and may be half made.
        keyspace.cql("DROP TABLE {}.parked").await;
        for (version, ready) in [(1, true), (1, false), (3, true), (3, false)] {
            let set = format!("schema_version = {version}, ready = {ready}");
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
                let named = format!("schema version {version}");
                for part in [
                    named.as_str(),
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
        // The other program finds its keyspace as it left it.
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
