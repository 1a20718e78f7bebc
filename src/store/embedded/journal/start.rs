//! The start check guards each start of the store against damaged journals: damage is refused, a torn end is
//! cut off.

use std::{
    io::{self, ErrorKind},
    path::Path,
};

use super::{
    Damage, Torn, look,
    mend::{self, Cut},
};
use crate::store::{Error, embedded::faults::refused};

/// Looks at all journals before the database may touch them, and cuts off the parts that a crash has left
/// half written.
///
/// # Errors
/// [`Error::Corrupt`] when one is damaged. No file was changed then, and the reason says what to do.
pub(in crate::store::embedded) fn prepare(store: &Path) -> Result<(), Error> {
    let found = match look(store) {
        Ok(found) => found,
        // A new directory has none yet.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(store, &error)),
    };
    if let Some(refusal) = refusal(store, &found.damages) {
        return Err(refusal);
    }
    for torn in found.torn {
        cut_off(&torn).map_err(|error| refused(&torn.journal, &error))?;
    }
    Ok(())
}

/// Describes the damage, its cost and the remedy.
fn refusal(path: &Path, damages: &[Damage]) -> Option<Error> {
    let first = damages.first()?;
    let others = match damages.len() - 1 {
        0 => String::new(),
        others => format!(" ({others} more places are damaged)"),
    };
    let directory = path.parent().unwrap_or(path).display();
    let remedy = match damages.iter().find(|damage| !damage.kind.is_mended()) {
        None => format!(
            "what was registered, claimed or settled in that place is lost here: restore a copy of the directory, or set the \
             place aside and keep the rest with `tickwheel doctor --repair --data-dir {directory}`"
        ),
        Some(_) => "what it held is lost here, and no repair brings it back: restore a copy of the directory, or a backup into a \
                    new one with `tickwheel backup restore`"
            .to_owned(),
    };
    let reason = format!("{first}{others}; {remedy}");
    Some(Error::Corrupt {
        operation: "open the store",
        reason,
    })
}

/// Cuts off the end of a journal that a crash has left.
fn cut_off(torn: &Torn) -> io::Result<()> {
    let Cut { bytes, kept } = mend::cut_off(&torn.journal, torn.at)?;
    let kept = kept.map_or_else(
        || "nowhere, the disk is full".to_owned(),
        |kept| kept.display().to_string(),
    );
    tracing::warn!(
        journal = %torn.journal.display(), at = torn.at, bytes, kept,
        "cut a half-written end off the journal; it was never acknowledged"
    );
    Ok(())
}
