//! The run is one start of a schedule: a task whose id follows from the schedule and from the number of the run.
//!
//! All that goes into the id was decided by one conditional write of the schedule's record. So registering a run twice, from any
//! node, is registering it once.

use std::time::Duration;

use super::hash;
use crate::model::{
    ids::TaskId,
    look_step::LookStep,
    preference::mix,
    time::{Millis, whole_millis},
    wheel::Shape,
};

/// A run that a schedule has decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The task that it is.
    pub id: TaskId,
    /// The generation of the schedule that decided on it.
    pub generation: u32,
    /// Its number; runs of a schedule are counted over all generations.
    pub seq: u64,
    /// The time of the schedule that it stands for. Its start may be later, by the jitter.
    pub time: Millis,
    /// Its entry in the wheel is known to be acknowledged.
    pub entered: bool,
    /// It was missed after it was decided on: it is void, and is to be withdrawn.
    pub late: bool,
}

/// The cause of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A time of the schedule.
    Schedule,
    /// A person.
    Trigger,
    /// A backfill.
    Backfill,
}

impl Cause {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Trigger => "trigger",
            Self::Backfill => "backfill",
        }
    }
}

/// A run as the list of the runs of its schedule has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The run.
    pub run: Run,
    /// Its cause.
    pub cause: Cause,
    /// It was skipped: it has no task.
    pub skipped: bool,
}

/// The things that the ids of a schedule's runs follow from.
#[derive(Debug, Clone, Copy)]
pub struct Namer<'a> {
    /// The name of the schedule.
    pub name: &'a str,
    /// The life of that name: a schedule that was deleted and made again has another.
    pub incarnation: u128,
    /// The look step of its tasks, as it was when the generation began.
    pub step: LookStep,
    /// The wheel.
    pub shape: &'a Shape,
}

impl Namer<'_> {
    /// Returns the run of a number.
    #[must_use]
    pub fn run(&self, generation: u32, seq: u64, time: Millis, start: Millis) -> Run {
        let number = [generation.to_be_bytes().as_slice(), &seq.to_be_bytes()].concat();
        Run {
            id: self.id("run", &number, time, start),
            generation,
            seq,
            time,
            entered: false,
            late: false,
        }
    }

    /// Returns the id of a run that a backfill makes up for: it starts when the backfill was asked for.
    #[must_use]
    pub fn backfilled(&self, job: u128, time: Millis, start: Millis) -> TaskId {
        self.id("backfill", &job.to_be_bytes(), time, start)
    }

    fn id(&self, kind: &str, number: &[u8], time: Millis, start: Millis) -> TaskId {
        let random = hash(&[
            self.name.as_bytes(),
            &self.incarnation.to_be_bytes(),
            kind.as_bytes(),
            number,
            &time.0.to_be_bytes(),
        ]);
        let wheel = self.shape.wheel_of_hash(mix(random));
        TaskId::new(start, wheel, random).with_look_step(self.step)
    }
}

/// Returns the start of a run: its time, later by a part of the jitter that follows from its number. The jitter is at most half
/// of the way to the time that follows, so that runs stay in order.
#[must_use]
pub fn start(
    name: &str,
    seq: u64,
    time: Millis,
    following: Option<Millis>,
    jitter: Duration,
) -> Millis {
    let most = following.map_or(jitter, |following| jitter.min(time.until(following) / 2));
    let Ok(most) = u64::try_from(whole_millis(most)) else {
        return time;
    };
    if most == 0 {
        return time;
    }
    let late = hash(&[name.as_bytes(), b"jitter", &seq.to_be_bytes()]) % most;
    time.after(Duration::from_millis(late))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures::shape;

    #[test]
    fn an_id_follows_from_the_schedule_and_the_run_and_carries_its_start() {
        let shape = shape();
        let step = LookStep::covering(Duration::from_secs(60));
        let namer = |name, incarnation| Namer {
            name,
            incarnation,
            step,
            shape: &shape,
        };
        let (time, start) = (Millis(1_800_000_000_000), Millis(1_800_000_000_700));
        let run = namer("a", 1).run(2, 3, time, start);
        assert_eq!(run, namer("a", 1).run(2, 3, time, start));
        assert_eq!((run.id.first_start(), run.id.look_step()), (start, step));
        let others = [
            namer("b", 1).run(2, 3, time, start),
            namer("a", 2).run(2, 3, time, start),
            namer("a", 1).run(3, 3, time, start),
            namer("a", 1).run(2, 4, time, start),
            namer("a", 1).run(2, 3, Millis(time.0 + 1), start),
        ];
        assert!(others.iter().all(|other| other.id != run.id));
        assert_ne!(
            namer("a", 1).backfilled(7, time, start),
            namer("a", 1).backfilled(8, time, start)
        );
    }

    #[test]
    fn jitter_is_the_same_each_time_and_never_reaches_the_next_run() {
        let (time, minute) = (Millis(1_800_000_000_000), Duration::from_secs(60));
        let next = Some(time.after(minute));
        let mut starts = std::collections::BTreeSet::new();
        for seq in 0..100 {
            let late = start("a", seq, time, next, minute * 10);
            assert_eq!(late, start("a", seq, time, next, minute * 10));
            assert!(time <= late && late < time.after(minute / 2), "{late}");
            starts.insert(late);
        }
        assert!(starts.len() > 90);
        assert_eq!(start("a", 1, time, next, Duration::ZERO), time);
        assert!(start("a", 1, time, None, minute) >= time);
    }
}
