//! Topics: how many partitions they have, and creating our own.
//!
//! A topic is asked for before the first record is sent to it, so that a missing one is told apart at once and holds up
//! no other record. What is known is trusted for a minute; while the broker is silent, longer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::{Client, ClientContext},
    config::FromClientConfigAndContext,
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{Limit, Settings, blocking, discard, link::Link, unavailable, unsuitable};
use crate::{
    limits,
    queue::{Error, PublishError},
    time_source::{Moment, TimeSource},
};

/// How long the number of a topic's partitions is trusted.
const TRUSTED: Duration = Duration::from_secs(60);

/// How long a new topic may take to have its leaders.
const CREATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Wait between two looks at a topic that is being created.
const CREATION_PAUSE: Duration = Duration::from_millis(20);

/// What a broker says about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It exists.
    Exists {
        /// How many partitions it has.
        partitions: i32,
        /// All of them can be written to now.
        led: bool,
    },
    /// It does not exist.
    Missing,
    /// It exists or not, but not for us.
    Refused(String),
    /// No answer, or none yet.
    Silent(String),
}

/// What is known of the topics.
#[derive(Debug)]
pub(super) struct Topics {
    settings: Settings,
    time: TimeSource,
    known: Mutex<BTreeMap<String, (i32, Moment)>>,
}

impl Topics {
    pub(super) const fn new(settings: Settings, time: TimeSource) -> Self {
        Self {
            settings,
            time,
            known: Mutex::new(BTreeMap::new()),
        }
    }

    /// Returns the number of partitions if it is known and was asked for within `trusted`.
    pub(super) fn known(&self, topic: &str) -> Option<i32> {
        self.known_for(topic, TRUSTED)
    }

    fn known_for(&self, topic: &str, trusted: Duration) -> Option<i32> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, at) = *known.get(topic)?;
        (self.time.moment().since(at) <= trusted).then_some(count)
    }

    /// Notes what a broker said. Its silence changes nothing.
    pub(super) fn learn(&self, topic: &str, answer: &Answer) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Answer::Exists { partitions, .. } => {
                known.insert(topic.to_owned(), (*partitions, self.time.moment()));
            }
            Answer::Missing | Answer::Refused(_) => drop(known.remove(topic)),
            Answer::Silent(_) => {}
        }
    }

    /// Forgets a topic, so that it is asked for again.
    pub(super) fn forget(&self, topic: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(topic);
    }

    /// Turns an answer into what a publisher is told: with a silent broker what was known before is good enough.
    pub(super) fn resolve(&self, topic: &str, answer: Answer) -> Result<i32, PublishError> {
        match answer {
            Answer::Exists { partitions, .. } => Ok(partitions),
            Answer::Missing => Err(PublishError::NoSuchTopic(topic.to_owned())),
            Answer::Refused(reason) => Err(PublishError::Refused(reason)),
            Answer::Silent(reason) => self
                .known_for(topic, Duration::MAX)
                .ok_or(PublishError::Unconfirmed(reason)),
        }
    }

    /// Creates those of the topics that do not exist and waits until they can be written to.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when the cluster refuses, [`Error::Unavailable`] when it does not answer in time.
    pub(super) async fn ensure(&self, topics: &[String]) -> Result<(), Error> {
        let missing: Vec<String> = topics
            .iter()
            .filter(|topic| self.known(topic).is_none())
            .cloned()
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let link = Link::new("admin");
        let admin = AdminClient::from_config_and_context(&self.settings.admin(), link)
            .map_err(|error| unsuitable(&error))?;
        let admin = Arc::new(admin);
        let created = self
            .time
            .within(CREATION_TIMEOUT, self.create(&admin, &missing))
            .await;
        drop(discard(admin));
        created.unwrap_or_else(|| Err(unavailable("create topics", "no answer in time")))
    }

    async fn create(&self, admin: &Arc<AdminClient<Link>>, topics: &[String]) -> Result<(), Error> {
        let mut asked = false;
        let mut open = topics.to_vec();
        loop {
            let (client, question) = (Arc::clone(admin), open.clone());
            let limit = Limit::new(&self.time, limits::QUEUE_QUESTION_TIMEOUT);
            let answers = blocking(move || look_up(client.inner(), &question, &limit))
                .await
                .map_err(|reason| unavailable("look topics up", reason))?;
            for (topic, answer) in &answers {
                self.learn(topic, answer);
                if let Answer::Refused(reason) = answer {
                    return Err(refused(topic, reason));
                }
            }
            open.retain(|topic| self.known(topic).is_none());
            if open.is_empty() {
                return Ok(());
            }
            let missing = |topic: &String| answers.get(topic) == Some(&Answer::Missing);
            if !asked && open.iter().any(missing) {
                self.ask(admin, open.iter().filter(|topic| missing(topic)))
                    .await?;
                asked = true;
            }
            self.time.sleep(CREATION_PAUSE).await;
        }
    }

    async fn ask(
        &self,
        admin: &AdminClient<Link>,
        topics: impl Iterator<Item = &String>,
    ) -> Result<(), Error> {
        let bytes_max = limits::RECORD_BYTES_MAX.to_string();
        let copies = self.settings.replication_factor.unwrap_or(-1);
        let new: Vec<NewTopic<'_>> = topics
            .map(|topic| {
                NewTopic::new(
                    topic,
                    self.settings.partitions,
                    TopicReplication::Fixed(copies),
                )
                .set("max.message.bytes", &bytes_max)
            })
            .collect();
        let options = AdminOptions::new()
            .request_timeout(Some(CREATION_TIMEOUT))
            .operation_timeout(Some(CREATION_TIMEOUT));
        let results = admin.create_topics(&new, &options).await;
        for result in results.map_err(|error| unavailable("create topics", error))? {
            match result {
                Ok(topic) => tracing::info!(topic, "created topic"),
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((topic, code)) if is_refusal(code) => {
                    return Err(refused(&topic, &code.to_string()));
                }
                Err((topic, code)) => {
                    return Err(unavailable("create topics", format!("{topic}: {code}")));
                }
            }
        }
        Ok(())
    }
}

/// Asks for topics one by one: it takes about a millisecond each. Blocks.
pub(super) fn look_up<C: ClientContext>(
    client: &Client<C>,
    topics: &[String],
    limit: &Limit,
) -> BTreeMap<String, Answer> {
    let ask = |topic: &String| (topic.clone(), look_up_one(client, topic, limit));
    topics.iter().map(ask).collect()
}

fn look_up_one<C: ClientContext>(client: &Client<C>, topic: &str, limit: &Limit) -> Answer {
    let metadata = match client.fetch_metadata(Some(topic), limit.left()) {
        Ok(metadata) => metadata,
        Err(error @ KafkaError::Nul(_)) => return Answer::Refused(error.to_string()),
        Err(error) => return Answer::Silent(error.to_string()),
    };
    let Some(found) = metadata.topics().first() else {
        return Answer::Silent("the answer names no topic".to_owned());
    };
    match found.error().map(RDKafkaErrorCode::from) {
        None | Some(RDKafkaErrorCode::NoError) => {}
        Some(RDKafkaErrorCode::UnknownTopicOrPartition) => return Answer::Missing,
        Some(code) if is_refusal(code) => return Answer::Refused(code.to_string()),
        Some(code) => return Answer::Silent(code.to_string()),
    }
    match i32::try_from(found.partitions().len()) {
        Ok(partitions @ 1..) => Answer::Exists {
            partitions,
            led: found.partitions().iter().all(|one| one.leader() >= 0),
        },
        _ => Answer::Silent("the topic has no partitions yet".to_owned()),
    }
}

const fn is_refusal(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::PolicyViolation
            | RDKafkaErrorCode::InvalidReplicationFactor
            | RDKafkaErrorCode::InvalidPartitions
            | RDKafkaErrorCode::InvalidConfig
    )
}

fn refused(topic: &str, reason: &str) -> Error {
    Error::Unsuitable {
        reason: format!(
            "the cluster refuses the topic {topic}: {reason}; create it or grant access"
        ),
    }
}
