//! The look grid tells all stages when a tracked task is looked at again.
//!
//! The looks of a task lie on a grid of its own, `{phase + k * step}`. The step covers its claim timeout and is in
//! its id; the phase is the end of its first tick. Slot-mates therefore stay together (their looks are one batch,
//! their rows one read), and tasks of different slots spread evenly. A crash between writing a successor and moving
//! `fired` leaves two chains of looks of one task. They meet in the same key within one step and are one again.

use std::time::Duration;

use super::{
    ids::TaskId,
    time::{Millis, Tick},
    wheel::Shape,
};

/// How long after its tick a near task's look comes, at least: time for the registering node to fire it from memory.
const NEAR_GRACE: Duration = Duration::from_secs(5);

/// The longest interval between two looks of a task, however long it has waited for a worker, unless its claim
/// timeout is longer. It is the price of a lost message: the task is published again at least this often.
pub const INTERVAL_MAX: Duration = Duration::from_secs(600);

/// Points at which a look may lie that was put when so much was closed: slots that close meanwhile push it on by one each.
pub const NEAR_POINTS: usize = 3;

/// Returns how long a note of a waiting task holds that a look or a publication has made: its next look comes before.
#[must_use]
pub fn noted_for(id: TaskId) -> Duration {
    let step = id.look_step().duration();
    (INTERVAL_MAX * 3 / 2).max(step * 2)
}

/// The grid of one task's looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    phase: Millis,
    step: Duration,
}

impl Grid {
    /// Returns the grid of a task.
    #[must_use]
    pub fn of(id: TaskId, shape: &Shape) -> Self {
        let tick = shape.tick();
        let phase = tick.end_of(tick.tick_of(id.first_start()));
        Self {
            phase,
            step: id.look_step().duration(),
        }
    }

    /// Returns the first point at or after `at`.
    #[must_use]
    pub fn at(&self, at: Millis) -> Millis {
        at.ceil_to_grid(self.phase, self.step)
    }

    /// Returns the point about one step after `now`: half a step to one and a half.
    #[must_use]
    pub fn one_step_after(&self, now: Millis) -> Millis {
        self.at(now.after(self.step / 2))
    }

    /// Returns the first point from half a step after `now` on, or from `wait` after it if that is sooner.
    #[must_use]
    pub fn soon_after(&self, now: Millis, wait: Duration) -> Millis {
        self.at(now.after(wait.min(self.step / 2)))
    }

    /// Returns the next point for a task that was published and has waited for a worker for `waited`.
    ///
    /// The interval grows with the wait, up to [`INTERVAL_MAX`] or one step. So a backlog without workers is
    /// copied a few times and not once a step. Intervals are the step times a power of two and their points
    /// lie on grids of their own, so that [`Grid::points_around`] knows where to look for them.
    #[must_use]
    pub fn backed_off(&self, now: Millis, waited: Duration) -> Millis {
        let interval = self
            .intervals()
            .take_while(|interval| *interval <= waited / 2)
            .last();
        let interval = interval.unwrap_or(self.step);
        now.after(interval / 2).ceil_to_grid(self.phase, interval)
    }

    /// Returns the points at which the look of a task that waits for a worker may lie at `now`, or may have fired last.
    #[must_use]
    pub fn points_around(&self, now: Millis) -> Vec<Millis> {
        let mut points: Vec<Millis> = self
            .intervals()
            .flat_map(|interval| {
                let next = now.ceil_to_grid(self.phase, interval);
                [next.before(interval), next, next.after(interval)]
            })
            .collect();
        points.sort_unstable();
        points.dedup();
        points
    }

    /// The step, twice the step, and so on up to the longest interval.
    fn intervals(&self) -> impl Iterator<Item = Duration> + use<> {
        let step = self.step;
        (0..32)
            .map(move |k| step * (1 << k))
            .take_while(move |i| *i == step || *i <= INTERVAL_MAX)
    }

    /// Returns where the look of a near task goes: behind its start, behind what is closed, and a grace later.
    #[must_use]
    pub fn for_near(&self, start: Millis, opened_until: Millis) -> Millis {
        self.at(start.max(opened_until).after(NEAR_GRACE))
    }

    /// Returns the points at which the first look of a near task may lie, in a wheel whose clock was right: the wheel was
    /// closed up to the tick of the start, or up to `look_ahead` ticks further, and one more may have closed during the
    /// write.
    #[must_use]
    pub fn near_points(&self, start: Millis, shape: &Shape, look_ahead: i64) -> Vec<Millis> {
        let tick = shape.tick();
        let own = tick.tick_of(start);
        let closed = (0..=look_ahead + 1).map(|ticks| tick.end_of(own.plus(ticks)));
        let closed = std::iter::once(start).chain(closed);
        let points = closed.flat_map(|closed| {
            let from = self.for_near(start, closed);
            self.points_from(from).take(NEAR_POINTS)
        });
        let mut points: Vec<Millis> = points.collect();
        points.sort_unstable();
        points.dedup();
        points
    }

    /// Returns the first point whose tick is later than `opened`, from `at` on.
    #[must_use]
    pub(super) fn open_from(&self, at: Millis, shape: &Shape, opened: Tick) -> Millis {
        self.at(at.max(Millis(shape.tick().end_of(opened).0 + 1)))
    }

    /// Returns the distance of its points.
    #[must_use]
    pub const fn step(&self) -> Duration {
        self.step
    }

    /// Returns the points at which a look of the task may lie that was put at or after `from`: this one and the next.
    pub fn points_from(&self, from: Millis) -> impl Iterator<Item = Millis> + use<> {
        let (first, step) = (self.at(from), self.step);
        (0..).map(move |k| first.after(step * k))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{look_step::LookStep, time::TickLength, wheel::WheelNumber};

    #[test]
    fn the_first_look_of_a_near_task_is_found_with_ticks_longer_than_its_step() {
        for (tick, step) in [(1, 5), (1, 60), (10, 5), (60, 5), (60, 45), (60, 3600)] {
            let tick = TickLength::new(Duration::from_secs(tick)).unwrap();
            let shape = Shape::new(1, tick, 8).unwrap();
            let step = LookStep::covering(Duration::from_secs(step));
            for start in [60_000, 60_001, 73_999, 119_999, 120_000] {
                let start = Millis(start);
                let id = TaskId::new(start, WheelNumber::new(0).unwrap(), 7).with_look_step(step);
                let grid = Grid::of(id, &shape);
                let points = grid.near_points(start, &shape, 2);
                for ahead in 0..=3 {
                    let closed = tick.end_of(tick.tick_of(start).plus(ahead));
                    let look = grid.for_near(start, closed);
                    assert!(
                        points.contains(&look),
                        "{tick:?} {step:?} {start:?} {ahead}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_look_of_a_waiting_task_is_always_found_and_comes_ever_more_seldom() {
        let shape = Shape::new(1, TickLength::new(Duration::from_secs(1)).unwrap(), 8).unwrap();
        for seconds in [5, 60, 900, 100_000] {
            let step = LookStep::covering(Duration::from_secs(seconds));
            let id =
                TaskId::new(Millis(12_345), WheelNumber::new(0).unwrap(), 7).with_look_step(step);
            let grid = Grid::of(id, &shape);
            let mut looks = vec![grid.one_step_after(id.first_start())];
            while looks.len() < 200 {
                let now = looks[looks.len() - 1];
                let next = grid.backed_off(now, now.since(id.first_start()));
                for at in [now.0 + 1, (now.0 + next.0) / 2, next.0] {
                    assert!(
                        grid.points_around(Millis(at)).contains(&next),
                        "{seconds} s, {next} at {at}"
                    );
                }
                let interval = next.since(now);
                assert!(interval <= noted_for(id));
                looks.push(next);
            }
            let hour = id.first_start().after(Duration::from_secs(3600));
            let copies = looks.iter().filter(|look| **look < hour).count();
            assert!(
                copies < 32,
                "{copies} looks in an hour at a step of {seconds} s"
            );
        }
    }

    #[test]
    fn chains_of_one_task_meet_within_a_step() {
        let shape = Shape::new(1, TickLength::new(Duration::from_secs(1)).unwrap(), 8).unwrap();
        let step = LookStep::covering(Duration::from_secs(40));
        assert_eq!(step.duration(), Duration::from_secs(40));
        let id = TaskId::new(Millis(12_345), WheelNumber::new(0).unwrap(), 7).with_look_step(step);
        let grid = Grid::of(id, &shape);
        for now in (0..200_000).step_by(777) {
            let next = grid.one_step_after(Millis(now));
            assert!((20_000..=60_000).contains(&(next.0 - now)), "{now}");
            assert_eq!((next.0 - 13_000).rem_euclid(40_000), 0);
            let near = grid.for_near(Millis(now), Millis(now + 2_000));
            assert!(near.0 >= now + 7_000 && near.0 < now + 47_000);
            let open = grid.open_from(Millis(now), &shape, Tick(100));
            assert!(shape.tick().tick_of(open) > Tick(100) && open.0 >= now);
        }
    }
}
