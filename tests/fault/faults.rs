//! `Fault` breaks a part of the drill in one of many ways, and repairs it again.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use tickwheel::time_source::TimeSource;

use crate::{
    members::{Kind, Member},
    servers,
    site::{Load, Site, TURN},
};

const SECOND: Duration = Duration::from_secs(1);

/// How long a server may take to stop in order.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Room of the store that gets a disk of its own: its log's limit and some tables.
pub(crate) const DISK: &str = "size=300m";

/// The name of the disk in the mount table.
const DEVICE: &str = "tickwheel-drill";

/// The store whose disk fills.
pub(crate) const SMALL_DISK: Member = Member {
    kind: Kind::Store,
    number: 3,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill(Kind),
    Pause(Kind),
    NodeFromStores,
    NodeFromBrokers,
    StoresApart,
    StoreUnheard,
    StoreInRing,
    WorkerFromNodes,
    Slow,
    Lossy,
    AllDown(Kind),
    RollingRestart,
    Clock(i64),
    /// A broker is down, so a topic that wants all copies in sync takes nothing.
    SickTopic,
    FullDisk,
}

impl Fault {
    /// Every fault, the mild ones first.
    pub(crate) const ALL: [Self; 25] = [
        Self::Kill(Kind::Node),
        Self::Kill(Kind::Worker),
        Self::Kill(Kind::Store),
        Self::Kill(Kind::Broker),
        Self::Pause(Kind::Node),
        Self::Pause(Kind::Worker),
        Self::Pause(Kind::Store),
        Self::Pause(Kind::Broker),
        Self::NodeFromStores,
        Self::NodeFromBrokers,
        Self::StoresApart,
        Self::StoreUnheard,
        Self::StoreInRing,
        Self::WorkerFromNodes,
        Self::Slow,
        Self::Lossy,
        Self::Clock(30_000),
        Self::Clock(-30_000),
        Self::AllDown(Kind::Worker),
        Self::AllDown(Kind::Node),
        Self::AllDown(Kind::Broker),
        Self::AllDown(Kind::Store),
        Self::RollingRestart,
        Self::SickTopic,
        Self::FullDisk,
    ];

    /// The faults of the short version.
    pub(crate) const SHORT: [Self; 4] = [
        Self::Kill(Kind::Node),
        Self::Kill(Kind::Store),
        Self::Pause(Kind::Worker),
        Self::NodeFromStores,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Kill(kind) => format!("kill-{}", kind.name()),
            Self::Pause(kind) => format!("pause-{}", kind.name()),
            Self::NodeFromStores => "node-from-stores".to_owned(),
            Self::NodeFromBrokers => "node-from-brokers".to_owned(),
            Self::StoresApart => "stores-apart".to_owned(),
            Self::StoreUnheard => "store-unheard".to_owned(),
            Self::StoreInRing => "stores-in-a-ring".to_owned(),
            Self::WorkerFromNodes => "worker-from-nodes".to_owned(),
            Self::Slow => "slow-network".to_owned(),
            Self::Lossy => "lossy-network".to_owned(),
            Self::AllDown(kind) => format!("all-{}s-down", kind.name()),
            Self::RollingRestart => "rolling-restart".to_owned(),
            Self::Clock(ms) => format!("clock{:+}s", ms / 1000),
            Self::SickTopic => "sick-topic".to_owned(),
            Self::FullDisk => "full-disk".to_owned(),
        }
    }

    /// Whether it needs links that can be broken, or a disk that can be mounted.
    pub(crate) const fn needs_cables(self) -> bool {
        matches!(
            self,
            Self::NodeFromStores
                | Self::NodeFromBrokers
                | Self::StoresApart
                | Self::StoreUnheard
                | Self::StoreInRing
                | Self::WorkerFromNodes
                | Self::Slow
                | Self::Lossy
                | Self::FullDisk
        )
    }

    /// How long it lasts.
    fn hold(self, random: u64) -> Duration {
        match self {
            Self::AllDown(Kind::Store | Kind::Broker) => 120 * SECOND,
            Self::AllDown(Kind::Node) => 5 * TURN,
            // From a moment to ten leases.
            Self::Pause(_) => SECOND + Duration::from_millis(random % 59_000),
            // The phases of the fault take their own time.
            Self::RollingRestart | Self::SickTopic => Duration::ZERO,
            Self::Kill(_) => 5 * SECOND,
            _ => 25 * SECOND,
        }
    }

    /// The kind of member that the fault hits.
    const fn victim(self) -> Kind {
        match self {
            Self::Kill(kind) | Self::Pause(kind) | Self::AllDown(kind) => kind,
            Self::NodeFromStores | Self::NodeFromBrokers | Self::Clock(_) => Kind::Node,
            Self::WorkerFromNodes => Kind::Worker,
            Self::SickTopic => Kind::Broker,
            _ => Kind::Store,
        }
    }
}

/// A fault with all its random choices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) fault: Fault,
    pub(crate) victim: Member,
    pub(crate) hold: Duration,
}

impl Chosen {
    pub(crate) fn of(fault: Fault, chance: &TimeSource) -> Self {
        let kind = fault.victim();
        // The number is drawn in any case, so that the later choices stay the same.
        let number = chance.random() % u64::from(kind.count());
        let drawn = Member {
            kind,
            number: 1 + u8::try_from(number).expect("a few"),
        };
        Self {
            fault,
            victim: if fault == Fault::FullDisk {
                SMALL_DISK
            } else {
                drawn
            },
            hold: fault.hold(chance.random()),
        }
    }

    pub(crate) async fn inject(&self, site: &mut Site) {
        let victim = self.victim;
        match self.fault {
            Fault::Kill(_) => site.get(victim).kill(),
            Fault::Pause(_) => site.get(victim).pause(),
            Fault::AllDown(kind) => kind.members().for_each(|member| site.get(member).kill()),
            Fault::RollingRestart => rolling_restart(site).await,
            Fault::SickTopic => sick_topic(site, victim).await,
            Fault::Clock(ms) => site.set_clock(victim, ms),
            Fault::FullDisk => fill(&ballast(site)),
            Fault::Slow => site.net.worsen(Duration::from_millis(60), 0),
            Fault::Lossy => site.net.worsen(Duration::ZERO, 30),
            Fault::NodeFromStores => Kind::Store
                .members()
                .for_each(|store| site.net.cut(victim, store)),
            Fault::NodeFromBrokers => Kind::Broker
                .members()
                .for_each(|broker| site.net.cut(victim, broker)),
            Fault::WorkerFromNodes => Kind::Node
                .members()
                .for_each(|node| site.net.cut(victim, node)),
            Fault::StoresApart => others(victim).for_each(|other| site.net.cut(victim, other)),
            Fault::StoreUnheard => {
                others(victim).for_each(|other| site.net.cut_one_way(victim, other));
            }
            // Each store hears only its neighbour.
            Fault::StoreInRing => others(victim)
                .take(1)
                .for_each(|other| site.net.cut(victim, other)),
        }
    }

    pub(crate) async fn heal(&self, site: &mut Site) {
        let victim = self.victim;
        match self.fault {
            Fault::Kill(_) | Fault::SickTopic => site.get(victim).start(),
            Fault::Pause(_) => site.get(victim).resume(),
            Fault::AllDown(kind) => kind.members().for_each(|member| site.get(member).start()),
            Fault::RollingRestart => {}
            Fault::Clock(_) => site.set_clock(victim, 0),
            Fault::FullDisk => {
                fs::remove_file(ballast(site)).expect("it is there");
                // A store that met a full disk stops serving and says so; its operator starts it again.
                site.get(SMALL_DISK).kill();
                site.get(SMALL_DISK).start();
            }
            _ => site.net.mend(),
        }
    }
}

fn others(of: Member) -> impl Iterator<Item = Member> {
    of.kind.members().filter(move |other| *other != of)
}

/// Restarts the members one after the other, each in order; the next one follows when the last serves again.
async fn rolling_restart(site: &mut Site) {
    for member in Member::all() {
        let time = site.time.clone();
        site.get(member).stop(&time, STOP_LIMIT).await;
        site.get(member).start();
        site.ready(std::iter::once(member)).await;
    }
}

/// Kills a broker, then loads a healthy topic, then a sick one with as much. The checker compares
/// how late all others are.
async fn sick_topic(site: &mut Site, broker: Member) {
    site.get(broker).kill();
    for (load, lasts) in [
        // Leaders move and workers reconnect in this time, which is no part of the comparison.
        (Load::Usual, 30 * SECOND),
        (Load::Healthy, 30 * SECOND),
        (Load::Sick, 30 * SECOND),
        (Load::Usual, Duration::ZERO),
    ] {
        site.set_load(load);
        site.time.sleep(lasts).await;
    }
}

fn ballast(site: &Site) -> PathBuf {
    servers::folder(&site.root, SMALL_DISK).join("cassandra/ballast")
}

/// Takes all room that is left.
fn fill(file: &PathBuf) {
    use std::io::Write as _;
    let mut file = fs::File::create(file).expect("a file can be made");
    let block = vec![1; 1 << 20];
    while file.write_all(&block).is_ok() {}
}

/// Gives a store a small disk of its own; undone when it is dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts the disk; returns the reason where that is not permitted.
    pub(crate) fn mount(site: &Site) -> Result<Self, String> {
        sweep();
        let at = servers::folder(&site.root, SMALL_DISK).join("cassandra");
        fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, DEVICE]).arg(&at);
        let output = mount.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(Self(at))
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }
}

/// Unmounts the disks of drills that were killed; the folder of each ends in the number of its process.
fn sweep() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let ours = mounts.lines().filter_map(|line| line.strip_prefix(DEVICE));
    for at in ours.filter_map(|rest| rest.split_whitespace().next()) {
        let process = at
            .split("/drill-")
            .nth(1)
            .and_then(|rest| rest.split('/').next());
        if process.is_some_and(|process| !fs::exists(format!("/proc/{process}")).unwrap_or(true)) {
            drop(Command::new("umount").arg("-l").arg(at).status());
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A process that still uses the disk keeps it until the process ends.
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}
