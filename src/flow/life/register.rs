//! Registration completes new tasks of clients by the rules of their callbacks, and enters them.

use std::sync::Arc;

use super::{
    add::Admission,
    complete,
    enter::{Entrance, unanswered},
    incoming::{Incoming, apart},
    start_order::StartOrder,
};
use crate::{
    flow::{
        base::{
            api::{Fault, NewTask, TaskView},
            context::Context,
            records::callbacks::{Callbacks, Known},
        },
        features::join::enlist::Enlister,
    },
    model::{ids::TaskId, look_step::LookStep, preference::mix, task::CONTENT_WRITTEN},
};

/// The registrar.
#[derive(Debug, Clone)]
pub struct Registrar {
    pub(super) ctx: Arc<Context>,
    pub(super) entrance: Entrance,
    callbacks: Callbacks,
    pub(super) admission: Admission,
    pub(super) enlister: Enlister,
}

impl Registrar {
    /// Registers through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        entrance: Entrance,
        callbacks: Callbacks,
        (admission, enlister): (Admission, Enlister),
    ) -> Self {
        Self {
            ctx,
            entrance,
            callbacks,
            admission,
            enlister,
        }
    }

    /// Returns the entrance, for tasks whose parents have admitted them.
    pub(in crate::flow) const fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    /// Registers tasks; one result per task, in order. Each task that is returned is durable.
    pub async fn register(&self, tasks: Vec<NewTask>) -> Vec<Result<TaskView, Fault>> {
        // Before anything is decided on: a wheel may go on meanwhile.
        if let Err(full) = self.ctx.store.let_in(tasks.len()).await {
            return vec![Err(full.into()); tasks.len()];
        }
        let drafts = tasks.iter().map(|task| &task.draft);
        let known = self.callbacks.known(complete::callbacks(drafts)).await;
        let mut admitted = Vec::with_capacity(tasks.len());
        let mut incoming = Vec::with_capacity(tasks.len());
        let (mut line, now) = (StartOrder::default(), self.ctx.now());
        for mut task in tasks {
            task.start = line.start(&task, now);
            admitted.push(match self.complete(task, &known) {
                Ok(task) => {
                    incoming.push(task);
                    Ok(())
                }
                Err(fault) => Err(fault),
            });
        }
        let mut entered = self.enter(incoming).await.into_iter();
        let answer = |admitted: Result<(), Fault>| {
            admitted.and_then(|()| entered.next().unwrap_or_else(|| Err(unanswered())))
        };
        admitted.into_iter().map(answer).collect()
    }

    /// Completes a task as [`Self::admit_in_line`] does; it starts no earlier than now.
    ///
    /// # Errors
    /// As of [`Self::admit_in_line`].
    pub(in crate::flow) async fn admit(&self, mut task: NewTask) -> Result<Incoming, Fault> {
        task.start = task.start.max(self.ctx.now());
        self.admit_in_line(task).await
    }

    /// Completes a task whose start is final, and draws its id. One that a node of the cluster does not know whole is refused
    /// here, before a record of a key or a row under a parent names it: others would bring it to life later.
    ///
    /// # Errors
    /// The rules of its callback cannot be told now, or as of [`Self::check_level`].
    pub(super) async fn admit_in_line(&self, task: NewTask) -> Result<Incoming, Fault> {
        let names = complete::callbacks(std::iter::once(&task.draft));
        let known = self.callbacks.known(names).await;
        let task = self.complete(task, &known)?;
        self.check_level(&task.spec).await?;
        Ok(task)
    }

    /// Completes a task from the rules of its callback, and draws its id. Where these cannot be told the task is refused: it
    /// must not be registered with other rules than its callback has.
    fn complete(&self, mut task: NewTask, known: &Known) -> Result<Incoming, Fault> {
        let after = task.draft.after.as_mut();
        let after = after.map(|asked| std::mem::take(&mut asked.ids));
        let spec = complete::complete(task.draft, known)?;
        let random = self.ctx.time.random();
        let start = task.start;
        let wheel = self.ctx.shape().wheel_of_hash(mix(random));
        let step = LookStep::covering(spec.claim_timeout);
        let id = TaskId::new(start, wheel, random).with_look_step(step);
        let (spec, content) = apart(spec);
        Ok(Incoming {
            id,
            start,
            spec: Arc::new(spec),
            content,
            content_written: CONTENT_WRITTEN,
            after: after.unwrap_or_default(),
            enlisted: false,
        })
    }
}
