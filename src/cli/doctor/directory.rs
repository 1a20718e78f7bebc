//! This look tells an operator whether the directory of the embedded store can be used and is healthy.
//!
//! It checks the speed of the disk, and whether the node that uses the directory is well.

use std::{
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use indicatif::HumanBytes;

use crate::{
    cli::{
        Failure,
        backup::{bytes_bar, in_thread},
        finding::{Finding, bad, good},
        reach,
    },
    config::Settings,
    model::time::Millis,
    store::embedded::{
        self, CheckedTables, Found, RESERVE_BYTES_DEFAULT,
        journal::{Damage, Kind, Repaired},
    },
    time_source::TimeSource,
};

/// If a sync usually takes longer than this, the disk limits the service: each acknowledgement waits for one.
const SYNC_P50_MAX: Duration = Duration::from_millis(20);

/// How far the clock may be behind the last write: files are stamped by the clock, exact to some
/// milliseconds.
const CLOCK_BEHIND_MAX: Duration = Duration::from_secs(2);

/// How long the node that uses the directory may take to report its state.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Damaged files that are named one by one.
const DAMAGED_SHOWN_MAX: usize = 20;

/// Looks at the whole store.
pub(super) async fn look(settings: &Settings, time: &TimeSource) -> Result<Vec<Finding>, Failure> {
    const ABOUT: &str = "data directory";
    let (directory, shown) = (&settings.data_dir, settings.data_dir.display());
    let mut findings = Vec::new();
    let inspected = embedded::inspect(directory, &settings.shape()?);
    match &inspected {
        Ok(Found::Nothing) => findings.push(good(
            ABOUT,
            format!("nothing is in {shown} yet: `tickwheel serve` sets it up"),
        )),
        Ok(Found::Free) => findings.push(good(
            ABOUT,
            format!("{shown} has the format of this version; no process uses it"),
        )),
        Ok(Found::InUse(holder)) => {
            findings.push(good(ABOUT, format!("{shown} is in use by {holder}")));
            findings.push(node(settings).await?);
            findings.extend(super::workers::look(settings).await?);
        }
        Err(error) => findings.push(bad(ABOUT, error.to_string())),
    }
    if matches!(inspected, Ok(Found::Free)) {
        findings.extend(journals(directory));
    }
    findings.extend(open_to_others(directory));
    findings.extend(disk(&existing(directory), time).await);
    findings.push(clock(directory, time.now()));
    Ok(findings)
}

/// Looks for what others than the owner can read.
fn open_to_others(directory: &Path) -> Option<Finding> {
    let open = embedded::open_to_others(directory)?;
    let (open, shown) = (open.display(), directory.display());
    let text = format!(
        "others than the owner can read {open}, which holds payloads and secrets: chmod -R go= {shown}"
    );
    Some(bad("rights", text))
}

/// Looks for damage in the journals; the next start repairs a torn end.
fn journals(directory: &Path) -> Vec<Finding> {
    const ABOUT: &str = "journals";
    let found = match embedded::damages(directory) {
        Ok(found) => found,
        Err(error) => return vec![bad(ABOUT, error.to_string())],
    };
    if found.is_empty() {
        return vec![good(ABOUT, "they are whole")];
    }
    let told = |damage: &Damage| {
        let remedy = if damage.kind.is_mended() {
            "restore a copy, or run `tickwheel doctor --repair`, which keeps what is whole"
        } else {
            "restore a copy, or a backup into a new directory with `tickwheel backup restore`"
        };
        bad(ABOUT, format!("{damage}: {remedy}"))
    };
    found.iter().map(told).collect()
}

/// Reads all tables.
pub(super) async fn tables(settings: &Settings) -> Result<Vec<Finding>, Failure> {
    const ABOUT: &str = "tables";
    let directory = settings.data_dir.clone();
    let checked = in_thread(move || {
        let bar = bytes_bar();
        let checked = embedded::check_tables(&directory, |bytes| bar.inc(bytes));
        bar.finish_and_clear();
        Ok(checked)
    });
    Ok(match checked.await? {
        Ok(checked) => of_tables(&checked),
        Err(error) => vec![bad(ABOUT, error.to_string())],
    })
}

fn of_tables(
    CheckedTables {
        files,
        bytes,
        damaged,
    }: &CheckedTables,
) -> Vec<Finding> {
    const ABOUT: &str = "tables";
    if *files == 0 && damaged.is_empty() {
        return vec![good(ABOUT, "there are none yet")];
    }
    if damaged.is_empty() {
        let read = HumanBytes(*bytes);
        let text =
            format!("the {files} files of the database hold what was written ({read} were read)");
        return vec![good(ABOUT, text)];
    }
    let told = damaged.iter().take(DAMAGED_SHOWN_MAX).map(|file| {
        let text = format!(
            "{file}: look after the disk, and restore a backup into a new directory with `tickwheel backup restore`"
        );
        bad(ABOUT, text)
    });
    let more = damaged.len().saturating_sub(DAMAGED_SHOWN_MAX);
    let more = (more > 0).then(|| bad(ABOUT, format!("{more} more files are damaged")));
    told.chain(more).collect()
}

/// Repairs the journals.
pub(super) fn repair(settings: &Settings) -> Vec<Finding> {
    const ABOUT: &str = "repair";
    let repaired = match embedded::repair(&settings.data_dir) {
        Ok(repaired) => repaired,
        Err(error) => return vec![bad(ABOUT, error.to_string())],
    };
    if repaired.is_empty() {
        return vec![good(ABOUT, "there was nothing that it can mend")];
    }
    let told = |Repaired { damage, aside }: &Repaired| {
        let done = match (damage.kind, aside) {
            (Kind::CutOff { .. }, _) => {
                return good(ABOUT, format!("{damage}: what is missing is given up"));
            }
            (_, None) => "an empty one stands in its place".to_owned(),
            (_, Some(aside)) => {
                format!("a copy of the place is set aside as {}", aside.display())
            }
        };
        let kept = damage.whole_behind;
        good(
            ABOUT,
            format!("{damage}: {done}; the {kept} whole batches behind it are kept"),
        )
    };
    repaired.iter().map(told).collect()
}

/// Compares the clock with the last write to the directory. If it is behind that, tasks are late by the
/// difference.
fn clock(directory: &Path, now: Millis) -> Finding {
    const ABOUT: &str = "clock";
    let files = |directory: PathBuf| std::fs::read_dir(directory).into_iter().flatten().flatten();
    let written = files(directory.to_owned())
        .chain(files(directory.join("store")))
        .filter_map(|file| file.metadata().ok()?.modified().ok())
        .filter_map(|at| at.duration_since(UNIX_EPOCH).ok())
        .max();
    let ahead = written.map_or(Duration::ZERO, |at| {
        at.saturating_sub(Duration::from_millis(now.0.unsigned_abs()))
    });
    if ahead > CLOCK_BEHIND_MAX {
        let text = format!(
            "it is {} s behind the time at which the directory was last written: set it right (NTP), or tasks that were \
             registered then wait so much longer",
            ahead.as_secs()
        );
        bad(ABOUT, text)
    } else {
        good(ABOUT, "it is not behind what was written last")
    }
}

/// Returns the directory, or the existing one in which it would be made.
fn existing(directory: &Path) -> PathBuf {
    let mut candidates = directory.ancestors();
    let found = candidates.find(|path| path.exists());
    match found {
        Some(path) if path.as_os_str().is_empty() => PathBuf::from("."),
        Some(path) => path.to_owned(),
        None => PathBuf::from("."),
    }
}

/// Asks the node that uses the directory for its state.
async fn node(settings: &Settings) -> Result<Finding, Failure> {
    const ABOUT: &str = "node";
    let url = settings.url();
    let client = reach::builder(&url, reach::access_of_environment()?);
    let client = client.build()?.call_limit(ANSWER_MAX);
    Ok(match client.ready().await {
        Ok(()) => good(ABOUT, format!("{url} is ready")),
        Err(error) => bad(
            ABOUT,
            format!(
                "{url} is not ready ({error}): is that where it listens (--listen)? see its /readyz?verbose and its log"
            ),
        ),
    })
}

async fn disk(directory: &Path, time: &TimeSource) -> Vec<Finding> {
    let (path, clock) = (directory.to_owned(), time.clone());
    let probing = tokio::task::spawn_blocking(move || embedded::probe(&path, &clock));
    let probed = match probing.await {
        Ok(Ok(probed)) => probed,
        Ok(Err(error)) => return vec![bad("disk", error.to_string())],
        Err(error) => return vec![bad("disk", error.to_string())],
    };
    vec![sync(&probed), space(&probed, directory)]
}

fn sync(probed: &embedded::Probed) -> Finding {
    const ABOUT: &str = "disk sync";
    let times = format!(
        "a write is safe in {:.1?}, the slowest took {:.1?}",
        probed.sync_p50, probed.sync_max
    );
    if probed.sync_p50 > SYNC_P50_MAX {
        let limit = SYNC_P50_MAX.as_millis();
        let text = format!(
            "{times}: every registration, claim and settle waits for one; use a disk that takes less than {limit} ms"
        );
        bad(ABOUT, text)
    } else {
        good(ABOUT, times)
    }
}

fn space(probed: &embedded::Probed, directory: &Path) -> Finding {
    const ABOUT: &str = "free space";
    const MIB: u64 = 1 << 20;
    let (free, reserve) = (probed.free_bytes / MIB, RESERVE_BYTES_DEFAULT / MIB);
    let shown = directory.display();
    // Twice, since a service that starts with less is soon full.
    if probed.free_bytes < RESERVE_BYTES_DEFAULT * 2 {
        let text = format!(
            "{free} MiB are free at {shown}, new tasks are refused below {reserve}: free some, or use a larger disk"
        );
        bad(ABOUT, text)
    } else {
        good(ABOUT, format!("{free} MiB are free at {shown}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_or_full_disk_is_a_problem_that_says_what_to_do() {
        let probed = |sync_ms, free_bytes| embedded::Probed {
            sync_p50: Duration::from_millis(sync_ms),
            sync_max: Duration::from_millis(sync_ms * 3),
            free_bytes,
        };
        let here = Path::new("/data");
        let (fine, broken) = (probed(2, 1 << 40), probed(80, 600 << 20));
        assert!(sync(&fine).result.is_ok() && space(&fine, here).result.is_ok());
        let slow = sync(&broken).result.unwrap_err();
        assert!(
            slow.contains("80.0ms") && slow.contains("use a disk"),
            "{slow}"
        );
        let full = space(&broken, here).result.unwrap_err();
        assert!(
            full.contains("600 MiB") && full.contains("free some"),
            "{full}"
        );
    }

    #[test]
    fn damaged_tables_are_named_and_many_are_counted() {
        let damaged = |count: usize| {
            let file = |number: usize| embedded::DamagedFile {
                file: PathBuf::from(format!("/data/store/keyspaces/1/tables/{number}")),
                defect: embedded::Defect::Changed,
            };
            of_tables(&CheckedTables {
                files: 30,
                bytes: 3 << 20,
                damaged: (0..count).map(file).collect(),
            })
        };
        let none = of_tables(&CheckedTables::default()).remove(0);
        assert_eq!(none.result.as_deref(), Ok("there are none yet"));
        let fine = damaged(0).remove(0).result.unwrap();
        assert!(
            fine.contains("30 files") && fine.contains("3.00 MiB"),
            "{fine}"
        );
        let one = damaged(1).remove(0).result.unwrap_err();
        for words in ["tables/0 does not hold", "tickwheel backup restore"] {
            assert!(one.contains(words), "{one}");
        }
        let many = damaged(25);
        assert_eq!(many.len(), DAMAGED_SHOWN_MAX + 1);
        let last = many[DAMAGED_SHOWN_MAX].result.as_ref().unwrap_err();
        assert!(last.starts_with("5 more"), "{last}");
    }

    #[test]
    fn a_clock_behind_the_last_write_is_a_problem() {
        let directory = tempfile::tempdir().unwrap();
        assert!(clock(directory.path(), Millis(1)).result.is_ok());
        std::fs::write(directory.path().join("FORMAT"), "x").unwrap();
        let now = TimeSource::real().now();
        assert!(clock(directory.path(), now).result.is_ok());
        let behind = clock(directory.path(), now.before(Duration::from_secs(3600)));
        let text = behind.result.unwrap_err();
        assert!(
            text.contains("3600 s behind") || text.contains("3599 s behind"),
            "{text}"
        );
    }

    #[test]
    fn a_directory_that_is_not_there_is_measured_where_it_would_be_made() {
        assert_eq!(existing(Path::new("/tmp/no-such/dir")), Path::new("/tmp"));
        assert_eq!(existing(Path::new("no-such-dir")), Path::new("."));
    }
}
