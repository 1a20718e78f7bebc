//! The batch reader tells the survey whether one batch of a journal is whole, and how far it reaches if not.
//!
//! It follows the format of fjall 3 (`src/journal/entry.rs`): `[1, items u32, seqno u64]`, items `[2, type
//! u8, compression u8, keyspace u64, key length u16, value length u32, stored length u32, key, value]` or
//! `[4, keyspace u64]`, then `[3, xxh3 of the items u64, magic]`; little-endian.

use xxhash_rust::xxh3::xxh3_64;

use super::packed;
use crate::limits::RECORD_BYTES_MAX;

/// Ends every batch.
const MAGIC: &[u8] = b"FJL\x03";

/// Begins every batch.
pub(super) const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;

/// No keyspace of ours has a higher number.
const KEYSPACES_MAX: u64 = 64;

/// No key of ours is longer. With one flipped bit such a length reaches less far than the shortest batch is
/// long.
const KEY_BYTES_MAX: u64 = 63;

/// No value of ours is longer. The largest is a content.
const VALUE_BYTES_MAX: u64 = 2 * RECORD_BYTES_MAX as u64;

/// The place of the sequence number in a batch.
pub(super) const SEQUENCE_AT: usize = 1 + 4;

/// A batch whose items are as they were written. Its sequence number is not covered by the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) sequence: u64,
    pub(super) bytes: usize,
}

/// The reach of a batch that is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outline {
    /// It reaches beyond the written bytes, as the last batch does after a crash. No written bytes lie behind
    /// it.
    CutShort,
    /// It reaches at least up to here. The bytes behind have to be looked through.
    Upto(usize),
}

/// Reads how far a batch reaches that is not whole.
///
/// Lengths are believed if they agree with each other. So bytes of a payload that look like a batch are not
/// taken for one: a client may send such bytes on purpose. The length of a compressed value has to agree with
/// the value itself, which shows its end unless it is cut short or broken. If the bytes behind an item are
/// not as they should be, its lengths are in doubt. Then the item is looked through as well, and with it all
/// items from the first compressed one on.
pub(super) fn outline(bytes: &[u8]) -> Outline {
    let mut rest = Reader { bytes, at: 0 };
    if rest.byte() != Some(START) {
        return Outline::Upto(1);
    }
    let (mut packed, mut last) = (None, None);
    let mut walk = || {
        rest.skip(4 + 8)?;
        loop {
            let from = rest.at;
            match rest.byte()? {
                ITEM => {
                    let (mut head, mut item) = (rest.peek(), rest.peek());
                    let Some(lengths) = head.plausible()? else {
                        return Some(packed.or(last).unwrap_or(from));
                    };
                    if lengths.is_packed {
                        packed = packed.or(Some(from));
                        if head.is_longer_or_shorter(&lengths) {
                            return packed;
                        }
                    }
                    last = Some(from);
                    item.item()?;
                    rest.at = item.at;
                }
                CLEAR => rest.skip(8)?,
                END => {
                    rest.skip(8 + MAGIC.len())?;
                    return Some(from + 1);
                }
                _ => return Some(packed.or(last).unwrap_or(from)),
            }
        }
    };
    walk().map_or(Outline::CutShort, Outline::Upto)
}

/// Reads the sequence number of bytes that may be a batch.
pub(super) fn sequence(bytes: &[u8]) -> Option<u64> {
    let mut rest = Reader { bytes, at: 0 };
    (rest.byte()? == START).then_some(())?;
    rest.number::<4>()?;
    rest.number::<8>()
}

/// Reads the batch that bytes begin with; none unless it is whole. A broken length is never believed, because
/// it leads to bytes that are no batch with the right checksum.
pub(super) fn whole(bytes: &[u8]) -> Option<Batch> {
    let mut rest = Reader { bytes, at: 0 };
    (rest.byte()? == START).then_some(())?;
    let items = rest.number::<4>()?;
    let sequence = rest.number::<8>()?;
    let from = rest.at;
    for _ in 0..items {
        match rest.byte()? {
            ITEM => rest.item()?,
            CLEAR => rest.skip(8)?,
            _ => return None,
        }
    }
    let to = rest.at;
    (rest.byte()? == END).then_some(())?;
    let checksum = rest.number::<8>()?;
    let sound = rest.take(MAGIC.len())? == MAGIC && xxh3_64(bytes.get(from..to)?) == checksum;
    sound.then_some(Batch {
        sequence,
        bytes: rest.at,
    })
}

/// The lengths of an item, by its head.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    key: u64,
    value: u64,
    stored: u64,
    is_packed: bool,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(|_| ())
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    const fn peek(&self) -> Self {
        Self { ..*self }
    }

    /// Reads the lengths of an item, behind its tag. The inner option is none when such a head is never
    /// written.
    fn plausible(&mut self) -> Option<Option<Lengths>> {
        let (kind, packed) = (self.byte()?, self.byte()?);
        let keyspace = self.number::<8>()?;
        let key = self.number::<2>()?;
        let (value, stored) = (self.number::<4>()?, self.number::<4>()?);
        let agree = match packed {
            0 => value == stored,
            1 => stored <= value + value / 128 + 64,
            _ => false,
        };
        let sound = kind <= 2
            && keyspace <= KEYSPACES_MAX
            && key <= KEY_BYTES_MAX
            && value <= VALUE_BYTES_MAX
            && agree;
        Some(sound.then_some(Lengths {
            key,
            value,
            stored,
            is_packed: packed == 1,
        }))
    }

    /// Tells, behind the head of an item, whether its compressed value ends elsewhere than its head says.
    fn is_longer_or_shorter(&self, lengths: &Lengths) -> bool {
        let value = usize::try_from(lengths.key).ok().map(|key| self.at + key);
        let value = value.and_then(|at| self.bytes.get(at..));
        let ends = value.and_then(|value| packed::length(value, lengths.value));
        ends.is_some_and(|ends| ends as u64 != lengths.stored)
    }

    /// Skips the bytes behind the tag of an item.
    fn item(&mut self) -> Option<()> {
        self.skip(1 + 1 + 8)?;
        let key = self.number::<2>()?;
        self.number::<4>()?;
        let stored = self.number::<4>()?;
        self.skip(usize::try_from(key + stored).ok()?)
    }

    /// Reads a little-endian number of so many bytes.
    fn number<const N: usize>(&mut self) -> Option<u64> {
        let read = self.take(N)?.iter().rev();
        Some(read.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}
