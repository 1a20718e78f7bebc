//! The backup handler sends a copy of the store of this process to an operator, while the service goes on.
//!
//! One copy is made at a time, and holds a few pieces in memory. It takes a part of the time of one core, so that tasks are late
//! by little more beside it; a client that names a rate gets that rate. A copy that cannot be finished breaks the connection off,
//! and the bytes that were sent are no backup: the last piece is missing.

use std::{io, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use futures_util::{Stream, stream};
use tokio::sync::{
    OwnedSemaphorePermit,
    mpsc::{self, Receiver},
};

use crate::{
    api::{backup::BackupRequest, problem::Problem},
    http::{
        Api, CopyPieces,
        error::{Code, Error},
        extract::OptionalJson,
    },
    limits::{BACKUP_RATE_MIN, BACKUP_RATE_USUAL, BACKUP_REST_MAX, BACKUP_RESTS},
};

/// Pieces that wait to be sent.
const PIECES_WAITING: usize = 2;

/// When a client that met another copy may ask again.
const AGAIN: Duration = Duration::from_secs(10);

/// Sends a copy of the embedded store as it is now. It holds every payload and every hash of an API key: keep it as safe as the
/// store. `tickwheel backup check` tells whether it is whole.
#[utoipa::path(post, path = "/v1/backup", tag = "cluster", operation_id = "createBackup",
    request_body = Option<BackupRequest>,
    responses(
        (status = 200, description = "The copy, for `tickwheel backup restore`", body = [u8], content_type = "application/octet-stream"),
        (status = 422, description = "`unsupported`: the store is a cluster, which has tools of its own for this", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`too_many_requests`: another copy is being made", body = Problem, content_type = "application/problem+json"),
        (status = "default", description = "No copy was begun", body = Problem, content_type = "application/problem+json")))]
pub(in crate::http) async fn create(
    State(api): State<Api>,
    OptionalJson(asked): OptionalJson<BackupRequest>,
) -> Result<Response, Error> {
    let pace = Pace::read(asked.bytes_per_second)?;
    let Some(copies) = api.options.copies.clone() else {
        let detail = "the store of this service is a cluster: back it up with its own tools (docs/backup.md)";
        return Err(Error::new(Code::Unsupported, detail));
    };
    let alone = Arc::clone(&api.copying).try_acquire_owned();
    let alone = alone.map_err(|_| under_way())?;
    let begun = tokio::task::spawn_blocking(move || copies()).await;
    let begun = begun.unwrap_or_else(|error| Err(error.to_string()));
    let pieces = begun.map_err(|why| Error::new(Code::Unavailable, why))?;
    tracing::info!("a copy of the store is being made");
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(sent(api, pieces, pace, alone))).into_response())
}

fn under_way() -> Error {
    let detail = "another copy of the store is being made: one at a time";
    Error {
        retry_after: Some(AGAIN),
        ..Error::new(Code::TooManyRequests, detail)
    }
}

/// A piece of a copy, and how long its making took.
struct Made {
    piece: Result<Vec<u8>, String>,
    took: Duration,
}

/// A copy that is being sent.
struct Sending {
    api: Api,
    pieces: Receiver<Made>,
    pace: Pace,
    _alone: OwnedSemaphorePermit,
}

/// Returns the pieces, no faster than the rate, or with rests between them. Dropping it ends the copy.
fn sent(
    api: Api,
    pieces: CopyPieces,
    pace: Pace,
    alone: OwnedSemaphorePermit,
) -> impl Stream<Item = io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let time = api.options.time.clone();
    tokio::task::spawn_blocking(move || {
        let mut begun = time.moment();
        for piece in pieces {
            let took = time.moment().since(begun);
            if sender.blocking_send(Made { piece, took }).is_err() {
                // The client has gone.
                break;
            }
            begun = time.moment();
        }
    });
    let sending = Sending {
        pieces: receiver,
        pace,
        _alone: alone,
        api,
    };
    stream::unfold(Some(sending), async |sending| {
        let mut sending = sending?;
        let options = &sending.api.options;
        let made = tokio::select! {
            made = sending.pieces.recv() => made?,
            () = options.shutdown.cancelled() => Made {
                piece: Err("the node stops".to_owned()),
                took: Duration::ZERO,
            },
        };
        match made.piece {
            Ok(piece) => {
                let rest = rest(sending.pace, piece.len(), made.took);
                options.time.sleep(rest).await;
                Some((Ok(Bytes::from(piece)), Some(sending)))
            }
            Err(why) => {
                tracing::warn!(why, "a copy of the store was broken off");
                Some((Err(io::Error::other(why)), None))
            }
        }
    })
}

/// The pace of a copy.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// Bytes a second that the client wishes.
    Wished(u64),
    /// The usual one, which gives way to other work.
    Usual,
}

impl Pace {
    fn read(rate: Option<u64>) -> Result<Self, Error> {
        if let Some(rate) = rate.filter(|rate| *rate < BACKUP_RATE_MIN) {
            let detail = format!("{rate} is too little: at least {BACKUP_RATE_MIN} bytes a second");
            let pointer = "/bytes_per_second";
            return Err(Error::field(Code::InvalidRequest, pointer, detail));
        }
        Ok(rate.map_or(Self::Usual, Self::Wished))
    }
}

/// Returns how long the copy rests behind a piece of so many bytes whose making took so long.
fn rest(pace: Pace, bytes: usize, took: Duration) -> Duration {
    let at = |rate: u64| Duration::from_secs_f64(bytes as f64 / rate as f64);
    match pace {
        Pace::Wished(rate) => at(rate),
        Pace::Usual => {
            // It is longer where other work has kept the core: the copy gives way then.
            let given_way = took.saturating_mul(BACKUP_RESTS).min(BACKUP_REST_MAX);
            at(BACKUP_RATE_USUAL).max(given_way)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_rests_by_its_rate_or_by_its_own_work_and_never_for_long() {
        let (millisecond, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
        assert_eq!(
            rest(Pace::Wished(1 << 20), 1 << 18, hour),
            250 * millisecond
        );
        let usual = Duration::from_secs(1) / 32;
        let rest_of = |bytes, took| rest(Pace::Usual, bytes, took);
        assert_eq!(rest_of(1 << 18, Duration::ZERO), usual);
        assert_eq!(rest_of(1 << 18, 10 * millisecond), usual);
        assert_eq!(rest_of(1 << 18, 11 * millisecond), 33 * millisecond);
        let longest = BACKUP_REST_MAX / BACKUP_RESTS;
        assert_eq!(rest_of(0, longest), longest * BACKUP_RESTS);
        assert_eq!(rest_of(0, longest + millisecond), BACKUP_REST_MAX);
        assert_eq!(rest_of(0, Duration::MAX), BACKUP_REST_MAX);
    }
}
