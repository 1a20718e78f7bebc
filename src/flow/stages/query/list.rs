//! The lister lists tasks for clients by a walk over the slots of all wheels. No index is kept, so it finds
//! only tasks that still have an entry.
//!
//! Promised: a task that does not move while the pages are read is listed exactly once, with the state of its
//! row. A page is in order of start time. Tasks that wait for their start are in that order over all pages.
//! Tasks that have started come in the order of their next looks. Ended and published tasks are listed until
//! their entries are erased, some ten minutes later. A task that moves between two pages may be listed twice
//! or not at all.
//!
//! A store that keeps its rows in order lists an ended task for as long as its id can be read, behind all
//! others and in the order of first starts. It also lists all waiting tasks, however far ahead. Published
//! records have no rows: they are listed as above.
//!
//! On other stores a list of a callback lists ended tasks for as long, from rows of the index ([`filed`]): behind all others, the
//! last day first. Tasks that succeed are among them where their callback asks for it. On every store a list of a callback by an
//! error does the same.
//!
//! One request reads a bounded number of slots and entries and answers with what it has found. This may be
//! nothing where slots lie apart, or after [`limits::LIST_TIME_MAX`]. The next page goes on where it stopped.
//! A list by a label that the callback has named for it reads the rows of that label instead
//! (`label_rows`): all its tasks over their whole retention, in the order of their first starts.
//!
//! The walk itself is in `wheel_walk`.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, stream};

pub use super::page::{Cursor, TaskPage};
use super::{
    filed::{self, Filed, States},
    filter::{Filter, has_labels},
    page::{Found, before_all},
    wheel_walk::{Clocks, Resolved, WheelWalk},
};
use crate::{
    flow::{
        base::{
            api::{Fault, TaskView},
            context::Context,
            read::{
                find::{Finder, OneOfList, is_hidden, is_told_by, view_of_row},
                places::Places,
            },
            records::callbacks::Callbacks,
            tables::labels::Label,
        },
        features::lists::{ended_rows, label_rows},
    },
    limits,
    model::{entry::Key, ids::TaskId, task::Body, time::Millis},
};

/// How long behind its first start the row of a label is left that has no task: its registration may go on until then.
const LABEL_WITHOUT_TASK_KEPT: Duration = Duration::from_secs(24 * 3600);

/// The lister.
#[derive(Debug)]
pub(in crate::flow) struct Lister {
    ctx: Arc<Context>,
    /// For labels that lie apart with their contents, and for tasks that a label has named.
    finder: Finder,
    /// For the labels by which tasks are found; none: every list is a walk over the wheels.
    callbacks: Option<Callbacks>,
    places: Places,
}

impl Lister {
    /// Reads through this.
    #[must_use]
    pub(in crate::flow) fn new(
        ctx: Arc<Context>,
        finder: Finder,
        callbacks: Option<Callbacks>,
    ) -> Self {
        let at_once = limits::LISTS_IN_FLIGHT_MAX;
        let places = Places::new(ctx.time.clone(), at_once, "lists");
        Self {
            ctx,
            finder,
            callbacks,
            places,
        }
    }

    /// Lists one page of at most `tasks_max` tasks, from the beginning or from where an earlier page ended.
    ///
    /// # Errors
    /// When the store cannot be read, or too many lists are read already.
    pub(in crate::flow) async fn list(
        &self,
        filter: &Filter,
        cursor: Option<Cursor>,
        tasks_max: usize,
    ) -> Result<TaskPage, Fault> {
        let _place = self.places.enter().await?;
        let walk = WheelWalk::begin(&self.ctx).await?;
        let states = self.filed_states(filter).await?;
        let begins = cursor.unwrap_or_else(|| self.beginning(filter, &walk.clocks, &states));
        let mut found = Found {
            tasks: Vec::new(),
            ids: HashSet::new(),
            unread: BTreeSet::new(),
            tasks_max,
            slots_left: limits::LIST_SLOTS_MAX,
            entries_left: limits::LIST_ENTRIES_MAX,
            parts: limits::LIST_ENDED_PARTS_FIRST,
            goes_on: self.ctx.store.lists_ended_tasks(),
            end: self.ctx.time.moment().after(limits::LIST_TIME_MAX),
        };
        let (to, mut next) = (begins.to, Some(begins));
        while let Some(at) = next
            && found.wants_more()
            && self.ctx.time.moment() < found.end
        {
            next = self.step((&walk, &states), filter, at, &mut found).await?;
        }
        found
            .tasks
            .sort_unstable_by_key(|task| (task.start, task.id));
        Ok(TaskPage {
            tasks: found.tasks,
            next,
            to,
            unread: found.unread,
        })
    }

    /// Lists some tasks from here on; returns where that stopped, none at the end.
    async fn step(
        &self,
        (walk, states): (&WheelWalk<'_>, &States),
        filter: &Filter,
        at: Cursor,
        found: &mut Found,
    ) -> Result<Option<Cursor>, Fault> {
        if let Some(behind) = at.labelled {
            let labelled = self.labelled(behind, filter, &at, found).await?;
            return Ok(labelled.is_some().then_some(Cursor { labelled, ..at }));
        }
        if let Some(behind) = at.ended {
            let ended = self.ended(behind, filter, &at, found).await?;
            return Ok(ended.is_some().then_some(Cursor { ended, ..at }));
        }
        if let Some(from) = at.filed {
            let filed = self.filed(from, (filter, states), &at, found).await?;
            return Ok(filed.is_some().then_some(Cursor { filed, ..at }));
        }
        let at = self.waiting((walk, states), filter, at, found).await?;
        let by_rows = self.ctx.store.lists_ended_tasks() && states.is_empty();
        let next = at.next(by_rows && filter.wants_ended());
        Ok(next.or_else(|| at.filed_behind(states, self.ctx.now())))
    }

    /// Lists what lies in the wheels from here on; returns where that stopped.
    async fn waiting(
        &self,
        (walk, states): (&WheelWalk<'_>, &States),
        filter: &Filter,
        mut at: Cursor,
        found: &mut Found,
    ) -> Result<Cursor, Fault> {
        let (entries, reached) = walk.read(&at, found).await?;
        let Resolved { tasks, unread } = walk.resolve(entries, filter, &at, states).await?;
        at.behind = reached;
        for (key, task) in tasks {
            if self.offer(task, filter, at.to, found).await? {
                at.behind = key;
                break;
            }
        }
        // Those behind are read again.
        let unread = unread.into_iter().filter(|(key, _)| *key <= at.behind);
        found.unread.extend(unread.map(|(_, id)| id));
        Ok(at)
    }

    /// Lists tasks that have ended from here on; returns where that stopped, none at the end.
    async fn ended(
        &self,
        behind: TaskId,
        filter: &Filter,
        at: &Cursor,
        found: &mut Found,
    ) -> Result<Option<TaskId>, Fault> {
        let store = &self.ctx.store;
        let page = store.ended_tasks(behind, limits::PAGE_ROWS_MAX).await?;
        found.entries_left = found.entries_left.saturating_sub(limits::PAGE_ROWS_MAX);
        let now = self.ctx.now();
        for row in page.rows {
            let is_wanted = filter.may_be_of(row.id, &row.detail.spec);
            if !is_wanted || !is_told_by(&row) || is_hidden(&row, now) {
                continue;
            }
            let (id, task) = (row.id, view_of_row(row, None, now));
            if self.offer(task, filter, at.to, found).await? {
                let before = page.unread.into_iter().filter(|unread| *unread < id);
                found.unread.extend(before);
                return Ok(Some(id));
            }
        }
        found.unread.extend(page.unread);
        Ok(page.reached)
    }

    /// Lists filed tasks from here on; returns where that stopped, none at the end.
    async fn filed(
        &self,
        from: Filed,
        (filter, states): (&Filter, &States),
        at: &Cursor,
        found: &mut Found,
    ) -> Result<Option<Filed>, Fault> {
        let Some(callback) = filter.callback.as_deref() else {
            return Ok(None);
        };
        let (places, behind) = filed::places(from, states, self.ctx.now(), found.parts);
        // Days without such tasks are passed over many at once.
        found.parts = limits::LIST_ENDED_PARTS_MAX.min(2 * found.parts);
        let rows_max = found.room().clamp(16, limits::PAGE_ROWS_MAX);
        found.entries_left = found.entries_left.saturating_sub(places.len());
        for part in filed::read(&self.ctx, (callback, states), places, rows_max).await? {
            let Some(of) = part.at.part(callback, states) else {
                continue;
            };
            found.entries_left = found.entries_left.saturating_sub(part.rows.len());
            let mut tasks = stream::iter(part.rows)
                .map(|row| async move {
                    let behind = row.0;
                    let task = filed::task(&self.ctx, &self.finder, of, row).await?;
                    Ok::<_, Fault>((behind, task))
                })
                .buffered(limits::STORE_READS_IN_FLIGHT_MAX);
            while let Some((behind, task)) = tasks.try_next().await? {
                match task {
                    OneOfList::Task(task) => {
                        if self.offer(*task, filter, at.to, found).await? {
                            return Ok(Some(Filed { behind, ..part.at }));
                        }
                    }
                    OneOfList::Unreadable => {
                        found.unread.insert(behind);
                    }
                    OneOfList::Absent => {}
                }
            }
            if let Some(behind) = part.next {
                return Ok(Some(Filed { behind, ..part.at }));
            }
        }
        Ok(behind)
    }

    /// Returns which ended tasks a list finds by their filed rows: none where no callback is named, and none where the store
    /// lists them itself, unless the list is by an error.
    async fn filed_states(&self, filter: &Filter) -> Result<States, Fault> {
        let callback = filter.callback.as_deref();
        let wants = self.callbacks.is_some() && filter.wants_ended();
        let Some(callback) = callback.filter(|_| wants) else {
            return Ok(States::NONE);
        };
        if let Some(class) = &filter.error {
            return Ok(States::Error(class.clone()));
        }
        if self.ctx.store.lists_ended_tasks() {
            return Ok(States::NONE);
        }
        let succeeded = ended_rows::lists_succeeded(&self.ctx, callback).await?;
        Ok(States::of(filter.state, succeeded))
    }

    /// Lists tasks with a label from here on; returns where that stopped, none at the end.
    async fn labelled(
        &self,
        behind: TaskId,
        filter: &Filter,
        at: &Cursor,
        found: &mut Found,
    ) -> Result<Option<TaskId>, Fault> {
        // The label may be indexed no more, but what was registered before still has its rows.
        let label = self.label(filter, false);
        let Some(label) = label.or_else(|| self.label(filter, true)) else {
            return Ok(None);
        };
        let rows_max = found.room().clamp(16, limits::PAGE_ROWS_MAX);
        let (rows, next) = label_rows::read(&self.ctx, label, behind, rows_max).await?;
        found.entries_left = found.entries_left.saturating_sub(rows.len());
        let mut tasks = stream::iter(rows)
            .map(|(id, row)| async move {
                let found = self.finder.one_of_list(id).await?;
                Ok::<_, Fault>((id, row, found))
            })
            .buffered(limits::STORE_READS_IN_FLIGHT_MAX);
        while let Some((id, row, task)) = tasks.try_next().await? {
            match task {
                OneOfList::Task(task) => {
                    let is_full = self.offer(*task, filter, at.to, found).await?;
                    if is_full {
                        return Ok(Some(id));
                    }
                }
                // Its registration did not come to its end, or it can be read no more.
                OneOfList::Absent
                    if id.first_start().after(LABEL_WITHOUT_TASK_KEPT) < self.ctx.now() =>
                {
                    label_rows::forget(&self.ctx, label, &row).await;
                }
                OneOfList::Absent => {}
                OneOfList::Unreadable => {
                    found.unread.insert(id);
                }
            }
        }
        Ok(next)
    }

    /// Returns the wanted label by which tasks are found.
    fn label<'a>(&self, filter: &'a Filter, any: bool) -> Option<Label<'a>> {
        if filter.every {
            return None;
        }
        let (callback, copy) = (filter.callback.as_deref()?, self.callbacks.as_ref()?);
        let copy = copy.snapshot();
        Label::among(callback, &filter.labels, |name| {
            any || copy.is_indexed(callback, name)
        })
    }

    /// Tells whether tasks are found by one of the wanted labels.
    pub(in crate::flow) fn is_labelled(&self, filter: &Filter) -> bool {
        self.label(filter, false).is_some()
    }

    /// Takes a task if it is wanted; tells whether the page ends behind it.
    async fn offer(
        &self,
        task: TaskView,
        filter: &Filter,
        to: Millis,
        found: &mut Found,
    ) -> Result<bool, Fault> {
        if !filter.matches(&task, to) {
            return Ok(false);
        }
        // Contents that lie apart are read one by one.
        let reads = !filter.labels.is_empty() && matches!(task.spec.body, Body::Apart { .. });
        let is_wanted = has_labels(&self.finder, &task, &filter.labels).await?;
        let is_full = is_wanted && found.add(task);
        Ok(is_full || (reads && self.ctx.time.moment() >= found.end))
    }

    /// Returns where a walk begins and ends. No entry lies before its task's start, nor before the `erased`
    /// hand. Entries of started tasks lie ahead of now.
    fn beginning(&self, filter: &Filter, clocks: &Clocks, states: &States) -> Cursor {
        let labelled = self.label(filter, false).map(|_| before_all());
        let (tick, now) = (self.ctx.tick(), self.ctx.now());
        let erased = clocks.values().map(|clock| tick.end_of(clock.erased)).min();
        let erased = erased.unwrap_or(now);
        let from = filter.from.map(|from| Millis(from.0.saturating_sub(1)));
        let lists_ended = self.ctx.store.lists_ended_tasks();
        let only_ended = filter.wants_ended_only() && !states.is_empty();
        let filed = (only_ended && labelled.is_none()).then(|| Filed::first(now));
        let to = filter.to.unwrap_or_else(|| {
            if lists_ended || labelled.is_some() || filed.is_some() {
                return Millis(Millis::MAX.0 + 1);
            }
            let from = filter.from.map_or(now, |from| from.max(now));
            from.after(limits::LIST_HORIZON)
        });
        let may_have_started = tick.end_of(self.ctx.opened_by_now().plus(1));
        let started = filter.from.is_none_or(|from| from <= may_have_started);
        let ahead = now.after(limits::LIST_STARTED_AHEAD);
        let last = Millis(to.0.saturating_sub(1));
        Cursor {
            behind: Key::behind(from.map_or(erased, |from| from.max(erased))),
            through: if started { last.max(ahead) } else { last },
            to,
            ended: (lists_ended && states.is_empty() && filter.wants_ended_only()).then(before_all),
            labelled,
            filed,
        }
    }
}
