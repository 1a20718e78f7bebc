//! The asking stage registers for clients the tasks whose requests may come twice, or which share a key.
//!
//! Three things make a repetition harmless, and a request may use any of them. A client may choose the id of its task
//! ([`crate::model::client_id`]): the same id is one task by the key of its entry alone, without a record. It may mark the
//! request with an `Idempotency-Key` ([`super::idempotent`]): the record of the key names the id before the task is
//! written. It may give the task a `key`.
//!
//! The order of the writes is always record, content, entry, clock. A crash after the record leaves a name without a task:
//! nobody was told of it, and the repetition that finds the record writes the task that it names. A crash after the entry
//! leaves a task of which nobody was told, and the repetition finds it.
//!
//! Registrations that ask for none of this do not come here ([`super::register`]): they cost no read and no write more.

use std::{
    collections::{HashMap, hash_map::Entry as Slot},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};

use super::{
    idempotent::{self, Marked},
    register::{Incoming, Registrar},
    standing::Standing,
};
use crate::{
    flow::{
        api::{Fault, NewTask, TaskView},
        context::Context,
    },
    limits,
    model::{
        ids::TaskId,
        task::{CONTENT_WRITTEN, Spec},
    },
};

/// How long the start of a client's id must have passed before the task is looked for: a first request is younger.
const REPEATED_AFTER: Duration = Duration::from_secs(1);

/// A task to register, and what its client asked about repetitions.
#[derive(Debug, Clone)]
pub struct AskedTask {
    /// The task.
    pub task: NewTask,
    /// The id that the client made for it, checked; its start is the start of the task.
    pub id: Option<TaskId>,
    /// The mark of the request.
    pub request: Option<RequestMark>,
}

/// The mark by which a request is known again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestMark {
    /// The key, as the client chose it.
    pub key: String,
    /// The hash of the request as it was sent.
    pub hash: u128,
}

/// The answer to such a registration.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The task is durable and will fire.
    Created(Box<TaskView>),
    /// It had been registered before; this is the task as it is now.
    Existing(Box<TaskView>),
    /// The mark belongs to another request.
    OtherRequest,
}

/// The decision about one task.
pub(super) enum Decided {
    /// It is to be written.
    Write(Box<Incoming>, Then),
    /// It is to be written unless it stands already.
    WriteUnlessStanding(Box<Incoming>, Then),
    /// Nothing is left to do.
    Done(Answer),
}

/// The answer once a task is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It is new.
    Created,
    /// It had been registered before.
    Existing,
}

impl Then {
    fn answer(self, task: TaskView) -> Answer {
        match self {
            Self::Created => Answer::Created(Box::new(task)),
            Self::Existing => Answer::Existing(Box::new(task)),
        }
    }
}

/// The asking stage.
#[derive(Debug, Clone)]
pub struct Asker {
    pub(super) ctx: Arc<Context>,
    registrar: Registrar,
    pub(super) standing: Standing,
}

impl Asker {
    /// Registers through these.
    #[must_use]
    pub(in crate::flow) const fn new(
        ctx: Arc<Context>,
        registrar: Registrar,
        standing: Standing,
    ) -> Self {
        Self {
            ctx,
            registrar,
            standing,
        }
    }

    /// Registers tasks; one result per task, in order. Each task that is returned is durable.
    pub(in crate::flow) async fn register(
        &self,
        asked: Vec<AskedTask>,
    ) -> Vec<Result<Answer, Fault>> {
        // Before anything is decided on, and before any record is written.
        if let Err(full) = self.ctx.store.let_in(asked.len()).await {
            return vec![Err(full.into()); asked.len()];
        }
        let decided: Vec<Result<Decided, Fault>> = stream::iter(asked)
            .map(|asked| self.decide(asked))
            .buffered(limits::ASKED_IN_FLIGHT_MAX)
            .collect()
            .await;
        let decided = self.look(decided).await;
        self.write(decided).await
    }

    /// Writes what is to be written before the task itself.
    async fn decide(&self, asked: AskedTask) -> Result<Decided, Fault> {
        let AskedTask { task, id, request } = asked;
        let mut incoming = self.registrar.admit(task);
        if let Some(id) = id {
            self.rename(&mut incoming, id);
        }
        let Some(mark) = request else {
            let write = if self.may_be_a_repetition(&incoming) {
                Decided::WriteUnlessStanding
            } else {
                Decided::Write
            };
            return Ok(write(Box::new(incoming), Then::Created));
        };
        Ok(
            match idempotent::mark(&self.ctx, &mark, incoming.id).await? {
                Marked::First => Decided::Write(Box::new(incoming), Then::Created),
                Marked::Again(id) => {
                    self.rename(&mut incoming, id);
                    Decided::WriteUnlessStanding(Box::new(incoming), Then::Existing)
                }
                Marked::OtherRequest => Decided::Done(Answer::OtherRequest),
            },
        )
    }

    /// Gives a task another id, with all that follows from it.
    fn rename(&self, incoming: &mut Incoming, id: TaskId) {
        incoming.id = id;
        incoming.start = id.first_start();
        // A default gives way: looks that come more often than the claim timeout would publish the task each time.
        let covered = id.look_step().duration();
        if incoming.spec.claim_timeout > covered {
            let spec = Spec::clone(&incoming.spec);
            let claim_timeout = covered;
            incoming.spec = Arc::new(Spec {
                claim_timeout,
                ..spec
            });
        }
        // The content of a record that went out was deleted: one that goes out again has to be the newer.
        incoming.content_written = if incoming.spec.target.is_tracked() {
            CONTENT_WRITTEN
        } else {
            self.ctx.time.stamp()
        };
    }

    /// Tells whether a client's id may have been registered before. A tracked task that is still ahead is not looked for:
    /// its entry is written over itself, and a claim is refused by the row of a task that has changed since. A record has
    /// no row that a claim would ask.
    fn may_be_a_repetition(&self, incoming: &Incoming) -> bool {
        !incoming.spec.target.is_tracked() || incoming.start < self.ctx.now().before(REPEATED_AFTER)
    }

    /// Finds the tasks that stand already.
    async fn look(&self, mut decided: Vec<Result<Decided, Fault>>) -> Vec<Result<Decided, Fault>> {
        let mut places = Vec::new();
        let mut ids = Vec::new();
        for (place, decided) in decided.iter().enumerate() {
            if let Ok(Decided::WriteUnlessStanding(incoming, _)) = decided {
                places.push(place);
                ids.push(incoming.id);
            }
        }
        for (place, found) in places.into_iter().zip(self.standing.find(&ids).await) {
            let Some(at) = decided.get_mut(place) else {
                continue;
            };
            match found {
                Ok(Some(task)) => *at = Ok(Decided::Done(Then::Existing.answer(task))),
                Ok(None) => {}
                Err(fault) => *at = Err(fault),
            }
        }
        decided
    }

    /// Writes tasks. An id that comes twice is written once.
    async fn write(&self, decided: Vec<Result<Decided, Fault>>) -> Vec<Result<Answer, Fault>> {
        let mut answers = Vec::with_capacity(decided.len());
        let mut incoming: Vec<Incoming> = Vec::new();
        let mut written: HashMap<TaskId, usize> = HashMap::new();
        let mut open: Vec<(usize, usize, Then)> = Vec::new();
        for (place, decided) in decided.into_iter().enumerate() {
            answers.push(match decided {
                Err(fault) => Err(fault),
                Ok(Decided::Done(answer)) => Ok(answer),
                Ok(Decided::Write(task, then) | Decided::WriteUnlessStanding(task, then)) => {
                    match written.entry(task.id) {
                        Slot::Occupied(first) => open.push((place, *first.get(), Then::Existing)),
                        Slot::Vacant(free) => {
                            open.push((place, *free.insert(incoming.len()), then));
                            incoming.push(*task);
                        }
                    }
                    // Replaced below, once it is written.
                    Err(Fault::Unknown {
                        reason: "the write of the task gave no answer".to_owned(),
                    })
                }
            });
        }
        if incoming.is_empty() {
            return answers;
        }
        let entered = self.registrar.enter(incoming).await;
        for (place, of, then) in open {
            if let (Some(answer), Some(result)) = (answers.get_mut(place), entered.get(of)) {
                *answer = result.clone().map(|task| then.answer(task));
            }
        }
        answers
    }
}
