//! The late runs are runs of schedules that would go out so late that they may have been missed. The sender asks about them, and
//! the stage of the schedules answers which of them it has withdrawn.
//!
//! A run that was decided on before an outage may be one of those that its schedule leaves out. So a node that would publish it
//! has the schedule decided on again first. While no stage answers the run waits, as a task behind a gate that is not known.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::join_all;
use tokio::sync::{Notify, oneshot};

use super::sending::{Sending, Unsent};
use crate::model::{ids::TaskId, schedule::missed::MISSED_AFTER, time::Millis};

/// The runs that were withdrawn.
type Withdrawn = Arc<BTreeSet<TaskId>>;

/// What is asked about one schedule.
#[derive(Debug, Default)]
pub(in crate::flow) struct Asked {
    /// The runs that would go out.
    pub(in crate::flow) ids: BTreeSet<TaskId>,
    answers: Vec<oneshot::Sender<Withdrawn>>,
}

impl Asked {
    /// Answers all who have asked. Without an answer they ask again.
    pub(in crate::flow) fn answer(self, withdrawn: BTreeSet<TaskId>) {
        let withdrawn = Arc::new(withdrawn);
        for answer in self.answers {
            // The asker may have gone.
            answer.send(Arc::clone(&withdrawn)).ok();
        }
    }
}

/// The questions that wait for an answer, by schedule.
#[derive(Debug, Default)]
struct Open {
    /// A stage answers.
    answers: bool,
    asked: BTreeMap<String, Asked>,
}

/// The questions of a node about late runs. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::flow) struct LateRuns {
    open: Arc<Mutex<Open>>,
    asked: Arc<Notify>,
}

impl LateRuns {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about runs of schedules. Returns for each, in order, why it does not go out; none if it does.
    pub(super) async fn ask(&self, runs: &[(&str, TaskId)]) -> Vec<Option<Unsent>> {
        let mut by_schedule: BTreeMap<&str, BTreeSet<TaskId>> = BTreeMap::new();
        for (schedule, id) in runs {
            by_schedule.entry(schedule).or_default().insert(*id);
        }
        let asks = by_schedule.into_iter().map(|(schedule, ids)| async move {
            let answer = self.ask_one(schedule, ids)?;
            Some((schedule, answer.await.ok()?))
        });
        let answers: BTreeMap<&str, Withdrawn> =
            join_all(asks).await.into_iter().flatten().collect();
        let unsent = |(schedule, id): &(&str, TaskId)| match answers.get(schedule) {
            None => Some(Unsent::Undecided),
            Some(withdrawn) => withdrawn.contains(id).then_some(Unsent::Withdrawn),
        };
        runs.iter().map(unsent).collect()
    }

    fn ask_one(
        &self,
        schedule: &str,
        ids: BTreeSet<TaskId>,
    ) -> Option<oneshot::Receiver<Withdrawn>> {
        let (answer, answered) = oneshot::channel();
        {
            let mut open = self.lock();
            if !open.answers {
                return None;
            }
            let asked = open.asked.entry(schedule.to_owned()).or_default();
            asked.ids.extend(ids);
            asked.answers.push(answer);
        }
        self.asked.notify_one();
        Some(answered)
    }

    /// Takes questions as long as the returned guard is held.
    pub(in crate::flow) fn take_questions(&self) -> Questions {
        self.lock().answers = true;
        Questions(self.clone())
    }

    /// Returns once something was asked.
    pub(in crate::flow) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Takes the question about a schedule that is not being looked at.
    pub(in crate::flow) fn take(&self, busy: &BTreeSet<String>) -> Option<(String, Asked)> {
        let mut open = self.lock();
        let name = open
            .asked
            .keys()
            .find(|name| !busy.contains(*name))?
            .clone();
        open.asked.remove_entry(&name)
    }
}

/// The guard of a stage that answers: when it is dropped, those who have asked get no answer.
#[derive(Debug)]
pub(in crate::flow) struct Questions(LateRuns);

impl Drop for Questions {
    fn drop(&mut self) {
        *self.0.lock() = Open::default();
    }
}

/// Returns the schedule of a task that would go out so late for the first time that its schedule is to be asked. A run is not
/// late before it was made: it may make up for a time that was missed.
pub(super) fn late_run(sending: &Sending, now: Millis) -> Option<&str> {
    let (dispatch, spec) = (&sending.dispatch, &sending.spec);
    let run = spec.scheduled.as_deref().filter(|_| sending.first)?;
    let is_first = dispatch.generation == 0 && dispatch.expected_attempt == 0;
    let since = dispatch.start.max(spec.create_time);
    (is_first && now.since(since) > MISSED_AFTER).then_some(&run.schedule)
}
