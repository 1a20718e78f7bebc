//! `Target` gives a decoder the kept inputs first, then damaged samples until the time is up.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    time::Duration,
};

use tickwheel::time_source::TimeSource;
use xxhash_rust::xxh3::xxh3_64;

use super::mutate;

/// The seed of an ordinary run.
const SEED: u64 = 0x7469_636b_7768_6565;

/// The part of a target's seconds that an ordinary run takes: `make test` is short, and `make test-all` takes minutes.
const ORDINARY: u32 = 2;

/// Targets that share the minutes of a long run.
const TARGETS: u32 = 52;

/// A decoder with its samples, and the memory that it may take.
pub(crate) struct Target<'a> {
    pub(crate) name: &'static str,
    pub(crate) samples: Vec<Vec<u8>>,
    /// Words of the format.
    pub(crate) words: &'a [&'a str],
    /// Bytes of memory that may be held at once: a fixed number, and a number for each byte of the input.
    pub(crate) bytes_max: (u64, u64),
    /// The time that its first inputs need to reach everything that it reads, on a slow machine.
    pub(crate) seconds: u64,
}

impl Target<'_> {
    /// Tries inputs with `read`, which returns whether it accepted one and panics when anything is wrong.
    pub(crate) fn run(&self, read: impl FnMut(&[u8]) -> bool) {
        self.run_after(|| {}, read);
    }

    /// The same, with a step before each input whose memory does not count.
    pub(crate) fn run_after(&self, mut before: impl FnMut(), mut read: impl FnMut(&[u8]) -> bool) {
        let time = TimeSource::real();
        for (path, bytes) in self.kept() {
            assert!(
                self.holds(&bytes, &mut read).is_some(),
                "{}",
                path.display()
            );
        }
        for sample in &self.samples {
            let accepted = self.holds(sample, &mut read);
            let shown = String::from_utf8_lossy(sample);
            assert_eq!(accepted, Some(true), "{}: refused: {shown}", self.name);
        }
        let (seed, limit) = self.bounds(&time);
        let (mut tried, mut accepted) = (0, 0);
        let end = time.moment().after(limit);
        while time.moment() < end {
            before();
            let bytes = mutate::input(&self.samples, self.words, seed, tried);
            match self.holds(&bytes, &mut read) {
                Some(yes) => accepted += u64::from(yes),
                None => panic!(
                    "{}: input {tried} of seed {seed}: {}",
                    self.name,
                    self.keep(&bytes)
                ),
            }
            tried += 1;
        }
        eprintln!("| {} | {tried} | {accepted} | {seed} |", self.name);
        // A target that refuses all inputs does not test accepted values; one that accepts all
        // does not test refusals.
        assert!(
            accepted > 0 && accepted < tried,
            "{}: {accepted} of {tried}",
            self.name
        );
    }

    /// Returns none when a rule is broken, after the message about it.
    fn holds(&self, bytes: &[u8], read: &mut impl FnMut(&[u8]) -> bool) -> Option<bool> {
        let mut result = None;
        let used = allocation_counter::measure(|| {
            result = catch_unwind(AssertUnwindSafe(|| read(bytes))).ok();
        });
        // The message of a panic takes memory, too.
        result?;
        let (base, each) = self.bytes_max;
        let allowed = base + each * bytes.len() as u64;
        if used.bytes_max > allowed {
            let bytes = bytes.len();
            eprintln!(
                "{}: {bytes} bytes made it hold {}, {allowed} are allowed",
                self.name, used.bytes_max
            );
            return None;
        }
        result
    }

    /// Seed and time: fixed in an ordinary run, chosen by `make fuzz` otherwise.
    fn bounds(&self, time: &TimeSource) -> (u64, Duration) {
        let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let minutes: Option<u64> = given("TICKWHEEL_FUZZ_MINUTES");
        let seed = given("TICKWHEEL_FUZZ_SEED").unwrap_or_else(|| match minutes {
            Some(_) => time.random(),
            None => SEED,
        });
        let limit = match minutes {
            Some(minutes) => Duration::from_secs(minutes * 60) / TARGETS,
            None => Duration::from_secs(self.seconds) / ORDINARY,
        };
        (seed, limit)
    }

    fn folder(&self) -> PathBuf {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
        corpus.join(self.name)
    }

    fn kept(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let Ok(found) = fs::read_dir(self.folder()) else {
            return Vec::new();
        };
        let paths = found.map(|file| file.unwrap().path());
        paths
            .map(|path| (path.clone(), fs::read(&path).unwrap()))
            .collect()
    }

    fn keep(&self, bytes: &[u8]) -> String {
        let folder = self.folder();
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{:016x}", xxh3_64(bytes)));
        fs::write(&path, bytes).unwrap();
        format!("kept as {}", path.display())
    }
}
