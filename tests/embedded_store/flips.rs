//! One flipped bit in a journal of small and large batches makes the store refuse it, or costs
//! the last batch alone.

use std::{fs, ops::Range, sync::Arc};

use tempfile::TempDir;
use tickwheel::{
    model::{entry::Entry, ids::TaskId, task::Content, time::Tick},
    store::{
        Error, WheelStore,
        embedded::{self, Mode},
    },
    time_source::TimeSource,
};

use super::{
    damage::{unsynced, used},
    open, settings, stores,
};
use crate::store_contract::{read_tick, spec};

/// The writes of one batch.
enum Batch {
    Small(Tick, Entry),
    Large(Vec<(TaskId, Content)>),
}

/// A journal, its batches, and where they lie.
struct Journal {
    directory: TempDir,
    batches: Vec<(Batch, Range<usize>)>,
    bytes: Vec<u8>,
}

/// A payload as clients send them: it shrinks by about a half.
fn text(bytes: usize, seed: u64) -> Vec<u8> {
    let (mut text, mut chance) = (Vec::new(), seed);
    while text.len() < bytes {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        text.extend(
            format!(
                "{{\"customer\": {}, \"action\": \"remind\"}}, ",
                chance >> 20
            )
            .bytes(),
        );
    }
    text
}

/// Writes batches with contents of these sizes; a batch without sizes is a small entry.
async fn journal(shape: &[&[usize]]) -> Journal {
    let directory = TempDir::new().unwrap();
    let read = || fs::read(directory.path().join("store").join("0.jnl")).unwrap();
    let mut batches = Vec::new();
    let store = open(directory.path());
    let stores = stores(&store);
    let mut from = used(&read());
    for (number, sizes) in shape.iter().enumerate() {
        let tick = stores.tick();
        let batch = if sizes.is_empty() {
            let id = stores.task(1, tick);
            let entry = Entry::due(id, 0, 0, id.first_start(), spec(), 5);
            let put = store.put_entries(std::slice::from_ref(&entry)).await;
            assert!(put.iter().all(Result::is_ok), "{put:?}");
            Batch::Small(tick, entry)
        } else {
            let content = |(place, size): (usize, &usize)| Content {
                payload: text(*size, (number * 10 + place) as u64).into(),
                ..Content::default()
            };
            let contents: Vec<(TaskId, Content)> = sizes
                .iter()
                .enumerate()
                .map(|one| (stores.task(1, tick), content(one)))
                .collect();
            let put: Vec<_> = contents
                .iter()
                .map(|(id, content)| (*id, Arc::new(content.clone())))
                .collect();
            let put = store.put_bodies(&put, 5, None).await;
            assert!(put.iter().all(Result::is_ok), "{put:?}");
            Batch::Large(contents)
        };
        let to = used(&read());
        batches.push((batch, from..to));
        from = to;
    }
    drop(stores);
    drop(store);
    let mut bytes = read();
    bytes.truncate(used(&bytes));
    assert_eq!(bytes.len(), from);
    // A last batch that was synced would be missed.
    unsynced(&directory);
    Journal {
        directory,
        batches,
        bytes,
    }
}

impl Journal {
    fn write(&self, bytes: &[u8]) {
        let store = self.directory.path().join("store");
        fs::write(store.join("0.jnl"), bytes).unwrap();
    }

    /// Opens the store as it is now, and returns which batches are there.
    async fn there(&self) -> Vec<bool> {
        let store = open(self.directory.path());
        let mut there = Vec::new();
        for (batch, _) in &self.batches {
            there.push(match batch {
                Batch::Small(tick, entry) => {
                    read_tick(&*store, 1, *tick, 10).await == std::slice::from_ref(entry)
                }
                Batch::Large(contents) => {
                    let ids: Vec<TaskId> = contents.iter().map(|(id, _)| *id).collect();
                    let read = store.bodies(&ids).await.unwrap();
                    let written = contents.iter().map(|(_, content)| Some(content));
                    read.iter().map(Option::as_ref).eq(written)
                }
            });
        }
        there
    }

    /// Flips a bit, and checks that the journal is refused, or opens with all batches but the last.
    async fn flip(&self, at: usize, bit: u8) {
        let mut bytes = self.bytes.clone();
        bytes[at] ^= 1 << bit;
        self.write(&bytes);
        let said = format!("bit {bit} of byte {at}");
        let damages = embedded::damages(self.directory.path()).unwrap();
        let last = &self.batches.last().unwrap().1;
        if !damages.is_empty() {
            return;
        }
        let first = self.batches.iter().find(|(_, place)| place.contains(&at));
        let (_, place) = first.unwrap();
        let is_sequence = (5..13).contains(&(at - place.start));
        assert!(is_sequence || at >= last.start, "{said} is not seen");
        let mut there = self.there().await;
        if at >= last.start {
            there.pop();
        }
        assert!(there.iter().all(|there| *there), "{said}: {there:?}");
    }

    /// Flips every bit of the heads and ends of all batches, and one bit in every `step` bytes between.
    async fn flip_all(&self, step: usize) {
        let first = self.batches[0].1.start;
        for at in first..self.bytes.len() {
            let of = self.batches.iter().find(|(_, place)| place.contains(&at));
            let (_, place) = of.unwrap();
            let is_last = place.end == self.bytes.len();
            let is_edge = at - place.start < 60 || place.end - at <= 13;
            if is_edge && !is_last {
                for bit in 0..8 {
                    self.flip(at, bit).await;
                }
            } else if at % (if is_last { 3 * step } else { step }) == 0 || is_edge {
                self.flip(at, (at % 8) as u8).await;
            }
        }
    }
}

#[tokio::test]
async fn any_flipped_bit_is_refused_or_costs_the_last_batch_alone() {
    let large: &[&[usize]] = &[&[], &[9000], &[], &[3000, 5000], &[], &[20_000], &[], &[]];
    journal(large).await.flip_all(9).await;
}

#[tokio::test]
async fn any_flipped_bit_before_or_in_a_large_last_batch_is_refused_or_costs_that_alone() {
    journal(&[&[], &[9000], &[6000]]).await.flip_all(17).await;
}

/// The length of a compressed content is broken, so that it seems to reach beyond all written bytes.
#[tokio::test]
async fn a_content_that_seems_to_reach_beyond_the_end_hides_nothing_behind_it() {
    let journal = journal(&[&[40_000], &[], &[]]).await;
    let value = journal.batches[0].1.start + 13 + 1 + 1 + 1 + 8 + 2;
    let mut bytes = journal.bytes.clone();
    // A content may be stored in as many bytes as it has itself; this one is stored in about half of them.
    bytes.copy_within(value..value + 4, value + 4);
    assert!(bytes != journal.bytes);
    journal.write(&bytes);
    let opened = embedded::Store::open(
        settings(journal.directory.path(), Mode::Threaded),
        &TimeSource::real(),
    );
    let Err(Error::Corrupt { reason, .. }) = opened else {
        panic!("it was opened: {opened:?}");
    };
    assert!(reason.contains("2 whole batches lie behind"), "{reason}");
    let repaired = embedded::repair(journal.directory.path()).unwrap();
    assert_eq!(repaired.len(), 1);
    assert_eq!(journal.there().await, [false, true, true]);
}

/// A crash leaves a torn batch in a journal that it has just begun, but no whole batch behind that.
#[tokio::test]
async fn a_journal_without_a_whole_batch_is_cut_off_and_kept_beside_it() {
    let journal = journal(&[&[5000]]).await;
    let place = journal.batches[0].1.clone();
    // The bytes lie behind those that the store itself has written: no batch of the journal is whole.
    let torn = journal.bytes[place.start..place.end - 40].to_vec();
    journal.write(&torn);
    assert_eq!(embedded::damages(journal.directory.path()).unwrap(), []);
    assert_eq!(journal.there().await, [false]);
    let aside = journal.directory.path().join("store").join("0.0.torn");
    assert_eq!(fs::read(aside).unwrap(), torn);
    let whole = journal.bytes[place].to_vec();
    journal.write(&[&torn[..], &whole].concat());
    let damages = embedded::damages(journal.directory.path()).unwrap();
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(damages[0].whole_behind, 1);
}
