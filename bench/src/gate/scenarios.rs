//! The scenarios of the gate give both programs the same work, in slices, and return what it cost each.
//!
//! A round has two slices of each program, in the order A B B A or B A A B by chance, so that a machine that becomes slower or
//! faster meanwhile treats both alike. The CPU of a slice is that of its requests and of the work that they leave behind. In
//! `steady` both programs run at the same time.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use rand::{Rng as _, rngs::SmallRng};
use tickwheel::model::time::Millis;

use super::side::{Load, Side};
use crate::embedded::load::{self, Plan};

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// Registration, one task a request over 64 connections.
    Single,
    /// Registration, 100 tasks a request.
    Hundreds,
    /// Tasks that are due at one moment, claimed and settled.
    Burst,
    /// 5,000 tasks a second, registered ahead, claimed and settled.
    Steady,
    /// Tasks that are due at once: registered, claimed and settled flat out.
    Life,
}

/// Rounds of a pair that count. One more comes before them, since nothing is warm in it.
const ROUNDS: usize = 3;
/// Requests of a slice of `single`.
const SINGLE_REQUESTS: u64 = 1500;
/// Requests of a slice of `hundreds`: of many tasks each, so that a slice takes as long as one of `single`.
const HUNDREDS_BATCHES: u64 = 60;
/// Requests of a slice of `life` that register.
const LIFE_BATCHES: u64 = 30;
/// Tasks of a request that registers many.
const BATCH: u64 = 100;
/// Tasks that are only registered are due in a month.
const FAR: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long before they are due tasks of `burst` and `steady` are registered: before the two ticks that are read ahead.
const LEAD: Duration = Duration::from_secs(4);
/// Reading ahead begins so long before the first burst; the account of bursts begins then.
const READ_AHEAD: Duration = Duration::from_millis(2_200);
/// Time between two bursts.
const BURST_EVERY: Duration = Duration::from_millis(400);
/// Requests that register a burst.
const BURST_BATCHES: u64 = 20;
/// Rounds of bursts of a pair.
const BURST_ROUNDS: usize = 2;
/// Tasks a second of `steady`.
const STEADY_RATE: u64 = 5_000;
/// Length of `steady`.
const STEADY_SPAN: Duration = Duration::from_secs(3);
/// Tasks of a request of `steady`, and its connections.
const STEADY_BATCH: u64 = 25;
const STEADY_CONNECTIONS: usize = 32;

/// Both programs, the base first.
pub(super) type Sides = [Side; 2];

/// The cost of the work of a round for both programs, the base first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Round {
    /// Tasks of each.
    pub(super) tasks: u64,
    pub(super) cpu: [Duration; 2],
    /// Zero where the rate is fixed.
    pub(super) took: [Duration; 2],
}

impl Round {
    fn add(&mut self, at: usize, cpu: Duration, took: Duration) {
        for (sum, part) in [(&mut self.cpu, cpu), (&mut self.took, took)] {
            if let Some(sum) = sum.get_mut(at) {
                *sum += part;
            }
        }
    }
}

impl Scenario {
    /// Gives both programs the rounds of a pair.
    pub(super) async fn run(
        self,
        sides: &mut Sides,
        random: &mut SmallRng,
    ) -> anyhow::Result<Vec<Round>> {
        match self {
            Self::Burst => bursts(sides, random).await,
            Self::Steady => Ok(vec![Box::pin(steady(sides, random)).await?]),
            Self::Single | Self::Hundreds | Self::Life => {
                let mut rounds = Vec::new();
                for _ in 0..=ROUNDS {
                    rounds.push(self.round(sides, random).await?);
                }
                Ok(rounds.split_off(1))
            }
        }
    }

    async fn round(self, sides: &mut Sides, random: &mut SmallRng) -> anyhow::Result<Round> {
        let mut round = Round::default();
        for at in order(random) {
            let side = sides.get_mut(at).context("a side")?;
            let now = side.service.time.now();
            let far = |index: u64| now.after(FAR + Duration::from_millis(index));
            let load = match self {
                Self::Single => Load::new(1, SINGLE_REQUESTS, far),
                Self::Life => Load::new(BATCH, LIFE_BATCHES, |_| now),
                Self::Hundreds | Self::Burst | Self::Steady => {
                    Load::new(BATCH, HUNDREDS_BATCHES, far)
                }
            };
            let before = side.spent()?;
            let begun_us = side.service.time.stamp();
            let mut took = side.register(&load).await?;
            if self == Self::Life {
                took = passed(begun_us, side.workers.settled(load.tasks()).await?);
            }
            round.add(at, side.spent_when_quiet().await? - before, took);
            round.tasks = 2 * load.tasks();
        }
        Ok(round)
    }
}

/// Returns which side comes when in a round.
fn order(random: &mut SmallRng) -> [usize; 4] {
    if random.random() {
        [0, 1, 1, 0]
    } else {
        [1, 0, 0, 1]
    }
}

fn passed(from_us: i64, to_us: i64) -> Duration {
    Duration::from_micros(u64::try_from(to_us - from_us).unwrap_or(0))
}

/// Registers all bursts of a pair, waits for them, and gives each its account: from the end of the program's burst before it to
/// the end of its own, so that reading ahead is in it.
async fn bursts(sides: &mut Sides, random: &mut SmallRng) -> anyhow::Result<Vec<Round>> {
    let time = sides[0].service.time.clone();
    let first = time.now().after(LEAD + Duration::from_secs(1));
    let order: Vec<usize> = (0..BURST_ROUNDS).flat_map(|_| order(random)).collect();
    let due = |number: usize| first.after(BURST_EVERY * u32::try_from(number).unwrap_or(0));
    let tasks = BATCH * BURST_BATCHES;
    for (number, at) in order.iter().enumerate() {
        let load = Load::new(BATCH, BURST_BATCHES, |_| due(number));
        let side = sides.get_mut(*at).context("a side")?;
        side.register(&load).await?;
    }
    let counted = first.before(READ_AHEAD);
    ensure!(time.now() < counted, "bursts were not registered in time");
    time.sleep_until_wall(counted).await;
    let mut spent = [sides[0].spent()?, sides[1].spent()?];
    let mut rounds = vec![Round::default(); BURST_ROUNDS];
    for (number, at) in order.into_iter().enumerate() {
        let side = sides.get_mut(at).context("a side")?;
        let settled_us = side.workers.settled(tasks).await?;
        let now = side.spent_when_quiet().await?;
        let before = spent.get_mut(at).context("a side")?;
        let round = rounds.get_mut(number / 4).context("a round")?;
        round.tasks = 2 * tasks;
        round.add(at, now - *before, passed(due(number).0 * 1000, settled_us));
        *before = now;
    }
    Ok(rounds)
}

/// Runs a stream through both programs at the same time, one half an interval behind the other.
async fn steady(sides: &mut Sides, random: &mut SmallRng) -> anyhow::Result<Round> {
    let [base, changed] = sides;
    let interval = Duration::from_secs(STEADY_BATCH).div_f64(STEADY_RATE as f64);
    let plan = Plan {
        tasks: STEADY_RATE * STEADY_SPAN.as_secs(),
        batch: STEADY_BATCH,
        connections: STEADY_CONNECTIONS,
        interval: Some(interval),
        keep_every: STEADY_RATE,
    };
    let mut waits = [Duration::ZERO, interval / 2];
    if random.random() {
        waits.reverse();
    }
    let first = base.service.time.now().after(LEAD);
    let due = move |index: u64| first.after(Duration::from_millis(index * 1000 / STEADY_RATE));
    let before = [base.spent()?, changed.spent()?];
    let (one, other) = tokio::join!(
        stream(base, waits[0], plan, due),
        stream(changed, waits[1], plan, due)
    );
    let spent = [one?, other?];
    Ok(Round {
        tasks: plan.tasks,
        cpu: [spent[0] - before[0], spent[1] - before[1]],
        took: [Duration::ZERO; 2],
    })
}

/// Registers, and waits until everything is settled; returns the CPU of the service so far.
async fn stream(
    side: &mut Side,
    wait: Duration,
    plan: Plan,
    due: impl Fn(u64) -> Millis + Send + Copy + 'static,
) -> anyhow::Result<Duration> {
    side.service.time.sleep(wait).await;
    load::register(&side.service, plan, due).await?;
    side.workers.settled(plan.tasks).await?;
    side.spent_when_quiet().await
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn each_side_has_two_slices_of_a_round_about_the_same_middle() {
        let mut random = SmallRng::seed_from_u64(1);
        let orders: Vec<[usize; 4]> = (0..100).map(|_| order(&mut random)).collect();
        for order in &orders {
            let middle = |side: usize| -> usize {
                let of = order.iter().enumerate().filter(|(_, at)| **at == side);
                of.map(|(place, _)| place).sum()
            };
            assert_eq!((middle(0), middle(1)), (3, 3));
        }
        let begin = orders.iter().filter(|order| order[0] == 0).count();
        assert!((30..70).contains(&begin), "{begin} of 100 begin with one");
    }
}
