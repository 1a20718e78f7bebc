//! `History` puts the logs of all processes together for the checks.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::pieces::{Piece, Pieces};

/// For this long after a fault has healed its effects may still appear: sessions end, groups
/// rebalance, leases end.
pub(super) const AFTERMATH_MS: i64 = 15_000;

/// Slots are read this far ahead of their time; a fault in that span can reach a task that is not due yet.
pub(super) const AHEAD_MS: i64 = 2_000;

/// A worker that goes on after a pause finds by its monotonic clock that its leases are over, and drops its
/// runs within this time, on two busy cores.
const GRACE_MS: i64 = 2_000;

/// A task that a client asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) start: i64,
    /// When its registration was acknowledged; none when no client got the answer.
    pub(crate) registered: Option<i64>,
    pub(crate) cancels: Vec<Change>,
    pub(crate) moves: Vec<Change>,
    /// The runs in the order in which they began.
    pub(crate) runs: Vec<Run>,
    /// The answer to a read of the task at the end.
    pub(crate) last: Value,
    /// The number of the piece of work that it is, if it is no plain task.
    pub(crate) piece: Option<u64>,
    /// Whether a client asked for something that may cancel it: a replacement of its key, or a job.
    pub(crate) may_be_cancelled: bool,
}

/// A task that goes to a topic.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    /// Its id; none when no client got the answer.
    pub(crate) id: Option<String>,
    pub(crate) start: i64,
    /// Whether its topic is the one that a lost broker makes sick.
    pub(crate) is_sick: bool,
    pub(crate) registered: Option<i64>,
    /// When its records were produced, and which task each names.
    pub(crate) arrived: Vec<(i64, String)>,
}

/// A cancel or a reschedule that was asked for, and the answer.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) start: i64,
    pub(crate) told: Option<(i64, String)>,
}

/// One run of the callback.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) worker: String,
    pub(crate) attempt: u64,
    pub(crate) n: u64,
    pub(crate) begin: i64,
    /// The start of the task by what the service told the worker.
    pub(crate) due: i64,
    /// The schedule that it is a run of, and the time that it stands for.
    pub(crate) schedule: Option<(String, i64)>,
    /// The task that it follows, with its result, by what the service told the worker.
    pub(crate) previous: Value,
    pub(crate) end: Option<(i64, String)>,
    /// When its worker was killed or paused while it ran.
    pub(crate) cut: Option<(i64, String)>,
    /// When its worker, which was paused, went on.
    pub(crate) resumed: Option<i64>,
    /// When its worker had last gone on before the run began.
    pub(crate) resumed_before: Option<i64>,
    /// When its worker was killed, or ended by itself.
    pub(crate) killed: Option<i64>,
}

/// A fault, or several at once.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) name: String,
    pub(crate) from: i64,
    /// When the cause was taken away, and when all servers served again.
    pub(crate) mended: i64,
    pub(crate) healed: i64,
}

/// The live entries in the slots at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Count {
    pub(crate) at: i64,
    pub(crate) entries: u64,
    /// The tasks with more than two entries.
    pub(crate) many: Vec<(String, u64)>,
}

/// All that the logs tell.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) tasks: Vec<Task>,
    pub(crate) records: Vec<Record>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) counts: Vec<Count>,
    /// The operating model.
    pub(crate) pieces: Pieces,
    /// The loads beside the usual one, with the times from which they were there.
    pub(crate) loads: Vec<(i64, String)>,
    /// The errors of clocks in milliseconds, and the times from which they held.
    pub(super) offsets: Vec<(i64, String, i64)>,
    /// The start of the load without a fault.
    pub(crate) calm: Option<i64>,
    pub(crate) over: i64,
    /// Calls whose outcome no client got.
    pub(crate) unknown: usize,
}

/// Used while the logs are read.
#[derive(Default)]
struct Reading {
    history: History,
    /// Start and acknowledged registration with its id, by the client's number.
    asked: BTreeMap<u64, i64>,
    tasks: BTreeMap<String, Task>,
    /// By the client's number.
    records: BTreeMap<u64, Record>,
    /// By worker, life, id and attempt.
    ends: HashMap<(String, String, String, u64), (i64, String)>,
    runs: Vec<(String, String, Run)>,
    processes: Vec<(String, i64, String)>,
}

pub(super) fn text(line: &Value, name: &str) -> String {
    line[name].as_str().unwrap_or_default().to_owned()
}

pub(super) fn number(line: &Value, name: &str) -> i64 {
    line[name].as_i64().unwrap_or_default()
}

impl History {
    /// Puts the lines of all logs together.
    pub(crate) fn of(lines: impl Iterator<Item = Value>) -> Self {
        let mut reading = Reading::default();
        for line in lines {
            reading.take(&line);
        }
        reading.finish()
    }

    /// The task with this id.
    pub(crate) fn task(&self, id: &str) -> Option<&Task> {
        let found = self.tasks.binary_search_by(|task| task.id.as_str().cmp(id));
        self.tasks.get(found.ok()?)
    }

    /// The tasks that became of a piece of work.
    pub(crate) fn tasks_of(&self, piece: &Piece) -> impl Iterator<Item = &Task> {
        piece.ids.iter().filter_map(|id| self.task(id))
    }

    /// When the piece with this number had succeeded at last.
    pub(crate) fn settled(&self, n: u64) -> Option<i64> {
        let tasks = self.tasks_of(self.pieces.all.get(&n)?);
        tasks.filter_map(Task::settled).max()
    }

    /// The faults that can have touched events between two moments.
    pub(crate) fn faults_within(&self, from: i64, to: i64) -> impl Iterator<Item = &Fault> {
        let touches = move |fault: &&Fault| fault.from <= to && from <= fault.healed + AFTERMATH_MS;
        self.faults.iter().filter(touches)
    }

    /// The end of a fault's row, which is the beginning of the next one.
    pub(crate) fn until(&self, index: usize) -> i64 {
        self.faults
            .get(index + 1)
            .map_or(self.over, |next| next.from)
    }
}

impl Task {
    /// The faults that can have touched the task, until a moment.
    pub(crate) fn faults<'a>(
        &self,
        history: &'a History,
        until: i64,
    ) -> impl Iterator<Item = &'a Fault> {
        history.faults_within(self.first_seen() - AHEAD_MS, until)
    }

    /// When the task was due, or when it began: with a clock that is ahead it begins before it is due.
    fn first_seen(&self) -> i64 {
        let begun = self.runs.iter().map(|run| run.begin).min();
        begun.unwrap_or(self.start).min(self.start)
    }

    /// When its last run ended, or its start if that is later.
    pub(crate) fn last_seen(&self) -> i64 {
        let ends = self
            .runs
            .iter()
            .map(|run| run.end.as_ref().map_or(run.begin, |end| end.0));
        ends.max().unwrap_or(self.start).max(self.start)
    }

    pub(crate) fn state(&self) -> &str {
        self.last["state"].as_str().unwrap_or("unknown")
    }

    /// Returns when a change was acknowledged with one of these outcomes, if it was.
    pub(crate) fn told(changes: &[Change], outcomes: &[&str]) -> Option<i64> {
        let mut told = changes.iter().filter_map(|change| change.told.as_ref());
        let found = told.find(|(_, outcome)| outcomes.contains(&outcome.as_str()));
        found.map(|(at, _)| *at)
    }

    /// Runs beyond the first that no callback asked for.
    pub(crate) fn extra(&self) -> usize {
        let is_retry = |run: &&Run| run.end.as_ref().is_some_and(|(_, how)| how == "retry");
        let retries = self.runs.iter().filter(is_retry).count();
        self.runs.len().saturating_sub(1 + retries)
    }

    /// When the run whose result the task has ended.
    pub(crate) fn settled(&self) -> Option<i64> {
        let attempt = self.last["result"]["attempt"].as_u64()?;
        let run = self.runs.iter().find(|run| run.attempt == attempt)?;
        run.end.as_ref().map(|(at, _)| *at)
    }

    /// The run that succeeded first.
    pub(crate) fn done(&self) -> Option<i64> {
        let done = self.runs.iter().filter_map(|run| run.end.as_ref());
        done.filter(|(_, how)| how == "done")
            .map(|(at, _)| *at)
            .min()
    }
}

impl Record {
    /// From its start, or its registration if that came later, to the first production.
    pub(crate) fn late_ms(&self) -> Option<i64> {
        let first = self.arrived.iter().map(|(at, _)| *at).min()?;
        let could = self.registered.unwrap_or(self.start).min(first);
        Some(first - self.start.max(could))
    }
}

impl Run {
    /// When the run ended or was cut, as far as the logs show.
    pub(crate) fn alive_until(&self) -> i64 {
        let end = self.end.as_ref().map_or(i64::MAX, |end| end.0);
        let cut = self.cut.as_ref().map_or(i64::MAX, |cut| cut.0);
        end.min(cut)
    }

    /// Whether it begins a moment after its worker went on, which had been stopped with the claim in hand.
    pub(crate) fn was_held_up(&self) -> bool {
        let resumed = self.resumed_before;
        resumed.is_some_and(|resumed| self.begin < resumed + GRACE_MS)
    }

    /// The span in which the run went on after the pause of its worker, without the time that the worker may
    /// need to find that its lease is over.
    pub(crate) fn went_on(&self) -> Option<(i64, i64)> {
        let from = self.resumed? + GRACE_MS;
        let end = self.end.as_ref().map_or(i64::MAX, |end| end.0);
        let until = end.min(self.killed.unwrap_or(i64::MAX));
        (from < until).then_some((from, until))
    }
}

impl Reading {
    fn take(&mut self, line: &Value) {
        let at = number(line, "t");
        match (text(line, "what").as_str(), text(line, "op").as_str()) {
            ("ask", "register") => {
                let n = line["n"].as_u64().unwrap_or_default();
                self.asked.insert(n, number(line, "start"));
            }
            ("told", "register") => self.registered(line, at),
            ("ask" | "told" | "read", "piece" | "gate" | "schedule" | "job" | "letter") => {
                let unknown = self.history.pieces.take(line, at);
                self.history.unknown += usize::from(unknown);
            }
            ("ask", "record") => {
                let record = self.record(line);
                record.start = number(line, "start");
                record.is_sick = line["sick"] == true;
            }
            ("told", "record") if text(line, "told") == "ok" => {
                let record = self.record(line);
                (record.id, record.registered) = (Some(text(line, "id")), Some(at));
            }
            ("told", "record") => self.history.unknown += 1,
            ("record", _) => {
                let arrived = (number(line, "at"), text(line, "id"));
                self.record(line).arrived.push(arrived);
            }
            ("ask", op) => self.changes(line, op).push(Change {
                start: number(line, "start"),
                told: None,
            }),
            ("told", op) => {
                let told = text(line, "told");
                self.history.unknown += usize::from(told == "unknown");
                if let Some(change) = self.changes(line, op).last_mut() {
                    change.told = Some((at, told));
                }
            }
            ("begin", _) => self.begin(line, at),
            ("end", _) => {
                let attempt = line["attempt"].as_u64().unwrap_or_default();
                let key = (
                    text(line, "w"),
                    text(line, "life"),
                    text(line, "id"),
                    attempt,
                );
                self.ends.insert(key, (at, text(line, "how")));
            }
            ("final", _) => self.task(&text(line, "id")).last = line["task"].clone(),
            ("process", _) => self
                .processes
                .push((text(line, "who"), at, text(line, "did"))),
            _ => self.take_of_driver(line, at),
        }
    }

    fn take_of_driver(&mut self, line: &Value, at: i64) {
        let history = &mut self.history;
        match text(line, "what").as_str() {
            "offset" => history
                .offsets
                .push((at, text(line, "who"), number(line, "ms"))),
            "calm" => history.calm = Some(at),
            "load" => history.loads.push((at, text(line, "kind"))),
            "over" => history.over = at,
            "fault" => history.faults.push(Fault {
                name: text(line, "name"),
                from: at,
                mended: i64::MAX,
                healed: i64::MAX,
            }),
            "mended" => history.faults.last_mut().expect("it began").mended = at,
            "healed" => history.faults.last_mut().expect("it began").healed = at,
            "slots" => {
                let many = line["many"].as_object().into_iter().flatten();
                let many = many.map(|(id, count)| (id.clone(), count.as_u64().unwrap_or_default()));
                let (entries, many) =
                    (line["entries"].as_u64().unwrap_or_default(), many.collect());
                history.counts.push(Count { at, entries, many });
            }
            other => panic!("a line of an unknown kind: {other}"),
        }
    }

    fn task(&mut self, id: &str) -> &mut Task {
        self.tasks.entry(id.to_owned()).or_default()
    }

    fn record(&mut self, line: &Value) -> &mut Record {
        let n = line["n"].as_u64().unwrap_or_default();
        self.records.entry(n).or_default()
    }

    fn registered(&mut self, line: &Value, at: i64) {
        if text(line, "told") != "ok" {
            self.history.unknown += 1;
            return;
        }
        let start = self.asked[&line["n"].as_u64().unwrap_or_default()];
        let task = self.task(&text(line, "id"));
        (task.start, task.registered) = (start, Some(at));
    }

    fn changes(&mut self, line: &Value, op: &str) -> &mut Vec<Change> {
        let task = self.task(&text(line, "id"));
        if op == "cancel" {
            &mut task.cancels
        } else {
            &mut task.moves
        }
    }

    fn begin(&mut self, line: &Value, at: i64) {
        let run = Run {
            worker: text(line, "w"),
            attempt: line["attempt"].as_u64().unwrap_or_default(),
            n: line["n"].as_u64().unwrap_or_default(),
            begin: at,
            due: number(line, "start"),
            schedule: line["schedule"]
                .as_str()
                .map(|name| (name.to_owned(), number(line, "scheduled"))),
            previous: line["previous"].clone(),
            end: None,
            cut: None,
            resumed: None,
            resumed_before: None,
            killed: None,
        };
        self.runs.push((text(line, "id"), text(line, "life"), run));
    }

    /// Makes tasks of the pieces that a client was told about.
    fn take_pieces(&mut self) {
        let mut pieces = std::mem::take(&mut self.history.pieces);
        for piece in pieces.all.values_mut() {
            let Some((at, id)) = piece.registered() else {
                continue;
            };
            let id = id.to_owned();
            let task = self.task(&id);
            (task.start, task.registered, task.piece) = (piece.start, Some(at), Some(piece.n));
            piece.ids.insert(id);
        }
        self.history.pieces = pieces;
    }

    fn finish(mut self) -> History {
        self.take_pieces();
        for (id, life, mut run) in std::mem::take(&mut self.runs) {
            let key = (run.worker.clone(), life, id.clone(), run.attempt);
            run.end = self.ends.get(&key).cloned();
            let until = run.end.as_ref().map_or(i64::MAX, |end| end.0);
            let cuts = self.processes.iter().filter(|(who, at, did)| {
                let ends_it = ["kill", "pause", "ended"].contains(&did.as_str());
                *who == run.worker && ends_it && run.begin <= *at && *at <= until
            });
            run.cut = cuts.map(|(_, at, did)| (*at, did.clone())).min();
            let first = |behind: i64, kinds: &[&str]| {
                let told = self.processes.iter().filter(|(who, at, did)| {
                    *who == run.worker && *at >= behind && kinds.contains(&did.as_str())
                });
                told.map(|(_, at, _)| *at).min()
            };
            let paused = run.cut.as_ref().filter(|(_, did)| did == "pause");
            run.killed = first(run.begin, &["kill", "ended"]);
            run.resumed = paused.and_then(|(at, _)| first(*at, &["resume"]));
            let resumes = self
                .processes
                .iter()
                .filter(|(who, at, did)| *who == run.worker && did == "resume" && *at <= run.begin);
            run.resumed_before = resumes.map(|(_, at, _)| *at).max();
            // The run identifies a registration whose client got no answer. The service alone knows the
            // starts of follow-ups and of runs of schedules.
            let start = self.asked.get(&run.n).copied().unwrap_or(run.due);
            let piece = self.history.pieces.all.get_mut(&run.n);
            let is_piece = piece.is_some();
            piece.into_iter().for_each(|piece| {
                piece.ids.insert(id.clone());
            });
            let task = self.task(&id);
            if task.registered.is_none() {
                // A later attempt is due later.
                let is_first = task.runs.is_empty();
                task.start = if is_first {
                    start
                } else {
                    task.start.min(start)
                };
            }
            task.piece = task.piece.or_else(|| is_piece.then_some(run.n));
            task.runs.push(run);
        }
        for (id, mut task) in self.tasks {
            task.id = id;
            task.runs.sort_by_key(|run| run.begin);
            task.may_be_cancelled = self.history.pieces.may_cancel(&task);
            self.history.tasks.push(task);
        }
        self.history.records = self.records.into_values().collect();
        self.history
    }
}
