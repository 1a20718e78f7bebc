//! `Faults` sets the kinds of faults that calls meet, how often they meet them, and the fate of such a call.

use std::time::Duration;

use super::{
    dice::{Dice, Wait},
    set::{REPLICAS, Set},
};

/// How the store behaves from now on. Chances are per thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Faults {
    /// A round trip between a node and a replica.
    pub(crate) latency: Wait,
    /// How long a caller waits for an answer that does not come.
    pub(crate) patience: Duration,
    /// How much later a write takes effect that its caller has given up, or that a replica had missed.
    pub(crate) lateness: Wait,
    /// Reads that fail.
    pub(crate) reads_fail: u16,
    /// Reads that see a difference between replicas and do not repair it.
    pub(crate) reads_unrepaired: u16,
    /// Pages that are cut short, at any row.
    pub(crate) pages_cut: u16,
    /// Pages that are empty and not the last.
    pub(crate) pages_empty: u16,
    /// Plain writes that fail and reach no replica, now or later.
    pub(crate) writes_fail: u16,
    /// Plain writes that time out: any replica may have them at once, later or never.
    pub(crate) writes_time_out: u16,
    /// Plain writes that are acknowledged and that one replica misses, or gets much later.
    pub(crate) writes_miss_one: u16,
    /// Conditional writes that certainly are not applied.
    pub(crate) swaps_fail: u16,
    /// Conditional writes whose outcome stays unknown.
    pub(crate) swaps_unknown: u16,
    /// Decisions that only a quorum of the replicas learns.
    pub(crate) decisions_missed: u16,
}

impl Faults {
    /// No faults, and no time passes.
    pub(crate) const NONE: Self = Self {
        latency: Wait::NONE,
        patience: Duration::from_secs(2),
        lateness: Wait::millis(1, 20_000),
        reads_fail: 0,
        reads_unrepaired: 0,
        pages_cut: 0,
        pages_empty: 0,
        writes_fail: 0,
        writes_time_out: 0,
        writes_miss_one: 0,
        swaps_fail: 0,
        swaps_unknown: 0,
        decisions_missed: 0,
    };

    /// Every kind of fault, each this often.
    pub(crate) const fn all(per_mille: u16) -> Self {
        Self {
            reads_fail: per_mille,
            reads_unrepaired: per_mille,
            pages_cut: per_mille,
            pages_empty: per_mille,
            writes_fail: per_mille,
            writes_time_out: per_mille,
            writes_miss_one: per_mille,
            swaps_fail: per_mille,
            swaps_unknown: per_mille,
            decisions_missed: per_mille,
            ..Self::NONE
        }
    }

    /// Whether every call works, on all replicas and at once.
    pub(super) fn are_none(&self) -> bool {
        *self
            == Self {
                patience: self.patience,
                lateness: self.lateness,
                ..Self::NONE
            }
    }

    pub(super) fn write_fate(&self, dice: &mut Dice) -> WriteFate {
        if dice.hits(self.writes_fail) {
            return WriteFate::Fails;
        }
        if dice.hits(self.writes_time_out) {
            let now = Set::from_low_bits(dice.below(8));
            let later = Set::from_low_bits(dice.below(8)).without(now);
            let after = dice.between(self.lateness);
            return WriteFate::TimesOut { now, later, after };
        }
        if dice.hits(self.writes_miss_one) {
            let replica = one_of(dice);
            let after = dice.coin().then(|| dice.between(self.lateness));
            return WriteFate::Misses { replica, after };
        }
        WriteFate::Reaches
    }

    pub(super) fn swap_fate(&self, dice: &mut Dice) -> SwapFate {
        if dice.hits(self.swaps_fail) {
            return SwapFate::Fails;
        }
        if !dice.hits(self.swaps_unknown) {
            return SwapFate::Answered;
        }
        match dice.below(4) {
            0 => SwapFate::Decided {
                learned: Set::from_low_bits(dice.below(8)),
            },
            1 => SwapFate::Accepted,
            2 => SwapFate::Late {
                after: dice.between(self.lateness),
            },
            _ => SwapFate::Lost,
        }
    }
}

/// Any replica.
pub(super) fn one_of(dice: &mut Dice) -> usize {
    usize::try_from(dice.below(REPLICAS as u64)).unwrap_or(0)
}

/// The fate of a plain write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteFate {
    /// All replicas get it, and two of them acknowledge it.
    Reaches,
    /// It is acknowledged; one replica does not get it, or only after this.
    Misses {
        replica: usize,
        after: Option<Duration>,
    },
    /// An error; no replica ever gets it.
    Fails,
    /// An error after the caller's patience; these replicas have it at once, and those after a while.
    TimesOut {
        now: Set,
        later: Set,
        after: Duration,
    },
}

/// The fate of a conditional write. All but the first two leave its caller without an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SwapFate {
    /// It is decided and its caller is told.
    Answered,
    /// An error: certainly not applied.
    Fails,
    /// It is decided, and only these replicas learn it.
    Decided { learned: Set },
    /// Some replicas have accepted it and none knows it as decided. The next round finishes it,
    /// or overtakes it.
    Accepted,
    /// It only arrives after this, and is decided then.
    Late { after: Duration },
    /// It never arrives.
    Lost,
}
