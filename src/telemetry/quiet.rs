//! The quiet filter limits the log lines of drivers for readers of the log: a repeated line appears once a
//! minute.
//!
//! The driver of Cassandra tries to connect several times a second and reports each failure. The service logs
//! once what it waits for; the lines of the driver are kept as the detail behind it. The exporter of traces reports each batch
//! that a collector did not take.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tracing::{Event, Metadata, Subscriber, callsite::Identifier, subscriber::Interest};
use tracing_subscriber::layer::{Context, Filter};

use crate::time_source::{Moment, TimeSource};

/// Least time between two lines of the same place in a driver.
const PAUSE: Duration = Duration::from_secs(60);

/// Modules whose lines are limited, with everything in them.
const DRIVERS: [&str; 3] = ["opentelemetry-otlp", "opentelemetry_sdk", "scylla"];

/// Lets a line of a driver through when its place has been silent for [`PAUSE`], and every line of others.
///
/// Its memory is bounded by the number of places in the drivers that log.
#[derive(Debug)]
pub(super) struct Quiet {
    time: TimeSource,
    said: Mutex<HashMap<Identifier, Moment>>,
}

impl Quiet {
    pub(super) fn new(time: TimeSource) -> Self {
        Self {
            time,
            said: Mutex::default(),
        }
    }

    fn may_say(&self, metadata: &Metadata<'_>) -> bool {
        if !is_of_driver(metadata) {
            return true;
        }
        let now = self.time.moment();
        let mut said = self.said.lock();
        let silent = said
            .get(&metadata.callsite())
            .is_none_or(|last| now.since(*last) >= PAUSE);
        if silent {
            said.insert(metadata.callsite(), now);
        }
        silent
    }
}

fn is_of_driver(metadata: &Metadata<'_>) -> bool {
    DRIVERS.iter().any(|driver| {
        let rest = metadata.target().strip_prefix(driver);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    })
}

impl<S: Subscriber> Filter<S> for Quiet {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_of_driver(metadata) {
            Interest::sometimes()
        } else {
            Interest::always()
        }
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.may_say(event.metadata())
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, sync::Arc};

    use tracing_subscriber::{Layer as _, fmt, prelude::*};

    use super::*;
    use crate::model::time::Millis;

    #[derive(Debug, Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, some: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend(some);
            Ok(some.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_driver_that_repeats_itself_is_heard_once_a_minute() {
        let (lines, time) = (Lines::default(), TimeSource::simulated(Millis(0), 1));
        let writer = lines.clone();
        let layer = fmt::layer()
            .with_writer(move || writer.clone())
            .with_filter(Quiet::new(time.clone()));
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
        for step in 0..121 {
            for _ in 0..4 {
                tracing::warn!(target: "scylla::network", step, "cannot connect");
            }
            tracing::warn!(target: "scyllax", step, "another crate");
            tracing::warn!(step, "one of ours");
            time.sleep(Duration::from_secs(1)).await;
        }
        drop(guard);
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        assert_eq!(text.matches("cannot connect").count(), 3, "{text}");
        assert_eq!(text.matches("another crate").count(), 121);
        assert_eq!(text.matches("one of ours").count(), 121);
    }
}
