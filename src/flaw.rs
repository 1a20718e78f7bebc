//! Deliberate bugs, to prove that the simulation would find them: each is one that somebody has made, here or elsewhere.
//!
//! Without the feature `flaws`, which no build that anybody uses has, [`is`] is a constant `false` and the sites vanish.
//! With it a test switches one on for its own thread.

/// A deliberate bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// An entry is acknowledged without a look at the clock after its write.
    NoClockCheckAfterWrite,
    /// `fired` moves when an entry is taken out of memory, before the queue has acknowledged it.
    FiredBeforeAcknowledged,
    /// A clock swap whose outcome is unknown is taken for applied.
    UnknownTakenForApplied,
    /// A look at a task that was never claimed is dropped.
    LookDroppedAtUnclaimed,
    /// A look at a task that waits for its next attempt is dropped.
    LookDroppedAtRetrying,
    /// A claim is applied whatever attempt it expects.
    ClaimWithoutAttempt,
    /// A report is applied whatever attempt it is of.
    SettleWithoutAttempt,
    /// Erasing a tick deletes its whole slot, and with it the next revolution's entries.
    EraseTakesTheSlot,
    /// Neither the entry nor the near task of a retry is put, and its look is taken for enough.
    RetryNotPut,
    /// A tracked task is published without its look ahead.
    NoLookBeforePublish,
    /// Tasks are handed over before they are due.
    PublishEarly,
    /// A reschedule keeps the generation, so that the old entry still counts.
    RescheduleKeepsGeneration,
    /// Heartbeats are answered and not recorded.
    HeartbeatIgnored,
    /// A new owner begins to read at `opened`.
    TakeOverBeginsAtOpened,
    /// An entry that finds its slot closed is left there.
    LateEntryNotMoved,
    /// Terminal rows live for a second.
    TerminalRowExpiresEarly,
    /// The reader takes a page that is cut short for the last.
    ShortPageTakenForLast,
    /// A cancel answers without its conditional write.
    CancelNotWritten,
    /// The body of a task that was put further on is deleted with the old place.
    BodyDeletedWithOldPlace,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::NoClockCheckAfterWrite,
        Self::FiredBeforeAcknowledged,
        Self::UnknownTakenForApplied,
        Self::LookDroppedAtUnclaimed,
        Self::LookDroppedAtRetrying,
        Self::ClaimWithoutAttempt,
        Self::SettleWithoutAttempt,
        Self::EraseTakesTheSlot,
        Self::RetryNotPut,
        Self::NoLookBeforePublish,
        Self::PublishEarly,
        Self::RescheduleKeepsGeneration,
        Self::HeartbeatIgnored,
        Self::TakeOverBeginsAtOpened,
        Self::LateEntryNotMoved,
        Self::TerminalRowExpiresEarly,
        Self::ShortPageTakenForLast,
        Self::CancelNotWritten,
        Self::BodyDeletedWithOldPlace,
    ];
}

#[cfg(feature = "flaws")]
thread_local! {
    static ON: std::cell::Cell<Option<Flaw>> = const { std::cell::Cell::new(None) };
}

/// Tells whether this thread runs with the bug.
#[cfg(feature = "flaws")]
#[must_use]
pub fn is(flaw: Flaw) -> bool {
    ON.get() == Some(flaw)
}

/// Tells whether this thread runs with the bug: never.
#[cfg(not(feature = "flaws"))]
#[inline(always)]
#[must_use]
pub const fn is(_: Flaw) -> bool {
    false
}

/// Switches this thread to a bug, or to none.
#[cfg(feature = "flaws")]
pub fn switch(flaw: Option<Flaw>) {
    ON.set(flaw);
}
