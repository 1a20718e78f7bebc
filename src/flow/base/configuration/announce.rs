//! The announcement tells every node of a change of the configuration before its writer is answered.
//!
//! The record is written first, then named in the epoch, then the caller is told. A writer that dies in between was not
//! acknowledged; other nodes find its record by their next pass ([`crate::model::configuration`] has the rule).

use std::future::ready;

use crate::{
    flow::base::documents::{self, Found, Put, Reads, Step, Unsure, Update},
    limits::EPOCH_RACES_MAX,
    model::{
        configuration::Epoch,
        record::{Change, Name, Record, Version},
    },
    schema::{decode_epoch, encode_epoch},
    store::{Error, Freshness, Store, Swapped},
    time_source::TimeSource,
};

/// Writes a record of the configuration and announces it. `Applied` means that every node has it in force within
/// [`CURRENT_MAX`](crate::model::configuration::CURRENT_MAX), or knows that it is not current. `Unknown` means that it
/// may have been written, or may be later, and that some nodes may only find it by a pass.
///
/// A caller that answers success because the record is already as it was asked to be calls [`announce`] first: the writer of the
/// record may have died before it did.
///
/// # Errors
/// It was certainly not written.
pub async fn put(
    store: &dyn Store,
    time: &TimeSource,
    change: &Change,
) -> Result<Swapped<Option<Record>>, Error> {
    let record = change.record();
    match store.put_if(change).await? {
        Swapped::Applied => {}
        Swapped::Conflict(there) => return Ok(Swapped::Conflict(there)),
        // A failed read leaves it unknown: an error would say that it was certainly not written.
        Swapped::Unknown => match documents::settle(store, &record.name, record.nonce).await {
            Ok(Put::Done(_)) => {}
            Ok(Put::Lost(_)) | Err(_) => return Ok(Swapped::Unknown),
        },
    }
    match announce(store, time, &record.name).await {
        Ok(()) => Ok(Swapped::Applied),
        Err(error) => {
            tracing::warn!(%error, record = %record.name, "a change was written and not announced");
            Ok(Swapped::Unknown)
        }
    }
}

/// Names a record in the epoch.
///
/// # Errors
/// It may not have been named.
pub async fn announce(store: &dyn Store, time: &TimeSource, name: &Name) -> Result<(), Error> {
    let update = Update {
        store,
        name: &Name::epoch(),
        unsure: Unsure::Settled,
        tries: EPOCH_RACES_MAX,
    };
    let decide = |found: Found| {
        let change = raise(found.record.as_ref(), time, name);
        ready(change.map(|change| Step::Write(change, ())))
    };
    let updated = update.run(Reads::Once(Freshness::Quorum), decide);
    updated.await?.or(|| Error::Unavailable {
        operation: "announce a change",
        reason: "too many changes are made at once".to_owned(),
    })
}

/// Returns the change that raises the epoch and names a record.
fn raise(there: Option<&Record>, time: &TimeSource, name: &Name) -> Result<Change, Error> {
    let mark = time.mark();
    // The version that the change will have.
    let number = Version::behind(there.map(|there| there.version), mark.stamp).0;
    let next = read(there)?.raised(number, name.clone());
    let change = Change::put(Name::epoch(), there, encode_epoch(&next), None, mark);
    change.map_err(|refused| Error::Unsuitable {
        reason: refused.to_string(),
    })
}

/// Reads the epoch from its record. Without one nothing has changed yet.
pub(super) fn read(record: Option<&Record>) -> Result<Epoch, Error> {
    let Some(record) = record else {
        return Ok(Epoch::default());
    };
    let value = record.value.clone().unwrap_or_default();
    decode_epoch(record.version.0, value).map_err(|cause| Error::Corrupt {
        operation: "read the epoch of the configuration",
        reason: cause.to_string(),
    })
}
