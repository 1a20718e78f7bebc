//! The reader of trees shows trees to people, lists children, and cancels a task with all below it.
//!
//! All of it is read from the rows of children, level by level, within bounds. A child that is being added may be missing.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::cancel::{Marked, TreeCanceller};
use crate::{
    flow::{
        base::{
            api::{CancelOutcome, Fault, TaskView, VisibleState},
            context::Context,
            documents,
            read::find::{Finder, OneOfList},
            tables::trees::{self, Cursor, Written},
        },
        life::cancel::Canceller,
    },
    limits::{
        CHILDREN_PAGE, FAMILY_RACES_MAX, TREE_CANCELS_MAX, TREE_NODES_SHOWN_MAX, TREE_ROWS_READ_MAX,
    },
    model::{
        family::{self, Completion, TreeOutcome},
        ids::TaskId,
        row::State,
    },
    schema::ChildRow,
    store::Freshness,
};

/// A task of a tree.
#[derive(Debug, Clone)]
pub struct Node {
    /// The task.
    pub task: TaskView,
    /// The place of its parent among the nodes; none for the root.
    pub above: Option<usize>,
    /// Its children by state. Those that have ended with all below them are always known; of the others, states are read within
    /// a bound, and further ones are `open`.
    pub children: BTreeMap<&'static str, u64>,
    /// Not all of its children are among the nodes.
    pub cut: bool,
}

/// Children of a task.
#[derive(Debug, Clone)]
pub struct Children {
    /// The tasks.
    pub tasks: Vec<TaskView>,
    /// Where the next page begins: bucket, and the task behind which it does.
    pub next: Option<(u8, Option<TaskId>)>,
}

/// Why a parent does not take note that all its children were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCompleted {
    /// Its tree is not held open for children to come.
    NotHeld,
    /// Its tree ended before.
    Ended,
    /// Its tree was cancelled.
    Cancelled,
}

/// The result of a cancel of a tree.
#[derive(Debug, Clone)]
pub struct TreeCancelled {
    /// The outcome for the tree, which is that of the task where it has none; and the root.
    pub root: (CancelOutcome, TaskView),
    /// Tasks below it that were cancelled.
    pub cancelled: u64,
    /// Tasks below it whose attempts were told to stop.
    pub requested: u64,
    /// All that was found below was told. If not, the checks of the tree go on, and so does the same request.
    pub complete: bool,
}

/// The reader of trees. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TreeReader {
    ctx: Arc<Context>,
    finder: Finder,
    canceller: Canceller,
    tree_canceller: TreeCanceller,
}

impl TreeReader {
    /// Reads and cancels through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        finder: Finder,
        canceller: Canceller,
        tree_canceller: TreeCanceller,
    ) -> Self {
        Self {
            ctx,
            finder,
            canceller,
            tree_canceller,
        }
    }

    /// Reads a tree down to a depth: 0 is the root alone. Parents come before their children. Empty when there is no such task.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn show(&self, root: TaskId, depth: usize) -> Result<Vec<Node>, Fault> {
        let mut walk = Walk {
            nodes: Vec::new(),
            open: VecDeque::from([Place {
                id: root,
                above: None,
                level: 0,
                is_counted: true,
            }]),
            depth,
            rows_left: TREE_ROWS_READ_MAX,
            // The root is one of them.
            tasks_left: TREE_NODES_SHOWN_MAX - 1,
        };
        while let Some(place) = walk.open.pop_front() {
            let task = self.finder.listed(place.id).await?;
            if let Some(task) = walk.counted(&place, task) {
                walk.add(&self.ctx, &place, task).await?;
            }
        }
        Ok(walk.nodes)
    }

    /// Takes note that all children of a parent were added, whose tree is held open for them: it ends as others do from then on.
    /// A repetition has the same answer. With an attempt only the own run that has it may say so. None when there is no such
    /// task.
    ///
    /// # Errors
    /// When the store is away; repeating it is safe.
    pub async fn complete(
        &self,
        parent: TaskId,
        attempt: Option<u32>,
    ) -> Result<Option<Result<(), NotCompleted>>, Fault> {
        let Some(task) = self.finder.listed(parent).await? else {
            return Ok(None);
        };
        let is_held = task
            .spec
            .kin
            .as_ref()
            .is_some_and(|kin| kin.children_within.is_some());
        let is_other = attempt.is_some_and(|attempt| attempt != task.attempt);
        if !is_held || is_other {
            return Ok(Some(Err(NotCompleted::NotHeld)));
        }
        if let Some(tree) = task.tree {
            return Ok(Some(match tree.outcome {
                TreeOutcome::Cancelled => Err(NotCompleted::Cancelled),
                _ if task.children_time_passed => Err(NotCompleted::Ended),
                TreeOutcome::Completed | TreeOutcome::Faulted => Ok(()),
            }));
        }
        for _ in 0..FAMILY_RACES_MAX {
            let there = trees::read(&self.ctx, parent, Freshness::Serial).await?;
            let is_cancelled = there.cancelled.is_some();
            match family::complete(there.tree, there.complete, is_cancelled) {
                Completion::Before => return Ok(Some(Ok(()))),
                Completion::Late => return Ok(Some(Err(NotCompleted::Ended))),
                Completion::Cancelled => return Ok(Some(Err(NotCompleted::Cancelled))),
                Completion::Write => {}
            }
            let written = trees::complete(&self.ctx, parent, &there).await?;
            if matches!(written, Written::Done(_)) {
                self.ctx.pokes.add(parent, self.ctx.time.moment());
                return Ok(Some(Ok(())));
            }
        }
        Err(documents::raced(format_args!("the tree of {parent}")))
    }

    /// Lists children of a task, in no particular order.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn children(
        &self,
        parent: TaskId,
        from: Option<(u8, Option<TaskId>)>,
        tasks_max: usize,
    ) -> Result<Children, Fault> {
        let (bucket, after) = from.unwrap_or_default();
        let mut from = Some(Cursor { bucket, after });
        let mut tasks = Vec::new();
        while let Some(at) = from.take_if(|_| tasks.len() < tasks_max) {
            let page = trees::page(&self.ctx, parent, &at, tasks_max - tasks.len()).await?;
            for (child, _) in page.rows {
                if let OneOfList::Task(task) = self.finder.one_of_list(child).await? {
                    tasks.push(*task);
                }
            }
            from = page.next;
        }
        let next = from.map(|cursor| (cursor.bucket, cursor.after));
        Ok(Children { tasks, next })
    }

    /// Cancels the tree of a task: first the record of its root says so, then all below it that has not ended is cancelled, the
    /// upper ones first, but for what undoes something. None when there is no such task. Repeating it goes on; so do the checks
    /// of the tree, without a caller.
    ///
    /// # Errors
    /// When the store is away; what was written stays so.
    pub async fn cancel(&self, root: TaskId) -> Result<Option<TreeCancelled>, Fault> {
        let seen = self.finder.listed(root).await?;
        let mut marked = match seen.filter(|task| task.spec.is_parent()) {
            Some(task) => Some(self.tree_canceller.begin(root, &task.spec).await?),
            None => None,
        };
        let answer = self.canceller.cancel(&[root]).await.pop();
        let Some((own, task)) = answer.unwrap_or(Ok(None))? else {
            return Ok(None);
        };
        if marked.is_none() && task.spec.is_parent() {
            // It has got its first child meanwhile.
            marked = Some(self.tree_canceller.begin(root, &task.spec).await?);
        }
        let outcome = match (marked, own) {
            (Some(Marked::Now), CancelOutcome::CancelRequested) | (None, _) => own,
            (Some(Marked::Now), _) => CancelOutcome::Cancelled,
            (Some(Marked::Before), _) => CancelOutcome::AlreadyCancelled,
            (Some(Marked::Late), _) => CancelOutcome::TooLate,
        };
        let mut done = TreeCancelled {
            root: (outcome, task),
            cancelled: 0,
            requested: 0,
            complete: true,
        };
        if matches!(marked, Some(Marked::Now | Marked::Before)) {
            self.below(root, &mut done).await?;
        }
        Ok(Some(done))
    }

    /// Cancels what is below a task whose tree is cancelled, level by level, within the bound of a request.
    async fn below(&self, root: TaskId, done: &mut TreeCancelled) -> Result<(), Fault> {
        let mut left = TREE_CANCELS_MAX;
        let mut open = VecDeque::from([root]);
        while let Some(parent) = open.pop_front() {
            let mut from = Some(Cursor::default());
            while let Some(at) = from {
                if left == 0 {
                    done.complete = false;
                    return Ok(());
                }
                let told = self.tree_canceller.children(parent, &at, left).await?;
                left -= told.open.min(left);
                done.cancelled += told.cancelled;
                done.requested += told.requested;
                open.extend(told.parents);
                from = told.next;
            }
        }
        Ok(())
    }
}

/// A task that is to be read for the view of a tree.
struct Place {
    id: TaskId,
    /// The place of its parent among the nodes.
    above: Option<usize>,
    /// How far it lies below the root.
    level: usize,
    /// Its state stands among those of the children of its parent already.
    is_counted: bool,
}

/// A walk through a tree, from its root down.
struct Walk {
    nodes: Vec<Node>,
    /// Tasks that are to be read.
    open: VecDeque<Place>,
    depth: usize,
    /// Rows of children that may still be read.
    rows_left: usize,
    /// Tasks that may still be read.
    tasks_left: usize,
}

impl Walk {
    /// Counts a task that was read among the children of its parent. Returns it unless it was read for that only.
    fn counted(&mut self, place: &Place, task: Option<TaskView>) -> Option<TaskView> {
        let parent = place.above.and_then(|above| self.nodes.get_mut(above));
        if let Some(parent) = parent.filter(|_| !place.is_counted) {
            let state = task.as_ref().map_or("open", |task| task.state.name());
            *parent.children.entry(state).or_default() += 1;
        }
        task.filter(|_| place.level <= self.depth)
    }

    /// Adds a task to the nodes, and its children to those that are to be read.
    async fn add(&mut self, ctx: &Context, at: &Place, task: TaskView) -> Result<(), Fault> {
        let mut from = task.spec.is_parent().then(Cursor::default);
        let mut node = Node {
            task,
            above: at.above,
            children: BTreeMap::new(),
            cut: false,
        };
        while let Some(cursor) = from {
            if self.rows_left == 0 {
                node.cut = true;
                break;
            }
            let rows_max = CHILDREN_PAGE.min(self.rows_left);
            let page = trees::page(ctx, at.id, &cursor, rows_max).await?;
            self.rows_left -= page.rows.len().min(self.rows_left);
            for (child, row) in page.rows {
                let ended = match row {
                    ChildRow::Added { .. } => None,
                    ChildRow::Ended { outcome, .. } => name(outcome.state),
                };
                let is_shown = at.level < self.depth;
                let is_read = (is_shown || ended.is_none()) && self.tasks_left > 0;
                if is_read {
                    self.tasks_left -= 1;
                    self.open.push_back(Place {
                        id: child,
                        above: Some(self.nodes.len()),
                        level: at.level + 1,
                        is_counted: ended.is_some(),
                    });
                }
                if ended.is_some() || !is_read {
                    *node.children.entry(ended.unwrap_or("open")).or_default() += 1;
                }
                node.cut |= !(is_shown && is_read);
            }
            from = page.next;
        }
        self.nodes.push(node);
        Ok(())
    }
}

/// Returns the name of a terminal state, as the API has it; none for others.
const fn name(state: State) -> Option<&'static str> {
    Some(match state {
        State::Succeeded => VisibleState::Succeeded.name(),
        State::Failed => VisibleState::Failed.name(),
        State::Cancelled => VisibleState::Cancelled.name(),
        State::Expired => VisibleState::Expired.name(),
        State::Dead => VisibleState::Dead.name(),
        State::New | State::Claimed | State::Retrying => return None,
    })
}
