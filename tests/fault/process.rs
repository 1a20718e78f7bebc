//! `Process` starts, kills, pauses and restarts a process of a drill, and logs every such moment
//! for the checker.

use std::{
    process::{Child, Command},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tickwheel::time_source::TimeSource;

use crate::{journal::Journal, members::Member};

/// Makes the command of a life, which is counted from one.
type Make = Box<dyn Fn(u32) -> Command>;

/// Killed when it is dropped.
pub(crate) struct Process {
    pub(crate) member: Member,
    make: Make,
    child: Option<Child>,
    lives: u32,
    journal: Journal,
}

impl Process {
    pub(crate) fn new(
        member: Member,
        journal: Journal,
        make: impl Fn(u32) -> Command + 'static,
    ) -> Self {
        Self {
            member,
            make: Box::new(make),
            child: None,
            lives: 0,
            journal,
        }
    }

    fn note(&self, did: &str) {
        let who = self.member.to_string();
        self.journal
            .note(json!({"what": "process", "who": who, "did": did, "life": self.lives}));
    }

    /// Starts it unless it runs. Must be called on the main thread: a process dies with the thread that started it.
    pub(crate) fn start(&mut self) {
        if self.child.is_none() {
            self.lives += 1;
            self.note("start");
            let child = (self.make)(self.lives).spawn();
            self.child = Some(child.expect("a process can be started"));
        }
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a process id"), signal).expect("our child can be signalled");
    }

    /// `kill -9`. It is logged after the death: until then the process may have acted.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("our child can be killed");
            child.wait().expect("our child can be waited for");
            self.note("kill");
        }
    }

    /// SIGSTOP.
    pub(crate) fn pause(&self) {
        self.note("pause");
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
        self.note("resume");
    }

    /// SIGTERM, and SIGKILL when it has not ended by `limit`.
    pub(crate) async fn stop(&mut self, time: &TimeSource, limit: Duration) {
        if self.child.is_none() {
            return;
        }
        self.note("stop");
        self.signal(Signal::TERM);
        let until = time.moment().after(limit);
        while time.moment() < until && self.is_running() {
            time.sleep(Duration::from_millis(50)).await;
        }
        self.kill();
    }

    /// Whether the process still runs, which it does unless it ended by itself.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| child.try_wait().expect("our child can be asked").is_none())
    }

    /// Forgets a process that has ended by itself, so that it can be started again.
    pub(crate) fn reap(&mut self) {
        if self.child.is_some() && !self.is_running() {
            self.note("ended");
            self.child = None;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
