//! The observer watches a topic for the scenarios and checks its records: every task at least once, none
//! early.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context as _;
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    message::{BorrowedMessage, Headers as _},
};
use tickwheel::{
    model::{ids::TaskId, time::Millis},
    queue::message::TASK_ID_HEADER,
    time_source::TimeSource,
};

use crate::{check::Check, servers::PARTITIONS};

/// How often the observer checks whether all tasks have arrived.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A task that came out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) id: TaskId,
    /// When it was seen here.
    pub(crate) seen: Millis,
    /// When its publisher made the record; when it was seen, if the record does not say.
    pub(crate) made: Millis,
}

pub(crate) type Arrivals = Arc<Mutex<Vec<Arrival>>>;

/// When each registered task is due.
pub(crate) type Registered = HashMap<TaskId, Millis>;

/// The result for the registered tasks.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) check: Check,
    /// First arrivals: due, seen.
    pub(crate) first: Vec<(Millis, Millis)>,
    /// When the first record was handed to its producer.
    began: Option<Millis>,
}

impl Verdict {
    /// Returns how many tasks came out a second. The time runs from the first record that was made to the
    /// last that was seen, so that a consumer that lags behind and catches up makes no figure look better.
    pub(crate) fn per_second(&self) -> f64 {
        let ended = self.first.iter().map(|(_, seen)| *seen).max();
        let took = ended
            .unwrap_or_default()
            .since(self.began.unwrap_or_default());
        self.first.len() as f64 / took.max(Duration::from_millis(1)).as_secs_f64()
    }
}

/// Compares the arrivals with the registered tasks.
pub(crate) fn verdict(registered: &Registered, arrivals: &[Arrival]) -> Verdict {
    let mut seen: HashMap<TaskId, Millis> = HashMap::with_capacity(registered.len());
    let mut began = None;
    let mut check = Check {
        tasks: registered.len() as u64,
        ..Check::default()
    };
    for arrival in arrivals {
        let Some(due) = registered.get(&arrival.id) else {
            continue;
        };
        began = Some(began.unwrap_or(arrival.made).min(arrival.made));
        if arrival.made < *due || arrival.seen < *due {
            check.early += 1;
        }
        if let Some(first) = seen.get_mut(&arrival.id) {
            check.duplicates += 1;
            *first = arrival.seen.min(*first);
        } else {
            seen.insert(arrival.id, arrival.seen);
        }
    }
    check.lost = check.tasks - seen.len() as u64;
    let due = |(id, seen)| registered.get(&id).map(|due| (*due, seen));
    let first = seen.into_iter().filter_map(due).collect();
    Verdict {
        check,
        first,
        began,
    }
}

/// Waits until every registered task has arrived, or until no new one has for `patience`.
pub(crate) async fn wait(
    time: &TimeSource,
    registered: &Registered,
    arrivals: &Arrivals,
    patience: Duration,
) -> Verdict {
    let (mut count, mut since) = (0, time.moment());
    loop {
        let now = {
            arrivals
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .len()
        };
        if now != count {
            (count, since) = (now, time.moment());
        }
        let given_up = time.moment().since(since) > patience;
        if now >= registered.len() || given_up {
            // The arrivals may be duplicates while other tasks are still to come.
            let arrived = arrivals
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let verdict = verdict(registered, &arrived);
            if verdict.check.lost == 0 || given_up {
                return verdict;
            }
        }
        time.sleep(LOOK_EVERY).await;
    }
}

/// Reads a topic from its beginning on a thread of its own.
pub(crate) struct Observer {
    pub(crate) arrivals: Arrivals,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    /// Begins to read a topic that exists.
    pub(crate) fn start(kafka: &str, topic: &str, time: &TimeSource) -> anyhow::Result<Self> {
        Self::start_ahead(kafka, topic, time, Duration::ZERO)
    }

    /// The same for a service and a harness whose clocks are so far ahead of the machine's, by which Kafka's
    /// client stamps records.
    pub(crate) fn start_ahead(
        kafka: &str,
        topic: &str,
        time: &TimeSource,
        ahead: Duration,
    ) -> anyhow::Result<Self> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", kafka)
            .set("group.id", format!("bench-{}", time.random()))
            .set("enable.auto.commit", "false")
            .set("fetch.queue.backoff.ms", "20")
            .set("fetch.wait.max.ms", "100")
            .create()?;
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            partitions.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&partitions)?;
        let (arrivals, stop) = (Arrivals::default(), Arc::new(AtomicBool::new(false)));
        let (shared, stopped, time) = (Arc::clone(&arrivals), Arc::clone(&stop), time.clone());
        let thread = std::thread::Builder::new()
            .name("observer".to_owned())
            .spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let Some(Ok(record)) = consumer.poll(Duration::from_millis(50)) else {
                        continue;
                    };
                    if let Some(arrival) = arrival(&record, &time, ahead) {
                        shared
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(arrival);
                    }
                }
            })
            .context("cannot start a thread")?;
        Ok(Self {
            arrivals,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread returns no value; its panic has been printed.
            drop(thread.join());
        }
    }
}

/// Reads the id of a record's task: a record of a `kafka` target has a header with it, that of a tracked task
/// has it as its key.
fn arrival(record: &BorrowedMessage<'_>, time: &TimeSource, ahead: Duration) -> Option<Arrival> {
    let seen = time.now();
    let header = record.headers().and_then(|headers| {
        let mut found = headers.iter().filter(|header| header.key == TASK_ID_HEADER);
        found.next().and_then(|header| header.value)
    });
    let id = std::str::from_utf8(header.or_else(|| record.key())?).ok()?;
    Some(Arrival {
        id: id.parse().ok()?,
        seen,
        made: record
            .timestamp()
            .to_millis()
            .map_or(seen, |made| Millis(made).after(ahead)),
    })
}
