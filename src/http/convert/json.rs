//! The strict JSON reader tells the author of a request where it is wrong, and what is wrong.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed},
};
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};

use super::violations::unknown;
use crate::{
    api::{object::Object, text::shorten},
    http::error::{Code, Error},
    limits::{BATCH_ITEMS_MAX, JSON_DEPTH_MAX},
};

/// Reads one JSON document, an object, as a value of `T`.
///
/// # Errors
/// A description of the mistake with its place: line and column where it is not JSON, the pointer where a
/// value has another type.
pub fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let Object(value) = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (inner, path) = (error.inner(), error.path());
        mistyped(text, inner, path).unwrap_or_else(|| explain(inner, Some(path)))
    })?;
    reader.end().map_err(|error| explain(&error, None))?;
    Ok(value)
}

/// Reads an item of a batch, so that its mistakes are its own.
///
/// # Errors
/// As [`read`]; places are relative to the item.
pub(in crate::http) fn read_item<T: DeserializeOwned>(item: &RawValue) -> Result<T, Error> {
    read(item.get())
}

/// Reads an item of a batch that is a text.
///
/// # Errors
/// As [`read_item`].
pub(in crate::http) fn read_text_item(item: &RawValue) -> Result<String, Error> {
    serde_json::from_str(item.get()).map_err(|error| explain(&error, None))
}

/// Makes sure that every reader can read this value: its depth is bounded, its text is Unicode, its numbers
/// fit a double.
///
/// # Errors
/// A text that says why it cannot be read.
pub fn readable(value: &RawValue) -> Result<Bytes, String> {
    let mut reader = serde_json::Deserializer::from_str(value.get());
    Depth(JSON_DEPTH_MAX)
        .deserialize(&mut reader)
        .map_err(|error| format!("cannot be read by every JSON parser: {}", message(&error)))?;
    Ok(Bytes::copy_from_slice(value.get().as_bytes()))
}

/// The items of a batch, not yet read; never more than [`BATCH_ITEMS_MAX`].
#[derive(Debug)]
pub(in crate::http) struct Items<'a>(pub Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {BATCH_ITEMS_MAX} items")
            }

            // Stops at the bound: a body of megabytes can hold millions of tiny items.
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    if items.len() == BATCH_ITEMS_MAX {
                        return Err(de::Error::custom(format!(
                            "more than {BATCH_ITEMS_MAX} items; send them in several requests"
                        )));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer
            .deserialize_seq(Visitor)
            .map(|items| Self(items.0))
    }
}

/// Explains a value of the wrong type where the parser expects the name of a variant and does not name the
/// type.
fn mistyped(text: &str, error: &serde_json::Error, path: &Path) -> Option<Error> {
    let pointer = pointer(path);
    let is_json = || serde_json::from_str::<&RawValue>(text).is_ok();
    (!error.is_data() && message(error) == "expected value" && !pointer.is_empty() && is_json())
        .then(|| Error::field(Code::InvalidRequest, pointer, "expected a text in quotes"))
}

fn explain(error: &serde_json::Error, path: Option<&Path>) -> Error {
    let pointer = path.map(pointer).unwrap_or_default();
    if !error.is_data() {
        let place = format!("line {}, column {}", error.line(), error.column());
        let detail = format!("{} at {place}", message(error));
        return if pointer.is_empty() {
            Error::new(Code::MalformedJson, detail)
        } else {
            Error::field(Code::MalformedJson, pointer, detail)
        };
    }
    let text = message(error);
    if let Some(field) = duplicate_field(&text) {
        let detail = format!("`{}` is given twice: give it once", shorten(field));
        return Error::field(
            Code::InvalidRequest,
            format!("{pointer}/{}", escape(field)),
            detail,
        );
    }
    let detail = unknown_field(&text)
        .or_else(|| unknown_variant(&text))
        .unwrap_or_else(|| shorten(&in_words_of_json(&text)));
    Error::field(Code::InvalidRequest, pointer, detail)
}

fn duplicate_field(message: &str) -> Option<&str> {
    message.strip_prefix("duplicate field `")?.strip_suffix('`')
}

/// Rewrites serde's "unknown variant `x`, expected one of `a`, `b`" to name the value that was probably meant.
fn unknown_variant(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown variant `")?;
    let (value, known) = rest.rsplit_once("`, expected ")?;
    let names: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    Some(unknown("value", value, &names))
}

/// Rewrites the types that serde names as Rust does.
fn in_words_of_json(message: &str) -> String {
    const WORDS: [(&str, &str); 11] = [
        ("u8", "a whole number from 0 to 255"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number that is not negative"),
        ("usize", "a whole number that is not negative"),
        ("i32", "a whole number"),
        ("i64", "a whole number"),
        ("f64", "a number"),
        ("a map", "an object"),
        ("a sequence", "a list"),
        ("unit", "null"),
    ];
    let Some((found, wanted)) = message.rsplit_once("expected ") else {
        return message.to_owned();
    };
    let known = WORDS.iter().find(|(rust, _)| *rust == wanted);
    known.map_or_else(
        || message.to_owned(),
        |(_, json)| format!("{found}expected {json}"),
    )
}

/// Returns the message without the place: inside a batch it would be the place within the item.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// Rewrites serde's "unknown field `x`, expected one of `a`, `b`" to name the one that was probably meant.
fn unknown_field(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field `")?;
    let (field, known) = rest
        .rsplit_once("`, expected ")
        .or_else(|| rest.rsplit_once("`, there are no fields"))?;
    let names: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    Some(unknown("field", field, &names))
}

/// Writes a path as a JSON pointer (RFC 6901).
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        let token = match segment {
            Segment::Seq { index } => Cow::Owned(index.to_string()),
            Segment::Map { key } => Cow::Owned(escape(key)),
            // Not part of the document.
            Segment::Enum { .. } | Segment::Unknown => continue,
        };
        pointer.push('/');
        pointer.push_str(&token);
    }
    pointer
}

/// Escapes one token of a JSON pointer.
pub(in crate::http) fn escape(token: &str) -> String {
    shorten(token).replace('~', "~0").replace('/', "~1")
}

/// Walks through a value without keeping anything of it; the number is how much deeper it may go.
struct Depth(usize);

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Depth {
    fn deeper<E: de::Error>(&self) -> Result<usize, E> {
        self.0
            .checked_sub(1)
            .ok_or_else(|| E::custom(format!("nested deeper than {JSON_DEPTH_MAX} levels")))
    }
}

impl<'de> de::Visitor<'de> for Depth {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let depth = self.deeper()?;
        while seq.next_element_seed(Depth(depth))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let depth = self.deeper()?;
        while map.next_key_seed(Depth(depth))?.is_some() {
            map.next_value_seed(Depth(depth))?;
        }
        Ok(())
    }
}
