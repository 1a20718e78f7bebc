//! `shrink` cuts a failing plan down for people: it removes tasks, calls and faults, halves first and then
//! one by one, while the plan still breaks the same invariant. The seed and the kept parts name the rest, so
//! that one command replays it.

use std::{collections::BTreeSet, fmt, str::FromStr};

use tickwheel::{flaw::Flaw, time_source::TimeSource};

use super::{draw, plan::Plan, run, scene};
use crate::invariants::Violation;

/// The kept parts of a plan. The default keeps all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Keep {
    tasks: Option<BTreeSet<usize>>,
    /// Tasks of scenes, by their names.
    items: Option<BTreeSet<usize>>,
    faults: Option<BTreeSet<usize>>,
    /// Tasks whose calls are left out.
    silent: BTreeSet<usize>,
    /// Nodes and workers that are left out, from the last on.
    fewer_nodes: usize,
    fewer_workers: usize,
}

impl Keep {
    /// Returns the plan of a seed, cut down.
    pub(crate) fn of(&self, mut plan: Plan) -> Plan {
        if let Some(tasks) = &self.tasks {
            plan.tasks.retain(|task| tasks.contains(&task.number));
        }
        if let Some(items) = &self.items {
            for scene in &mut plan.scenes {
                let number = scene.number;
                scene.keep(|item| items.contains(&scene::name_of(number, item)));
            }
            plan.scenes.retain(|scene| !scene.items.is_empty());
        }
        if let Some(faults) = &self.faults {
            plan.faults.retain(|fault| faults.contains(&fault.number));
        }
        for task in plan
            .tasks
            .iter_mut()
            .filter(|task| self.silent.contains(&task.number))
        {
            task.calls.clear();
        }
        let nodes = plan.nodes.len().saturating_sub(self.fewer_nodes).max(1);
        let workers = plan.workers.len().saturating_sub(self.fewer_workers).max(1);
        plan.nodes.truncate(nodes);
        plan.workers.truncate(workers);
        plan.faults
            .retain(|fault| fault.what.concerns(nodes, workers));
        plan
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |set: &BTreeSet<usize>| {
            let texts: Vec<String> = set.iter().map(usize::to_string).collect();
            texts.join(",")
        };
        if let Some(tasks) = &self.tasks {
            write!(f, "t{}", join(tasks))?;
        }
        if let Some(items) = &self.items {
            write!(f, "/i{}", join(items))?;
        }
        if let Some(faults) = &self.faults {
            write!(f, "/f{}", join(faults))?;
        }
        if !self.silent.is_empty() {
            write!(f, "/s{}", join(&self.silent))?;
        }
        write!(f, "/n{}/w{}", self.fewer_nodes, self.fewer_workers)
    }
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut keep = Self::default();
        for part in text.split('/').filter(|part| !part.is_empty()) {
            let (kind, list) = part.split_at(1);
            let numbers = list
                .split(',')
                .filter(|number| !number.is_empty())
                .map(|number| {
                    number
                        .parse::<usize>()
                        .map_err(|error| format!("{part}: {error}"))
                });
            let numbers: BTreeSet<usize> = numbers.collect::<Result<_, String>>()?;
            let number = numbers.first().copied().unwrap_or(0);
            match kind {
                "t" => keep.tasks = Some(numbers),
                "i" => keep.items = Some(numbers),
                "f" => keep.faults = Some(numbers),
                "s" => keep.silent = numbers,
                "n" => keep.fewer_nodes = number,
                "w" => keep.fewer_workers = number,
                _ => return Err(format!("{part}: not t, i, f, s, n or w")),
            }
        }
        Ok(keep)
    }
}

/// The names of all tasks of scenes.
fn names(plan: &Plan) -> BTreeSet<usize> {
    let scenes = plan.scenes.iter();
    let names = scenes.flat_map(|scene| {
        let items = scene.items.iter();
        items.map(|item| scene::name_of(scene.number, item.number))
    });
    names.collect()
}

/// A search for a smaller plan that fails alike.
struct Search {
    seed: u64,
    invariant: &'static str,
    flaw: Option<Flaw>,
    runs_left: usize,
    time: TimeSource,
    until: tickwheel::time_source::Moment,
}

/// Returns the parts that are enough for the seed to break the invariant, after at most this many runs.
pub(crate) fn shrink(seed: u64, flaw: Option<Flaw>, violation: &Violation, runs: usize) -> Keep {
    let invariant = violation.invariant;
    let time = TimeSource::real();
    let until = time.moment().after(std::time::Duration::from_secs(60));
    let mut search = Search {
        seed,
        invariant,
        flaw,
        runs_left: runs,
        time,
        until,
    };
    let plan = draw::draw(seed);
    let mut keep = Keep {
        tasks: Some(plan.tasks.iter().map(|task| task.number).collect()),
        items: (!plan.scenes.is_empty()).then(|| names(&plan)),
        faults: Some(plan.faults.iter().map(|fault| fault.number).collect()),
        ..Keep::default()
    };
    if let Some(task) = violation.task() {
        let alone = Keep {
            tasks: Some(BTreeSet::from([task])),
            ..keep.clone()
        };
        if search.fails(&alone) {
            keep = alone;
        }
    }
    loop {
        let before = keep.clone();
        keep = search.less(keep, |keep| &mut keep.faults);
        keep = search.less(keep, |keep| &mut keep.tasks);
        keep = search.less(keep, |keep| &mut keep.items);
        for task in keep.tasks.clone().unwrap_or_default() {
            let mut smaller = keep.clone();
            if smaller.silent.insert(task) && search.fails(&smaller) {
                keep = smaller;
            }
        }
        for cut in [
            |keep: &mut Keep| keep.fewer_nodes += 1,
            |keep: &mut Keep| keep.fewer_workers += 1,
        ] {
            let mut smaller = keep.clone();
            cut(&mut smaller);
            if smaller.of(plan.clone()) != keep.of(plan.clone()) && search.fails(&smaller) {
                keep = smaller;
            }
        }
        if keep == before || search.runs_left == 0 {
            return keep;
        }
    }
}

impl Search {
    fn fails(&mut self, keep: &Keep) -> bool {
        if self.runs_left == 0 || self.time.moment() >= self.until {
            self.runs_left = 0;
            return false;
        }
        self.runs_left -= 1;
        let plan = keep.of(draw::draw(self.seed));
        let report = run::run(&plan, self.flaw, false);
        report
            .violations
            .iter()
            .any(|violation| violation.invariant == self.invariant)
    }

    /// Takes as many numbers out of a set as it can, in ever smaller pieces.
    fn less(&mut self, keep: Keep, set: fn(&mut Keep) -> &mut Option<BTreeSet<usize>>) -> Keep {
        let mut keep = keep;
        let mut piece = set(&mut keep).as_ref().map_or(0, BTreeSet::len);
        while piece > 0 {
            let all: Vec<usize> = set(&mut keep).iter().flatten().copied().collect();
            for gone in all.chunks(piece) {
                let mut smaller = keep.clone();
                if let Some(left) = set(&mut smaller) {
                    left.retain(|number| !gone.contains(number));
                }
                if self.fails(&smaller) {
                    keep = smaller;
                }
            }
            piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
        }
        keep
    }
}
