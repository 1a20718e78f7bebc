//! Debts: what the ends that a row tells of owe, and in which order it is paid.
//!
//! A row that says "ended" is written first. All that follows is a debt: letters, lists, reports, and rows of others that wait.
//! Each debt is idempotent. The writer of the row pays all of them, and so do the looks of the task until one has paid them all.
//! So a crash between two debts repeats them and loses none.
//!
//! A row that is about to be replaced, by a redrive, a round or a deletion, forgets its end. Its debts that no later row can pay
//! are paid before ([`before`]).
//!
//! The rules here decide; `flow::life::door` pays.

use std::time::Duration;

use super::{
    action::End,
    action_task::{end_of_run, end_of_tree, first_claim},
    dead_letter_record, family,
    row::{State, TaskRow},
    time::Millis,
};

/// Something that an end owes. The order of the variants is the order in which debts are paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Debt {
    /// The task leaves its sequence, and the turn goes on.
    Turn,
    /// Content, result and labels of a task that a person deleted are removed.
    Removal,
    /// The letter of the death before the last one is removed.
    FormerLetter,
    /// The letter of its death is written.
    Letter,
    /// The rows are written, or removed, by which lists find tasks that have ended.
    Listing,
    /// The rows of its labels get an end of life.
    Labels,
    /// A content that is kept apart gets an end of life.
    Content,
    /// The record of its death is published, where its callback names a topic for that.
    DeathRecord,
    /// The first claim of its own run is told, and its actions are done, where that was not sure behind the claim.
    Claim,
    /// The end of its own run is told: its notice, its actions, and the tasks that follow it outside of its tree.
    RunReport,
    /// The same of the end of its tree.
    TreeReport,
    /// The tasks that follow it in its tree are added.
    FollowUps,
    /// Its parent is told. The tree of the task itself is checked, where that goes on.
    Parent,
    /// The tasks that wait for it are told.
    Waiters,
}

impl Debt {
    /// All of them, in order. A variant that is missing here does not compile, unless it stands behind the last one.
    pub const ALL: [Self; Self::Waiters as usize + 1] = [
        Self::Turn,
        Self::Removal,
        Self::FormerLetter,
        Self::Letter,
        Self::Listing,
        Self::Labels,
        Self::Content,
        Self::DeathRecord,
        Self::Claim,
        Self::RunReport,
        Self::TreeReport,
        Self::FollowUps,
        Self::Parent,
        Self::Waiters,
    ];

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// A set of debts. It is as small as a number, since each end of each task makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Debts(u16);

impl Debts {
    /// No debt.
    pub const NONE: Self = Self(0);

    /// Tells whether a debt is among them.
    #[must_use]
    pub const fn has(self, debt: Debt) -> bool {
        self.0 & debt.bit() != 0
    }

    /// Returns the debts in the order in which they are paid.
    pub fn in_order(self) -> impl Iterator<Item = Debt> {
        Debt::ALL.into_iter().filter(move |debt| self.has(*debt))
    }

    const fn with(self, debt: Debt, is_owed: bool) -> Self {
        if is_owed {
            Self(self.0 | debt.bit())
        } else {
            self
        }
    }
}

/// The time at which debts are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Now, or when the look was due that asks. Looks behind an end pay also where they come days late.
    pub at: Millis,
    /// The store expires rows by this time. It is `now` or before.
    pub expired_by: Millis,
    /// Internal tasks are remembered for so long ([`crate::limits::END_TOLD_WITHIN`]). An end that is older is not told again.
    pub told_within: Duration,
    /// The caller may be the first that pays, however old the end is: it wrote the row, or is the last look of a plain task. The
    /// look of a task that was cancelled long before its start may be the first.
    pub is_first: bool,
}

impl Asked {
    /// Tells whether an end of this time may be told: a repetition still finds the tasks that were registered when it was told
    /// before.
    fn may_tell(&self, end: Option<Millis>) -> bool {
        end.is_none_or(|end| self.expired_by.since(end) < self.told_within)
    }
}

/// Returns what the row of a task owes whose own run has ended.
#[must_use]
pub fn of_end(row: &TaskRow, asked: &Asked) -> Debts {
    if row.waits_for_children() {
        return of_run(row, asked);
    }
    let (detail, spec) = (&row.detail, &row.detail.spec);
    let of_tree = spec.kin.is_some();
    let tells = asked.may_tell(detail.end_time) || asked.is_first && !of_tree;
    let callback = spec.callback();
    let debts = Debts::NONE
        .with(Debt::Turn, spec.ordering_key.is_some())
        .with(Debt::Removal, detail.erased)
        .with(Debt::FormerLetter, had_letter(row))
        .with(Debt::Letter, row.state == State::Dead && !detail.erased)
        .with(
            Debt::Listing,
            detail.end_time.is_some() && callback.is_some(),
        )
        .with(Debt::Labels, !detail.erased && !spec.indexed.is_empty())
        .with(Debt::Content, spec.bytes_apart().is_some())
        .with(
            Debt::DeathRecord,
            tells && dead_letter_record::may_have_one(row),
        )
        .with(Debt::Claim, claim_is_owed(row, asked))
        .with(Debt::RunReport, tells && run_is_awaited(row));
    let debts = debts.with(Debt::Waiters, is_awaited(row));
    if !of_tree {
        return debts;
    }
    debts
        .with(Debt::TreeReport, tree_is_awaited(row, asked))
        .with(Debt::FollowUps, has_follow_ups_in_tree(row))
        .with(Debt::Parent, spec.parent().is_some())
}

/// Returns what the end of the own run of a task owes whose tree goes on. The end of its life in the store waits for the tree.
/// Its reports are not repeated for ever: they would be told again once no row remembers that they were.
fn of_run(row: &TaskRow, asked: &Asked) -> Debts {
    let end = row.detail.end_time;
    let repeated = family::run_steps_repeated(row.id);
    let tells = asked.may_tell(end) && end.is_none_or(|end| asked.at.since(end) < repeated);
    Debts::NONE
        .with(Debt::Turn, tells && row.detail.spec.ordering_key.is_some())
        .with(Debt::FormerLetter, tells && had_letter(row))
        .with(Debt::Letter, tells && row.state == State::Dead)
        .with(
            Debt::DeathRecord,
            tells && dead_letter_record::may_have_one(row),
        )
        .with(Debt::Claim, tells && claim_is_owed(row, asked))
        .with(Debt::RunReport, tells && run_is_awaited(row))
        .with(Debt::FollowUps, has_follow_ups_in_tree(row))
        .with(Debt::Parent, true)
}

/// The debt that a change of a row has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owes {
    /// Nothing.
    Nothing,
    /// The first claim of its life is to be told ([`of_claim`]).
    FirstClaim,
    /// The row tells of an end that the row before did not ([`of_end`]).
    End,
}

/// Returns what the change from one row of a task to the next has begun to owe.
#[must_use]
pub fn of_change(before: Option<&TaskRow>, after: &TaskRow) -> Owes {
    if after.state.is_terminal() {
        let before = before.filter(|row| row.state.is_terminal());
        let is_known = before.is_some_and(|before| Ends::of(before).tells_of(after));
        return if is_known { Owes::Nothing } else { Owes::End };
    }
    let runs = |row: &TaskRow| row.state == State::Claimed && row.attempt == row.first_attempt();
    if runs(after) && !before.is_some_and(runs) && after.detail.spec.claim_is_awaited() {
        Owes::FirstClaim
    } else {
        Owes::Nothing
    }
}

/// The ends that a row tells of: that of the own run, that of the tree, and its deletion. Rows that differ otherwise tell of the
/// same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    run: (State, u32, u32, Option<Millis>),
    tree: Option<Millis>,
    round: u32,
    erased: bool,
}

impl Ends {
    /// Of this row.
    #[must_use]
    pub fn of(row: &TaskRow) -> Self {
        let detail = &row.detail;
        Self {
            run: (
                row.state,
                row.run_generation(),
                row.attempt,
                detail.end_time,
            ),
            tree: detail.tree.map(|tree| tree.at),
            round: detail.rounds.round,
            erased: detail.erased,
        }
    }

    /// Tells whether all ends are among these of which a later row tells. A tree that goes on has lost one, and told none.
    fn tells_of(&self, after: &TaskRow) -> bool {
        let later = Self::of(after);
        let same_tree = (self.tree, self.round) == (later.tree, later.round);
        let same_run = (self.run, self.erased) == (later.run, later.erased);
        same_run && (same_tree || after.waits_for_children())
    }
}

/// The change that makes a row forget an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgetting {
    /// The own run begins again, or waits again: by a redrive, or in a round of its tree.
    Run,
    /// The tree goes on. The end of the own run stays.
    Tree,
    /// A person deletes the task.
    All,
}

/// Returns which end of a row the next one forgets, if it forgets one.
#[must_use]
pub fn forgets(before: &TaskRow, after: &TaskRow) -> Option<Forgetting> {
    if !before.state.is_terminal() {
        return None;
    }
    if !after.state.is_terminal() {
        return Some(Forgetting::Run);
    }
    if after.detail.erased && !before.detail.erased {
        return Some(Forgetting::All);
    }
    let tree_goes_on = before.detail.tree.is_some() && after.detail.tree.is_none();
    tree_goes_on.then_some(Forgetting::Tree)
}

/// Returns the debts of an ended row that are to be paid before it forgets an end.
#[must_use]
pub fn before(forgetting: Forgetting, row: &TaskRow, asked: &Asked) -> Debts {
    let tree = row.detail.tree.map(|tree| tree.at);
    let tells_an_end =
        asked.may_tell(row.detail.end_time) || tree.is_some() && asked.may_tell(tree);
    let reports = Debts::NONE
        .with(Debt::Claim, claim_is_owed(row, asked))
        .with(
            Debt::RunReport,
            asked.may_tell(row.detail.end_time) && run_is_awaited(row),
        )
        .with(Debt::FollowUps, tells_an_end && has_follow_ups_in_tree(row))
        .with(Debt::TreeReport, tree_is_awaited(row, asked))
        // An end counts for those that wait for it, also where the task goes on.
        .with(Debt::Waiters, row.has_ended() && is_awaited(row));
    match forgetting {
        Forgetting::Run => {
            let lacks_record = dead_letter_record::may_lack_its_record(row, asked.at);
            reports
                .with(Debt::FormerLetter, had_letter(row))
                .with(Debt::DeathRecord, lacks_record)
        }
        Forgetting::Tree => reports,
        // The tombstone pays all but its reports, and the record of a death goes with its content.
        Forgetting::All if row.detail.spec.end_is_awaited() => of_end(row, asked),
        Forgetting::All => Debts::NONE,
    }
}

fn had_letter(row: &TaskRow) -> bool {
    row.detail.died.is_some() && row.detail.spec.callback().is_some()
}

/// Tells whether tasks may wait for it, or it has waited for others itself.
fn is_awaited(row: &TaskRow) -> bool {
    let spec = &row.detail.spec;
    spec.after.is_some() || spec.callback().is_some() && !row.id.is_internal()
}

/// Returns what a task owes whose own run goes on, for its looks: one of them at least is due within the lease of a first attempt
/// whose node died behind the claim.
#[must_use]
pub fn of_claim(row: &TaskRow, asked: &Asked) -> Debts {
    let repeated = family::run_steps_repeated(row.id) + row.detail.spec.heartbeat_timeout;
    let lately = |end: End| asked.at.since(end.at()) < repeated;
    let is_owed = claim_is_owed(row, asked) && first_claim(row).is_some_and(lately);
    Debts::NONE.with(Debt::Claim, is_owed)
}

fn claim_is_owed(row: &TaskRow, asked: &Asked) -> bool {
    let may_tell = |end: End| asked.may_tell(Some(end.at()));
    row.detail.spec.claim_is_awaited() && first_claim(row).is_some_and(may_tell)
}

fn run_is_awaited(row: &TaskRow) -> bool {
    row.detail.spec.end_is_awaited() && end_of_run(row).is_some()
}

fn tree_is_awaited(row: &TaskRow, asked: &Asked) -> bool {
    let end = row.detail.tree.map(|tree| tree.at);
    end.is_some()
        && asked.may_tell(end)
        && row.detail.spec.end_is_awaited()
        && end_of_tree(row).is_some()
}

fn has_follow_ups_in_tree(row: &TaskRow) -> bool {
    row.detail.spec.then.iter().any(|follow| follow.in_tree)
}
