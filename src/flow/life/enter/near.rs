//! Tasks that are due soon get their durable record, and wait in this node's memory.

use std::sync::Arc;

use super::super::{incoming::Incoming, near::NearTask, sending::Sending};
use super::{Entrance, set};
use crate::{
    flaw::{self, Flaw},
    flow::base::{api::Fault, entries::near_record::near_record},
    model::{
        entry::{DoneReason, Entry, Kind},
        time::Tick,
    },
};

impl Entrance {
    pub(super) async fn register_near(
        &self,
        incoming: &[Incoming],
        near: Vec<(usize, Tick)>,
        results: &mut [Option<Fault>],
    ) {
        if near.is_empty() {
            return;
        }
        let records = near
            .iter()
            .filter_map(|(index, opened)| Some(self.record(incoming.get(*index)?, *opened)))
            .collect();
        let placed = if flaw::is(Flaw::NearWithoutRecord) {
            let records: Vec<Entry> = records;
            records.into_iter().map(Ok).collect()
        } else {
            self.entry_writer.place(records).await
        };
        for ((index, _), placed) in near.into_iter().zip(placed) {
            let Some(task) = incoming.get(index) else {
                continue;
            };
            match placed {
                Ok(record) => {
                    let backup = (!task.spec.target.is_tracked()).then_some(record);
                    self.near.hold_or_leave(NearTask {
                        sending: Sending::new(task.dispatch(), Arc::clone(&task.spec), true),
                        backup,
                        stands: false,
                    });
                }
                Err(fault) => set(results, index, fault),
            }
        }
    }

    /// Builds the durable record of a near task.
    fn record(&self, task: &Incoming, opened: Tick) -> Entry {
        let mut record = near_record(&self.ctx, task.dispatch(), &task.spec, opened);
        // A task that is left to its look is published by the look for the first time.
        if let Kind::Look { published, held_by } = &mut record.kind
            && !self.near.has_room()
        {
            (*published, *held_by) = (None, None);
        }
        record
    }

    pub(super) async fn withdraw(&self, entry: &Entry) -> Result<(), Fault> {
        let reason = DoneReason::Moved { to: entry.start };
        let mark = entry.marked_done(reason, self.ctx.now(), self.ctx.time.stamp());
        self.entry_writer
            .mark(vec![mark])
            .await
            .into_iter()
            .collect()
    }
}
