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
    let message = Outgoing {
        dispatch: *dispatch,
        published: now,
        spec,
        content,
    };
    match &spec.target {
        Target::Callback { name } => message.to_record(name, times),
        Target::Http { .. } => message.to_record(http_call::QUEUE, times),
        Target::Kafka { topic, partition } => {
            let place = (topic.as_str(), *partition);
            message::user_record(dispatch.id, dispatch.start, place, content, times)
        }
    }
}
