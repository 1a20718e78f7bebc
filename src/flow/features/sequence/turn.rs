//! The turn stage asks for the turn of a sequence, for claims; it also tells looks and the dispatcher who has it.
//!
//! A task that finds itself the holder need not read any rows. Where nobody holds the turn, the task takes it if no member
//! before it counts. All that is over on the way is cleared: a holder that has ended, rows of tasks that have, ghosts.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use futures_util::future::join_all;

use super::leave;
use crate::{
    flaw::{self, Flaw},
    flow::base::{
        api::Fault,
        context::Context,
        documents,
        read::find::Finder,
        rows::stored,
        tables::sequences::{self, Read, Written},
    },
    limits,
    model::{
        entry,
        ids::TaskId,
        ordering::{self, Bound, Holder, Member, Sequence, Standing, Turn},
        row::TaskRow,
        task::Spec,
        time::Millis,
    },
    store::Freshness,
};

/// The answer to a task that asks for the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::flow) enum Asked {
    /// It has the turn.
    Mine,
    /// Another task has it, or comes first.
    Behind,
}

/// The hold of a holder on the turn.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::flow) enum Hold {
    /// It keeps nobody waiting any more.
    Over,
    /// It keeps the others waiting.
    Stands,
    /// The same, and its task has no row yet.
    Registered(Arc<Spec>),
}

/// A search of the members of a sequence.
#[derive(Debug, Clone, Copy)]
pub(in crate::flow) struct Search {
    /// From here on.
    pub(in crate::flow) from: Bound,
    /// And before this.
    pub(in crate::flow) until: Bound,
    /// Without this task in this generation.
    pub(in crate::flow) but: Option<(TaskId, u32)>,
    /// Members that wait for their next attempt are passed over.
    pub(in crate::flow) skips: bool,
}

/// The outcome of a search.
#[derive(Debug)]
pub(in crate::flow) struct Found {
    pub(in crate::flow) first: First,
    /// The first member that was passed over: it counts again when its next attempt is due.
    pub(in crate::flow) waits: Option<Bound>,
}

/// The judgement of a member.
enum Judged {
    Over,
    Waits,
    First(First),
}

/// The first member that counts before a bound.
#[derive(Debug)]
pub(in crate::flow) enum First {
    /// There is none.
    None,
    /// It is this one, with the row of its task.
    Member(Member, Option<Box<TaskRow>>),
    /// It is known then.
    Open(Millis),
}

/// The keeper of turns. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::flow) struct SequenceLock {
    ctx: Arc<Context>,
    finder: Finder,
}

impl SequenceLock {
    /// Keeps the turns in this store.
    #[must_use]
    pub(in crate::flow) const fn new(ctx: Arc<Context>, finder: Finder) -> Self {
        Self { ctx, finder }
    }

    /// Asks for the turn for an attempt of a task that is due, in its present generation.
    ///
    /// # Errors
    /// When the store is away, or others change the turn all the time.
    pub(in crate::flow) async fn ask(
        &self,
        sequence: &Sequence,
        (id, generation): (TaskId, u32),
        start: Millis,
        attempt: u32,
    ) -> Result<Asked, Fault> {
        if flaw::is(Flaw::TurnNotAsked) {
            return Ok(Asked::Mine);
        }
        let skips = leave::skips(&self.ctx, sequence).await?;
        let mine = |from| self.turn_of((id, generation), if skips { attempt } else { 0 }, from);
        let mut there = sequences::read(&self.ctx, sequence, Freshness::Quorum).await?;
        for _ in 0..limits::TURN_RACES_MAX {
            let own = Bound::of(start, id);
            let search = Search {
                from: there.turn.from,
                until: own,
                but: Some((id, generation)),
                skips,
            };
            let turn = match there.turn.holder {
                Some(holder) if holder.is(id, generation) => match holder.has(attempt) {
                    true => match self.anew(there.turn, holder, attempt) {
                        Some(turn) => turn,
                        None => return Ok(Asked::Mine),
                    },
                    false => mine(there.turn.from),
                },
                Some(holder) if self.stands(&holder).await? => return Ok(Asked::Behind),
                Some(_) => Turn {
                    holder: None,
                    ..there.turn
                },
                None => {
                    let found = self.first(sequence, search).await?;
                    match found.first {
                        First::Member(member, row) => {
                            if row.is_none() {
                                self.remind(sequence, member.rank.start);
                            }
                            return Ok(Asked::Behind);
                        }
                        First::Open(until) => {
                            // If that one is a ghost, nobody else comes back to this task soon.
                            let at = self.ctx.time.moment().after(until.since(self.ctx.now()));
                            self.ctx.turn_queue.again(sequence.clone(), at, 0);
                            return Ok(Asked::Behind);
                        }
                        First::None => mine(found.waits.map_or(own, |waits| waits.min(own))),
                    }
                }
            };
            there = match sequences::write(&self.ctx, sequence, &there, turn).await? {
                Written::Done(now) | Written::Lost(now) => now,
            };
        }
        Err(documents::raced(sequences::turn_of(sequence)))
    }

    fn anew(&self, turn: Turn, holder: Holder, attempt: u32) -> Option<Turn> {
        let holder = holder.anew(attempt, self.ctx.settings.erase_delay, self.ctx.now())?;
        let holder = Some(holder);
        Some(Turn { holder, ..turn })
    }

    fn turn_of(&self, (id, generation): (TaskId, u32), attempt: u32, from: Bound) -> Turn {
        let holder = Holder {
            id,
            generation,
            since: self.ctx.now(),
            attempt,
        };
        Turn {
            holder: Some(holder),
            from,
        }
    }

    /// Gives back the turn of a task that was claimed for nothing: its row says that it is over in this generation.
    ///
    /// # Errors
    /// When the store is away; the next claim of the sequence does it then.
    pub(in crate::flow) async fn give_back(
        &self,
        sequence: &Sequence,
        task: (TaskId, u32),
    ) -> Result<(), Fault> {
        leave::pass_on(&self.ctx, sequence, task).await
    }

    /// Returns the tasks that have the turns of these sequences and keep the others waiting. Where it cannot be told, the claim
    /// finds out. The reminder looks after a holder that nothing comes to any more.
    pub(in crate::flow) async fn holders(
        &self,
        sequences: &[Sequence],
    ) -> HashMap<Sequence, TaskId> {
        let mut holders = HashMap::new();
        for some in sequences.chunks(limits::TURNS_IN_FLIGHT_MAX) {
            let asked = some.iter().map(|sequence| self.holder(sequence));
            for (sequence, holder) in some.iter().zip(join_all(asked).await) {
                if let Ok(Some(holder)) = holder {
                    holders.insert(sequence.clone(), holder);
                }
            }
        }
        holders
    }

    async fn holder(&self, sequence: &Sequence) -> Result<Option<TaskId>, Fault> {
        let there = sequences::read(&self.ctx, sequence, Freshness::Quorum).await?;
        let Some(holder) = there.turn.holder else {
            return Ok(None);
        };
        let row = self.row(holder.id, holder.generation).await?;
        if self.hold_of(&holder, row.as_ref()).await? == Hold::Over {
            return Ok(None);
        }
        if row.is_none() {
            self.remind(sequence, holder.since);
        }
        Ok(Some(holder.id))
    }

    /// Has the reminder look whether anything still comes to the first task of a sequence, which has no row and holds the others
    /// since then, if that is long ago.
    fn remind(&self, sequence: &Sequence, since: Millis) {
        if entry::is_left(since, self.ctx.settings.erase_delay, self.ctx.now()) {
            let at = self.ctx.time.moment().after(entry::LEFT_AFTER);
            self.ctx.turn_queue.remind(sequence.clone(), at);
        }
    }

    /// Reads a turn.
    pub(in crate::flow) async fn read(&self, sequence: &Sequence) -> Result<Read, Fault> {
        sequences::read(&self.ctx, sequence, Freshness::Quorum).await
    }

    /// Tells whether a holder keeps the others waiting.
    pub(in crate::flow) async fn stands(&self, holder: &Holder) -> Result<bool, Fault> {
        let row = self.row(holder.id, holder.generation).await?;
        Ok(self.hold_of(holder, row.as_ref()).await? != Hold::Over)
    }

    /// Returns the hold of a holder on the turn, by the row of its task, which was read after the turn.
    pub(in crate::flow) async fn hold_of(
        &self,
        holder: &Holder,
        row: Option<&TaskRow>,
    ) -> Result<Hold, Fault> {
        Ok(match ordering::holder_stands(holder, row, self.ctx.now()) {
            Standing::Over | Standing::Waits => Hold::Over,
            Standing::IfWritten => match self.finder.registered(holder.id).await? {
                Some(found) => Hold::Registered(found.spec),
                None => Hold::Over,
            },
            Standing::Stands | Standing::Open(_) => Hold::Stands,
        })
    }

    /// Finds the first member that counts, from one bound to another, but for a task in this generation: an old message of a task
    /// that was moved must not pass its new place. Rows of what is over are removed.
    pub(in crate::flow) async fn first(
        &self,
        sequence: &Sequence,
        search: Search,
    ) -> Result<Found, Fault> {
        let mut after = None::<Bytes>;
        let mut waits = None;
        loop {
            let page = match after {
                None => sequences::members(&self.ctx, sequence, &search.from).await?,
                Some(after) => sequences::members_behind(&self.ctx, sequence, Some(after)).await?,
            };
            let mut over = Vec::new();
            let mut found = None;
            for member in &page.members {
                if member.rank.bound() >= search.until {
                    found = Some(First::None);
                    break;
                }
                if search.but == Some((member.rank.id, member.rank.generation)) {
                    continue;
                }
                match self.judged(member, search.skips).await? {
                    Judged::Over => over.push(member.rank),
                    Judged::Waits => waits = waits.or_else(|| Some(member.rank.bound())),
                    Judged::First(first) => {
                        found = Some(first);
                        break;
                    }
                }
            }
            sequences::remove(&self.ctx, sequence, over.into_iter()).await?;
            match (found, page.next) {
                (Some(first), _) => return Ok(Found { first, waits }),
                (None, None) => {
                    let first = First::None;
                    return Ok(Found { first, waits });
                }
                (None, next) => after = next,
            }
        }
    }

    /// Judges a member.
    async fn judged(&self, member: &Member, skips: bool) -> Result<Judged, Fault> {
        let rank = &member.rank;
        let row = self.row(rank.id, rank.generation).await?;
        let now = self.ctx.now();
        if skips
            && row
                .as_ref()
                .is_some_and(|row| ordering::is_passed_over(member, row, now))
        {
            return Ok(Judged::Waits);
        }
        Ok(match ordering::member_stands(member, row.as_ref(), now) {
            Standing::Over => Judged::Over,
            Standing::Stands | Standing::Waits => {
                Judged::First(First::Member(*member, row.map(Box::new)))
            }
            Standing::Open(until) => Judged::First(First::Open(until)),
            Standing::IfWritten => match self.finder.registered(rank.id).await? {
                Some(_) => Judged::First(First::Member(*member, row.map(Box::new))),
                None => Judged::Over,
            },
        })
    }

    /// Reads the row of a task that is or was about to be in this generation.
    pub(in crate::flow) async fn row(
        &self,
        id: TaskId,
        generation: u32,
    ) -> Result<Option<TaskRow>, Fault> {
        let rows = stored::rows_of_generations(&self.ctx, &[(id, generation)]).await;
        Ok(rows.into_iter().next().transpose()?.flatten())
    }
}
