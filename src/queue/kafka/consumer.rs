//! The Kafka consumer receives records for a worker as one member of one group.
//!
//! Deliveries are handled in any order. The low-water mark of each partition is committed soon after. While
//! the worker's pool is full, records are taken in hand up to a bound before the partitions are paused,
//! because pausing throws away the records that librdkafka fetched ahead.
//!
//! Faults of the cluster are never errors here: the session waits, or it is replaced.

use std::{collections::BTreeMap, fmt, time::Duration};

use async_trait::async_trait;

use super::{
    GroupProtocol, Settings,
    members::{Members, Named},
    prefetch::{Prefetch, Share},
    session::{History, Session},
    take_out::TakeOut,
    topics::{Known, Topics},
    unavailable,
};
use crate::{
    limits,
    model::ids::NodeId,
    queue::{Consumer, Delivery, Error, PublishError, Subscriptions},
    time_source::TimeSource,
};

/// Wait before a new client is made, so that one that fails at once is not replaced in a tight loop.
const REPLACEMENT_PAUSE: Duration = Duration::from_secs(1);

/// How long leaving the group may delay a shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A member of a consumer group.
pub struct KafkaConsumer {
    settings: Settings,
    time: TimeSource,
    group: String,
    /// The name of the member, which its sessions have one after the other.
    named: Option<Named>,
    topics: Vec<String>,
    share: Share,
    /// None after [`Consumer::close`] and, until the next call, after a session that failed.
    session: Option<Session>,
    /// The history that the last session left, while there is none.
    history: History,
    closed: bool,
}

impl fmt::Debug for KafkaConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConsumer")
            .field("group", &self.group)
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

/// Makes consumers of a cluster.
#[derive(Debug, Clone)]
pub struct KafkaSubscriptions {
    settings: Settings,
    time: TimeSource,
    /// One client that creates topics for all of them.
    topics: Topics,
    prefetch: Prefetch,
    members: Members,
    take_out: TakeOut,
}

impl KafkaSubscriptions {
    /// Returns a maker that has not connected yet. Its consumers have no names.
    #[must_use]
    pub fn new(settings: Settings, time: TimeSource) -> Self {
        Self::with(settings, time, Members::default())
    }

    /// The same for a node, whose members the other nodes can take out of their groups when it has died. With
    /// [`GroupProtocol::Consumer`] the brokers have no way for that, and their sessions have to end.
    #[must_use]
    pub fn of_node(settings: Settings, time: TimeSource, node: NodeId) -> Self {
        let members = match settings.group_protocol {
            GroupProtocol::Classic => Members::of(node),
            GroupProtocol::Consumer => Members::default(),
        };
        Self::with(settings, time, members)
    }

    fn with(settings: Settings, time: TimeSource, members: Members) -> Self {
        let topics = Topics::new(settings.clone(), time.clone());
        Self {
            take_out: TakeOut::new(
                settings.clone(),
                time.clone(),
                topics.clone(),
                members.clone(),
            ),
            topics,
            prefetch: Prefetch::default(),
            members,
            settings,
            time,
        }
    }
}

#[async_trait]
impl Subscriptions for KafkaSubscriptions {
    async fn subscribe(&self, group: &str, topics: &[String]) -> Result<Box<dyn Consumer>, Error> {
        let joining = KafkaConsumer::join(self, group, topics);
        Ok(Box::new(joining.await?))
    }

    async fn take_out(&self, dead: NodeId) -> Result<(), Error> {
        self.take_out.look(dead).await
    }

    async fn has_any(&self, topics: &[String]) -> Result<bool, Error> {
        let names = &self.settings.names;
        let topics = topics.iter().map(|topic| names.outer(topic).into_owned());
        let asked: BTreeMap<String, bool> = topics.map(|topic| (topic, false)).collect();
        let until = self.time.moment().after(limits::QUEUE_QUESTION_TIMEOUT);
        let mut unknown = None;
        for known in self.topics.settled(&asked, until).await.into_values() {
            match known {
                // A member of its group says why one that is refused cannot be read.
                Known::Partitions(_) | Known::Not(PublishError::Refused(_)) => return Ok(true),
                Known::Not(PublishError::NoSuchTopic(_)) => {}
                Known::Not(error) => unknown = Some(error.to_string()),
                Known::Asked(_) => unknown = Some("no answer in time".to_owned()),
            }
        }
        unknown.map_or(Ok(false), |why| Err(unavailable("look topics up", why)))
    }
}

impl KafkaConsumer {
    /// Subscribes. Topics that do not exist are created first if the cluster allows it; otherwise they are read as soon as
    /// someone creates them. Needs a tokio runtime. A member that does not call [`Consumer::receive`] for a minute
    /// loses its partitions.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] when librdkafka does not accept the settings.
    pub async fn connect(
        settings: Settings,
        time: TimeSource,
        group: &str,
        topics: &[String],
    ) -> Result<Self, Error> {
        Self::join(&KafkaSubscriptions::new(settings, time), group, topics).await
    }

    async fn join(
        with: &KafkaSubscriptions,
        group: &str,
        topics: &[String],
    ) -> Result<Self, Error> {
        let names = &with.settings.names;
        let group = &*names.outer(group);
        let topics = topics.iter().map(|topic| names.outer(topic).into_owned());
        let topics: Vec<String> = topics.collect();
        if let Err(error) = with.topics.ensure(&topics).await {
            tracing::warn!(group, %error, "cannot create topics, waiting for them to appear");
        }
        let (settings, time) = (with.settings.clone(), with.time.clone());
        let share = with.prefetch.share();
        let history = History::default();
        let named = with.members.name(group, &topics);
        let member = (group, named.as_ref().map(Named::name));
        let session = Session::begin(&settings, &time, member, &topics, share.bytes(), history)?;
        Ok(Self {
            named,
            settings,
            time,
            group: group.to_owned(),
            topics,
            share,
            session: Some(session),
            history: History::default(),
            closed: false,
        })
    }

    async fn receive_from(
        session: &mut Session,
        time: &TimeSource,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, Error> {
        let until = time.moment().after(wait);
        loop {
            session.step()?;
            let taken = session.take(max)?;
            let left = until.since(time.moment());
            if !taken.is_empty() || left.is_zero() {
                return Ok(taken);
            }
            session.wait(left).await?;
        }
    }
}

#[async_trait]
impl Consumer for KafkaConsumer {
    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, Error> {
        if self.closed {
            return Err(unavailable("receive", "the consumer is closed"));
        }
        if self.session.is_none() {
            let history = std::mem::take(&mut self.history);
            let begun = Session::begin(
                &self.settings,
                &self.time,
                (&self.group, self.named.as_ref().map(Named::name)),
                &self.topics,
                self.share.bytes(),
                history,
            )?;
            self.session = Some(begun);
        }
        let Some(session) = &mut self.session else {
            return Ok(Vec::new());
        };
        let error = match Self::receive_from(session, &self.time, max, wait).await {
            Err(error @ Error::Unavailable { .. }) => error,
            other => return other,
        };
        // The new member begins at the committed offsets, so the records in hand come again.
        tracing::warn!(group = self.group, %error, "kafka consumer is replaced");
        self.history = self
            .session
            .take()
            .map(Session::replace)
            .unwrap_or_default();
        self.time.sleep(wait.min(REPLACEMENT_PAUSE)).await;
        Ok(Vec::new())
    }

    fn handled(&mut self, deliveries: &[(String, i32, i64)]) {
        if let Some(session) = &mut self.session {
            session.handled(deliveries);
        }
    }

    async fn close(&mut self) {
        self.closed = true;
        if let Some(session) = self.session.take() {
            session.close(CLOSE_TIMEOUT).await;
        }
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            drop(session.replace());
        }
    }
}
