//! The survey lists the contents of a journal for check and repair: whole batches, broken places between
//! them, a broken end.

use std::ops::Range;

use super::batch::{self, Batch, Outline};

/// The largest difference between the numbers of two neighbouring batches. Merges take some numbers too, one
/// each. So many numbers never lie between two writes, and a broken place never hides as many batches.
const SEQUENCE_JUMP_MAX: u64 = 1 << 24;

/// A place whose bytes are not as they were written, with whole batches behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) bytes: Range<usize>,
    /// Whole batches of the journal before it.
    pub(super) before: u64,
}

/// A batch whose number does not fit between those of its neighbours. Its number is damaged; its content is
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Misnumbered {
    pub(super) at: usize,
    pub(super) found: u64,
    /// A number that fits.
    pub(super) fitting: u64,
    /// Whole batches of the journal before it.
    pub(super) before: u64,
}

/// The contents of a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// Whole batches.
    pub(super) batches: u64,
    pub(super) holes: Vec<Hole>,
    pub(super) misnumbered: Vec<Misnumbered>,
    /// A broken place with nothing whole behind it, up to the last byte that is not zero.
    pub(super) broken_end: Option<Range<usize>>,
    /// The number of the last whole batch.
    pub(super) last: Option<u64>,
}

/// The numbers of the last two batches of all journals in order, as they should be.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Order {
    before_last: Option<u64>,
    last: Option<u64>,
}

impl Order {
    fn follows(&self, sequence: u64) -> bool {
        fits(self.last, sequence)
    }

    const fn note(&mut self, sequence: u64) {
        (self.before_last, self.last) = (self.last, Some(sequence));
    }
}

fn fits(last: Option<u64>, sequence: u64) -> bool {
    last.is_none_or(|last| sequence > last && sequence - last <= SEQUENCE_JUMP_MAX)
}

impl Survey {
    /// Looks at the written bytes of a journal, without the zeros at its end. `order` is that of the journals
    /// before.
    pub(super) fn of(bytes: &[u8], order: &mut Order) -> Self {
        let mut survey = Self::default();
        let (mut at, mut last_at) = (0, None);
        while at < bytes.len() {
            let Some(batch) = whole_at(bytes, at) else {
                let Some(next) = next_whole(bytes, at, order) else {
                    survey.broken_end = Some(at..bytes.len());
                    break;
                };
                survey.holes.push(Hole {
                    bytes: at..next,
                    before: survey.batches,
                });
                at = next;
                continue;
            };
            let sequence = survey.ordered(bytes, (at, batch), last_at, order);
            order.note(sequence);
            survey.last = Some(sequence);
            survey.batches += 1;
            last_at = Some(at);
            at += batch.bytes;
        }
        survey
    }

    /// Returns the number that a batch should have: its own, unless that does not fit.
    ///
    /// Numbers rise through all journals. So for a number that does not fit there is one that does, between
    /// its neighbours. The broken number may be that of the batch before; the next batches decide this by
    /// their numbers.
    fn ordered(
        &mut self,
        bytes: &[u8],
        (at, batch): (usize, Batch),
        last_at: Option<usize>,
        order: &mut Order,
    ) -> u64 {
        if order.follows(batch.sequence) {
            return batch.sequence;
        }
        let found = batch.sequence;
        let fitting = order.last.map_or(found, |last| last.saturating_add(1));
        let next = whole_at(bytes, at + batch.bytes).map(|next| next.sequence);
        let own_fits = next.is_none_or(|next| fits(Some(fitting), next));
        let before_fitting = order.before_last.map_or_else(
            || found.saturating_sub(1),
            |before| before.saturating_add(1),
        );
        if !own_fits
            && fits(order.before_last, found)
            && before_fitting < found
            && let (Some(last_at), Some(last)) = (last_at, order.last)
        {
            self.misnumbered.push(Misnumbered {
                at: last_at,
                found: last,
                fitting: before_fitting,
                before: self.batches.saturating_sub(1),
            });
            order.last = Some(before_fitting);
            return found;
        }
        self.misnumbered.push(Misnumbered {
            at,
            found,
            fitting,
            before: self.batches,
        });
        fitting
    }
}

fn whole_at(bytes: &[u8], at: usize) -> Option<Batch> {
    bytes.get(at..).and_then(batch::whole)
}

/// Finds the next whole batch behind a broken one. It prefers one whose number fits. Otherwise it takes any,
/// since the number may be the broken part.
fn next_whole(bytes: &[u8], at: usize, order: &Order) -> Option<usize> {
    let from = match batch::outline(bytes.get(at..)?) {
        Outline::CutShort => return None,
        Outline::Upto(reaches) => at + reaches,
    };
    let rest = |at: usize| bytes.get(at..).unwrap_or_default();
    let begins = |at: &usize| rest(*at).first() == Some(&batch::START);
    let follows = |at: &usize| {
        let sequence = batch::sequence(rest(*at));
        sequence.is_some_and(|sequence| order.follows(sequence))
    };
    let is_whole = |at: &usize| batch::whole(rest(*at)).is_some();
    let mut candidates = (from..bytes.len()).filter(begins);
    let fitting = candidates.clone().find(|at| follows(at) && is_whole(at));
    fitting.or_else(|| candidates.find(is_whole))
}
