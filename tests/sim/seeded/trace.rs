//! `Trace` keeps the events of a run as text and digest for a test that asks for them. Otherwise events are
//! only counted, since writing them costs more than the run.

use std::fmt::{self, Write};

/// The events of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    digest: u64,
    events: u64,
    kept: Option<String>,
}

impl Trace {
    pub(crate) fn new(keep: bool) -> Self {
        Self {
            digest: 0xcbf2_9ce4_8422_2325,
            events: 0,
            kept: keep.then(String::new),
        }
    }

    /// Notes an event at a time of the run.
    pub(crate) fn note(&mut self, at: i64, event: fmt::Arguments<'_>) {
        self.events += 1;
        if self.kept.is_none() {
            return;
        }
        writeln!(self, "{at} {event}").expect("a trace takes everything");
    }

    pub(crate) const fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    pub(crate) const fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    pub(crate) fn into_text(self) -> String {
        self.kept.unwrap_or_default()
    }
}

impl Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.digest = (self.digest ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
            self.digest ^= self.digest >> 29;
        }
        if let Some(kept) = &mut self.kept {
            kept.push_str(text);
        }
        Ok(())
    }
}
