//! The types of causes of a time tell clients why a schedule did not start a run at it.

use std::fmt;

use serde::{Deserialize, Serialize};
#[cfg(feature = "server")]
use utoipa::ToSchema;

use super::{text::InstantText, why::CauseTask};

/// Why a schedule has no run at a time, or the run that it has.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ScheduleWhyResponse {
    /// The name of the schedule.
    pub name: String,
    /// The time that was asked for.
    pub scheduled_time: InstantText,
    /// When this was read.
    pub time: InstantText,
    /// One sentence for people.
    pub sentence: String,
    /// The cause, of which there is one.
    pub causes: Vec<ScheduleCause>,
    /// The last time of the schedule before the one that was asked for, by its present settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_time: Option<InstantText>,
    /// The next time of the schedule behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_time: Option<InstantText>,
}

/// The cause that a time of a schedule has no run, or the run that it has. Fields that say nothing about it are left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[non_exhaustive]
pub struct ScheduleCause {
    /// Its kind.
    pub code: ScheduleCauseCode,
    /// The cause in one sentence, for people.
    pub detail: String,
    /// The remedy, for people; absent where there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Since when it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<InstantText>,
    /// Until when it holds, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<InstantText>,
    /// Whether it is known. Of a time before the last change of the schedule only its runs are.
    pub certain: bool,
    /// The person who paused the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The reason that was given for the pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The policy that has decided: of `overlap`, or of `missed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The task of the run. Its own causes say why it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<CauseTask>,
}

/// The kind of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ScheduleCauseCode {
    /// The time is ahead.
    NotDue,
    /// It has a run.
    Started,
    /// Its run waits for the end of another.
    Waits,
    /// It was skipped, since another run had not ended.
    Overlap,
    /// It was missed, and not made up for.
    Missed,
    /// The schedule is paused.
    Paused,
    /// Its limit or its times are used up.
    Ended,
    /// It lies before the start or behind the end of the schedule.
    OutOfSpan,
    /// The clocks of its zone were put forward over it.
    ZoneGap,
    /// It is none of its times.
    NotATime,
    /// The schedule was created or changed after it.
    Changed,
    /// The service has not come to it yet.
    Undecided,
    /// It lies further back than runs are listed.
    Forgotten,
}

impl ScheduleCauseCode {
    /// Returns the name used in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotDue => "not_due",
            Self::Started => "started",
            Self::Waits => "waits",
            Self::Overlap => "overlap",
            Self::Missed => "missed",
            Self::Paused => "paused",
            Self::Ended => "ended",
            Self::OutOfSpan => "out_of_span",
            Self::ZoneGap => "zone_gap",
            Self::NotATime => "not_a_time",
            Self::Changed => "changed",
            Self::Undecided => "undecided",
            Self::Forgotten => "forgotten",
        }
    }
}

impl fmt::Display for ScheduleCauseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
