//! The heartbeats of workers are recorded here: signs of life of attempts that run, and how far they have come.
//!
//! A sign of life keeps the progress that an earlier one of its attempt has told, unless it tells another. Two of one attempt
//! that come at the same moment may leave the older progress. A failure to read the earlier progress costs the progress and not
//! the life of the attempt.

use std::{collections::HashMap, time::Duration};

use super::settle::{Settler, is_alive, why_lost};
use crate::{
    flaw::{self, Flaw},
    flow::base::{
        api::{Fault, HeartbeatAnswer, HeartbeatRequest, LostReason},
        rows::{messages::Told, stored},
    },
    limits,
    model::{
        ids::TaskId,
        state::{State, TaskRow},
        time::Millis,
    },
    store::{self, Heartbeat},
};

impl Settler {
    /// Records signs of life; one answer per attempt, in order. Those of attempts that are not alive leave nothing behind.
    pub async fn heartbeat(&self, requests: Vec<HeartbeatRequest>) -> Vec<HeartbeatAnswer> {
        let at = self.ctx.now();
        let known: Vec<bool> = requests
            .iter()
            .map(|request| self.claimed.has(request.id, request.attempt))
            .collect();
        let lost = self.lost(&requests, &known).await;
        let kept: Vec<(&HeartbeatRequest, bool)> = requests
            .iter()
            .zip(known)
            .zip(&lost)
            .filter_map(|(request, lost)| matches!(lost, Ok(None)).then_some(request))
            .collect();
        let beats: Vec<Heartbeat> = kept
            .iter()
            .map(|(request, _)| Heartbeat {
                id: request.id,
                attempt: request.attempt,
                at,
                progress: request.progress.clone(),
            })
            .collect();
        let beats = self.with_progress(beats).await;
        // Recorded before the row is read: any later reader that finds the row live also finds the sign of life.
        let written = if flaw::is(Flaw::HeartbeatIgnored) || beats.is_empty() {
            beats.iter().map(|_| Ok(())).collect()
        } else {
            let kept = limits::HEARTBEAT_KEPT_MIN;
            self.ctx.store.put_heartbeats(&beats, kept).await
        };
        let ids: Vec<TaskId> = kept.iter().map(|(request, _)| request.id).collect();
        let rows = stored::rows_each(&self.ctx, &ids).await;
        let written = self.keep_longer(beats, &rows, written).await;
        let recorded = self.recorded(&kept, &rows, &written, at);
        self.keep_messages(&kept, &rows, &recorded, at).await;
        let mut recorded = recorded.into_iter();
        let answers = lost.into_iter().map(|lost| match lost {
            Ok(None) => recorded
                .next()
                .unwrap_or(HeartbeatAnswer::Lost(LostReason::Unknown)),
            Ok(Some(lost)) => HeartbeatAnswer::Lost(lost),
            Err(fault) => HeartbeatAnswer::Fault(fault),
        });
        answers.inspect(count).collect()
    }

    /// Answers attempts whose signs of life were recorded, and watches those that live. Each comes with whether it had been
    /// claimed through this node when its sign of life came.
    fn recorded(
        &self,
        kept: &[(&HeartbeatRequest, bool)],
        rows: &[Result<Option<TaskRow>, store::Error>],
        written: &[Result<(), store::Error>],
        at: Millis,
    ) -> Vec<HeartbeatAnswer> {
        let recorded = kept.iter().enumerate().map(|(index, (request, known))| {
            if let Some(Err(error)) = written.get(index) {
                return HeartbeatAnswer::Fault(error.clone().into());
            }
            let row = match rows.get(index) {
                Some(Ok(row)) => row.as_ref(),
                Some(Err(error)) => return HeartbeatAnswer::Fault(error.clone().into()),
                None => None,
            };
            let answer = answer(request, row, at);
            // A report that came since the row was read may have ended its watch: nothing would end another one.
            let reported = *known && !self.claimed.has(request.id, request.attempt);
            if let (Some(row), HeartbeatAnswer::Ok | HeartbeatAnswer::CancelRequested) =
                (row, &answer)
                && !reported
            {
                self.deadlines.watch(row, Some(at));
            }
            answer
        });
        recorded.collect()
    }

    /// Keeps what attempts that live have told.
    async fn keep_messages(
        &self,
        kept: &[(&HeartbeatRequest, bool)],
        rows: &[Result<Option<TaskRow>, store::Error>],
        recorded: &[HeartbeatAnswer],
        at: Millis,
    ) {
        let told = kept.iter().zip(rows).zip(recorded);
        let told = told.filter_map(|(((request, _), row), answer)| {
            let lives = matches!(
                answer,
                HeartbeatAnswer::Ok | HeartbeatAnswer::CancelRequested
            );
            let row = row.as_ref().ok()?.as_ref().filter(|_| lives)?;
            Some(Told {
                id: request.id,
                attempt: request.attempt,
                spec: &row.detail.spec,
                note: request.progress.as_ref()?,
            })
        });
        self.told.keep(&self.ctx, told.collect(), at).await;
    }

    /// Tells which attempts do not live, and why. Attempts claimed through this node are not looked up: a read
    /// for each sign of life would double its cost for a rare event. Other attempts in a request may be made up.
    async fn lost(
        &self,
        requests: &[HeartbeatRequest],
        known: &[bool],
    ) -> Vec<Result<Option<LostReason>, Fault>> {
        let unknown: Vec<TaskId> = requests
            .iter()
            .zip(known)
            .filter(|(_, known)| !**known)
            .map(|(request, _)| request.id)
            .collect();
        let mut rows = stored::rows_each(&self.ctx, &unknown).await.into_iter();
        let judged = requests.iter().zip(known).map(|(request, known)| {
            if *known {
                return Ok(None);
            }
            let row = rows.next().unwrap_or(Ok(None))?;
            let is_alive = row
                .as_ref()
                .is_some_and(|row| is_alive(row, request.attempt));
            Ok((!is_alive).then(|| why_lost(row.as_ref(), request.attempt)))
        });
        judged.collect()
    }

    /// Adds the progress that was told before to signs of life that tell none.
    async fn with_progress(&self, mut beats: Vec<Heartbeat>) -> Vec<Heartbeat> {
        let silent = beats.iter().filter(|beat| beat.progress.is_none());
        let silent: Vec<(TaskId, u32)> = silent.map(|beat| (beat.id, beat.attempt)).collect();
        if silent.is_empty() {
            return beats;
        }
        let read = self.ctx.store.heartbeats_each(&silent).await;
        let told = silent.into_iter().zip(read);
        let mut told: HashMap<_, _> = told
            .filter_map(|(attempt, beat)| Some((attempt, beat.ok()??.progress?)))
            .collect();
        for beat in beats.iter_mut().filter(|beat| beat.progress.is_none()) {
            beat.progress = told.remove(&(beat.id, beat.attempt));
        }
        beats
    }

    /// Repeats signs of life that must be kept longer than usual, as only the rows of their tasks tell. A
    /// sign of life that is gone before its timeout has passed makes a live worker look dead.
    async fn keep_longer(
        &self,
        mut beats: Vec<Heartbeat>,
        rows: &[Result<Option<TaskRow>, store::Error>],
        mut written: Vec<Result<(), store::Error>>,
    ) -> Vec<Result<(), store::Error>> {
        let kept = |row: &Result<Option<TaskRow>, store::Error>| {
            let live = row.as_ref().ok()?.as_ref();
            let live = live.filter(|row| row.state == State::Claimed)?;
            let timeout = live.detail.spec.heartbeat_timeout;
            let kept = timeout.saturating_mul(limits::HEARTBEAT_KEPT_TIMEOUTS);
            (kept > limits::HEARTBEAT_KEPT_MIN).then_some(kept)
        };
        let long = rows.iter().map(kept).enumerate();
        let long: Vec<(usize, Duration)> = long
            .filter_map(|(index, kept)| Some((index, kept?)))
            .collect();
        for (index, kept) in long {
            let Some(beat) = beats.get_mut(index) else {
                continue;
            };
            // Newer than the first write, so that it replaces that one in every store.
            beat.at = beat.at.after(Duration::from_millis(1));
            let again = self
                .ctx
                .store
                .put_heartbeats(std::slice::from_ref(beat), kept);
            if let (Some(slot), Some(again)) = (written.get_mut(index), again.await.pop())
                && slot.is_ok()
            {
                *slot = again;
            }
        }
        written
    }
}

fn answer(request: &HeartbeatRequest, row: Option<&TaskRow>, now: Millis) -> HeartbeatAnswer {
    let is_over = |row: &TaskRow| row.attempt_ends().is_some_and(|end| end <= now);
    match row {
        Some(row) if is_alive(row, request.attempt) && is_over(row) => {
            HeartbeatAnswer::Lost(LostReason::TimedOut)
        }
        Some(row) if is_alive(row, request.attempt) => {
            if row.cancel_requested {
                HeartbeatAnswer::CancelRequested
            } else {
                HeartbeatAnswer::Ok
            }
        }
        row => HeartbeatAnswer::Lost(why_lost(row, request.attempt)),
    }
}

fn count(answer: &HeartbeatAnswer) {
    let name = match answer {
        HeartbeatAnswer::Ok => "ok",
        HeartbeatAnswer::Lost(_) => "lost",
        HeartbeatAnswer::CancelRequested => "cancel_requested",
        HeartbeatAnswer::Fault(_) => "fault",
    };
    metrics::counter!("tickwheel_heartbeats_total", "answer" => name).increment(1);
}
