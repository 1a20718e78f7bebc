//! This look tells an operator whether the brokers of Kafka answer and keep the topics of the service as they should.

use super::{conditions, settings};
use crate::{
    cli::{
        Failure,
        finding::{Finding, bad, good},
    },
    config::Settings,
    queue::{
        Error, Publisher as _,
        kafka::{self, KafkaPublisher},
    },
    time_source::TimeSource,
};

/// Looks at the queue.
pub(in crate::cli) async fn look_at_queue(
    settings: &Settings,
    time: &TimeSource,
) -> Result<Vec<Finding>, Failure> {
    const ABOUT: &str = "queue";
    let queue = KafkaPublisher::connect(settings::kafka(settings)?, time.clone())?;
    match queue.ping().await {
        Ok(()) => {}
        Err(error @ Error::Unsuitable { .. }) => return Ok(vec![bad(ABOUT, error.to_string())]),
        Err(error @ Error::Unavailable { .. }) => {
            let text = format!("{error}: is --kafka right, does the broker run?");
            return Ok(vec![bad(ABOUT, text)]);
        }
    }
    let mut findings = vec![good(ABOUT, format!("{} answers", settings.kafka.join(",")))];
    match kafka::conditions::ask(&settings::kafka(settings)?).await {
        Ok(found) => findings.extend(conditions::of_queue(&found)),
        Err(error) => findings.push(bad("topics", error.to_string())),
    }
    Ok(findings)
}
