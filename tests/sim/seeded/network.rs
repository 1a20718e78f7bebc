//! The network carries calls of clients and workers to a node's API, delays and loses them, or
//! finds the node dead.

use std::{sync::Arc, time::Duration};

use tickwheel::flow::stages::service::Service;

use super::{chance::Chance, process::Process, world::Sim};

/// How long a caller waits for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The request did not reach a node.
    Refused,
    /// The request may have reached a node.
    Silent,
}

/// A node that may be called: its handle, its number, itself.
type Up = (usize, usize, Arc<Process>, Arc<Service>);

/// The result of a call.
pub(crate) struct Answer<T> {
    pub(crate) answer: Result<T, Lost>,
    /// The latest time of the node's clock while the call was there, in milliseconds of the run.
    pub(crate) wall: i64,
}

impl Sim {
    /// Calls a node: the one that was called last, if there is one and it is up. Without an answer in time
    /// the caller gives up, and the node drops its work for the call.
    pub(crate) async fn call<T, F>(
        self: &Arc<Self>,
        chance: &mut Chance,
        last: &mut Option<usize>,
        patience: Duration,
        act: impl FnOnce(Arc<Service>) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = T>,
    {
        let up: Vec<Up> = {
            let lives = self.lives();
            let up = lives.iter().enumerate().filter_map(|(node, life)| {
                let life = life.as_ref().filter(|life| life.node.is_some())?;
                let (process, service) = (Arc::clone(&life.process), Arc::clone(&life.service));
                Some((life.handle, node, process, service))
            });
            up.collect()
        };
        let refused = Answer {
            answer: Err(Lost::Refused),
            wall: 0,
        };
        if up.is_empty() {
            self.time.sleep(Duration::from_millis(20)).await;
            return refused;
        }
        let stays = up.iter().find(|(handle, ..)| Some(*handle) == *last);
        let chosen = stays.unwrap_or_else(|| &up[chance.index(up.len())]);
        let (handle, node, process, service) = chosen.clone();
        let lossy = self.weather().api;
        let (loses_request, loses_answer) = (chance.percent(lossy), chance.percent(lossy));
        let ways = [
            chance.below(self.latency_ms + 1),
            chance.below(self.latency_ms + 1),
        ];
        if loses_request {
            self.time.sleep(patience).await;
            return refused;
        }
        let mut wall = 0;
        let whole = async {
            self.way(ways[0]).await;
            process.time.running().await;
            let came = self.now();
            let out = act(service).await;
            process.time.running().await;
            wall = self.history().latest_wall(node, came, self.now());
            self.way(ways[1]).await;
            if loses_answer {
                std::future::pending::<()>().await;
            }
            out
        };
        let answer = self.time.within(patience, whole).await.ok_or(Lost::Silent);
        *last = answer.is_ok().then_some(handle);
        Answer { answer, wall }
    }

    async fn way(&self, millis: u64) {
        if millis > 0 {
            self.time.sleep(Duration::from_millis(millis)).await;
        }
    }
}
