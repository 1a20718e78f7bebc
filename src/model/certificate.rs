//! The certificate reader finds for the node when a certificate ends; checks of certificates are left to the library of TLS.
//!
//! A certificate is nested elements of a tag, a length and contents ([RFC 5280](https://www.rfc-editor.org/rfc/rfc5280),
//! section 4.1). The reader passes over those before the validity and takes the second time in it.

use jiff::{civil::DateTime, tz::TimeZone};

use super::time::Millis;

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns the last second at which a certificate in DER form is valid. Returns nothing for bytes that are none.
#[must_use]
pub fn end(certificate: &[u8]) -> Option<Millis> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (signed, _) = element(certificate, SEQUENCE)?;
    // Certificates of version 1 leave it out.
    let rest = element(signed, VERSION).map_or(signed, |(_, rest)| rest);
    let (_serial, rest) = element(rest, INTEGER)?;
    let (_algorithm, rest) = element(rest, SEQUENCE)?;
    let (_issuer, rest) = element(rest, SEQUENCE)?;
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_begin, rest) = time(validity)?;
    let (end, _) = time(rest)?;
    Some(end)
}

/// Reads an element with this tag; returns its contents, and the bytes behind it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    if *found != tag {
        return None;
    }
    let (first, rest) = rest.split_first()?;
    // Above 127 the length stands in so many bytes; four are 4 GiB.
    let (length, rest) = match usize::from(*first) {
        short @ 0..=0x7f => (short, rest),
        long @ 0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(long - 0x80)?;
            let add = |length: usize, digit: &u8| length << 8 | usize::from(*digit);
            (digits.iter().fold(0, add), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// Reads a time in one of its two forms; returns it, and the bytes behind it.
fn time(bytes: &[u8]) -> Option<(Millis, &[u8])> {
    let (text, rest, century) = match element(bytes, UTC_TIME) {
        Some((text, rest)) => (text, rest, None),
        None => {
            let (text, rest) = element(bytes, GENERALIZED_TIME)?;
            let (century, text) = text.split_at_checked(2)?;
            (text, rest, Some(number(century)?))
        }
    };
    let text = text.strip_suffix(b"Z").filter(|text| text.len() == 12)?;
    let mut pairs = text.chunks(2).map(number);
    let mut pair = || pairs.next().flatten();
    let year = pair()?;
    // Two digits from 50 on are of the last century.
    let century = century.unwrap_or(if year < 50 { 20 } else { 19 });
    let year = i16::from(century) * 100 + i16::from(year);
    let at = DateTime::new(year, pair()?, pair()?, pair()?, pair()?, pair()?, 0).ok()?;
    // The last day of the year 9999 stands for "never" (section 4.1.2.5), and no instant of the library is that late.
    let at = at.to_zoned(TimeZone::UTC);
    let at = at.map_or(Millis::MAX, |at| Millis(at.timestamp().as_millisecond()));
    Some((at, rest))
}

/// Reads a number of two digits.
fn number(digits: &[u8]) -> Option<i8> {
    match digits {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            i8::try_from((tens - b'0') * 10 + (ones - b'0')).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(tag: u8, contents: &[u8]) -> Vec<u8> {
        let length = contents.len();
        let mut bytes = vec![tag];
        match u8::try_from(length) {
            Ok(short @ 0..=0x7f) => bytes.push(short),
            Ok(long) => bytes.extend([0x81, long]),
            Err(_) => {
                bytes.push(0x82);
                bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
        }
        bytes.extend(contents);
        bytes
    }

    fn certificate(version: bool, issuer_bytes: usize, end: (u8, &str)) -> Vec<u8> {
        let validity = [
            put(UTC_TIME, b"260101000000Z"),
            put(end.0, end.1.as_bytes()),
        ]
        .concat();
        let mut signed = Vec::new();
        if version {
            signed.extend(put(VERSION, &put(INTEGER, &[2])));
        }
        signed.extend(put(INTEGER, &[1; 20]));
        signed.extend(put(SEQUENCE, &[6, 1, 1]));
        signed.extend(put(SEQUENCE, &vec![0; issuer_bytes]));
        signed.extend(put(SEQUENCE, &validity));
        put(SEQUENCE, &put(SEQUENCE, &signed))
    }

    fn at(text: &str) -> Millis {
        let at: jiff::Timestamp = text.parse().unwrap();
        Millis(at.as_millisecond())
    }

    #[test]
    fn the_end_is_found_in_both_forms_of_a_time_and_behind_long_names() {
        let ends = [
            ((UTC_TIME, "261231235959Z"), "2026-12-31T23:59:59Z"),
            ((UTC_TIME, "491231235959Z"), "2049-12-31T23:59:59Z"),
            ((UTC_TIME, "500101000000Z"), "1950-01-01T00:00:00Z"),
            (
                (GENERALIZED_TIME, "20500101000000Z"),
                "2050-01-01T00:00:00Z",
            ),
        ];
        for (written, read) in ends {
            for (version, issuer_bytes) in [(true, 10), (false, 200), (true, 60_000)] {
                let bytes = certificate(version, issuer_bytes, written);
                assert_eq!(end(&bytes), Some(at(read)), "{written:?}");
            }
        }
    }

    #[test]
    fn a_certificate_that_never_ends_ends_with_time() {
        let never = certificate(true, 10, (GENERALIZED_TIME, "99991231235959Z"));
        assert_eq!(end(&never), Some(Millis::MAX));
    }

    #[test]
    fn times_that_are_none_and_cut_certificates_have_no_end() {
        for wrong in [
            "261331235959Z",
            "2612312359Z",
            "26123123595Z",
            "261231235959",
            "26123123595xZ",
        ] {
            assert_eq!(
                end(&certificate(true, 10, (UTC_TIME, wrong))),
                None,
                "{wrong}"
            );
        }
        let whole = certificate(true, 300, (UTC_TIME, "261231235959Z"));
        for length in 0..whole.len() {
            assert_eq!(end(&whole[..length]), None, "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(end(&bytes).is_none_or(|end| end <= Millis::MAX));
        }

        #[test]
        fn a_damaged_certificate_is_read_without_a_panic(place in 0_usize..400, byte in any::<u8>()) {
            let mut bytes = certificate(true, 300, (UTC_TIME, "261231235959Z"));
            let place = place % bytes.len();
            bytes[place] = byte;
            prop_assert!(end(&bytes).is_none_or(|end| end <= Millis::MAX));
        }
    }
}
