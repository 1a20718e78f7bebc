//! The length reader finds the length of a compressed value for the batch reader from the value itself, since
//! the stored length may be broken.
//!
//! It follows the block format of LZ4, as fjall 3 writes it (`src/journal/entry.rs`): sequences of a token,
//! literals, and an offset with the length of a repetition. The last sequence has literals only.

/// Returns how many of these bytes belong to the compressed value that yields `yields` bytes. None when they
/// are too few, or not such a value.
pub(super) fn length(bytes: &[u8], yields: u64) -> Option<usize> {
    let mut rest = bytes.iter();
    let mut made = 0_u64;
    loop {
        let token = *rest.next()?;
        let literals = extended(token >> 4, &mut rest)?;
        if literals > 0 {
            rest.nth(usize::try_from(literals).ok()? - 1)?;
        }
        made += literals;
        if made >= yields {
            return (made == yields).then_some(bytes.len() - rest.len());
        }
        let offset = u16::from_le_bytes([*rest.next()?, *rest.next()?]);
        if offset == 0 || u64::from(offset) > made {
            return None;
        }
        made += 4 + extended(token & 0xf, &mut rest)?;
    }
}

/// Reads a length: the number in the token and, if that is full, all bytes behind it up to one below 255.
fn extended<'a>(nibble: u8, rest: &mut impl Iterator<Item = &'a u8>) -> Option<u64> {
    let mut length = u64::from(nibble);
    if nibble == 0xf {
        loop {
            let more = *rest.next()?;
            length += u64::from(more);
            if more < 255 {
                break;
            }
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Literals, a repetition, and the literals at the end.
    const BLOCK: &[u8] = &[0x31, b'a', b'b', b'c', 3, 0, 0x20, b'x', b'y'];

    #[test]
    fn a_value_tells_its_length_whatever_lies_behind() {
        assert_eq!(length(BLOCK, 10), Some(BLOCK.len()));
        let behind = [BLOCK, &[0x10, 0xff, 3, 0, 9]].concat();
        assert_eq!(length(&behind, 10), Some(BLOCK.len()));
        assert_eq!(length(&[0], 0), Some(1));
        let long = [&[0xf0, 255, 20][..], &[b'z'; 290]].concat();
        assert_eq!(length(&long, 290), Some(long.len()));
    }

    #[test]
    fn a_value_that_is_cut_short_or_another_tells_none() {
        for end in 0..BLOCK.len() {
            assert_eq!(length(&BLOCK[..end], 10), None, "{end}");
        }
        // It yields more bytes, or fewer, than are asked for; an offset leads out of the value.
        assert_eq!((length(BLOCK, 9), length(BLOCK, 11)), (None, None));
        assert_eq!(length(&[0x10, b'a', 0, 0, 0], 5), None);
        assert_eq!(length(&[0x10, b'a', 2, 0, 0], 5), None);
        assert_eq!(length(&[0xff, 255, 255], 1 << 20), None);
    }
}
