//! The release stage brings held tasks back for the owner of a wheel, once their gate has opened, and ends them where it drops.
//!
//! A task is published first, then its row is removed. A crash between the two publishes it again, which its claim refuses.
//! Rows of a gate are read when it opens, for a while after that because other nodes may still hold tasks then
//! ([`LATE_ROWS`](crate::model::gate::LATE_ROWS)), and once when the wheel is taken. A paused gate costs no reading.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::term::Term;
use crate::{
    flow::{
        base::{
            api::Fault, context::Context, read::find::Finder, records::callbacks::Snapshot,
            rows::stored, tables::held,
        },
        features::gate::gatekeeper::{Gatekeeper, Holding},
        life::{
            door::{Applied, Basis, Door},
            send::Sender,
            sending::{Sending, Unsent},
        },
    },
    limits::{RELEASE_ROWS_MAX, RELEASE_STEP},
    model::{
        dispatch::Dispatch,
        gate::{Gate, GateState, Held, Release, release},
        state::{self, DROPPED, Event, Refusal, TaskRow},
        target::Class,
        task::Spec,
        time::Millis,
        undelivered::{self, Action, Stage},
    },
    schema::decode_held,
    store::{
        Error,
        index::{IndexRange, IndexRemoval, IndexRow, Partition, Place},
    },
    time_source::Moment,
};

/// How often the rows of a gate that drops are read: they come as tasks become due.
const DROP_EVERY: Duration = Duration::from_secs(1);

/// How long the stage waits for a change where nothing is to be done.
const IDLE: Duration = Duration::from_secs(10);

/// The stage of one term.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Releaser {
    pub(super) ctx: Arc<Context>,
    pub(super) sender: Sender,
    pub(super) door: Door,
    pub(super) finder: Finder,
    pub(super) term: Arc<Term>,
}

/// A gate, and what the stage remembers of it.
#[derive(Debug)]
struct Known {
    callback: String,
    gate: Gate,
    /// When it had opened when its rows were last read to the end.
    done: Option<Millis>,
    /// When that was, for a gate that drops.
    dropped: Option<Moment>,
    /// Where the reading goes on.
    behind: Option<Bytes>,
    /// Rows stayed in a page that was read before: the gate is read again from its first row.
    stayed: bool,
}

/// All gates, as of a change of the copy of the configuration.
#[derive(Debug, Default)]
struct Progress {
    changes: Option<u64>,
    gates: Vec<Known>,
}

/// How a page of rows went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    /// There are more rows.
    More,
    /// There are more rows, and some of this page stayed.
    MoreBehind,
    /// It was the last one.
    Last,
    /// Something was away: to be tried again after a pause.
    Again,
}

/// A held task that is to go out or to end, and its row of the index.
#[derive(Debug)]
struct Due {
    row: IndexRow,
    held: Held,
    spec: Arc<Spec>,
    start: Millis,
    /// The task's own row.
    task: Option<TaskRow>,
}

impl Releaser {
    /// Releases until the term ends.
    pub(in crate::flow) async fn run(self) {
        let mut progress = Progress::default();
        let mut changes = self.keeper().callbacks().cache().watch();
        loop {
            changes.mark_unchanged();
            let moves = self.ctx.time.moves();
            let wait = self.step(&mut progress).await;
            tokio::select! {
                biased;
                () = self.term.ended.cancelled() => return,
                () = changes.changed() => {}
                () = self.ctx.time.sleep_unless_moved(wait, moves) => {}
            }
        }
    }

    const fn keeper(&self) -> &Gatekeeper {
        self.sender.gatekeeper()
    }

    /// Reads the rows of every gate that is not paused, a page of each in turn. Returns when there is something to do next, as
    /// long as nothing changes.
    async fn step(&self, progress: &mut Progress) -> Duration {
        loop {
            // A node whose copy is not current publishes nothing.
            let Some(copy) = self.keeper().callbacks().current() else {
                return RELEASE_STEP;
            };
            progress.learn(&copy);
            let (mut more, mut next) = (false, IDLE);
            for known in &mut progress.gates {
                if known
                    .until_due(self.ctx.now(), self.ctx.time.moment())
                    .is_zero()
                {
                    if self.term.ended.is_cancelled() || !self.term.is_live(self.ctx.time.moment())
                    {
                        return RELEASE_STEP;
                    }
                    more |= self.read(known).await;
                }
                let wait = known.until_due(self.ctx.now(), self.ctx.time.moment());
                next = next.min(wait.max(RELEASE_STEP));
            }
            if !more {
                return next;
            }
        }
    }

    /// Reads a page of a gate; tells whether there are more to be read now.
    async fn read(&self, known: &mut Known) -> bool {
        let after = known.behind.take();
        let now = self.ctx.now();
        let (page, next) = match self.page(&known.callback, &known.gate, after).await {
            Ok(page) => page,
            Err(fault) => {
                let (callback, gate) = (&known.callback, &known.gate.collection);
                tracing::debug!(callback, gate, %fault, "held tasks cannot be released now");
                (Page::Again, None)
            }
        };
        match page {
            Page::More | Page::MoreBehind => {
                known.behind = next;
                known.stayed |= page == Page::MoreBehind;
                return true;
            }
            // From the first row on, after a pause.
            Page::Last if known.stayed => known.stayed = false,
            Page::Last => {
                known.done = Some(opened(&known.gate, now));
                known.dropped = Some(self.ctx.time.moment());
            }
            Page::Again => known.stayed = false,
        }
        false
    }

    /// Reads a page of held tasks and lets each go. Also returns where the next page begins.
    async fn page(
        &self,
        callback: &str,
        gate: &Gate,
        after: Option<Bytes>,
    ) -> Result<(Page, Option<Bytes>), Fault> {
        let partition = held::partition(callback, &gate.collection, self.term.wheel);
        let Ok(partition) = partition else {
            return Ok((Page::Last, None));
        };
        let range = IndexRange {
            partition: partition.clone(),
            after,
            rows_max: RELEASE_ROWS_MAX,
        };
        let read = self.ctx.store.index_range(&range).await?;
        let (due, mut gone, away) = self.sort_out(read.rows).await?;
        let drops = gate.state_at(self.ctx.now()) == GateState::Dropping;
        let all = due.len();
        let went = if drops {
            self.drop_all(due, gate).await
        } else {
            self.send(due, gate).await
        };
        let (stopped, gone_any) = (away || went.len() < all, !went.is_empty());
        gone.extend(went);
        self.remove(&partition, gone).await;
        // Rows that stay must not keep those behind them: they are read again from the first one on.
        let page = match (&read.next, stopped) {
            (Some(_), true) if gone_any => Page::MoreBehind,
            (_, true) => Page::Again,
            (Some(_), false) => Page::More,
            (None, false) => Page::Last,
        };
        Ok((page, read.next))
    }

    /// Tells those rows that say nothing any more from those whose tasks are due. Also tells whether some of these cannot be
    /// read now.
    async fn sort_out(
        &self,
        rows: Vec<IndexRow>,
    ) -> Result<(Vec<Due>, Vec<IndexRow>, bool), Fault> {
        let (mut held, mut gone, mut away) = (Vec::new(), Vec::new(), false);
        for row in rows {
            match decode_held(&row.sort, row.value.clone()) {
                Ok((one, spec)) => held.push((row, one, spec)),
                Err(error) => {
                    tracing::error!(%error, "forgot a held task that cannot be read; its look comes to it");
                    gone.push(row);
                }
            }
        }
        let ids: Vec<_> = held.iter().map(|(_, one, _)| one.id).collect();
        let tasks = stored::rows_each(&self.ctx, &ids).await;
        let mut due = Vec::new();
        for ((row, one, spec), task) in held.into_iter().zip(tasks) {
            // Its look sets a row aside that cannot be understood; one that is away is read the next time.
            let task = match task {
                Ok(task) => task,
                Err(error) => {
                    away |= matches!(error, Error::Unavailable { .. });
                    continue;
                }
            };
            let start = match release(&one, task.as_ref(), self.ctx.now()) {
                Release::Due { start } => start,
                Release::Wait => continue,
                Release::Forget => {
                    gone.push(row);
                    continue;
                }
            };
            let spec = match (&task, spec) {
                (Some(task), _) => Some(Arc::clone(&task.detail.spec)),
                (None, Some(spec)) => Some(Arc::new(spec)),
                (None, None) => self
                    .finder
                    .registered(one.id)
                    .await?
                    .map(|found| found.spec),
            };
            match spec {
                Some(spec) => due.push(Due {
                    row,
                    held: one,
                    spec,
                    start,
                    task,
                }),
                None => gone.push(row),
            }
        }
        Ok((due, gone, away))
    }

    /// Publishes tasks. Returns the rows that are not needed any more.
    async fn send(&self, due: Vec<Due>, gate: &Gate) -> Vec<IndexRow> {
        let opened = opened(gate, self.ctx.now());
        let sendings: Vec<Sending> = due.iter().map(|due| sending(due, opened)).collect();
        let sent = self.sender.release(&sendings).await;
        let (mut gone, mut elsewhere) = (Vec::new(), Vec::new());
        for ((due, sending), sent) in due.into_iter().zip(sendings).zip(sent) {
            let action = sent
                .as_ref()
                .err()
                .map(|unsent| undelivered::action(unsent.reason(), Stage::Release, Class::Tracked));
            match (action, sent) {
                (None | Some(Action::LeaveToLook), _) => gone.push(due.row),
                // The row of another gate is written before this one is removed.
                (Some(Action::Hold), Err(Unsent::Gated(other))) if other != gate.collection => {
                    let holding = Holding {
                        dispatch: sending.dispatch,
                        spec: sending.spec,
                        gate: other,
                    };
                    elsewhere.push((holding, due.row));
                }
                (Some(_), _) => {}
            }
        }
        let (holdings, rows): (Vec<Holding>, Vec<IndexRow>) = elsewhere.into_iter().unzip();
        let held = self.keeper().hold(&holdings).await;
        let moved = rows.into_iter().zip(held).filter(|(_, held)| held.is_ok());
        gone.extend(moved.map(|(row, _)| row));
        metrics::counter!("tickwheel_released_total").increment(gone.len() as u64);
        gone
    }

    /// Ends tasks as cancelled. Returns the rows that are not needed any more.
    async fn drop_all(&self, due: Vec<Due>, gate: &Gate) -> Vec<IndexRow> {
        let mut gone = Vec::new();
        for due in due {
            let row = due.row.clone();
            match self.drop_one(due, gate).await {
                Ok(()) => gone.push(row),
                Err(fault) => tracing::debug!(%fault, "a task is dropped the next time"),
            }
        }
        gone
    }

    async fn drop_one(&self, due: Due, gate: &Gate) -> Result<(), Fault> {
        let Due {
            held, spec, task, ..
        } = due;
        let reason = match &*gate.reason {
            "" => DROPPED.to_owned(),
            reason => format!("{DROPPED}: {reason}"),
        };
        let decide = |row: Option<&TaskRow>, now: Millis, nonce| {
            // Another attempt may have begun, or the task been moved, since it was read.
            if release(&held, row, now) == Release::Forget {
                return Err(Refusal::Stale);
            }
            let event = Event::Dropped {
                reason: reason.clone(),
            };
            state::next(held.id, row, &spec, event, now, nonce)
        };
        let basis = Basis::guessed(task);
        if let Applied::To(owing) = self.door.apply(held.id, basis, decide).await? {
            if owing.row().state.is_terminal() {
                metrics::counter!("tickwheel_dropped_total").increment(1);
            }
            owing.pay(&self.ctx).await.1?;
        }
        Ok(())
    }

    /// Removes rows. One that stays is looked at again, and forgotten then.
    async fn remove(&self, partition: &Partition, rows: Vec<IndexRow>) {
        let removals: Vec<IndexRemoval> = rows
            .into_iter()
            .filter_map(|row| {
                let place = Place::new(partition.clone(), row.sort).ok()?;
                Some(held::removal(place, row.written))
            })
            .collect();
        if !removals.is_empty() {
            let removed = self.ctx.store.remove_index(&removals).await;
            let left = removed.iter().filter(|result| result.is_err()).count();
            tracing::debug!(left, "removed the rows of held tasks");
        }
    }
}

impl Known {
    /// Returns how long it is until rows of the gate are to be read; zero when they are now.
    fn until_due(&self, now: Millis, moment: Moment) -> Duration {
        match self.gate.state_at(now) {
            GateState::Paused => self.gate.until.map_or(IDLE, |until| until.since(now)),
            GateState::Dropping => self.dropped.map_or(Duration::ZERO, |last| {
                DROP_EVERY.saturating_sub(moment.since(last))
            }),
            GateState::Open if self.gate.may_get_rows(now) => Duration::ZERO,
            GateState::Open if self.done == Some(opened(&self.gate, now)) => IDLE,
            GateState::Open => Duration::ZERO,
        }
    }
}

impl Progress {
    /// Takes over the gates of a copy that has changed. A gate that was not set anew is remembered as before.
    fn learn(&mut self, copy: &Snapshot) {
        if self.changes == copy.changes() {
            return;
        }
        let mut old = std::mem::take(&mut self.gates);
        let known = copy.gates().into_iter().map(|(callback, gate)| {
            let same = |known: &Known| known.callback == callback && known.gate == gate;
            match old.iter().position(same) {
                Some(place) => old.swap_remove(place),
                None => Known {
                    callback,
                    gate,
                    done: None,
                    dropped: None,
                    behind: None,
                    stayed: false,
                },
            }
        });
        self.gates = known.collect();
        self.changes = copy.changes();
    }
}

fn opened(gate: &Gate, now: Millis) -> Millis {
    gate.opened(now).unwrap_or(gate.since)
}

fn sending(due: &Due, opened: Millis) -> Sending {
    Sending {
        dispatch: Dispatch {
            id: due.held.id,
            generation: due.held.generation,
            expected_attempt: due.held.attempt,
            start: due.start,
        },
        spec: Arc::clone(&due.spec),
        first: due.held.attempt == 0,
        opened: Some(opened),
    }
}
