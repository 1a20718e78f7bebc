//! The signature tells consumers which records are the service's: an HMAC-SHA256 over topic, key and value.
//!
//! The header [`HEADER`] is `v1,` and the base64 of the code of these bytes: the topic, a line break, the number of bytes of the
//! key in decimal digits, a line break, the key, the value. A record without a key has one of no bytes. So a record that is
//! copied to another topic, or whose value was changed, is found. A copy in the same topic is not: claims refuse those.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::{
    model::signing::{Signing, SigningKey, Unsigned},
    queue::{Delivery, Record},
};

/// The header with the signature.
pub const HEADER: &str = "tickwheel-signature";

/// Before the base64 of a signature.
const VERSION: &str = "v1,";

type Code = Hmac<Sha256>;

/// Signs a record, if there is a key. A signature that it has already is replaced.
pub(super) fn sign(signing: &Signing, record: &mut Record) {
    let Some(key) = signing.keys.first() else {
        return;
    };
    let Some(code) = code(key, (&record.topic, record.key.as_deref()), &record.value) else {
        return;
    };
    let signed = format!("{VERSION}{}", STANDARD.encode(code.finalize().into_bytes()));
    record.headers.retain(|(name, _)| name != HEADER);
    record.headers.push((HEADER.into(), Bytes::from(signed)));
}

/// Tells whether a record is to be believed.
pub(super) fn is_believed(signing: &Signing, delivery: &Delivery) -> bool {
    if signing.keys.is_empty() || signing.unsigned == Unsigned::Taken {
        return true;
    }
    let mut headers = delivery.headers.iter();
    let Some((_, signed)) = headers.find(|(name, _)| name == HEADER) else {
        return false;
    };
    let text = signed.strip_prefix(VERSION.as_bytes());
    let Some(Ok(signed)) = text.map(|text| STANDARD.decode(text)) else {
        return false;
    };
    let named = (delivery.topic.as_str(), delivery.key.as_deref());
    signing.keys.iter().any(|key| {
        // Takes as long for a wrong one, wherever it is wrong.
        code(key, named, &delivery.value).is_some_and(|code| code.verify_slice(&signed).is_ok())
    })
}

fn code(key: &SigningKey, (topic, name): (&str, Option<&[u8]>), value: &[u8]) -> Option<Code> {
    let mut code = Code::new_from_slice(key.bytes()).ok()?;
    let name = name.unwrap_or_default();
    code.update(format!("{topic}\n{}\n", name.len()).as_bytes());
    code.update(name);
    code.update(value);
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Partition;

    fn signing(keys: &[&str]) -> Signing {
        let keys = keys.iter().map(|key| SigningKey::new(key.as_bytes()));
        Signing {
            keys: keys.collect::<Result<_, _>>().unwrap(),
            ..Signing::default()
        }
    }

    fn record() -> Record {
        Record {
            topic: "tickwheel.mail.normal".to_owned(),
            create_topic: true,
            partition: Partition::ByKey,
            key: Some("k1".into()),
            value: "hello".into(),
            headers: vec![(HEADER.into(), "v1,forged".into())],
        }
    }

    fn delivered(record: Record) -> Delivery {
        Delivery {
            topic: record.topic,
            partition: 0,
            offset: 0,
            key: record.key,
            value: record.value,
            headers: record.headers,
        }
    }

    const OLD: &str = "an old key of thirty bytes....";
    const NEW: &str = "a new key of thirty bytes.....";

    /// The code is that of another implementation:
    /// `printf 'tickwheel.mail.normal\n2\nk1hello' | openssl dgst -sha256 -hmac '..' -binary | base64`.
    #[test]
    fn the_signature_is_as_documented() {
        let mut signed = record();
        sign(&signing(&[OLD]), &mut signed);
        let headers: Vec<_> = signed.headers.iter().collect();
        let [(name, value)] = headers.as_slice() else {
            panic!("{headers:?}");
        };
        assert_eq!(name, HEADER);
        assert_eq!(
            &value[..],
            b"v1,HynjlbUhdNO+j1buhBZUe6sSqrxJaz4G3dAFngOrBoQ="
        );
    }

    #[test]
    fn a_record_is_believed_unless_something_of_it_was_changed() {
        let mut signed = record();
        sign(&signing(&[NEW, OLD]), &mut signed);
        let whole = delivered(signed);
        for keys in [&[NEW][..], &[OLD, NEW]] {
            assert!(is_believed(&signing(keys), &whole));
        }
        assert!(!is_believed(&signing(&[OLD]), &whole), "another key");
        let changes: [fn(&mut Delivery); 6] = [
            |one| one.topic = "tickwheel.mail.high".to_owned(),
            |one| one.key = None,
            |one| one.key = Some("k1h".into()),
            |one| one.value = "hello!".into(),
            |one| one.headers.clear(),
            |one| one.headers = vec![(HEADER.into(), "v1,????".into())],
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut changed = whole.clone();
            change(&mut changed);
            assert!(!is_believed(&signing(&[NEW]), &changed), "change {number}");
            let signing = Signing {
                unsigned: Unsigned::Taken,
                ..signing(&[NEW])
            };
            assert!(is_believed(&signing, &changed), "not every node signs yet");
        }
    }

    #[test]
    fn without_keys_nothing_is_signed_and_all_is_believed() {
        let mut plain = record();
        sign(&Signing::default(), &mut plain);
        assert_eq!(plain, record());
        assert!(is_believed(&Signing::default(), &delivered(plain)));
    }
}
