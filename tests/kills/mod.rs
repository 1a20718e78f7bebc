//! These tests run `kill -9` during registration, polling and settling, on the embedded pair, and show that
//! no promise breaks.
//!
//! Servers follow each other on one data directory. Clients and workers speak plain HTTP and log every
//! acknowledgement. The rules are in `checker.rs`. The seed chooses the moments of the kills; it is printed,
//! and `TICKWHEEL_TEST_SEED` sets it. `TICKWHEEL_TEST_KILLS` sets the number of kills. The actions of clients
//! have no seed, since the machine decides on their order anyway.

mod checker;
mod clients;
mod history;
mod rotation;
mod workers;

use std::{
    collections::{BTreeMap, HashMap},
    io::Write as _,
    path::Path,
    time::Duration,
};

use futures_util::{StreamExt, stream};
use serde_json::Value;
use tickwheel::{model::time::Millis, time_source::TimeSource};
use tokio_util::sync::CancellationToken;

use self::history::{Life, Site};
use crate::{
    ALONE,
    server::{READY_WAIT_MAX, Server, free_port},
};

const KILLS: u64 = 20;

/// Kills at each named place.
const KILLS_AT_EACH: u64 = 3;

/// Kills while a journal is begun; most of them come before it is written to.
const KILLS_OF_JOURNALS: u64 = 5;

/// The exact places where a process is killed; see `src/failpoint.rs`.
const PLACES: [&str; 5] = ["committed", "publishing", "published", "swapped", "merging"];

/// The name of a death while a journal is begun.
const ROTATION: &str = "rotation";

/// The test stops waiting for a place that a ready service does not pass often enough in this time.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(6);

/// One life in this many is long enough to show tasks that wait for a look or a lease.
const LONG_EVERY: u64 = 5;
const LONG: Duration = Duration::from_secs(6);

/// Everything must have ended within this time after the last life has begun. A claim whose answer was lost
/// ends after three seconds, its look comes up to ten seconds later, and the retry may meet the same once
/// more.
const END_MAX: Duration = Duration::from_secs(60);

/// The way in which a server dies.
enum Death {
    /// At a random moment, during its start or later.
    AtRandom { long: bool },
    /// When it passes a place for the given number of times.
    At(String),
    /// While it begins a new journal.
    AtRotation,
}

/// The deaths of a run.
fn at_random(kills: u64) -> Vec<Death> {
    let death = |kill| Death::AtRandom {
        long: kill % LONG_EVERY == 4,
    };
    (0..kills).map(death).collect()
}

fn at_places(kills: u64, chance: &TimeSource) -> Vec<Death> {
    let place = |kill| {
        let place = PLACES[usize::try_from(kill).expect("it is small") % PLACES.len()];
        // Each place is passed hundreds of times in a second.
        Death::At(format!("{place}:{}", 1 + chance.random() % 300))
    };
    (0..kills).map(place).collect()
}

/// Waits for the moment of death.
async fn lived(site: &Site, server: &mut Server, death: &Death, chance: &TimeSource) -> Life {
    let mut life = Life {
        started: site.time.moment(),
        ready: None,
        killed: None,
        killed_wall: None,
    };
    site.history().lives.push(life);
    let random = chance.random();
    match death {
        Death::AtRandom { .. } if random.is_multiple_of(6) => {
            // The death comes while the server starts.
            let wait = Duration::from_millis(random / 6 % 600);
            site.time.sleep(wait).await;
            if server.log().contains("ready on") {
                life.ready = Some(site.time.moment());
            }
        }
        Death::AtRandom { long } => {
            server.ready().await;
            life.ready = Some(site.time.moment());
            let short = Duration::from_millis(random % 1500);
            let length = if *long { LONG + short } else { short };
            site.time.sleep(length).await;
        }
        Death::AtRotation => {
            server.ready().await;
            life.ready = Some(site.time.moment());
            rotation::kill_at_next(server.id(), server.store()).await;
        }
        Death::At(_) => {
            // A debug build takes seconds to start where the cores are busy, and may die on the way.
            let mut until = site.time.moment().after(READY_WAIT_MAX);
            while server.lives() && site.time.moment() < until {
                if life.ready.is_none() && server.log().contains("ready on") {
                    let ready = site.time.moment();
                    life.ready = Some(ready);
                    until = ready.after(PLACE_WAIT_MAX);
                }
                site.time.sleep(Duration::from_millis(5)).await;
            }
        }
    }
    life
}

/// The number of times that a process died by itself at each place.
type Died = BTreeMap<String, u64>;

/// Lets servers live and die, and leaves the last one running; returns the places where they died
/// by themselves.
async fn lives(
    site: &Site,
    directory: &Path,
    port: u16,
    deaths: &[Death],
    chance: &TimeSource,
) -> (Server, Died) {
    let mut died = Died::new();
    for death in deaths {
        let place = match death {
            Death::At(place) => Some(place.clone()),
            Death::AtRandom { .. } | Death::AtRotation => None,
        };
        let mut server = Server::spawn_to_die(directory, port, &[], place);
        let mut life = lived(site, &mut server, death, chance).await;
        if !server.lives() && matches!(death, Death::At(_) | Death::AtRandom { .. }) {
            let log = server.log();
            let place = log.lines().find_map(|line| line.strip_prefix("dies at "));
            *died
                .entry(place.unwrap_or("nowhere").to_owned())
                .or_default() += 1;
        }
        server.kill();
        life.killed = Some(site.time.moment());
        life.killed_wall = Some(site.time.now());
        if matches!(death, Death::AtRotation) && rotation::was_under_way(&server.store()) {
            *died.entry(ROTATION.to_owned()).or_default() += 1;
        }
        *site.history().lives.last_mut().expect("it was noted") = life;
    }
    let started = site.time.moment();
    let mut server = Server::spawn(directory, port, &[]);
    server.ready().await;
    let life = Life {
        started,
        ready: Some(site.time.moment()),
        killed: None,
        killed_wall: None,
    };
    site.history().lives.push(life);
    (server, died)
}

/// Reads every acknowledged task until all have ended, or the time is up.
async fn ends(site: &Site) -> HashMap<String, Value> {
    let until = site.time.moment().after(END_MAX);
    let mut left: Vec<String> = site.history().registered.keys().cloned().collect();
    let mut ends = HashMap::new();
    loop {
        let reads = left.drain(..).map(|id| async move {
            let answer = site
                .http
                .get(format!("{}/v1/tasks/{id}", site.url))
                .send()
                .await;
            let body = answer
                .expect("the server lives")
                .bytes()
                .await
                .expect("a body");
            (
                id,
                serde_json::from_slice(&body).expect("an answer is JSON"),
            )
        });
        let read: Vec<(String, Value)> = stream::iter(reads).buffer_unordered(16).collect().await;
        for (id, task) in read {
            let state = task["state"].as_str().unwrap_or("unknown");
            if !["succeeded", "cancelled", "failed", "dead", "expired"].contains(&state) {
                left.push(id.clone());
            }
            ends.insert(id, task);
        }
        if left.is_empty() || site.time.moment() > until {
            return ends;
        }
        site.time.sleep(Duration::from_millis(250)).await;
    }
}

fn report(site: &Site) {
    let history = site.history();
    let (starts, waits) = (
        checker::starts(&history),
        checker::waits_after_restart(&history),
    );
    let executions: usize = history.executions.values().map(Vec::len).sum();
    let at = |times: &[Duration], permille| {
        times
            .get(times.len().saturating_sub(1) * permille / 1000)
            .copied()
    };
    say!(
        "kill -9: {} tasks, {} kills, {executions} executions ({} again for a dead worker, {} first seen at a later attempt), {} calls without answer",
        history.registered.len(),
        history.lives.len() - 1,
        checker::duplicates(&history),
        checker::lost_claims(&history),
        history.unanswered,
    );
    say!(
        "kill -9: start to ready p50 {:?}, max {:?}; {} tasks fell due while nothing ran: handed out after ready p50 {:?}, max {:?}",
        at(&starts, 500),
        at(&starts, 1000),
        waits.len(),
        at(&waits, 500),
        at(&waits, 1000),
    );
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("it is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_at_random_lose_nothing_that_was_acknowledged() {
    let died = kills(|_| at_random(number("TICKWHEEL_TEST_KILLS").unwrap_or(KILLS))).await;
    assert!(died.is_empty(), "it dies when it is killed only: {died:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_named_places_lose_nothing_that_was_acknowledged() {
    let each = number("TICKWHEEL_TEST_KILLS").unwrap_or(KILLS_AT_EACH);
    let kills_max = each * u64::try_from(PLACES.len()).expect("it is small");
    let died = kills(|chance| at_places(kills_max, chance)).await;
    // In a life with little work a place may be passed too seldom.
    assert!(
        died.values().sum::<u64>() > kills_max / 2
            && PLACES.iter().all(|place| died.contains_key(*place))
            && died.len() == PLACES.len(),
        "of {kills_max} died at their places: {died:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_while_a_journal_is_begun_lose_nothing_that_was_acknowledged() {
    // A journal is 64 MB, so each takes some seconds.
    let kills_max =
        number("TICKWHEEL_TEST_KILLS").map_or(KILLS_OF_JOURNALS, |kills| kills.div_ceil(10));
    let died = kills(|_| (0..kills_max).map(|_| Death::AtRotation).collect()).await;
    assert!(
        died.contains_key(ROTATION),
        "of {kills_max} none died before the new journal was written to: {died:?}"
    );
}

/// Runs clients and workers while a server dies again and again, and checks every promise at the end.
async fn kills(deaths: impl FnOnce(&TimeSource) -> Vec<Death>) -> Died {
    let _alone = ALONE.lock().await;
    let seed = number("TICKWHEEL_TEST_SEED").unwrap_or_else(|| TimeSource::real().random());
    say!("kill -9: TICKWHEEL_TEST_SEED={seed}");
    let chance = TimeSource::simulated(Millis(0), seed);
    let deaths = deaths(&chance);
    let (directory, port) = (tempfile::tempdir().expect("a directory"), free_port());
    let site = Site::new(format!("http://127.0.0.1:{port}"));
    let (stop_clients, stop_workers) = (CancellationToken::new(), CancellationToken::new());
    for _ in 0..2 {
        tokio::spawn(clients::near(site.clone(), stop_clients.clone()));
    }
    tokio::spawn(clients::batches(site.clone(), stop_clients.clone()));
    tokio::spawn(clients::changes(site.clone(), stop_clients.clone()));
    if deaths
        .iter()
        .any(|death| matches!(death, Death::AtRotation))
    {
        for _ in 0..4 {
            tokio::spawn(rotation::fill(site.clone(), stop_clients.clone()));
        }
    }
    for number in 0..4 {
        let name = format!("worker-{number}");
        tokio::spawn(workers::work(site.clone(), name, stop_workers.clone()));
    }
    let (server, died) = lives(&site, directory.path(), port, &deaths, &chance).await;
    site.time.sleep(Duration::from_secs(2)).await;
    stop_clients.cancel();
    // Reschedules reach four seconds ahead, and are asked for up to four seconds after the registration.
    site.time.sleep(Duration::from_secs(9)).await;
    let ends = ends(&site).await;
    stop_workers.cancel();
    report(&site);
    if !died.is_empty() {
        say!("kill -9: died by themselves: {died:?}");
    }
    let broken = checker::broken(&site.history(), &ends);
    let some = broken
        .iter()
        .take(10)
        .cloned()
        .collect::<Vec<_>>()
        .join("\n");
    if !broken.is_empty() {
        let log = directory.keep();
        panic!(
            "{} promises broken, log in {}; for example\n{some}",
            broken.len(),
            log.display()
        );
    }
    drop(server);
    died
}
