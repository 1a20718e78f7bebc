//! The preference tells every node which node should own which wheel: rendezvous hashing over the live, ready nodes.
//!
//! Every node computes the same answer from the same list without talking. A node that joins or leaves moves only the
//! wheels that it gains or loses (Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996). A list
//! that differs between nodes for a moment costs a late hand-over, never a task: the clock row decides who owns a wheel.

use super::{ids::NodeId, wheel::WheelNumber};

/// Returns the node with the highest weight for the wheel.
pub fn preferred(wheel: WheelNumber, nodes: impl IntoIterator<Item = NodeId>) -> Option<NodeId> {
    nodes
        .into_iter()
        .max_by_key(|node| (weight(*node, wheel), *node))
}

/// Returns how many of the nodes come before one for the work of a key.
pub fn turn(node: NodeId, key: u64, nodes: impl IntoIterator<Item = NodeId>) -> usize {
    let place = |node: NodeId| (weigh(node, key), node);
    let mine = place(node);
    nodes
        .into_iter()
        .filter(|other| place(*other) > mine)
        .count()
}

fn weight(node: NodeId, wheel: WheelNumber) -> u64 {
    weigh(node, u64::from(wheel.get()))
}

fn weigh(node: NodeId, key: u64) -> u64 {
    let (high, low) = node.0.as_u64_pair();
    mix(mix(high ^ mix(low)) ^ key)
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

    #[test]
    fn a_leaving_node_moves_only_its_own_wheels() {
        let all = nodes(4);
        let left = &all[..3];
        for wheel in 0..64 {
            let wheel = WheelNumber::new(wheel).unwrap();
            let before = preferred(wheel, all.iter().copied()).unwrap();
            let after = preferred(wheel, left.iter().copied()).unwrap();
            assert!(before == all[3] || before == after);
        }
    }

    #[test]
    fn each_node_has_a_turn_of_its_own() {
        let all = nodes(5);
        let mut turns: Vec<usize> = all
            .iter()
            .map(|node| turn(*node, 7, all.iter().copied()))
            .collect();
        turns.sort_unstable();
        assert_eq!(turns, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn wheels_spread_over_nodes() {
        let all = nodes(4);
        for node in &all {
            let share = (0..256)
                .filter(|w| {
                    preferred(WheelNumber::new(*w).unwrap(), all.iter().copied()) == Some(*node)
                })
                .count();
            assert!((35..=95).contains(&share), "{share} of 256 wheels");
        }
        assert_eq!(preferred(WheelNumber::new(0).unwrap(), []), None);
    }
}
