//! `Member` names each process of a drill for the others, with its kind, its name and its address.

use std::fmt;

/// The kind of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A Cassandra server.
    Store,
    /// A Kafka broker.
    Broker,
    /// A node of the service.
    Node,
    /// A process with callbacks.
    Worker,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Store, Self::Broker, Self::Node, Self::Worker];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Broker => "broker",
            Self::Node => "node",
            Self::Worker => "worker",
        }
    }

    /// The number of members of this kind.
    pub(crate) const fn count(self) -> u8 {
        match self {
            Self::Store | Self::Broker | Self::Node => 3,
            Self::Worker => 4,
        }
    }

    /// All members of this kind.
    pub(crate) fn members(self) -> impl Iterator<Item = Member> {
        (1..=self.count()).map(move |number| Member { kind: self, number })
    }
}

/// One member of a kind, numbered from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Member {
    pub(crate) kind: Kind,
    pub(crate) number: u8,
}

impl Member {
    /// The last byte of its address.
    pub(crate) const fn host(self) -> u8 {
        let tens = match self.kind {
            Kind::Store => 10,
            Kind::Broker => 20,
            Kind::Node => 30,
            Kind::Worker => 40,
        };
        tens + self.number
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().flat_map(Kind::members)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.kind.name(), self.number)
    }
}
