//! The schema converts the messages of `schemas/tickwheel.proto` to and from the domain for stores and queues.
//!
//! The types that stores and queues keep are generated from the schema; the service itself uses [`crate::model`]. The two
//! are separate types and every conversion goes through this module, so that bytes from outside are checked once, here.

mod action;
mod api_key;
mod callback;
mod callback_share;
mod chain;
mod content;
mod dead_letter;
mod epoch;
mod family;
mod held;
mod holder;
mod http_call;
mod job;
mod join;
mod kin;
mod limit;
mod messages;
mod notify;
mod ordering;
mod request;
mod schedule;
mod short;
pub mod sort_key;
mod spec;
mod table;

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::indexing_slicing)]
/// Generated messages.
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/tickwheel.v1.rs"));
}

use std::sync::Arc;

use crate::{
    limits,
    model::task::{Body, Spec},
};

pub use action::actions_bytes;
pub use api_key::{
    ApiKeyChange, decode_api_key, decode_api_key_change, decode_audit, encode_api_key,
    encode_api_key_change, encode_audit,
};
pub use callback::{decode_callback, encode_callback, policy_bytes};
pub use callback_share::{decode_callback_share, encode_callback_share};
pub use content::{content_bytes, decode_content, encode_content};
pub use dead_letter::{LetterValue, decode_letter, encode_letter};
pub use epoch::{decode_epoch, encode_epoch};
pub use family::{
    ChildRow, Opened, children_partition, decode_child, decode_family, encode_added, encode_family,
    encode_opened, encode_outcome,
};
pub use held::{decode_held, encode_held, held_partition};
pub use holder::{decode_holder, encode_holder, holder_from_message, holder_to_message};
pub use job::{decode_job, encode_job};
pub use join::{
    DependencyRow, decode_dependency, decode_join_sort, decode_marks, encode_dependency,
    encode_marks, join_partition,
};
pub use kin::{rounds_from_message, rounds_to_message, tree_end_from_message, tree_end_to_message};
pub use limit::{decode_pool, encode_pool};
pub use messages::{decode_messages, encode_messages};
pub use ordering::{
    decode_member, decode_turn, encode_bound, encode_member, encode_rank, encode_turn,
    members_partition,
};
pub use request::{Request, decode_request, encode_request};
pub use schedule::{
    decode_run, decode_schedule, encode_run, encode_schedule, schedule_bytes, template_bytes,
};
pub use spec::{
    decode_spec, encode_short, encode_spec, follow_ups_bytes, in_tree_bytes, spec_from_message,
    spec_to_message, spec_to_message_with, spec_to_short_message,
};

/// Why bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not a message of the schema at all.
    #[error("not a protobuf message of this schema: {0}")]
    Encoding(String),
    /// A field that must be there is not.
    #[error("field {0} is missing")]
    Missing(&'static str),
    /// A field has a value that cannot be.
    #[error("field {0} is out of range")]
    OutOfRange(&'static str),
}

impl From<prost::DecodeError> for Malformed {
    fn from(error: prost::DecodeError) -> Self {
        Self::Encoding(error.to_string())
    }
}

/// Returns the spec as entries and rows keep it: with its content inside only if that is small.
///
/// A spec that came in a message has its content inside, whatever its size.
#[must_use]
pub fn without_large_content(spec: &Arc<Spec>) -> Arc<Spec> {
    let Some(content) = spec.content() else {
        return Arc::clone(spec);
    };
    let bytes = content_bytes(content);
    if bytes <= limits::INLINE_BYTES_MAX {
        return Arc::clone(spec);
    }
    Arc::new(Spec {
        body: Body::Apart {
            bytes: bytes as u64,
        },
        ..Spec::clone(spec)
    })
}
