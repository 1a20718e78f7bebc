//! Records become columns, and columns records, for every store.

use bytes::Bytes;
use uuid::Uuid;

use super::{Undecodable, there};
use crate::model::{
    record::{Name, Record, Seen, Version},
    time::Millis,
};

/// The stored numbers of the two states of a record; never reused.
mod state {
    /// It has a value.
    pub(super) const THERE: i8 = 1;
    /// It was removed.
    pub(super) const REMOVED: i8 = 2;
}

/// The end of a record that stays, as stored: no column of a conditional write is ever null.
const NEVER: i64 = i64::MAX;

/// The stored columns of a record beside its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordColumns {
    /// The version.
    pub version: Option<i64>,
    /// The name of the last write.
    pub nonce: Option<Uuid>,
    /// Whether it is there or was removed.
    pub state: Option<i8>,
    /// The value; empty when it was removed.
    pub value: Option<Bytes>,
    /// From when on it may be gone.
    pub expires_ms: Option<i64>,
}

impl RecordColumns {
    /// Returns the columns of a record: all of them are there.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        let Record {
            name: _,
            version,
            nonce,
            value,
            expires,
        } = record;
        let state = value.as_ref().map_or(state::REMOVED, |_| state::THERE);
        Self {
            version: Some(version.0),
            nonce: Some(*nonce),
            state: Some(state),
            value: Some(value.clone().unwrap_or_default()),
            expires_ms: Some(expires.map_or(NEVER, |at| at.0)),
        }
    }

    /// Returns what conditions compare.
    ///
    /// # Errors
    /// [`Undecodable`] when one of the two columns is missing.
    pub fn seen(&self) -> Result<Seen, Undecodable> {
        Ok(Seen {
            version: Version(there(self.version, "version")?),
            nonce: there(self.nonce, "nonce")?,
        })
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// [`Undecodable`] with the first column that is missing or wrong.
    pub fn into_record(self, name: Name) -> Result<Record, Undecodable> {
        let Seen { version, nonce } = self.seen()?;
        let value = there(self.value, "value")?;
        let value = match there(self.state, "state")? {
            state::THERE => Some(value),
            state::REMOVED => None,
            other => return Err(Undecodable::unknown("state", other, state::REMOVED)),
        };
        let expires = there(self.expires_ms, "expires_ms")?;
        Ok(Record {
            name,
            version,
            nonce,
            value,
            expires: (expires != NEVER).then_some(Millis(expires)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::record::Kind;

    fn record(value: Option<&'static [u8]>, expires: Option<Millis>) -> Record {
        Record {
            name: Name::new(Kind::ApiKey, "a").unwrap(),
            version: Version(-3),
            nonce: Uuid::from_u128(9),
            value: value.map(Bytes::from_static),
            expires,
        }
    }

    #[test]
    fn every_record_is_read_back() {
        for record in [
            record(Some(b"v"), None),
            record(Some(b""), Some(Millis(7))),
            record(None, Some(Millis(-7))),
        ] {
            let columns = RecordColumns::of(&record);
            assert_eq!(columns.seen(), Ok(record.seen()));
            assert_eq!(columns.into_record(record.name.clone()), Ok(record));
        }
    }

    #[test]
    fn a_column_that_is_missing_or_unknown_is_named() {
        let name = record(None, None).name;
        let whole = RecordColumns::of(&record(Some(b"v"), None));
        let missing = |columns: RecordColumns| columns.into_record(name.clone()).unwrap_err();
        for (columns, column) in [
            (
                RecordColumns {
                    version: None,
                    ..whole.clone()
                },
                "version",
            ),
            (
                RecordColumns {
                    nonce: None,
                    ..whole.clone()
                },
                "nonce",
            ),
            (
                RecordColumns {
                    state: None,
                    ..whole.clone()
                },
                "state",
            ),
            (
                RecordColumns {
                    value: None,
                    ..whole.clone()
                },
                "value",
            ),
            (
                RecordColumns {
                    expires_ms: None,
                    ..whole.clone()
                },
                "expires_ms",
            ),
        ] {
            assert_eq!(missing(columns), Undecodable::Missing(column));
        }
        let state = |state| {
            missing(RecordColumns {
                state: Some(state),
                ..whole.clone()
            })
        };
        assert!(state(3).is_newer());
        assert!(!state(0).is_newer() && !state(99).is_newer());
    }
}
