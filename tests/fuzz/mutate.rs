//! `input` makes a damaged sample for the fuzz targets, always the same one for the same number.
//!
//! Damage is: bits and bytes changed; parts cut, repeated, or swapped with parts of another sample; numbers
//! replaced by the ends of their types, in the encodings that lengths have; words of the format
//! in wrong places.

/// A generator of numbers (splitmix64): an input depends on its number and on nothing else.
#[derive(Debug, Clone)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`; 0 for a bound of 0.
    pub(crate) const fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            0
        } else {
            (self.next() % bound as u64) as usize
        }
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Numbers as bytes that are likely to cause trouble as a length, a count, a time or a tag.
const NUMBERS: [&[u8]; 14] = [
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x00\x00\x00\x00\x00",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x80\x00\x00\x00\x00\x00\x00\x00",
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    // These have the encoding of protobuf.
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    // These are text.
    b"-1",
    b"9223372036854775808",
    b"1e309",
    b"0.00000000000000000001",
];

/// Longest input that is made: above the largest value of most fields, small enough for many tries.
const BYTES_MAX: usize = 64 * 1024;

/// Makes input number `number` of a seed from the samples.
pub(crate) fn input(samples: &[Vec<u8>], words: &[&str], seed: u64, number: u64) -> Vec<u8> {
    let mut chance = Chance(seed ^ number.wrapping_mul(0xa076_1d64_78bd_642f));
    let mut bytes = samples[chance.below(samples.len())].clone();
    // Most inputs get little damage, since much damage is refused by the first check.
    let much = chance.below(4);
    let edits = 1 + chance.below(2 << much);
    for _ in 0..edits {
        edit(&mut bytes, samples, words, &mut chance);
        bytes.truncate(BYTES_MAX);
    }
    bytes
}

fn edit(bytes: &mut Vec<u8>, samples: &[Vec<u8>], words: &[&str], chance: &mut Chance) {
    let at = chance.below(bytes.len() + 1);
    let long = chance.below(8);
    let length = chance.below(1 << long) + 1;
    let part = at..(at + length).min(bytes.len());
    match chance.below(11) {
        0 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
        1 if at < bytes.len() => bytes[at] = chance.next() as u8,
        2 => bytes.insert(at, chance.next() as u8),
        3 => drop(bytes.drain(part)),
        4 => bytes.truncate(at),
        5 => {
            let often = chance.below(9);
            let times = 1 + chance.below(1 << often);
            let repeated = bytes[part].repeat(times);
            drop(bytes.splice(at..at, repeated));
        }
        6 => {
            let other = &samples[chance.below(samples.len())];
            let from = chance.below(other.len() + 1);
            let until = (from + length * 4).min(other.len());
            drop(bytes.splice(part, other[from..until].iter().copied()));
        }
        7 => {
            let number = chance.one_of(&NUMBERS);
            let until = (at + number.len()).min(bytes.len());
            drop(bytes.splice(at..until, number.iter().copied()));
        }
        8 => number_as_text(bytes, chance),
        _ if words.is_empty() => bytes.push(chance.next() as u8),
        _ => drop(bytes.splice(at..at, chance.one_of(words).bytes())),
    }
}

/// Replaces a run of digits.
fn number_as_text(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let starts: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at].is_ascii_digit() && (*at == 0 || !bytes[at - 1].is_ascii_digit()))
        .collect();
    let Some(&start) = starts.get(chance.below(starts.len())) else {
        return;
    };
    let digits = bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let end = start + digits.count();
    let number = match chance.below(6) {
        0 => "0".to_owned(),
        1 => u64::MAX.to_string(),
        2 => i64::MIN.to_string(),
        3 => "9".repeat(1 + chance.below(400)),
        4 => format!("{}.5", chance.next() % 1000),
        _ => (chance.next() >> chance.below(64)).to_string(),
    };
    drop(bytes.splice(start..end, number.bytes()));
}
