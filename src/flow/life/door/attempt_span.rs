//! The span of an attempt tells operators, in the trace of its registration, when it was claimed, how it ended, and why.
//!
//! It is made when the attempt has ended, by the node that has written so, from the row alone. So it needs no memory while the
//! attempt runs, and no node is asked that may be gone by then.

use std::time::{Duration, SystemTime};

use opentelemetry::{
    KeyValue,
    trace::{Span as _, SpanKind, Status, Tracer as _},
};

use crate::{
    model::{
        attempts,
        history::{Attempt, Ending},
        state::{State, TaskRow},
        time::Millis,
    },
    telemetry::traces,
};

/// Makes the span of the attempt that a transition has ended, if it has ended one.
pub(super) fn note(before: Option<&TaskRow>, after: &TaskRow) {
    if !traces::is_on() {
        return;
    }
    let Some(before) = before.filter(|row| row.state == State::Claimed) else {
        return;
    };
    if after.state == State::Claimed && after.attempt == before.attempt {
        return;
    }
    let ended = attempts::shown(after).attempts.into_iter().rev();
    let ended = ended
        .into_iter()
        .find(|attempt| attempt.attempt == before.attempt);
    if let Some(ended) = ended {
        tell(before, &ended);
    }
}

fn tell(row: &TaskRow, attempt: &Attempt) {
    let spec = &row.detail.spec;
    let parent = spec
        .content()
        .and_then(|content| content.trace_parent.as_deref());
    let callback = spec.callback().unwrap_or_default();
    let ending = attempt.ending.map_or("unknown", Ending::name);
    let mut attributes = vec![
        KeyValue::new("tickwheel.task.id", row.id.to_string()),
        KeyValue::new("tickwheel.callback", callback.to_owned()),
        KeyValue::new("tickwheel.attempt", i64::from(attempt.attempt)),
        KeyValue::new("tickwheel.worker", attempt.worker.clone()),
        KeyValue::new("tickwheel.outcome", ending),
    ];
    if let Some(claimed) = attempt.claimed {
        let lag = claimed.since(row.detail.start).as_secs_f64();
        attributes.push(KeyValue::new("tickwheel.claim_lag_seconds", lag));
    }
    let tracer = traces::tracer();
    let mut builder = tracer
        .span_builder(format!("attempt {callback}"))
        .with_kind(SpanKind::Consumer)
        .with_attributes(attributes);
    if let Some(claimed) = attempt.claimed {
        builder = builder.with_start_time(at(claimed));
    }
    let mut span = tracer.build_with_context(builder, &traces::context(parent));
    let is_error = matches!(
        attempt.ending,
        Some(Ending::Retry | Ending::Failed | Ending::Lost | Ending::TimedOut)
    );
    if is_error {
        let error = attempt.error.clone().unwrap_or_else(|| ending.to_owned());
        span.set_status(Status::error(error));
    }
    match attempt.ended {
        Some(ended) => span.end_with_timestamp(at(ended)),
        None => span.end(),
    }
}

fn at(time: Millis) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(time.0).unwrap_or_default())
}
