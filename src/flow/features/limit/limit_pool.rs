//! The limit pool draws from the record of a callback's limits for the limiter of a node.
//!
//! Every draw is one conditional write. A write whose outcome is not known may have been made: what it gave is lost then, and no
//! other node uses it.

use std::future::ready;

use crate::{
    flow::base::{
        context::Context,
        documents::{Reads, Step, Unsure, Update},
    },
    limits::LIMIT_RACES_MAX,
    model::{
        limit::{Asked, Given, Limits, Pool},
        record::{Change, Kind, Name, Record},
    },
    schema::{decode_pool, encode_pool},
    store::Error,
};

/// Draws from the pool of a callback; also returns its record as it is then.
pub(super) async fn draw(
    ctx: &Context,
    callback: &str,
    limits: Limits,
    there: Option<Record>,
    asked: Asked,
) -> Result<(Given, Option<Record>), Error> {
    let unsuitable = |refused: crate::model::record::Refused| Error::Unsuitable {
        reason: refused.to_string(),
    };
    let name = Name::new(Kind::Limit, callback).map_err(unsuitable)?;
    let update = Update {
        store: &*ctx.store,
        name: &name,
        // It may have been written: then what it gave is lost, and nobody uses it twice.
        unsure: Unsure::Final,
        tries: LIMIT_RACES_MAX,
    };
    let decide = |there: Option<Record>| {
        let now = ctx.now();
        let before = read(there.as_ref());
        let mut pool = before.clone();
        let given = pool.ask(limits, ctx.me, now, asked);
        if pool == before {
            return Ok(Step::Answer((given, there)));
        }
        let mark = ctx.time.mark();
        let (value, expires) = (encode_pool(&pool), Some(pool.forgotten_at(now)));
        let change = Change::put(name.clone(), there.as_ref(), value, expires, mark);
        let change = change.map_err(unsuitable)?;
        let record = change.record().clone();
        Ok::<_, Error>(Step::Write(change, (given, Some(record))))
    };
    let updated = update.run(Reads::Known(there), |found| ready(decide(found.record)));
    updated.await?.or(|| Error::Unavailable {
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
