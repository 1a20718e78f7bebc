//! The ping finds out for the publisher whether the brokers answer, by a question about a topic.

use std::sync::Arc;

use rdkafka::producer::Producer as _;

use super::{
    Limit, blocking,
    link::Refusal,
    metadata::{Answer, look_up},
    producers::Client,
    unavailable,
};
use crate::{limits, queue::Error, time_source::TimeSource};

/// Asks for a topic, which need not exist.
///
/// # Errors
/// [`Error::Unavailable`] when nobody answers, [`Error::Unsuitable`] when the brokers refuse the client for good.
pub(super) async fn ask(
    client: Arc<Client>,
    topic: String,
    time: &TimeSource,
) -> Result<(), Error> {
    let limit = Limit::new(time, limits::QUEUE_QUESTION_TIMEOUT);
    let asker = Arc::clone(&client);
    let answers = blocking(move || look_up(asker.client(), &[topic], &limit)).await;
    let answers = answers.map_err(|reason| unavailable("ask for its state", reason))?;
    let link = &client.context().link;
    let Some(Answer::Silent(reason)) = answers.into_values().next() else {
        link.forgive();
        link.answered();
        return Ok(());
    };
    link.failed(&reason);
    match link.refusal() {
        Some(Refusal { reason, is_final }) if is_final => Err(Error::Unsuitable { reason }),
        Some(Refusal { reason, .. }) => Err(unavailable("ask for its state", reason)),
        None => Err(unavailable("ask for its state", reason)),
    }
}
