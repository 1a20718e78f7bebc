//! The preparation makes durable for the asking stage what a task rests on, before anything names the task.
//!
//! A task that waits for others rests on the rows of its wait, and the root of a tree on the rows of the tasks below it. Any
//! request that finds the record of a key may write the task that the record names, and it knows the spec of that task alone. So
//! these rows come before the record. If the record then says that another task has the key, the rows are removed, but only
//! where no other request can know the id: the repetition of a request may be about to use them.

use super::{
    asked::Asker,
    descendants::{Grown, NewChild, Prepared},
    incoming::Incoming,
};
use crate::flow::base::api::Fault;

impl Asker {
    /// Writes what a task with these children rests on. Repeating it is safe.
    ///
    /// # Errors
    /// A task of the tree cannot be, or nobody knows.
    pub(super) async fn prepare(
        &self,
        root: &mut Incoming,
        children: Vec<NewChild>,
    ) -> Result<Prepared, Fault> {
        let grown = self.grow(root.id, children).await?;
        let all = std::iter::once(&*root).chain(grown.iter().map(|grown| &grown.task));
        let all: Vec<&Incoming> = all.collect();
        let mut refused = self.registrar.enlist(&all).await;
        if let Some(fault) = refused.remove(&root.id) {
            return Err(fault);
        }
        let mut below = Vec::with_capacity(grown.len());
        root.enlisted = true;
        for Grown { at, mut task } in grown {
            if let Some(fault) = refused.remove(&task.id) {
                let fault = Box::new(fault);
                return Err(Fault::Below { at, fault });
            }
            task.enlisted = true;
            below.push(task);
        }
        self.registrar.announce_below(&below).await?;
        let root = root.id;
        Ok(Prepared { root, below })
    }

    /// Removes the content of a task that will never be registered, and the rows that it rests on. Those that stay cost their
    /// place in the store.
    pub(super) async fn withdraw(&self, root: &Incoming, prepared: &Prepared) {
        for task in std::iter::once(root).chain(&prepared.below) {
            self.take_content(task).await;
            self.registrar.retract(task).await;
        }
    }
}
