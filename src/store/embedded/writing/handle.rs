//! The handle brings requests of callers to the writer: by a bounded queue to its thread, or by a lock.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{
    command::Act,
    waiting::{Queued, Waiting},
    writer::Writer,
};
use crate::{
    store::{
        Error,
        embedded::{
            Mode,
            faults::refused,
            maintenance::{LOOK_INTERVAL, Maintenance, WRITING_INTERVAL, Writing},
            shared::Shared,
        },
    },
    time_source::TimeSource,
};

/// Requests that the writer has not looked at. When there are more, callers wait.
const QUEUE_ACTS_MAX: usize = 4096;

/// KiB of requests that wait for the writer: bounds their memory, and their number, since each counts as one at least.
const QUEUE_KIB_MAX: u32 = 32 * 1024;

/// Longest wait for an answer. A stall of the disk is shorter, and a caller must get on.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);

/// The interval at which erased ticks are dropped. Each time that there are some, everything stands for the
/// syncs with which the database notes its remaining tables, 2 to 5 ms.
const DROP_INTERVAL: Duration = Duration::from_secs(10);

/// The way to the writer.
pub(in crate::store::embedded) struct WriterHandle {
    shared: Arc<Shared>,
    way: Way,
}

enum Way {
    Thread {
        queue: Option<mpsc::Sender<Queued>>,
        kib: Arc<Semaphore>,
        writer: Option<JoinHandle<()>>,
        stops: Vec<SyncSender<()>>,
        helpers: Vec<JoinHandle<()>>,
    },
    Inline(Mutex<Writer>),
}

impl WriterHandle {
    pub(in crate::store::embedded) fn new(shared: &Arc<Shared>, mode: Mode) -> Result<Self, Error> {
        let way = match mode {
            Mode::Inline => Way::Inline(Mutex::new(Writer::new(Arc::clone(shared), false))),
            Mode::Threaded => threads(shared)?,
        };
        Ok(Self {
            shared: Arc::clone(shared),
            way,
        })
    }

    /// Leaves the writer as a panic does: it decides nothing until the database has been opened anew.
    #[cfg(test)]
    pub(in crate::store::embedded) fn break_writer(&self) {
        if let Way::Inline(writer) = &self.way {
            let mut writer = writer.lock();
            writer.panicked();
        }
    }

    pub(in crate::store::embedded) const fn is_inline(&self) -> bool {
        matches!(self.way, Way::Inline(_))
    }

    /// Asks for something and waits for the answer. An error means that it was certainly not done, and none
    /// that the outcome is unknown.
    pub(in crate::store::embedded) async fn ask<T: Send>(
        &self,
        bytes: usize,
        act: impl FnOnce(oneshot::Sender<T>) -> Act + Send,
    ) -> Result<Option<T>, Error> {
        let (answer, mut answered) = oneshot::channel();
        let act = act(answer);
        match &self.way {
            Way::Inline(writer) => {
                write_inline(writer, act);
                Ok(answered.try_recv().ok())
            }
            Way::Thread { queue, kib, .. } => {
                let time = &self.shared.time;
                let wanted = u32::try_from(bytes / 1024)
                    .unwrap_or(u32::MAX)
                    .saturating_add(1);
                let enqueue = async {
                    let room = Arc::clone(kib)
                        .acquire_many_owned(wanted.min(QUEUE_KIB_MAX))
                        .await
                        .ok()?;
                    let queued = Queued {
                        act,
                        bytes,
                        share: Some(room),
                    };
                    queue.as_ref()?.send(queued).await.ok()
                };
                let queued = time.within(ANSWER_WAIT_MAX, enqueue).await.flatten();
                queued.ok_or_else(|| Error::Unavailable {
                    operation: "write",
                    reason: "the disk does not keep up: too much waits to be written".to_owned(),
                })?;
                let answered = time.within(ANSWER_WAIT_MAX, answered).await;
                Ok(answered.and_then(Result::ok))
            }
        }
    }

    /// Asks for work that may as well be left undone.
    pub(in crate::store::embedded) fn offer(&self, act: Act) {
        match &self.way {
            Way::Inline(writer) => write_inline(writer, act),
            Way::Thread { queue, .. } => {
                if let Some(queue) = queue {
                    // A full queue has more important work.
                    drop(queue.try_send(unasked(act)));
                }
            }
        }
    }
}

fn write_inline(writer: &Mutex<Writer>, act: Act) {
    let mut writer = writer.lock();
    writer.turn(vec![act]);
}

fn threads(shared: &Arc<Shared>) -> Result<Way, Error> {
    let (queue, waiting) = mpsc::channel(QUEUE_ACTS_MAX);
    let writer = Writer::new(Arc::clone(shared), true);
    let clocks = shared.time.clone();
    let writer = spawn(shared, "store-writer", move || {
        write_groups(writer, &clocks, waiting)
    })?;
    let (tell_writing, told) = sync_channel::<()>(1);
    let mut writing = Writing::new(Arc::clone(shared));
    let writing = spawn(shared, "store-writeback", move || {
        // This loop ends with the upkeep.
        loop {
            let wait = if writing.look() {
                told.recv_timeout(WRITING_INTERVAL)
            } else {
                told.recv().map_err(Into::into)
            };
            if wait == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    })?;
    let (stop_upkeep, stopped) = sync_channel::<()>(0);
    let (weak, looking) = (queue.downgrade(), Arc::clone(shared));
    let upkeep = spawn(shared, "store-upkeep", move || {
        let mut upkeep = Maintenance::new(looking, tell_writing);
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK_INTERVAL) {
            if !upkeep.look() {
                continue;
            }
            let Some(queue) = weak.upgrade() else { return };
            // A full queue has more important work.
            drop(queue.try_send(unasked(Act::Upkeep)));
        }
    })?;
    let (stop_dropping, stopped) = sync_channel::<()>(0);
    let past = Arc::clone(shared);
    let dropping = spawn(shared, "store-drop", move || {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(DROP_INTERVAL) {
            past.drop_erased();
        }
    })?;
    Ok(Way::Thread {
        queue: Some(queue),
        kib: Arc::new(Semaphore::new(QUEUE_KIB_MAX as usize)),
        writer: Some(writer),
        stops: vec![stop_upkeep, stop_dropping],
        helpers: vec![upkeep, writing, dropping],
    })
}

fn spawn(
    shared: &Shared,
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread
        .spawn(run)
        .map_err(|error| refused(&shared.path, &error))
}

/// A request that nobody waits for.
const fn unasked(act: Act) -> Queued {
    Queued {
        act,
        bytes: 0,
        share: None,
    }
}

/// Runs the writer's thread. It ends when the last caller has gone and everything is written.
fn write_groups(mut writer: Writer, time: &TimeSource, mut asked: mpsc::Receiver<Queued>) {
    let mut waiting = Waiting::default();
    loop {
        if waiting.is_empty() {
            let Some(first) = asked.blocking_recv() else {
                return;
            };
            waiting.push(first);
        }
        while let Ok(next) = asked.try_recv() {
            waiting.push(next);
        }
        let group = waiting.group(time.moment());
        let (acts, shares): (Vec<_>, Vec<_>) =
            group.into_iter().map(|one| (one.act, one.share)).unzip();
        // The outcome of requests that a panic leaves unanswered is unknown to their callers.
        if catch_unwind(AssertUnwindSafe(|| writer.turn(acts))).is_err() {
            writer.panicked();
        }
        // Their memory is free only now.
        drop(shares);
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        if let Way::Thread {
            queue,
            writer,
            stops,
            helpers,
            ..
        } = &mut self.way
        {
            drop((queue.take(), std::mem::take(stops)));
            for thread in helpers.drain(..).chain(writer.take()) {
                // A thread that has panicked has reported it.
                drop(thread.join());
            }
        }
    }
}
