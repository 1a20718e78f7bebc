//! The progress check tells the service how far consumer groups have come, without joining them.
//!
//! A record published at an instant lies at or behind the first record that is as old (less the skew of
//! clocks). If the group has committed no further than there, the record is certainly still waiting, because
//! consumers commit only what they have handled. A group that never committed begins with the oldest record,
//! so everything waits for it.
//!
//! Many probes differ only in their instant. For one partition and group the answer turns from no to yes at
//! some instant, which is found by halving. An error, or the end of the time, is a no.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use rdkafka::{
    TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    error::KafkaResult,
    topic_partition_list::Offset,
};

use super::{Limit, Settings, blocking, discard, link::Link};
use crate::{
    limits,
    model::time::Millis,
    queue::Probe,
    time_source::{Moment, TimeSource},
};

/// A topic and one of its partitions.
type Place = (String, i32);

/// The check of how far groups have come.
#[derive(Debug)]
pub(super) struct Progress(Arc<Observers>);

/// The clients that ask, one per group.
#[derive(Debug)]
struct Observers {
    settings: Settings,
    time: TimeSource,
    observers: Mutex<BTreeMap<String, Observer>>,
}

#[derive(Clone)]
struct Observer {
    client: Arc<BaseConsumer<Link>>,
    /// When it was used last.
    used: Moment,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer")
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

/// The search for the instant from which on everything still waits, among the instants asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Search {
    /// Ascending.
    instants: Vec<Millis>,
    /// Instants before this one are a no.
    low: usize,
    /// Instants from this one on are a yes.
    high: usize,
}

impl Search {
    fn new(instants: BTreeSet<Millis>) -> Self {
        let instants: Vec<Millis> = instants.into_iter().collect();
        Self {
            low: 0,
            high: instants.len(),
            instants,
        }
    }

    /// Returns the instant to ask about next; none when all are decided. The earliest is asked about first,
    /// because in most cases either everything waits or nothing does.
    fn next(&self) -> Option<Millis> {
        self.instants
            .get(self.middle())
            .copied()
            .filter(|_| self.low < self.high)
    }

    const fn middle(&self) -> usize {
        if self.low == 0 && self.high == self.instants.len() {
            0
        } else {
            self.low + (self.high - self.low) / 2
        }
    }

    fn learn(&mut self, waits: bool) {
        let middle = self.middle();
        if waits {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
    }

    /// Tells whether a record published at an instant is known to wait.
    fn waits(&self, since: Millis) -> bool {
        self.instants
            .get(self.high)
            .is_some_and(|first| since >= *first)
    }
}

impl Progress {
    pub(super) fn new(settings: Settings, time: TimeSource) -> Self {
        Self(Arc::new(Observers {
            settings,
            time,
            observers: Mutex::new(BTreeMap::new()),
        }))
    }

    /// Answers the probes, given how many partitions their topics have.
    pub(super) async fn still_queued(
        &self,
        probes: &[Probe],
        counts: &BTreeMap<String, i32>,
    ) -> Vec<bool> {
        let place = |probe: &Probe| {
            let count = counts.get(&probe.topic)?;
            Some((probe.topic.clone(), probe.wheel.partition(*count)))
        };
        let mut questions: BTreeMap<String, BTreeMap<Place, BTreeSet<Millis>>> = BTreeMap::new();
        for probe in probes {
            if let Some(place) = place(probe) {
                let places = questions.entry(probe.group.clone()).or_default();
                places.entry(place).or_default().insert(probe.since);
            }
        }
        let limit = Limit::new(&self.0.time, limits::QUEUE_QUESTION_TIMEOUT);
        let asked = questions.into_iter().map(|(group, places)| {
            let limit = limit.clone();
            async move { (group.clone(), self.ask(&group, places, limit).await) }
        });
        let found: BTreeMap<String, BTreeMap<Place, Search>> =
            futures_util::future::join_all(asked)
                .await
                .into_iter()
                .collect();
        let answer = |probe: &Probe| {
            let search = found.get(&probe.group)?.get(&place(probe)?)?;
            Some(search.waits(probe.since))
        };
        probes
            .iter()
            .map(|probe| answer(probe).unwrap_or(false))
            .collect()
    }

    async fn ask(
        &self,
        group: &str,
        places: BTreeMap<Place, BTreeSet<Millis>>,
        limit: Limit,
    ) -> BTreeMap<Place, Search> {
        let searches = places
            .into_iter()
            .map(|(place, instants)| (place, Search::new(instants)))
            .collect();
        let (asker, name) = (Arc::clone(&self.0), group.to_owned());
        // Making a client starts threads, so an async thread does not do that either.
        let asked = blocking(move || {
            let client = asker.observer(&name);
            client.map(|client| search(&client, searches, &limit))
        });
        match asked.await {
            Ok(None) => BTreeMap::new(),
            Ok(Some(Ok(searches))) => searches,
            Ok(Some(Err(error))) => {
                tracing::debug!(group, %error, "cannot see how far the group is");
                BTreeMap::new()
            }
            Err(reason) => {
                tracing::debug!(group, reason, "cannot see how far the group is");
                BTreeMap::new()
            }
        }
    }
}

impl Observers {
    /// Returns the client that asks for a group. A new one takes the place of one that has not been used for
    /// a while. When all are in use there is none, and the answer is a no: a client made and thrown away for
    /// each group at each look costs more than the copies that it would save. Blocks.
    fn observer(&self, group: &str) -> Option<Arc<BaseConsumer<Link>>> {
        let now = self.time.moment();
        let mut observers = self.observers.lock();
        if let Some(observer) = observers.get_mut(group) {
            observer.used = now;
            return Some(Arc::clone(&observer.client));
        }
        if observers.len() >= limits::PROGRESS_GROUPS_MAX {
            let (oldest, used) = observers
                .iter()
                .map(|(group, observer)| (group.clone(), observer.used))
                .min_by_key(|(_, used)| *used)?;
            if now.since(used) < limits::PROGRESS_GROUP_KEPT {
                return None;
            }
            drop(observers.remove(&oldest).map(discard));
        }
        let config = self.settings.observer(group);
        let client = BaseConsumer::from_config_and_context(&config, Link::new("observer"));
        let client = Arc::new(client.ok()?);
        let observer = Observer {
            client: Arc::clone(&client),
            used: now,
        };
        observers.insert(group.to_owned(), observer);
        Some(client)
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        let observers = self.observers.get_mut();
        for observer in std::mem::take(observers).into_values() {
            drop(discard(observer));
        }
    }
}

/// Asks for all places of one group together, round by round. Blocks.
fn search(
    client: &BaseConsumer<Link>,
    mut searches: BTreeMap<Place, Search>,
    limit: &Limit,
) -> KafkaResult<BTreeMap<Place, Search>> {
    let mut places = TopicPartitionList::new();
    for (topic, partition) in searches.keys() {
        places.add_partition(topic, *partition);
    }
    let committed = offsets(&client.committed_offsets(places, limit.left())?);
    loop {
        let mut question = TopicPartitionList::new();
        for ((topic, partition), search) in &searches {
            if let Some(instant) = search.next() {
                let at = instant.before(limits::QUEUE_CLOCK_SKEW_MAX).0.max(0);
                question.add_partition_offset(topic, *partition, Offset::Offset(at))?;
            }
        }
        if question.count() == 0 || limit.left().is_zero() {
            return Ok(searches);
        }
        let begins = offsets(&client.offsets_for_times(question, limit.left())?);
        for (place, search) in searches
            .iter_mut()
            .filter(|(_, search)| search.next().is_some())
        {
            let waits = match (begins.get(place), committed.get(place)) {
                (Some(Offset::Offset(begin)), Some(Offset::Offset(committed))) => {
                    committed <= begin
                }
                (Some(Offset::Offset(_)), Some(Offset::Invalid)) => true,
                _ => false,
            };
            search.learn(waits);
        }
    }
}

/// Reads the offsets of a list; a partition with an error is left out.
fn offsets(list: &TopicPartitionList) -> BTreeMap<Place, Offset> {
    list.elements()
        .iter()
        .filter(|element| element.error().is_ok())
        .map(|element| {
            (
                (element.topic().to_owned(), element.partition()),
                element.offset(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clients_are_few_and_not_made_anew_for_each_question() {
        let time = TimeSource::real();
        let progress = Progress::new(Settings::new("127.0.0.1:1"), time);
        let observer = |number: usize| progress.0.observer(&format!("group-{number}"));
        let made: Vec<_> = (0..limits::PROGRESS_GROUPS_MAX).map(observer).collect();
        assert!(made.iter().all(Option::is_some));
        for number in limits::PROGRESS_GROUPS_MAX..500 {
            assert!(observer(number).is_none(), "all are in use");
        }
        let again = observer(3).unwrap();
        assert!(Arc::ptr_eq(&again, made[3].as_ref().unwrap()));
        let kept = progress.0.observers.lock().len();
        assert_eq!(kept, limits::PROGRESS_GROUPS_MAX);
    }

    proptest! {
        #[test]
        fn the_search_agrees_with_asking_for_each(
            instants in prop::collection::btree_set(0..1000_i64, 1..40),
            turn in 0..1000_i64,
        ) {
            let mut search = Search::new(instants.iter().copied().map(Millis).collect());
            let mut rounds = 0;
            while let Some(instant) = search.next() {
                search.learn(instant.0 >= turn);
                rounds += 1;
            }
            prop_assert!(rounds <= 8, "{rounds} rounds");
            for instant in instants {
                prop_assert_eq!(search.waits(Millis(instant)), instant >= turn);
            }
        }

        #[test]
        fn an_interrupted_search_answers_no_more_than_it_knows(
            instants in prop::collection::btree_set(0..1000_i64, 1..40),
            turn in 0..1000_i64,
            rounds in 0..8_usize,
        ) {
            let mut search = Search::new(instants.iter().copied().map(Millis).collect());
            for _ in 0..rounds {
                let Some(instant) = search.next() else { break };
                search.learn(instant.0 >= turn);
            }
            for instant in instants {
                prop_assert!(!search.waits(Millis(instant)) || instant >= turn);
            }
        }
    }
}
