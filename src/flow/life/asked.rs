//! The asking stage registers for clients the tasks whose requests may come twice, or which share a key.
//!
//! Three things make a repetition harmless, and a request may use any of them. A client may choose the id of its task
//! ([`crate::model::client_id`]): the same id is one task by the key of its entry alone, without a record. It may mark the
//! request with an `Idempotency-Key` (`idempotent`): the record of the key names the id before the task is
//! written. It may give the task a `key` (`keys`): then at most one task of that key is live. The order of the writes is always
//! record, content, entry, clock. A crash after the record leaves a name without a task: the repetition that finds the record
//! writes the task that it names. A crash after the entry leaves a task of which nobody was told, and the repetition finds it.
//!
//! Registrations that ask for none of this do not come here ([`super::register`]): they cost no read and no write more.

use std::{
    collections::{HashMap, hash_map::Entry as Slot},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream};

use super::{
    cancel::Canceller,
    descendants::{NewChild, Prepared},
    door::Door,
    enter::unanswered,
    existence::ExistenceCheck,
    incoming::Incoming,
    register::Registrar,
    replace::{Replaced, Replacer},
    reschedule::Rescheduler,
    start_order::StartOrder,
};
pub use crate::flow::features::key::idempotent::RequestMark;
use crate::{
    flow::{
        base::{
            api::{Fault, NewTask, TaskView},
            context::Context,
            entries::watermarks::Watermarks,
            read::find::Finder,
            rows::content,
        },
        features::key::{
            idempotent::{self, Marked},
            keys::{self, Keys, Reserved},
        },
    },
    limits,
    model::{
        ids::TaskId,
        key::OnConflict,
        record::Name,
        task::{CONTENT_WRITTEN, Spec},
        time::Millis,
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
    /// The wish for the case that the key of the task, which is in its draft, names a live task.
    pub on_conflict: OnConflict,
}

impl AskedTask {
    /// A task whose client asked nothing about repetitions.
    #[must_use]
    pub fn plain(task: NewTask) -> Self {
        Self {
            task,
            id: None,
            request: None,
            on_conflict: OnConflict::default(),
        }
    }
}

/// Gives the tasks of a request their starts. One with an id of its client starts where its id says.
pub(super) fn in_line(mut asked: Vec<AskedTask>, now: Millis) -> Vec<AskedTask> {
    let mut line = StartOrder::default();
    for one in asked.iter_mut().filter(|one| one.id.is_none()) {
        one.task.start = line.start(&one.task, now);
    }
    asked
}

/// The answer to such a registration.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The task is durable and will fire.
    Created(Box<TaskView>),
    /// It had been registered before; this is the task as it is now.
    Existing(Box<TaskView>),
    /// It has taken the place of the live task that its key named.
    Replaced(Box<TaskView>),
    /// Its key names this live task.
    KeyTaken(Box<TaskView>),
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
    /// It has the key that another task was to have.
    KeyTaken,
}

impl Then {
    pub(super) fn answer(self, task: TaskView) -> Answer {
        match self {
            Self::Created => Answer::Created(Box::new(task)),
            Self::Existing => Answer::Existing(Box::new(task)),
            Self::KeyTaken => Answer::KeyTaken(Box::new(task)),
        }
    }

    /// Returns the answer about a task that stands already.
    fn answer_standing(self, task: TaskView) -> Answer {
        match self {
            Self::Created | Self::Existing => Self::Existing.answer(task),
            Self::KeyTaken => Self::KeyTaken.answer(task),
        }
    }
}

/// The knowledge of others about the id of a task.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// The task may have been registered before.
    was_out: bool,
    /// No other request can name it.
    is_private: bool,
}

/// Returns the decision to write a task, at once or unless it stands.
fn write(incoming: Incoming, then: Then, looks: bool) -> Decided {
    let incoming = Box::new(incoming);
    if looks {
        Decided::WriteUnlessStanding(incoming, then)
    } else {
        Decided::Write(incoming, then)
    }
}

/// The asking stage.
#[derive(Debug, Clone)]
pub struct Asker {
    pub(super) ctx: Arc<Context>,
    pub(super) registrar: Registrar,
    standing: ExistenceCheck,
    keys: Keys,
    rescheduler: Rescheduler,
    replacer: Replacer,
}

impl Asker {
    /// Registers through these.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        watermarks: Watermarks,
        finder: Finder,
        (registrar, canceller, rescheduler): (Registrar, Canceller, Rescheduler),
        door: Door,
    ) -> Self {
        let keys = Keys::new(Arc::clone(&ctx));
        Self {
            standing: ExistenceCheck::new(Arc::clone(&ctx), watermarks, finder),
            replacer: Replacer::new(door, keys.clone(), registrar.clone(), canceller),
            ctx,
            registrar,
            keys,
            rescheduler,
        }
    }

    /// Returns what tells whether a task needs no registration any more.
    pub(in crate::flow) const fn standing(&self) -> &ExistenceCheck {
        &self.standing
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
        let asked = in_line(asked, self.ctx.now());
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
        Ok(self.decide_with(asked, &[]).await?.0)
    }

    /// Decides about a task with these children; its start is final. Returns the rows it rests on, if these had to come before
    /// the record of its key.
    pub(super) async fn decide_with(
        &self,
        asked: AskedTask,
        children: &[NewChild],
    ) -> Result<(Decided, Option<Prepared>), Fault> {
        let AskedTask {
            task,
            id,
            request,
            on_conflict,
        } = asked;
        let mut incoming = match self.registrar.admit_in_line(task).await {
            Ok(incoming) => incoming,
            Err(fault) => return self.taken_before(id, request.as_ref(), fault).await,
        };
        if let Some(id) = id {
            self.rename(&mut incoming, id);
        }
        let mut then = Then::Created;
        if let Some(mark) = &request {
            match idempotent::mark(&self.ctx, mark, incoming.id).await? {
                Marked::First => {}
                Marked::Again(id) => {
                    self.rename(&mut incoming, id);
                    then = Then::Existing;
                }
                Marked::OtherRequest => return Ok((Decided::Done(Answer::OtherRequest), None)),
            }
        }
        let again = then == Then::Existing;
        let Some(name) = keys::name_of(&incoming.spec)? else {
            let looks = again || (id.is_some() && self.may_be_a_repetition(&incoming));
            return Ok((write(incoming, then, looks), None));
        };
        if again && let Some(task) = self.standing.one(incoming.id).await? {
            return Ok((Decided::Done(then.answer(task)), None));
        }
        let rests = !children.is_empty() || !incoming.after.is_empty();
        let prepared = match self.prepare(&mut incoming, children.to_vec()).await {
            Ok(prepared) => prepared,
            Err(fault) => return self.taken_before(id, request.as_ref(), fault).await,
        };
        let known = Known {
            was_out: again || id.is_some(),
            is_private: id.is_none() && request.is_none(),
        };
        let wish = (then, on_conflict);
        let reserved = self.reserve(incoming, &name, wish, (known, &prepared));
        let (decided, ids) = reserved.await?;
        // A repetition is to get the same task. It would write what its own rests on under the id of the other one, so one that
        // rests on something asks for the key again.
        if let (Some((mine, holder)), Some(mark), OnConflict::Ignore, false) =
            (ids, request, on_conflict, rests)
        {
            idempotent::point(&self.ctx, &mark, mine, holder).await?;
        }
        Ok((decided, Some(prepared)))
    }

    /// Returns the answer to the repetition of a request whose task was taken before a node came that does not know all of its
    /// features: there is nothing left to refuse. Otherwise the refusal stands, as every other fault does.
    async fn taken_before(
        &self,
        id: Option<TaskId>,
        request: Option<&RequestMark>,
        fault: Fault,
    ) -> Result<(Decided, Option<Prepared>), Fault> {
        if !matches!(fault, Fault::Upgrading { .. }) {
            return Err(fault);
        }
        let marked = match request {
            Some(mark) => idempotent::known(&self.ctx, mark).await?,
            None => None,
        };
        let id = match marked {
            Some(Marked::OtherRequest) => return Ok((Decided::Done(Answer::OtherRequest), None)),
            Some(Marked::Again(id)) => Some(id),
            Some(Marked::First) | None => id,
        };
        let task = self.standing.one(id.ok_or_else(|| fault.clone())?).await?;
        let answer = task.map(|task| Then::Existing.answer(task)).ok_or(fault)?;
        Ok((Decided::Done(answer), None))
    }

    /// Asks for the key of a task. Returns what is to be written, and the ids of this task and of the one that has the key.
    async fn reserve(
        &self,
        incoming: Incoming,
        name: &Name,
        (then, on_conflict): (Then, OnConflict),
        (known, prepared): (Known, &Prepared),
    ) -> Result<(Decided, Option<(TaskId, TaskId)>), Fault> {
        let was_out = known.was_out;
        self.put_content(&incoming, was_out).await?;
        for _ in 0..limits::KEY_RACES_MAX {
            let task = (incoming.id, &incoming.spec);
            let holder = match self.keys.reserve(task, name, was_out).await? {
                // New, also where an earlier try of the request was refused.
                Reserved::Mine => return Ok((write(incoming, Then::Created, false), None)),
                Reserved::MineBefore(named) => {
                    let task = named.map_or(incoming, Incoming::of_holder);
                    return Ok((write(task, then, true), None));
                }
                Reserved::Redriven(id) => {
                    self.rescheduler.finish_redrive(id).await?;
                    continue;
                }
                Reserved::Taken(holder) if on_conflict == OnConflict::Replace => {
                    let new = incoming.clone();
                    match self.replacer.replace(&holder, name, new).await? {
                        Replaced::By(task) => {
                            let replaced = Answer::Replaced(task);
                            return Ok((Decided::Done(replaced), None));
                        }
                        Replaced::ReadAgain => continue,
                        Replaced::HasTree => holder,
                    }
                }
                Reserved::Taken(holder) => holder,
            };
            if known.is_private {
                self.withdraw(&incoming, prepared).await;
            }
            let then = match on_conflict {
                OnConflict::Ignore => Then::Existing,
                OnConflict::Reject | OnConflict::Replace => Then::KeyTaken,
            };
            let other = Incoming::of_holder(holder);
            let ids = (incoming.id, other.id);
            return Ok((write(other, then, true), Some(ids)));
        }
        Err(Fault::Unavailable {
            reason: format!("{name} is being changed by many at once"),
            retry_after: limits::RACED_RETRY_AFTER,
        })
    }

    /// Writes a content that is kept apart before the record names its task, so that any request that finds the record can
    /// write the task. A content that is there under the id of a repetition stays: it may belong to another request.
    async fn put_content(&self, incoming: &Incoming, was_out: bool) -> Result<(), Fault> {
        let Some(content) = &incoming.content else {
            return Ok(());
        };
        if was_out {
            // A damaged one is written anew.
            if content::read(&self.ctx, incoming.id).await?.is_some() {
                return Ok(());
            }
        }
        let body = [(incoming.id, Arc::clone(content))];
        let put = self
            .ctx
            .store
            .put_bodies(&body, incoming.content_written, None);
        put.await.into_iter().try_for_each(|result| Ok(result?))
    }

    /// Deletes the content of a task that was not registered. One that stays costs its place in the store.
    pub(super) async fn take_content(&self, incoming: &Incoming) {
        if incoming.content.is_some() {
            let (id, written) = (incoming.id, incoming.content_written);
            if let Err(error) = self.ctx.store.delete_bodies(&[id], written).await {
                tracing::debug!(task = %id, %error, "the content of a task that was not registered stays");
            }
        }
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
    pub(super) async fn look(
        &self,
        mut decided: Vec<Result<Decided, Fault>>,
    ) -> Vec<Result<Decided, Fault>> {
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
                Ok(Some(task)) => {
                    let then = match at {
                        Ok(Decided::WriteUnlessStanding(_, then)) => *then,
                        Ok(Decided::Write(..) | Decided::Done(_)) | Err(_) => Then::Existing,
                    };
                    *at = Ok(Decided::Done(then.answer_standing(task)));
                }
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
                        Slot::Occupied(first) => {
                            let then = match then {
                                Then::Created | Then::Existing => Then::Existing,
                                Then::KeyTaken => Then::KeyTaken,
                            };
                            open.push((place, *first.get(), then));
                        }
                        Slot::Vacant(free) => {
                            open.push((place, *free.insert(incoming.len()), then));
                            incoming.push(*task);
                        }
                    }
                    // Replaced below, once it is written.
                    Err(unanswered())
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
