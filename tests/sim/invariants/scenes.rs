//! The tasks of scenes, as the invariants of the operating model need them: with their plans, answers, runs and rows.

use std::collections::BTreeMap;

use tickwheel::model::{
    ids::TaskId,
    state::{State, TaskRow},
    task::{Body, Content},
};

use super::Ended;
use crate::seeded::{
    history::{Claimed, Entered, Ordered, Run, SceneStory, Story},
    plan::Request,
    scene::{self, ItemPlan, ScenePlan},
    world::Sim,
};

/// A task of a scene that a client registered, as it was told, or that the service made of a template.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) scene: &'a ScenePlan,
    pub(super) item: &'a ItemPlan,
    pub(super) id: TaskId,
    /// The registration; none of a task that the service made.
    pub(super) entered: Option<&'a Entered>,
    /// When a client was told that it is registered.
    pub(super) known: Option<i64>,
    story: Option<&'a Story>,
    pub(super) row: Option<&'a TaskRow>,
}

impl Task<'_> {
    pub(super) fn name(&self) -> String {
        let (scene, item, id) = (self.scene.number, self.item.number, self.id);
        format!("item {scene}.{item} ({id})")
    }

    pub(super) fn claims(&self) -> &[Claimed] {
        self.story.map_or(&[], |story| &story.claims)
    }

    pub(super) fn runs(&self) -> &[Run] {
        self.story.map_or(&[], |story| &story.runs)
    }

    pub(super) fn story(&self) -> Option<&Story> {
        self.story
    }

    pub(super) fn state(&self) -> Option<State> {
        self.row.map(|row| row.state)
    }

    pub(super) fn is_asked(&self, request: fn(&Request) -> bool) -> bool {
        self.item.calls.iter().any(|call| request(&call.what))
    }

    /// The content of the task, with the task that it follows.
    pub(super) fn content(&self) -> Option<&Content> {
        self.row.and_then(content)
    }

    /// The time of a schedule that it stands for, in milliseconds of the run: as its worker saw it, or from the row of a task
    /// that no worker has seen, such as a run that went with its schedule.
    pub(super) fn scheduled(&self) -> Option<i64> {
        let seen = self.story.and_then(|story| story.scheduled);
        let row = || self.row?.detail.spec.scheduled.as_deref();
        seen.or_else(|| Some(row()?.time.0 - Sim::instant(0).0))
    }
}

fn content(row: &TaskRow) -> Option<&Content> {
    match &row.detail.spec.body {
        Body::Inline(content) => Some(content),
        Body::Apart { .. } => None,
    }
}

impl Ended<'_> {
    /// The tasks of scenes: those whose clients were told of them, those that ran, and those that have a row.
    pub(super) fn scene_tasks(&self) -> Vec<Task<'_>> {
        let mut places: BTreeMap<TaskId, (usize, usize)> = BTreeMap::new();
        let mut known: BTreeMap<TaskId, i64> = BTreeMap::new();
        for (number, scene) in &self.history.scenes {
            for (item, entered) in &scene.entered {
                if let Some((id, at)) = entered.task() {
                    places.insert(id, (*number, *item));
                    known.insert(id, at);
                }
            }
        }
        let stories = self.history.stories.iter();
        places.extend(stories.filter_map(|(id, story)| Some((*id, story.place?))));
        let rows = self.contents.rows.iter();
        places.extend(rows.filter_map(|(id, row)| {
            let ours = row.detail.spec.callback()?.starts_with("scene");
            Some((*id, scene::place(&content(row)?.payload)?)).filter(|_| ours)
        }));
        let task = |(id, (number, item)): (&TaskId, &(usize, usize))| {
            let scene = self.plan.scenes.iter().find(|one| one.number == *number)?;
            let told = self.history.scenes.get(number);
            let plan = scene.item(*item)?;
            let entered = told.and_then(|told| told.entered.get(item));
            Some(Task {
                scene,
                item: plan,
                id: *id,
                entered: entered.filter(|_| !plan.template),
                known: known.get(id).copied(),
                story: self.history.stories.get(id),
                row: self.contents.rows.get(id),
            })
        };
        places.iter().filter_map(task).collect()
    }

    pub(super) fn scene_story(&self, scene: &ScenePlan) -> Option<&SceneStory> {
        self.history.scenes.get(&scene.number)
    }

    pub(super) fn orders(&self, scene: &ScenePlan) -> &[Ordered] {
        self.scene_story(scene).map_or(&[], |told| &told.orders)
    }
}
