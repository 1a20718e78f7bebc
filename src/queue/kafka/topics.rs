//! The topic directory tells publishers how many partitions topics have, and creates our own topics.
//!
//! A topic is asked for before the first record is sent to it, so that a missing one is noticed at once. One
//! task asks and one creates, in the background: a batch waits for them a moment, and its records of known
//! topics do not wait at all. A known topic is trusted for a minute and asked for anew while it is used; a
//! missing one is trusted to be missing for a second. One client asks and creates for all.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic},
    config::FromClientConfigAndContext,
    error::RDKafkaErrorCode,
};
use tokio::sync::Notify;

use super::{
    Limit, Settings, blocking, discard,
    link::Link,
    metadata::{Answer, is_refusal, look_up},
    only::Only,
    properties::Properties,
    unavailable, unsuitable,
};
use crate::{
    limits,
    queue::{Error, PublishError},
    time_source::{Moment, TimeSource},
};

/// How long a known number of partitions is trusted.
const TRUSTED: Duration = Duration::from_secs(60);

/// How long a new topic may take to have its leaders.
const CREATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Wait between two looks at a topic that is being created.
const CREATION_PAUSE: Duration = Duration::from_millis(20);

/// The facts known about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// It has so many partitions.
    Partitions(i32),
    /// A record to the topic gets this answer.
    Not(PublishError),
    /// It is being asked for or created, since this moment.
    Asked(Moment),
}

#[derive(Debug, Clone)]
struct Fact {
    answer: Result<i32, PublishError>,
    at: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Wish {
    /// It is one of ours and is created when it does not exist.
    create: bool,
    since: Moment,
}

#[derive(Debug, Default)]
struct State {
    facts: HashMap<String, Fact>,
    /// Topics to be asked for.
    wanted: BTreeMap<String, Wish>,
    /// Topics to be created.
    missing: BTreeMap<String, Wish>,
    asking: bool,
    creating: bool,
}

/// The facts known about all topics. Clones share them.
#[derive(Clone)]
pub(super) struct Topics(Arc<Shared>);

struct Shared {
    settings: Settings,
    time: TimeSource,
    state: Mutex<State>,
    /// Signals that a fact has become known.
    learned: Notify,
    /// Made at the first question, on a thread that may block.
    admin: OnceLock<Result<Arc<AdminClient<Link>>, String>>,
}

impl std::fmt::Debug for Topics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topics").finish_non_exhaustive()
    }
}

impl Topics {
    pub(super) fn new(settings: Settings, time: TimeSource) -> Self {
        Self(Arc::new(Shared {
            settings,
            time,
            state: Mutex::default(),
            learned: Notify::new(),
            admin: OnceLock::new(),
        }))
    }

    /// Returns what is known of a topic, and has it asked for if that is nothing or old. Needs a tokio
    /// runtime.
    pub(super) fn known(&self, topic: &str, create: bool) -> Known {
        self.known_since(topic, create, self.0.time.moment())
    }

    /// Does the same for a caller that began to wait at a moment: what was learned since then is an answer to it, however old
    /// it has become. Without this, two topics whose answers take longer than a missing one is trusted would be asked for in
    /// turns, and the wait for both would have no end.
    fn known_since(&self, topic: &str, create: bool, begun: Moment) -> Known {
        let now = self.0.time.moment();
        let (known, begin) = {
            let mut state = self.0.lock();
            let fact = state.facts.get(topic).cloned();
            let known = match &fact {
                Some(Fact {
                    answer: Ok(count),
                    at,
                }) => {
                    let known = Known::Partitions(*count);
                    if now.since(*at) <= TRUSTED {
                        return known;
                    }
                    Some(known)
                }
                Some(Fact {
                    answer: Err(error),
                    at,
                }) if (*at >= begun || now.since(*at) <= limits::TOPIC_MISSING)
                    // The caller that asked before may not have wanted it created.
                    && !(create && matches!(error, PublishError::NoSuchTopic(_))) =>
                {
                    return Known::Not(error.clone());
                }
                _ => None,
            };
            let wish = Wish { create, since: now };
            let Some(since) = state.want(topic, wish) else {
                let reason = "too many topics are being asked for".to_owned();
                return known.unwrap_or(Known::Not(PublishError::Unconfirmed(reason)));
            };
            let begin = !std::mem::replace(&mut state.asking, true);
            (known.unwrap_or(Known::Asked(since)), begin)
        };
        if begin {
            tokio::spawn(self.clone().ask_all());
        }
        known
    }

    /// Waits until none of the topics is being asked for, or until a moment, and returns what is known of each then.
    /// Cancel-safe.
    pub(super) async fn settled(
        &self,
        topics: &BTreeMap<String, bool>,
        until: Moment,
    ) -> BTreeMap<String, Known> {
        let begun = self.0.time.moment();
        loop {
            let learned = self.0.learned.notified();
            // All are asked for at once: a question that is under way is not waited for topic by topic.
            let look = |(topic, create): (&String, &bool)| {
                (topic.clone(), self.known_since(topic, *create, begun))
            };
            let known: BTreeMap<String, Known> = topics.iter().map(look).collect();
            let asked = known.values().any(|known| matches!(known, Known::Asked(_)));
            let left = until.since(self.0.time.moment());
            if left.is_zero() || !asked {
                return known;
            }
            // The next question may begin without a signal from the last, so look again now and then.
            let step = left.min(Duration::from_millis(50));
            self.0.time.within(step, learned).await;
        }
    }

    /// Forgets a topic, so that it is asked for again.
    pub(super) fn forget(&self, topic: &str) {
        self.0.lock().facts.remove(topic);
    }

    /// Has a topic asked for again soon, while it is used, because the known answer may be old.
    pub(super) fn doubt(&self, topic: &str) {
        let now = self.0.time.moment();
        if let Some(fact) = self.0.lock().facts.get_mut(topic)
            && now.since(fact.at) > limits::TOPIC_MISSING
        {
            fact.at = fact.at.before(TRUSTED);
        }
    }

    /// Creates those of the topics that do not exist and waits until they can be written to.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when the cluster refuses, [`Error::Unavailable`] when it does not answer in time.
    pub(super) async fn ensure(&self, topics: &[String]) -> Result<(), Error> {
        let until = self.0.time.moment().after(CREATION_TIMEOUT);
        let topics: BTreeMap<String, bool> =
            topics.iter().map(|topic| (topic.clone(), true)).collect();
        for (topic, known) in self.settled(&topics, until).await {
            match known {
                Known::Partitions(_) => {}
                Known::Not(PublishError::Refused(reason)) => return Err(refused(&topic, &reason)),
                Known::Not(error) => return Err(unavailable("create topics", error)),
                Known::Asked(_) => {
                    return Err(unavailable("create topics", "no answer in time"));
                }
            }
        }
        Ok(())
    }

    /// Answers all questions that are open.
    async fn ask_all(self) {
        let only = Only::new(|| self.0.lock().broke_off_asking());
        loop {
            let topics = self.0.lock().next_question();
            if topics.is_empty() {
                return only.ends();
            }
            let shared = Arc::clone(&self.0);
            let question = topics.clone();
            let limit = Limit::new(&self.0.time, limits::QUEUE_QUESTION_TIMEOUT);
            let answers = blocking(move || match shared.admin() {
                Ok(admin) => look_up(admin.inner(), &question, &limit),
                Err(reason) => silent(&question, &reason),
            });
            let answers = answers.await;
            let answers = answers.unwrap_or_else(|reason| silent(&topics, &reason));
            if self.0.learn(answers) {
                tokio::spawn(self.clone().create_all());
            }
            self.0.learned.notify_waiters();
        }
    }

    /// Creates all topics that are missing.
    async fn create_all(self) {
        let only = Only::new(|| self.0.lock().broke_off_creating());
        loop {
            let topics = self.0.lock().next_creation();
            if topics.is_empty() {
                return only.ends();
            }
            let created = self
                .0
                .time
                .within(CREATION_TIMEOUT, self.create(&topics))
                .await
                .unwrap_or_else(|| Err(unavailable("create topics", "no answer in time")));
            let now = self.0.time.moment();
            {
                let mut state = self.0.lock();
                for topic in &topics {
                    state.missing.remove(topic);
                    let known = state.facts.get(topic);
                    if known.is_some_and(|fact| fact.answer.is_ok()) {
                        continue;
                    }
                    let answer = Err(match &created {
                        Err(Error::Unsuitable { reason }) => {
                            PublishError::Refused(reason.to_owned())
                        }
                        Err(error) => PublishError::Unconfirmed(format!("{topic}: {error}")),
                        Ok(()) => PublishError::Unconfirmed(format!("{topic} has no leader yet")),
                    });
                    state.facts.insert(topic.clone(), Fact { answer, at: now });
                }
            }
            self.0.learned.notify_waiters();
        }
    }

    /// Has topics created and waits until each is known.
    /// Returns the client that asks and creates, for other questions. The first call blocks.
    pub(super) fn admin(&self) -> Result<Arc<AdminClient<Link>>, String> {
        self.0.admin()
    }

    async fn create(&self, topics: &[String]) -> Result<(), Error> {
        self.0.request(topics).await?;
        let mut open = topics.to_vec();
        loop {
            let (shared, question) = (Arc::clone(&self.0), open.clone());
            let limit = Limit::new(&self.0.time, limits::QUEUE_QUESTION_TIMEOUT);
            let answers = blocking(move || match shared.admin() {
                Ok(admin) => look_up(admin.inner(), &question, &limit),
                Err(reason) => silent(&question, &reason),
            })
            .await
            .map_err(|reason| unavailable("look topics up", reason))?;
            for (topic, answer) in &answers {
                match answer {
                    Answer::Exists { partitions } => self.0.learn_one(topic, Ok(*partitions)),
                    Answer::Refused(reason) => return Err(refused(topic, reason)),
                    Answer::Missing | Answer::Silent(_) => {}
                }
            }
            self.0.learned.notify_waiters();
            let exists = |topic: &String| matches!(answers.get(topic), Some(Answer::Exists { .. }));
            open.retain(|topic| !exists(topic));
            if open.is_empty() {
                return Ok(());
            }
            self.0.time.sleep(CREATION_PAUSE).await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the one client that asks and creates. The first call blocks.
    fn admin(&self) -> Result<Arc<AdminClient<Link>>, String> {
        let make = || {
            let link = Link::new("admin");
            let made = AdminClient::from_config_and_context(&self.settings.admin(), link);
            made.map(Arc::new)
                .map_err(|error| unsuitable(&error).to_string())
        };
        self.admin.get_or_init(make).clone()
    }

    fn learn_one(&self, topic: &str, answer: Result<i32, PublishError>) {
        let at = self.time.moment();
        let fact = Fact { answer, at };
        self.lock().facts.insert(topic.to_owned(), fact);
    }

    /// Notes answers. Tells whether topics are missing now and a task has to begin to create them.
    fn learn(&self, answers: BTreeMap<String, Answer>) -> bool {
        let at = self.time.moment();
        let mut state = self.lock();
        for (topic, answer) in answers {
            let wish = state.wanted.remove(&topic);
            let create = wish.is_some_and(|wish| wish.create);
            let answer = match answer {
                Answer::Exists { partitions } => Ok(partitions),
                Answer::Missing => match wish.filter(|_| create) {
                    Some(wish) => {
                        state.facts.remove(&topic);
                        state.missing.insert(topic, wish);
                        continue;
                    }
                    None => Err(PublishError::NoSuchTopic(topic.clone())),
                },
                Answer::Refused(reason) => Err(PublishError::Refused(reason)),
                Answer::Silent(reason) => {
                    // The answer that was known before is good enough.
                    if state
                        .facts
                        .get(&topic)
                        .is_some_and(|one| one.answer.is_ok())
                    {
                        continue;
                    }
                    Err(PublishError::Unconfirmed(reason))
                }
            };
            state.facts.insert(topic, Fact { answer, at });
        }
        state.forget_old(at);
        !state.missing.is_empty() && !std::mem::replace(&mut state.creating, true)
    }

    /// Sends the request to create topics.
    async fn request(self: &Arc<Self>, topics: &[String]) -> Result<(), Error> {
        let shared = Arc::clone(self);
        let admin = blocking(move || shared.admin())
            .await
            .and_then(|admin| admin)
            .map_err(|reason| unavailable("create topics", reason))?;
        let properties = Properties::new();
        let new = |topic| properties.topic(topic, &self.settings);
        let new: Vec<NewTopic<'_>> = topics.iter().map(|topic| new(topic)).collect();
        let options = AdminOptions::new()
            .request_timeout(Some(CREATION_TIMEOUT))
            .operation_timeout(Some(CREATION_TIMEOUT));
        let results = admin.create_topics(&new, &options).await;
        for result in results.map_err(|error| unavailable("create topics", error))? {
            match result {
                Ok(topic) => tracing::info!(topic, "created topic"),
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((topic, code)) if is_refusal(code) => {
                    // The other topics of the request must not pay for it.
                    let reason = refused(&topic, &code.to_string()).to_string();
                    self.learn_one(&topic, Err(PublishError::Refused(reason.clone())));
                    if topics.len() == 1 {
                        return Err(Error::Unsuitable { reason });
                    }
                }
                Err((topic, code)) => {
                    tracing::debug!(topic, %code, "cannot create a topic now");
                }
            }
        }
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(Ok(admin)) = self.admin.take() {
            drop(discard(admin));
        }
    }
}

impl State {
    /// Has a topic asked for. Returns since when it is being asked for or created; none when there are too
    /// many.
    fn want(&mut self, topic: &str, wish: Wish) -> Option<Moment> {
        if let Some(missing) = self.missing.get(topic) {
            return Some(missing.since);
        }
        if let Some(wanted) = self.wanted.get_mut(topic) {
            wanted.create |= wish.create;
            return Some(wanted.since);
        }
        if self.wanted.len() + self.missing.len() >= limits::TOPIC_QUESTIONS_MAX {
            return None;
        }
        self.wanted.insert(topic.to_owned(), wish);
        Some(wish.since)
    }

    /// Returns the topics to ask for next. If there are none, the task that asks ends.
    fn next_question(&mut self) -> Vec<String> {
        let topics: Vec<String> = self.wanted.keys().cloned().collect();
        self.asking = !topics.is_empty();
        topics
    }

    /// Returns the topics to create next. If there are none, the task that creates ends.
    fn next_creation(&mut self) -> Vec<String> {
        let missing = self.missing.keys().take(limits::TOPICS_CREATED_MAX);
        let topics: Vec<String> = missing.cloned().collect();
        self.creating = !topics.is_empty();
        topics
    }

    /// No task asks any more. Callers that wait ask again.
    fn broke_off_asking(&mut self) {
        self.wanted.clear();
        self.asking = false;
    }

    /// No task creates any more. Callers that wait ask again, and find that the topic is missing.
    fn broke_off_creating(&mut self) {
        self.missing.clear();
        self.creating = false;
    }

    /// Keeps memory bounded: facts that a topic is missing, and old facts, are forgotten first, then
    /// everything.
    fn forget_old(&mut self, now: Moment) {
        if self.facts.len() <= limits::TOPICS_KNOWN_MAX {
            return;
        }
        self.facts
            .retain(|_, fact| fact.answer.is_ok() && now.since(fact.at) <= TRUSTED);
        if self.facts.len() > limits::TOPICS_KNOWN_MAX {
            self.facts.clear();
        }
    }
}

fn silent(topics: &[String], reason: &str) -> BTreeMap<String, Answer> {
    let silent = |topic: &String| (topic.clone(), Answer::Silent(reason.to_owned()));
    topics.iter().map(silent).collect()
}

fn refused(topic: &str, reason: &str) -> Error {
    Error::Unsuitable {
        reason: format!(
            "the cluster refuses the topic {topic}: {reason}; create it or grant access"
        ),
    }
}

#[cfg(test)]
#[path = "topics_tests.rs"]
mod tests;
