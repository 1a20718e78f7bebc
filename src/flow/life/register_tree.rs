//! The planting stage registers for clients a task with its whole tree, by one request.
//!
//! The rows of all tasks below are written first (`prepare`), before the record of a key names the root. Then comes the entry
//! of the root, then the other entries. The entry of the root decides: before it nothing of the tree runs, and nothing is seen.
//! A crash behind it leaves children without entries, which the checks of their parents enter
//! (`flow::features::tree`). Ids below are computed from that of the root, and starts from its start. So the
//! repetition of a request that may be repeated writes the same tree over itself.

use std::collections::BTreeMap;

pub use super::descendants::{ChildStart, NewChild, count};
use super::{
    asked::{Answer, AskedTask, Asker, Decided, Then},
    descendants::Grown,
    enter::unanswered,
    incoming::Incoming,
};
use crate::{
    flow::base::api::{Fault, NewTask, TaskView},
    model::{
        draft::TaskDraft, family, ids::TaskId, look_step::LookStep, preference::mix,
        task::CONTENT_WRITTEN,
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

impl Asker {
    /// Registers a tree. A task that is returned is durable, with all tasks below it.
    ///
    /// # Errors
    /// When it may not be durable. A request without an id of its own or a mark may then be there in part.
    pub(in crate::flow) async fn register_tree(&self, tree: NewTree) -> Result<Answer, Fault> {
        let NewTree { mut root, children } = tree;
        if root.id.is_none() {
            root.task.start = root.task.start.max(self.ctx.now());
        }
        let tasks = 1 + count(&children);
        self.ctx.store.let_in(tasks).await?;
        let (decided, prepared) = self.decide_with(root, &children).await?;
        let decided = self.look(vec![Ok(decided)]).await.pop();
        let (mut root, then) = match decided.unwrap_or_else(|| Err(unanswered()))? {
            Decided::Done(answer) => {
                match (&answer, prepared) {
                    (Answer::Replaced(_), Some(prepared)) => {
                        self.enter_below(prepared.below).await?;
                    }
                    // The task of another request may have the key.
                    (Answer::Existing(task), None) => self.finish(task, children).await?,
                    _ => {}
                }
                return Ok(answer);
            }
            Decided::Write(root, then) | Decided::WriteUnlessStanding(root, then) => (*root, then),
        };
        let below = match prepared {
            None => match self.prepare(&mut root, children).await {
                Ok(prepared) => prepared.below,
                // A tree that stands was taken before the node came that does not know all of it.
                Err(fault @ Fault::Upgrading { .. }) => {
                    let task = self.standing().one(root.id).await?;
                    return task.map(|task| Then::Existing.answer(task)).ok_or(fault);
                }
                Err(fault) => return Err(fault),
            },
            Some(prepared) if prepared.root == root.id => prepared.below,
            Some(_) => Vec::new(),
        };
        let root = self.registrar.enter(vec![root]).await.pop();
        let root = root.unwrap_or_else(|| Err(unanswered()))?;
        self.enter_below(below).await?;
        Ok(then.answer(root))
    }

    /// Enters tasks whose rows are durable, behind the entry of their root.
    async fn enter_below(&self, below: Vec<Incoming>) -> Result<(), Fault> {
        let entered = self.registrar.entrance().enter(below).await;
        entered
            .into_iter()
            .try_for_each(|entered| entered.map(drop))
    }

    /// Enters what the first request of a tree may have left. Its tasks ask for their parents again.
    async fn finish(&self, root: &TaskView, children: Vec<NewChild>) -> Result<(), Fault> {
        if root.state.is_terminal() {
            return Ok(());
        }
        let mut levels: BTreeMap<usize, Vec<Incoming>> = BTreeMap::new();
        let grown = match self.grow(root.id, children).await {
            Ok(grown) => grown,
            // They were taken with their root, and their rows are durable: the checks of their parents enter them.
            Err(Fault::Upgrading { .. }) => return Ok(()),
            Err(fault) => return Err(fault),
        };
        for Grown { at, task } in grown {
            levels.entry(at.split('/').count()).or_default().push(task);
        }
        // A child asks for its parent, which may have to be entered first.
        for level in levels.into_values() {
            for entered in self.registrar.enter(level).await {
                match entered {
                    // The tree may end meanwhile, and tasks that they were to wait for may be forgotten: the checks enter them.
                    Ok(_)
                    | Err(
                        Fault::Family(family::Refusal::Ended(_) | family::Refusal::Cancelled(_))
                        | Fault::Join(_)
                        | Fault::Upgrading { .. },
                    ) => {}
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(())
    }

    /// Completes the tasks below a root, parents before their children.
    pub(super) async fn grow(
        &self,
        root: TaskId,
        children: Vec<NewChild>,
    ) -> Result<Vec<Grown>, Fault> {
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
                let at = path.iter().map(|place| format!("/children/{place}"));
                let at = at.collect();
                open.push((task.id, path, children));
                grown.push(Grown { at, task });
            }
        }
        Ok(grown)
    }
}
