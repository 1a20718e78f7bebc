//! The conditions tell the doctor for operators how the brokers keep the topics of the service.

use rdkafka::{
    admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier},
    config::FromClientConfigAndContext as _,
    metadata::MetadataTopic,
};

use super::{Settings, blocking, link::Link, unavailable, unsuitable};
use crate::{limits, model::topic_names::TopicNames, queue::Error};

/// Topics that are looked at in all. A doctor needs examples, not each of a hundred thousand.
const TOPICS_MAX: usize = 2000;

/// How a topic is kept. None is not known: the broker does not say, or not to this user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicState {
    /// Its name.
    pub name: String,
    /// The fewest copies that a partition has.
    pub copies: usize,
    /// How long messages are kept, in milliseconds; negative is for ever.
    pub retention_ms: Option<i64>,
    /// How many copies must have a record before it is acknowledged.
    pub in_sync_min: Option<usize>,
    /// Whether a copy that lacks records may become the leader.
    pub unclean: Option<bool>,
}

/// The brokers and their topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// How many brokers there are.
    pub brokers: usize,
    /// Topics of the service; at most 2,000.
    pub topics: Vec<TopicState>,
}

/// Asks the brokers.
///
/// # Errors
/// [`Error::Unavailable`] when they do not answer, [`Error::Unsuitable`] when the settings are no good.
pub async fn ask(settings: &Settings) -> Result<Conditions, Error> {
    let made = AdminClient::from_config_and_context(&settings.admin(), Link::new("doctor"));
    let admin = made.map_err(|error| unsuitable(&error))?;
    let names = settings.names.clone();
    let (brokers, mut topics, admin) = blocking(move || {
        let listed = admin
            .inner()
            .fetch_metadata(None, limits::QUEUE_QUESTION_TIMEOUT);
        let listed = listed.map_err(|error| error.to_string())?;
        let topics = listed
            .topics()
            .iter()
            .filter(|topic| is_ours(topic, &names));
        let topics: Vec<TopicState> = topics.take(TOPICS_MAX).map(outline).collect();
        Ok::<_, String>((listed.brokers().len(), topics, admin))
    })
    .await
    .and_then(|answer| answer)
    .map_err(|reason| unavailable("list the topics", reason))?;
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let asked: Vec<_> = names
        .iter()
        .map(|name| ResourceSpecifier::Topic(name))
        .collect();
    if !asked.is_empty() {
        let options = AdminOptions::new().request_timeout(Some(limits::QUEUE_QUESTION_TIMEOUT));
        let described = admin.describe_configs(&asked, &options).await;
        let described =
            described.map_err(|error| unavailable("read settings", error.to_string()))?;
        for resource in described.into_iter().flatten() {
            fill_in(&mut topics, &resource);
        }
    }
    Ok(Conditions { brokers, topics })
}

fn is_ours(topic: &MetadataTopic, names: &TopicNames) -> bool {
    names.is_own(topic.name()) && topic.error().is_none()
}

fn outline(topic: &MetadataTopic) -> TopicState {
    let copies = topic.partitions().iter().map(|one| one.replicas().len());
    TopicState {
        name: topic.name().to_owned(),
        copies: copies.min().unwrap_or_default(),
        ..TopicState::default()
    }
}

fn fill_in(topics: &mut [TopicState], resource: &ConfigResource) {
    let OwnedResourceSpecifier::Topic(name) = &resource.specifier else {
        return;
    };
    let Some(topic) = topics.iter_mut().find(|topic| topic.name == *name) else {
        return;
    };
    let text = |name: &str| resource.get(name)?.value.as_deref();
    topic.retention_ms = text("retention.ms").and_then(|text| text.parse().ok());
    topic.in_sync_min = text("min.insync.replicas").and_then(|text| text.parse().ok());
    topic.unclean = text("unclean.leader.election.enable").and_then(|text| text.parse().ok());
}
