//! Tests of increments: what they stand for, what they take, and what is noticed.

use std::{fs, path::PathBuf};

use tempfile::TempDir;

use super::*;
use crate::{
    limits::BACKUP_CHAIN_MAX,
    model::time::Millis,
    store::embedded::{
        backup::{
            format::{Counts, Head, Part},
            restore,
        },
        tests::shape,
    },
};

type Rows = Vec<(Space, Vec<u8>, Vec<u8>)>;

fn row(space: Space, key: u32, value: &[u8]) -> (Space, Vec<u8>, Vec<u8>) {
    (space, key.to_be_bytes().to_vec(), value.to_vec())
}

/// Writes a whole copy as the store does.
fn whole(rows: &Rows, made: i64) -> Vec<u8> {
    let head = Head {
        shape: shape(2),
        made: Millis(made),
    };
    let (mut bytes, mut counts) = (format::head(&head), Counts::default());
    for space in Space::ALL {
        let mut piece = Piece::of(space);
        for (_, key, value) in rows.iter().filter(|(of, ..)| *of == space) {
            piece.add(key, value);
            counts.add(space, 1);
            if piece.bytes() > 5000 {
                bytes.extend(std::mem::replace(&mut piece, Piece::of(space)).finish());
            }
        }
        bytes.extend(piece.finish());
    }
    let digest = None;
    bytes.extend(format::end(&End { counts, digest }));
    bytes
}

/// Returns the rows that a file stands for.
fn read(file: &Path) -> Result<Rows, Error> {
    let mut source = Source::open(file)?;
    let mut rows = Vec::new();
    loop {
        match source.read()? {
            Part::End(_) => return Ok(rows),
            Part::Rows(some) => {
                rows.extend(
                    some.iter()
                        .map(|row| (row.space, row.key.to_vec(), row.value.to_vec())),
                );
            }
        }
    }
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.file(name), bytes).unwrap();
        self.file(name)
    }

    /// Writes an increment, and returns its size.
    fn increment(&self, name: &str, since: &str, rows: &Rows) -> Result<usize, Error> {
        let mut bytes = Vec::new();
        let file = self.file(name);
        write(&*whole(rows, 2), &self.file(since), &mut bytes, &file)?;
        self.put(name, &bytes);
        Ok(bytes.len())
    }
}

/// Rows of several keyspaces and pieces.
fn many() -> Rows {
    let due = (0..2000).map(|key| row(Space::Due, key * 3, b"an entry that takes some bytes"));
    let body = (0..5).map(|key| row(Space::Body, key, &[7; 4000]));
    due.chain(body).collect()
}

fn changed(mut rows: Rows) -> Rows {
    rows.retain(|(_, key, _)| key[3] % 50 != 9);
    rows[4].2 = b"another value".to_vec();
    rows.insert(0, row(Space::Look, 3, b""));
    rows.insert(0, row(Space::Due, 4, b"a new one"));
    rows.push(row(Space::Index, 1, b"new, in a keyspace that was empty"));
    rows.sort_by_key(|(space, key, _)| (super::super::row::number_of(*space), key.clone()));
    rows
}

#[test]
fn an_increment_stands_for_the_whole_copy_and_takes_what_differs() {
    let folder = Folder::new();
    let (first, second) = (many(), changed(many()));
    let size = whole(&first, 1).len();
    folder.put("monday", &whole(&first, 1));
    let took = folder.increment("tuesday", "monday", &second).unwrap();
    assert!(took * 10 < size, "{took} of {size}");
    assert_eq!(read(&folder.file("tuesday")).unwrap(), second);
    // An increment upon an increment, to nothing at all and back.
    let nothing = folder.increment("none", "tuesday", &Rows::new()).unwrap();
    assert!(nothing < size, "keys without values");
    assert_eq!(read(&folder.file("none")).unwrap(), Rows::new());
    folder.increment("back", "none", &first).unwrap();
    assert_eq!(read(&folder.file("back")).unwrap(), first);
    let same = folder.increment("same", "back", &first).unwrap();
    assert!(same < 400, "{same} bytes for no change");
    let checked = restore::check(Source::open(&folder.file("same")).unwrap()).unwrap();
    assert_eq!(checked.counts.rows(), first.len() as u64);
    assert_eq!(checked.head.made, Millis(2), "of the newest");
    assert!(Source::of(&*fs::read(folder.file("same")).unwrap()).is_err());
}

#[test]
fn a_restore_of_an_increment_is_one_of_the_whole_copy() {
    let (folder, second) = (Folder::new(), changed(many()));
    folder.put("monday", &whole(&many(), 1));
    folder.put("whole", &whole(&second, 2));
    folder.increment("tuesday", "monday", &second).unwrap();
    let restored = ["tuesday", "whole"].map(|name| {
        let (source, into) = (
            Source::open(&folder.file(name)).unwrap(),
            TempDir::new().unwrap(),
        );
        let restored = restore::restore(source, into.path()).unwrap();
        let open = crate::store::embedded::disk::database::open(
            &into.path().join("store"),
            &restored.head.shape,
        );
        let open = open.unwrap();
        let rows = Space::ALL.into_iter().flat_map(|space| {
            let rows = open.space(space).iter().map(move |row| {
                let (key, value) = row.into_inner().unwrap();
                (space, key.to_vec(), value.to_vec())
            });
            rows.collect::<Rows>()
        });
        (restored, rows.collect::<Rows>())
    });
    assert_eq!(restored[0], restored[1]);
    assert_eq!(restored[0].1, second);
}

#[test]
fn damage_of_an_increment_or_of_what_it_rests_on_is_named() {
    let folder = Folder::new();
    let rows: Rows = (0..40).map(|key| row(Space::Row, key, b"value")).collect();
    let mut less = rows.clone();
    less.drain(3..9);
    less[5].2 = b"other".to_vec();
    let monday = whole(&rows, 1);
    folder.put("monday", &monday);
    folder.increment("tuesday", "monday", &less).unwrap();
    let tuesday = fs::read(folder.file("tuesday")).unwrap();
    let said = || {
        read(&folder.file("tuesday"))
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    for (name, bytes) in [("monday", &monday), ("tuesday", &tuesday)] {
        for length in 0..bytes.len() {
            folder.put(name, &bytes[..length]);
            said();
        }
        let body = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap() + 2;
        for place in body..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[place] ^= 0x40;
            folder.put(name, &wrong);
            assert_eq!(
                said().contains("monday, which it rests on"),
                name == "monday",
                "{}",
                said()
            );
        }
        folder.put(name, bytes);
        read(&folder.file("tuesday")).unwrap();
    }
    // Another whole copy under that name, and none.
    folder.put("monday", &whole(&rows[..30].to_vec(), 1));
    assert!(
        said().contains("monday is not the copy that it was made from"),
        "{}",
        said()
    );
    fs::remove_file(folder.file("monday")).unwrap();
    assert!(
        said().contains("monday, which it rests on: it cannot be read"),
        "{}",
        said()
    );
}

#[test]
fn chains_are_bounded_and_a_base_lies_beside() {
    let (folder, rows) = (Folder::new(), vec![row(Space::Clock, 1, b"c")]);
    folder.put("0", &whole(&rows, 1));
    for number in 1..=BACKUP_CHAIN_MAX {
        let (name, since) = (number.to_string(), (number - 1).to_string());
        folder.increment(&name, &since, &rows).unwrap();
        assert_eq!(read(&folder.file(&name)).unwrap(), rows);
    }
    let last = BACKUP_CHAIN_MAX.to_string();
    let said = folder
        .increment("more", &last, &rows)
        .unwrap_err()
        .to_string();
    assert!(said.contains("make a whole one"), "{said}");
    // One that rests on itself, and names of files elsewhere.
    let bytes = fs::read(folder.file("1")).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    for since in ["1", "../0", "/0", "", ".."] {
        let head = text.split("\n\n").next().unwrap();
        let head = head.replace("since=0", &format!("since={since}"));
        let body = &bytes[text.find("\n\n").unwrap()..];
        folder.put("1", &[head.as_bytes(), body].concat());
        let said = read(&folder.file("1")).map(drop).unwrap_err().to_string();
        assert!(
            said.contains("make a whole one") || said.contains("head is damaged"),
            "{said}"
        );
    }
}
