//! How far consumer groups have come, asked without joining them.
//!
//! What was published at an instant lies at or behind the first record that is as old (less the skew of clocks). If the
//! group has committed no further than there, it is certainly still waiting, because consumers commit only what they
//! handled. A group that never committed begins with the oldest record, so everything waits for it.
//!
//! Many probes differ only in their instant; for one partition and group the answer turns from no to yes at some instant,
//! and that one is found by halving. Any error, and running out of time, is a no.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use rdkafka::{
    TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer},
    error::KafkaResult,
    topic_partition_list::Offset,
};

use super::{Limit, Settings, blocking, discard, link::Link};
use crate::{limits, model::time::Millis, queue::Probe, time_source::TimeSource};

/// A topic and one of its partitions.
type Place = (String, i32);

/// The clients that ask, one per group.
#[derive(Debug)]
pub(super) struct Progress {
    settings: Settings,
    time: TimeSource,
    observers: Mutex<BTreeMap<String, Observer>>,
}

#[derive(Clone)]
struct Observer {
    client: Arc<BaseConsumer<Link>>,
    /// When it was used last, in calls: the one unused for longest makes room.
    used: u64,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer")
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

/// From which of the instants asked about on everything still waits.
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

    /// Returns the instant to ask about next; none when all are decided. The earliest is asked about first: mostly
    /// either everything waits or nothing does.
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

    /// Tells whether what was published at an instant is known to wait.
    fn waits(&self, since: Millis) -> bool {
        self.instants
            .get(self.high)
            .is_some_and(|first| since >= *first)
    }
}

impl Progress {
    pub(super) const fn new(settings: Settings, time: TimeSource) -> Self {
        Self {
            settings,
            time,
            observers: Mutex::new(BTreeMap::new()),
        }
    }

    /// Answers the probes, given how many partitions their topics have.
    pub(super) async fn still_queued(
        &self,
        probes: &[Probe],
        counts: &BTreeMap<String, i32>,
    ) -> Vec<bool> {
        let place = |probe: &Probe| match counts.get(&probe.topic) {
            Some(count) => Some((probe.topic.clone(), probe.wheel.partition(*count))),
            None => None,
        };
        let mut questions: BTreeMap<String, BTreeMap<Place, BTreeSet<Millis>>> = BTreeMap::new();
        for probe in probes {
            if let Some(place) = place(probe) {
                let places = questions.entry(probe.group.clone()).or_default();
                places.entry(place).or_default().insert(probe.since);
            }
        }
        let limit = Limit::new(&self.time, limits::QUEUE_QUESTION_TIMEOUT);
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
        let Some(client) = self.observer(group) else {
            return BTreeMap::new();
        };
        let searches = places
            .into_iter()
            .map(|(place, instants)| (place, Search::new(instants)))
            .collect();
        match blocking(move || search(&client, searches, &limit)).await {
            Ok(Ok(searches)) => searches,
            Ok(Err(error)) => {
                tracing::debug!(group, %error, "cannot see how far the group is");
                BTreeMap::new()
            }
            Err(reason) => {
                tracing::debug!(group, reason, "cannot see how far the group is");
                BTreeMap::new()
            }
        }
    }

    fn observer(&self, group: &str) -> Option<Arc<BaseConsumer<Link>>> {
        let mut observers = self
            .observers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let used = observers
            .values()
            .map(|observer| observer.used)
            .max()
            .unwrap_or(0)
            + 1;
        if let Some(observer) = observers.get_mut(group) {
            observer.used = used;
            return Some(Arc::clone(&observer.client));
        }
        let config = self.settings.observer(group);
        let client = BaseConsumer::from_config_and_context(&config, Link::new("observer"));
        let client = Arc::new(client.ok()?);
        if observers.len() >= limits::PROGRESS_GROUPS_MAX {
            let oldest = observers.iter().min_by_key(|(_, observer)| observer.used);
            let oldest = oldest.map(|(group, _)| group.clone());
            if let Some(removed) = oldest.and_then(|group| observers.remove(&group)) {
                drop(discard(removed));
            }
        }
        let observer = Observer {
            client: Arc::clone(&client),
            used,
        };
        observers.insert(group.to_owned(), observer);
        Some(client)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let observers = self
            .observers
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
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
