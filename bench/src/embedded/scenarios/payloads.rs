//! The payloads scenario measures for the report how large contents without workers delay another callback.
//!
//! A stream runs alone, then beside contents that are all due at one second and that no worker takes. They are taken at the end.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;
use tickwheel::model::time::{Millis, rfc3339};

use super::{
    beside::{Part, soon, stream},
    parts::{PATIENCE, STEADY_LEAD, WARM_UP, read_back},
};
use crate::{
    embedded::{
        Setup,
        check::verdict,
        crew::{self, Pace, Shift},
        load::{self, Plan},
        meter::Meter,
        service::Host as _,
        wire::Items,
    },
    payload,
    report::Report,
};

const CALLBACK: &str = "bench-contents";
/// MiB that the service may take.
const MEMORY_AIM: f64 = 600.0;
/// The slowest registration that is waited for, bytes a second.
const REGISTERED_MIN: u64 = 20_000_000;

/// Measures the stream alone, then beside contents.
pub(in crate::embedded) async fn payloads(
    setup: &Setup,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (contents, bytes) = (setup.sizes.contents, setup.sizes.content_bytes);
    report.note(format!("payloads: {contents} of {bytes} bytes"));
    let service = setup.start().await?;
    let span = Duration::from_secs(setup.seconds);
    let at = soon(&service.time, STEADY_LEAD + WARM_UP);
    let alone = Part::of("alone", stream(&service, at, span).await?, at, report)?;
    let lead = Duration::from_secs(15 + contents * bytes / REGISTERED_MIN);
    let at = soon(&service.time, lead);
    let plan = Plan {
        tasks: contents,
        batch: 1,
        connections: 4,
        interval: None,
        keep_every: 1,
    };
    let loaded = load::register_as(&service, plan, items(bytes), move |_| at, |_| Ok(())).await?;
    let begins = at.before(STEADY_LEAD + WARM_UP);
    ensure!(service.time.now() < begins, "not registered in time");
    let rate = contents as f64 / loaded.took.as_secs_f64();
    report.figure(
        "payloads: registered, one a request".to_owned(),
        rate,
        "tasks/s",
    );
    service.time.sleep_until_wall(begins).await;
    let meter = Meter::start(&service)?;
    let beside = Part::of(
        "beside contents",
        stream(&service, at, span).await?,
        at,
        report,
    )?;
    meter.stop(&service, contents)?.report("payloads", report);
    beside.compare(&alone, "payloads", 1, report);
    let mut shift = Shift::new(contents, PATIENCE * 2);
    shift.callback = CALLBACK;
    shift.pace = Pace {
        pollers: 3,
        tasks_max: 8,
        pause: Duration::ZERO,
    };
    let seen = crew::work_shift(service.address, service.time.clone(), shift).await?;
    read_back(&service, &loaded.registered, "succeeded").await?;
    let verdict = verdict(loaded.registered, seen.arrivals, Millis(0))?;
    let case = "payloads: contents, due to worker, the time without workers included";
    report.times(case.to_owned(), &verdict.lateness, verdict.check);
    let peak = service.usage()?.peak_mib as f64;
    report.aimed("payloads: most memory".to_owned(), peak, "MiB", MEMORY_AIM);
    setup.end(service, report)
}

/// Writes tasks whose contents have so many bytes.
fn items(bytes: u64) -> impl Items {
    // Random letters, as in every payload, one after the other.
    let mut note = String::new();
    while (note.len() as u64) < bytes.saturating_sub(40) {
        let one = payload::next();
        note.extend(one.chars().filter(char::is_ascii_alphanumeric));
    }
    note.truncate(usize::try_from(bytes.saturating_sub(40)).unwrap_or(usize::MAX));
    let note: Arc<str> = note.into();
    move |body: &mut String, index: u64, start: Millis| {
        let start = rfc3339(start);
        body.push_str(&format!(
            r#"{{"callback":"{CALLBACK}","start_time":"{start}","heartbeat_timeout":"10m","payload":{{"job":"{index:020}","note":"{note}"}}}}"#
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_json_of_its_size() {
        let mut body = String::new();
        items(1000).push(&mut body, 3, Millis(0));
        let task: serde_json::Value = serde_json::from_str(&body).unwrap();
        let size = task["payload"].to_string().len();
        assert!((990..=1010).contains(&size), "{size}");
    }
}
