//! The dispatcher makes the record of a due task for the sender: the one place in the flow that knows the kinds
//! of targets.

use crate::{
    model::{
        dispatch::Dispatch,
        http_call,
        target::Target,
        task::{Content, Spec},
        time::Millis,
    },
    queue::{
        Record,
        message::{self, Outgoing, TimeTexts},
    },
};

/// Makes the record that hands a task over at `now`.
#[must_use]
pub fn record(
    dispatch: &Dispatch,
    spec: &Spec,
    content: &Content,
    now: Millis,
    times: &mut TimeTexts,
) -> Record {
    match &spec.target {
        Target::Callback { .. } | Target::Http { .. } => {
            message(dispatch, spec, Some(content), now, times)
        }
        Target::Kafka { topic, partition } => {
            let place = (topic.as_str(), *partition);
            message::user_record(dispatch.id, dispatch.start, place, content, times)
        }
    }
}

/// Makes the message that hands a task of a worker over at `now`; without a content, which stays in the store then.
#[must_use]
pub fn message(
    dispatch: &Dispatch,
    spec: &Spec,
    content: Option<&Content>,
    now: Millis,
    times: &mut TimeTexts,
) -> Record {
    let message = Outgoing {
        dispatch: *dispatch,
        published: now,
        spec,
        content,
    };
    message.to_record(spec.queue().unwrap_or(http_call::QUEUE), times)
}
