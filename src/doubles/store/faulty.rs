//! The faulty store wraps any store for tests and shows the faults of a real one on demand.
//!
//! Each node under test gets a [`Faulty`] handle of its own. Its [`Hook`] sees every call and chooses its
//! [`Fate`], so a test can crash a node at its k-th operation, lose the reply of a conditional write, or have
//! it applied later.
//!
//! The wrapped store decides what the calls that reach it do.

mod records;

use std::{fmt, future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    model::{
        clock::ClockRow,
        entry::{Entry, Key},
        ids::{NodeId, TaskId},
        state::{Expect, TaskRow, Transition},
        task::Content,
        time::Millis,
        wheel::WheelNumber,
    },
    store::{
        ClockStore, EndedPage, Erasure, Error, Firsts, Freshness, Heartbeat, NodeRow, NodeStore,
        Page, Parked, RangePage, RangeScan, Scan, Store, Swapped, TaskStore, Underway, WheelStore,
        index::IndexKind,
    },
    time_source::TimeSource,
};

/// A call of a store, as a hook sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Name of the method.
    pub operation: &'static str,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it is a conditional write.
    pub conditional: bool,
    /// How many rows it writes, or reads by their names; one for a page of a range.
    pub rows: usize,
    /// The kind of the rows of the index that it writes or reads.
    pub index: Option<IndexKind>,
}

impl Call {
    const fn read(operation: &'static str) -> Self {
        Self {
            operation,
            writes: false,
            conditional: false,
            rows: 1,
            index: None,
        }
    }

    const fn write(operation: &'static str) -> Self {
        Self {
            writes: true,
            ..Self::read(operation)
        }
    }

    const fn swap(operation: &'static str) -> Self {
        Self {
            conditional: true,
            ..Self::write(operation)
        }
    }

    const fn of(self, rows: usize) -> Self {
        Self { rows, ..self }
    }

    /// Returns the error of a call whose outcome the caller does not learn.
    fn fault(self, reason: &str) -> Error {
        Error::Unavailable {
            operation: self.operation,
            reason: reason.to_owned(),
        }
    }
}

/// The fate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Go,
    /// It is done after this wait.
    Delay(Duration),
    /// It is done, and its answer comes after this wait.
    AnswerLate(Duration),
    /// It fails, and has no effect.
    Fail,
    /// It fails after this wait, and has no effect.
    FailLate(Duration),
    /// It is done, and its reply is lost: an error, or [`Swapped::Unknown`].
    LoseReply,
    /// Its reply is lost, and it takes effect after this wait.
    ApplyLater(Duration),
    /// The process dies before the call has an effect: it never returns.
    StopBefore,
    /// The process dies after the call has had its effect: it never returns.
    StopAfter,
}

/// Chooses the fate of each call of a handle.
pub type Hook = Arc<dyn Fn(Call) -> Fate + Send + Sync>;

/// A node's handle of a store.
pub struct Faulty {
    store: Arc<dyn Store>,
    /// The same store, if it belongs to one process alone.
    own: Option<Arc<dyn Underway>>,
    time: TimeSource,
    hook: Hook,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").finish_non_exhaustive()
    }
}

/// The result of a call.
enum Reply<T> {
    Here(T),
    Lost,
    Failed,
}

impl Faulty {
    /// Returns a handle whose calls meet the fates that the hook chooses. Waits are measured by `time`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, time: TimeSource, hook: Hook) -> Self {
        Self {
            store,
            own: None,
            time,
            hook,
        }
    }

    /// Returns a handle of a store that belongs to one process alone. Tasks under way can be read through it
    /// as well.
    #[must_use]
    pub fn of_own(store: Arc<dyn Underway>, time: TimeSource, hook: Hook) -> Self {
        let own = Some(Arc::clone(&store));
        let store: Arc<dyn Store> = store;
        Self {
            own,
            ..Self::new(store, time, hook)
        }
    }

    fn own(&self) -> Result<Arc<dyn Underway>, Error> {
        self.own.clone().ok_or_else(|| Error::Unsuitable {
            reason: "it is not one process's own".to_owned(),
        })
    }

    async fn call<T, A, F>(&self, call: Call, act: A) -> Reply<T>
    where
        T: Send + 'static,
        A: FnOnce(Arc<dyn Store>) -> F + Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let store = Arc::clone(&self.store);
        match (self.hook)(call) {
            Fate::Go => Reply::Here(act(store).await),
            Fate::Delay(wait) => {
                self.time.sleep(wait).await;
                Reply::Here(act(store).await)
            }
            Fate::AnswerLate(wait) => {
                let answer = act(store).await;
                self.time.sleep(wait).await;
                Reply::Here(answer)
            }
            Fate::Fail => Reply::Failed,
            Fate::FailLate(wait) => {
                self.time.sleep(wait).await;
                Reply::Failed
            }
            Fate::LoseReply => {
                act(store).await;
                Reply::Lost
            }
            Fate::ApplyLater(wait) => {
                let time = self.time.clone();
                tokio::spawn(async move {
                    time.sleep(wait).await;
                    act(store).await;
                });
                Reply::Lost
            }
            Fate::StopBefore => pending().await,
            Fate::StopAfter => {
                act(store).await;
                pending().await
            }
        }
    }

    async fn plain<T, A, F>(&self, call: Call, act: A) -> Result<T, Error>
    where
        T: Send + 'static,
        A: FnOnce(Arc<dyn Store>) -> F + Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        match self.call(call, act).await {
            Reply::Here(value) => value,
            Reply::Lost => Err(call.fault("the reply was lost")),
            Reply::Failed => Err(call.fault("it failed")),
        }
    }

    /// Makes a call that is answered item by item.
    async fn plain_all<A, F>(&self, call: Call, count: usize, act: A) -> Vec<Result<(), Error>>
    where
        A: FnOnce(Arc<dyn Store>) -> F + Send + 'static,
        F: Future<Output = Vec<Result<(), Error>>> + Send + 'static,
    {
        match self.call(call, act).await {
            Reply::Here(answers) => answers,
            Reply::Lost => vec![Err(call.fault("the reply was lost")); count],
            Reply::Failed => vec![Err(call.fault("it failed")); count],
        }
    }
}

#[async_trait]
impl WheelStore for Faulty {
    async fn put_entries(&self, entries: &[Entry]) -> Vec<Result<(), Error>> {
        let (count, entries) = (entries.len(), entries.to_vec());
        let put = |store: Arc<dyn Store>| async move { store.put_entries(&entries).await };
        self.plain_all(Call::write("put_entries").of(count), count, put)
            .await
    }

    async fn scan(&self, scan: &Scan) -> Result<Page, Error> {
        let scan = *scan;
        let read = move |store: Arc<dyn Store>| async move { store.scan(&scan).await };
        self.plain(Call::read("scan"), read).await
    }

    async fn scan_range(&self, range: &RangeScan) -> Result<RangePage, Error> {
        let range = *range;
        let read = move |store: Arc<dyn Store>| async move { store.scan_range(&range).await };
        self.plain(Call::read("scan_range"), read).await
    }

    async fn find_entries(&self, id: TaskId, dues: &[Millis]) -> Result<Vec<Entry>, Error> {
        let (call, dues) = (Call::read("find_entries").of(dues.len()), dues.to_vec());
        let read = move |store: Arc<dyn Store>| async move { store.find_entries(id, &dues).await };
        self.plain(call, read).await
    }

    fn reads_at_once(&self) -> Option<usize> {
        self.store.reads_at_once()
    }

    fn removes_leftovers(&self) -> bool {
        self.store.removes_leftovers()
    }

    async fn erase(&self, wheel: WheelNumber, ticks: &[Erasure]) -> Result<(), Error> {
        let ticks = ticks.to_vec();
        let erase = move |store: Arc<dyn Store>| async move { store.erase(wheel, &ticks).await };
        self.plain(Call::write("erase"), erase).await
    }

    async fn put_bodies(
        &self,
        bodies: &[(TaskId, Arc<Content>)],
        written: i64,
        ttl_seconds: Option<u32>,
    ) -> Vec<Result<(), Error>> {
        let (count, bodies) = (bodies.len(), bodies.to_vec());
        let put = move |store: Arc<dyn Store>| async move {
            store.put_bodies(&bodies, written, ttl_seconds).await
        };
        self.plain_all(Call::write("put_bodies").of(count), count, put)
            .await
    }

    async fn bodies(&self, ids: &[TaskId]) -> Result<Vec<Option<Content>>, Error> {
        let (call, ids) = (Call::read("bodies").of(ids.len()), ids.to_vec());
        let read = |store: Arc<dyn Store>| async move { store.bodies(&ids).await };
        self.plain(call, read).await
    }

    async fn delete_bodies(&self, ids: &[TaskId], written: i64) -> Result<(), Error> {
        let (call, ids) = (Call::write("delete_bodies").of(ids.len()), ids.to_vec());
        let delete =
            move |store: Arc<dyn Store>| async move { store.delete_bodies(&ids, written).await };
        self.plain(call, delete).await
    }

    async fn park(&self, parked: &Parked) -> Result<(), Error> {
        let parked = parked.clone();
        let park = |store: Arc<dyn Store>| async move { store.park(&parked).await };
        self.plain(Call::write("park"), park).await
    }

    async fn let_in(&self, tasks: usize) -> Result<(), Error> {
        self.store.let_in(tasks).await
    }

    async fn parked(&self, at: Millis, max: usize) -> Result<Vec<Parked>, Error> {
        let read = move |store: Arc<dyn Store>| async move { store.parked(at, max).await };
        self.plain(Call::read("parked"), read).await
    }
}

#[async_trait]
impl ClockStore for Faulty {
    async fn clock(&self, wheel: WheelNumber, freshness: Freshness) -> Result<ClockRow, Error> {
        let read = move |store: Arc<dyn Store>| async move { store.clock(wheel, freshness).await };
        self.plain(Call::read("clock"), read).await
    }

    async fn swap_clock(
        &self,
        wheel: WheelNumber,
        from: &ClockRow,
        to: &ClockRow,
    ) -> Result<Swapped<ClockRow>, Error> {
        let (from, to) = (*from, *to);
        let call = Call::swap("swap_clock");
        let swap =
            move |store: Arc<dyn Store>| async move { store.swap_clock(wheel, &from, &to).await };
        match self.call(call, swap).await {
            Reply::Here(swapped) => swapped,
            Reply::Lost => Ok(Swapped::Unknown),
            Reply::Failed => Err(call.fault("it failed")),
        }
    }
}

#[async_trait]
impl TaskStore for Faulty {
    fn heartbeats_kept_since(&self) -> Option<Millis> {
        self.store.heartbeats_kept_since()
    }

    fn expired_by(&self, now: Millis) -> Millis {
        self.store.expired_by(now)
    }

    async fn tasks(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Result<Vec<Option<TaskRow>>, Error> {
        let (call, ids) = (Call::read("tasks").of(ids.len()), ids.to_vec());
        let read = move |store: Arc<dyn Store>| async move { store.tasks(&ids, freshness).await };
        self.plain(call, read).await
    }

    async fn tasks_each(
        &self,
        ids: &[TaskId],
        freshness: Freshness,
    ) -> Vec<Result<Option<TaskRow>, Error>> {
        let (call, count) = (Call::read("tasks").of(ids.len()), ids.len());
        let ids = ids.to_vec();
        let read =
            move |store: Arc<dyn Store>| async move { Ok(store.tasks_each(&ids, freshness).await) };
        let rows = self.plain(call, read).await;
        rows.unwrap_or_else(|error| vec![Err(error); count])
    }

    fn lists_ended_tasks(&self) -> bool {
        self.store.lists_ended_tasks()
    }

    async fn ended_tasks(&self, behind: TaskId, rows_max: usize) -> Result<EndedPage, Error> {
        let read =
            move |store: Arc<dyn Store>| async move { store.ended_tasks(behind, rows_max).await };
        self.plain(Call::read("ended_tasks"), read).await
    }

    fn has_rounds(&self) -> bool {
        self.store.has_rounds()
    }

    async fn swap_tasks(&self, transitions: &[Transition]) -> Vec<Result<Swapped<Expect>, Error>> {
        let (count, transitions) = (transitions.len(), transitions.to_vec());
        let call = Call::swap("swap_tasks").of(count);
        let swap = |store: Arc<dyn Store>| async move { store.swap_tasks(&transitions).await };
        match self.call(call, swap).await {
            Reply::Here(swapped) => swapped,
            Reply::Lost => vec![Ok(Swapped::Unknown); count],
            Reply::Failed => vec![Err(call.fault("it failed")); count],
        }
    }

    async fn put_heartbeats(
        &self,
        heartbeats: &[Heartbeat],
        kept: Duration,
    ) -> Vec<Result<(), Error>> {
        let (count, heartbeats) = (heartbeats.len(), heartbeats.to_vec());
        let put = move |store: Arc<dyn Store>| async move {
            store.put_heartbeats(&heartbeats, kept).await
        };
        self.plain_all(Call::write("put_heartbeats").of(count), count, put)
            .await
    }

    async fn heartbeats(
        &self,
        attempts: &[(TaskId, u32)],
    ) -> Result<Vec<Option<Heartbeat>>, Error> {
        let call = Call::read("heartbeats").of(attempts.len());
        let attempts = attempts.to_vec();
        let read = |store: Arc<dyn Store>| async move { store.heartbeats(&attempts).await };
        self.plain(call, read).await
    }
}

#[async_trait]
impl NodeStore for Faulty {
    async fn put_node(&self, node: &NodeRow) -> Result<(), Error> {
        let node = node.clone();
        let put = |store: Arc<dyn Store>| async move { store.put_node(&node).await };
        self.plain(Call::write("put_node"), put).await
    }

    async fn remove_node(&self, node: NodeId) -> Result<(), Error> {
        let remove = move |store: Arc<dyn Store>| async move { store.remove_node(node).await };
        self.plain(Call::write("remove_node"), remove).await
    }

    async fn nodes(&self) -> Result<Vec<NodeRow>, Error> {
        let read = |store: Arc<dyn Store>| async move { store.nodes().await };
        self.plain(Call::read("nodes"), read).await
    }
}

#[async_trait]
impl Underway for Faulty {
    async fn looks(
        &self,
        wheel: WheelNumber,
        behind: Option<Key>,
        rows_max: usize,
    ) -> Result<Page, Error> {
        let own = self.own()?;
        let read = move |_| async move { own.looks(wheel, behind, rows_max).await };
        self.plain(Call::read("looks"), read).await
    }

    async fn firsts(
        &self,
        from: Millis,
        behind: Option<Key>,
        before: i64,
        rows_max: usize,
    ) -> Result<Firsts, Error> {
        let own = self.own()?;
        let read = move |_| async move { own.firsts(from, behind, before, rows_max).await };
        self.plain(Call::read("firsts"), read).await
    }
}
