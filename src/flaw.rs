//! The flaws are deliberate bugs for the simulation, to prove that it would find them: each was made once, here or elsewhere.
//!
//! A debug build has them, and a test switches one on for its own thread. In a release build [`is`] is a constant `false` and the
//! sites vanish; the feature `flaws` brings them back for long searches.

/// A deliberate bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// An entry is acknowledged without a look at the clock after its write.
    NoClockCheckAfterWrite,
    /// The clock is looked at before the write of an entry is acknowledged.
    ClockReadBeforeWritten,
    /// An entry that finds its slot closed is left there.
    LateEntryNotMoved,
    /// `fired` moves when an entry is taken out of memory, before the queue has acknowledged it.
    FiredBeforeAcknowledged,
    /// A move of a task whose outcome is unknown is taken for applied.
    UnknownMoveTakenForApplied,
    /// A look at a task that was never claimed is dropped.
    LookDroppedAtUnclaimed,
    /// A look at a task that waits for its next attempt is dropped.
    LookDroppedAtRetrying,
    /// A look publishes, and writes no successor.
    LookWithoutSuccessor,
    /// A tracked task is published without its look ahead.
    NoLookBeforePublish,
    /// A near task is acknowledged, and only memory knows of it.
    NearWithoutRecord,
    /// The members of a dead node are left to the end of their sessions in the groups of the queue.
    MembersLeftToSession,
    /// A member that has joined anew is taken out of its group again: the list of nodes is wrong, and nobody believes the queue.
    TakesOutWhoJoinedAnew,
    /// The tasks that a dead node held in memory are left to their looks.
    HeldLeftToLook,
    /// A claim is applied whatever attempt it expects.
    ClaimWithoutAttempt,
    /// A report is applied whatever attempt it is of.
    SettleWithoutAttempt,
    /// Heartbeats are answered and not recorded.
    HeartbeatIgnored,
    /// Erasing a tick takes its whole slot, and with it the entries of later turns of the wheel.
    EraseTakesTheSlot,
    /// Once real: a tick counts as fired when the first of what is due at its end has.
    EraseWithinATick,
    /// Once real: the entry of a retry that finds its slot closed is left there.
    LateRetryLeft,
    /// The entry of a retry is not put: its look comes later.
    RetryNotPut,
    /// Tasks are handed over before they are due.
    PublishEarly,
    /// A new owner begins to read at `opened`.
    TakeOverBeginsAtOpened,
    /// Terminal rows live for a second.
    TerminalRowExpiresEarly,
    /// The reader takes a page that is not the last for the last.
    ShortPageTakenForLast,
    /// A cancel is answered without its conditional write.
    CancelNotWritten,
    /// Once real: a message proves that its task exists however old it is, also when the row of the task has lived its life.
    OldMessageTrusted,
    /// The content of a record that was put further on is deleted with its old place.
    BodyDeletedWithOldPlace,
    /// Once real: a record counts as put further on though the mark of its old place has failed.
    OldPlaceNotMarked,
    /// A record that its topic does not take is passed, and not put further on.
    SpillNotWritten,
    /// Once real: an entry that finds its slot closed is marked as moved before its copy further on is written.
    MarkedBeforeCopied,
    /// A redriven task keeps the tries of its first life.
    RedriveKeepsTries,
    /// A dead task is made to run again, and only memory knows of it.
    RedriveWithoutLook,
    /// Once real: a task whose publication has failed is looked at as one that was published.
    UnsentTakenForSent,
    /// Once real: an owner goes on handing tasks over while the row that gives its wheel away is written.
    PublishesWhileGivenAway,
    /// Once real: a wheel is given away while its reader passes over a flood, and `fired` stands before it.
    GivesFloodsAway,
    /// All callbacks share one lane of a wheel's memory, and one may fill it.
    OneLane,
    /// The limits of callbacks are configured, and nothing heeds them.
    LimitIgnored,
    /// Gates are set, and nothing asks for them.
    GateNotAsked,
    /// A key that names a live task is taken for free.
    LiveKeyTaken,
    /// The id of a run of a schedule is drawn, and not computed.
    RunDrawn,
    /// A run that was missed is withdrawn before its schedule says that it is void.
    WithdrawnBeforeMarked,
    /// A page of a job counts as done before its tasks are changed.
    JobPageLeftFirst,
    /// A task of a sequence is claimed without its turn.
    TurnNotAsked,
    /// The place of a late task of a sequence is written, and the turn is not touched.
    LatePlaceUntold,
    /// The end of a task counts as told before the task that tells it is durable.
    EndToldTooSoon,
    /// Children that wait for the own run of their parent are not looked for when it has ended.
    WaitingLeft,
    /// Tasks that wait for others are not let go.
    WaiterLeft,
    /// Tasks that wait for others are let go at their first check.
    WaiterTooSoon,
    /// The end of a task is told to none that waits for it: they find it at their looks.
    WaitersUntold,
    /// The id of a follow-up is drawn, and not computed.
    FollowUpDrawn,
    /// The end of a task is told to its tree, and its follow-ups there are not added before.
    FollowUpNotJoined,
    /// A task is registered though the task that checks it is not durable.
    CheckNotAwaited,
    /// The tree of a task ends by one reading of its rows, without closing it first.
    TreeNotClosed,
    /// A tree that is closed or opened again forgets that it was cancelled.
    CancelForgotten,
    /// The end of a child is told to its parent, and its row does not say so.
    ChildNotNoted,
    /// The rows of tasks that are to run again are not opened in their trees before.
    RetryUnmarked,
    /// A conditional write of a row does not compare the write that made it.
    RowsNotNamed,
    /// The row of an ended task counts as written though the store did not take it.
    EndedRowLeft,
}

impl Flaw {
    /// Those that seeds of tasks alone show. The seeds of the operating model have a list of their own, with features.
    pub const ALL: [Self; 27] = [
        Self::NoClockCheckAfterWrite,
        Self::ClockReadBeforeWritten,
        Self::LateEntryNotMoved,
        Self::FiredBeforeAcknowledged,
        Self::UnknownMoveTakenForApplied,
        Self::LookDroppedAtUnclaimed,
        Self::LookDroppedAtRetrying,
        Self::LookWithoutSuccessor,
        Self::NoLookBeforePublish,
        Self::NearWithoutRecord,
        Self::ClaimWithoutAttempt,
        Self::SettleWithoutAttempt,
        Self::HeartbeatIgnored,
        Self::EraseTakesTheSlot,
        Self::EraseWithinATick,
        Self::LateRetryLeft,
        Self::RetryNotPut,
        Self::PublishEarly,
        Self::TakeOverBeginsAtOpened,
        Self::TerminalRowExpiresEarly,
        Self::ShortPageTakenForLast,
        Self::CancelNotWritten,
        Self::BodyDeletedWithOldPlace,
        Self::SpillNotWritten,
        Self::OldMessageTrusted,
        Self::RedriveKeepsTries,
        Self::RedriveWithoutLook,
    ];
}

#[cfg(any(debug_assertions, feature = "flaws"))]
thread_local! {
    static ON: std::cell::Cell<Option<Flaw>> = const { std::cell::Cell::new(None) };
}

/// Tells whether this thread runs with the bug.
#[cfg(any(debug_assertions, feature = "flaws"))]
#[must_use]
pub fn is(flaw: Flaw) -> bool {
    ON.get() == Some(flaw)
}

/// Tells whether this thread runs with the bug: never.
#[cfg(not(any(debug_assertions, feature = "flaws")))]
#[inline(always)]
#[must_use]
pub const fn is(_: Flaw) -> bool {
    false
}

/// Switches this thread to a bug, or to none.
#[cfg(any(debug_assertions, feature = "flaws"))]
pub fn switch(flaw: Option<Flaw>) {
    ON.set(flaw);
}
