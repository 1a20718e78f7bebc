//! The scenarios of the gate give both programs the same work, in slices, and return what it cost each.
//!
//! A round has two slices of each program, in the order A B B A or B A A B by chance, so that a machine that becomes slower or
//! faster meanwhile treats both alike. The CPU of a slice is that of its requests and of the work that they leave behind.
//! `steady` is by seconds ([`steady`]).

use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use rand::{Rng as _, rngs::SmallRng};

use super::{
    round::{Disturbed, LEAD, Round, Sides},
    side::Load,
    steady,
};

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Scenario {
    /// Registration, one task a request over 64 connections.
    Single,
    /// Registration, 100 tasks a request.
    Hundreds,
    /// Tasks that are due at one moment, from then on: handed out, claimed and settled.
    Burst,
    /// 5,000 tasks a second, registered ahead, claimed and settled.
    Steady,
    /// Tasks that are due at once: registered, claimed and settled flat out.
    Life,
}

/// Requests of a slice of `single`.
const SINGLE_REQUESTS: u64 = 1500;
/// Requests of a slice of `hundreds`: of many tasks each, so that a slice takes as long as one of `single`.
const HUNDREDS_BATCHES: u64 = 60;
/// Requests of a slice of `life` that register.
const LIFE_BATCHES: u64 = 30;
/// Tasks of a request that registers many.
const BATCH: u64 = 100;
/// Requests that register a burst.
const BURST_BATCHES: u64 = 20;
/// Time between two bursts: one is done in a third of it.
const BURST_EVERY: Duration = Duration::from_millis(150);
/// Tasks that a slow machine registers in a second: a third of what it was on two quick cores. The first burst waits that long.
const SLOW_RATE: u64 = 60_000;
/// Tasks that are only registered are due in a month.
const FAR: Duration = Duration::from_secs(30 * 24 * 3600);

impl Scenario {
    /// Gives both programs the rounds of a start.
    ///
    /// # Errors
    ///
    /// [`Disturbed`] where the start cannot count, and what a service or a connection reports.
    pub(super) async fn run(
        self,
        sides: &mut Sides,
        random: &mut SmallRng,
    ) -> anyhow::Result<Vec<Round>> {
        let count = self.rounds();
        match self {
            Self::Burst => return Box::pin(bursts(sides, count, random)).await,
            Self::Steady => return Box::pin(steady::run(sides, count, random)).await,
            Self::Single | Self::Hundreds | Self::Life => {}
        }
        let mut rounds = Vec::new();
        for _ in 0..=count {
            rounds.push(self.round(sides, random).await?);
        }
        // Nothing is warm in the first one.
        Ok(rounds.split_off(1))
    }

    /// Returns the rounds of a start that count. Where rounds differ more, there are more of them.
    const fn rounds(self) -> u32 {
        match self {
            Self::Single | Self::Hundreds | Self::Steady => 24,
            Self::Life => 20,
            Self::Burst => 60,
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

/// Registers bursts and waits for each. The first round does not count, since nothing is warm in it.
async fn bursts(
    sides: &mut Sides,
    rounds: u32,
    random: &mut SmallRng,
) -> anyhow::Result<Vec<Round>> {
    let time = sides[0].service.time.clone();
    let order: Vec<usize> = (0..=rounds).flat_map(|_| order(random)).collect();
    let tasks = BATCH * BURST_BATCHES;
    let registered = order.len() as u64 * tasks;
    let first = time
        .now()
        .after(LEAD + Duration::from_secs(registered.div_ceil(SLOW_RATE)));
    let due = |number: u32| first.after(BURST_EVERY * number);
    for (number, at) in (0..).zip(&order) {
        let load = Load::new(BATCH, BURST_BATCHES, |_| due(number));
        sides
            .get_mut(*at)
            .context("a side")?
            .register(&load)
            .await?;
    }
    if time.now() >= first.before(LEAD - Duration::from_secs(1)) {
        bail!(Disturbed(
            "the bursts were not registered before they were read ahead"
        ));
    }
    let mut measured = Vec::new();
    for (slots, number) in order.chunks(4).zip((0..).step_by(4)) {
        let mut round = Round::default();
        for (at, number) in slots.iter().zip(number..) {
            let side = sides.get_mut(*at).context("a side")?;
            time.sleep_until_wall(due(number).before(BURST_EVERY / 10))
                .await;
            let before = side.spent()?;
            let settled_us = side.workers.settled(tasks).await?;
            let took = passed(due(number).0 * 1000, settled_us);
            round.add(*at, side.spent_when_quiet().await? - before, took);
        }
        round.tasks = 2 * tasks;
        measured.push(round);
    }
    Ok(measured.split_off(1))
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
