//! The Redis peer delays jobs for the comparison in the way in which Redis is used for that.
//!
//! It has a sorted set by due time, a list of due jobs, a script that moves jobs from one to the other every
//! few milliseconds, and workers that pop from the list. A job that was popped is gone.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{bail, ensure};
use async_trait::async_trait;
use tickwheel::time_source::TimeSource;
use tokio::task::JoinSet;

use super::{
    Consumer, Manner, Peer, Place, Producer, Settled, Task,
    process::Process,
    resp::{self, Reply, ask, push},
    wire::Wire,
};
use crate::{
    embedded::check::Arrival,
    payload,
    report::setting::{Kind, MILLISECOND, Setting},
};

const SETTING: Setting = Setting {
    kind: Kind::Redis,
    name: "redis always",
    variant: "always",
    delivery: "at most once",
    synced: "yes",
    resolution: "1 ms, moved every 10 ms",
    batches: "100 pipelined",
    step: MILLISECOND,
    grid: MILLISECOND,
};
pub(super) const SETTINGS: [Setting; 2] = [
    SETTING,
    Setting {
        name: "redis everysec",
        variant: "everysec",
        synced: "no, every second",
        ..SETTING
    },
];

/// Connections that pop.
const CONSUMERS: usize = 8;
/// How often due jobs are looked for.
const MOVE_EVERY: Duration = Duration::from_millis(10);
/// Moves up to a thousand due jobs in one step.
const MOVE: &str = "local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1000) \
if #due > 0 then \
redis.call('RPUSH', KEYS[2], unpack(due)) \
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #due - 1) \
end \
return #due";
const MOVED_MAX: i64 = 1000;

struct Redis {
    name: &'static str,
    process: Process,
    address: SocketAddr,
    place: Place,
    /// The task that runs the script; it ends with the peer.
    mover: JoinSet<anyhow::Result<()>>,
}

pub(super) async fn start(setting: &Setting, place: Place) -> anyhow::Result<impl Peer + use<>> {
    let started = resp::server(setting.variant, &place.directory, &place.time);
    let (process, address) = started.await?;
    Ok(Redis {
        name: setting.name,
        process,
        address,
        place,
        mover: JoinSet::new(),
    })
}

impl Redis {
    async fn connect(&self) -> anyhow::Result<Wire> {
        Wire::open(self.name, self.address, &self.place.time).await
    }
}

#[async_trait]
impl Peer for Redis {
    async fn producer(&mut self) -> anyhow::Result<Box<dyn Producer>> {
        Ok(Box::new(Adder {
            wire: self.connect().await?,
            request: Vec::new(),
        }))
    }

    async fn consumers(&mut self) -> anyhow::Result<Vec<Box<dyn Consumer>>> {
        if self.mover.is_empty() {
            let wire = self.connect().await?;
            self.mover.spawn(move_due(wire, self.place.time.clone()));
        }
        let mut consumers: Vec<Box<dyn Consumer>> = Vec::new();
        for _ in 0..CONSUMERS {
            consumers.push(Box::new(Popper {
                wire: self.connect().await?,
                settled: Settled::default(),
                time: self.place.time.clone(),
            }));
        }
        Ok(consumers)
    }

    async fn pending(&mut self) -> anyhow::Result<Option<u64>> {
        let mut wire = self.connect().await?;
        match ask(&mut wire, &[b"ZCARD", b"delayed"]).await? {
            Reply::Number(count) => Ok(Some(u64::try_from(count)?)),
            other => bail!("answered {other:?}"),
        }
    }

    fn servers(&self) -> Vec<u32> {
        vec![self.process.id()]
    }

    fn directory(&self) -> PathBuf {
        self.place.directory.join("data")
    }
}

/// Moves due jobs from the set to the list.
async fn move_due(mut wire: Wire, time: TimeSource) -> anyhow::Result<()> {
    loop {
        let now = time.now().0.to_string();
        let (script, now) = (MOVE.as_bytes(), now.as_bytes());
        let words: [&[u8]; 6] = [b"EVAL", script, b"2", b"delayed", b"ready", now];
        if ask(&mut wire, &words).await? != Reply::Number(MOVED_MAX) {
            time.sleep(MOVE_EVERY).await;
        }
    }
}

struct Adder {
    wire: Wire,
    request: Vec<u8>,
}

#[async_trait]
impl Producer for Adder {
    async fn register(&mut self, tasks: &mut [Task], manner: Manner) -> anyhow::Result<()> {
        let at_once = manner.at_once(tasks.len());
        for part in tasks.chunks(at_once) {
            self.request.clear();
            for task in part {
                let (due, body) = (task.due.0.to_string(), payload::of(task.id));
                let words = [
                    b"ZADD",
                    b"delayed".as_slice(),
                    due.as_bytes(),
                    body.as_bytes(),
                ];
                push(&mut self.request, &words);
            }
            self.wire.send(&self.request).await?;
            for _ in part {
                let added = self.wire.next("answer to ZADD", resp::reply).await?;
                ensure!(added == Reply::Number(1), "answered {added:?}");
            }
        }
        Ok(())
    }
}

struct Popper {
    wire: Wire,
    settled: Settled,
    time: TimeSource,
}

#[async_trait]
impl Consumer for Popper {
    async fn take(&mut self, arrivals: &mut Vec<Arrival>) -> anyhow::Result<()> {
        let words: [&[u8]; 7] = [b"BLMPOP", b"1", b"1", b"ready", b"LEFT", b"COUNT", b"100"];
        let popped = ask(&mut self.wire, &words).await?;
        let seen_us = self.time.stamp();
        let items = match popped {
            Reply::Nothing => return Ok(()),
            Reply::List(mut pair) => pair.pop(),
            Reply::Text(_) | Reply::Number(_) | Reply::Bytes(_) => None,
        };
        let Some(Reply::List(items)) = items else {
            bail!("not what BLMPOP answers");
        };
        for item in &items {
            let Reply::Bytes(body) = item else {
                bail!("not what BLMPOP answers");
            };
            let id = u128::from(payload::number(body)?);
            arrivals.push(Arrival { id, seen_us });
        }
        self.settled.add(Settled {
            count: items.len() as u64,
            last_us: seen_us,
        });
        Ok(())
    }

    async fn end(self: Box<Self>) -> anyhow::Result<Settled> {
        Ok(self.settled)
    }
}
