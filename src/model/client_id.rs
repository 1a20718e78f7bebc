//! The check of client ids tells registration whether an id that a client made can name its task.
//!
//! Everything that is read from an id for ever has to be true: its wheel exists, its start is the start of the task, and
//! its look step covers the claim timeout. An id whose start has passed for too long is refused: the row of a task that
//! has ended may be gone by then, so nothing could tell whether the task had run.

use std::time::Duration;

use super::{
    ids::TaskId,
    look_step::LookStep,
    state::TERMINAL_TTL_MIN,
    time::{Millis, rfc3339},
    wheel::{Shape, WheelNumber},
};

/// How long the start of a client's id may have passed. Rows of tasks that have ended live a day longer, behind the start and
/// behind the end, so a repetition within this span finds the row of a task that has run.
pub const START_PASSED_MAX: Duration =
    TERMINAL_TTL_MIN.saturating_sub(Duration::from_secs(24 * 3600));

/// Why an id cannot name its task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// It has the form of the service's own tasks.
    #[error("it has the form of the service's own tasks: make another one")]
    Internal,
    /// The wheel does not exist.
    #[error("its wheel is {wheel}, and the service has the wheels 0 to {}", wheels - 1)]
    Wheel {
        /// The wheel of the id.
        wheel: u16,
        /// How many wheels there are.
        wheels: u16,
    },
    /// The start of the id is not the start of the task.
    #[error("its start is {}, and `start_time` is {}", rfc3339(*of_id), rfc3339(*asked))]
    Start {
        /// The start of the id.
        of_id: Millis,
        /// The start of the task.
        asked: Millis,
    },
    /// The look step is too short.
    #[error("its look step is {} s, which is shorter than the claim timeout; the step {} covers it", step.as_secs(), least.bits())]
    LookStep {
        /// The step of the id.
        step: Duration,
        /// The shortest step that covers the claim timeout.
        least: LookStep,
    },
    /// The start has passed for too long.
    #[error("its start passed more than {} days ago, so nothing tells whether the task has run", START_PASSED_MAX.as_secs() / 86_400)]
    TooOld,
}

/// Checks the id of a task that starts at `start`, for a task whose claim timeout is known only if it was given.
///
/// # Errors
/// The first [`Mistake`].
pub fn check(
    id: TaskId,
    start: Millis,
    claim_timeout: Option<Duration>,
    shape: &Shape,
    now: Millis,
) -> Result<(), Mistake> {
    if id.is_internal() {
        return Err(Mistake::Internal);
    }
    let (wheel, wheels) = (id.wheel().get(), shape.wheels());
    if wheel >= wheels {
        return Err(Mistake::Wheel { wheel, wheels });
    }
    let of_id = id.first_start();
    if of_id != start {
        let asked = start;
        return Err(Mistake::Start { of_id, asked });
    }
    let step = id.look_step().duration();
    if claim_timeout.is_some_and(|timeout| timeout > step) {
        let least = LookStep::covering(claim_timeout.unwrap_or_default());
        return Err(Mistake::LookStep { step, least });
    }
    if now.since(of_id) > START_PASSED_MAX {
        return Err(Mistake::TooOld);
    }
    Ok(())
}

/// Makes an id for a task that starts at `start`, on one of `wheels` wheels, with 62 bits of randomness.
#[must_use]
pub fn make(start: Millis, claim_timeout: Duration, wheels: u16, random: u64) -> TaskId {
    // Bits that the id itself does not keep whole: the step takes six of the highest.
    let number = (random >> 52) as u16 % wheels.max(1);
    let wheel = WheelNumber::from_low_bits(number);
    TaskId::new(start, wheel, random).with_look_step(LookStep::covering(claim_timeout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures::{START, id, shape};

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn an_id_that_was_made_for_a_task_names_it() {
        for random in [0, 7, u64::MAX, 0x0fff_0000_0000_0000] {
            let id = make(START, MINUTE, shape().wheels(), random);
            let now = START.after(START_PASSED_MAX);
            assert_eq!(check(id, START, Some(MINUTE), &shape(), now), Ok(()));
            assert_eq!(check(id, START, None, &shape(), Millis(0)), Ok(()));
        }
        let wheels: std::collections::BTreeSet<u16> = (0..4096_u64)
            .map(|bits| make(START, MINUTE, 4, bits << 52).wheel().get())
            .collect();
        assert_eq!(wheels.len(), 4, "every wheel is used");
    }

    #[test]
    fn each_mistake_is_named_with_what_would_be_right() {
        let far = TaskId::new(START, WheelNumber::from_low_bits(4), 1);
        let own = TaskId::internal(START, WheelNumber::from_low_bits(1), 7);
        assert_eq!(
            check(own, START, None, &shape(), START),
            Err(Mistake::Internal)
        );
        let says = |id, start, timeout, now| {
            let checked = check(id, start, timeout, &shape(), now);
            checked.map_err(|mistake| mistake.to_string())
        };
        let wheel = says(far, START, None, START).unwrap_err();
        assert!(wheel.contains("wheels 0 to 3"), "{wheel}");
        let start = says(id(), Millis(START.0 + 1), None, START).unwrap_err();
        assert!(start.contains("16:40.500Z"), "{start}");
        let step = says(id(), START, Some(MINUTE * 2), START).unwrap_err();
        assert!(step.contains("the step 19 covers"), "{step}");
        let late = START.after(START_PASSED_MAX + Duration::from_millis(1));
        let old = says(id(), START, None, late).unwrap_err();
        assert!(old.contains("more than 6 days"), "{old}");
    }
}
