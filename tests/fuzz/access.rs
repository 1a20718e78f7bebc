//! These targets damage what lets a caller in: the `authorization` header, the text of a key, and the records of keys and of
//! the audit.
//!
//! A damaged key may be read as another key, which no record has. The key that was damaged never passes.

use axum::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;
use tickwheel::{
    flow::base::records::api_keys::hash,
    http::access::given::{Given, given},
    model::{
        access::{ApiKey, KeyId, KeyText, Role, SECRET_BYTES},
        audit::Entry,
        limit::Rate,
    },
    schema::{decode_api_key, decode_audit, encode_api_key, encode_audit},
};

use super::{run::Target, samples::START};

/// Digits, signs and cases that a careless reader of numbers would take.
const WORDS: [&str; 18] = [
    "twk_",
    "twk_twk_",
    "TWK_",
    "_",
    "Bearer ",
    "bearer\t",
    "Basic ",
    "Digest ",
    ":",
    " ",
    "+",
    "-",
    "0x",
    "A",
    "0",
    "\u{e9}",
    "==",
    "\r\nauthorization: Bearer ",
];

fn target(name: &'static str, samples: Vec<Vec<u8>>) -> Target<'static> {
    Target {
        name,
        samples,
        words: &WORDS,
        bytes_max: (16 * 1024, 64),
        seconds: 2,
    }
}

fn text() -> KeyText {
    let mut secret = [0; SECRET_BYTES];
    for (at, byte) in secret.iter_mut().enumerate() {
        *byte = u8::try_from(at * 7 + 3).unwrap();
    }
    KeyText::new(KeyId(0x0123_4567_89ab_cdef), secret)
}

/// The key as the service keeps it.
fn kept() -> ApiKey {
    ApiKey {
        name: "shop".to_owned(),
        role: Role::Producer,
        callbacks: ["mail".to_owned(), "bill".to_owned()].into(),
        payloads: true,
        rate: Rate::new(5.0, Some(9)),
        created: START,
        expires: Some(START),
        hash: hash(&text()),
    }
}

/// Tells whether a text that was read is let in as the key that is kept.
fn passes(read: &KeyText) -> bool {
    read.id == text().id && kept().matches(&hash(read))
}

#[test]
fn texts_of_keys() {
    let whole = text().reveal();
    target("key_text", vec![whole.clone().into_bytes()]).run(|bytes| {
        let shown = String::from_utf8_lossy(bytes);
        let Some(read) = KeyText::read(&shown) else {
            return false;
        };
        // A key has one form, so what is read is what was sent.
        assert_eq!(read.reveal(), shown);
        assert_eq!(passes(&read), shown == whole);
        assert!(!format!("{read:?}").contains(&shown[21..]), "it is printed");
        true
    });
}

#[test]
fn authorization_headers() {
    let whole = text().reveal();
    let samples = [format!("Bearer {whole}"), format!("bearer   {whole} ")];
    let samples = samples.map(String::into_bytes).to_vec();
    target("authorization", samples).run(|bytes| {
        // Other bytes do not get through the HTTP library.
        let Ok(value) = HeaderValue::from_bytes(bytes) else {
            return false;
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.clone());
        let Given::Key(read) = given(&headers) else {
            assert_eq!(given(&headers), Given::Other);
            return false;
        };
        let sent = value.to_str().unwrap();
        let (scheme, rest) = sent.trim().split_once(' ').unwrap();
        assert!(scheme.eq_ignore_ascii_case("bearer"), "{sent}");
        let held = rest.trim();
        assert_eq!(read.reveal(), held);
        assert_eq!(passes(&read), held == whole);
        // A second header makes both worthless.
        headers.append(header::AUTHORIZATION, value);
        assert_eq!(given(&headers), Given::Other);
        true
    });
}

#[test]
fn records_of_api_keys() {
    let plain = ApiKey {
        callbacks: std::collections::BTreeSet::new(),
        rate: None,
        expires: None,
        role: Role::Admin,
        ..kept()
    };
    let samples = [kept(), plain].map(|key| encode_api_key(&key).to_vec());
    target("api_key", samples.to_vec()).run(|bytes| {
        let Ok(key) = decode_api_key(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_api_key(encode_api_key(&key)).as_ref(), Ok(&key));
        // The hash is whole, or the record is refused: a shorter one would be matched by more secrets.
        assert_eq!(key.matches(&hash(&text())), key.hash == hash(&text()));
        true
    });
}

#[test]
fn rows_of_the_audit() {
    let entry = Entry {
        key: text().id.to_string(),
        who: "ann".to_owned(),
        action: "revokeApiKey".to_owned(),
        target: "/v1/api-keys/0123456789abcdef".to_owned(),
        from: "127.0.0.1:4242".to_owned(),
        status: Some(204),
        code: String::new(),
        more: 0,
    };
    let begun = Entry {
        status: None,
        ..entry.clone()
    };
    let refused = Entry {
        status: Some(403),
        code: "access_denied".to_owned(),
        more: 41,
        ..entry.clone()
    };
    let samples = [entry, begun, refused].map(|entry| encode_audit(&entry).to_vec());
    target("audit", samples.to_vec()).run(|bytes| {
        let Ok(entry) = decode_audit(Bytes::copy_from_slice(bytes)) else {
            return false;
        };
        assert_eq!(decode_audit(encode_audit(&entry)), Ok(entry));
        true
    });
}
