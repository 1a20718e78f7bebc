//! `run` does the steps of a drill in order: start, load, one fault after the other with rest
//! between them, end, check.

use std::{path::Path, process::ExitCode, time::Duration};

use serde_json::json;
use tickwheel::{model::time::Millis, time_source::TimeSource};
use tokio_util::sync::CancellationToken;

use crate::{
    calls::Caller,
    check,
    clients::Clients,
    faults::{Chosen, Fault, SmallDisk},
    finals::{self, Slots},
    kinds,
    members::{Kind, Member},
    net::Net,
    records, servers,
    site::Site,
};

const SECOND: Duration = Duration::from_secs(1);

/// The durations of a drill.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Servers that have just started are slow for a while, so this time is no base line.
    warm_up: Duration,
    /// Load without a fault before the first one, to compare with.
    calm: Duration,
    /// Rest after a fault, in which most delayed tasks end.
    rest: Duration,
    /// No fault lasts longer.
    hold_max: Duration,
}

impl Pace {
    const FULL: Self = Self {
        warm_up: Duration::from_secs(15),
        calm: Duration::from_secs(30),
        rest: Duration::from_secs(25),
        hold_max: Duration::MAX,
    };

    const SHORT: Self = Self {
        warm_up: Duration::from_secs(8),
        calm: Duration::from_secs(15),
        rest: Duration::from_secs(12),
        hold_max: Duration::from_secs(15),
    };
}

/// This many of the faults, from the first on, are combined with each other.
const COMBINED: u64 = 18;

/// Plain tasks registered a second: three store servers on two shared cores bear some tens.
const PER_SECOND: u32 = 8;

/// The same beside the operating model, of which four tasks a second come, each with more writes.
const PER_SECOND_BESIDE_KINDS: u32 = 5;

/// The options of the command line.
pub(crate) struct Options {
    faults: Vec<Fault>,
    random: Duration,
    pace: Pace,
    seed: u64,
    plain: bool,
    keep: bool,
    /// Whether the operating model is used, too.
    kinds: bool,
}

impl Options {
    pub(crate) fn read(arguments: &[String]) -> Self {
        let after = |name: &str| {
            // The last option of a name counts.
            let at = arguments.iter().rposition(|word| word == name)?;
            arguments.get(at + 1)
        };
        let has = |name: &str| arguments.iter().any(|word| word == name);
        let number = |name: &str| {
            let text: Option<&String> = after(name);
            text.map(|text| text.parse::<u64>().expect("a whole number"))
        };
        let by_name = |name: &str| {
            let found = Fault::ALL.into_iter().find(|fault| fault.name() == name);
            let all = || Fault::ALL.map(Fault::name).join(" ");
            found.unwrap_or_else(|| panic!("no fault is called {name}: {}", all()))
        };
        let faults = match after("--faults") {
            Some(names) => names
                .split(',')
                .filter(|name| !name.is_empty())
                .map(by_name)
                .collect(),
            None if has("--all") => Fault::ALL.to_vec(),
            None => Fault::SHORT.to_vec(),
        };
        Self {
            faults,
            pace: if has("--all") || has("--faults") || has("--minutes") {
                Pace::FULL
            } else {
                Pace::SHORT
            },
            random: 60 * SECOND * u32::try_from(number("--minutes").unwrap_or(0)).expect("few"),
            seed: number("--seed").unwrap_or_else(|| TimeSource::real().random()),
            plain: has("--plain"),
            keep: has("--keep"),
            kinds: has("--kinds"),
        }
    }
}

/// Runs a drill and tells whether every promise was kept.
pub(crate) async fn run(options: &Options) -> ExitCode {
    let time = TimeSource::real();
    say!("drill: seed {}", options.seed);
    servers::fetch();
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("drill-{}", std::process::id()));
    std::fs::create_dir_all(&root).expect("a folder can be made");
    let net = Net::make(&time, options.plain);
    let mut site = Site::prepare(root.clone(), net);
    let needs_disk = options.faults.contains(&Fault::FullDisk);
    let disk = needs_disk.then(|| SmallDisk::mount(&site)).transpose();
    let disk = disk.unwrap_or_else(|why| {
        say!("no disk that can be filled: {why}");
        None
    });
    site.start().await;
    let can = |fault: &Fault| match fault {
        Fault::FullDisk => disk.is_some(),
        fault => site.net.has_cables() || !fault.needs_cables(),
    };
    let (faults, left_out): (Vec<Fault>, Vec<Fault>) =
        options.faults.iter().copied().partition(can);
    for fault in left_out {
        say!("left out, it is not possible here: {}", fault.name());
    }
    disturb(&mut site, options, &faults).await;
    drop(site);
    drop(disk);
    let (good, text) = check::report(&root);
    say!("{text}");
    say!("logs: {}", root.display());
    if !good {
        say!(
            "drill: FAILED; the same choices again: --seed {}",
            options.seed
        );
        return ExitCode::FAILURE;
    }
    if !options.keep {
        std::fs::remove_dir_all(&root).expect("the logs can be removed");
    }
    ExitCode::SUCCESS
}

/// From the first registration to the last answer about every task.
async fn disturb(site: &mut Site, options: &Options, faults: &[Fault]) {
    let chance = TimeSource::simulated(Millis(0), options.seed);
    let slots = Slots::connect(site).await;
    records::create_topics(site).await;
    let stop = CancellationToken::new();
    let calls = Caller::new(site);
    let per_second = if options.kinds {
        PER_SECOND_BESIDE_KINDS
    } else {
        PER_SECOND
    };
    let clients = Clients::new(calls.clone(), site).run(per_second, stop.clone());
    let clients = tokio::spawn(clients);
    site.time.sleep(options.pace.warm_up).await;
    let kinds = options.kinds.then(|| kinds::run(calls, stop.clone()));
    let kinds = kinds.map(tokio::spawn);
    if options.kinds {
        // They are new to the servers.
        site.time.sleep(options.pace.warm_up).await;
    }
    site.journal.note(json!({"what": "calm"}));
    site.time.sleep(options.pace.calm).await;
    for fault in faults {
        let mut chosen = Chosen::of(*fault, &chance);
        chosen.hold = chosen.hold.min(options.pace.hold_max);
        one(site, &slots, &[chosen], options.pace.rest).await;
    }
    let until = site.time.moment().after(options.random);
    while site.time.moment() < until {
        let chosen = combination(site, &chance);
        one(site, &slots, &chosen, options.pace.rest).await;
    }
    stop.cancel();
    say!("waiting for what is under way");
    clients.await.expect("clients do not panic");
    if let Some(kinds) = kinds {
        kinds.await.expect("clients do not panic");
    }
    finals::read_tasks(site).await;
    records::read_all(site).await;
    finals::wait_until_empty(site, &slots).await;
    site.journal.note(json!({"what": "over"}));
}

/// Two or three faults at once, each of another member.
fn combination(site: &Site, chance: &TimeSource) -> Vec<Chosen> {
    let mut chosen: Vec<Chosen> = Vec::new();
    let wanted = 2 + usize::from(chance.random().is_multiple_of(3));
    while chosen.len() < wanted {
        let index = usize::try_from(chance.random() % COMBINED).expect("a few");
        let mut one = Chosen::of(Fault::ALL[index], chance);
        one.hold = 5 * SECOND + Duration::from_millis(chance.random() % 30_000);
        let fits = site.net.has_cables() || !one.fault.needs_cables();
        if fits && chosen.iter().all(|other| other.victim != one.victim) {
            chosen.push(one);
        }
    }
    chosen
}

/// Injects, holds, heals, rests.
async fn one(site: &mut Site, slots: &Slots, chosen: &[Chosen], rest: Duration) {
    let names: Vec<String> = chosen.iter().map(|one| one.fault.name()).collect();
    let victims: Vec<String> = chosen.iter().map(|one| one.victim.to_string()).collect();
    let hold = chosen.iter().map(|one| one.hold).max().unwrap_or_default();
    let name = names.join(" + ");
    say!("{name} ({}) for {hold:?}", victims.join(", "));
    site.journal
        .note(json!({"what": "fault", "name": name, "victims": victims}));
    let began = site.time.moment();
    for one in chosen {
        one.inject(site).await;
    }
    site.time.sleep(hold).await;
    for one in chosen {
        one.heal(site).await;
    }
    site.journal.note(json!({"what": "mended", "name": name}));
    // These members must be up again before the time of rest begins.
    site.ready(
        Kind::ALL
            .into_iter()
            .flat_map(Kind::members)
            .filter(|member: &Member| member.kind != Kind::Worker),
    )
    .await;
    site.journal.note(json!({"what": "healed", "name": name}));
    // Work that has waited for long needs time in proportion.
    let lasted = site.time.moment().since(began);
    site.time.sleep(rest.max(lasted * 3 / 4)).await;
    slots.count(site).await;
}
