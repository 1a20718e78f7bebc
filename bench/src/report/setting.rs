//! A setting names for the comparison a peer and its promises: what is on disk, and when.

use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

/// A system that fires tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// This service, on the embedded store.
    Tickwheel,
    /// beanstalkd, with its log of jobs.
    Beanstalkd,
    /// A sorted set and a list in Redis, and a script that moves due jobs from one to the other.
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
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    /// The value that distinguishes it from others of the peer, as the peer takes it.
    pub(crate) variant: &'static str,
    pub(crate) delivery: &'static str,
    /// The data that is on disk when a registration is acknowledged.
    pub(crate) synced: &'static str,
    pub(crate) resolution: &'static str,
    /// How many tasks are registered at once, and by which means; empty when the peer has no batches.
    pub(crate) batches: &'static str,
    /// The least distance between different due times.
    #[serde(skip)]
    pub(crate) step: Duration,
    /// Due times are rounded up to multiples of this.
    #[serde(skip)]
    pub(crate) grid: Duration,
}

/// A due time in milliseconds.
pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

impl Setting {
    pub(crate) fn has_batches(&self) -> bool {
        !self.batches.is_empty()
    }

    pub(crate) fn is_own(&self) -> bool {
        self.kind == Kind::Tickwheel
    }
}
