//! A change of the configuration is in force on every node that calls its copy current, two seconds after it was acknowledged.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tickwheel::{
    flow::base::configuration::{announce, cache::Cache},
    limits::EPOCH_CHANGES_MAX,
    model::{
        configuration::{CURRENT_MAX, PASS_EVERY},
        record::{Change, Kind, Mark, Name, Record, Version},
    },
    store::{Freshness, RecordStore, Swapped},
    time_source::{Moment, TimeSource},
};
use tokio_util::sync::CancellationToken;

use crate::{
    replicas::{Control, Faults, Handle, Replicas, Set, SwapFate, Wait},
    world::EPOCH,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Two nodes with copies, and a third that writes.
struct Nodes {
    time: TimeSource,
    control: Control,
    writer: Arc<Handle>,
    nodes: Vec<(usize, Cache)>,
    stop: CancellationToken,
}

impl Nodes {
    fn new(seed: u64) -> Self {
        let time = TimeSource::simulated(EPOCH, seed);
        let replicas = Replicas::new(
            crate::world::World::new(4, 64).rules.shape,
            time.clone(),
            seed,
        );
        let stop = CancellationToken::new();
        let nodes = [1, 2].map(|number| {
            let own = time.simulated_peer(number);
            // Clocks of nodes differ, and nothing may depend on it.
            own.set_wall_error_ms(if number == 1 { 700 } else { -900 });
            let handle = replicas.handle(own.clone());
            let number = handle.node();
            let cache = Cache::new(handle, own);
            tokio::spawn(cache.clone().run(stop.clone()));
            (number, cache)
        });
        Self {
            control: replicas.control(),
            writer: replicas.handle(time.simulated_peer(3)),
            nodes: nodes.to_vec(),
            stop,
            time,
        }
    }

    async fn until_all_are_current(&self) {
        let all = || self.nodes.iter().all(|(_, cache)| cache.is_current());
        for _ in 0..600 {
            if all() {
                return;
            }
            self.time.sleep(100 * MS).await;
        }
        assert!(all(), "a copy did not become current");
    }

    fn change(&self, name: &Name, replaced: Option<&Record>, value: &str) -> Change {
        let mark = Mark {
            nonce: self.time.random_uuid(),
            stamp: self.time.stamp(),
        };
        let value = Bytes::copy_from_slice(value.as_bytes());
        Change::put(name.clone(), replaced, value, None, mark).unwrap()
    }

    /// Writes until a write is acknowledged; returns the record.
    async fn write(&self, name: &Name, value: &str) -> Record {
        for _ in 0..600 {
            let there = self.writer.record(name, Freshness::Serial).await;
            if let Ok(there) = there {
                let change = self.change(name, there.as_ref(), value);
                let put = announce::put(&*self.writer, &self.time, &change).await;
                if put.is_ok_and(|put| put == Swapped::Applied) {
                    return change.record().clone();
                }
            }
            self.time.sleep(100 * MS).await;
        }
        panic!("no write was acknowledged");
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn name(number: usize) -> Name {
    Name::new(Kind::Callback, &format!("callback-{number}")).unwrap()
}

/// The acknowledged changes, with the moments of their acknowledgements.
type Acknowledged = BTreeMap<Name, Vec<(Moment, Version)>>;

/// Checks that every copy that calls itself current has what was acknowledged two seconds ago, or something newer.
fn check(nodes: &Nodes, acknowledged: &Acknowledged) -> usize {
    let now = nodes.time.moment();
    let mut checked = 0;
    for (number, cache) in nodes.nodes.iter().filter(|(_, cache)| cache.is_current()) {
        for (name, versions) in acknowledged {
            let old = versions
                .iter()
                .filter(|(at, _)| now.since(*at) >= CURRENT_MAX);
            let Some((_, wanted)) = old.max_by_key(|(_, version)| *version) else {
                continue;
            };
            let held = cache.get(name).map(|record| record.version);
            assert!(
                held >= Some(*wanted),
                "node {number} has {held:?} of {name} instead of {wanted:?}"
            );
            checked += 1;
        }
    }
    checked
}

fn faults() -> Faults {
    Faults {
        latency: Wait::millis(1, 120),
        lateness: Wait::millis(1, 8_000),
        reads_fail: 60,
        reads_unrepaired: 300,
        pages_cut: 200,
        writes_fail: 60,
        writes_time_out: 60,
        writes_miss_one: 300,
        swaps_fail: 100,
        swaps_unknown: 250,
        decisions_missed: 300,
        ..Faults::NONE
    }
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_change_is_in_force_everywhere_after_two_seconds() {
    let nodes = Nodes::new(1);
    assert!(nodes.nodes.iter().all(|(_, cache)| !cache.is_current()));
    nodes.until_all_are_current().await;
    let first = nodes.write(&name(0), "paused").await;
    nodes.time.sleep(CURRENT_MAX).await;
    for (_, cache) in &nodes.nodes {
        assert!(cache.is_current());
        assert_eq!(cache.get(&name(0)), Some(first.clone()));
        assert_eq!(cache.get(&name(1)), None);
    }
    // So is a removal.
    let mark = Mark {
        nonce: nodes.time.random_uuid(),
        stamp: nodes.time.stamp(),
    };
    let removal = Change::remove(&first, nodes.time.now(), mark);
    let removed = announce::put(&*nodes.writer, &nodes.time, &removal).await;
    assert_eq!(removed.unwrap(), Swapped::Applied);
    nodes.time.sleep(CURRENT_MAX).await;
    for (_, cache) in &nodes.nodes {
        assert!(cache.is_current());
        assert_eq!(cache.get(&name(0)), None);
    }
}

#[tokio::test(start_paused = true)]
async fn no_copy_is_older_than_it_says_under_late_and_lost_writes() {
    let mut checked = 0;
    for seed in 0..25 {
        let nodes = Nodes::new(seed);
        nodes.until_all_are_current().await;
        nodes.control.set(faults());
        if seed % 2 == 0 {
            // A reading that is as long as the promise is dated from its beginning.
            nodes.control.slow("record", Wait::millis(1_000, 1_900));
        }
        let acknowledged = Mutex::new(Acknowledged::new());
        let writing = async {
            for number in 0..40 {
                let name = name(number % 5);
                let record = nodes.write(&name, &format!("{number}")).await;
                let entry = (nodes.time.moment(), record.version);
                acknowledged
                    .lock()
                    .unwrap()
                    .entry(name)
                    .or_default()
                    .push(entry);
                nodes.time.sleep(700 * MS).await;
            }
        };
        let checking = async {
            loop {
                checked += check(&nodes, &acknowledged.lock().unwrap());
                nodes.time.sleep(17 * MS).await;
            }
        };
        tokio::select! {
            () = writing => {}
            () = checking => {}
        }
        let acknowledged = acknowledged.into_inner().unwrap();
        nodes.control.heal();
        nodes.time.sleep(4 * SECOND).await;
        for (_, cache) in &nodes.nodes {
            assert!(cache.is_current(), "seed {seed}");
        }
        checked += check(&nodes, &acknowledged);
    }
    assert!(checked > 100_000, "too little was checked: {checked}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_cut_off_says_so_within_two_seconds_and_comes_back() {
    for seed in 0..10 {
        let nodes = Nodes::new(seed);
        nodes.until_all_are_current().await;
        nodes
            .time
            .sleep(u32::try_from(seed).unwrap() * 130 * MS)
            .await;
        let [(cut, away), (_, near)] = &nodes.nodes[..] else {
            panic!("two nodes");
        };
        nodes.control.cut(*cut, Set::ALL);
        let record = nodes.write(&name(0), "paused").await;
        let acknowledged = nodes.time.moment();
        // The copy that is cut off lacks the change. It may be current no longer than two seconds.
        while nodes.time.moment().since(acknowledged) < CURRENT_MAX {
            nodes.time.sleep(10 * MS).await;
            assert_eq!(away.get(&name(0)), None);
        }
        nodes.time.sleep(MS).await;
        assert!(!away.is_current(), "seed {seed}");
        assert!(near.is_current());
        assert_eq!(near.get(&name(0)), Some(record.clone()));
        nodes.time.sleep(60 * SECOND).await;
        assert!(!away.is_current());
        nodes.control.cut(*cut, Set::NONE);
        nodes.time.sleep(4 * SECOND).await;
        assert!(away.is_current());
        assert_eq!(away.get(&name(0)), Some(record));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_stopped_is_not_current_when_it_goes_on() {
    let nodes = Nodes::new(3);
    nodes.until_all_are_current().await;
    nodes.time.sleep(3 * SECOND).await;
    let own = nodes.time.simulated_peer(9);
    let replicas = Replicas::new(crate::world::World::new(4, 64).rules.shape, own.clone(), 3);
    let cache = Cache::new(replicas.handle(own.clone()), own.clone());
    let stop = CancellationToken::new();
    let running = tokio::spawn(cache.clone().run(stop.clone()));
    nodes.time.sleep(SECOND).await;
    assert!(cache.is_current());
    own.hold(Some(own.moment().after(10 * SECOND)));
    nodes.time.sleep(5 * SECOND).await;
    assert!(!cache.is_current());
    nodes.time.sleep(6 * SECOND).await;
    assert!(cache.is_current());
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn more_changes_than_the_epoch_names_are_all_read() {
    let nodes = Nodes::new(5);
    nodes.until_all_are_current().await;
    let [(cut, away), _] = &nodes.nodes[..] else {
        panic!("two nodes");
    };
    nodes.control.cut(*cut, Set::ALL);
    let mut written = Vec::new();
    for number in 0..=EPOCH_CHANGES_MAX {
        written.push(nodes.write(&name(number), "v").await);
    }
    nodes.time.sleep(3 * SECOND).await;
    assert!(!away.is_current());
    nodes.control.cut(*cut, Set::NONE);
    nodes.time.sleep(3 * SECOND).await;
    assert!(away.is_current());
    for record in written {
        assert_eq!(away.get(&record.name.clone()), Some(record));
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_writer_died_before_it_was_announced_is_found_by_a_pass() {
    let nodes = Nodes::new(6);
    nodes.until_all_are_current().await;
    let change = nodes.change(&name(0), None, "v");
    let written = nodes.writer.put_if(&change).await.unwrap();
    assert_eq!(written, Swapped::Applied);
    nodes.time.sleep(5 * SECOND).await;
    let found = |cache: &Cache| cache.get(&name(0)).is_some();
    assert!(!nodes.nodes.iter().any(|(_, cache)| found(cache)));
    nodes.time.sleep(PASS_EVERY).await;
    assert!(nodes.nodes.iter().all(|(_, cache)| found(cache)));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_settled_before_it_is_acknowledged() {
    for fate in [
        SwapFate::Decided { learned: Set::NONE },
        SwapFate::Accepted,
        SwapFate::Lost,
    ] {
        let nodes = Nodes::new(7);
        nodes.until_all_are_current().await;
        let change = nodes.change(&name(0), None, "v");
        nodes.control.next_swap(fate);
        let put = announce::put(&*nodes.writer, &nodes.time, &change)
            .await
            .unwrap();
        let there = nodes
            .writer
            .record(&name(0), Freshness::Serial)
            .await
            .unwrap();
        assert_eq!(put == Swapped::Applied, there.is_some(), "{fate:?}");
        nodes.time.sleep(CURRENT_MAX).await;
        for (_, cache) in &nodes.nodes {
            assert_eq!(cache.get(&name(0)), there, "{fate:?}");
        }
    }
}

/// Counts the reads and writes of a node, by operation.
#[tokio::test(start_paused = true)]
async fn without_records_a_copy_costs_a_read_a_second() {
    use tickwheel::doubles::store::{
        faulty::{Call, Fate, Faulty},
        memory::MemoryStore,
    };
    let time = TimeSource::simulated(EPOCH, 1);
    let store = MemoryStore::new(crate::world::World::new(4, 64).rules.shape, time.clone());
    let calls = Arc::new(Mutex::new(BTreeMap::<&str, usize>::new()));
    let counted = Arc::clone(&calls);
    let hook = Arc::new(move |call: Call| {
        *counted.lock().unwrap().entry(call.operation).or_default() += 1;
        Fate::Go
    });
    let store = Arc::new(Faulty::new(store, time.clone(), hook));
    let cache = Cache::new(store, time.clone());
    let stop = CancellationToken::new();
    let running = tokio::spawn(cache.clone().run(stop.clone()));
    time.sleep(100 * MS).await;
    calls.lock().unwrap().clear();
    time.sleep(60 * SECOND).await;
    let calls = calls.lock().unwrap().clone();
    assert_eq!(calls, BTreeMap::from([("index_range", 4), ("record", 60)]));
    assert!(cache.is_current());
    stop.cancel();
    running.await.unwrap();
}
