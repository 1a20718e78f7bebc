//! The key codec converts keys of the API, and rows of the audit, to and from the bytes that stores keep, for the nodes.

use bytes::Bytes;
use prost::Message;
use uuid::Uuid;

use super::{Malformed, v1};
use crate::model::{
    access::{ApiKey, Role},
    audit::Entry,
    limit::Rate,
    time::Millis,
};

/// Encodes a key.
#[must_use]
pub fn encode_api_key(key: &ApiKey) -> Bytes {
    let ApiKey {
        name,
        role,
        callbacks,
        payloads,
        rate,
        created,
        expires,
        hash,
    } = key;
    let message = v1::ApiKey {
        name: name.clone(),
        role: role.number(),
        callbacks: callbacks.iter().cloned().collect(),
        payloads: *payloads,
        rate: rate.map(|rate| v1::RateLimit {
            per_second_milli: rate.per_second_milli(),
            burst: rate.burst(),
        }),
        created_ms: created.0,
        expires_ms: expires.map(|at| at.0),
        hash: Bytes::copy_from_slice(hash),
    };
    message.encode_to_vec().into()
}

/// Decodes a key.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_api_key(bytes: Bytes) -> Result<ApiKey, Malformed> {
    let message = v1::ApiKey::decode(bytes)?;
    let rate = match message.rate {
        None => None,
        Some(rate) => {
            let known = Rate::from_milli(rate.per_second_milli, rate.burst);
            Some(known.ok_or(Malformed::OutOfRange("rate"))?)
        }
    };
    Ok(ApiKey {
        name: message.name,
        role: Role::from_number(message.role).ok_or(Malformed::OutOfRange("role"))?,
        callbacks: message.callbacks.into_iter().collect(),
        payloads: message.payloads,
        rate,
        created: Millis(message.created_ms),
        expires: message.expires_ms.map(Millis),
        hash: message
            .hash
            .as_ref()
            .try_into()
            .map_err(|_| Malformed::OutOfRange("hash"))?,
    })
}

/// A change of a key of the API that is decided, and may have to be written still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyChange {
    /// The id of the key.
    pub id: String,
    /// The nonce of the record that is replaced; none where there is none.
    pub replaces: Option<Uuid>,
    /// The key in its own bytes; none where it is revoked.
    pub key: Option<Bytes>,
}

/// Encodes a change of a key.
#[must_use]
pub fn encode_api_key_change(change: &ApiKeyChange) -> Bytes {
    let ApiKeyChange { id, replaces, key } = change;
    let replaces = replaces.map(|nonce| Bytes::copy_from_slice(nonce.as_bytes()));
    let message = v1::ApiKeyChange {
        id: id.clone(),
        replaces: replaces.unwrap_or_default(),
        key: key.clone(),
    };
    message.encode_to_vec().into()
}

/// Decodes a change of a key.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_api_key_change(bytes: Bytes) -> Result<ApiKeyChange, Malformed> {
    let message = v1::ApiKeyChange::decode(bytes)?;
    let replaces = match &*message.replaces {
        [] => None,
        bytes => Some(Uuid::from_slice(bytes).map_err(|_| Malformed::OutOfRange("replaces"))?),
    };
    Ok(ApiKeyChange {
        id: message.id,
        replaces,
        key: message.key,
    })
}

/// Encodes a row of the audit.
#[must_use]
pub fn encode_audit(entry: &Entry) -> Bytes {
    let Entry {
        key,
        who,
        action,
        target,
        from,
        status,
        code,
        more,
    } = entry;
    let message = v1::AuditEntry {
        key: key.clone(),
        who: who.clone(),
        action: action.clone(),
        target: target.clone(),
        from: from.clone(),
        status: status.map_or(0, u32::from),
        code: code.clone(),
        more: *more,
    };
    message.encode_to_vec().into()
}

/// Decodes a row of the audit.
///
/// # Errors
/// [`Malformed`] when the bytes are not one.
pub fn decode_audit(bytes: Bytes) -> Result<Entry, Malformed> {
    let message = v1::AuditEntry::decode(bytes)?;
    let status = u16::try_from(message.status).map_err(|_| Malformed::OutOfRange("status"))?;
    Ok(Entry {
        key: message.key,
        who: message.who,
        action: message.action,
        target: message.target,
        from: message.from,
        status: (status != 0).then_some(status),
        code: message.code,
        more: message.more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ApiKey {
        ApiKey {
            name: "shop".to_owned(),
            role: Role::Producer,
            callbacks: ["mail".to_owned()].into(),
            payloads: true,
            rate: Rate::new(5.0, Some(9)),
            created: Millis(1_800_000_000_000),
            expires: Some(Millis(1_900_000_000_000)),
            hash: [9; 32],
        }
    }

    #[test]
    fn keys_and_rows_of_the_audit_survive_their_bytes() {
        let least = ApiKey {
            rate: None,
            expires: None,
            callbacks: Default::default(),
            ..key()
        };
        for key in [key(), least] {
            assert_eq!(decode_api_key(encode_api_key(&key)), Ok(key));
        }
        let full = Entry {
            key: "1".to_owned(),
            who: "ops".to_owned(),
            action: "setGate".to_owned(),
            target: "/v1/callbacks/mail/gate".to_owned(),
            from: "127.0.0.1:9".to_owned(),
            status: Some(403),
            code: "access_denied".to_owned(),
            more: 7,
        };
        for replaces in [None, Some(Uuid::from_u128(9))] {
            let (id, key) = ("1".to_owned(), replaces.map(|_| encode_api_key(&key())));
            let change = ApiKeyChange { id, replaces, key };
            let read = decode_api_key_change(encode_api_key_change(&change));
            assert_eq!(read, Ok(change));
        }
        for entry in [full, Entry::default()] {
            assert_eq!(decode_audit(encode_audit(&entry)), Ok(entry));
        }
    }

    #[test]
    fn values_of_a_later_version_are_refused_with_the_field() {
        let spoilt = |spoil: fn(&mut v1::ApiKey)| {
            let mut message = v1::ApiKey::decode(encode_api_key(&key())).unwrap();
            spoil(&mut message);
            decode_api_key(message.encode_to_vec().into()).unwrap_err()
        };
        assert_eq!(spoilt(|key| key.role = 99), Malformed::OutOfRange("role"));
        assert_eq!(
            spoilt(|key| key.hash.clear()),
            Malformed::OutOfRange("hash")
        );
        let no_rate = |key: &mut v1::ApiKey| key.rate = Some(v1::RateLimit::default());
        assert_eq!(spoilt(no_rate), Malformed::OutOfRange("rate"));
    }
}
