//! The model computes for the simulation how a cluster works off a backlog: events in order of time, without
//! chance.
//!
//! # Assumptions
//! - The store and the broker always answer after the same time, under any load: they are not the limit.
//! - A node has some cores; its computations wait in one queue for the next free core. There is no other
//!   work.
//! - A wheel belongs to the node that the service's own rule chooses for it, for the whole run. All wheels
//!   have backlogs of the same length.
//! - A wheel is read page by page, one page at a time: the answer of the store, then the processor. It is
//!   read as far ahead as the service's bound allows. For each page the looks are written, then it is
//!   published, then acknowledged; pages overlap in that.
//! - After every so many acknowledged entries the clock is swapped, and the reader waits for it. The service
//!   does not wait as long, so the model is rather too slow.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use tickwheel::{
    limits,
    model::{ids::NodeId, preference::preferred, wheel::WheelNumber},
};
use uuid::Uuid;

/// Microseconds.
type Time = u64;

/// The costs of the steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// Work of a node for a task: reading, its look, publishing.
    pub(super) task_us: f64,
    /// Until the store has answered with a page, has written a page's looks, has swapped a clock.
    pub(super) page_us: Time,
    pub(super) look_us: Time,
    pub(super) swap_us: Time,
    /// Until the broker has acknowledged a page's records.
    pub(super) broker_us: Time,
    pub(super) cores: usize,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    pub(super) per_second: f64,
    /// Share of all cores' time that was used.
    pub(super) busy: f64,
    /// The most wheels that one node has.
    pub(super) wheels_max: usize,
}

/// The next step of a page of a wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Answered,
    Computed,
    Looked,
    Acknowledged,
    Swapped,
}

#[derive(Debug, Default, Clone)]
struct Wheel {
    node: usize,
    unread: u64,
    /// Read and not yet acknowledged.
    ahead: u64,
    /// Acknowledged since the last swap.
    unswapped: u64,
    is_reading: bool,
    is_swapping: bool,
}

struct World {
    costs: Costs,
    wheels: Vec<Wheel>,
    /// When each core of each node is free.
    cores: Vec<Vec<Time>>,
    busy_us: Time,
    events: BinaryHeap<Reverse<(Time, u64, usize, Step)>>,
    /// Sizes of the pages that a wheel has under way, in order.
    pages: Vec<VecDeque<u64>>,
    number: u64,
}

/// Works off `tasks` over so many wheels and nodes.
pub(super) fn run(costs: Costs, wheels: u16, nodes: usize, tasks: u64) -> Outcome {
    let ids: Vec<NodeId> = (1..=nodes as u128)
        .map(|n| NodeId(Uuid::from_u128(n * 0x9e37_79b9_7f4a_7c15)))
        .collect();
    let owner = |wheel: u16| {
        let chosen = preferred(WheelNumber::from_low_bits(wheel), ids.iter().copied());
        ids.iter().position(|id| Some(*id) == chosen).unwrap_or(0)
    };
    let wheel = |wheel| Wheel {
        node: owner(wheel),
        unread: tasks / u64::from(wheels),
        ..Wheel::default()
    };
    let wheels: Vec<Wheel> = (0..wheels).map(wheel).collect();
    let wheels_max = (0..nodes)
        .map(|node| wheels.iter().filter(|wheel| wheel.node == node).count())
        .max();
    let mut world = World {
        costs,
        pages: vec![VecDeque::new(); wheels.len()],
        cores: vec![vec![0; costs.cores.max(1)]; nodes],
        wheels,
        busy_us: 0,
        events: BinaryHeap::new(),
        number: 0,
    };
    let total: u64 = world.wheels.iter().map(|wheel| wheel.unread).sum();
    let ended = world.work_off().max(1);
    let capacity = ended as f64 * (nodes * costs.cores.max(1)) as f64;
    Outcome {
        per_second: total as f64 * 1e6 / ended as f64,
        busy: world.busy_us as f64 / capacity,
        wheels_max: wheels_max.unwrap_or(0),
    }
}

impl World {
    /// Returns the time of the last event.
    fn work_off(&mut self) -> Time {
        for wheel in 0..self.wheels.len() {
            self.read(0, wheel);
        }
        let mut now = 0;
        while let Some(Reverse((at, _, wheel, step))) = self.events.pop() {
            now = at;
            self.step(now, wheel, step);
        }
        now
    }

    fn at(&mut self, time: Time, wheel: usize, step: Step) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, wheel, step)));
    }

    /// Asks for the next page, if the wheel may read.
    fn read(&mut self, now: Time, index: usize) {
        let page_us = self.costs.page_us;
        let Some(wheel) = self.wheels.get_mut(index) else {
            return;
        };
        let room = wheel.ahead + limits::PAGE_ROWS_MAX as u64 <= limits::AHEAD_ENTRIES_MAX as u64;
        if wheel.is_reading || wheel.is_swapping || wheel.unread == 0 || !room {
            return;
        }
        let page = wheel.unread.min(limits::PAGE_ROWS_MAX as u64);
        wheel.unread -= page;
        wheel.ahead += page;
        wheel.is_reading = true;
        if let Some(pages) = self.pages.get_mut(index) {
            pages.push_back(page);
        }
        self.at(now + page_us, index, Step::Answered);
    }

    /// Lets the node of a wheel compute a page on the core that is free first. Returns when it is done.
    fn compute(&mut self, now: Time, index: usize) -> Time {
        let node = self.wheels.get(index).map_or(0, |wheel| wheel.node);
        let page = self
            .pages
            .get(index)
            .and_then(|pages| pages.back())
            .copied()
            .unwrap_or(0);
        let took = (page as f64 * self.costs.task_us) as Time;
        self.busy_us += took;
        let free = self
            .cores
            .get_mut(node)
            .and_then(|cores| cores.iter_mut().min());
        free.map_or(now, |free| {
            *free = now.max(*free) + took;
            *free
        })
    }

    fn step(&mut self, now: Time, index: usize, step: Step) {
        match step {
            Step::Answered => {
                let done = self.compute(now, index);
                if let Some(wheel) = self.wheels.get_mut(index) {
                    wheel.is_reading = false;
                }
                self.at(done, index, Step::Computed);
                self.read(now, index);
            }
            Step::Computed => self.at(now + self.costs.look_us, index, Step::Looked),
            Step::Looked => self.at(now + self.costs.broker_us, index, Step::Acknowledged),
            Step::Acknowledged => self.acknowledge(now, index),
            Step::Swapped => {
                if let Some(wheel) = self.wheels.get_mut(index) {
                    wheel.is_swapping = false;
                }
                self.read(now, index);
            }
        }
    }

    fn acknowledge(&mut self, now: Time, index: usize) {
        let page = self
            .pages
            .get_mut(index)
            .and_then(VecDeque::pop_front)
            .unwrap_or(0);
        let Some(wheel) = self.wheels.get_mut(index) else {
            return;
        };
        wheel.ahead -= page;
        wheel.unswapped += page;
        if wheel.unswapped >= limits::ENTRIES_PER_SWAP_MAX as u64 && !wheel.is_swapping {
            wheel.unswapped = 0;
            wheel.is_swapping = true;
            self.at(now + self.costs.swap_us, index, Step::Swapped);
        }
        self.read(now, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        task_us: 20.0,
        page_us: 10_000,
        look_us: 5_000,
        swap_us: 10_000,
        broker_us: 2_000,
        cores: 2,
    };

    #[test]
    fn one_node_is_bound_by_its_cores() {
        let outcome = run(COSTS, 16, 1, 1_600_000);
        // Two cores at 20 us a task.
        assert!(
            (outcome.per_second - 100_000.0).abs() < 2_000.0,
            "{outcome:?}"
        );
        assert!(outcome.busy > 0.97, "{outcome:?}");
    }

    #[test]
    fn one_wheel_is_bound_by_its_reader_however_many_nodes_there_are() {
        let costs = Costs {
            task_us: 0.0,
            swap_us: 0,
            ..COSTS
        };
        let outcomes = [1, 4, 16].map(|nodes| run(costs, 1, nodes, 1_000_000));
        for outcome in outcomes {
            // A page of a thousand rows every 10 ms.
            assert!(
                (outcome.per_second - 100_000.0).abs() < 1_000.0,
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn more_nodes_never_make_it_slower_by_much_and_unequal_shares_cap_it() {
        let one = run(COSTS, 64, 1, 1_600_000).per_second;
        let four = run(COSTS, 64, 4, 1_600_000);
        let share = 64.0 / four.wheels_max as f64;
        assert!(
            four.per_second > one * 2.0 && four.per_second < one * share * 1.05,
            "{four:?}"
        );
    }
}
