//! `Switch` forwards frames between the cables of a drill, unless the rule of a pair of members
//! drops or delays them.
//!
//! The kernel's own means for loss and delay are not available everywhere, but a virtual cable (TAP) per
//! member is available wherever network namespaces are. A rule has a direction, so a link may be broken one
//! way only.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Condvar, Mutex, RwLock};
use tickwheel::time_source::{Moment, TimeSource};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// The largest packet on the cables; a large one means fewer packets and less work here.
pub(crate) const MTU: u16 = 8000;

const FRAME_BYTES_MAX: usize = MTU as usize + 64;

/// The rule for frames from one member to another.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rule {
    /// How many of a thousand are dropped; 1000 is a cut.
    pub(crate) lost_permille: u64,
    /// Each frame is held for this long.
    pub(crate) delay: Duration,
    /// Each frame is held for up to this much longer.
    pub(crate) jitter: Duration,
}

impl Rule {
    pub(crate) const CUT: Self = Self {
        lost_permille: 1000,
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
    };
}

/// A held frame and its receiver; ordered by the time when it goes on.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    until: Moment,
    to: u8,
    frame: Vec<u8>,
}

struct Shared {
    ports: HashMap<u8, SyncDevice>,
    rules: RwLock<HashMap<(u8, u8), Rule>>,
    held: Mutex<BinaryHeap<Reverse<Held>>>,
    more: Condvar,
    time: TimeSource,
}

/// The running switch.
pub(crate) struct Switch(Arc<Shared>);

/// The hardware address of a host on the cables.
pub(crate) fn hardware(host: u8) -> String {
    format!("02:00:00:00:00:{host:02x}")
}

impl Switch {
    /// Makes a cable per host, its far end a device of this name in this process's own namespace.
    pub(crate) fn start(cables: &[(u8, String)]) -> std::io::Result<Self> {
        let mut ports = HashMap::new();
        for (host, name) in cables {
            let device = DeviceBuilder::new()
                .name(name.clone())
                .layer(Layer::L2)
                .mtu(MTU)
                .enable(false)
                .build_sync()?;
            ports.insert(*host, device);
        }
        let shared = Arc::new(Shared {
            ports,
            rules: RwLock::default(),
            held: Mutex::default(),
            more: Condvar::new(),
            time: TimeSource::real(),
        });
        for (host, _) in cables {
            let (shared, host) = (Arc::clone(&shared), *host);
            std::thread::spawn(move || shared.read(host));
        }
        let late = Arc::clone(&shared);
        std::thread::spawn(move || late.send_held());
        Ok(Self(shared))
    }

    /// Sets the rule of one direction.
    pub(crate) fn set(&self, from: u8, to: u8, rule: Rule) {
        let mut rules = self.0.rules.write();
        rules.insert((from, to), rule);
    }

    /// Takes all rules back.
    pub(crate) fn clear(&self) {
        let mut rules = self.0.rules.write();
        rules.clear();
    }
}

impl Shared {
    /// Reads one cable until its device is gone.
    fn read(&self, from: u8) {
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        while let Ok(length) = self.ports[&from].recv(&mut buffer) {
            let frame = &buffer[..length];
            // Only ARP and IPv4 matter here, not the other frames that the kernel sends by itself.
            if length < 14 || !matches!(frame[12..14], [0x08, 0x00 | 0x06]) {
                continue;
            }
            if frame[0] & 1 == 1 {
                for to in self.ports.keys().filter(|to| **to != from) {
                    self.forward(from, *to, frame);
                }
            } else {
                self.forward(from, frame[5], frame);
            }
        }
    }

    fn forward(&self, from: u8, to: u8, frame: &[u8]) {
        let rules = self.rules.read();
        let rule = rules.get(&(from, to)).copied();
        drop(rules);
        let Some(rule) = rule else {
            self.send(to, frame);
            return;
        };
        if self.time.random() % 1000 < rule.lost_permille {
            return;
        }
        let jitter_us = u64::try_from(rule.jitter.as_micros()).expect("a short time");
        let more = Duration::from_micros(self.time.random() % (jitter_us + 1));
        let held = Held {
            until: self.time.moment().after(rule.delay + more),
            to,
            frame: frame.to_vec(),
        };
        let mut all = self.held.lock();
        all.push(Reverse(held));
        self.more.notify_one();
    }

    fn send(&self, to: u8, frame: &[u8]) {
        if let Some(port) = self.ports.get(&to) {
            // A cable that is full or down drops its frames, as real cables do.
            drop(port.send(frame));
        }
    }

    fn send_held(&self) {
        let mut all = self.held.lock();
        loop {
            let now = self.time.moment();
            let wait = match all.peek() {
                Some(Reverse(next)) if next.until <= now => {
                    let Some(Reverse(next)) = all.pop() else {
                        continue;
                    };
                    drop(all);
                    self.send(next.to, &next.frame);
                    all = self.held.lock();
                    continue;
                }
                Some(Reverse(next)) => next.until.since(now),
                None => Duration::from_secs(1),
            };
            self.more.wait_for(&mut all, wait);
        }
    }
}
