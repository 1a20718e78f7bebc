//! The types of targets carry callbacks, in short or long form, and Kafka records between clients and
//! service.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, de, de::value::MapAccessDeserializer};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{
    object::{Object, texts},
    text::DurationText,
};
use crate::model::http_call::CALLBACK_PREFIX;

/// A callback: its name, or an object with its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(untagged)]
#[non_exhaustive]
pub enum CallbackTarget {
    /// `"send_email"`.
    Name(String),
    /// `{"name": "send_email"}`.
    Object(CallbackObject),
}

/// A callback in long form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CallbackObject {
    /// The callback's name: letters, digits, `.`, `_` and `-`.
    #[cfg_attr(
        feature = "server",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._-]+$")
    )]
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
    // Written by hand, because an untagged enum would lose the place of a mistake in the request.
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct KafkaTarget {
    /// The topic; it must exist at the start time.
    #[cfg_attr(
        feature = "server",
        schema(max_length = 128, pattern = "^[A-Za-z0-9._-]+$")
    )]
    pub topic: String,
    /// The record's key as text. Without this and `key_base64`, the record has no key.
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
    #[cfg_attr(feature = "server", schema(minimum = 0))]
    pub partition: Option<i32>,
}

/// Headers of a record: an object of texts, or a list when order, repetition or bytes matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(untagged)]
#[non_exhaustive]
pub enum KafkaHeaders {
    /// `{"name": "value"}`.
    Object(BTreeMap<String, String>),
    /// `[{"name": "n", "value": "v"}, {"name": "n", "value_base64": "dg=="}]`.
    List(Vec<KafkaHeader>),
}

/// A request over HTTP, which the service sends itself. The task's payload is its body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// Where: `http` or `https`, without a user.
    #[cfg_attr(feature = "server", schema(max_length = 2048))]
    pub url: String,
    /// `POST` (the default), `PUT`, `PATCH`, `DELETE` or `GET`, which sends no payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers beside those of the service. Values that are credentials read back as `***`, but for operators in the full view.
    #[serde(
        default,
        deserialize_with = "super::object::optional_texts",
        skip_serializing_if = "Option::is_none"
    )]
    pub headers: Option<BTreeMap<String, String>>,
    /// How long an attempt may take, to the end of the answer; 15 s by default, at most 60 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
}

/// The target of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum TargetResponse {
    /// To a callback.
    #[cfg_attr(feature = "server", schema(title = "CallbackTargetResponse"))]
    Callback {
        /// Its name.
        name: String,
    },
    /// To a URL.
    #[cfg_attr(feature = "server", schema(title = "HttpTargetResponse"))]
    Http {
        /// The callback whose rules the task has.
        callback: String,
        /// Where.
        url: String,
        /// How.
        method: String,
        /// Headers beside those of the service.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
        /// How long an attempt may take, where that was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout: Option<DurationText>,
        /// The id under which the receiver knows the message, where that is not the id of the task: it is delivered again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    /// To a topic.
    #[cfg_attr(feature = "server", schema(title = "KafkaTargetResponse"))]
    Kafka {
        /// The topic.
        topic: String,
        /// The partition, when it was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition: Option<i32>,
        /// The record's key, when it is text; view=FULL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// The record's key, when it is not text; view=FULL.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_base64: Option<String>,
        /// The record's headers in order; view=FULL.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<KafkaHeader>,
    },
}

impl TargetResponse {
    /// Tells whether workers claim the task.
    #[must_use]
    pub const fn is_tracked(&self) -> bool {
        match self {
            Self::Callback { .. } | Self::Http { .. } => true,
            Self::Kafka { .. } => false,
        }
    }

    /// Returns the fields of a request that would register a task with this target.
    #[must_use]
    pub fn into_fields(
        self,
    ) -> (
        Option<CallbackTarget>,
        Option<KafkaTarget>,
        Option<HttpTarget>,
    ) {
        match self {
            Self::Callback { name } => (Some(CallbackTarget::Name(name)), None, None),
            Self::Http {
                callback,
                url,
                method,
                headers,
                timeout,
                // Of the service: a registration makes a new message.
                message_id: _,
            } => {
                let call = HttpTarget {
                    url,
                    method: Some(method),
                    headers: (!headers.is_empty()).then_some(headers),
                    timeout,
                };
                // The service makes such a name itself.
                let own = callback.starts_with(CALLBACK_PREFIX);
                let callback = (!own).then_some(CallbackTarget::Name(callback));
                (callback, None, Some(call))
            }
            Self::Kafka {
                topic,
                partition,
                key,
                key_base64,
                headers,
            } => {
                let headers = (!headers.is_empty()).then_some(KafkaHeaders::List(headers));
                let target = KafkaTarget {
                    topic,
                    key,
                    key_base64,
                    headers,
                    partition,
                };
                (None, Some(target), None)
            }
        }
    }
}

impl fmt::Display for TargetResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Callback { name } => write!(f, "callback {name}"),
            Self::Http { url, .. } => write!(f, "url {url}"),
            Self::Kafka { topic, .. } => write!(f, "topic {topic}"),
        }
    }
}

/// One header of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
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
