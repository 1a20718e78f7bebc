//! Tests of the setup, without a server.

use super::*;

#[test]
fn the_schema_has_one_keyspace_and_ten_tables_and_nothing_is_left_to_fill_in() {
    let settings = Settings::new(vec!["a:1".into()], "timers");
    for server in [
        Server::Cassandra(4),
        Server::Cassandra(5),
        Server::Scylla(2026),
    ] {
        let all: Vec<String> = statements(KEYSPACE)
            .chain(statements(TABLES))
            .map(|statement| server.fill_in(&statement, &settings))
            .collect();
        assert_eq!(all.len(), 11);
        for statement in all {
            assert!(statement.starts_with("CREATE "), "{statement}");
            assert!(statement.contains(" timers"), "{statement}");
            assert!(!statement.contains("{keyspace}"), "{statement}");
            assert!(!statement.contains("{compaction}"), "{statement}");
        }
    }
}

fn meta(schema_version: i32, ready: bool) -> Meta {
    let tick = TickLength::new(std::time::Duration::from_secs(1)).unwrap();
    Meta {
        schema_version,
        ready,
        ..Meta::new(Shape::new(4, tick, 8).unwrap())
    }
}

#[test]
fn every_other_version_is_left_alone() {
    let says = |meta: Meta| meta.usable("timers").unwrap_err().to_string();
    let wanted = meta(2, false);
    for version in [0, 1, 3] {
        for ready in [true, false] {
            let other = meta(version, ready);
            let of_init = other.same_settings(&wanted, "timers").unwrap_err();
            for said in [says(other), of_init.to_string()] {
                let named = format!("schema version {version}");
                assert!(said.contains(&named), "{said}");
                assert!(said.contains("use the program that made it"), "{said}");
            }
        }
    }
    assert!(says(meta(2, false)).contains("run `tickwheel init` again"));
    assert!(meta(2, true).usable("timers").is_ok());
    assert!(meta(2, true).same_settings(&wanted, "timers").is_ok());
    let other = Meta {
        slots: 9,
        ..meta(2, true)
    };
    assert!(other.same_settings(&wanted, "timers").is_err());
}

#[test]
fn tablets_are_left_out_only_where_there_are_any() {
    assert_eq!(Server::Cassandra(5).keyspace_options(), "");
    for version in [6, 2024, 2025, 2026] {
        let options = Server::Scylla(version).keyspace_options();
        assert!(options.contains("tablets"), "{version}");
    }
    for version in [5, 2022, 2023] {
        assert_eq!(Server::Scylla(version).keyspace_options(), "", "{version}");
    }
    assert_eq!(major("5.0.9"), 5);
    assert_eq!(major("2025.3.1-0.2"), 2025);
    assert_eq!(major(""), 0);
}

#[test]
fn names_that_cannot_stand_in_a_statement_are_refused() {
    for name in ["", "A", "a-b", "1a", "a b", "a;drop", &"a".repeat(49)] {
        let settings = Settings::new(vec!["a:1".into()], name);
        assert!(settings.check().is_err(), "{name}");
    }
    assert_eq!(
        Settings::new(vec!["a:1".into()], "timers_2").check().ok(),
        Some(())
    );
}
