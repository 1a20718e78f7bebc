//! The invariants judge every run, one file for each. They use the answers to clients, the runs of handlers,
//! and the contents of the store and the users' topic at the end; never the service's own statements about
//! itself.

mod attempts;
mod cancelled;
mod chains;
mod clock;
mod dead_letters;
mod duplicates;
mod early;
mod ends;
mod figures;
mod gates;
mod growth;
mod jobs;
mod joins;
mod keys;
mod lateness;
mod limits;
mod loss;
mod notices;
mod ordering;
mod overlap;
mod owner;
mod quiescence;
mod redriven;
mod retries;
mod scenes;
mod schedules;
mod trees;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;
use tickwheel::{
    doubles::queue::memory::Published,
    model::{
        clock::{ClockRow, Rules},
        email::Email,
        entry::{Entry, Key, Kind},
        ids::TaskId,
        look::INTERVAL_MAX,
        state::TaskRow,
        time::TickLength,
        wheel::WheelNumber,
    },
    queue::message::TASK_ID_HEADER,
};

use crate::seeded::{
    history::{History, Registered, Story},
    plan::{EndPlan, Plan, TaskPlan},
    scene::ScenePlan,
    world::Sim,
};

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

impl Violation {
    /// The number of the task that the violation is about, if it is about one.
    pub(crate) fn task(&self) -> Option<usize> {
        let mut words = self.what.split_whitespace();
        words.find(|word| ["task", "record"].contains(word))?;
        words.next()?.parse().ok()
    }
}

/// The contents of the store, seen from outside and without a fault.
pub(crate) struct Contents {
    pub(crate) entries: Vec<(Key, Option<Entry>)>,
    pub(crate) rows: BTreeMap<TaskId, TaskRow>,
    pub(crate) clocks: Vec<(WheelNumber, ClockRow)>,
    pub(crate) bodies: Vec<TaskId>,
    pub(crate) clock_violations: Vec<String>,
    tick: TickLength,
    unsure: BTreeSet<Key>,
}

/// A run that has ended.
pub(crate) struct Ended<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) history: &'a History,
    pub(crate) contents: Contents,
    /// When the records of each task were published.
    pub(crate) records: BTreeMap<TaskId, Vec<i64>>,
    /// The states that were told to the topic of ends, and when, for each task.
    pub(crate) told: BTreeMap<String, Vec<(i64, String)>>,
    /// The e-mails that were sent.
    pub(crate) letters: Vec<(TaskId, Email)>,
    /// Every task had ended within the bound.
    pub(crate) finished: bool,
    /// The time when all tasks had ended, or the bound.
    pub(crate) ended_at: i64,
    pub(crate) now: i64,
    pub(crate) rules: Rules,
    pub(crate) gave_up: bool,
}

/// The findings of a check.
pub(crate) struct Findings {
    invariant: &'static str,
    found: Vec<Violation>,
}

impl Findings {
    pub(crate) fn add(&mut self, what: String) {
        self.found.push(Violation {
            invariant: self.invariant,
            what,
        });
    }
}

/// How far a hand may be behind the clock without work: some ticks, and a takeover that is under way.
const fn behind_max_ms(tick_ms: i64) -> i64 {
    12_000 + 3 * tick_ms
}

type Check = fn(&Ended<'_>, &mut Findings);

const CHECKS: [(&str, Check); 26] = [
    ("I1 no loss", loss::check),
    ("I2 never early", early::check),
    ("I3 duplicates", duplicates::check),
    ("I4 one at a time", overlap::check),
    ("I5 attempts increase", attempts::check),
    ("I6 cancelled stays cancelled", cancelled::check),
    ("I7 lateness", lateness::check),
    ("I8 clock", clock::check),
    ("I9 result of its owner", owner::check),
    ("I10 quiescence", quiescence::check),
    ("I13 no growth", growth::check),
    ("I14 runs again", redriven::check),
    ("I15 ends", ends::check),
    ("I16 sequences", ordering::check),
    ("I17 keys", keys::check),
    ("I18 gates", gates::check),
    ("I19 dead letters", dead_letters::check),
    ("I20 schedules", schedules::check),
    ("I21 trees", trees::check),
    ("I22 chains", chains::check),
    ("I23 joins", joins::check),
    ("I24 jobs", jobs::check),
    ("I25 limits", limits::check),
    ("I26 figures", figures::check),
    ("I27 retries", retries::check),
    ("I28 notices", notices::check),
];

/// Judges a run.
pub(crate) fn judge(ended: &Ended<'_>) -> Vec<Violation> {
    let mut all = Vec::new();
    if ended.gave_up {
        all.push(Violation {
            invariant: "I10 quiescence",
            what: "it goes round in circles".to_owned(),
        });
        return all;
    }
    for (invariant, check) in CHECKS {
        let mut findings = Findings {
            invariant,
            found: Vec::new(),
        };
        check(ended, &mut findings);
        all.extend(findings.found);
    }
    all
}

impl Contents {
    pub(crate) fn of(sim: &Sim) -> Self {
        let store = &sim.store;
        let wheels = sim.rules.shape.all_wheels();
        // An expired row counts as it was noted; a row in the store counts as it is now.
        let mut rows = sim.history().rows.clone();
        rows.extend(store.task_rows().into_iter().map(|row| (row.id, row)));
        Self {
            entries: store.entries(),
            rows,
            clocks: wheels
                .filter_map(|wheel| Some((wheel, store.clock_row(wheel)?)))
                .collect(),
            bodies: store.body_ids(),
            clock_violations: store.clock_violations(),
            tick: sim.rules.shape.tick(),
            unsure: sim.history().unsure.keys().copied().collect(),
        }
    }

    /// Notes the rows of tasks that have ended.
    pub(crate) fn remember(&self, history: &mut History) {
        let ended = self.rows.values().filter(|row| row.state.is_terminal());
        history.rows.extend(ended.map(|row| (row.id, row.clone())));
    }

    /// Entries that will act. An entry that came up behind the hands does not act if no node was told that it
    /// is durable: it is a leftover for the audit.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.entries.iter().filter_map(|(_, entry)| entry.as_ref());
        let fired = |entry: &Entry| {
            let mut clocks = self.clocks.iter();
            let clock = clocks.find(|(wheel, _)| *wheel == entry.key.wheel());
            clock.is_some_and(|(_, row)| entry.key.due <= row.fired.due)
        };
        entries.filter(move |entry| {
            let acts = !matches!(entry.kind, Kind::Done { .. });
            acts && !(self.unsure.contains(&entry.key) && fired(entry))
        })
    }

    /// Marks of records whose content goes with their tick. A node whose clock is ahead by an hour writes its backup so far
    /// ahead, so the content of a record that has gone out stays for so long.
    pub(crate) fn keeping(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.entries.iter().filter_map(|(_, entry)| entry.as_ref());
        entries.filter(|entry| {
            let is_mark = matches!(entry.kind, Kind::Done { .. });
            is_mark && !entry.spec.target.is_tracked() && self.bodies.contains(&entry.key.id)
        })
    }

    /// Entries that would act, in ticks that are erased.
    pub(crate) fn behind_erased(&self) -> impl Iterator<Item = (WheelNumber, Key)> {
        let clock = |wheel| self.clocks.iter().find(|(number, _)| *number == wheel);
        self.live().filter_map(move |entry| {
            let (wheel, row) = clock(entry.key.wheel())?;
            let tick = self.tick.tick_of(entry.key.due);
            (tick <= row.erased).then_some((*wheel, entry.key))
        })
    }

    /// Tells whether a wheel has not fired up to about `now`.
    pub(crate) fn is_behind(&self, now: i64) -> bool {
        let latest = Sim::instant(now - behind_max_ms(self.tick.millis()));
        self.clocks.iter().any(|(_, row)| row.fired.due < latest)
    }
}

impl Ended<'_> {
    /// The tasks whose registration was acknowledged, with what was planned for them.
    pub(crate) fn registered(&self) -> impl Iterator<Item = (&Registered, &Story, &TaskPlan)> {
        let stories = self.history.stories.values();
        stories.filter_map(|story| {
            let registered = story.registered.as_ref()?;
            let plan = self
                .plan
                .tasks
                .iter()
                .find(|task| task.number == registered.number)?;
            Some((registered, story, plan))
        })
    }
}

/// When the records of each task were published, in milliseconds of the run.
pub(crate) fn records(published: &[Arc<Published>]) -> BTreeMap<TaskId, Vec<i64>> {
    let mut records: BTreeMap<TaskId, Vec<i64>> = BTreeMap::new();
    for one in published {
        let header = one
            .record
            .headers
            .iter()
            .find(|(name, _)| name == TASK_ID_HEADER);
        let text = header.and_then(|(_, value)| std::str::from_utf8(value).ok());
        let id: TaskId = text
            .and_then(|text| text.parse().ok())
            .expect("the id of a task");
        records
            .entry(id)
            .or_default()
            .push(one.at.0 - Sim::instant(0).0);
    }
    records
}

/// The states that records in the topic of ends tell, and when each was published, by the id of its task.
pub(crate) fn told(published: &[Arc<Published>]) -> BTreeMap<String, Vec<(i64, String)>> {
    let mut told: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
    for one in published {
        let message: Value = serde_json::from_slice(&one.record.value).expect("a message in JSON");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let (task, state) = (
            text(&message["data"]["task_id"]),
            text(&message["data"]["state"]),
        );
        let at = one.at.0 - Sim::instant(0).0;
        told.entry(task).or_default().push((at, state));
    }
    told
}

/// The tasks that have not ended: tracked ones without a terminal row.
pub(crate) fn open(contents: &Contents, history: &History) -> Vec<TaskId> {
    let unfinished = |row: &&TaskRow| !row.state.is_terminal();
    let mut open: Vec<TaskId> = contents
        .rows
        .values()
        .filter(unfinished)
        .map(|row| row.id)
        .collect();
    let registered = || {
        let stories = history.stories.values();
        stories.filter_map(|story| story.registered.as_ref())
    };
    // Three kinds of entries count as leftovers, since no reader comes to them. The sweep takes entries that a
    // dead writer with a slow clock wrote behind the hands without an answer, and entries of a record that
    // a store wrote late. A late cancel may also leave some if its caller did not wait for its end. I1 judges
    // whether a record is lost.
    let known = registered().filter(|task| task.tracked);
    let known: BTreeSet<TaskId> = known.map(|task| task.id).collect();
    let has_ended = |id: &TaskId| {
        contents
            .rows
            .get(id)
            .is_some_and(|row| row.state.is_terminal())
    };
    let left: BTreeSet<Key> = contents
        .behind_erased()
        .map(|(_, key)| key)
        .filter(|key| !known.contains(&key.id) || has_ended(&key.id))
        .collect();
    let live = contents.live().filter(|entry| !left.contains(&entry.key));
    open.extend(live.map(|entry| entry.key.id).filter(|id| {
        // The last look may come later, and other code waits for it.
        contents
            .rows
            .get(id)
            // A row of a record that was cancelled too late has an end before the record has gone out.
            .is_none_or(|row| !row.state.is_terminal() || !row.detail.spec.target.is_tracked())
    }));
    let lost = registered().filter(|task| {
        let tracked = task.tracked;
        tracked && !contents.rows.contains_key(&task.id)
    });
    open.extend(lost.map(|task| task.id));
    open
}

/// Notes a task with more looks ahead than its chains may have: one, one that is being put, one for each
/// fault, and one for each generation, since with long ticks all of them lie behind the same closed slots.
/// Past looks have done their work, and stay until `fired` may pass, which takes as long as a queue is away.
pub(crate) fn note_growth(contents: &Contents, plan: &Plan, now: i64, history: &mut History) {
    let mut looks: BTreeMap<TaskId, usize> = BTreeMap::new();
    let ahead = |entry: &&Entry| entry.key.due > Sim::instant(now);
    for entry in contents
        .live()
        .filter(|entry| matches!(entry.kind, Kind::Look { .. }))
        .filter(ahead)
    {
        *looks.entry(entry.key.id).or_default() += 1;
    }
    let allowed = 2 + plan.faults.len() + plan.nodes.len();
    let generation = |id: &TaskId| {
        contents
            .rows
            .get(id)
            .map_or(0, |row| row.generation as usize)
    };
    let many = looks
        .iter()
        .filter(|(id, count)| **count > allowed + generation(id));
    let many = many.map(|(id, count)| format!("task {id} has {count} looks"));
    history.broken.extend(many);
}

/// Notes entries that lie in erased ticks. They are removed late, and without faults there are none.
pub(crate) fn note_leftovers(contents: &Contents, history: &mut History) {
    let left = contents.behind_erased().map(|(wheel, key)| {
        let wheel = wheel.get();
        format!("wheel {wheel} keeps {key:?} in what it has erased")
    });
    history.leftovers.extend(left);
}

/// The time of the run, in milliseconds, by which all tasks must have ended: the time of the plan itself, and
/// after the last fault the time that the service may take (lease, grace, one interval of looks that has
/// grown with the wait).
pub(crate) fn bound(plan: &Plan) -> i64 {
    let task = |task: &TaskPlan| {
        let attempts: u64 = task
            .attempts
            .iter()
            .map(|attempt| {
                let waits = if let EndPlan::Snoozes(after) = attempt.ends {
                    after
                } else {
                    5000
                };
                attempt.runs + waits + task.heartbeat_timeout + 2 * task.claim_timeout
            })
            .sum();
        let again = 3 * (task.heartbeat_timeout + 2 * task.claim_timeout + 5000);
        attempts + again
    };
    let longest = plan.tasks.iter().map(task).max().unwrap_or(0);
    let longest = longest + plan.scenes.iter().map(ScenePlan::takes).sum::<u64>();
    let interval = u64::try_from(INTERVAL_MAX.as_millis())
        .unwrap_or(0)
        .min((plan.last() + plan.silence_max()) / 2);
    let allowed = 2 * interval + longest + 60_000 + 4 * plan.tick_ms + 2 * plan.clock_error_max();
    (plan.last() + allowed).cast_signed()
}
