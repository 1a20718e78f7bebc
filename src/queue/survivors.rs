//! The survivors of a node agree without a word on who takes its members out of a group of the queue.
//!
//! All of them look at the list of the group's members. The first in order acts at its first look, and the next one at its
//! second look if the same member is there still. A member that has joined anew since the first look belongs to a node that
//! lives, and is left alone: a list of nodes that is wrong costs a group few rebalances.
//!
//! It is pure: instants are arguments, and the queue carries out what it says.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    flaw::{self, Flaw},
    limits,
    model::{ids::NodeId, preference},
    time_source::Moment,
};

/// Looks without a member of the dead node after which a group is not looked at again.
const CLEAN_LOOKS: u32 = 2;

/// A member of a group, and its node if it has one.
pub type Listed<M> = (M, Option<NodeId>);

/// The looks of one process for members of dead nodes. A member is known by what is new whenever it joins.
#[derive(Debug)]
pub struct Survivors<M> {
    deaths: BTreeMap<NodeId, Death<M>>,
}

#[derive(Debug)]
struct Death<M> {
    since: Moment,
    groups: BTreeMap<String, Looks<M>>,
}

/// The looks in one group.
#[derive(Debug)]
struct Looks<M> {
    count: usize,
    clean: u32,
    /// The members that the first look found.
    first: BTreeSet<M>,
}

impl<M> Default for Survivors<M> {
    fn default() -> Self {
        Self {
            deaths: BTreeMap::new(),
        }
    }
}

impl<M: Ord + Clone> Survivors<M> {
    /// Notes that a node is dead at `now`. Earlier deaths are forgotten in time.
    pub fn note(&mut self, dead: NodeId, now: Moment) {
        let kept = limits::TAKE_OUT_FOR * 2;
        self.deaths.retain(|_, death| now.since(death.since) < kept);
        self.deaths.entry(dead).or_insert_with(|| Death {
            since: now,
            groups: BTreeMap::new(),
        });
    }

    /// Tells whether a group is worth a look: it may have members of the dead node.
    #[must_use]
    pub fn is_open(&self, dead: NodeId, group: &str) -> bool {
        let looks = self.deaths.get(&dead).map(|death| death.groups.get(group));
        looks.is_some_and(|looks| looks.is_none_or(|looks| looks.clean < CLEAN_LOOKS))
    }

    /// Takes notice of the members of a group; returns those that this node takes out now.
    pub fn take_notice(
        &mut self,
        me: NodeId,
        dead: NodeId,
        group: &str,
        members: &[Listed<M>],
    ) -> Vec<M> {
        // Of several nodes that have died none has a turn.
        let nodes: BTreeSet<NodeId> = members.iter().filter_map(|(_, node)| *node).collect();
        let live = nodes
            .into_iter()
            .filter(|node| !self.deaths.contains_key(node));
        let turn = preference::turn(me, key(dead, group), live);
        let Some(death) = self.deaths.get_mut(&dead) else {
            return Vec::new();
        };
        let looks = death
            .groups
            .entry(group.to_owned())
            .or_insert_with(|| Looks {
                count: 0,
                clean: 0,
                first: BTreeSet::new(),
            });
        let of_dead = members.iter().filter(|(_, node)| *node == Some(dead));
        let of_dead = of_dead.map(|(member, _)| member.clone()).collect();
        looks.take_notice(&of_dead, turn)
    }
}

/// Returns what the order of the survivors depends on: another one comes first for another group.
fn key(dead: NodeId, group: &str) -> u64 {
    let begin = dead.0.as_u64_pair().1;
    let mixed = |key, byte| preference::mix(key ^ u64::from(byte));
    group.bytes().fold(begin, mixed)
}

impl<M: Ord + Clone> Looks<M> {
    fn take_notice(&mut self, of_dead: &BTreeSet<M>, turn: usize) -> Vec<M> {
        if self.count == 0 || flaw::is(Flaw::TakesOutWhoJoinedAnew) {
            self.first.clone_from(of_dead);
        }
        let is_due = turn <= self.count;
        self.count += 1;
        let left: Vec<M> = self.first.intersection(of_dead).cloned().collect();
        if left.is_empty() {
            self.clean += 1;
        }
        if is_due { left } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::time_source::TimeSource;

    const DEAD: NodeId = NodeId(Uuid::from_u128(1));

    fn nodes() -> [NodeId; 3] {
        [2, 3, 4].map(|number| NodeId(Uuid::from_u128(number)))
    }

    fn group(of_dead: &'static str) -> Vec<Listed<&'static str>> {
        let live = ["b", "c", "d"].into_iter().zip(nodes());
        let live = live.map(|(member, node)| (member, Some(node)));
        let others = [(of_dead, Some(DEAD)), ("a worker", None)];
        live.chain(others).collect()
    }

    /// The looks of each survivor, in their order: the one that acts first comes first.
    fn survivors() -> Vec<(NodeId, Survivors<&'static str>)> {
        let now = TimeSource::real().moment();
        let mut order = nodes();
        order.sort_by_key(|node| preference::turn(*node, key(DEAD, "g"), nodes()));
        let begun = order.map(|node| {
            let mut survivors = Survivors::default();
            survivors.note(DEAD, now);
            (node, survivors)
        });
        begun.into()
    }

    #[test]
    fn one_acts_at_once_and_the_next_ones_if_it_does_not() {
        let mut survivors = survivors();
        for look in 0..3 {
            let members = group("a");
            let acting = survivors.iter_mut().map(|(node, survivors)| {
                assert!(survivors.is_open(DEAD, "g"));
                survivors.take_notice(*node, DEAD, "g", &members) == ["a"]
            });
            let acting: Vec<bool> = acting.collect();
            let expected: Vec<bool> = (0..3).map(|turn| turn <= look).collect();
            assert_eq!(acting, expected);
        }
    }

    #[test]
    fn a_member_that_has_joined_anew_is_left_alone() {
        for (node, mut survivors) in survivors() {
            survivors.take_notice(node, DEAD, "g", &group("a"));
            for _ in 0..2 {
                let again = survivors.take_notice(node, DEAD, "g", &group("a again"));
                assert!(again.is_empty());
            }
            assert!(!survivors.is_open(DEAD, "g"), "it is looked at no more");
        }
    }

    #[test]
    fn a_survivor_that_has_died_as_well_has_no_turn() {
        let mut survivors = survivors();
        let first = survivors.remove(0).0;
        let (node, second) = &mut survivors[0];
        second.note(first, TimeSource::real().moment());
        assert_eq!(second.take_notice(*node, DEAD, "g", &group("a")), ["a"]);
    }

    #[test]
    fn groups_of_nodes_that_live_are_not_looked_at() {
        assert!(!Survivors::<&str>::default().is_open(DEAD, "g"));
    }
}
