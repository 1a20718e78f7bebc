//! The group shares the partitions of topics among its members for the memory broker.
//!
//! With sessions it does so as a stock broker does with the classic protocol. A member that is heard of no more holds its
//! partitions until its session ends. While members change, nothing is delivered to any of them; that lasts until all who are
//! in the group have joined again, so a dead one holds it up. Each member begins with what was committed.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    model::{ids::NodeId, time::Millis},
    queue::{low_water::LowWater, survivors::Listed},
};

/// The number of a group's member, in the order of joining.
pub(super) type Member = u64;

/// How long members need to join again: they hear of it with a heartbeat, of which there is one a second.
const REBALANCE: Duration = Duration::from_millis(600);

/// A partition as a group has it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) owner: Option<Member>,
    pub(super) position: i64,
    pub(super) low_water: LowWater,
}

#[derive(Debug)]
struct Joined {
    topics: Vec<String>,
    node: Option<NodeId>,
    /// When its session ends; none while it lives.
    ends: Option<Millis>,
}

/// A group.
#[derive(Debug, Default)]
pub(super) struct Group {
    members: BTreeMap<Member, Joined>,
    pub(super) held: BTreeMap<(String, i32), Held>,
    /// Rebalances so far: each moves every partition on by one member.
    pub(super) turns: usize,
    /// Since when its members join again.
    rebalancing: Option<Millis>,
}

impl Group {
    /// Takes a member in.
    pub(super) fn join(&mut self, member: Member, topics: &[String], node: Option<NodeId>) -> bool {
        let joined = Joined {
            topics: topics.to_vec(),
            node,
            ends: None,
        };
        self.members.insert(member, joined);
        true
    }

    /// Takes a member out; tells whether it was there.
    pub(super) fn leave(&mut self, member: Member) -> bool {
        self.members.remove(&member).is_some()
    }

    /// Returns its members and their nodes.
    pub(super) fn listed(&self) -> Vec<Listed<Member>> {
        let members = self.members.iter();
        members
            .map(|(member, joined)| (*member, joined.node))
            .collect()
    }

    /// Notes that a member is heard of no more.
    pub(super) fn dies(&mut self, member: Member, ends: Millis) {
        if let Some(joined) = self.members.get_mut(&member) {
            joined.ends = Some(ends);
        }
    }

    pub(super) fn has(&self, member: Member) -> bool {
        self.members.contains_key(&member)
    }

    /// Lets the members join again, from now on.
    pub(super) fn rebalance_from(&mut self, now: Millis) {
        self.rebalancing = Some(self.rebalancing.unwrap_or(now));
    }

    pub(super) const fn is_rebalancing(&self) -> bool {
        self.rebalancing.is_some()
    }

    /// Ends the sessions whose time has come, and the rebalance once nobody is missing.
    pub(super) fn go_on(&mut self, now: Millis, counts: &BTreeMap<String, i32>) {
        let before = self.members.len();
        let lives = |joined: &Joined| joined.ends.is_none_or(|ends| ends > now);
        self.members.retain(|_, joined| lives(joined));
        if self.members.len() < before {
            self.rebalance_from(now);
        }
        let missing = self.members.values().any(|joined| joined.ends.is_some());
        let since = self.rebalancing.filter(|_| !missing);
        if since.is_some_and(|since| now >= since.after(REBALANCE)) {
            self.rebalancing = None;
            for held in self.held.values_mut() {
                let mark = held.low_water.mark();
                (held.position, held.low_water) = (mark, LowWater::new(mark));
            }
            self.assign(counts);
        }
    }

    /// Returns when the next session or the rebalance ends.
    pub(super) fn next_change(&self) -> Option<Millis> {
        let sessions = self.members.values().filter_map(|joined| joined.ends);
        let ends = self.rebalancing.map(|since| since.after(REBALANCE));
        // One that is held up goes on with the session that holds it up.
        sessions.min().or(ends)
    }

    /// Gives each partition to one member; a partition that changes hands is read again from its low-water mark.
    pub(super) fn assign(&mut self, counts: &BTreeMap<String, i32>) {
        for held in self
            .held
            .iter_mut()
            .filter(|(key, _)| !counts.contains_key(&key.0))
        {
            held.1.owner = None;
        }
        for (name, count) in counts {
            let members: Vec<Member> = self
                .members
                .iter()
                .filter(|(_, joined)| joined.topics.contains(name))
                .map(|(member, _)| *member)
                .collect();
            for (place, partition) in (0..*count).enumerate() {
                let place = (place + self.turns).checked_rem(members.len()).unwrap_or(0);
                let owner = members.get(place).copied();
                let key = (name.clone(), partition);
                if owner.is_none() && !self.held.contains_key(&key) {
                    continue;
                }
                let held = self.held.entry(key).or_insert_with(|| Held {
                    owner,
                    position: 0,
                    low_water: LowWater::new(0),
                });
                if held.owner != owner {
                    let mark = held.low_water.mark();
                    *held = Held {
                        owner,
                        position: mark,
                        low_water: LowWater::new(mark),
                    };
                }
            }
        }
    }
}
