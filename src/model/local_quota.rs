//! The local quota is the part of the limits of a callback that a node was given, until tasks take it.
//!
//! It says how many tasks may go now ([`LocalQuota::admit`]), and how many to ask the [pool](super::limit) for
//! ([`LocalQuota::asks`]). Times are durations on a clock that never goes back, from any fixed moment.

use std::time::Duration;

use super::{
    limit::{Asked, Given, Limits, PLACES_RENEWED, PLACES_TRUSTED, Pool, Rate, TOKENS_KEPT},
    time::Millis,
};

/// How long a node waits at most, beside the time of a token, that was given fewer tokens than it asked for: the tasks of a
/// busy callback go in batches of such a time, and the pool is written five times a second for it. With a small burst it is
/// less, so that the bucket is not full meanwhile.
pub const PAUSE: Duration = Duration::from_millis(200);

/// How long a need counts that is not repeated: a feed repeats it whenever it could have handed out more.
const NEEDED: Duration = Duration::from_secs(2);

/// Which limit keeps tasks back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The rate.
    Rate,
    /// The attempts at once.
    InFlight,
}

/// Tells which limit is used up at `now`, as far as the pool knows: nodes may hold some of what they have drawn.
#[must_use]
pub fn used_up(pool: &Pool, limits: Limits, now: Millis) -> Option<Bound> {
    let no_token = |rate| !pool.next(rate, now).is_zero();
    if limits.rate.is_some_and(no_token) {
        return Some(Bound::Rate);
    }
    let held = pool.shares.values().filter(|share| share.until > now);
    let held: u32 = held.map(|share| share.held).fold(0, u32::saturating_add);
    let is_full = limits.in_flight.is_some_and(|max| held >= max);
    is_full.then_some(Bound::InFlight)
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct LocalQuota {
    limits: Limits,
    tokens: u32,
    tokens_until: Duration,
    places: u32,
    places_until: Duration,
    /// Tasks that were let go and are not claimed yet.
    pending: u32,
    /// Tasks that would go if they could, and when that was said last.
    needed: u32,
    needed_at: Option<Duration>,
    /// Tasks that were let go in this second and in the one before.
    gone: [u32; 2],
    second: u64,
    /// Asking for tokens is of no use before this.
    again_at: Duration,
    /// Places are to be renewed then.
    renew_at: Duration,
}

impl LocalQuota {
    /// Takes the limits as they are now; what was given under others is void.
    pub fn set(&mut self, limits: Limits) {
        if self.limits != limits {
            *self = Self {
                limits,
                pending: self.pending,
                ..Self::default()
            };
        }
    }

    /// Lets up to `wanted` tasks go, beside `running` attempts. Each comes back by [`LocalQuota::ended`].
    pub fn admit(&mut self, now: Duration, running: u32, wanted: u32) -> u32 {
        self.turn(now);
        let tokens = match self.limits.rate {
            None => u32::MAX,
            Some(_) if now < self.tokens_until => self.tokens,
            Some(_) => 0,
        };
        let going = wanted.min(tokens).min(self.places_free(now, running));
        if self.limits.rate.is_some() {
            self.tokens -= going;
        }
        self.pending += going;
        let [this, _] = &mut self.gone;
        *this = this.saturating_add(going);
        going
    }

    /// Takes notice that so many tasks more would go at once if they could.
    pub fn need(&mut self, now: Duration, needed: u32) {
        self.needed = needed;
        self.needed_at = (needed > 0).then_some(now).or(self.needed_at);
    }

    /// Takes notice that a task that was let go is claimed, or was not claimed: then its token is there again.
    pub fn ended(&mut self, claimed: bool) {
        self.pending = self.pending.saturating_sub(1);
        if !claimed && self.limits.rate.is_some() {
            // If its time is over it is lost with the others.
            self.tokens = self.tokens.saturating_add(1);
        }
    }

    /// Tells which limit keeps tasks back at `now`; none when one more may go.
    #[must_use]
    pub fn bound(&self, now: Duration, running: u32) -> Option<Bound> {
        let no_tokens = self.tokens == 0 || now >= self.tokens_until;
        if self.limits.rate.is_some() && no_tokens {
            return Some(Bound::Rate);
        }
        (self.places_free(now, running) == 0).then_some(Bound::InFlight)
    }

    /// Tells which limit keeps tasks back at `now` of which it was said lately that they would go; `waits` says so of others.
    #[must_use]
    pub fn keeps_back(&self, now: Duration, running: u32, waits: bool) -> Option<Bound> {
        let waits = waits || self.is_needed(now);
        self.bound(now, running).filter(|_| waits)
    }

    /// Returns what is to be asked for now, also for `more` tasks than those that are known to need it; none when nothing is,
    /// or asking is of no use yet.
    #[must_use]
    pub fn asks(&self, now: Duration, running: u32, more: u32) -> Option<Asked> {
        let running = running.saturating_add(self.pending);
        let needed = if self.is_needed(now) { self.needed } else { 0 };
        let needed = needed.saturating_add(more);
        let tokens = match self.limits.rate {
            Some(rate) if needed > 0 && now >= self.again_at => {
                needed.saturating_add(self.ahead(rate))
            }
            Some(_) | None => 0,
        };
        let renews = self.limits.in_flight.is_some()
            && now >= self.renew_at
            && (running > 0 || more > 0 || self.is_needed(now));
        (tokens > 0 || renews).then_some(Asked {
            tokens,
            wanted: running.saturating_add(needed),
            running,
        })
    }

    /// Takes notice that a question is asked. Until its answer is known only the attempts that run have their places, because
    /// the others may have been given away by it.
    pub fn asking(&mut self, asked: Asked) {
        self.places = self.places.min(asked.running);
    }

    /// Returns how many attempts may run here.
    #[must_use]
    pub const fn places(&self) -> u32 {
        self.places
    }

    /// Takes what was given on the question that was asked at `began`; `chance` spreads the questions of nodes.
    pub fn take(
        &mut self,
        began: Duration,
        now: Duration,
        asked: Asked,
        given: Given,
        chance: u64,
    ) {
        if now >= self.tokens_until {
            self.tokens = 0;
        }
        if given.tokens > 0 {
            self.tokens = self.tokens.saturating_add(given.tokens);
            self.tokens_until = began + TOKENS_KEPT;
        }
        if let Some(rate) = self.limits.rate
            && given.tokens < asked.tokens
        {
            let pause = PAUSE.min(rate.span() / 2);
            let spread = pause.mul_f64((chance % 256) as f64 / 1024.0);
            self.again_at = now + given.next.max(pause) + spread;
        }
        // Tasks that still need something say so again.
        self.needed = 0;
        if self.limits.in_flight.is_some() {
            self.places = given.places;
            self.places_until = began + PLACES_TRUSTED;
            self.renew_at = began + PLACES_RENEWED;
        }
    }

    /// Takes notice that nothing was given because the pool could not be written.
    pub fn failed(&mut self, now: Duration) {
        self.again_at = now + PAUSE;
        self.renew_at = now + PAUSE;
    }

    /// Returns when asking is of use again; none when it is now.
    #[must_use]
    pub fn again_at(&self, now: Duration) -> Option<Duration> {
        (self.limits.rate.is_some() && now < self.again_at).then_some(self.again_at)
    }

    /// Returns when places are to be renewed; none when no task needs them.
    #[must_use]
    pub fn renew_at(&self, now: Duration, running: u32) -> Option<Duration> {
        let needs = running > 0 || self.pending > 0 || self.is_needed(now);
        (self.limits.in_flight.is_some() && needs).then_some(self.renew_at)
    }

    /// Tells whether it has nothing to remember.
    #[must_use]
    pub fn is_idle(&self, now: Duration) -> bool {
        self.pending == 0 && !self.is_needed(now) && now >= self.again_at
    }

    fn places_free(&self, now: Duration, running: u32) -> u32 {
        match self.limits.in_flight {
            None => u32::MAX,
            Some(_) if now >= self.places_until => 0,
            Some(_) => {
                let used = running.saturating_add(self.pending);
                self.places.saturating_sub(used)
            }
        }
    }

    fn is_needed(&self, now: Duration) -> bool {
        let since = self.needed_at.map(|at| now.saturating_sub(at));
        since.is_some_and(|since| since < NEEDED)
    }

    /// Tokens for the next tasks, so that a callback below its rate does not ask for each: a quarter of what went in a second,
    /// and a tenth of what comes in one at most.
    fn ahead(&self, rate: Rate) -> u32 {
        let lately = self.gone.into_iter().max().unwrap_or_default() / 4;
        lately.min(rate.in_time(Duration::from_millis(100)))
    }

    fn turn(&mut self, now: Duration) {
        let second = now.as_secs();
        if second != self.second {
            let [this, _] = self.gone;
            let before = if second == self.second + 1 { this } else { 0 };
            self.gone = [0, before];
            self.second = second;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const START: Duration = Duration::from_secs(1000);

    fn quota(per_second: f64, burst: u32, in_flight: Option<u32>) -> LocalQuota {
        let mut quota = LocalQuota::default();
        quota.set(Limits {
            rate: Rate::new(per_second, Some(burst)),
            in_flight,
        });
        quota
    }

    #[test]
    fn a_pool_tells_which_limit_is_used_up() {
        let now = Millis(1_800_000_000_000);
        let node = crate::model::ids::NodeId::NOBODY;
        let rate = Limits {
            rate: Rate::new(1.0, Some(2)),
            in_flight: None,
        };
        let mut pool = Pool::default();
        assert_eq!(used_up(&pool, rate, now), None);
        let asked = |tokens, wanted| Asked {
            tokens,
            wanted,
            running: 0,
        };
        pool.ask(rate, node, now, asked(2, 2));
        assert_eq!(used_up(&pool, rate, now), Some(Bound::Rate));
        assert_eq!(used_up(&pool, rate, now.after(SECOND)), None);
        let places = Limits {
            rate: None,
            in_flight: Some(3),
        };
        let mut pool = Pool::default();
        assert_eq!(used_up(&pool, places, now), None);
        pool.ask(places, node, now, asked(0, 3));
        assert_eq!(used_up(&pool, places, now), Some(Bound::InFlight));
        assert_eq!(used_up(&pool, places, now.after(SECOND * 60)), None);
    }

    fn given(tokens: u32, places: u32) -> Given {
        Given {
            tokens,
            places,
            next: Duration::ZERO,
            others_wait: false,
        }
    }

    #[test]
    fn tokens_that_are_not_spent_in_time_are_lost() {
        let mut quota = quota(10.0, 10, None);
        assert_eq!(quota.admit(START, 0, 3), 0);
        assert_eq!(quota.bound(START, 0), Some(Bound::Rate));
        quota.need(START, 3);
        let asked = quota.asks(START, 0, 0).unwrap();
        assert_eq!(asked.tokens, 3);
        quota.take(START, START, asked, given(3, 0), 0);
        assert_eq!(quota.admit(START + SECOND / 2, 0, 2), 2);
        quota.ended(true);
        quota.ended(false);
        assert_eq!(quota.admit(START + SECOND / 2, 0, 9), 2);
        quota.ended(false);
        assert_eq!(quota.admit(START + TOKENS_KEPT, 0, 9), 0);
        // A later gift does not bring them back.
        let later = START + TOKENS_KEPT;
        quota.take(later, later, asked, given(1, 0), 0);
        assert_eq!(quota.admit(later, 0, 9), 1);
    }

    #[test]
    fn a_quota_that_got_less_than_it_asked_for_waits_before_it_asks_again() {
        let mut slow = quota(0.01, 1, None);
        slow.need(START, 5);
        let asked = slow.asks(START, 0, 0).unwrap();
        let next = Duration::from_secs(100);
        let nothing = Given {
            next,
            ..Given::default()
        };
        slow.take(START, START, asked, nothing, 255);
        slow.need(START, 5);
        assert_eq!(slow.asks(START, 0, 1), None);
        let again = slow.again_at(START).unwrap() - START;
        assert!(again >= next && again < next + PAUSE, "{again:?}");
        let mut fast = quota(100_000.0, 10_000, None);
        fast.need(START, 50_000);
        let asked = fast.asks(START, 0, 0).unwrap();
        fast.take(START, START, asked, given(10_000, 0), 255);
        let again = fast.again_at(START).unwrap() - START;
        assert!(
            again < SECOND / 10,
            "the bucket must not be full by then: {again:?}"
        );
    }

    #[test]
    fn a_callback_below_its_rate_is_given_tokens_ahead() {
        let mut quota = quota(1000.0, 1000, None);
        quota.need(START, 100);
        let asked = quota.asks(START, 0, 0).unwrap();
        quota.take(START, START, asked, given(100, 0), 0);
        assert_eq!(quota.admit(START, 0, 100), 100);
        quota.need(START, 1);
        assert_eq!(quota.asks(START, 0, 0).unwrap().tokens, 1 + 25);
    }

    #[test]
    fn places_are_counted_with_what_runs_and_are_not_used_for_long() {
        let mut quota = LocalQuota::default();
        quota.set(Limits {
            rate: None,
            in_flight: Some(5),
        });
        quota.need(START, 9);
        let asked = quota.asks(START, 2, 0).unwrap();
        assert_eq!((asked.wanted, asked.running, asked.tokens), (11, 2, 0));
        quota.take(START, START, asked, given(0, 5), 0);
        assert_eq!(quota.admit(START, 2, 9), 3);
        assert_eq!(quota.bound(START, 2), Some(Bound::InFlight));
        assert_eq!(quota.asks(START, 2, 0), None, "asked just now");
        // One was not claimed, two run, one of those before has ended.
        quota.ended(false);
        quota.ended(true);
        quota.ended(true);
        assert_eq!(quota.admit(START, 3, 9), 2);
        assert_eq!(quota.admit(START + PLACES_TRUSTED, 0, 9), 0);
        assert!(quota.asks(START + PLACES_RENEWED, 3, 0).is_some());
    }

    #[test]
    fn an_idle_quota_asks_for_nothing() {
        let mut quota = quota(10.0, 10, Some(5));
        assert_eq!(quota.asks(START, 0, 0), None);
        quota.need(START, 1);
        assert!(quota.asks(START, 0, 0).is_some() && !quota.is_idle(START));
        assert!(quota.asks(START + NEEDED, 0, 0).is_none() && quota.is_idle(START + NEEDED));
        // New limits make void what was given.
        let asked = Asked::default();
        quota.take(START, START, asked, given(9, 5), 0);
        quota.set(Limits {
            rate: Rate::new(1.0, None),
            in_flight: None,
        });
        assert_eq!(quota.admit(START, 0, 1), 0);
    }
}
