//! The limit decides for the nodes how many tasks of a callback may be claimed in a time, and how many attempts may run at once.
//!
//! Every callback with a limit has one [`Pool`], a record that is written on a condition. A node that has tasks to hand out
//! draws from it: tokens of the rate, and places for attempts. So the limit holds over any number of nodes, and nothing is
//! divided in advance.
//!
//! **Tokens.** The pool has one time, at which the bucket is full again ([`Pool::draw`]). Tokens that are drawn must be
//! spent within [`TOKENS_KEPT`]; the others are lost. Claims of ten seconds therefore have tokens of eleven seconds, and the
//! bucket: at most 1.1 x 10 x rate + burst. A node that is given too few is noted, and the others leave it a fair part. Else
//! the node whose clock is ahead would always be first.
//!
//! **Places.** A node asks anew every [`PLACES_RENEWED`] with what it runs and what waits, and is given a part
//! ([`Pool::share`]). Its part lapses after [`PLACES_KEPT`] in the pool, and after [`PLACES_TRUSTED`] in its own eyes, which
//! is sooner. So two nodes never use the same place; only attempts of a node that died are counted anew.

use std::{collections::BTreeMap, time::Duration};

use super::{ids::NodeId, time::Millis};

/// Smallest rate: a task in a hundred seconds. A slower one is better made of starts.
pub const RATE_MIN: f64 = 0.01;

/// Largest rate: more than a node hands out.
pub const RATE_MAX: f64 = 100_000.0;

/// Largest burst: ten seconds of the largest rate.
pub const BURST_MAX: u32 = 1_000_000;

/// The bucket holds at least the tokens of so long: nodes draw from it a few times in that time, and not for each task.
pub const BURST_SPAN_MIN: Duration = Duration::from_millis(100);

/// Largest number of attempts at once: as many as a node watches ([`crate::limits::WATCHED_ATTEMPTS_MAX`]).
pub const IN_FLIGHT_MAX: u32 = 200_000;

/// How long drawn tokens may be spent: a tenth of the ten seconds of the promise.
pub const TOKENS_KEPT: Duration = Duration::from_secs(1);

/// How often a node asks for places that it needs: twice within [`PLACES_TRUSTED`], so that one answer may be slow.
pub const PLACES_RENEWED: Duration = Duration::from_secs(1);

/// How long a node uses places, from the beginning of the asking.
pub const PLACES_TRUSTED: Duration = Duration::from_secs(2);

/// How long others leave places to a node that does not renew them: longer than it uses them, by more than clocks may differ.
pub const PLACES_KEPT: Duration = Duration::from_secs(5);

/// How far the clocks of nodes are taken to be apart at most: twice the skew that the clock protocol allows.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(2);

/// How long a node that was given too few tokens is waited for, beside the time of two tokens: it comes back sooner.
const WAITING_KEPT: Duration = Duration::from_secs(2);

/// Nodes with places of one callback. Each is some 40 bytes of the record; further ones wait.
pub const NODES_MAX: usize = 256;

/// Parts of a second in which a token is counted.
const NANOS: i128 = 1_000_000_000;

/// A rate: tokens that come in a second, and how many the bucket holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Thousandths of a token in a second.
    per_second_milli: u64,
    burst: u32,
}

impl Rate {
    /// Returns the rate; without a burst the bucket holds the tokens of a second, and at least one. None when a number is out
    /// of range.
    #[must_use]
    pub fn new(per_second: f64, burst: Option<u32>) -> Option<Self> {
        if !(RATE_MIN..=RATE_MAX).contains(&per_second) {
            return None;
        }
        // In range, so the conversions lose thousandths of thousandths only.
        let (milli, whole) = ((per_second * 1000.0).round(), per_second.ceil());
        Self::from_milli(milli as u64, burst.unwrap_or(whole as u32))
    }

    /// Returns the rate from its stored numbers; none when one of them is out of range.
    #[must_use]
    pub fn from_milli(per_second_milli: u64, burst: u32) -> Option<Self> {
        let range = (RATE_MIN * 1000.0) as u64..=(RATE_MAX * 1000.0) as u64;
        let known = range.contains(&per_second_milli) && (1..=BURST_MAX).contains(&burst);
        let rate = known.then_some(Self {
            per_second_milli,
            burst,
        })?;
        (burst >= rate.burst_min()).then_some(rate)
    }

    /// Returns how many tokens come in a second.
    #[must_use]
    pub fn per_second(self) -> f64 {
        self.per_second_milli as f64 / 1000.0
    }

    /// Returns the smallest burst of a rate.
    fn burst_min(self) -> u32 {
        self.in_time(BURST_SPAN_MIN).max(1)
    }

    /// Returns how many thousandths of a token come in a second.
    #[must_use]
    pub const fn per_second_milli(self) -> u64 {
        self.per_second_milli
    }

    /// Returns how many tokens the bucket holds.
    #[must_use]
    pub const fn burst(self) -> u32 {
        self.burst
    }

    /// Returns how many whole tokens come in a time.
    #[must_use]
    pub fn in_time(self, time: Duration) -> u32 {
        let tokens = tokens(self, i128::try_from(time.as_nanos()).unwrap_or(i128::MAX));
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Returns how long a token takes.
    #[must_use]
    pub fn interval(self) -> Duration {
        duration(cost(self, 1))
    }

    /// Returns how long an empty bucket takes to be full.
    #[must_use]
    pub fn span(self) -> Duration {
        duration(cost(self, self.burst))
    }
}

/// Returns the nanoseconds in which tokens come, rounded up: a rounding never adds to the rate.
fn cost(rate: Rate, tokens: u32) -> i128 {
    let milli = i128::from(rate.per_second_milli);
    (i128::from(tokens) * 1000 * NANOS + milli - 1) / milli
}

fn nanos(at: Millis) -> i128 {
    i128::from(at.0) * (NANOS / 1000)
}

fn duration(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the whole tokens that come in nanoseconds.
fn tokens(rate: Rate, nanos: i128) -> i128 {
    nanos.saturating_mul(i128::from(rate.per_second_milli)) / (1000 * NANOS)
}

/// The limits of a callback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many tasks may be claimed in a time.
    pub rate: Option<Rate>,
    /// How many attempts may run at once; at least one.
    pub in_flight: Option<u32>,
}

impl Limits {
    /// Tells whether nothing is limited.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.rate.is_none() && self.in_flight.is_none()
    }
}

/// The places of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Attempts that it may run, or runs.
    pub held: u32,
    /// Attempts that it would run: those that run, and those that wait.
    pub wanted: u32,
    /// Until when they are its own.
    pub until: Millis,
    /// When it last came to places after it had none; others that had none since are served before it.
    pub served: Millis,
}

/// The question of a node to a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// Tokens.
    pub tokens: u32,
    /// Attempts that it would run: those that run, and those that wait.
    pub wanted: u32,
    /// Attempts that run, those included that are being claimed.
    pub running: u32,
}

/// The answer of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    /// Tokens.
    pub tokens: u32,
    /// Attempts that the node may run, those that run already included.
    pub places: u32,
    /// How long the next token takes; zero when it is there.
    pub next: Duration,
    /// Whether another node wants more places than it has.
    pub others_wait: bool,
}

/// A node that was given fewer tokens than it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// When it was given some last; if it was given none since it was noted, when it was noted.
    pub served: Millis,
    /// Until when the others leave it a part.
    pub until: Millis,
}

/// The state of the limits of a callback, the same for all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// When the bucket is full again, in nanoseconds since 1970.
    pub full_at_nanos: i64,
    /// When tokens were drawn last, by the clock that is ahead.
    pub drawn: Millis,
    /// The nodes that wait for tokens.
    pub waiting: BTreeMap<NodeId, Waiting>,
    /// The nodes that have or want places.
    pub shares: BTreeMap<NodeId, Share>,
}

impl Pool {
    /// Gives a node what it may have of what it asks for.
    pub fn ask(&mut self, limits: Limits, me: NodeId, now: Millis, asked: Asked) -> Given {
        let (places, free) = match limits.in_flight {
            None => {
                self.shares.clear();
                (0, u32::MAX)
            }
            Some(max) => {
                let places = self.share(max, me, now, asked);
                (places, places.saturating_sub(asked.running))
            }
        };
        // A token without a place would be lost.
        let wanted = asked.tokens.min(free);
        let (tokens, next) = match limits.rate {
            None => (0, Duration::ZERO),
            Some(rate) => (self.draw(rate, me, now, wanted), self.next(rate, now)),
        };
        if limits.rate.is_none() {
            self.waiting.clear();
        }
        let waits = |(node, share): (&NodeId, &Share)| *node != me && share.wanted > share.held;
        Given {
            tokens,
            places,
            next,
            others_wait: self.shares.iter().any(waits),
        }
    }

    /// Takes up to `wanted` tokens out of the bucket for a node, and leaves a part to those that wait.
    ///
    /// A bucket that would be full only after it was empty, because the rate was changed or a clock went back, is empty.
    pub fn draw(&mut self, rate: Rate, me: NodeId, now: Millis, wanted: u32) -> u32 {
        let (at, missing) = (self.clock(now), self.missing(rate, now));
        let level = tokens(rate, cost(rate, rate.burst) - missing).min(i128::from(rate.burst));
        let level = u32::try_from(level).unwrap_or(0);
        let given = wanted.min(self.part(rate, me, at, level));
        let full_at = i64::try_from(nanos(at) + missing + cost(rate, given)).unwrap_or(i64::MAX);
        // Also where nothing is given: what is too far ahead comes back with time only from here on.
        if given > 0 || full_at < self.full_at_nanos {
            self.full_at_nanos = full_at;
            self.drawn = at;
        }
        self.note(rate, me, at, (wanted, given));
        given
    }

    /// Returns how many of `level` tokens a node may have beside those that wait. One that cannot be divided goes to the
    /// node that was served longest ago.
    fn part(&mut self, rate: Rate, me: NodeId, at: Millis, level: u32) -> u32 {
        let kept = waiting_kept(rate);
        self.waiting
            .retain(|_, one| one.until > at && one.until <= at.after(2 * kept));
        // A node that is not noted may have been served just now: it has no turn before those that wait already.
        let mine = (self.waiting.get(&me).map_or(at, |one| one.served), me);
        let others = self.waiting.iter().filter(|(node, _)| **node != me);
        let (mut count, mut first) = (0, true);
        for (node, one) in others {
            count += 1;
            first &= mine < (one.served, *node);
        }
        match level / (count + 1) {
            0 if first => level.min(1),
            each => each + if first { level % (count + 1) } else { 0 },
        }
    }

    /// Notes whether a node waits for more than it was given.
    fn note(&mut self, rate: Rate, me: NodeId, at: Millis, (wanted, given): (u32, u32)) {
        if given >= wanted {
            self.waiting.remove(&me);
            return;
        }
        let kept = waiting_kept(rate);
        let before = self.waiting.get(&me).copied();
        let is_noted = before.is_some_and(|one| one.until > at.after(kept / 2));
        let has_room = before.is_some() || self.waiting.len() < NODES_MAX;
        if has_room && (given > 0 || !is_noted) {
            let served = before.map_or(at, |one| one.served);
            let one = Waiting {
                served: if given > 0 { at } else { served },
                until: at.after(kept),
            };
            self.waiting.insert(me, one);
        }
    }

    /// Returns the time by the clock that is ahead.
    fn clock(&self, now: Millis) -> Millis {
        let ahead = self.drawn > now && self.drawn <= now.after(CLOCKS_APART_MAX);
        if ahead { self.drawn } else { now }
    }

    /// Returns how long the next token takes; zero when it is there.
    pub(super) fn next(&self, rate: Rate, now: Millis) -> Duration {
        let there = cost(rate, rate.burst) - self.missing(rate, now);
        duration((cost(rate, 1) - there).max(0))
    }

    /// Returns the nanoseconds after which the bucket is full.
    pub(super) fn missing(&self, rate: Rate, now: Millis) -> i128 {
        let missing = i128::from(self.full_at_nanos) - nanos(self.clock(now));
        missing.clamp(0, cost(rate, rate.burst))
    }

    /// Returns from when on the pool says no more than no pool would: the bucket is full, and all places have lapsed.
    #[must_use]
    pub fn forgotten_at(&self, now: Millis) -> Millis {
        let full = Millis(self.full_at_nanos / 1_000_000 + 1);
        full.max(now).after(PLACES_KEPT)
    }

    /// Gives a node its places among `max`: a fair part of what all want, as far as others have left them.
    ///
    /// The places that a node runs attempts in stay its own in the pool even if they are too many. They end by themselves, and
    /// it begins no others meanwhile.
    pub fn share(&mut self, max: u32, me: NodeId, now: Millis, asked: Asked) -> u32 {
        // A time that no live node can have written is of a clock that has gone back since.
        let lives = |share: &Share| share.until > now && share.until <= now.after(2 * PLACES_KEPT);
        self.shares
            .retain(|node, share| *node == me || lives(share));
        let before = self.shares.get(&me).copied();
        if before.is_none() && self.shares.len() >= NODES_MAX {
            return 0;
        }
        let mine = Share {
            held: 0,
            wanted: asked.wanted.max(asked.running),
            until: now.after(PLACES_KEPT),
            served: before.map_or(Millis(0), |share| share.served),
        };
        let was_held = before.is_some_and(|share| share.held > 0);
        self.shares.insert(me, mine);
        let others = self.shares.iter().filter(|(node, _)| **node != me);
        let taken = others.fold(0_u32, |sum, (_, share)| sum.saturating_add(share.held));
        let fair = fair_part(max, &self.shares, me).min(max.saturating_sub(taken));
        let held = fair.max(asked.running);
        let served = if held > 0 && !was_held {
            now
        } else {
            mine.served
        };
        let mine = Share {
            held,
            served,
            ..mine
        };
        self.shares.insert(me, mine);
        fair
    }
}

fn waiting_kept(rate: Rate) -> Duration {
    WAITING_KEPT + 2 * rate.interval()
}

/// Returns a node's fair part of `max` places. No node is given more than it wants while another wants for more; the rest that
/// cannot be divided goes to those that were served longest ago; places that none wants are for tasks to come, in equal parts.
fn fair_part(max: u32, shares: &BTreeMap<NodeId, Share>, me: NodeId) -> u32 {
    let mut parts: BTreeMap<NodeId, u32> = shares.keys().map(|node| (*node, 0)).collect();
    let mut left = max;
    loop {
        let wanting = |node: &NodeId, share: &Share| {
            share.wanted > parts.get(node).copied().unwrap_or_default()
        };
        let mut open: Vec<(Millis, NodeId, u32)> = shares
            .iter()
            .filter(|(node, share)| wanting(node, share))
            .map(|(node, share)| (share.served, *node, share.wanted))
            .collect();
        if open.is_empty() || left == 0 {
            break;
        }
        open.sort_unstable();
        let count = u32::try_from(open.len()).unwrap_or(u32::MAX);
        let each = (left / count).max(1);
        for (_, node, wanted) in open {
            let part = parts.entry(node).or_default();
            let more = each.min(wanted - *part).min(left);
            *part += more;
            left -= more;
        }
    }
    let nodes = u32::try_from(shares.len()).unwrap_or(u32::MAX).max(1);
    let mine = parts.get(&me).copied().unwrap_or_default();
    mine + left / nodes
}
