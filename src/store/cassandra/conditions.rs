//! The conditions tell the doctor for operators what the servers are set to, as far as promises rest on it.

use std::collections::{BTreeMap, HashMap};

use scylla::value::CqlTimestamp;

use super::{
    Store,
    link::{Purpose, corrupt},
};
use crate::{model::time::Millis, store::Error};

/// Servers and repairs that are read at most.
const ROWS_MAX: usize = 100_000;

/// A repair in the list of the servers: its keyspace, when it was finished, and its error.
type Repair = (String, Option<CqlTimestamp>, Option<String>);

/// The time of the last repair that was finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// The servers keep no list of repairs.
    Unknown,
    /// The list cannot be read, for this reason.
    Unreadable(String),
    /// There was none that they remember.
    Never,
    /// Then.
    At(Millis),
}

/// The settings of the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// How many servers there are.
    pub servers: usize,
    /// How many copies each data centre has of a row. The name is empty where the keyspace does not know data centres.
    pub copies: BTreeMap<String, usize>,
    /// When a repair of the keyspace was finished last, perhaps of a part of it.
    pub repaired: Repaired,
}

impl Store {
    /// Asks the servers.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when none answers.
    pub async fn conditions(&self, keyspace: &str) -> Result<Conditions, Error> {
        let peers = "SELECT peer FROM system.peers".to_owned();
        let peers = self.link.prepare(peers).await?;
        let read = (Purpose::Rows, "count the servers");
        let peers: Vec<(std::net::IpAddr,)> = self.link.rows(read, &peers, (), ROWS_MAX).await?;
        let servers = peers.len() + 1;
        let copies = self.copies(keyspace).await?;
        // One server has nobody to be repaired from, and no quorum of what it keeps about repairs.
        let repaired = match servers {
            1 => Repaired::Unknown,
            _ => self.repaired(keyspace).await,
        };
        Ok(Conditions {
            servers,
            copies,
            repaired,
        })
    }

    async fn copies(&self, keyspace: &str) -> Result<BTreeMap<String, usize>, Error> {
        let replication =
            "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?".to_owned();
        let replication = self.link.prepare(replication).await?;
        let operation = "read the replication";
        let read = (Purpose::Rows, operation);
        let found: Vec<(HashMap<String, String>,)> =
            self.link.rows(read, &replication, (keyspace,), 1).await?;
        let (found,) = found.into_iter().next().unwrap_or_default();
        let counted = found.into_iter().filter(|(name, _)| name != "class");
        let counted = counted.map(|(name, text)| {
            let copies = text.split('/').next().unwrap_or_default().parse();
            let copies = copies.map_err(|_| corrupt(operation, &format!("{name} = {text:?}")))?;
            let data_center = Some(name).filter(|name| name != "replication_factor");
            Ok((data_center.unwrap_or_default(), copies))
        });
        counted.collect()
    }

    async fn repaired(&self, keyspace: &str) -> Repaired {
        let history = "SELECT keyspace_name, finished_at, exception_message FROM \
                       system_distributed.parent_repair_history"
            .to_owned();
        let history = match self.link.prepare(history).await {
            Ok(history) => history,
            // Scylla keeps no such table.
            Err(Error::Unsuitable { .. }) => return Repaired::Unknown,
            Err(error) => return Repaired::Unreadable(error.to_string()),
        };
        let read = (Purpose::Rows, "read the repairs");
        let repairs: Result<Vec<Repair>, Error> =
            self.link.rows(read, &history, (), ROWS_MAX).await;
        let repairs = match repairs {
            Ok(repairs) => repairs,
            Err(error) => return Repaired::Unreadable(error.to_string()),
        };
        let finished = repairs
            .into_iter()
            .filter(|(of, _, error)| of == keyspace && error.is_none())
            .filter_map(|(_, finished, _)| finished);
        let last = finished.map(|CqlTimestamp(at)| at).max();
        last.map_or(Repaired::Never, |at| Repaired::At(Millis(at)))
    }
}
