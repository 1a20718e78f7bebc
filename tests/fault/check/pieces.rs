//! `Pieces` reads what the logs tell about the operating model: the pieces of work that clients wanted, gates,
//! schedules, jobs and dead letters.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::history::{Task, number, text};

/// One task that a client wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Piece {
    pub(crate) n: u64,
    pub(crate) kind: String,
    pub(crate) group: String,
    pub(crate) start: i64,
    /// The pieces that must have succeeded before it begins.
    pub(crate) behind: Vec<u64>,
    /// When it was asked for first.
    pub(crate) asked: i64,
    pub(crate) answers: Vec<Answer>,
    /// The tasks that became of it, by answers and by runs: one at most.
    pub(crate) ids: BTreeSet<String>,
}

/// An answer to a registration.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) asked: i64,
    pub(crate) at: i64,
    pub(crate) told: String,
    pub(crate) id: String,
    /// The start that the service names.
    pub(crate) starts: Option<i64>,
}

/// A time in which a gate was closed for sure, and its bounds.
#[derive(Debug, Clone)]
pub(crate) struct Closed {
    /// When the pause was asked for, and when it was acknowledged.
    pub(crate) asked: i64,
    pub(crate) told: i64,
    /// When the opening was asked for, and when it was acknowledged.
    pub(crate) opening: i64,
    pub(crate) opened: i64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Schedule {
    pub(crate) from: i64,
    pub(crate) every: i64,
    pub(crate) set: Option<i64>,
    pub(crate) pausing: Option<i64>,
    pub(crate) paused: Option<i64>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Job {
    pub(crate) asked: i64,
    pub(crate) told: Option<(i64, String)>,
}

/// A step of the life of a dead letter: `read` as dead, `ask` for a redrive, `told` its outcome.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) at: i64,
    pub(crate) n: u64,
    pub(crate) what: String,
}

#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) all: BTreeMap<u64, Piece>,
    pub(crate) closed: Vec<Closed>,
    pub(crate) schedules: BTreeMap<String, Schedule>,
    /// By their groups.
    pub(crate) jobs: BTreeMap<String, Job>,
    pub(crate) letters: Vec<Step>,
}

impl Piece {
    /// When a client was told that its task is registered, and which task that is. A key answers with the task of
    /// another piece as well.
    pub(crate) fn registered(&self) -> Option<(i64, &str)> {
        let is_own = |answer: &&Answer| match answer.told.as_str() {
            "created" | "replaced" => true,
            "existing" => self.kind != "named",
            _ => false,
        };
        let own = self
            .answers
            .iter()
            .filter(is_own)
            .min_by_key(|answer| answer.at);
        own.map(|answer| (answer.at, answer.id.as_str()))
    }

    /// Whether an answer has this outcome.
    pub(crate) fn was_told(&self, told: &str) -> bool {
        self.answers.iter().any(|answer| answer.told == told)
    }

    /// The start by which the service orders it.
    pub(crate) fn starts(&self) -> i64 {
        let told = self.answers.iter().find_map(|answer| answer.starts);
        told.unwrap_or(self.start)
    }
}

impl Pieces {
    pub(crate) fn of_kind<'a>(&'a self, kinds: &'a [&str]) -> impl Iterator<Item = &'a Piece> {
        let all = self.all.values();
        all.filter(move |piece| kinds.contains(&piece.kind.as_str()))
    }

    /// The pieces of these kinds, by group.
    pub(crate) fn groups<'a>(&'a self, kinds: &'a [&str]) -> BTreeMap<&'a str, Vec<&'a Piece>> {
        let mut groups: BTreeMap<&str, Vec<&Piece>> = BTreeMap::new();
        for piece in self.of_kind(kinds) {
            groups.entry(&piece.group).or_default().push(piece);
        }
        groups
    }

    /// Whether a client asked for something else that cancels this task: another one in its place, or a job.
    pub(super) fn may_cancel(&self, task: &Task) -> bool {
        let Some(piece) = task.piece.and_then(|n| self.all.get(&n)) else {
            return false;
        };
        match piece.kind.as_str() {
            "batch" => self.jobs.contains_key(&piece.group),
            "named" | "replacing" => self.of_kind(&["replacing"]).any(|other| {
                let last = other.answers.last().map_or(i64::MAX, |answer| answer.at);
                other.n != piece.n && other.group == piece.group && last > piece.asked
            }),
            _ => false,
        }
    }

    /// Takes a line of one of these kinds of work; returns whether its outcome is unknown.
    pub(super) fn take(&mut self, line: &Value, at: i64) -> bool {
        match (text(line, "what").as_str(), text(line, "op").as_str()) {
            ("ask", "piece") => self.asked(line, at),
            (_, "piece") => self.told(line, at),
            (what, "gate") => self.gate(line, what == "ask", at),
            (what, "schedule") => self.schedule(line, what == "ask", at),
            ("ask", "job") => self.job(line).asked = at,
            (_, "job") => self.job(line).told = Some((at, text(line, "told"))),
            (what, _) => self.letters.push(Step {
                at,
                n: line["n"].as_u64().unwrap_or_default(),
                what: what.to_owned(),
            }),
        }
        line["told"] == "unknown"
    }

    fn piece(&mut self, line: &Value) -> &mut Piece {
        let n = line["n"].as_u64().unwrap_or_default();
        self.all.entry(n).or_default()
    }

    fn job(&mut self, line: &Value) -> &mut Job {
        self.jobs.entry(text(line, "group")).or_default()
    }

    fn asked(&mut self, line: &Value, at: i64) {
        let behind = line["behind"].as_array().into_iter().flatten();
        let behind = behind.filter_map(Value::as_u64).collect();
        let piece = self.piece(line);
        if piece.kind.is_empty() {
            (piece.n, piece.asked) = (line["n"].as_u64().unwrap_or_default(), at);
            (piece.kind, piece.group) = (text(line, "kind"), text(line, "group"));
            (piece.start, piece.behind) = (number(line, "start"), behind);
        }
    }

    fn told(&mut self, line: &Value, at: i64) {
        let answer = Answer {
            asked: number(line, "asked"),
            at,
            told: text(line, "told"),
            id: text(line, "id"),
            starts: line["starts"].as_i64(),
        };
        self.piece(line).answers.push(answer);
    }

    fn gate(&mut self, line: &Value, is_asked: bool, at: i64) {
        let last = self.closed.last_mut();
        match (line["gate"] == "paused", is_asked, last) {
            (true, true, _) => self.closed.push(Closed {
                asked: at,
                told: i64::MAX,
                opening: i64::MAX,
                opened: i64::MAX,
            }),
            (true, false, Some(last)) if line["told"] == "ok" => last.told = at,
            (false, true, Some(last)) => last.opening = at,
            (false, false, Some(last)) if line["told"] == "ok" => last.opened = at,
            _ => {}
        }
    }

    fn schedule(&mut self, line: &Value, is_asked: bool, at: i64) {
        let schedule = self.schedules.entry(text(line, "name")).or_default();
        match (line["did"] == "set", is_asked) {
            (true, true) => {
                schedule.from = number(line, "from");
                schedule.every = number(line, "every");
            }
            (true, false) => schedule.set = (line["told"] == "ok").then_some(at),
            (false, true) => schedule.pausing = Some(at),
            (false, false) => schedule.paused = (line["told"] == "ok").then_some(at),
        }
    }
}
