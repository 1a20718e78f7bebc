//! The rates part checks for the report that callbacks with limits are claimed as often as they may be, on one node or several.
//!
//! Each callback has a rate of its own and more due tasks than it lets through. Workers of all nodes ask for all callbacks at
//! once. The time of a claim is computed from its end, so it is that of the node. In any ten seconds at most eleven times the
//! rate, and the burst, may be claimed: more fails the run. In the end the limits are lifted, and every task must have come.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    time::Duration,
};

use anyhow::Context as _;
use futures_util::future::try_join_all;
use tickwheel::{
    api::{poll::PollResponse, time::instant},
    model::time::Millis,
    time_source::Moment,
};
use uuid::Uuid;

use super::{
    check::{Arrival, Registered, verdict},
    flat,
    http::{Connection, Door},
    service::Host,
    wire::{self, Attempt},
};
use crate::{payload, report::Report};

/// The stretch of time in which a rate is held.
const WINDOW_MS: i64 = 10_000;
/// Time in which every node has heard of a limit, and a reserve.
const HEARD: Duration = Duration::from_secs(3);
/// Pollers at each node.
const POLLERS: usize = 4;
/// Tasks of a poll.
const TASKS_MAX: usize = 50;
/// How long an attempt lives without a sign of life; the end of a claim minus this is its time.
const LEASE: Duration = Duration::from_secs(10);
/// How long tasks whose answer was lost may take to come again.
const PATIENCE: Duration = Duration::from_secs(120);
/// A task comes so long behind the end of the limits at the latest, also where its node was killed with it.
const LATE: Duration = Duration::from_secs(75);
/// Tasks without a worker, or late ones, that are shown.
const MISSING_SHOWN: usize = 5;
/// Before a broken connection is opened again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// The rates to check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limited {
    pub(crate) callbacks: u64,
    pub(crate) span: Duration,
}

impl Limited {
    fn name(callback: u64) -> String {
        format!("limited-{callback}")
    }

    /// Returns the claims a second of a callback; its burst is those of a second.
    const fn rate(callback: u64) -> u64 {
        10 + 2 * callback
    }

    /// Returns the tasks of a callback: more than it lets through in the span.
    const fn tasks(self, callback: u64) -> u64 {
        Self::rate(callback) * (self.span.as_secs() * 13 / 10 + 3)
    }
}

/// A claim, as the worker learned of it.
#[derive(Debug, Clone, Copy)]
struct Claim {
    callback: u64,
    at: Millis,
}

/// Measures on hosts that share their tasks. `during` runs beside the measured span, from its beginning.
pub(crate) async fn measure<H: Host>(
    hosts: &[H],
    limited: Limited,
    during: impl Future<Output = anyhow::Result<()>>,
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let host = hosts.first().context("a node")?;
    let time = host.time();
    set(host, limited, true).await?;
    time.sleep(HEARD).await;
    let first = time
        .now()
        .after(Duration::from_secs(8))
        .ceil_to_grid(Millis(0), HEARD / 3);
    let registered = register(host, limited, first).await?;
    anyhow::ensure!(time.now() < first, "not registered in time");
    let crew = Crew {
        limited,
        wanted: registered.len(),
        until: time
            .moment()
            .after(first.since(time.now()) + limited.span + PATIENCE),
        claims: RefCell::default(),
        arrivals: RefCell::default(),
        came: RefCell::default(),
        failed: RefCell::default(),
    };
    let end = first.after(limited.span);
    let lifted = async {
        time.sleep_until_wall(first).await;
        during.await?;
        time.sleep_until_wall(end).await;
        set(host, limited, false).await
    };
    let workers = hosts
        .iter()
        .flat_map(|host| (0..POLLERS).map(move |number| (host, number)))
        .map(|(host, number)| crew.work(host, number));
    let (lifted, worked) = tokio::join!(lifted, try_join_all(workers));
    lifted?;
    worked?;
    let failed = crew.failed.take();
    if let Some(first) = failed.first() {
        report.note(format!(
            "{case}: {} calls failed, first: {first}",
            failed.len()
        ));
    }
    tell(&crew.claims.borrow(), limited, (first, end), case, report);
    let arrivals = crew.arrivals.take();
    show_missing(host, &registered, (&arrivals, end), case, report).await?;
    let verdict = verdict(registered, arrivals, Millis(0))?;
    let case = format!("{case}: due to worker, limits included");
    report.times(case, &verdict.lateness, verdict.check);
    Ok(())
}

/// Notes how some tasks read that no worker got, or only long after the limits were lifted.
async fn show_missing(
    host: &impl Host,
    registered: &[Registered],
    (arrivals, lifted): (&[Arrival], Millis),
    case: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let latest_us = lifted.after(LATE).0 * 1000;
    let in_time = arrivals
        .iter()
        .filter(|arrival| arrival.seen_us < latest_us);
    let came: HashSet<u128> = in_time.map(|arrival| arrival.id).collect();
    let missing = registered.iter().filter(|task| !came.contains(&task.id));
    let mut connection = Connection::open(host.door()).await?;
    for task in missing.take(MISSING_SHOWN) {
        let path = format!("/v1/tasks/{}", Uuid::from_u128(task.id));
        let read = String::from_utf8_lossy(connection.get(&path).await?).into_owned();
        report.note(format!("{case}: no worker got in time {read}"));
    }
    Ok(())
}

/// Sets or lifts the limits.
async fn set(host: &impl Host, limited: Limited, on: bool) -> anyhow::Result<()> {
    let mut connection = Connection::open(host.door()).await?;
    for callback in 0..limited.callbacks {
        let rate = Limited::rate(callback);
        let body = if on {
            format!(r#"{{"rate":{{"per_second":{rate},"burst":{rate}}}}}"#)
        } else {
            "{}".to_owned()
        };
        let path = format!("/v1/callbacks/{}", Limited::name(callback));
        connection.put(&path, body.as_bytes()).await?;
    }
    Ok(())
}

/// Registers all tasks of all callbacks for one moment.
async fn register(
    host: &impl Host,
    limited: Limited,
    due: Millis,
) -> anyhow::Result<Vec<Registered>> {
    let start = tickwheel::model::time::rfc3339(due);
    let mut registered = Vec::new();
    let request = |callback: u64| {
        let (name, lease) = (Limited::name(callback), LEASE.as_secs());
        let task = |_| {
            format!(
                r#"{{"callback":"{name}","start_time":"{start}","heartbeat_timeout":"{lease}s","payload":{}}}"#,
                payload::next()
            )
        };
        let tasks: Vec<String> = (0..limited.tasks(callback)).map(task).collect();
        tasks
    };
    for callback in 0..limited.callbacks {
        let tasks = request(callback);
        let chunks: Vec<&[String]> = tasks.chunks(500).collect();
        let body = |number: u64| {
            let tasks = chunks
                .get(number as usize)
                .map_or_else(String::new, |tasks| tasks.join(","));
            (
                "/v1/tasks:batchCreate".to_owned(),
                format!(r#"{{"tasks":[{tasks}]}}"#),
            )
        };
        flat::post(host, 4, chunks.len() as u64, body, |_, answer| {
            for id in wire::ids(answer) {
                registered.push(Registered {
                    id: id?,
                    due,
                    index: callback,
                });
            }
            Ok(())
        })
        .await?;
    }
    Ok(registered)
}

/// The workers of all nodes.
struct Crew {
    limited: Limited,
    wanted: usize,
    until: Moment,
    claims: RefCell<Vec<Claim>>,
    arrivals: RefCell<Vec<Arrival>>,
    /// The tasks that any worker has got.
    came: RefCell<HashSet<u128>>,
    failed: RefCell<Vec<String>>,
}

impl Crew {
    /// Polls and settles until every task has come. A node that dies is asked again and again.
    async fn work<H: Host>(&self, host: &H, number: usize) -> anyhow::Result<()> {
        let names: Vec<String> = (0..self.limited.callbacks)
            .map(|callback| format!("\"{}\"", Limited::name(callback)))
            .collect();
        let poll = format!(
            r#"{{"worker":"bench-{number}","callbacks":[{}],"max_tasks":{TASKS_MAX},"wait":"1s"}}"#,
            names.join(",")
        );
        let mut line = None;
        while self.came.borrow().len() < self.wanted && host.time().moment() < self.until {
            let asked = self.ask(&mut line, host, number, &poll).await;
            if let Err(error) = asked {
                self.failed.borrow_mut().push(format!("{error:#}"));
                line = None;
                host.time().sleep(RECONNECT_PAUSE).await;
            }
        }
        Ok(())
    }

    async fn ask<H: Host>(
        &self,
        line: &mut Option<Connection>,
        host: &H,
        number: usize,
        poll: &str,
    ) -> anyhow::Result<()> {
        let connection = match line {
            Some(connection) => connection,
            None => line.insert(open(host.door()).await?),
        };
        let answer = connection.post("/v1/worker/poll", poll.as_bytes()).await?;
        let seen_us = host.time().stamp();
        let polled: PollResponse = serde_json::from_slice(answer)?;
        let mut attempts = Vec::new();
        for task in &polled.tasks {
            let id: Uuid = task.id.parse()?;
            let ends = instant(&task.claim_expire_time).map_err(anyhow::Error::msg)?;
            let callback = task
                .callback
                .rsplit('-')
                .next()
                .context("a number")?
                .parse()?;
            let id = id.as_u128();
            self.came.borrow_mut().insert(id);
            self.arrivals.borrow_mut().push(Arrival { id, seen_us });
            self.claims.borrow_mut().push(Claim {
                callback,
                at: ends.before(LEASE),
            });
            attempts.push(Attempt {
                id,
                number: task.attempt,
            });
        }
        if attempts.is_empty() {
            return Ok(());
        }
        let mut body = String::new();
        wire::settle(&mut body, number, &attempts);
        connection
            .post("/v1/worker/settle", body.as_bytes())
            .await?;
        Ok(())
    }
}

async fn open(door: Door) -> anyhow::Result<Connection> {
    Connection::open(door).await
}

/// Reports the worst windows of all callbacks.
fn tell(
    claims: &[Claim],
    limited: Limited,
    (first, end): (Millis, Millis),
    case: &str,
    report: &mut Report,
) {
    let mut by_callback: HashMap<u64, Vec<Millis>> = HashMap::new();
    for claim in claims {
        if claim.at < end {
            by_callback
                .entry(claim.callback)
                .or_default()
                .push(claim.at);
        }
    }
    let (mut least, mut greatest) = (f64::INFINITY, 0.0_f64);
    for callback in 0..limited.callbacks {
        let rate = Limited::rate(callback);
        let mut times = by_callback.remove(&callback).unwrap_or_default();
        times.sort_unstable();
        let most = most_within(&times);
        let bound = 11 * rate + rate;
        if most > bound {
            let name = Limited::name(callback);
            report.fault(format!(
                "{case}: {name} has {most} claims in ten seconds, at most {bound} are allowed"
            ));
        }
        let ten = 10.0 * rate as f64;
        greatest = greatest.max(most.saturating_sub(rate) as f64 / ten);
        // The first second has the burst, so it is left to the bound above.
        let from = first.after(Duration::from_secs(1));
        least = least.min(fewest_within(&times, from, end) as f64 / ten);
    }
    report.aimed(
        format!("{case}: most in ten seconds beyond the burst"),
        greatest,
        "of its rate",
        1.1,
    );
    if least.is_finite() {
        report.aimed(
            format!("{case}: least in ten seconds"),
            least,
            "of its rate",
            0.9,
        );
    }
}

/// Returns the most of some sorted times that lie in one window.
fn most_within(times: &[Millis]) -> u64 {
    let (mut from, mut most) = (0, 0);
    for (at, time) in times.iter().enumerate() {
        while times
            .get(from)
            .is_some_and(|first| time.0 - first.0 >= WINDOW_MS)
        {
            from += 1;
        }
        most = most.max(at + 1 - from);
    }
    most as u64
}

/// Returns the fewest of some sorted times in a window between two times.
fn fewest_within(times: &[Millis], from: Millis, to: Millis) -> u64 {
    // The count is least right behind a claim, or at the beginning.
    let after = times.iter().map(|time| time.0 + 1);
    let begins = std::iter::once(from.0).chain(after);
    let begins = begins.filter(|begin| *begin >= from.0 && begin + WINDOW_MS <= to.0);
    let count = |begin: i64| {
        let before = |bound: i64| times.partition_point(|time| time.0 < bound);
        before(begin + WINDOW_MS) - before(begin)
    };
    begins.map(count).min().map_or(0, |least| least as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(step: i64, count: i64) -> Vec<Millis> {
        (0..count).map(|index| Millis(index * step)).collect()
    }

    #[test]
    fn windows_are_half_open() {
        assert_eq!(most_within(&every(1000, 30)), 10);
        assert_eq!(most_within(&[]), 0);
        assert_eq!(
            fewest_within(&every(1000, 30), Millis(0), Millis(30_000)),
            10
        );
    }

    #[test]
    fn a_gap_makes_the_least_window_and_a_burst_the_greatest() {
        let mut times = every(100, 300);
        times.retain(|time| !(10_000..15_000).contains(&time.0));
        assert_eq!(fewest_within(&times, Millis(0), Millis(30_000)), 50);
        times.extend(std::iter::repeat_n(Millis(20_000), 40));
        times.sort_unstable();
        assert_eq!(most_within(&times), 140);
    }

    #[test]
    fn more_than_the_bound_is_a_fault() {
        let limited = Limited {
            callbacks: 1,
            span: Duration::from_secs(30),
        };
        let claims = |count: i64| -> Vec<Claim> {
            let claim = |index| Claim {
                callback: 0,
                at: Millis(index * 30_000 / count),
            };
            (0..count).map(claim).collect()
        };
        let of = |count| {
            let mut report = Report::default();
            tell(
                &claims(count),
                limited,
                (Millis(0), Millis(30_000)),
                "x",
                &mut report,
            );
            report.is_sound()
        };
        assert!(of(300));
        // Ten a second, and ten as a burst: at most 120 in ten seconds.
        assert!(!of(400));
    }
}
