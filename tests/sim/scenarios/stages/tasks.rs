//! Tasks of a round that need certain stages.

use tickwheel::{
    flow::base::api::NewTask,
    model::{
        family::Kin,
        ids::TaskId,
        join::{After, Asked, Condition},
        notify::{Destination, EndStates, Notify},
    },
};

use super::super::notify::TOPIC;

pub(super) fn of(collection: &str, mut task: NewTask) -> NewTask {
    task.draft.collection = Some(collection.to_owned());
    task
}

pub(super) fn kin(mut task: NewTask, parent: Option<TaskId>) -> NewTask {
    task.draft.kin = Some(Box::new(Kin {
        parent,
        is_parent: parent.is_none(),
        ..Kin::default()
    }));
    task
}

pub(super) fn waiting(mut task: NewTask, of: TaskId) -> NewTask {
    task.draft.after = Some(Box::new(Asked {
        after: After {
            condition: Condition::AllSucceeded,
            later: false,
            deadline: None,
            tasks: 1,
        },
        ids: vec![of],
    }));
    task
}

pub(super) fn told(mut task: NewTask) -> NewTask {
    let topic = TOPIC.to_owned();
    let to = Destination::Kafka { topic };
    task.draft.notify = Some(Notify::of_run(to, EndStates::ALL));
    task
}
