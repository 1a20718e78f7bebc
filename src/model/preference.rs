//! Which node should own which wheel: an even share of the wheels for each live node that is ready.
//!
//! Every node computes the same answer from the same list without talking. Weights are those of rendezvous hashing (Thaler and
//! Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996), so that a node that joins or leaves moves few wheels
//! beside those that it gains or loses. Chance alone does not share evenly: of 64 wheels one of 16 nodes would have 8 to 10
//! instead of 4, and a backlog is worked off when the most loaded node is done.
//!
//! A list that differs between nodes for a moment costs a late hand-over, never a task: the clock row decides who owns a wheel.

use std::collections::{HashMap, hash_map::Entry};

use super::{ids::NodeId, wheel::WheelNumber};

/// Who should own each wheel.
#[derive(Debug, Clone, Default)]
pub struct Preferences {
    nodes: Vec<NodeId>,
    owners: HashMap<WheelNumber, NodeId>,
}

impl Preferences {
    /// Shares wheels out among nodes: each gets as many, some one more.
    ///
    /// Of all pairs of a wheel and a node the heaviest is settled first, then the next whose wheel has no owner and whose node
    /// has room: nobody could swap two wheels to mutual advantage (a stable matching, Gale and Shapley, 1962), which is what
    /// keeps moves few when the list changes. Takes a time of wheels x nodes: milliseconds for the largest shape and 16 nodes.
    #[must_use]
    pub fn among(nodes: &[NodeId], wheels: impl Iterator<Item = WheelNumber>) -> Self {
        let wheels: Vec<WheelNumber> = wheels.collect();
        let mut pairs: Vec<(u64, WheelNumber, NodeId)> = wheels
            .iter()
            .flat_map(|wheel| {
                nodes
                    .iter()
                    .map(|node| (weight(*node, *wheel), *wheel, *node))
            })
            .collect();
        pairs.sort_unstable_by(|one, other| other.cmp(one));
        let mut owners = HashMap::new();
        let mut shares: HashMap<NodeId, usize> = HashMap::new();
        let least = wheels.len().checked_div(nodes.len()).unwrap_or(0);
        // Those that are left over come last: one for a node at most.
        for room in [least, least + 1] {
            for (_, wheel, node) in &pairs {
                let share = shares.entry(*node).or_default();
                if *share < room
                    && let Entry::Vacant(owner) = owners.entry(*wheel)
                {
                    owner.insert(*node);
                    *share += 1;
                }
            }
        }
        Self {
            nodes: nodes.to_vec(),
            owners,
        }
    }

    /// Returns the nodes that share the wheels, as they were given.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns the node that should own a wheel; none when nobody is ready.
    #[must_use]
    pub fn owner(&self, wheel: WheelNumber) -> Option<NodeId> {
        self.owners.get(&wheel).copied()
    }
}

fn weight(node: NodeId, wheel: WheelNumber) -> u64 {
    let (high, low) = node.0.as_u64_pair();
    mix(mix(high ^ mix(low)) ^ u64::from(wheel.get()))
}

/// Finalizer of SplitMix64 (Steele, Lea, Flood, 2014): every input bit reaches every output bit.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn nodes(count: u128) -> Vec<NodeId> {
        (1..=count)
            .map(|n| NodeId(Uuid::from_u128(n * 0x1234_5678_9abc)))
            .collect()
    }

    fn wheels(count: u16) -> impl Iterator<Item = WheelNumber> {
        (0..count).map(|wheel| WheelNumber::new(wheel).unwrap())
    }

    #[test]
    fn each_node_has_the_same_share_or_one_more() {
        for (count, of) in [(4, 3), (4, 16), (16, 5), (64, 16), (256, 7), (4096, 16)] {
            let nodes = nodes(of);
            let shared = Preferences::among(&nodes, wheels(count));
            let of_node = |node: &NodeId| {
                let own = wheels(count).filter(|wheel| shared.owner(*wheel) == Some(*node));
                own.count()
            };
            let shares: Vec<usize> = nodes.iter().map(of_node).collect();
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert_eq!(shares.iter().sum::<usize>(), usize::from(count));
            assert!(most - least <= 1, "{count} wheels: {shares:?}");
        }
        let nobody = Preferences::among(&[], wheels(4));
        assert_eq!(nobody.owner(WheelNumber::new(0).unwrap()), None);
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let mut nodes = nodes(7);
        let one = Preferences::among(&nodes, wheels(64));
        nodes.reverse();
        assert_eq!(one.owners, Preferences::among(&nodes, wheels(64)).owners);
    }

    #[test]
    fn a_node_that_leaves_moves_few_wheels_beside_its_own() {
        for (count, of) in [(16, 2), (16, 5), (64, 5), (64, 16), (256, 8)] {
            let (mut moved, mut own) = (0, 0);
            let all = nodes(of);
            let before = Preferences::among(&all, wheels(count));
            for gone in &all {
                let left: Vec<NodeId> = all.iter().copied().filter(|node| node != gone).collect();
                let after = Preferences::among(&left, wheels(count));
                let changed = |wheel: &WheelNumber| before.owner(*wheel) != after.owner(*wheel);
                moved += wheels(count).filter(changed).count();
                let of_gone = |wheel: &WheelNumber| before.owner(*wheel) == Some(*gone);
                own += wheels(count).filter(of_gone).count();
            }
            assert!(
                moved * 2 <= own * 5,
                "{count} wheels, {of} nodes: {moved} for {own}"
            );
        }
    }
}
