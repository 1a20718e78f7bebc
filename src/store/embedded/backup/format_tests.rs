//! Tests of the form of a backup.

use super::*;
use crate::store::embedded::tests::shape;

fn whole() -> Vec<u8> {
    let begin = Head {
        shape: shape(2),
        made: Millis(1_764_000_000_000),
    };
    let mut piece = Piece::of(Space::Row);
    piece.add(b"a", b"");
    piece.add(b"", b"value");
    let mut counts = Counts::default();
    counts.add(Space::Row, 2);
    let last = End {
        counts,
        digest: None,
    };
    [head(&begin), piece.finish(), end(&last)].concat()
}

/// Reads everything, and returns the rows.
fn read(bytes: &[u8]) -> Result<(Head, u64), Unreadable> {
    let (mut reader, head) = Reader::open(bytes)?;
    let mut rows = 0;
    loop {
        match reader.read()? {
            Part::Rows(some) => rows += some.len() as u64,
            Part::End(end) => {
                assert_eq!(end.counts.rows(), rows);
                reader.ends()?;
                return Ok((head, rows));
            }
        }
    }
}

#[test]
fn a_backup_is_read_as_it_was_written() {
    let (head, rows) = read(&whole()).unwrap();
    assert_eq!(
        (head.shape, head.made),
        (shape(2), Millis(1_764_000_000_000))
    );
    assert_eq!(rows, 2);
}

#[test]
fn a_backup_that_was_cut_off_anywhere_or_changed_anywhere_is_refused() {
    let whole = whole();
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "cut at {length}");
    }
    for place in 0..whole.len() {
        let mut changed = whole.clone();
        changed[place] ^= 0x40;
        assert!(read(&changed).is_err(), "changed at {place}");
    }
}

#[test]
fn another_shape_in_the_head_is_damage() {
    let whole = whole();
    let body = whole.windows(2).position(|pair| pair == b"\n\n").unwrap() + 2;
    let head = std::str::from_utf8(&whole[..body]).unwrap();
    for (line, other) in [
        ("wheels=2", "wheels=4"),
        ("tick_ms=1000", "tick_ms=2000"),
        ("slots=8", "slots=9"),
    ] {
        let changed = head.replace(line, other);
        assert_ne!(changed, head);
        let said = read(&[changed.as_bytes(), &whole[body..]].concat());
        let said = said.unwrap_err().to_string();
        assert!(said.contains("its head is damaged"), "{said}");
    }
}

#[test]
fn a_backup_with_something_behind_its_end_is_refused() {
    let said = read(&[&whole()[..], b"x"].concat())
        .unwrap_err()
        .to_string();
    assert!(said.contains("behind its end"), "{said}");
}

#[test]
fn what_another_program_has_made_is_named() {
    let later = String::from_utf8_lossy(&whole()).replace("backup 1", "backup 3");
    let said = read(later.as_bytes()).unwrap_err().to_string();
    assert!(said.contains("a later program"), "{said}");
    for other in ["2", "3", "9"] {
        let text =
            String::from_utf8_lossy(&whole()).replace("format=4", &format!("format={other}"));
        let said = read(text.as_bytes()).unwrap_err().to_string();
        let named = format!("rows have format {other}, and this program reads format 4");
        assert!(said.contains(&named), "{said}");
    }
    let said = read(&vec![b'x'; 10_000]).unwrap_err().to_string();
    assert!(said.contains("no backup of Tickwheel"), "{said}");
}
