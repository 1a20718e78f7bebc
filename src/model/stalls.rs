//! The stall record decides for a node how long it leaves wheels to others after a wheel of it stood still.
//!
//! A wheel stands still when nothing of it is acknowledged. Its owner gives it to a node that offers itself, because that node
//! may reach the queue. When no node reaches the queue, each new owner reads all missed ticks again for nothing. So a node
//! stays away for twice as long each time that it stalls again, unless the queue has taken something from it since. After a
//! few rounds no node offers itself, and wheels stay where they are until the queue is back.
//!
//! Times are durations on a clock that never goes back, from any fixed moment.

use std::time::Duration;

/// How long a node stays away after a first stall: long enough for another node to show that it does better.
pub const AVOID: Duration = Duration::from_secs(30);

/// The longest time that a node stays away without a sign of the queue. A wheel whose only other node has recovered meanwhile
/// waits that long at most.
pub const AVOID_MAX: Duration = Duration::from_secs(10 * 60);

/// The stalls of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stalls {
    /// When a wheel of the node was last seen to stand still.
    last: Option<Duration>,
    /// How often the node has stalled in a row.
    count: u32,
}

impl Stalls {
    /// Takes notice that a wheel stands still at `now`. `taken` is when the queue last took something from the node.
    pub fn note(&mut self, now: Duration, taken: Option<Duration>) {
        if taken > self.last {
            self.count = 0;
        }
        if self
            .last
            .is_none_or(|last| now.saturating_sub(last) >= span(self.count))
        {
            self.count = self.count.saturating_add(1);
        }
        self.last = Some(now);
    }

    /// Tells whether the node stays away at `now`; see [`Stalls::note`] for `taken`.
    #[must_use]
    pub fn stays_away(&self, now: Duration, taken: Option<Duration>) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        let long = if taken > self.last {
            AVOID
        } else {
            span(self.count)
        };
        now.saturating_sub(last) < long
    }
}

/// How long a node stays away after this many stalls in a row.
fn span(count: u32) -> Duration {
    if count == 0 {
        return Duration::ZERO;
    }
    let factor = 2_u32.saturating_pow(count - 1);
    AVOID.saturating_mul(factor).min(AVOID_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    /// The time for which a node is away that has just stalled.
    fn away(stalls: &Stalls, now: Duration, taken: Option<Duration>) -> Duration {
        let ends = (1..).map(|half| SECOND * 15 * half);
        let end = { ends }.find(|span| !stalls.stays_away(now + *span, taken));
        let end = end.unwrap();
        assert!(stalls.stays_away(now + end - MS, taken));
        end
    }

    #[test]
    fn a_node_that_stalls_again_and_again_stays_away_longer_up_to_a_bound() {
        let mut stalls = Stalls::default();
        assert!(!stalls.stays_away(SECOND, None), "it has not stalled yet");
        let mut now = SECOND;
        let mut spans = Vec::new();
        for _ in 0..7 {
            stalls.note(now, None);
            // The stages of a wheel that stands still say so again and again: this is one stall.
            stalls.note(now + SECOND, None);
            now += SECOND;
            let span = away(&stalls, now, None);
            spans.push(span.as_secs());
            now += span;
        }
        assert_eq!(spans, [30, 60, 120, 240, 480, 600, 600]);
    }

    #[test]
    fn a_sign_of_the_queue_ends_a_long_absence_and_not_a_first_one() {
        let mut stalls = Stalls::default();
        stalls.note(SECOND, None);
        stalls.note(SECOND * 40, None);
        let now = SECOND * 40;
        assert_eq!(away(&stalls, now, None), SECOND * 60);
        // A record that was taken before the stall says nothing.
        assert_eq!(away(&stalls, now, Some(now)), SECOND * 60);
        let taken = Some(now + SECOND);
        assert_eq!(away(&stalls, now, taken), AVOID);
        // The next stall is a first one again.
        let later = now + SECOND * 200;
        stalls.note(later, taken);
        assert_eq!(away(&stalls, later, taken), AVOID);
    }
}
