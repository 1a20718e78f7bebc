//! Runs of schedules that were decided on before the process died, or before its clock leapt, and whose time was missed then.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::time_off::Site;

const EVERY: Duration = Duration::from_secs(5);

/// A time that passed longer ago was missed.
const MISSED_AFTER: Duration = Duration::from_secs(30);

/// A loaded machine may need this long until it has decided.
const SETTLED: Duration = Duration::from_secs(10);

impl Site {
    /// The time of the server whose clock is so far ahead.
    fn now(&self, ahead: Duration) -> Timestamp {
        Timestamp::from_millisecond(self.time.now().0).expect("a time") + ahead
    }

    async fn schedule(&self, missed: &str, every: Duration) {
        let body = json!({
            "every": format!("{}s", every.as_secs()), "overlap": "allow", "missed": missed,
            "task": {"callback": "work"},
        });
        let put = reqwest::Client::new().put(self.schedule_url()).json(&body);
        let answer = put.send().await.expect("an answer");
        assert_eq!(answer.status(), 201);
    }

    fn schedule_url(&self) -> String {
        format!("{}/v1/schedules/ping", self.url())
    }

    async fn missed(&self) -> u64 {
        let answer = reqwest::get(self.schedule_url()).await;
        let schedule: Value = answer.expect("an answer").json().await.expect("a schedule");
        schedule["runs_missed"].as_u64().expect("a number")
    }

    /// Takes runs for a while, and returns the times that they stand for.
    async fn runs(&self, during: Duration) -> BTreeSet<Timestamp> {
        let (mut times, until) = (BTreeSet::new(), self.time.moment().after(during));
        while self.time.moment() < until {
            let came = self.poll("1s").await;
            self.settle(&came).await;
            times.extend(came.iter().map(|task| {
                let time = task["scheduled_time"].as_str().expect("a run");
                time.parse::<Timestamp>().expect("a time")
            }));
        }
        times
    }
}

/// Both decide on the times that nobody has decided on as well: one of them runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_an_outage_are_not_made_up_for_where_that_is_set() {
    for (missed, off) in [("skip", 75), ("latest", 600)] {
        let off = Duration::from_secs(off);
        let mut site = Site::start().await;
        site.schedule(missed, EVERY).await;
        assert!(!site.runs(EVERY * 2).await.is_empty());
        let killed = site.now(Duration::ZERO);
        site.is_off_for(off).await;
        let back = site.now(off);
        let runs = site.runs(SETTLED).await;
        let late = |time: &&Timestamp| **time > killed && **time < back - MISSED_AFTER;
        assert_eq!(
            runs.iter().filter(late).count(),
            0,
            "{missed}: {runs:?}, back {back}"
        );
        assert!(
            runs.iter().any(|time| *time >= back - EVERY),
            "{missed}: {runs:?}"
        );
        let surely = (off - MISSED_AFTER - SETTLED).as_secs() / EVERY.as_secs();
        let counted = site.missed().await;
        assert!(counted >= surely, "{missed}: {counted} of {surely}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_run_goes_out_where_the_clock_leaps_over_hours() {
    let leap = Duration::from_secs(2 * 3600);
    let site = Site::start().await;
    site.schedule("latest", Duration::from_secs(1)).await;
    assert!(!site.runs(EVERY).await.is_empty());
    let before = site.now(Duration::ZERO);
    site.set_clock(leap);
    let leapt = site.now(leap);
    let runs = site.runs(SETTLED).await;
    // Those of the moments around the leap are in time.
    let moment = Duration::from_secs(2);
    let late = |time: &&Timestamp| **time > before + moment && **time < leapt - moment;
    assert_eq!(
        runs.iter().filter(late).count(),
        0,
        "{runs:?}, {before} to {leapt}"
    );
    assert!(runs.iter().any(|time| *time >= leapt), "{runs:?}");
    let counted = site.missed().await;
    assert!(counted >= 7200 - 2 * moment.as_secs(), "{counted}");
}
