//! The examiner reads for the explainer all that a task may wait for: gate, turn, limit, workers, wheel, queue, other tasks.

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join;

use super::{remembered::Remembered, shares::Shares};
use crate::{
    flow::{
        base::{
            api::Fault,
            context::Context,
            tables::{joins, sequences},
        },
        features::sequence::leave,
        stages::cluster::members::Members,
    },
    limits::{SHARES_TOLD_EVERY, WHY_MEMBERS_MAX, WHY_OPEN_MAX},
    model::{
        callback::Callback,
        clock::ClockRow,
        ids::{NodeId, TaskId},
        limit::Limits,
        local_quota,
        ordering::{self, Bound, Member, Sequence, Standing},
        record::{Kind, Name},
        row::{State, TaskRow},
        target::Target,
        time::Millis,
        why::{
            Ahead, BEHIND_MIN, Limited, Open, POLL_MISSED, Seen, Stands, Subject, Wheel, Workers,
        },
    },
    schema::decode_pool,
    store::Freshness,
};

/// The examiner. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Examiner {
    ctx: Arc<Context>,
    known: Remembered,
    shares: Shares,
    members: Members,
    /// Since when this node knows of polls.
    began: Millis,
}

impl Examiner {
    pub(super) fn new(
        ctx: Arc<Context>,
        known: Remembered,
        shares: Shares,
        members: Members,
    ) -> Self {
        Self {
            began: ctx.now(),
            ctx,
            known,
            shares,
            members,
        }
    }

    /// Completes what is seen of a task, as far as it concerns the task at `now`. Returns the limits of its callback.
    ///
    /// # Errors
    /// When the store is away.
    pub(super) async fn complete(
        &self,
        task: &Subject<'_>,
        seen: &mut Seen,
        clock: &ClockRow,
        now: Millis,
    ) -> Result<Limits, Fault> {
        if waits_for_tasks(task) {
            seen.open = Some(self.open(task.id).await?);
            return Ok(Limits::default());
        }
        let Some(due) = due(task, seen.heartbeat, now) else {
            return Ok(Limits::default());
        };
        seen.wheel = Some(self.wheel(task.id, clock, due, now).await?);
        seen.queue_problem = self.members.queue_problem();
        let Some(name) = task.spec.callback() else {
            return Ok(Limits::default());
        };
        let callbacks = self.known.callbacks.known([name].into_iter()).await;
        let callback = callbacks.get(name)?;
        let closed = callback.and_then(|callback| callback.closed(&task.spec.collection, now));
        seen.gate = closed.map(|closed| closed.gate.clone());
        let limits = callback.map(Callback::limits).unwrap_or_default();
        let turn = self.ahead(task, due, now);
        let workers = self.workers(task, name, now);
        (seen.turn, seen.workers) = try_join(turn, workers).await?;
        seen.limit = self.limited(name, limits, now).await?;
        Ok(limits)
    }

    /// Reads the tasks that a task waits for and that have not ended.
    async fn open(&self, id: TaskId) -> Result<Open, Fault> {
        let rows = joins::dependencies(&self.ctx, id).await?;
        let open: Vec<TaskId> = rows
            .into_iter()
            .filter(joins::Joined::is_open)
            .map(|one| one.id)
            .collect();
        Ok(Open {
            tasks: open.len() as u64,
            first: open.into_iter().take(WHY_OPEN_MAX).collect(),
        })
    }

    /// Completes what the clock row of a wheel tells. Only of one that is behind more is asked.
    async fn wheel(
        &self,
        id: TaskId,
        clock: &ClockRow,
        due: Millis,
        now: Millis,
    ) -> Result<Wheel, Fault> {
        let mut wheel = Wheel {
            fired: clock.fired,
            owner: (clock.owner != NodeId::NOBODY).then_some(clock.owner),
            owner_seen: None,
            lease_until: clock.lease_until,
            before: None,
        };
        if now.since(clock.fired.due) <= BEHIND_MIN {
            return Ok(wheel);
        }
        let nodes = self.ctx.store.nodes().await?;
        let owner = nodes.iter().find(|node| node.node == clock.owner);
        wheel.owner_seen = owner.map(|node| node.wall);
        let pending = &self.known.pending;
        if pending.is_exact() {
            let mut before = 0;
            pending.each(id.wheel(), clock.fired.due, |last, tasks| {
                if last < due {
                    before += tasks;
                }
            });
            wheel.before = Some(before);
        }
        Ok(wheel)
    }

    /// Reads which task of its sequence a task waits for. Nothing is taken or cleared: its claim does that.
    async fn ahead(
        &self,
        task: &Subject<'_>,
        due: Millis,
        now: Millis,
    ) -> Result<Option<Ahead>, Fault> {
        let Some(sequence) = Sequence::of(task.spec) else {
            return Ok(None);
        };
        let there = sequences::read(&self.ctx, &sequence, Freshness::Quorum).await?;
        let (start, generation) = match task.stands {
            Stands::Row(row) => (row.detail.start, row.generation),
            Stands::Registered { .. } | Stands::Done { .. } => (due, 0),
        };
        if let Some(holder) = there.turn.holder {
            if holder.is(task.id, generation) {
                return Ok(None);
            }
            let row = sequences::task(&self.ctx, holder.id).await?;
            let standing = ordering::holder_stands(&holder, row.as_ref(), now);
            if !matches!(standing, Standing::Over | Standing::Waits) {
                let (id, since) = (holder.id, Some(holder.since));
                return Ok(Some(Ahead { id, since }));
            }
        }
        let page = sequences::members(&self.ctx, &sequence, &there.turn.from).await?;
        let own = Bound::of(start, task.id);
        let before: Vec<Member> = page
            .members
            .into_iter()
            .take_while(|member| member.rank.bound() < own)
            .filter(|member| member.rank.id != task.id)
            .take(WHY_MEMBERS_MAX)
            .collect();
        if before.is_empty() {
            return Ok(None);
        }
        let skips = leave::skips(&self.ctx, &sequence).await?;
        let ids: Vec<TaskId> = before.iter().map(|member| member.rank.id).collect();
        let rows = self.ctx.store.tasks_each(&ids, Freshness::Quorum).await;
        for (member, row) in before.iter().zip(rows) {
            let row = row?;
            let passes = |row: &TaskRow| skips && ordering::is_passed_over(member, row, now);
            let standing = ordering::member_stands(member, row.as_ref(), now);
            if standing != Standing::Over && !row.as_ref().is_some_and(passes) {
                let (id, since) = (member.rank.id, None);
                return Ok(Some(Ahead { id, since }));
            }
        }
        Ok(None)
    }

    /// Reads which limit keeps the tasks of a callback back. The memory of this node knows that of its own feeds and claims;
    /// those of other nodes are only known to have used the pool up.
    async fn limited(
        &self,
        callback: &str,
        limits: Limits,
        now: Millis,
    ) -> Result<Option<Limited>, Fault> {
        if limits.is_none() {
            return Ok(None);
        }
        if let Some(bound) = self.known.limiter.bound(callback) {
            let certain = true;
            return Ok(Some(Limited { bound, certain }));
        }
        // A node that is alone with its queue would know.
        if self.ctx.underway.is_some() {
            return Ok(None);
        }
        let name = Name::new(Kind::Limit, callback)?;
        let record = self.ctx.store.record(&name, Freshness::Quorum).await?;
        let value = record.and_then(|record| record.value);
        let pool = value.and_then(|value| decode_pool(value).ok());
        let used_up = pool.and_then(|pool| local_quota::used_up(&pool, limits, now));
        let certain = false;
        Ok(used_up.map(|bound| Limited { bound, certain }))
    }

    /// Reads the workers of a callback, as all nodes publish them; none for a task that the service itself runs.
    async fn workers(
        &self,
        task: &Subject<'_>,
        callback: &str,
        now: Millis,
    ) -> Result<Option<Workers>, Fault> {
        let is_own = task.id.is_internal() || matches!(task.spec.target, Target::Http { .. });
        if is_own {
            return Ok(None);
        }
        let (share, _) = self.shares.of(callback).await?;
        let missed = POLL_MISSED + self.told_late();
        let last = share.workers.iter().map(|worker| worker.last).max();
        let polls = |at: Millis| now.since(at) <= missed;
        let polling = share.workers.iter().filter(|worker| polls(worker.last));
        let polling = polling.count() as u64;
        let nearest = if polling == 0 {
            nearest(callback, &self.shares.polled_names().await?)
        } else {
            None
        };
        Ok(Some(Workers {
            polling,
            last,
            running: share.running,
            missed,
            known_since: self.began,
            nearest,
        }))
    }

    /// Returns how much later than on the node itself a poll of another node is known.
    fn told_late(&self) -> Duration {
        if self.ctx.underway.is_some() {
            Duration::ZERO
        } else {
            super::shares::POLLED_TO + SHARES_TOLD_EVERY
        }
    }
}

/// Tells whether a task waits for the ends of others.
fn waits_for_tasks(task: &Subject<'_>) -> bool {
    match task.stands {
        Stands::Row(row) => row.waits_for_tasks(),
        Stands::Registered { .. } => task.spec.after.is_some(),
        Stands::Done { .. } => false,
    }
}

/// Returns since when a task is due at `now`; none while it is not, or waits for others, or runs, or has ended.
fn due(task: &Subject<'_>, heartbeat: Option<Millis>, now: Millis) -> Option<Millis> {
    let due = match task.stands {
        Stands::Row(row) if row.waits() || row.state.is_terminal() => return None,
        Stands::Row(row) if row.state == State::Claimed => row.alive_until(heartbeat),
        Stands::Row(row) => row.next,
        Stands::Registered { .. } if task.spec.awaits() => return None,
        Stands::Registered { start, .. } => start,
        Stands::Done { .. } => return None,
    };
    (due <= now).then_some(due)
}

/// Returns the name that was probably meant: nearly the same, and another one.
fn nearest(name: &str, known: &[String]) -> Option<String> {
    let allowed = (name.chars().count() / 3).max(1);
    let near = known.iter().filter(|known| *known != name);
    let near = near.map(|known| (strsim::damerau_levenshtein(known, name), known));
    let near = near.filter(|(distance, _)| *distance <= allowed).min();
    near.map(|(_, known)| known.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_differs_by_a_third_of_its_letters_at_most() {
        let known = ["send_email", "send_mail", "report", "x"].map(str::to_owned);
        let nearest = |name: &str| nearest(name, &known);
        assert_eq!(nearest("sendemail").as_deref(), Some("send_email"));
        assert_eq!(nearest("send_mail").as_deref(), Some("send_email"));
        assert_eq!(nearest("report2").as_deref(), Some("report"));
        assert_eq!(nearest("invoice"), None);
        assert_eq!(nearest("y").as_deref(), Some("x"));
    }
}
