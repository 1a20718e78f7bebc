//! The survivors of a dead node take its members out of groups, so that the others get their partitions before the sessions
//! end.
//!
//! librdkafka has no call for that. But a broker gives the place of a static member to whoever joins under its name, without a
//! rebalance, and takes out who leaves. So a client joins for a moment under the name of the dead member, and leaves. It commits
//! nothing and hands nothing out. A member that lived after all finds out with its next heartbeat, and joins anew.
//!
//! [`Survivors`] says who does it.

use std::sync::Arc;

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use rdkafka::{
    config::{ClientConfig, FromClientConfigAndContext as _},
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
};

use super::{
    Limit, Settings, blocking,
    events::Events,
    members::{Members, name_of, node_of},
    topics::Topics,
    unavailable,
};
use crate::{
    limits,
    model::ids::NodeId,
    queue::{
        Error,
        survivors::{Listed, Survivors},
    },
    time_source::TimeSource,
};

/// The looks of this process for members of dead nodes. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct TakeOut {
    settings: Settings,
    time: TimeSource,
    topics: Topics,
    members: Members,
    survivors: Arc<Mutex<Survivors<String>>>,
}

impl TakeOut {
    /// Returns one that has not looked yet.
    pub(super) fn new(
        settings: Settings,
        time: TimeSource,
        topics: Topics,
        members: Members,
    ) -> Self {
        Self {
            settings,
            time,
            topics,
            members,
            survivors: Arc::default(),
        }
    }

    /// Looks once for members of a dead node in all groups that this process has members of.
    pub(super) async fn look(&self, dead: NodeId) -> Result<(), Error> {
        let Some(me) = self.members.node() else {
            return Ok(());
        };
        let groups = self.open_groups(dead);
        let asked = futures_util::stream::iter(groups)
            .map(|(group, topics)| async move { self.look_into(me, dead, &group, &topics).await });
        let mut outcomes = asked.buffer_unordered(limits::TAKE_OUT_GROUPS_AT_ONCE);
        let mut outcome = Ok(());
        while let Some(one) = outcomes.next().await {
            outcome = outcome.and(one);
        }
        outcome
    }

    /// Returns the groups that are to be looked at.
    fn open_groups(&self, dead: NodeId) -> Vec<(String, Vec<String>)> {
        let now = self.time.moment();
        let mut survivors = self.survivors.lock();
        survivors.note(dead, now);
        let groups = self.members.groups().into_iter();
        groups
            .filter(|(group, _)| survivors.is_open(dead, group))
            .collect()
    }

    async fn look_into(
        &self,
        me: NodeId,
        dead: NodeId,
        group: &str,
        topics: &[String],
    ) -> Result<(), Error> {
        let listed = self.list(group).await?.into_iter();
        let members: Vec<Listed<String>> = listed
            .map(|id| {
                let node = node_of(&id);
                (id, node)
            })
            .collect();
        let due = self.survivors.lock().take_notice(me, dead, group, &members);
        for id in due {
            let Some(name) = name_of(&id) else { continue };
            let mut config = self.settings.consumer(group, limits::CONSUMER_BYTES_MIN);
            config.set("group.instance.id", name);
            let (in_group, topics) = (group.to_owned(), topics.to_vec());
            let limit = Limit::new(&self.time, limits::TAKE_OUT_TIMEOUT);
            let stood_in = blocking(move || stand_in(&config, &in_group, &topics, &limit)).await;
            let outcome = stood_in.and_then(|outcome| outcome);
            outcome.map_err(|reason| unavailable("take a dead member out", reason))?;
            tracing::info!(group, member = id, "a dead node's member was taken out");
        }
        Ok(())
    }

    /// Returns the ids of the members of a group.
    async fn list(&self, group: &str) -> Result<Vec<String>, Error> {
        let (topics, asked) = (self.topics.clone(), group.to_owned());
        let limit = Limit::new(&self.time, limits::QUEUE_QUESTION_TIMEOUT);
        let listed = blocking(move || {
            let admin = topics.admin()?;
            let listed = admin.inner().fetch_group_list(Some(&asked), limit.left());
            let listed = listed.map_err(|error| error.to_string())?;
            let members = listed.groups().iter().flat_map(|group| group.members());
            Ok(members.map(|member| member.id().to_owned()).collect())
        });
        let listed = listed.await.and_then(|listed| listed);
        listed.map_err(|reason: String| unavailable("list the members of a group", reason))
    }
}

/// Joins a group under the name in the configuration, and leaves it. Blocks.
fn stand_in(
    config: &ClientConfig,
    group: &str,
    topics: &[String],
    limit: &Limit,
) -> Result<(), String> {
    let said = |error: KafkaError| error.to_string();
    let events = Events::new(group, Arc::default());
    let client: BaseConsumer<Events> =
        BaseConsumer::from_config_and_context(config, events).map_err(said)?;
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    client.subscribe(&topics).map_err(said)?;
    poll_until(&client, limit, || client.context().is_joined())?;
    client.unsubscribe();
    if client.assignment().map_err(said)?.count() > 0 {
        poll_until(&client, limit, || !client.context().is_joined())?;
    }
    // The client leaves once its partitions are closed, and one that ends before that does not leave.
    let settled = limit.within(limits::LEAVE_SETTLES);
    while !settled.left().is_zero() {
        drop(client.poll(limits::LEAVE_STEP));
    }
    Ok(())
}

/// Serves the callbacks of a client until something is so. Blocks.
fn poll_until(
    client: &BaseConsumer<Events>,
    limit: &Limit,
    is_so: impl Fn() -> bool,
) -> Result<(), String> {
    while !is_so() {
        if limit.left().is_zero() {
            return Err("no answer in time".to_owned());
        }
        if let Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) =
            client.poll(limits::LEAVE_STEP)
        {
            return Err(error.to_string());
        }
    }
    Ok(())
}
