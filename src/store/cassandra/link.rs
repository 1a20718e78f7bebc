//! The link sends requests for the Cassandra store through the driver's session, bounds each and gives
//! meaning to its errors.
//!
//! An error of a plain write or a read means "try again". Conditional writes matter more: "was certainly not
//! applied" and "may have been applied" must never be mixed up. An error that is not listed as the former is
//! the latter.

use std::{sync::Arc, time::Duration};

use scylla::{
    client::{
        execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder,
    },
    deserialize::row::DeserializeRow,
    errors::{DbError, ExecutionError, PrepareError, RequestAttemptError},
    policies::retry::{FallthroughRetryPolicy, RetryPolicy},
    response::{PagingState, query_result::QueryResult},
    serialize::{batch::BatchValues, row::SerializeRow},
    statement::{Consistency, SerialConsistency, batch::Batch, prepared::PreparedStatement},
    value::{CqlValue, Row},
};
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;

use super::{Settings, place, refused, tls};
use crate::{
    limits::{
        GROUPS_IN_FLIGHT_MAX, PAGE_ROWS_MAX, STORE_LIST_READS_IN_FLIGHT_MAX,
        STORE_READS_IN_FLIGHT_MAX, STORE_SEARCHES_IN_FLIGHT_MAX, STORE_URGENT_READS_IN_FLIGHT_MAX,
        STORE_WRITES_IN_FLIGHT_MAX,
    },
    store::Error,
    time_source::TimeSource,
};

/// Longest time to find the cluster. A server that is down refuses at once; one that hangs must not hold the
/// caller.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);

/// Longest time for a change of the schema, which all servers must agree on.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(30);

/// A dead connection is noticed after the sum of these two times. Requests on it have timed out by then.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// The answer to a conditional write.
#[derive(Debug)]
pub(super) enum Reply {
    Applied,
    /// Certainly not applied: the rows that prevented it, or those that the server chose to name.
    Refused(Vec<Found>),
    Unknown,
}

/// The servers that have a partition, by their ids, sorted; empty when there is only one server.
pub(super) type Replicas = Vec<Uuid>;

/// A row that a conditional write found, by column name. Its columns depend on server and statement.
#[derive(Debug)]
pub(super) struct Found(pub(super) Vec<(String, Option<CqlValue>)>);

impl Found {
    pub(super) fn get(&self, column: &str) -> Option<&CqlValue> {
        let found = self.0.iter().find(|(name, _)| name == column);
        found.and_then(|(_, value)| value.as_ref())
    }
}

/// The purpose of a read. Each kind has places of its own, so that a flood of one does not hold up the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Firing: clocks, and the slots that are opened.
    Urgent,
    /// Reading the rows of tasks, and everything that is rare.
    Rows,
    /// Finding a task by its id.
    Search,
    /// Lists and counts.
    List,
}

/// The places of reads.
struct Reads {
    urgent: Semaphore,
    rows: Semaphore,
    search: Semaphore,
    list: Semaphore,
}

impl Reads {
    fn new() -> Self {
        Self {
            urgent: Semaphore::new(STORE_URGENT_READS_IN_FLIGHT_MAX),
            rows: Semaphore::new(STORE_READS_IN_FLIGHT_MAX),
            search: Semaphore::new(STORE_SEARCHES_IN_FLIGHT_MAX),
            list: Semaphore::new(STORE_LIST_READS_IN_FLIGHT_MAX),
        }
    }

    const fn of(&self, purpose: Purpose) -> &Semaphore {
        match purpose {
            Purpose::Urgent => &self.urgent,
            Purpose::Rows => &self.rows,
            Purpose::Search => &self.search,
            Purpose::List => &self.list,
        }
    }
}

pub(super) struct Link {
    session: Session,
    time: TimeSource,
    request_timeout: Duration,
    reads: Reads,
    writes: Semaphore,
    conditional: Semaphore,
}

impl Link {
    pub(super) async fn open(settings: &Settings, time: &TimeSource) -> Result<Self, Error> {
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::Quorum)
            .serial_consistency(Some(SerialConsistency::Serial))
            .request_timeout(Some(settings.request_timeout))
            .retry_policy(retry_policy())
            .load_balancing_policy(place::nearest(settings))
            .build();
        let mut building = SessionBuilder::new()
            .known_nodes(&settings.contact_points)
            .default_execution_profile_handle(profile.into_handle())
            .keyspaces_to_fetch([settings.keyspace.clone()])
            .connection_timeout(settings.request_timeout)
            .keepalive_interval(KEEPALIVE_INTERVAL)
            .keepalive_timeout(KEEPALIVE_TIMEOUT)
            .schema_agreement_timeout(SCHEMA_TIMEOUT);
        if let Some(login) = &settings.access.login {
            building = building.user(login.user.clone(), login.password.clone());
        }
        if let Some(of_tls) = &settings.access.tls {
            let config = tls::configured(of_tls, &settings.contact_points)?;
            building = building.tls_context(Some(config));
        }
        let built = time
            .within(CONNECT_TIMEOUT, Box::pin(building.build()))
            .await;
        let session = built
            .ok_or_else(|| refused::silent(settings, CONNECT_TIMEOUT))?
            .map_err(|error| refused::unconnected(settings, &error))?;
        place::check(&session, settings)?;
        Ok(Self {
            session,
            time: time.clone(),
            request_timeout: settings.request_timeout,
            reads: Reads::new(),
            writes: Semaphore::new(STORE_WRITES_IN_FLIGHT_MAX),
            conditional: Semaphore::new(GROUPS_IN_FLIGHT_MAX),
        })
    }

    /// Counts the servers of the datacenter that has the fewest.
    pub(super) fn servers(&self) -> usize {
        place::fewest(&self.session)
    }

    /// Returns when an operation of several requests that starts now has to stop sending more of them.
    pub(super) fn deadline(&self) -> crate::time_source::Moment {
        self.time.moment().after(2 * self.request_timeout)
    }

    pub(super) fn is_past(&self, deadline: crate::time_source::Moment) -> bool {
        self.time.moment() > deadline
    }

    /// Changes the schema.
    pub(super) async fn define(&self, statement: &str) -> Result<(), Error> {
        let operation = "change the schema";
        let mut statement = scylla::statement::unprepared::Statement::new(statement);
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        let done = self.session.query_unpaged(statement, ()).await;
        done.map(drop).map_err(|error| fault(operation, &error))
    }

    pub(super) async fn prepare(&self, text: String) -> Result<PreparedStatement, Error> {
        let operation = "prepare its statements";
        let preparing = self
            .time
            .within(
                2 * self.request_timeout,
                Box::pin(self.session.prepare(text)),
            )
            .await;
        let mut prepared = preparing
            .ok_or_else(|| unavailable(operation, "no answer in time"))?
            .map_err(|error| match error {
                PrepareError::AllAttemptsFailed { first_attempt } => {
                    fault(operation, &ExecutionError::LastAttemptError(first_attempt))
                }
                other => unavailable(operation, &other),
            })?;
        prepared.set_page_size(i32::try_from(PAGE_ROWS_MAX).unwrap_or(i32::MAX));
        Ok(prepared)
    }

    /// Sends a plain write.
    pub(super) async fn write(
        &self,
        operation: &'static str,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<(), Error> {
        let _turn = self.turn(&self.writes, operation).await?;
        let done = self.session.execute_unpaged(statement, values).await;
        done.map(drop).map_err(|error| fault(operation, &error))
    }

    /// Returns the servers on which a partition of a statement's table lies; none when they are not known.
    pub(super) fn replicas(
        &self,
        statement: &PreparedStatement,
        partition: &impl SerializeRow,
    ) -> Option<Replicas> {
        let state = self.session.get_cluster_state();
        if state.get_nodes_info().len() == 1 {
            return Some(Vec::new());
        }
        let table = statement.get_table_spec()?;
        let (keyspace, table) = (table.ks_name(), table.table_name());
        let endpoints = state.get_endpoints(keyspace, table, partition).ok()?;
        let mut replicas: Replicas = endpoints.iter().map(|(node, _)| node.host_id).collect();
        replicas.sort_unstable();
        (!replicas.is_empty()).then_some(replicas)
    }

    /// Tells whether these are all servers of the cluster.
    pub(super) fn are_all(&self, replicas: &Replicas) -> bool {
        let state = self.session.get_cluster_state();
        replicas.is_empty() || replicas.len() == state.get_nodes_info().len()
    }

    /// Sends plain writes together.
    pub(super) async fn write_batch(
        &self,
        operation: &'static str,
        batch: &Batch,
        values: impl BatchValues,
    ) -> Result<(), Error> {
        let _turn = self.turn(&self.writes, operation).await?;
        let done = self.session.batch(batch, values).await;
        done.map(drop).map_err(|error| fault(operation, &error))
    }

    /// Reads rows, at most `rows_max`, over as many pages as it takes: an empty page is not the end.
    pub(super) async fn rows<R>(
        &self,
        (purpose, operation): (Purpose, &'static str),
        statement: &PreparedStatement,
        values: impl SerializeRow,
        rows_max: usize,
    ) -> Result<Vec<R>, Error>
    where
        R: for<'a> DeserializeRow<'a, 'a>,
    {
        let _turn = self.turn(self.reads.of(purpose), operation).await?;
        let deadline = self.deadline();
        let mut rows = Vec::new();
        let mut paging = PagingState::start();
        loop {
            let (page, next) = self
                .session
                .execute_single_page(statement, &values, paging)
                .await
                .map_err(|error| fault(operation, &error))?;
            let page = page
                .into_rows_result()
                .map_err(|error| corrupt(operation, &error))?;
            rows.reserve(page.rows_num().min(rows_max));
            for row in page
                .rows::<R>()
                .map_err(|error| corrupt(operation, &error))?
            {
                rows.push(row.map_err(|error| corrupt(operation, &error))?);
            }
            match next.into_paging_control_flow() {
                std::ops::ControlFlow::Continue(_) if rows.len() >= rows_max => break,
                std::ops::ControlFlow::Continue(_) if self.is_past(deadline) => {
                    return Err(unavailable(operation, "too many pages for one call"));
                }
                std::ops::ControlFlow::Continue(state) => paging = state,
                std::ops::ControlFlow::Break(()) => break,
            }
        }
        rows.truncate(rows_max);
        Ok(rows)
    }

    /// Sends a conditional write of one row.
    pub(super) async fn swap(
        &self,
        operation: &'static str,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Reply, Error> {
        let _turn = self.turn(&self.conditional, operation).await?;
        let done = self.session.execute_unpaged(statement, values).await;
        reply(operation, done)
    }

    /// Sends conditional writes of rows of one partition: all are applied or none is.
    pub(super) async fn swap_batch(
        &self,
        operation: &'static str,
        batch: &Batch,
        values: impl BatchValues,
    ) -> Result<Reply, Error> {
        let _turn = self.turn(&self.conditional, operation).await?;
        let done = self.session.batch(batch, values).await;
        reply(operation, done)
    }

    /// Waits for a place among the requests of a kind. If it fails, no request has been sent.
    async fn turn<'a>(
        &self,
        lane: &'a Semaphore,
        operation: &'static str,
    ) -> Result<SemaphorePermit<'a>, Error> {
        if let Ok(permit) = lane.try_acquire() {
            return Ok(permit);
        }
        let waited = self.time.within(self.request_timeout, lane.acquire()).await;
        waited
            .and_then(Result::ok)
            .ok_or_else(|| unavailable(operation, "too many requests are under way"))
    }
}

/// Forbids the driver all repetitions: a conditional write that it repeats may be applied twice, with
/// another's in between.
fn retry_policy() -> Arc<dyn RetryPolicy> {
    Arc::new(FallthroughRetryPolicy)
}

/// Reads the answer to a conditional write.
fn reply(
    operation: &'static str,
    done: Result<QueryResult, ExecutionError>,
) -> Result<Reply, Error> {
    match done {
        Ok(result) => Ok(decode_reply(result).unwrap_or(Reply::Unknown)),
        Err(error) if was_certainly_not_applied(&error) => Err(fault(operation, &error)),
        Err(error) => {
            tracing::debug!(operation, %error, "outcome of a conditional write is unknown");
            Ok(Reply::Unknown)
        }
    }
}

/// Decodes the rows of the answer; none when they are not the answer of a conditional write.
fn decode_reply(result: QueryResult) -> Option<Reply> {
    let rows = result.into_rows_result().ok()?;
    let names: Vec<String> = rows
        .column_specs()
        .iter()
        .map(|column| column.name().to_owned())
        .collect();
    let mut found = Vec::new();
    for row in rows.rows::<Row>().ok()? {
        let columns = names.iter().cloned().zip(row.ok()?.columns).collect();
        found.push(Found(columns));
    }
    let applied = |row: &Found| row.get("[applied]").and_then(CqlValue::as_boolean);
    match applied(found.first()?)? {
        true => Some(Reply::Applied),
        false => Some(Reply::Refused(found)),
    }
}

/// Tells whether a conditional write that failed with this error had no chance to be applied, now or later.
///
/// A timeout, a broken connection, an overloaded or a failing server say nothing. `Unavailable` may come from
/// the last round of a write that had already been decided.
fn was_certainly_not_applied(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::BadQuery(_)
        | ExecutionError::EmptyPlan
        | ExecutionError::PrepareError(_)
        | ExecutionError::ConnectionPoolError(_) => true,
        ExecutionError::LastAttemptError(attempt) => matches!(
            attempt,
            RequestAttemptError::SerializationError(_)
                | RequestAttemptError::CqlRequestSerialization(_)
                | RequestAttemptError::UnableToAllocStreamId
                | RequestAttemptError::DbError(
                    DbError::SyntaxError
                        | DbError::Invalid
                        | DbError::Unauthorized
                        | DbError::Unprepared { .. },
                    _,
                )
        ),
        _ => false,
    }
}

/// Returns the meaning of an error of the driver for the caller: most pass, some need a person.
fn fault(operation: &'static str, error: &ExecutionError) -> Error {
    let refused = !refused::is_passing(error)
        && matches!(
            error,
            ExecutionError::BadQuery(_)
                | ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                    DbError::SyntaxError
                        | DbError::Invalid
                        | DbError::Unauthorized
                        | DbError::AuthenticationError
                        | DbError::ConfigError,
                    _,
                ))
        );
    if refused {
        Error::Unsuitable {
            reason: format!("the server refuses to {operation}: {error}"),
        }
    } else {
        unavailable(operation, error)
    }
}

pub(super) fn unavailable(operation: &'static str, reason: &(impl ToString + ?Sized)) -> Error {
    let reason = reason.to_string();
    Error::Unavailable { operation, reason }
}

pub(super) fn corrupt(operation: &'static str, reason: &(impl ToString + ?Sized)) -> Error {
    let reason = reason.to_string();
    Error::Corrupt { operation, reason }
}

#[cfg(test)]
mod tests {
    use scylla::errors::{OperationType, WriteType};

    use super::*;

    fn answered(error: DbError) -> ExecutionError {
        let reason = "as a test".to_owned();
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, reason))
    }

    /// Each of these may come from a write that was decided, or will be. If one were taken for a refusal, a
    /// task would run twice.
    #[test]
    fn doubt_about_a_conditional_write_is_never_a_refusal() {
        let (consistency, required) = (Consistency::Serial, 2);
        let write_type = WriteType::Cas;
        for error in [
            DbError::Unavailable {
                consistency,
                required,
                alive: 1,
            },
            DbError::WriteTimeout {
                consistency,
                received: 1,
                required,
                write_type: write_type.clone(),
            },
            DbError::WriteFailure {
                consistency,
                received: 1,
                required,
                numfailures: 1,
                write_type,
            },
            DbError::RateLimitReached {
                op_type: OperationType::Write,
                rejected_by_coordinator: false,
            },
            DbError::Overloaded,
            DbError::IsBootstrapping,
            DbError::ServerError,
            DbError::Other(0x1700),
        ] {
            assert!(
                !was_certainly_not_applied(&answered(error.clone())),
                "{error:?}"
            );
        }
        let timed_out = ExecutionError::RequestTimeout(Duration::from_secs(2));
        assert!(!was_certainly_not_applied(&timed_out));
        assert!(was_certainly_not_applied(&answered(DbError::Invalid)));
    }

    #[test]
    fn the_driver_repeats_nothing() {
        assert_eq!(format!("{:?}", retry_policy()), "FallthroughRetryPolicy");
    }
}
