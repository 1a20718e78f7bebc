//! The scheduler picks the next items for a consumer among lanes of different urgency: the urgent lane first,
//! and none starves.
//!
//! It is pure. Lane 0 is the most urgent one. While several lanes have items ready, they share `WEIGHTS`
//! among them; a lane that is alone gets everything. Fetching the granted items is left to the caller.

use crate::model::task::Priority;

/// Shares of the first lanes, which are those of the priorities. Every further lane has the share of the last
/// one.
const WEIGHTS: [usize; 3] = [
    Priority::High.share(),
    Priority::Normal.share(),
    Priority::Low.share(),
];

/// The turns of some lanes.
#[derive(Debug, Clone)]
pub struct WeightedRoundRobin {
    /// The number of items that each lane may still take in the current round.
    credits: Vec<usize>,
}

impl WeightedRoundRobin {
    /// Begins a round for a number of lanes.
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        Self {
            credits: (0..lanes).map(weight).collect(),
        }
    }

    /// Grants up to `max` items of those that each lane has ready; returns one number for each lane.
    pub fn grant(&mut self, ready: &[usize], max: usize) -> Vec<usize> {
        let mut granted = vec![0; ready.len()];
        let mut left = max.min(ready.iter().sum());
        while left > 0 {
            let mut progressed = false;
            for ((granted, credit), ready) in granted.iter_mut().zip(&mut self.credits).zip(ready) {
                let count = (ready - *granted).min(*credit).min(left);
                *granted += count;
                *credit -= count;
                left -= count;
                progressed |= count > 0;
            }
            if !progressed {
                self.credits = (0..self.credits.len()).map(weight).collect();
            }
            if self.credits.is_empty() {
                break;
            }
        }
        granted
    }
}

fn weight(lane: usize) -> usize {
    let [.., last] = WEIGHTS;
    WEIGHTS.get(lane).copied().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urgent_are_first_and_the_last_does_not_starve() {
        let mut turns = WeightedRoundRobin::new(3);
        let order: Vec<usize> = (0..42)
            .filter_map(|_| {
                turns
                    .grant(&[1, 1, 1], 1)
                    .iter()
                    .position(|count| *count > 0)
            })
            .collect();
        let of = |lane: usize| order.iter().filter(|one| **one == lane).count();
        assert_eq!((of(0), of(1), of(2)), (32, 8, 2));
        assert!(order[..16].iter().all(|lane| *lane == 0));
    }

    #[test]
    fn a_lane_that_is_alone_gets_everything() {
        let mut turns = WeightedRoundRobin::new(3);
        assert_eq!(turns.grant(&[0, 0, 500], 300), [0, 0, 300]);
        assert_eq!(turns.grant(&[0, 0, 0], 300), [0, 0, 0]);
        assert_eq!(turns.grant(&[1, 1, 1], 300), [1, 1, 1]);
    }

    #[test]
    fn a_large_grant_keeps_the_shares() {
        let mut turns = WeightedRoundRobin::new(3);
        assert_eq!(turns.grant(&[1000, 1000, 1000], 210), [160, 40, 10]);
    }
}
