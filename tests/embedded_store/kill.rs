//! The embedded store keeps acknowledged writes for its callers over `kill -9` at any moment, and
//! conditional writes whole.
//!
//! The test starts itself as a child that writes and prints its acknowledgements, kills it, and opens the
//! directory to check, again and again on the same directory.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use tempfile::TempDir;
use tickwheel::{
    model::{
        clock::ClockRow,
        entry::Entry,
        ids::TaskId,
        state::{Expect, State, TaskRow, Transition},
        time::{Millis, Tick},
        wheel::WheelNumber,
    },
    store::{
        ClockStore, Freshness, Swapped, TaskStore, WheelStore,
        embedded::{self, Settings},
    },
    time_source::TimeSource,
};
use uuid::Uuid;

use crate::store_contract::{shape, spec, tasks};

/// Marks a run of the test binary as the child, with the directory to write to.
pub(super) const CHILD: &str = "TICKWHEEL_TEST_EMBEDDED_CHILD";

const KILLS: u64 = 25;
const WRITERS: u64 = 8;
const BATCH: u64 = 8;
/// The first tick of the wheels that is written to.
const FIRST: Tick = Tick(2_000_000_000);

/// Starts one test of this binary as a child.
pub(super) fn child(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// The tasks of a batch: found again by their numbers.
fn ids(life: u64, writer: u64, batch: u64) -> Vec<TaskId> {
    let wheel = WheelNumber::new(u16::try_from(writer % 4).unwrap()).unwrap();
    let due = shape()
        .tick()
        .end_of(FIRST.plus(i64::try_from(batch).unwrap()));
    let id = |number| TaskId::new(due, wheel, life << 40 | writer << 32 | batch << 8 | number);
    (0..BATCH).map(id).collect()
}

fn claim(id: TaskId) -> TaskRow {
    TaskRow {
        nonce: id.uuid(),
        ..tasks::row_of(id, State::Claimed, 1, Uuid::nil())
    }
}

fn settled(id: TaskId) -> TaskRow {
    tasks::row_of(id, State::Succeeded, 1, Uuid::max())
}

/// Prints a line for the test that started this process.
pub(super) fn say(line: &str) {
    // Each line is one write, so that a line is always whole.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Registers, claims and settles batch after batch, and prints each finished step.
async fn write(store: Arc<embedded::Store>, life: u64, writer: u64) {
    for batch in 0.. {
        let ids = ids(life, writer, batch);
        let entries: Vec<Entry> = ids
            .iter()
            .map(|id| Entry::due(*id, 0, 0, id.first_start(), spec(), 5))
            .collect();
        assert!(store.put_entries(&entries).await.iter().all(Result::is_ok));
        say(&format!("entries {writer} {batch}"));
        for (step, row) in [
            ("claimed", claim as fn(TaskId) -> TaskRow),
            ("settled", settled),
        ] {
            let expect = |id| {
                if step == "claimed" {
                    Expect::Absent
                } else {
                    claim(id).seen()
                }
            };
            let transition = |id: &TaskId| Transition {
                expect: expect(*id),
                row: row(*id),
                ttl: None,
            };
            let transitions: Vec<Transition> = ids.iter().map(transition).collect();
            for answer in store.swap_tasks(&transitions).await {
                assert_eq!(answer.unwrap(), Swapped::Applied);
            }
            say(&format!("{step} {writer} {batch}"));
        }
    }
}

/// Swaps a clock over and over.
async fn tick(store: Arc<embedded::Store>) {
    let wheel = WheelNumber::new(0).unwrap();
    let mut from = store.clock(wheel, Freshness::Serial).await.unwrap();
    loop {
        let to = ClockRow {
            version: from.version + 1,
            wall: Millis(from.wall.0 + 1),
            ..from
        };
        assert_eq!(
            store.swap_clock(wheel, &from, &to).await.unwrap(),
            Swapped::Applied
        );
        say(&format!("clock {} 0", to.version));
        from = to;
        tokio::task::yield_now().await;
    }
}

async fn be_the_child(directory: &Path) {
    let life: u64 = env::var("TICKWHEEL_TEST_LIFE").unwrap().parse().unwrap();
    let store =
        embedded::Store::open(Settings::new(directory, shape()), &TimeSource::real()).unwrap();
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(Arc::clone(&store), life, writer)));
    let writers: Vec<_> = writers.collect();
    tick(store).await;
    drop(writers);
}

/// The output of one life of the child: the last batch of each writer by step, and the clock's version.
type Said = BTreeMap<(String, u64), u64>;

fn live_and_die(directory: &Path, life: u64) -> Said {
    let name = "embedded_store::kill::what_was_acknowledged_survives_kill_9_at_any_moment";
    let mut child = child(name, directory)
        .env("TICKWHEEL_TEST_LIFE", life.to_string())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Said::new();
    let mut count = 0;
    // The lives differ much in length: some end in a first group, others under full load or in a merge.
    let until = 1 + (life * life * 37) % 1500;
    for line in lines.map_while(Result::ok) {
        let Some(line) = line.strip_prefix('@') else {
            continue;
        };
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        if words[0] == "clock" {
            said.insert(("clock".to_owned(), 0), number(1));
        } else {
            said.insert((words[0].to_owned(), number(1)), number(2));
        }
        count += 1;
        if count == until {
            kill(&mut child);
        }
    }
    child.wait().unwrap();
    assert!(
        count >= until,
        "the child ended by itself after {count} lines"
    );
    said
}

fn kill(child: &mut Child) {
    // SIGKILL.
    child.kill().unwrap();
}

/// Checks that all acknowledged writes of a life are there.
async fn look(store: &embedded::Store, life: u64, said: &Said) -> usize {
    let mut seen = 0;
    for ((what, writer), last) in said.iter().filter(|((what, _), _)| what != "clock") {
        for batch in 0..=*last {
            let ids = ids(life, *writer, batch);
            let rows = store.tasks(&ids, Freshness::Serial).await.unwrap();
            for (id, row) in ids.into_iter().zip(rows) {
                seen += 1;
                match what.as_str() {
                    "entries" => {
                        let found = store.find_entries(id, &[id.first_start()]).await.unwrap();
                        assert_eq!(
                            found.len(),
                            1,
                            "{id} of batch {batch} of writer {writer} of life {life}"
                        );
                    }
                    "claimed" => assert!(
                        row == Some(claim(id)) || row == Some(settled(id)),
                        "{row:?}"
                    ),
                    _ => assert_eq!(row, Some(settled(id))),
                }
            }
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9_at_any_moment() {
    if let Some(directory) = env::var_os(CHILD) {
        return be_the_child(Path::new(&directory)).await;
    }
    let directory = TempDir::new().unwrap();
    let mut seen = 0;
    let mut lives = Vec::new();
    for life in 0..KILLS {
        let said = live_and_die(directory.path(), life);
        let store = embedded::Store::open(
            Settings::new(directory.path(), shape()),
            &TimeSource::real(),
        )
        .unwrap();
        seen += look(&store, life, &said).await;
        let clock = store
            .clock(WheelNumber::new(0).unwrap(), Freshness::Serial)
            .await
            .unwrap();
        let told = said
            .get(&("clock".to_owned(), 0))
            .copied()
            .unwrap_or_default();
        assert!(
            clock.version >= i64::try_from(told).unwrap(),
            "{clock:?} but {told}"
        );
        lives.push((life, said));
    }
    // The rows of the early lives are in other files on disk by now.
    let store = embedded::Store::open(
        Settings::new(directory.path(), shape()),
        &TimeSource::real(),
    )
    .unwrap();
    for (life, said) in &lives {
        look(&store, *life, said).await;
    }
    assert!(
        seen > 1000,
        "only {seen} rows were acknowledged: raise the lives' lengths"
    );
}
