//! These tests check for the gatherer which items go together, and when each caller is answered.

use std::time::Duration;

use tokio::{sync::Semaphore, task::JoinSet};

use super::*;
use crate::model::time::Millis;

/// Answers each item with itself, once it is allowed to; notes which items went together.
struct Slow {
    turns: Arc<Semaphore>,
    requests: Arc<Mutex<Vec<Vec<u32>>>>,
}

#[async_trait]
impl Carrier for Slow {
    type Item = u32;
    type Answer = u32;

    async fn carry(&self, items: Vec<u32>) -> Vec<u32> {
        self.requests.lock().push(items.clone());
        self.turns.acquire().await.unwrap().forget();
        assert!(!items.contains(&666), "this one ends its lane");
        items
    }
}

struct Rig {
    gather: Arc<Gather<Slow>>,
    turns: Arc<Semaphore>,
    requests: Arc<Mutex<Vec<Vec<u32>>>>,
    time: TimeSource,
    asked: JoinSet<Option<u32>>,
}

const LANES: usize = 4;

const ONE: Load = Load {
    rows: 1,
    bytes: 100,
    partitions: 1,
};

impl Rig {
    fn new() -> Self {
        let (turns, requests) = (Arc::new(Semaphore::new(0)), Arc::<Mutex<_>>::default());
        let carrier = Slow {
            turns: Arc::clone(&turns),
            requests: Arc::clone(&requests),
        };
        let time = TimeSource::simulated(Millis(0), 1);
        Self {
            gather: Gather::new(carrier, LANES, time.clone()),
            time,
            turns,
            requests,
            asked: JoinSet::new(),
        }
    }

    /// Asks, and lets the consequences happen.
    async fn ask(&mut self, home: Replicas, item: u32, load: Load) {
        let gather = Arc::clone(&self.gather);
        self.asked
            .spawn(async move { gather.ask(home, item, load).await });
        self.time.sleep(Duration::from_millis(1)).await;
    }

    /// Returns how many items each request had so far.
    fn sizes(&self) -> Vec<usize> {
        self.requests.lock().iter().map(Vec::len).collect()
    }

    async fn let_through(&self, requests: usize) {
        self.turns.add_permits(requests);
        self.time.sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_leave_as_they_come_and_the_rest_when_there_is_room_or_a_request_is_full() {
    let mut rig = Rig::new();
    let lanes = u32::try_from(LANES).unwrap();
    for item in 0..lanes + 3 {
        rig.ask(Vec::new(), item, ONE).await;
    }
    assert_eq!(rig.sizes(), vec![1; LANES]);
    // One is answered, and the items that waited leave together.
    rig.let_through(1).await;
    assert_eq!(rig.sizes().last(), Some(&3));
    // A full request leaves at once, although as many are under way as before.
    let before = rig.sizes().len();
    for item in 100..100 + u32::try_from(BATCH_PARTITIONS_MAX).unwrap() {
        assert_eq!(rig.sizes().len(), before);
        rig.ask(Vec::new(), item, ONE).await;
    }
    assert_eq!(rig.sizes().last(), Some(&BATCH_PARTITIONS_MAX));
    rig.let_through(100).await;
    let mut answers = Vec::new();
    while let Some(answer) = rig.asked.join_next().await {
        answers.push(answer.unwrap().unwrap());
    }
    answers.sort_unstable();
    let all = (0..lanes + 3).chain(100..100 + u32::try_from(BATCH_PARTITIONS_MAX).unwrap());
    assert_eq!(answers, all.collect::<Vec<_>>());
    assert!(rig.gather.lock().is_empty(), "nothing is kept");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_beside_the_others_waits_for_the_next_request() {
    let mut rig = Rig::new();
    for item in 0..u32::try_from(LANES).unwrap() {
        rig.ask(Vec::new(), item, ONE).await;
    }
    let large = Load {
        bytes: BATCH_BYTES_MAX / 2 + 1,
        ..ONE
    };
    rig.ask(Vec::new(), 50, large).await;
    rig.ask(Vec::new(), 51, large).await;
    let sent = rig.requests.lock().last().cloned();
    assert_eq!(sent, Some(vec![50]), "51 would make it too large");
    // An item that is too large for any request has one to itself.
    let huge = Load {
        bytes: 3 * BATCH_BYTES_MAX,
        ..ONE
    };
    rig.ask(Vec::new(), 52, huge).await;
    rig.let_through(100).await;
    let requests = rig.requests.lock().clone();
    assert!(requests.contains(&vec![51]) && requests.contains(&vec![52]));
}

#[tokio::test(start_paused = true)]
async fn what_is_full_leaves_at_once_whatever_waits_before_it() {
    let mut rig = Rig::new();
    for item in 0..u32::try_from(LANES).unwrap() + 1 {
        rig.ask(Vec::new(), item, ONE).await;
    }
    let full = Load {
        rows: BATCH_PARTITIONS_MAX,
        partitions: BATCH_PARTITIONS_MAX,
        ..ONE
    };
    rig.ask(Vec::new(), 99, full).await;
    let sent = rig.requests.lock().concat();
    assert!(sent.contains(&99), "{sent:?}");
    rig.let_through(100).await;
}

#[tokio::test(start_paused = true)]
async fn servers_that_hang_hold_nobody_up_for_long_and_who_gave_up_is_not_sent() {
    let mut rig = Rig::new();
    for item in 0..u32::try_from(LANES).unwrap() {
        rig.ask(Vec::new(), item, ONE).await;
    }
    let before = rig.sizes().len();
    let given_up = rig.gather.ask(Vec::new(), 60, ONE);
    let given_up = rig.time.within(Duration::from_millis(1), given_up).await;
    assert_eq!(given_up, None);
    rig.ask(Vec::new(), 61, ONE).await;
    rig.ask(Vec::new(), 62, ONE).await;
    assert_eq!(rig.sizes().len(), before);
    // No request is answered.
    rig.time.sleep(GATHERED_WAIT_MAX).await;
    let sent = rig.requests.lock().last().cloned();
    assert_eq!(sent, Some(vec![61, 62]));
    rig.let_through(100).await;
    let mut answers = rig.asked.join_all().await;
    answers.sort_unstable();
    let lanes = u32::try_from(LANES).unwrap();
    let all: Vec<_> = (0..lanes).chain([61, 62]).map(Some).collect();
    assert_eq!(answers, all);
    assert!(rig.gather.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn other_servers_have_their_own_requests() {
    let mut rig = Rig::new();
    for item in 0..u32::try_from(LANES).unwrap() + 1 {
        rig.ask(Vec::new(), item, ONE).await;
    }
    let before = rig.sizes().len();
    rig.ask(vec![uuid::Uuid::max()], 7, ONE).await;
    assert_eq!(rig.sizes().len(), before + 1);
    rig.let_through(100).await;
}

/// Answers at once.
struct Quick;

#[async_trait]
impl Carrier for Quick {
    type Item = u32;
    type Answer = u32;

    async fn carry(&self, items: Vec<u32>) -> Vec<u32> {
        tokio::task::yield_now().await;
        items
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_as_the_last_lanes_end_is_not_left_to_them() {
    let mut rig = Rig::new();
    let lane = || Lane {
        gather: Arc::clone(&rig.gather),
        key: Vec::new(),
        ended: false,
    };
    let mut ending = [(); LANES].map(|()| lane());
    rig.gather
        .lock()
        .entry(Vec::new())
        .or_insert_with(Home::new)
        .lanes = LANES;
    // They find that no caller waits, and are not gone yet.
    for lane in &mut ending {
        assert!(lane.next().is_empty());
    }
    rig.ask(Vec::new(), 5, ONE).await;
    assert_eq!(rig.sizes(), [1]);
    drop(ending);
    rig.let_through(1).await;
    assert_eq!(rig.asked.join_next().await.unwrap().unwrap(), Some(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_comes_as_the_last_lane_ends_is_answered() {
    let time = TimeSource::real();
    let gather = Gather::new(Quick, LANES, time.clone());
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let gather = Arc::clone(&gather);
        callers.spawn(async move {
            for item in 0..5000 {
                let answer = gather.ask(Vec::new(), item, ONE).await;
                assert_eq!(answer, Some(item), "caller {caller}");
            }
        });
    }
    let all = time.within(Duration::from_secs(60), callers.join_all());
    all.await.expect("somebody waits for ever");
    assert!(gather.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_panics_holds_nobody_up() {
    let mut rig = Rig::new();
    rig.ask(Vec::new(), 666, ONE).await;
    rig.let_through(1).await;
    assert_eq!(rig.asked.join_next().await.unwrap().unwrap(), None);
    assert!(rig.gather.lock().is_empty());
    rig.ask(Vec::new(), 1, ONE).await;
    rig.let_through(1).await;
    assert_eq!(rig.asked.join_next().await.unwrap().unwrap(), Some(1));
}
