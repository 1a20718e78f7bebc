//! The files of the database are listed and read here, for the check of a start.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
};

/// Bytes of a journal that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// The file that names the tables of a part of the database.
const CURRENT: &str = "current";

/// Lists the journals by number. Files with another name are left to the database, which refuses them.
pub(super) fn journals(store: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    for found in fs::read_dir(store)? {
        let path = found?.path();
        let number = path
            .file_stem()
            .and_then(|stem| stem.to_str()?.parse().ok());
        let is_journal = path.extension().is_some_and(|extension| extension == "jnl");
        if let Some(number) = number.filter(|_| is_journal) {
            journals.push((number, path));
        }
    }
    journals.sort();
    Ok(journals)
}

/// Returns the number of the newest journal; 0 where there is none.
pub(super) fn newest(store: &Path) -> io::Result<u64> {
    let journals = journals(store)?;
    Ok(journals.last().map_or(0, |(number, _)| *number))
}

fn folder_of_parts(store: &Path) -> PathBuf {
    store.join("keyspaces")
}

/// Returns the file without which the database takes a part for one that was never made, and begins it anew.
pub(super) fn current(store: &Path, part: u32) -> PathBuf {
    folder_of_parts(store).join(part.to_string()).join(CURRENT)
}

/// Lists the numbers of the parts of a database that are complete.
pub(super) fn parts(store: &Path) -> io::Result<impl Iterator<Item = u32>> {
    let parts = folders(store)?.into_iter();
    Ok(parts.filter(|part| current(store, *part).exists()))
}

/// Lists the numbers of the parts that lack what names their tables, and have tables. The first part lists the others, and is
/// there in any database.
pub(super) fn nameless(store: &Path) -> io::Result<Vec<u32>> {
    let mut nameless = Vec::new();
    for part in folders(store)?.into_iter().chain([0]) {
        let current = current(store, part);
        if nameless.contains(&part) || current.exists() {
            continue;
        }
        let mut tables = match fs::read_dir(current.with_file_name("tables")) {
            Ok(tables) => tables,
            Err(error) if error.kind() == ErrorKind::NotFound && part != 0 => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                nameless.push(part);
                continue;
            }
            Err(error) => return Err(error),
        };
        if part == 0 || tables.next().is_some() {
            nameless.push(part);
        }
    }
    nameless.sort_unstable();
    Ok(nameless)
}

/// Lists the files that are missing and without which the database is not opened: its version, its lock, and of each
/// complete part the list of its tables.
pub(super) fn absent(store: &Path) -> io::Result<Vec<PathBuf>> {
    let own = ["version", "lock"].map(|name| store.join(name));
    let mut absent: Vec<PathBuf> = own.into_iter().filter(|file| !file.exists()).collect();
    for part in parts(store)? {
        let current = current(store, part);
        let folder = current.parent().unwrap_or(store);
        let mut has_list = false;
        for found in fs::read_dir(folder)? {
            has_list |= found?.file_name().to_string_lossy().starts_with('v');
        }
        if !has_list {
            absent.push(folder.join("v*"));
        }
    }
    Ok(absent)
}

fn folders(store: &Path) -> io::Result<Vec<u32>> {
    let listed = match fs::read_dir(folder_of_parts(store)) {
        Ok(listed) => listed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for found in listed {
        let name = found?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// Reads the written bytes of a journal, without the zeros at its end: its file is made longer than its
/// contents.
pub(super) fn written(path: &Path) -> io::Result<Vec<u8>> {
    static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];
    let mut file = File::open(path)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut bytes, mut zeros) = (Vec::new(), 0);
    loop {
        let read = file.read(&mut chunk)?;
        let read = chunk.get(..read).unwrap_or_default();
        if read.is_empty() {
            return Ok(bytes);
        }
        if ZEROS.starts_with(read) {
            zeros += read.len();
            continue;
        }
        let used = read
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        bytes.resize(bytes.len() + zeros, 0);
        bytes.extend_from_slice(read.get(..used).unwrap_or_default());
        zeros = read.len() - used;
    }
}
