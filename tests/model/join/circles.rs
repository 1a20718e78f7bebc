//! This model searches for tasks that wait for each other for ever: by waits, by trees, and by children of tasks that had none.
//!
//! Tasks come one after the other. Each may be a child of one that was there before, wait for one that was there before, or for
//! the run of its parent, and may say that it will have children. A registration has three steps, and two of them go on at once:
//! the parent becomes one, the wait is checked by [`join::check`], the task is there. At every moment all tasks can come to their
//! ends: in some order, each behind what it waits for, and each tree behind its tasks.

use std::time::Duration;

use tickwheel::model::{
    backoff::{Backoff, Jitter},
    family::Kin,
    ids::TaskId,
    join::{self, After, Condition},
    target::Target,
    task::{Body, Content, Priority, Spec},
    time::Millis,
    wheel::WheelNumber,
};

use super::super::search::{Model, Step, Steps, breaks, holds, whole};

const CIRCLE: &str = "tasks wait for each other for ever";

/// The part of the rules that this variant leaves out or turns round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// The wait of a child is checked before its parent is one.
    CheckedBeforeAdopted,
    /// The wait of a child is not checked.
    NotChecked,
}

/// A task that is there, or comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Task {
    parent: Option<usize>,
    dependency: Option<usize>,
    after_parent: bool,
    is_parent: bool,
}

/// A registration that is under way, and how many of its steps are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Coming {
    task: Task,
    done: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    tasks: Vec<Task>,
    coming: Vec<Coming>,
}

struct Registrations {
    flaw: Flaw,
    tasks_max: usize,
}

impl Model for Registrations {
    type State = World;

    fn first(&self) -> World {
        World {
            tasks: Vec::new(),
            coming: Vec::new(),
        }
    }

    fn steps(&self, world: &World, next: &mut Vec<(Step, World)>) {
        let mut steps = Steps { from: world, next };
        if world.coming.len() < 2 && world.tasks.len() + world.coming.len() < self.tasks_max {
            for task in requests(world.tasks.len()) {
                steps.add("asks", world.tasks.len() as i64, |world| {
                    world.coming.push(Coming { task, done: 0 });
                    world.coming.sort_by_key(order);
                });
            }
        }
        for (at, coming) in world.coming.iter().enumerate() {
            self.go_on(at, *coming, &mut steps);
        }
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        (!all_end(&world.tasks)).then_some(CIRCLE)
    }
}

/// Two registrations that are under way are the same in each order.
fn order(coming: &Coming) -> (u8, Option<usize>, Option<usize>, bool, bool) {
    let Task {
        parent,
        dependency,
        after_parent,
        is_parent,
    } = coming.task;
    (coming.done, parent, dependency, after_parent, is_parent)
}

/// Returns all tasks that a client may ask for when there are so many.
fn requests(there: usize) -> Vec<Task> {
    let mut all = Vec::new();
    let some = || std::iter::once(None).chain((0..there).map(Some));
    for parent in some() {
        for dependency in some() {
            for (after_parent, is_parent) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                if !after_parent || (parent.is_some() && dependency.is_none()) {
                    all.push(Task {
                        parent,
                        dependency,
                        after_parent,
                        is_parent,
                    });
                }
            }
        }
    }
    all
}

impl Registrations {
    fn go_on(&self, at: usize, coming: Coming, steps: &mut Steps<'_, World>) {
        let world = steps.from;
        let adopts = u8::from(self.flaw == Flaw::CheckedBeforeAdopted);
        match coming.done {
            2 => steps.add("is there", at as i64, |world| {
                let coming = world.coming.remove(at);
                world.tasks.push(coming.task);
            }),
            step if step == adopts => steps.add("has a parent", at as i64, |world| {
                if let Some(parent) = coming.task.parent {
                    world.tasks[parent].is_parent = true;
                }
                world.coming[at].done += 1;
                world.coming.sort_by_key(order);
            }),
            _ if self.may_wait(world, coming.task) => steps.add("may wait", at as i64, |world| {
                world.coming[at].done += 1;
                world.coming.sort_by_key(order);
            }),
            _ => steps.add("is refused", at as i64, |world| {
                world.coming.remove(at);
            }),
        }
    }

    fn may_wait(&self, world: &World, task: Task) -> bool {
        let Some(dependency) = task.dependency else {
            return true;
        };
        let (waiter, its) = (spec(task), spec(world.tasks[dependency]));
        let checked = join::check(&waiter, (0, id(dependency)), Some(&its));
        // A wait for the own parent is no detour.
        let is_parent = task.parent == Some(dependency);
        checked.is_ok() || (self.flaw == Flaw::NotChecked && !is_parent)
    }
}

/// Tells whether all tasks come to their ends.
fn all_end(tasks: &[Task]) -> bool {
    let (mut ran, mut over) = (vec![false; tasks.len()], vec![false; tasks.len()]);
    loop {
        let mut moves = false;
        for (at, task) in tasks.iter().enumerate() {
            let waits = task.dependency.is_some_and(|dependency| !over[dependency]);
            let behind = task.after_parent && task.parent.is_some_and(|parent| !ran[parent]);
            if !ran[at] && !waits && !behind {
                ran[at] = true;
                moves = true;
            }
            let mut children = tasks.iter().zip(&over);
            let is_open = children.any(|(child, over)| child.parent == Some(at) && !over);
            if ran[at] && !over[at] && !is_open {
                over[at] = true;
                moves = true;
            }
        }
        if !moves {
            return over.iter().all(|over| *over);
        }
    }
}

fn id(number: usize) -> TaskId {
    TaskId::new(Millis(7), WheelNumber::new(0).unwrap(), number as u64 + 1)
}

fn spec(task: Task) -> Spec {
    let second = Duration::from_secs(1);
    let after = task.dependency.map(|_| {
        Box::new(After {
            condition: Condition::AllEnded,
            later: false,
            deadline: None,
            tasks: 1,
        })
    });
    let kin = Kin {
        parent: task.parent.map(id),
        is_parent: task.is_parent,
        after_parent: task.after_parent,
        undoes: false,
        children_within: None,
    };
    Spec {
        indexed: Vec::new(),
        target: Target::Callback {
            name: "c".to_owned(),
        },
        collection: String::new(),
        priority: Priority::Normal,
        max_attempts: 3,
        backoff: Backoff {
            initial: Duration::ZERO,
            factor_milli: 1000,
            max: Duration::ZERO,
            jitter: Jitter::None,
        },
        claim_timeout: second,
        heartbeat_timeout: second,
        attempt_timeout: None,
        ordering_key: None,
        dead_retention: None,
        expire_after: None,
        retention: second,
        create_time: Millis::EPOCH,
        asked_start: None,
        scheduled: None,
        key: None,
        notify: None,
        actions: None,
        kin: Some(Box::new(kin)),
        after,
        then: Vec::new(),
        body: Body::Inline(Content::default()),
    }
}

fn registrations(flaw: Flaw, tasks_max: usize) -> Registrations {
    Registrations { flaw, tasks_max }
}

#[test]
fn no_tasks_wait_for_each_other_for_ever() {
    let tasks_max = if whole() { 5 } else { 4 };
    holds(
        "joins, circles",
        &registrations(Flaw::None, tasks_max),
        20_000,
    );
}

#[test]
fn circles_are_found() {
    for flaw in [Flaw::CheckedBeforeAdopted, Flaw::NotChecked] {
        let name = format!("{flaw:?}");
        breaks(&name, &registrations(flaw, 4), CIRCLE);
    }
}
