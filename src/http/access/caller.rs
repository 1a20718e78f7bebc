//! The caller tells handlers who makes a request, and which callbacks and payloads it may see.

use std::sync::Arc;

use axum::http::Extensions;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    api::{
        target::{CallbackObject, CallbackTarget},
        task_request::TaskRequest,
        text::shorten,
        worker,
    },
    flow::base::api::View,
    http::{
        Api,
        convert::http_url::callback_of_url,
        error::{Code, Error},
    },
    limits::ACCESS_READS_IN_FLIGHT_MAX,
    model::{
        access::{ApiKey, KeyId},
        draft::TaskDraft,
        ids::TaskId,
        job::Job,
        notify::{Destination, Notify},
    },
};

/// The name of a caller without a key.
pub(in crate::http) const ANONYMOUS: &str = "anonymous";

/// The maker of a request. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct Caller(Option<(KeyId, Arc<ApiKey>)>);

impl Caller {
    /// Returns the caller of a service without keys.
    pub(in crate::http) const fn anonymous() -> Self {
        Self(None)
    }

    /// Returns the holder of a key.
    pub(in crate::http) const fn of_key(id: KeyId, key: Arc<ApiKey>) -> Self {
        Self(Some((id, key)))
    }

    /// Returns the caller of a request that was let through.
    pub(in crate::http) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Returns the key; none where none was needed.
    pub(in crate::http) fn key(&self) -> Option<(KeyId, &ApiKey)> {
        self.0.as_ref().map(|(id, key)| (*id, &**key))
    }

    /// Returns the name of the key; empty where none was needed.
    pub(in crate::http) fn name(&self) -> &str {
        self.0.as_ref().map_or("", |(_, key)| &key.name)
    }

    /// Tells whether the caller may see tasks of all callbacks.
    pub(in crate::http) fn covers(&self, callback: &str) -> bool {
        self.key().is_none_or(|(_, key)| key.covers(callback))
    }

    /// Tells whether the caller sees payloads.
    pub(in crate::http) fn sees_payloads(&self) -> bool {
        self.key().is_none_or(|(_, key)| key.sees_payloads())
    }

    /// Tells whether the caller sees credentials that tasks, callbacks and schedules send to others.
    pub(in crate::http) fn sees_credentials(&self) -> bool {
        self.key().is_none_or(|(_, key)| key.sees_credentials())
    }

    /// Returns a part of an answer as the caller sees it; `mask` takes the credentials out.
    pub(in crate::http) fn seen<T>(&self, mut shown: T, mask: fn(&mut T)) -> T {
        if !self.sees_credentials() {
            mask(&mut shown);
        }
        shown
    }

    /// Returns the view that the caller gets instead of the one that it asks for.
    pub(in crate::http) fn view(&self, asked: worker::View) -> worker::View {
        if self.sees_payloads() {
            asked
        } else {
            worker::View::Basic
        }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.key().is_some_and(|(_, key)| !key.callbacks.is_empty())
    }

    /// Returns the problem of a call outside the callbacks of the key.
    pub(super) fn refuse(&self, why: &str) -> Error {
        let callbacks = self.key().into_iter().flat_map(|(_, key)| &key.callbacks);
        let callbacks: Vec<&str> = callbacks.map(String::as_str).collect();
        let detail = format!(
            "the key `{}` is limited to the callbacks {}: {why}",
            self.name(),
            callbacks.join(", ")
        );
        Error::new(Code::AccessDenied, detail)
    }

    /// Lets the caller do something with a callback.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub(in crate::http) fn allows_callback(&self, callback: &str) -> Result<(), Error> {
        if self.covers(callback) {
            return Ok(());
        }
        let callback = shorten(callback);
        Err(self.refuse(&format!("`{callback}` is not one of them")))
    }

    /// Lets the caller do something with the tasks of a filter.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub(in crate::http) fn allows_filter(&self, callback: Option<&str>) -> Result<(), Error> {
        match callback {
            Some(callback) => self.allows_callback(callback),
            None if self.is_limited() => Err(self.refuse("name one of them in `filter.callback`")),
            None => Ok(()),
        }
    }

    /// Returns the key by which a client marks its request, in the space of the caller. Keys that are limited to the same
    /// callbacks share a space, as those without limit do: no request meets one of a caller who may not see its task. A key of a
    /// client has no line feed.
    pub(in crate::http) fn in_space(&self, mark: Option<String>) -> Option<String> {
        let callbacks = self.key().map(|(_, key)| &key.callbacks);
        let Some(callbacks) = callbacks.filter(|callbacks| !callbacks.is_empty()) else {
            return mark;
        };
        let names: Vec<&str> = callbacks.iter().map(String::as_str).collect();
        let space = xxh3_128(names.join("\n").as_bytes());
        mark.map(|mark| format!("{space:032x}\n{mark}"))
    }

    /// Lets the caller do something with a schedule: its task, and those that follow it, are of callbacks of the key.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub(in crate::http) fn allows_schedule(&self, task: &TaskDraft) -> Result<(), Error> {
        if !self.is_limited() {
            return Ok(());
        }
        match task.target.callback() {
            Some(callback) => self.allows_callback(callback)?,
            None => return Err(self.refuse("the task of the schedule names none of them")),
        }
        // A stored task is only so many levels deep.
        task.then
            .iter()
            .try_for_each(|follow| self.allows_schedule(&follow.task))
    }

    /// Lets the caller do something with a job. A limited key reaches those whose filter names one of its callbacks, such as the
    /// redrives that it has asked for.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub(super) fn allows_job(&self, job: &Job) -> Result<(), Error> {
        let callback = job.filter.callback.as_deref();
        let is_own = job.backfill.is_none() && callback.is_some_and(|name| self.covers(name));
        if is_own || !self.is_limited() {
            return Ok(());
        }
        Err(self.refuse("the filter of the job names none of them"))
    }

    /// Lets the caller register a task. A limited key names one of its callbacks; a task without one goes where its URL or its
    /// topic says.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub(in crate::http) fn allows_request(&self, task: &TaskRequest) -> Result<(), Error> {
        if !self.is_limited() {
            return Ok(());
        }
        if task.parent.is_some() {
            return Err(self.refuse("a child keeps the tree of its parent open"));
        }
        if task.after.is_some() {
            return Err(self.refuse("the tasks that it waits for may be of any callback"));
        }
        if task
            .notify
            .as_ref()
            .is_some_and(|notify| notify.kafka.is_some())
        {
            return Err(
                self.refuse("a notice may go to a topic of any name: let the callback set it")
            );
        }
        self.allows_hosts(task)?;
        // Each level is one call deep; a body that is nested deeper was refused when it was read.
        for child in task.children.iter().flatten() {
            self.allows_request(child)?;
        }
        for follow in task.then.iter().flatten() {
            self.allows_request(&follow.task)?;
        }
        match &task.callback {
            Some(
                CallbackTarget::Name(name) | CallbackTarget::Object(CallbackObject { name, .. }),
            ) => self.allows_callback(name),
            None => Err(self.refuse("the task names none of them")),
        }
    }

    /// Lets a limited key name hosts of notices, actions and checks: requests to them carry headers and signatures of the
    /// callback of the host.
    fn allows_hosts(&self, task: &TaskRequest) -> Result<(), Error> {
        let notice = task.notify.iter().filter_map(|notify| notify.http.as_ref());
        let actions = task.actions.iter().flatten();
        let actions = actions.filter_map(|action| action.http.as_ref());
        let checks = task.checks.iter().flatten();
        let deeds = checks.flat_map(|check| check.then.iter().chain(&check.otherwise));
        let deeds = deeds.filter_map(|deed| deed.http.as_ref());
        let mut targets = notice.chain(actions).chain(deeds);
        targets.try_for_each(|target| self.allows_host(&target.url))
    }

    fn allows_host(&self, url: &str) -> Result<(), Error> {
        let callback = callback_of_url(url);
        if self.covers(&callback) {
            return Ok(());
        }
        let why = format!(
            "a notice, an action or a check sends to `{callback}`: let the key cover it, or let an operator whose key covers it \
             set it for the callback"
        );
        Err(self.refuse(&why))
    }

    /// Lets the caller set where the ends of a callback's tasks are told. A limited key may leave as it is what another has set.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub(in crate::http) fn allows_notice(
        &self,
        asked: Option<&Notify>,
        is_set: Option<&Notify>,
    ) -> Result<(), Error> {
        match asked.map(|notify| &notify.to) {
            Some(to @ Destination::Http(call)) if is_set.is_none_or(|notify| notify.to != *to) => {
                self.allows_host(&call.url)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Lets the caller do something with a task and all below it, which may be of any callback.
    ///
    /// # Errors
    /// [`Code::AccessDenied`].
    pub(in crate::http) fn allows_trees(&self) -> Result<(), Error> {
        if self.is_limited() {
            return Err(self.refuse("tasks of a tree may be of any callback"));
        }
        Ok(())
    }

    /// Lets the caller do something with these tasks. Only a limited key costs a read of each. A task that is not there is left
    /// to the handler.
    ///
    /// # Errors
    /// [`Code::AccessDenied`], or that the store is away.
    pub(in crate::http) async fn allows_tasks(
        &self,
        api: &Api,
        ids: impl IntoIterator<Item = TaskId>,
    ) -> Result<(), Error> {
        if !self.is_limited() {
            return Ok(());
        }
        // Apart: most callers have no limit, and the future of these reads is large.
        Box::pin(self.allows_each(api, ids.into_iter().collect())).await
    }

    async fn allows_each(&self, api: &Api, ids: Vec<TaskId>) -> Result<(), Error> {
        stream::iter(ids)
            .map(|id| async move {
                let task = api.service.get(id, View::Basic).await?;
                match task.as_ref().map(|task| task.spec.callback()) {
                    None => Ok(()),
                    Some(Some(callback)) if self.covers(callback) => Ok(()),
                    Some(_) => Err(self.refuse(&format!("the task {id} belongs to another"))),
                }
            })
            .buffer_unordered(ACCESS_READS_IN_FLIGHT_MAX)
            .try_collect()
            .await
    }
}
