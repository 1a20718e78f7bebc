//! The gate compares two built programs for developers: whether one costs more CPU a task than the other.
//!
//! Both run at once, each on a fresh directory, and get the same slices of work by turns. A round has slices of both within a
//! second; the ratio of a round is free of the speed that the machine had then. Both start several times. [`judge`] has the
//! rule. A machine on which others work gives no judgement.

mod account;
mod figures;
mod judge;
mod machine;
mod round;
mod scenarios;
mod side;
mod steady;
mod workers;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng, seq::SliceRandom as _};
use tickwheel::time_source::TimeSource;

pub(crate) use self::scenarios::Scenario;
use self::{
    figures::{Figures, head},
    judge::Verdict,
    machine::{Watch, too_busy, too_small},
    round::{Disturbed, Round, Sides},
    side::Side,
};
use crate::embedded::{service::own_usage, told_to_stop};

/// How long the machine is watched before the first start.
const WATCHED: Duration = Duration::from_secs(2);
/// Starts that are left out because others worked meanwhile; at one more the gate gives up.
const DISTURBED_MAX: u32 = 2;
/// The gate says that the machine is busy.
const REFUSED: u8 = 3;
/// There is no judgement for another reason, as after an error.
const OPEN: u8 = 2;

/// The options of a run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The program to compare with.
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// The program to judge.
    #[arg(long, value_name = "FILE")]
    changed: PathBuf,
    /// Directory in which data directories are made; they are removed at the end.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    data_dir: PathBuf,
    /// Scenarios to run; all when none is named.
    #[arg(long = "scenario", value_enum, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// Starts of both programs at the least, with 20 to 60 rounds of each scenario.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    starts: u32,
    /// Starts at most, for scenarios whose spread is wide.
    #[arg(long, default_value_t = 8)]
    starts_max: u32,
    /// Decides on every order; drawn and printed when not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Start both once on any machine, to see whether it works. Nothing is judged.
    #[arg(long)]
    trial: bool,
}

/// The outcome of a run.
enum Outcome {
    Judged(Verdict),
    /// The reason why there is no judgement.
    Refused(String),
    Trial,
}

/// Runs the gate. The exit code is 0 for not worse, 1 for worse, 2 when that is open, 3 when the machine is busy.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let time = TimeSource::real();
    let seed = options.seed.unwrap_or_else(|| time.random());
    say(&format!("seed {seed}"));
    let name = format!("tickwheel-gate-{:08x}", time.random() & 0xffff_ffff);
    let root = options.data_dir.join(name);
    let chosen = match options.scenarios.as_slice() {
        [] => Scenario::value_variants().to_vec(),
        named => named.to_vec(),
    };
    let found = |program: &Path| {
        let named = program.display();
        let absolute = std::path::absolute(program)?;
        ensure!(
            absolute.is_file(),
            "there is no program {named}: build it first"
        );
        anyhow::Ok(absolute)
    };
    let mut gate = Gate {
        programs: [found(&options.base)?, found(&options.changed)?],
        figures: chosen.into_iter().map(Figures::of).collect(),
        random: SmallRng::seed_from_u64(seed),
        root,
        options,
        time,
    };
    // A run that is told to stop takes the services down, too, and removes their data.
    let ran = tokio::select! {
        ran = gate.run() => ran,
        stopped = told_to_stop() => stopped.and_then(|()| bail!("told to stop")),
    };
    if gate.root.exists() {
        std::fs::remove_dir_all(&gate.root)?;
    }
    gate.print(ran?)
}

/// The state of a run.
struct Gate {
    options: Options,
    /// The base and the changed one.
    programs: [PathBuf; 2],
    figures: Vec<Figures>,
    random: SmallRng,
    root: PathBuf,
    time: TimeSource,
}

impl Gate {
    async fn run(&mut self) -> anyhow::Result<Outcome> {
        if self.options.trial {
            self.once(0).await?;
            return Ok(Outcome::Trial);
        }
        if let Some(reason) = too_small()? {
            return Ok(Outcome::Refused(reason));
        }
        let watch = Watch::begin(own_usage()?.cpu_seconds)?;
        self.time.sleep(WATCHED).await;
        if let Some(reason) = too_busy(watch.others(own_usage()?.cpu_seconds)?) {
            return Ok(Outcome::Refused(reason));
        }
        let (mut starts, mut disturbed) = (0, 0);
        while starts < self.options.starts || (starts < self.options.starts_max && !self.is_done())
        {
            let Some(reason) = self.once(starts + disturbed).await? else {
                starts += 1;
                continue;
            };
            say(&format!("left out: {reason}"));
            disturbed += 1;
            if disturbed > DISTURBED_MAX {
                return Ok(Outcome::Refused(reason));
            }
        }
        let verdicts: Vec<Verdict> = self.figures.iter().map(Figures::verdict).collect();
        Ok(Outcome::Judged(Verdict::of_all(&verdicts)))
    }

    /// Tells whether more rounds would change little.
    fn is_done(&self) -> bool {
        self.figures.iter().all(Figures::is_done)
    }

    /// Starts both programs once, runs all scenarios, and adds their figures. Returns the reason when the start cannot count, as
    /// where others disturbed it: then nothing is added.
    async fn once(&mut self, number: u32) -> anyhow::Result<Option<String>> {
        let begun = self.time.moment();
        let folder = self.root.join(number.to_string());
        let watch = Watch::begin(own_usage()?.cpu_seconds)?;
        let mut sides = self.start(&folder).await?;
        let measured = match self.measure(&mut sides, number).await {
            Ok(measured) => measured,
            Err(error) => {
                let Disturbed(reason) = error.downcast()?;
                drop(sides);
                std::fs::remove_dir_all(&folder)?;
                return Ok(Some(reason.to_owned()));
            }
        };
        let own = own_usage()?.cpu_seconds + sides[0].ticks()? + sides[1].ticks()?;
        let others = watch.others(own)?;
        drop(sides);
        std::fs::remove_dir_all(&folder)?;
        let took = self.time.moment().since(begun).as_secs();
        say(&format!(
            "start {}: {took} s, others used {:.1} % of the cores",
            number + 1,
            others * 100.0
        ));
        if !self.options.trial
            && let Some(reason) = too_busy(others)
        {
            return Ok(Some(reason));
        }
        for (at, rounds) in measured {
            self.figures.get_mut(at).context("a scenario")?.add(&rounds);
        }
        Ok(None)
    }

    /// Runs the scenarios that need more rounds, in an order by chance. Returns their rounds, each with the place of its figures.
    async fn measure(
        &mut self,
        sides: &mut Sides,
        number: u32,
    ) -> anyhow::Result<Vec<(usize, Vec<Round>)>> {
        let enough = number >= self.options.starts;
        let mut order: Vec<usize> = (0..self.figures.len()).collect();
        order.shuffle(&mut self.random);
        let mut measured = Vec::new();
        for at in order {
            let figures = self.figures.get(at).context("a scenario")?;
            if enough && figures.is_done() {
                continue;
            }
            let rounds = figures.scenario.run(sides, &mut self.random).await?;
            sides
                .iter()
                .try_for_each(|side| side.workers.ensure_once())?;
            measured.push((at, rounds));
        }
        Ok(measured)
    }

    /// Starts both, in an order by chance.
    async fn start(&mut self, folder: &Path) -> anyhow::Result<Sides> {
        let [base, changed] = &self.programs;
        let (base_in, changed_in) = (folder.join("base"), folder.join("changed"));
        if self.random.random() {
            let first = Side::start(base, &base_in, &self.time).await?;
            Ok([first, Side::start(changed, &changed_in, &self.time).await?])
        } else {
            let first = Side::start(changed, &changed_in, &self.time).await?;
            Ok([Side::start(base, &base_in, &self.time).await?, first])
        }
    }

    /// Prints the table and the outcome; returns the exit code.
    fn print(&self, outcome: Outcome) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        if !matches!(outcome, Outcome::Refused(_)) {
            writeln!(out, "{}", head())?;
            for figures in &self.figures {
                let name = figures.scenario.to_possible_value().context("a name")?;
                writeln!(out, "{}", figures.line(name.get_name()))?;
            }
        }
        let (text, code) = match outcome {
            Outcome::Judged(Verdict::NotWorse) => ("not worse".to_owned(), 0),
            Outcome::Judged(Verdict::Worse) => ("worse".to_owned(), 1),
            Outcome::Judged(Verdict::CannotTell) => ("no judgement".to_owned(), OPEN),
            Outcome::Trial => ("no judgement: this was a trial".to_owned(), OPEN),
            Outcome::Refused(reason) => (format!("no judgement: {reason}"), REFUSED),
        };
        writeln!(out, "{text}")?;
        Ok(ExitCode::from(code))
    }
}

/// Tells how far the run is. A closed standard error loses the progress, not the result.
fn say(text: &str) {
    writeln!(std::io::stderr().lock(), "{text}").unwrap_or_default();
}
