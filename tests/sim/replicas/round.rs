//! A conditional write is a round of one register per partition for its caller; the rounds follow each other.
//!
//! The model has the decisions of Paxos, not its messages. A round first finishes or overtakes the change
//! that an earlier one left accepted, then judges the conditions against the decided rows. A round that tells
//! its caller anything has completed the decision before it at a quorum. The rows of the
//! tables show which replica has learned them: the newest version is the decision, and a quorum read sees it
//! only once a quorum holds it.

use std::{collections::btree_map, sync::Arc, time::Duration};

use tickwheel::{
    model::{
        clock::ClockRow,
        ids::TaskId,
        record,
        state::{Expect, TaskRow, Transition},
        wheel::{Slot, WheelNumber},
    },
    store::Swapped,
};

use super::{
    cluster::{Arrival, Cluster, Who},
    faults::{SwapFate, one_of},
    row::{Row, Version},
    set::Set,
    tables::Write,
};

/// The subject of one round.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Partition {
    Clock(WheelNumber),
    Tasks(WheelNumber, Slot),
    Record(record::Name),
}

/// A conditional write: all of it, or nothing.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Clock {
        wheel: WheelNumber,
        from: ClockRow,
        to: ClockRow,
    },
    Tasks(Vec<Transition>),
    Record(record::Change),
}

/// The replicas that learn a decision, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub(super) at_once: Set,
    later: Set,
    after: Duration,
    hinted: Set,
}

impl Spread {
    const fn only(replicas: Set) -> Self {
        Self {
            at_once: replicas,
            later: Set::NONE,
            after: Duration::ZERO,
            hinted: Set::NONE,
        }
    }
}

impl Cluster {
    /// Draws the fate of a conditional write that is about to be sent.
    pub(super) fn swap_fate(&mut self, node: usize) -> SwapFate {
        if self.is_calm() {
            return SwapFate::Answered;
        }
        let drawn = match self.next_swaps.pop_front() {
            Some(fate) => {
                self.consider_calm();
                fate
            }
            None => self.faults.swap_fate(&mut self.dice),
        };
        if self.reach(node).is_quorum() || matches!(drawn, SwapFate::Late { .. }) {
            return drawn;
        }
        if self.dice.coin() {
            SwapFate::Fails
        } else {
            SwapFate::Lost
        }
    }

    /// Replaces a clock; nothing when the wheel has none.
    pub(super) fn swap_clock(
        &mut self,
        node: usize,
        (wheel, from, to): (WheelNumber, ClockRow, ClockRow),
        fate: SwapFate,
    ) -> Option<Swapped<ClockRow>> {
        let change = Change::Clock { wheel, from, to };
        let Some(fate) = self.before_the_round(node, fate, || change.clone()) else {
            return Some(Swapped::Unknown);
        };
        self.settle(&Partition::Clock(wheel));
        let reached = self.reached_by(node, fate);
        if let Some(row) = self.tables.clocks.get_mut(&wheel) {
            row.teach(reached);
        }
        let there = self.decided_clock(wheel)?;
        if !matches_but_wall(&from, &there) {
            return Some(if fate == SwapFate::Answered {
                Swapped::Conflict(there)
            } else {
                Swapped::Unknown
            });
        }
        let Some(spread) = self.spread(node, fate) else {
            let accepted = (node, change);
            self.accepted.insert(Partition::Clock(wheel), accepted);
            return Some(Swapped::Unknown);
        };
        self.last_ballot += 1;
        self.decide_clock(node, wheel, to, spread);
        Some(if fate == SwapFate::Answered {
            Swapped::Applied
        } else {
            Swapped::Unknown
        })
    }

    /// Replaces the rows of slot-mates: those that lose are named, the others are one write.
    pub(super) fn swap_tasks(
        &mut self,
        node: usize,
        partition: &Partition,
        transitions: &[&Transition],
        fate: SwapFate,
    ) -> Vec<Swapped<Expect>> {
        let unknown = || vec![Swapped::Unknown; transitions.len()];
        let all = || Change::Tasks(transitions.iter().map(|one| (*one).clone()).collect());
        let Some(fate) = self.before_the_round(node, fate, all) else {
            return unknown();
        };
        self.settle(partition);
        let reached = self.reached_by(node, fate);
        for transition in transitions {
            if let Some(row) = self.tables.tasks.get_mut(&transition.row.id) {
                row.teach(reached);
            }
        }
        let mut answers: Vec<_> = transitions.iter().map(|one| self.judge(one)).collect();
        let refused = answers.iter().any(|answer| *answer != Swapped::Unknown);
        // A write that one row refuses is refused as a whole; a caller that does not learn which one does not
        // send the others again.
        if fate != SwapFate::Answered && refused && self.dice.coin() {
            return unknown();
        }
        let winners: Vec<usize> = (0..answers.len())
            .filter(|index| answers[*index] == Swapped::Unknown)
            .collect();
        if winners.is_empty() {
            return answers;
        }
        let Some(spread) = self.spread(node, fate) else {
            let left = winners.iter().map(|index| transitions[*index].clone());
            let change = Change::Tasks(left.collect());
            self.accepted.insert(partition.clone(), (node, change));
            return answers;
        };
        self.last_ballot += 1;
        for index in winners {
            self.decide_task(node, transitions[index].clone(), spread);
            if fate == SwapFate::Answered {
                answers[index] = Swapped::Applied;
            }
        }
        answers
    }

    /// Handles writes that never reach a round, or not yet; returns the fate of the round for the others.
    pub(super) fn before_the_round(
        &mut self,
        node: usize,
        fate: SwapFate,
        change: impl FnOnce() -> Change,
    ) -> Option<SwapFate> {
        match fate {
            SwapFate::Late { after } => {
                self.schedule(node, after, Arrival::Swap(change()));
                None
            }
            SwapFate::Lost | SwapFate::Fails => None,
            SwapFate::Answered | SwapFate::Decided { .. } | SwapFate::Accepted => {
                // The quorum may have gone since the write was sent.
                self.reach(node).is_quorum().then_some(fate)
            }
        }
    }

    /// The replicas that hold the decision before this round, once the round has told its caller anything: it has completed that
    /// decision at a quorum before it judged a condition by it (the repair of an incomplete commit in Cassandra's Paxos).
    pub(super) fn reached_by(&self, node: usize, fate: SwapFate) -> Set {
        match fate {
            SwapFate::Answered => self.reach(node),
            _ => Set::NONE,
        }
    }

    /// Returns the present row when a condition is not met, and unknown as long as the row fulfils it.
    fn judge(&self, transition: &Transition) -> Swapped<Expect> {
        let row = self.decided_task(transition.row.id);
        if row.is_some_and(|row| row.nonce == transition.row.nonce) {
            Swapped::Applied
        } else if transition.expect.holds(row) {
            Swapped::Unknown
        } else {
            Swapped::Conflict(row.map_or(Expect::Absent, TaskRow::seen))
        }
    }

    /// Finishes or overtakes the change that a round of the partition left accepted.
    pub(super) fn settle(&mut self, partition: &Partition) {
        if self.accepted.is_empty() {
            return;
        }
        let Some((node, change)) = self.accepted.remove(partition) else {
            return;
        };
        let finished = self.dice.coin() && self.holds(&change);
        self.note(
            Who::Node(node),
            format_args!("{partition:?} accepted before, finished: {finished}"),
        );
        if finished {
            let spread = self.spread_over(Set::ALL.without(self.down));
            self.decide(node, change, spread);
        }
    }

    /// A conditional write arrives long after its caller has given up.
    pub(super) fn decide_late(&mut self, node: usize, change: Change) {
        let partition = match &change {
            Change::Clock { wheel, .. } => Some(Partition::Clock(*wheel)),
            Change::Tasks(all) => all.first().map(|first| self.home(first.row.id)),
            Change::Record(change) => Some(Partition::Record(change.record().name.clone())),
        };
        let up = Set::ALL.without(self.down);
        let Some(partition) = partition.filter(|_| up.is_quorum()) else {
            return;
        };
        self.settle(&partition);
        let applied = self.holds(&change);
        self.note(
            Who::Node(node),
            format_args!("{partition:?} arrives late, applied: {applied}"),
        );
        if applied {
            let spread = self.spread_over(up);
            self.decide(node, change, spread);
        }
    }

    pub(super) fn home(&self, id: TaskId) -> Partition {
        Partition::Tasks(id.wheel(), id.home_slot(&self.tables.shape))
    }

    /// The decided row of a task.
    pub(super) fn decided_task(&self, id: TaskId) -> Option<&TaskRow> {
        let row = self.tables.tasks.get(&id)?;
        row.newest().live(|| self.now())
    }

    /// The decided clock of a wheel.
    pub(super) fn decided_clock(&self, wheel: WheelNumber) -> Option<ClockRow> {
        self.tables.clocks.get(&wheel)?.newest().value
    }

    /// Whether every condition of a change is met.
    fn holds(&self, change: &Change) -> bool {
        match change {
            Change::Clock { wheel, from, .. } => {
                let there = self.decided_clock(*wheel);
                there.is_some_and(|there| matches_but_wall(from, &there))
            }
            Change::Tasks(all) => all.iter().all(|one| self.judge(one) == Swapped::Unknown),
            Change::Record(change) => self.judge_record(change) == record::Judged::Holds,
        }
    }

    /// The replicas that learn a decision; none for a change that is only accepted.
    pub(super) fn spread(&mut self, node: usize, fate: SwapFate) -> Option<Spread> {
        match fate {
            SwapFate::Accepted => None,
            SwapFate::Decided { learned } => Some(Spread::only(learned.and(self.reach(node)))),
            _ if self.is_calm() => Some(Spread::only(Set::ALL)),
            _ => {
                let reach = self.reach(node);
                Some(self.spread_over(reach))
            }
        }
    }

    /// Two of the reached replicas learn a decision at once, the third a little later; the others learn it
    /// when they are back. Or only the two ever learn it.
    fn spread_over(&mut self, reach: Set) -> Spread {
        let last = Set::only(one_of(&mut self.dice));
        let later = if reach == Set::ALL { last } else { Set::NONE };
        let (after, missed) = (self.faults.latency, self.faults.decisions_missed);
        let spread = Spread {
            at_once: reach.without(later),
            later,
            after: self.dice.between(after),
            hinted: Set::ALL.without(reach),
        };
        if self.dice.hits(missed) {
            Spread::only(spread.at_once)
        } else if spread.after.is_zero() {
            Spread {
                at_once: reach,
                later: Set::NONE,
                ..spread
            }
        } else {
            spread
        }
    }

    /// Writes a change whose conditions are met.
    fn decide(&mut self, node: usize, change: Change, spread: Spread) {
        self.last_ballot += 1;
        match change {
            Change::Clock { wheel, to, .. } => self.decide_clock(node, wheel, to, spread),
            Change::Tasks(all) => {
                for one in all {
                    self.decide_task(node, one, spread);
                }
            }
            Change::Record(change) => self.decide_record(node, &change, spread),
        }
    }

    fn decide_clock(&mut self, node: usize, wheel: WheelNumber, to: ClockRow, spread: Spread) {
        let Some(row) = self.tables.clocks.get_mut(&wheel) else {
            return;
        };
        if let Some(from) = row.newest().value
            && !from.may_become(&to, &self.tables.shape)
        {
            let violation = format!("wheel {} by n{node}: {from:?} -> {to:?}", wheel.get());
            self.violations.push(violation);
        }
        let version = Version::new(self.last_ballot, to, None);
        row.succeed(version, spread.at_once);
        self.tell_others(node, Write::LearnClock(wheel, self.last_ballot), spread);
    }

    fn decide_task(&mut self, node: usize, transition: Transition, spread: Spread) {
        let Transition { row, ttl, .. } = transition;
        let id = row.id;
        let expires = ttl.map(|ttl| self.now().after(ttl));
        let version = Version::new(self.last_ballot, row, expires);
        match self.tables.tasks.entry(id) {
            btree_map::Entry::Occupied(mut there) => {
                there.get_mut().succeed(version, spread.at_once);
            }
            btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Row::new(version, spread.at_once));
            }
        }
        self.tell_others(node, Write::LearnTask(id, self.last_ballot), spread);
    }

    pub(super) fn tell_others(&mut self, node: usize, write: Write, spread: Spread) {
        if spread.later.is_empty() && spread.hinted.is_empty() {
            return;
        }
        let write = Arc::new(write);
        for replica in spread.hinted.members() {
            self.hints[replica].push(Arc::clone(&write));
        }
        if !spread.later.is_empty() {
            let arrival = Arrival::Write {
                write,
                at: spread.later,
                sure: false,
            };
            self.schedule(node, spread.after, arrival);
        }
    }
}

/// Whether a clock is the expected one in every field but the wall.
fn matches_but_wall(from: &ClockRow, there: &ClockRow) -> bool {
    ClockRow {
        wall: there.wall,
        ..*from
    } == *there
}
