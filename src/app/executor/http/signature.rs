//! The signature proves to receivers that a delivery is the service's and was not changed: Standard Webhooks, version 1
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).
//!
//! Each secret gives one signature, so that a secret can be replaced while both sides know the old one and the new one.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use crate::model::http_call::Secret;

/// Before the base64 of a secret.
const SECRET_PREFIX: &str = "whsec_";

/// Returns the value of the header `webhook-signature`; none without a secret. A secret that cannot be read is passed over:
/// it was checked when it was set.
pub(super) fn signature(
    secrets: &[Secret],
    (id, timestamp): (&str, i64),
    body: &[u8],
) -> Option<String> {
    let signed = secrets.iter().filter_map(|secret| {
        let key = STANDARD
            .decode(secret.text().strip_prefix(SECRET_PREFIX)?)
            .ok()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        Some(format!(
            "v1,{}",
            STANDARD.encode(mac.finalize().into_bytes())
        ))
    });
    let signed: Vec<String> = signed.collect();
    (!signed.is_empty()).then(|| signed.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    /// The vectors that the authors of the standard publish with their libraries and their page.
    #[test]
    fn the_published_vectors_are_signed_as_published() {
        let first = signature(
            &[secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
            ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330),
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(
            first.as_deref(),
            Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        );
        let second = signature(
            &[secret("whsec_plJ3nmyCDGBKInavdOK15jsl")],
            ("msg_loFOjxBNrRLzqYUf", 1_731_705_121),
            br#"{"event_type":"ping","data":{"success":true}}"#,
        );
        assert_eq!(
            second.as_deref(),
            Some("v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=")
        );
    }

    #[test]
    fn two_secrets_give_two_signatures_and_none_gives_none() {
        let one = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let two = secret("whsec_plJ3nmyCDGBKInavdOK15jsl");
        let sign = |secrets: &[Secret]| signature(secrets, ("id", 7), b"x");
        let both = sign(&[one.clone(), two.clone()]).unwrap();
        let each = [sign(&[one]).unwrap(), sign(&[two]).unwrap()];
        assert_eq!(both, each.join(" "));
        assert_eq!(sign(&[]), None);
        assert_eq!(sign(&[secret("plain")]), None);
    }
}
