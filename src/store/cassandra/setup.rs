//! The setup creates the keyspace for the operator, and proves that the server does what the protocol rests
//! on.
//!
//! [`init`] can be run again at any time: it adds what is missing and keeps every row. It marks the keyspace
//! ready last, so that an interrupted run is noticed at connect. One person at a time should run it: servers
//! without transactional schema changes may fail over a table that is created twice at once.
//!
//! A keyspace of another schema version is refused, and nothing is made in it.

use std::fmt;

use super::{
    Settings, Store,
    link::{Link, Purpose, Reply, corrupt},
    smoke,
};
use crate::{
    model::{clock::ClockRow, time::TickLength, wheel::Shape},
    store::{Error, row::ClockColumns},
    time_source::TimeSource,
};

const KEYSPACE: &str = include_str!("../../../schemas/cassandra/keyspace.cql");
const TABLES: &str = include_str!("../../../schemas/cassandra/tables.cql");

/// Version of the tables: that of the first release, 0.2.0. A program uses no other than its own.
const SCHEMA_VERSION: i32 = 2;

/// The quorum that every node uses. A keyspace made for another one must not be used with this one: a mix of
/// both loses linearizability.
const CONSISTENCY: &str = "quorum";

/// The state in which [`init`] found the keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initialized {
    /// Absent or unfinished: it is ready now.
    Created,
    /// A keyspace with these settings, ready.
    AlreadyThere,
}

/// Makes a keyspace ready for [`Store::connect`].
///
/// # Errors
/// [`Error::Unsuitable`] when the keyspace has other settings, or when the server's conditional writes do not
/// do what is needed. [`Error::Unavailable`] when it does not answer: run it again.
pub async fn init(
    settings: &Settings,
    shape: Shape,
    time: &TimeSource,
) -> Result<Initialized, Error> {
    settings.check()?;
    Box::pin(init_checked(settings, shape, time)).await
}

async fn init_checked(
    settings: &Settings,
    shape: Shape,
    time: &TimeSource,
) -> Result<Initialized, Error> {
    let link = Link::open(settings, time).await?;
    let wanted = Meta::new(shape);
    refuse_foreign(&link, &settings.keyspace, &wanted).await?;
    let server = Server::ask(&link).await?;
    for statement in statements(KEYSPACE).chain(statements(TABLES)) {
        link.define(&server.fill_in(&statement, settings)).await?;
    }
    write_meta(&link, &settings.keyspace, &wanted).await?;
    let found = read_meta(&link, &settings.keyspace).await?;
    found.same_settings(&wanted, &settings.keyspace)?;
    if !found.ready {
        write_clocks(&link, &settings.keyspace, shape, time).await?;
    }
    let store = Store::assemble(link, settings, shape, time).await?;
    smoke::test(&store).await?;
    if found.ready {
        return Ok(Initialized::AlreadyThere);
    }
    declare_ready(&store.link, &settings.keyspace).await?;
    Ok(Initialized::Created)
}

/// Refuses a keyspace that cannot be made ready before anything is made in it. A later program may have dropped a table, or made
/// another of the same name.
async fn refuse_foreign(link: &Link, keyspace: &str, wanted: &Meta) -> Result<(), Error> {
    match read_meta(link, keyspace).await {
        Ok(found) => found.same_settings(wanted, keyspace),
        // It is not there yet, or a run that made it was cut off.
        Err(Error::Unsuitable { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Counts the servers of the datacenter that has the fewest: a keyspace has its copies in each of them.
///
/// # Errors
/// [`Error::Unavailable`] when none answers.
pub async fn servers(settings: &Settings, time: &TimeSource) -> Result<usize, Error> {
    settings.check()?;
    Ok(Link::open(settings, time).await?.servers())
}

/// Divides a file of the schema into statements.
fn statements(text: &str) -> impl Iterator<Item = String> {
    let without_comments: Vec<&str> = text
        .lines()
        .map(|line| line.split("--").next().unwrap_or(line).trim_end())
        .filter(|line| !line.is_empty())
        .collect();
    let joined = without_comments.join("\n");
    let statements: Vec<String> = joined
        .split(';')
        .map(|statement| statement.trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .collect();
    statements.into_iter()
}

/// The kind of server that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// Its major version.
    Cassandra(u32),
    /// Its major version: the year, since it was renumbered.
    Scylla(u32),
}

impl Server {
    async fn ask(link: &Link) -> Result<Self, Error> {
        let operation = "ask for the server's version";
        let tables = link
            .prepare(
                "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'system'".into(),
            )
            .await?;
        let names: Vec<(String,)> = link
            .rows((Purpose::Rows, operation), &tables, (), 1000)
            .await?;
        let is_scylla = names.iter().any(|(name,)| name == "scylla_local");
        let text = if is_scylla {
            "SELECT version FROM system.versions"
        } else {
            "SELECT release_version FROM system.local"
        };
        let versions = link.prepare(text.into()).await?;
        let rows: Vec<(Option<String>,)> = link
            .rows((Purpose::Rows, operation), &versions, (), 1)
            .await?;
        let version = rows.into_iter().next().and_then(|(version,)| version);
        let major = major(&version.unwrap_or_default());
        Ok(if is_scylla {
            Self::Scylla(major)
        } else {
            Self::Cassandra(major)
        })
    }

    /// Fills in the parts that depend on settings and server.
    fn fill_in(self, statement: &str, settings: &Settings) -> String {
        let replication = format!(
            "{{'class': 'NetworkTopologyStrategy', 'replication_factor': {}}}",
            settings.replication_factor
        );
        statement
            .replace("{keyspace}", &settings.keyspace)
            .replace("{replication}", &replication)
            .replace("{options}", self.keyspace_options())
            .replace("{compaction}", self.compaction())
    }

    /// Returns the options of the keyspace. Scylla's tablets cannot do conditional writes in every version
    /// that has them, and versions before them do not know the option.
    const fn keyspace_options(self) -> &'static str {
        match self {
            Self::Cassandra(_) | Self::Scylla(..=5 | 2019..=2023) => "",
            Self::Scylla(_) => "AND tablets = {'enabled': false}",
        }
    }

    /// Returns the compaction. Rows of a slot are written over years and die together. Rows written in one
    /// hour do not, so a strategy that sorts by time of writing does not fit.
    const fn compaction(self) -> &'static str {
        match self {
            Self::Cassandra(5..) => "{'class': 'UnifiedCompactionStrategy'}",
            Self::Scylla(2019..) => "{'class': 'IncrementalCompactionStrategy'}",
            Self::Cassandra(_) | Self::Scylla(_) => "{'class': 'SizeTieredCompactionStrategy'}",
        }
    }
}

fn major(version: &str) -> u32 {
    let digits = version.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The settings that the whole keyspace was made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meta {
    schema_version: i32,
    wheels: i32,
    tick_ms: i64,
    slots: i64,
    consistency: String,
    ready: bool,
}

impl Meta {
    fn new(shape: Shape) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            wheels: i32::from(shape.wheels()),
            tick_ms: shape.tick().millis(),
            slots: shape.slots(),
            consistency: CONSISTENCY.to_owned(),
            ready: false,
        }
    }

    fn same_settings(&self, wanted: &Self, keyspace: &str) -> Result<(), Error> {
        if self.schema_version != SCHEMA_VERSION {
            return Err(self.foreign(keyspace));
        }
        let settings = |meta: &Self| Self {
            ready: false,
            ..meta.clone()
        };
        if settings(self) == settings(wanted) {
            return Ok(());
        }
        Err(Error::Unsuitable {
            reason: format!(
                "keyspace {keyspace} was initialised with {self}, but {wanted} are asked for; these are fixed for \
                 the life of a keyspace: ask for what it has, or initialise another keyspace"
            ),
        })
    }

    /// Returns the error of a keyspace that another program made.
    fn foreign(&self, keyspace: &str) -> Error {
        Error::Unsuitable {
            reason: format!(
                "keyspace {keyspace} has {self}, but this program needs schema version {SCHEMA_VERSION} and \
                 consistency {CONSISTENCY}: use the program that made it, or another keyspace"
            ),
        }
    }

    /// Returns the shape, if this program can use the keyspace.
    pub(super) fn usable(&self, keyspace: &str) -> Result<Shape, Error> {
        let unsuitable = |reason: String| Err(Error::Unsuitable { reason });
        if self.schema_version != SCHEMA_VERSION || self.consistency != CONSISTENCY {
            return Err(self.foreign(keyspace));
        }
        if !self.ready {
            return unsuitable(format!(
                "the initialisation of keyspace {keyspace} was not finished: run `tickwheel init` again"
            ));
        }
        self.shape().ok_or_else(|| {
            corrupt(
                "read the settings",
                &format!("keyspace {keyspace} has {self}"),
            )
        })
    }

    fn shape(&self) -> Option<Shape> {
        let tick = std::time::Duration::from_millis(u64::try_from(self.tick_ms).ok()?);
        Shape::new(
            u16::try_from(self.wheels).ok()?,
            TickLength::new(tick)?,
            self.slots,
        )
    }
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            schema_version,
            wheels,
            tick_ms,
            slots,
            consistency,
            ready: _,
        } = self;
        write!(
            f,
            "{wheels} wheels, ticks of {tick_ms} ms, {slots} slots (schema version {schema_version}, consistency \
             {consistency})"
        )
    }
}

/// Declares the keyspace to be ready, unless another program has changed it since it was read.
async fn declare_ready(link: &Link, keyspace: &str) -> Result<(), Error> {
    let operation = "finish the keyspace";
    let text = format!(
        "UPDATE {keyspace}.meta SET ready = true WHERE name = 'settings' IF schema_version = ?"
    );
    let statement = link.prepare(text).await?;
    match link.swap(operation, &statement, (SCHEMA_VERSION,)).await? {
        Reply::Applied => Ok(()),
        Reply::Refused(_) | Reply::Unknown => Err(super::link::unavailable(
            operation,
            "its last step may not have been done: run `tickwheel init` again",
        )),
    }
}

/// Reads the settings.
pub(super) async fn read_meta(link: &Link, keyspace: &str) -> Result<Meta, Error> {
    type Row = (i32, i32, i64, i64, String, bool);
    let not_there = |_| Error::Unsuitable {
        reason: format!("keyspace {keyspace} is not there or is empty: run `tickwheel init` first"),
    };
    let text = format!(
        "SELECT schema_version, wheels, tick_ms, slots, consistency, ready FROM {keyspace}.meta WHERE name = 'settings'"
    );
    let statement = link.prepare(text).await.map_err(|error| match error {
        Error::Unsuitable { .. } => not_there(()),
        other => other,
    })?;
    let rows: Vec<Row> = link
        .rows((Purpose::Rows, "read the settings"), &statement, (), 1)
        .await?;
    let (schema_version, wheels, tick_ms, slots, consistency, ready) =
        rows.into_iter().next().ok_or_else(|| not_there(()))?;
    Ok(Meta {
        schema_version,
        wheels,
        tick_ms,
        slots,
        consistency,
        ready,
    })
}

/// Writes the settings unless some are there. The caller reads afterwards which ones are there, whatever the
/// outcome.
async fn write_meta(link: &Link, keyspace: &str, meta: &Meta) -> Result<(), Error> {
    let text = format!(
        "INSERT INTO {keyspace}.meta (name, schema_version, wheels, tick_ms, slots, consistency, ready) \
         VALUES ('settings', ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
    );
    let statement = link.prepare(text).await?;
    let Meta {
        schema_version,
        wheels,
        tick_ms,
        slots,
        consistency,
        ready,
    } = meta;
    let values = (
        *schema_version,
        *wheels,
        *tick_ms,
        *slots,
        consistency,
        *ready,
    );
    link.swap("write the settings", &statement, values).await?;
    Ok(())
}

/// Writes the clock rows that are not there.
async fn write_clocks(
    link: &Link,
    keyspace: &str,
    shape: Shape,
    time: &TimeSource,
) -> Result<(), Error> {
    let operation = "write the clock rows";
    let text = format!(
        "INSERT INTO {keyspace}.clock (wheel, version, opened, fired_due_ms, fired_id, erased, owner, lease_until_ms, \
         wall_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
    );
    let statement = link.prepare(text).await?;
    for wheel in shape.all_wheels() {
        let row = ClockColumns::of(&ClockRow::first(&shape, time.now()));
        let values = (
            wheel.get().cast_signed(),
            row.version,
            row.opened,
            row.fired_due_ms,
            row.fired_id,
            row.erased,
            row.owner,
            row.lease_until_ms,
            row.wall_ms,
        );
        if let Reply::Unknown = link.swap(operation, &statement, values).await? {
            let reason = "one may not have been written: run `tickwheel init` again";
            return Err(super::link::unavailable(operation, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "setup_tests.rs"]
mod tests;
