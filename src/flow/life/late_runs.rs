//! The late runs are runs of schedules that would go out so late that they may have been missed. The sender asks about them, and
//! the stage of the schedules answers which of them it has withdrawn.
//!
//! A run that was decided on before an outage may be one of those that its schedule leaves out. So a node that would publish it
//! has the schedule decided on again first. While no stage answers the run waits, as a task behind a gate that is not known.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use super::sending::{Sending, Unsent};
use crate::model::{ids::TaskId, schedule::missed::MISSED_AFTER, time::Millis};

/// The runs that were withdrawn.
type Withdrawn = Arc<BTreeSet<TaskId>>;

/// The question about one schedule.
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
        self.open.lock()
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
/// late before it was made: it may make up for a time that was missed. A record cannot be withdrawn any more.
pub(super) fn late_run(sending: &Sending, now: Millis) -> Option<&str> {
    let (dispatch, spec) = (&sending.dispatch, &sending.spec);
    let run = spec.scheduled.as_deref()?;
    let is_new = dispatch.generation == 0 && dispatch.expected_attempt == 0 && sending.first;
    let can_be_withdrawn = is_new && spec.target.is_tracked();
    let since = dispatch.start.max(spec.create_time);
    (can_be_withdrawn && now.since(since) > MISSED_AFTER).then_some(&run.schedule)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::{
        dispatch::Dispatch,
        fixtures,
        target::Target,
        task::{Scheduled, Spec},
    };

    fn run(start: Millis, created: Millis, target: Target) -> Sending {
        let scheduled = Scheduled {
            schedule: "nightly".to_owned(),
            time: start,
        };
        Sending {
            dispatch: Dispatch::first(fixtures::id(), start),
            spec: Arc::new(Spec {
                create_time: created,
                scheduled: Some(Box::new(scheduled)),
                target,
                ..fixtures::spec()
            }),
            first: true,
            opened: None,
        }
    }

    #[test]
    fn a_run_is_asked_about_that_is_late_for_the_first_time() {
        let (start, tracked) = (fixtures::START, fixtures::spec().target);
        let ahead = start.before(Duration::from_secs(50));
        let in_time = start.after(MISSED_AFTER);
        let late = in_time.after(Duration::from_millis(1));
        let one = run(start, ahead, tracked.clone());
        assert_eq!(late_run(&one, in_time), None);
        assert_eq!(late_run(&one, late), Some("nightly"));
        // It makes up for a missed time, and is late from its creation on.
        let made = start.after(Duration::from_secs(600));
        let made_up = run(start, made, tracked);
        assert_eq!(late_run(&made_up, made.after(MISSED_AFTER)), None);
        let late_again = made.after(MISSED_AFTER + Duration::from_millis(1));
        assert_eq!(late_run(&made_up, late_again), Some("nightly"));
        let again = Sending {
            first: false,
            ..one.clone()
        };
        assert_eq!(late_run(&again, late), None);
        let mut moved = one;
        moved.dispatch.generation = 1;
        assert_eq!(late_run(&moved, late), None, "a person has moved it");
        let kafka = Target::Kafka {
            topic: "orders".to_owned(),
            partition: None,
        };
        assert_eq!(late_run(&run(start, ahead, kafka), late), None);
    }

    #[tokio::test]
    async fn questions_are_answered_by_schedule_as_long_as_somebody_takes_them() {
        let (late, id) = (LateRuns::default(), fixtures::id());
        let other = id.with_look_step(crate::model::look_step::LookStep::MIN);
        let runs = [("a", id), ("b", id), ("a", other)];
        let nobody = late.ask(&runs).await;
        assert_eq!(nobody, vec![Some(Unsent::Undecided); 3]);
        let questions = late.take_questions();
        let answers = async {
            late.asked().await;
            let busy = BTreeSet::from(["b".to_owned()]);
            let (name, asked) = late.take(&busy).unwrap();
            assert_eq!((&*name, asked.ids.len()), ("a", 2));
            asked.answer(BTreeSet::from([other]));
            assert!(late.take(&busy).is_none(), "b is being looked at");
            drop(questions);
        };
        let (answered, ()) = tokio::join!(late.ask(&runs), answers);
        let expected = [None, Some(Unsent::Undecided), Some(Unsent::Withdrawn)];
        assert_eq!(answered, expected);
    }
}
