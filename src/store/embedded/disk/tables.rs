//! The check of tables finds out for operators whether the files of the database are as they were written.
//!
//! The database checks a block of a table when it reads that block, which may be days after the disk has damaged it. Here every
//! file is read from its beginning to its end, and compared with the check sum that the database noted when it had written it.
//! Nothing is opened as a database, and nothing is changed, so a directory that a process uses can be checked as well. Files
//! that the process has merged away meanwhile are passed over, and those that took their place are read instead.
//!
//! Where the sums are noted is a matter of lsm-tree 3: `current` names a version of a part, and the file of that version lists
//! its tables and files of contents (`version/persist.rs` and `version/mod.rs` there). A test checks what a store has written.

use std::{
    collections::HashSet,
    fmt,
    fs::{self, File},
    io::{self, Cursor, ErrorKind, Read},
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// How often the list of a part is read anew because a listed file has gone. A merge takes seconds, and a file that was found
/// whole is not read again, so a check that needs more has no end in sight.
const LISTS_MAX: usize = 1000;

/// The file of a part that names its version.
const CURRENT: &str = "current";

/// The check sum of a type that is known here: XXH3 with 128 bits.
const XXH3: u8 = 0;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedTables {
    /// Files that were read whole.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that are not as they were written.
    pub damaged: Vec<DamagedFile>,
}

/// A file of the database that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedFile {
    /// Its path.
    pub file: PathBuf,
    /// Its defect.
    pub defect: Defect,
}

/// A defect of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Defect {
    /// It is not there.
    Missing,
    /// Its bytes have another check sum.
    Changed,
    /// It has the right check sum, or none, and cannot be understood.
    Foreign,
    /// The disk does not give it.
    Unreadable(String),
}

impl fmt::Display for DamagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match &self.defect {
            Defect::Missing => write!(f, "{file} is missing"),
            Defect::Changed => write!(f, "{file} does not hold what was written"),
            Defect::Foreign => write!(
                f,
                "{file} is not in the form that this version of the database writes"
            ),
            Defect::Unreadable(why) => write!(f, "{file} cannot be read: {why}"),
        }
    }
}

/// Reads all files that a database consists of, beside its journals. Tells `read` after each part of a file how many bytes it
/// had. Blocks for as long as the disk needs for all of them.
///
/// # Errors
/// When the folder of the database cannot be listed.
pub(super) fn check(store: &Path, mut read: impl FnMut(u64)) -> io::Result<CheckedTables> {
    let mut checked = CheckedTables::default();
    for part in fs::read_dir(store.join("keyspaces"))? {
        let part = part?.path();
        if part.is_dir() {
            check_part(&part, &mut checked, &mut read);
        }
    }
    checked
        .damaged
        .sort_by(|one, other| one.file.cmp(&other.file));
    Ok(checked)
}

/// Checks a part of the database, again and again until no listed file has gone meanwhile.
fn check_part(part: &Path, checked: &mut CheckedTables, read: &mut impl FnMut(u64)) {
    let mut seen = HashSet::new();
    for _ in 0..LISTS_MAX {
        let list = match list(part) {
            Ok(list) => list,
            Err(Unlisted::Moved) => continue,
            Err(Unlisted::Damaged(damaged)) => return checked.damaged.push(damaged),
        };
        let mut gone = Vec::new();
        for file in list.files {
            if seen.contains(&file) {
                continue;
            }
            match sum(&file.path, read) {
                Ok((bytes, sum)) => {
                    checked.files += 1;
                    checked.bytes += bytes;
                    if sum != file.sum {
                        checked.damaged.push(damaged(&file.path, Defect::Changed));
                    }
                }
                Err(error) if error.kind() == ErrorKind::NotFound => gone.push(file.path.clone()),
                Err(error) => {
                    let defect = Defect::Unreadable(error.to_string());
                    checked.damaged.push(damaged(&file.path, defect));
                }
            }
            // A file that has gone is no part of the next list, or missing there too.
            seen.insert(file);
        }
        if gone.is_empty() {
            return;
        }
        if version(part).ok() == Some(list.version) {
            let missing = gone.iter().map(|file| damaged(file, Defect::Missing));
            return checked.damaged.extend(missing);
        }
    }
}

/// The files of a part at one moment.
struct List {
    version: Version,
    files: Vec<Listed>,
}

/// The version of a part, and the check sum of its list.
#[derive(PartialEq, Eq)]
struct Version {
    number: u64,
    sum: u128,
}

/// A file that a list names.
#[derive(PartialEq, Eq, Hash)]
struct Listed {
    path: PathBuf,
    sum: u128,
}

/// The reason why there is no list.
enum Unlisted {
    /// A newer one has taken its place meanwhile.
    Moved,
    Damaged(DamagedFile),
}

fn damaged(file: &Path, defect: Defect) -> DamagedFile {
    DamagedFile {
        file: file.to_owned(),
        defect,
    }
}

fn list(part: &Path) -> Result<List, Unlisted> {
    let version = version(part).map_err(Unlisted::Damaged)?;
    let file = part.join(format!("v{}", version.number));
    let is_current = || self::version(part).is_ok_and(|now| now == version);
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound && !is_current() => {
            return Err(Unlisted::Moved);
        }
        Err(error) => return Err(Unlisted::Damaged(unreadable(&file, &error))),
    };
    let defect = if xxh3_128(&bytes) == version.sum {
        match listed(part, &bytes) {
            Some(files) => return Ok(List { version, files }),
            None => Defect::Foreign,
        }
    } else {
        Defect::Changed
    };
    Err(Unlisted::Damaged(damaged(&file, defect)))
}

fn unreadable(file: &Path, error: &io::Error) -> DamagedFile {
    let defect = if error.kind() == ErrorKind::NotFound {
        Defect::Missing
    } else {
        Defect::Unreadable(error.to_string())
    };
    damaged(file, defect)
}

/// Reads which version of a part is the current one.
fn version(part: &Path) -> Result<Version, DamagedFile> {
    let file = part.join(CURRENT);
    let bytes = fs::read(&file).map_err(|error| unreadable(&file, &error))?;
    let mut fields = Fields(&bytes);
    let version = fields.u64().zip(fields.sum_with_type_behind());
    let version = version.filter(|_| fields.0.is_empty());
    let version = version.map(|(number, sum)| Version { number, sum });
    version.ok_or_else(|| damaged(&file, Defect::Foreign))
}

/// Reads the files that a list names; none where it is no list.
fn listed(part: &Path, bytes: &[u8]) -> Option<Vec<Listed>> {
    let archive = sfa::Reader::from_reader(&mut Cursor::new(bytes)).ok()?;
    let section = |name: &[u8]| -> Option<Fields<'_>> {
        let section = archive.toc().section(name)?;
        let from = usize::try_from(section.pos()).ok()?;
        let to = from.checked_add(usize::try_from(section.len()).ok()?)?;
        bytes.get(from..to).map(Fields)
    };
    let mut files = Vec::new();
    let mut name = |folder: &str, number: u64, sum: u128| {
        let path = part.join(folder).join(number.to_string());
        files.push(Listed { path, sum });
    };
    let mut tables = section(b"tables")?;
    for _level in 0..tables.u8()? {
        for _run in 0..tables.u8()? {
            for _table in 0..tables.u32()? {
                let number = tables.u64()?;
                name("tables", number, tables.sum_with_type_before()?);
                let _sequence = tables.u64()?;
            }
        }
    }
    let mut contents = section(b"blob_files")?;
    for _file in 0..contents.u32()? {
        let number = contents.u64()?;
        name("blobs", number, contents.sum_with_type_before()?);
    }
    (tables.0.is_empty() && contents.0.is_empty()).then_some(files)
}

/// The fields that are left of a list, the lowest byte of each first.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }

    fn sum_with_type_before(&mut self) -> Option<u128> {
        let kind = self.u8()?;
        self.u128().filter(|_| kind == XXH3)
    }

    fn sum_with_type_behind(&mut self) -> Option<u128> {
        let sum = self.u128()?;
        (self.u8()? == XXH3).then_some(sum)
    }
}

/// Reads a file; returns its bytes and their check sum.
fn sum(path: &Path, read: &mut impl FnMut(u64)) -> io::Result<(u64, u128)> {
    let mut file = File::open(path)?;
    let (mut chunk, mut sum, mut bytes) = (vec![0; CHUNK_BYTES], Xxh3::new(), 0);
    loop {
        let count = match file.read(&mut chunk) {
            Ok(0) => return Ok((bytes, sum.digest128())),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        sum.update(chunk.get(..count).unwrap_or_default());
        bytes += count as u64;
        read(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use tempfile::TempDir;
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;
    use crate::store::embedded::{
        disk::database::{Open, Space},
        tests::created,
    };

    /// A database with tables in two levels, and with contents that lie apart.
    fn written(directory: &TempDir) -> (PathBuf, Open) {
        let store = directory.path().join("store");
        let open = created(&store);
        let (row, body) = (open.space(Space::Row), open.space(Space::Body));
        for round in 0..3_u8 {
            for number in 0..100_u8 {
                row.insert([number, round], [round; 50]).unwrap();
            }
            // Nothing that packs well.
            let content: Vec<u8> = (0..12_500_u64)
                .flat_map(|word| xxh3_64(&word.to_le_bytes()).to_le_bytes())
                .collect();
            body.insert([round], content).unwrap();
            row.rotate_memtable_and_wait().unwrap();
            body.rotate_memtable_and_wait().unwrap();
            if round == 1 {
                row.major_compact().unwrap();
            }
        }
        (store, open)
    }

    fn checked(store: &Path) -> CheckedTables {
        check(store, |_| ()).unwrap()
    }

    /// The files of the tables, or of the contents.
    fn files(open: &Open, space: Space, folder: &str) -> Vec<PathBuf> {
        let (tables, _) = open.next_table(space);
        let folder = tables.with_file_name(folder);
        let files = fs::read_dir(folder).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }

    #[test]
    fn files_that_are_as_they_were_written_are_whole_in_use_and_out_of_use() {
        let directory = TempDir::new().unwrap();
        let (store, open) = written(&directory);
        let mut told = 0;
        let found = check(&store, |bytes| told += bytes).unwrap();
        assert_eq!(found.damaged, []);
        assert_eq!(found.bytes, told);
        assert!(found.bytes > 300_000, "the contents are read: {found:?}");
        // Two tables of rows, three of contents with a file each, and one that names the parts.
        assert!(found.files >= 9, "{found:?}");
        drop(open);
        assert_eq!(checked(&store), found);
    }

    #[test]
    fn one_changed_byte_anywhere_is_found_and_named() {
        let directory = TempDir::new().unwrap();
        let (store, open) = written(&directory);
        let whole = checked(&store).files;
        for (space, folder) in [(Space::Row, "tables"), (Space::Body, "blobs")] {
            for path in files(&open, space, folder) {
                let file = File::options().read(true).write(true).open(&path).unwrap();
                let length = file.metadata().unwrap().len();
                for at in [0, length / 2, length - 1] {
                    let mut byte = [0];
                    file.read_exact_at(&mut byte, at).unwrap();
                    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
                    let found = checked(&store);
                    assert_eq!(found.damaged, [damaged(&path, Defect::Changed)]);
                    assert_eq!(found.files, whole);
                    file.write_all_at(&byte, at).unwrap();
                }
            }
        }
        assert_eq!(checked(&store).damaged, []);
    }

    #[test]
    fn a_missing_file_and_a_damaged_list_are_found_and_named() {
        let directory = TempDir::new().unwrap();
        let (store, open) = written(&directory);
        let table = files(&open, Space::Row, "tables").remove(0);
        drop(open);
        let bytes = fs::read(&table).unwrap();
        fs::remove_file(&table).unwrap();
        assert_eq!(checked(&store).damaged, [damaged(&table, Defect::Missing)]);
        fs::write(&table, bytes).unwrap();

        let part = table.parent().and_then(Path::parent).unwrap();
        let number = version(part).map_err(|_| "no version").unwrap().number;
        let list = part.join(format!("v{number}"));
        let mut bytes = fs::read(&list).unwrap();
        bytes[20] ^= 1;
        fs::write(&list, &bytes).unwrap();
        assert_eq!(checked(&store).damaged, [damaged(&list, Defect::Changed)]);
        fs::write(part.join(CURRENT), [0; 3]).unwrap();
        let current = damaged(&part.join(CURRENT), Defect::Foreign);
        assert_eq!(checked(&store).damaged, [current]);
    }

    /// A table that is merged away between the list and its turn is none that is missing.
    #[test]
    fn a_file_that_is_merged_away_meanwhile_is_no_damage() {
        let directory = TempDir::new().unwrap();
        let (store, open) = written(&directory);
        let row = open.space(Space::Row);
        let mut merged = false;
        let found = check(&store, |_| {
            if !std::mem::replace(&mut merged, true) {
                row.major_compact().unwrap();
                // The files go with the next buffers that are written out.
                for round in 0..3_u8 {
                    row.insert([round], [round]).unwrap();
                    row.rotate_memtable_and_wait().unwrap();
                }
            }
        });
        assert_eq!(found.unwrap().damaged, []);
        assert_eq!(checked(&store).damaged, []);
    }
}
