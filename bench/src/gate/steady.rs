//! The steady load of the gate gives both programs half a second of a stream in every second, one in the first half and the
//! other in the second.
//!
//! A service reads ahead by whole seconds. So the second from the begin of a program's half to the begin of its next one holds
//! all that half a second of the stream costs it: registration, reading ahead, claims and settles.

use std::time::Duration;

use anyhow::Context as _;
use rand::{Rng as _, rngs::SmallRng};
use tickwheel::model::time::Millis;

use super::{
    round::{LEAD, Round, Sides},
    side::{Load, Side},
};

/// The length of a half.
const HALF: Duration = Duration::from_millis(500);
/// Tasks of a request, and requests of a half: 5,000 tasks a second.
const BATCH: u64 = 25;
const REQUESTS: u64 = 100;
/// Tasks of a half.
const TASKS: u64 = BATCH * REQUESTS;

/// Runs so many rounds that count; a round is a second.
pub(super) async fn run(
    sides: &mut Sides,
    rounds: u32,
    random: &mut SmallRng,
) -> anyhow::Result<Vec<Round>> {
    let time = sides[0].service.time.clone();
    let second = Duration::from_secs(1);
    let begin = time.now().after(second).ceil_to_grid(Millis(0), second);
    // Tasks are due as long after their registration; nothing is warm in the second behind.
    let warm = u32::try_from(LEAD.as_secs())? + 1;
    let first = usize::from(random.random::<bool>());
    let mut begun = [Duration::ZERO; 2];
    let mut measured = vec![Round::default(); rounds as usize];
    // One second more ends the account of the last round.
    for number in 0..=warm + rounds {
        for (half, at) in (0..).zip([first, 1 - first]) {
            let begin = begin.after(second * number + HALF * half);
            time.sleep_until_wall(begin).await;
            let side = sides.get_mut(at).context("a side")?;
            let spent = side.spent()?;
            let before = std::mem::replace(begun.get_mut(at).context("a side")?, spent);
            if let Some(counted) = number.checked_sub(warm + 1) {
                let round = measured.get_mut(counted as usize).context("a round")?;
                round.add(at, spent - before, Duration::ZERO);
                round.tasks = TASKS;
            }
            if number < warm + rounds {
                register(side, begin.after(LEAD)).await?;
            }
        }
    }
    for side in sides {
        let tasks = TASKS * u64::from(warm + rounds);
        side.workers.settled(tasks).await?;
    }
    Ok(measured)
}

/// Registers the tasks of a half, which are due from an instant on.
async fn register(side: &mut Side, from: Millis) -> anyhow::Result<()> {
    let apart = HALF.div_f64(TASKS as f64);
    let load = Load::new(BATCH, REQUESTS, |index| {
        from.after(apart.mul_f64(index as f64))
    });
    let interval = HALF.div_f64(REQUESTS as f64);
    side.register_evenly(&load, interval).await
}
