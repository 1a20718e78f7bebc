//! The planting stage registers for clients a task with its whole tree, by one request.
//!
//! The rows of all tasks below are written first, then the entry of the root, then the other entries. The entry of the root
//! decides: before it nothing of the tree runs, and nothing is seen. A crash behind it leaves children without entries, which the
//! checks of their parents enter ([`crate::flow::family`]). Ids below are computed from that of the root, and starts from its
//! start. So the repetition of a request that may be repeated writes the same tree over itself.

use std::time::Duration;

use super::{
    asked::{Answer, AskedTask, Asker, Decided},
    register::{Incoming, unanswered},
};
use crate::{
    flow::api::{Fault, NewTask, TaskView},
    model::{
        draft::TaskDraft, family, ids::TaskId, look_step::LookStep, preference::mix,
        task::CONTENT_WRITTEN, time::Millis,
    },
};

/// A task with a tree below it, to register.
#[derive(Debug, Clone)]
pub struct NewTree {
    /// The root; its draft says that it may have children.
    pub root: AskedTask,
    /// Its children.
    pub children: Vec<NewChild>,
}

/// A task below the root.
#[derive(Debug, Clone)]
pub struct NewChild {
    /// When it is to start.
    pub start: ChildStart,
    /// The task, as far as it was given; its parent is set here.
    pub draft: TaskDraft,
    /// Its own children.
    pub children: Vec<NewChild>,
}

/// When a task below a root starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildStart {
    /// This long after the start of the root.
    After(Duration),
    /// At this time, but not before the root.
    At(Millis),
}

impl ChildStart {
    fn of(self, root: Millis) -> Millis {
        match self {
            Self::After(wait) => root.after(wait),
            Self::At(at) => at.max(root),
        }
    }
}

impl Asker {
    /// Registers a tree. A task that is returned is durable, with all tasks below it.
    ///
    /// # Errors
    /// When it may not be durable. A request without an id of its own or a mark may then be there in part.
    pub(in crate::flow) async fn plant(&self, tree: NewTree) -> Result<Answer, Fault> {
        let NewTree { root, children } = tree;
        let tasks = 1 + count(&children);
        self.ctx.store.let_in(tasks).await?;
        let decided = self.decide(root).await;
        let decided = self.look(vec![decided]).await.pop();
        let (root, then) = match decided.unwrap_or_else(|| Err(unanswered()))? {
            Decided::Done(answer) => {
                if let Answer::Existing(task) = &answer {
                    self.finish(task, children).await?;
                }
                return Ok(answer);
            }
            Decided::Write(root, then) | Decided::WriteUnlessStanding(root, then) => (*root, then),
        };
        let below = self.grow(root.id, children).await?;
        self.registrar.announce_below(&below).await?;
        let root = self.registrar.enter(vec![root]).await.pop();
        let root = root.unwrap_or_else(|| Err(unanswered()))?;
        for entered in self.registrar.enter_admitted(below).await {
            entered?;
        }
        Ok(then.answer(root))
    }

    /// Enters what the first request of a tree may have left. Its tasks ask for their parents again.
    async fn finish(&self, root: &TaskView, children: Vec<NewChild>) -> Result<(), Fault> {
        if root.state.is_terminal() {
            return Ok(());
        }
        let below = self.grow(root.id, children).await?;
        for entered in self.registrar.enter(below).await {
            match entered {
                // The tree may end meanwhile.
                Ok(_) | Err(Fault::Family(family::Refusal::Ended(_))) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Completes the tasks below a root, parents before their children.
    async fn grow(&self, root: TaskId, children: Vec<NewChild>) -> Result<Vec<Incoming>, Fault> {
        let mut grown = Vec::new();
        let mut open = vec![(root, Vec::<u32>::new(), children)];
        while let Some((parent, path, children)) = open.pop() {
            for (place, child) in children.into_iter().enumerate() {
                let mut path = path.clone();
                path.push(u32::try_from(place).unwrap_or(u32::MAX));
                let NewChild {
                    start,
                    draft,
                    children,
                } = child;
                let mut kin = draft.kin.as_deref().copied().unwrap_or_default();
                kin.parent = Some(parent);
                let kin = Some(Box::new(kin));
                let draft = TaskDraft { kin, ..draft };
                let start = start.of(root.first_start());
                let mut task = self.registrar.admit(NewTask { start, draft }).await?;
                let seed = family::seed(root, &path);
                let wheel = self.ctx.shape().wheel_of_hash(mix(seed));
                let step = LookStep::covering(task.spec.claim_timeout);
                task.id = TaskId::new(start, wheel, seed).with_look_step(step);
                task.start = start;
                task.content_written = CONTENT_WRITTEN;
                open.push((task.id, path, children));
                grown.push(task);
            }
        }
        Ok(grown)
    }
}

/// Counts the tasks below a root.
#[must_use]
pub fn count(children: &[NewChild]) -> usize {
    let below = children.iter().map(|child| 1 + count(&child.children));
    below.sum()
}
