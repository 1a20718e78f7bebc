//! The peers, and the settings that each is measured with: what is promised of a task, and when it is on disk.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::{Peer, Place, beanstalkd, bullmq, nats, postgres, redis, rocketmq, tickwheel};

/// A system that fires tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// This service, on the embedded store.
    Tickwheel,
    /// beanstalkd, with its log of jobs.
    Beanstalkd,
    /// A sorted set and a list in Redis, and a script that moves what is due from one to the other.
    Redis,
    /// BullMQ on Redis.
    Bullmq,
    /// Timer messages of RocketMQ.
    Rocketmq,
    /// db-scheduler on PostgreSQL.
    Postgres,
    /// Scheduled messages of NATS.
    Nats,
}

/// A peer with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Setting {
    #[serde(rename = "peer")]
    pub(super) kind: Kind,
    pub(crate) name: &'static str,
    /// The value that distinguishes it from others of the peer, as the peer takes it.
    pub(super) variant: &'static str,
    pub(crate) delivery: &'static str,
    /// What is on disk when a registration is acknowledged.
    pub(crate) synced: &'static str,
    pub(crate) resolution: &'static str,
    /// How many tasks are registered at once, and by what; empty when the peer has nothing of the kind.
    pub(crate) batches: &'static str,
    /// How far apart due times are that differ.
    #[serde(skip)]
    pub(super) step: Duration,
    /// Due times are rounded up to multiples of this.
    #[serde(skip)]
    pub(super) grid: Duration,
}

/// A due time in milliseconds.
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);

impl Setting {
    pub(super) async fn start(&self, place: Place) -> anyhow::Result<Box<dyn Peer>> {
        Ok(match self.kind {
            Kind::Tickwheel => Box::new(tickwheel::start(place).await?),
            Kind::Beanstalkd => Box::new(beanstalkd::start(self, place).await?),
            Kind::Redis => Box::new(redis::start(self, place).await?),
            Kind::Bullmq => Box::new(bullmq::start(self, place).await?),
            Kind::Rocketmq => Box::new(rocketmq::start(self, place).await?),
            Kind::Postgres => Box::new(postgres::start(self, place).await?),
            Kind::Nats => Box::new(nats::start(self, place).await?),
        })
    }

    pub(super) fn has_batches(&self) -> bool {
        !self.batches.is_empty()
    }

    pub(super) fn is_own(&self) -> bool {
        self.kind == Kind::Tickwheel
    }
}

/// Returns the settings of some peers, of all when none is named, whose names contain one of some texts, if there are any.
pub(super) fn chosen(kinds: &[Kind], parts: &[String]) -> Vec<Setting> {
    let all = [
        tickwheel::SETTINGS.as_slice(),
        beanstalkd::SETTINGS.as_slice(),
        redis::SETTINGS.as_slice(),
        bullmq::SETTINGS.as_slice(),
        rocketmq::SETTINGS.as_slice(),
        postgres::SETTINGS.as_slice(),
        nats::SETTINGS.as_slice(),
    ];
    let wanted = |setting: &Setting| {
        let is_named = |part: &String| setting.name.contains(part.as_str());
        (kinds.is_empty() || kinds.contains(&setting.kind))
            && (parts.is_empty() || parts.iter().any(is_named))
    };
    all.concat().into_iter().filter(wanted).collect()
}
