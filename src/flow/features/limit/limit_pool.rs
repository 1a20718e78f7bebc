//! The limit pool draws from the record of a callback's limits for the limiter of a node.
//!
//! Every draw is one conditional write. A write whose outcome is not known may have been made: what it gave is lost then, and no
//! other node uses it.

use crate::{
    flow::base::context::Context,
    limits::LIMIT_RACES_MAX,
    model::{
        limit::{Asked, Given, Limits, Pool},
        record::{Change, Kind, Mark, Name, Record},
    },
    schema::{decode_pool, encode_pool},
    store::{Error, Swapped},
};

/// Draws from the pool of a callback; also returns its record as it is then.
pub(super) async fn draw(
    ctx: &Context,
    callback: &str,
    limits: Limits,
    mut there: Option<Record>,
    asked: Asked,
) -> Result<(Given, Option<Record>), Error> {
    let unsuitable = |refused: crate::model::record::Refused| Error::Unsuitable {
        reason: refused.to_string(),
    };
    let name = Name::new(Kind::Limit, callback).map_err(unsuitable)?;
    for _ in 0..LIMIT_RACES_MAX {
        let now = ctx.now();
        let before = read(there.as_ref());
        let mut pool = before.clone();
        let given = pool.ask(limits, ctx.me, now, asked);
        if pool == before {
            return Ok((given, there));
        }
        let mark = Mark {
            nonce: ctx.time.random_uuid(),
            stamp: ctx.time.stamp(),
        };
        let (value, expires) = (encode_pool(&pool), Some(pool.forgotten_at(now)));
        let change = Change::put(name.clone(), there.as_ref(), value, expires, mark);
        let change = change.map_err(unsuitable)?;
        match ctx.store.put_if(&change).await? {
            Swapped::Applied => return Ok((given, Some(change.record().clone()))),
            Swapped::Conflict(other) => there = other,
            // It may have been written: then what it gave is lost, and nobody uses it twice.
            Swapped::Unknown => break,
        }
    }
    Err(Error::Unavailable {
        operation: "draw from the limits of a callback",
        reason: "others were first, or the outcome is not known".to_owned(),
    })
}

/// Reads a pool. One that cannot be read is begun anew: a limit that is exceeded once is less bad than tasks that never go.
fn read(record: Option<&Record>) -> Pool {
    let Some(value) = record.and_then(|record| record.value.clone()) else {
        return Pool::default();
    };
    decode_pool(value).unwrap_or_else(|error| {
        tracing::error!(%error, "the limits of a callback cannot be read: they begin anew");
        Pool::default()
    })
}
