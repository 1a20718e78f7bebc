//! A keyspace that version 0.2.0 wrote is used by this version, read whole, and run to its end.
//!
//! `keyspace.cql` has the tables as that version made them. `keyspace.jsonl` has a row a line, with the time of its write where
//! that counts.

use std::{fmt::Write as _, fs, path::Path};

use scylla::client::{session::Session, session_builder::SessionBuilder};
use serde_json::{Value, json};
use tickwheel::time_source::TimeSource;

use crate::{
    cluster::{Cluster, Node, Stack},
    kept_data::{Kept, Site, content, fixture},
};

const STORE: &str = "keyspace";
const WHEELS: u16 = 2;

/// The tables, and for those that are written without a condition a column whose time of writing is that of its row. The list
/// of nodes is left out: they are dead.
const TABLES: [(&str, Option<&str>); 8] = [
    ("meta", None),
    ("clock", None),
    ("wheel", Some("kind")),
    ("task", None),
    ("heartbeat", Some("at_ms")),
    ("body", Some("content")),
    ("record", None),
    ("index_row", Some("value")),
];

async fn session(stack: &Stack) -> Session {
    let building = SessionBuilder::new().known_node(&stack.cassandra);
    building.build().await.unwrap()
}

async fn texts(session: &Session, query: &str) -> Vec<String> {
    let found = session.query_unpaged(query, ()).await.unwrap();
    let rows = found.into_rows_result().unwrap();
    let rows = rows.rows::<(String,)>().unwrap();
    rows.map(|row| row.unwrap().0).collect()
}

/// Writes the rows of a keyspace as lines.
async fn saved(session: &Session, keyspace: &str) -> String {
    let mut lines = String::new();
    for (table, written) in TABLES {
        let query = format!(
            "SELECT column_name FROM system_schema.columns WHERE keyspace_name = '{keyspace}' \
             AND table_name = '{table}'"
        );
        let mut columns = texts(session, &query).await;
        columns.sort();
        let mut columns = columns.join(", ");
        if let Some(column) = written {
            write!(columns, ", WRITETIME({column}) AS written").unwrap();
        }
        let query = format!("SELECT JSON {columns} FROM {keyspace}.{table}");
        let mut rows = texts(session, &query).await;
        rows.sort();
        for row in rows {
            let mut row: Value = serde_json::from_str(&row).unwrap();
            let fields = row.as_object_mut().unwrap();
            fields.retain(|_, value| !value.is_null());
            let written = fields.remove("written");
            let line = json!({"table": table, "row": row, "written": written});
            writeln!(lines, "{line}").unwrap();
        }
    }
    lines
}

/// Makes a keyspace with the tables and the rows of a fixture.
async fn restored(session: &Session, keyspace: &str, folder: &Path) {
    let tables = fs::read_to_string(folder.join("keyspace.cql")).unwrap();
    let tables = tables.replace("{keyspace}", keyspace);
    for statement in tables.split(';').filter(|text| !text.trim().is_empty()) {
        session.query_unpaged(statement, ()).await.unwrap();
    }
    let lines = fs::read_to_string(folder.join("keyspace.jsonl")).unwrap();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let table = line["table"].as_str().unwrap();
        let mut insert = format!("INSERT INTO {keyspace}.{table} JSON ? DEFAULT UNSET");
        if let Some(written) = line["written"].as_i64() {
            write!(insert, " USING TIMESTAMP {written}").unwrap();
        }
        let row = line["row"].to_string();
        session.query_unpaged(insert, (row,)).await.unwrap();
    }
}

async fn opened(cluster: &Cluster, kept: &Kept, later_ms: i64) -> (Node, Site, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("offset");
    fs::write(&file, kept.offset_ms(later_ms).to_string()).unwrap();
    let more = ["--clock-offset-file", file.to_str().unwrap()];
    let node = cluster.node_with(1, &more).await;
    let site = Site::new(&node.url, &kept.key());
    (node, site, directory)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it passes two hours in some forty seconds: make test-all"]
async fn a_keyspace_of_version_0_2_0_is_read_and_what_is_due_runs() {
    let stack = Stack::of_this_run();
    let session = session(&stack).await;
    let folder = fixture("0.2.0");
    let kept = Kept::of(&folder, STORE);
    let keyspace = format!("k{:016x}", TimeSource::real().random());
    restored(&session, &keyspace, &folder).await;
    // An operator runs this before the nodes of a new version start; it keeps every row.
    let cluster = Cluster::init_on(stack, keyspace.clone(), WHEELS);
    let (mut node, site, _file) = opened(&cluster, &kept, 20_000).await;
    kept.are_given_by(&site).await;
    node.kill();
    let (_node, site, _file) = opened(&cluster, &kept, 2 * 3600 * 1000 + 60_000).await;
    // Heartbeats in Cassandra are durable, so the attempt that was left is known to be lost.
    kept.runs(&site, &["claimed"]).await;
    let drop = format!("DROP KEYSPACE {keyspace}");
    session.query_unpaged(drop, ()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it writes the fixture that TICKWHEEL_WRITE_FIXTURE names, and nothing in make test-all"]
async fn the_keyspace_of_this_version_is_written() {
    let Ok(version) = std::env::var("TICKWHEEL_WRITE_FIXTURE") else {
        return;
    };
    let folder = fixture(&version);
    fs::create_dir_all(&folder).unwrap();
    let stack = Stack::of_this_run();
    let session = session(&stack).await;
    let keyspace = format!("k{:016x}", TimeSource::real().random());
    let cluster = Cluster::init_on(stack, keyspace.clone(), WHEELS);
    let mut node = cluster.node(1).await;
    let mut site = Site::new(&node.url, "");
    let ids = content::fill(&mut site, true).await;
    Kept::write(&site, &ids, &folder, STORE).await;
    node.kill();
    let rows = saved(&session, &keyspace).await;
    fs::write(folder.join("keyspace.jsonl"), rows).unwrap();
    fs::write(folder.join("keyspace.cql"), tables_of_now()).unwrap();
}

/// The tables as this version makes them, without what depends on the server.
fn tables_of_now() -> String {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/cassandra");
    let tables = fs::read_to_string(schemas.join("tables.cql")).unwrap();
    let lines = tables.lines().map(|line| {
        let bare = line.split("--").next().unwrap().trim_end();
        let bare = bare.replace(" AND compaction = {compaction}", "");
        bare.replace("WITH compaction = {compaction}", "")
    });
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    let replication = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}";
    format!(
        "CREATE KEYSPACE {{keyspace}} WITH replication = {replication};\n{}\n",
        lines.join("\n")
    )
}
