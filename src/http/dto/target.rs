//! Targets on the wire: a callback in short or long form, a Kafka record.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, de, de::value::MapAccessDeserializer};
use utoipa::ToSchema;

use super::object::{Object, texts};

/// A callback: its name, or an object with its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum CallbackTarget {
    /// `"send_email"`.
    Name(String),
    /// `{"name": "send_email"}`.
    Object(CallbackObject),
}

/// A callback in long form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallbackObject {
    /// The callback's name: letters, digits, `.`, `_` and `-`.
    #[schema(max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    pub name: String,
}

impl CallbackTarget {
    /// Returns the callback's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Object(CallbackObject { name }) => name,
        }
    }
}

impl<'de> Deserialize<'de> for CallbackTarget {
    // By hand: an untagged enum would forget where in the request a mistake is.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = CallbackTarget;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#"a callback's name or {"name": ...}"#)
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(CallbackTarget::Name(name.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                CallbackObject::deserialize(MapAccessDeserializer::new(map))
                    .map(CallbackTarget::Object)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A record for any Kafka topic; its value is the task's payload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaTarget {
    /// The topic; it must exist at the start time.
    #[schema(max_length = 128, pattern = "^[A-Za-z0-9._-]+$")]
    pub topic: String,
    /// The record's key as text. Neither this nor `key_base64`: a record without key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The record's key as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// The record's headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<KafkaHeaders>,
    /// The partition; chosen by the key when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub partition: Option<i32>,
}

/// Headers of a record: an object of texts, or a list when the order, repetition or bytes matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum KafkaHeaders {
    /// `{"name": "value"}`.
    Object(BTreeMap<String, String>),
    /// `[{"name": "n", "value": "v"}, {"name": "n", "value_base64": "dg=="}]`.
    List(Vec<KafkaHeader>),
}

/// One header of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaHeader {
    /// Its name.
    pub name: String,
    /// Its value as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value as base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
}

impl<'de> Deserialize<'de> for KafkaHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = KafkaHeaders;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#"an object of texts or a list of {"name", "value"}"#)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                texts(map).map(KafkaHeaders::Object)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut headers = Vec::new();
                while let Some(Object(header)) = seq.next_element()? {
                    headers.push(header);
                }
                Ok(KafkaHeaders::List(headers))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
