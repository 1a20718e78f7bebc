//! The policy for undelivered tasks tells every stage what to do with a task that is due and may not go out now.
//!
//! One function decides, from the reason and from the stage that has the task; stages only carry it out. A
//! gate that is not open is a reason to hold the task as a row of its own. The release stage drops it where the
//! gate says so. A rate that is used up will be a reason here.

use std::time::Duration;

use super::target::Class;

/// How long an entry that fails alone is tried in place before something durable stands in for it.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The same for a tracked task that the queue did not acknowledge: trying again costs next to nothing, and its look may come a
/// claim timeout later. A broker that dies is missed by the others after some nine seconds.
pub const UNCONFIRMED_PATIENCE: Duration = Duration::from_secs(15);

/// How long a look that fails is tried in place before it is put further on: longer than a server takes to start again.
pub const LOOK_PATIENCE: Duration = Duration::from_secs(60);

/// Why a task may not go out now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is not due by this node's clock.
    Early,
    /// Its content, kept apart, cannot be read now.
    ContentAway,
    /// Its content, kept apart, is gone.
    ContentGone,
    /// The queue does not acknowledge it for a while.
    Unconfirmed,
    /// Its topic is missing.
    NoSuchTopic,
    /// The queue will never take it: it is too large, or not allowed.
    Refused,
    /// Its row cannot be read now.
    RowAway,
    /// Its row cannot be understood.
    RowUnreadable,
    /// The memory has no room for it: none at all, or its lane has its share.
    NoRoom,
    /// A gate of its callback is not open.
    Gated,
    /// It cannot be told whether a gate of its callback is open.
    GateUnknown,
    /// It is a run of a schedule that would be late, and has not been decided on again yet.
    Undecided,
    /// It was such a run, and its row says that it does not run.
    Withdrawn,
}

/// The stage that has the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The reader of a wheel has its entry, ahead of its time.
    Read,
    /// The owner of a wheel fires its entry.
    Fire {
        /// How long that has failed.
        failing: Duration,
        /// The queue has acknowledged other tasks within [`PATIENCE`].
        others_pass: bool,
    },
    /// It waits in the memory of near tasks.
    Near {
        /// Its durable record comes up before it would be tried again, or it was tried for long while others passed.
        record_comes: bool,
        /// The record takes it for published, and it never was.
        never_published: bool,
    },
    /// Its look asks for a publication; a successor of the look is durable.
    Look,
    /// A node that starts goes on with what was under way.
    Recovery,
    /// It was held, and its gate was opened; its row still stands.
    Release,
}

/// The remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The same stage tries again, shortly or as room comes.
    RetryHere,
    /// Its durable record stands in for it: its look, or the backup entry of a near record.
    LeaveToLook,
    /// The same, and one more look is put, which comes soon and does not take the task for published.
    LookSoon,
    /// Its entry is put into a later slot, with its start kept.
    FurtherOn,
    /// It is set aside for a person.
    SetAside,
    /// It is held: a row of its own stands for it, with its look behind, until its gate opens.
    Hold,
}

/// Decides what to do with a task of a class that may not go out now.
#[must_use]
pub const fn action(reason: Reason, stage: Stage, class: Class) -> Action {
    match (reason, stage) {
        // Its row ends it, at the next look.
        (Reason::Withdrawn, _) => Action::LeaveToLook,
        // Nothing has been handed over at that stage.
        (Reason::Gated, Stage::Read) => Action::RetryHere,
        (Reason::Gated, _) => Action::Hold,
        _ => of_stage(reason, stage, class),
    }
}

const fn of_stage(reason: Reason, stage: Stage, class: Class) -> Action {
    match stage {
        // The second reader comes back to it, and `fired` waits for it.
        Stage::Read => Action::RetryHere,
        Stage::Fire {
            failing,
            others_pass,
        } => fire(reason, failing, others_pass, class),
        Stage::Near {
            record_comes,
            never_published,
        } => match reason {
            Reason::Early
            | Reason::ContentAway
            | Reason::Unconfirmed
            | Reason::GateUnknown
            | Reason::Undecided
                if !record_comes =>
            {
                Action::RetryHere
            }
            Reason::NoRoom => Action::LeaveToLook,
            _ if never_published => look_of(reason, class),
            _ => Action::LeaveToLook,
        },
        Stage::Look => match reason {
            Reason::RowAway => Action::RetryHere,
            Reason::RowUnreadable => Action::SetAside,
            // The look waits in its place, and is put further on behind [`LOOK_PATIENCE`] while the queue takes others.
            Reason::Unconfirmed | Reason::ContentAway | Reason::GateUnknown | Reason::Undecided => {
                Action::RetryHere
            }
            _ => look_of(reason, class),
        },
        // Its look may come a claim timeout later.
        Stage::Recovery => match reason {
            Reason::Unconfirmed | Reason::ContentAway | Reason::GateUnknown | Reason::Undecided => {
                Action::RetryHere
            }
            _ => Action::LeaveToLook,
        },
        Stage::Release => match reason {
            // They will not come; its look, or a person, sees to it.
            Reason::ContentGone | Reason::Refused | Reason::RowUnreadable => Action::LeaveToLook,
            _ => Action::RetryHere,
        },
    }
}

const fn fire(reason: Reason, failing: Duration, others_pass: bool, class: Class) -> Action {
    let alone = others_pass && failing.as_millis() >= PATIENCE.as_millis();
    let long = failing.as_millis() >= UNCONFIRMED_PATIENCE.as_millis();
    match (reason, class) {
        (
            Reason::Early
            | Reason::ContentAway
            | Reason::RowAway
            | Reason::NoRoom
            | Reason::GateUnknown,
            _,
        ) => Action::RetryHere,
        // A schedule that cannot be read does not hold up the hand of its wheel: the look asks it again.
        (Reason::Undecided, Class::Tracked) if long => look_of(reason, class),
        (Reason::Undecided, _) => Action::RetryHere,
        (Reason::Unconfirmed, _) if !alone => Action::RetryHere,
        (Reason::Unconfirmed, Class::Tracked) if !long => Action::RetryHere,
        (Reason::Refused | Reason::RowUnreadable, _) | (Reason::ContentGone, Class::Record) => {
            Action::SetAside
        }
        // The content expires with a terminal task; the look reads the row and knows.
        (_, Class::Tracked) => look_of(reason, class),
        // This holds however long the outage lasts: an outage is no reason to set an entry aside.
        (_, Class::Record) => Action::FurtherOn,
    }
}

/// Leaves a task to a look that comes soon, where there is something to publish then and a look at all.
const fn look_of(reason: Reason, class: Class) -> Action {
    match (reason, class) {
        (Reason::ContentGone, _) | (_, Class::Record) => Action::LeaveToLook,
        (_, Class::Tracked) => Action::LookSoon,
    }
}

#[cfg(test)]
mod tests {
    use super::{Action::*, Class::*, Reason::*, *};

    const SENT: [Reason; 6] = [
        Early,
        ContentAway,
        ContentGone,
        Unconfirmed,
        NoSuchTopic,
        Refused,
    ];

    /// The actions for all reasons of a publication, in their order.
    fn row(stage: Stage, class: Class) -> [Action; 6] {
        SENT.map(|reason| action(reason, stage, class))
    }

    const fn fired(failing_ms: u64, others_pass: bool) -> Stage {
        Stage::Fire {
            failing: Duration::from_millis(failing_ms),
            others_pass,
        }
    }

    const fn near(record_comes: bool, never_published: bool) -> Stage {
        Stage::Near {
            record_comes,
            never_published,
        }
    }

    #[test]
    fn a_firing_entry_waits_for_the_queue_and_passes_what_fails_alone() {
        let table = [
            (fired(0, true), Tracked, RetryHere),
            (fired(0, true), Record, RetryHere),
            (fired(1_999, true), Record, RetryHere),
            (fired(2_000, true), Record, FurtherOn),
            (fired(600_000, false), Record, RetryHere),
            (fired(600_000, false), Tracked, RetryHere),
            (fired(14_999, true), Tracked, RetryHere),
            (fired(15_000, true), Tracked, LookSoon),
        ];
        for (stage, class, unconfirmed) in table {
            let [early, away, gone, silent, no_topic, refused] = row(stage, class);
            let (gone_is, no_topic_is) = match class {
                Tracked => (LeaveToLook, LookSoon),
                Record => (SetAside, FurtherOn),
            };
            let case = (stage, class);
            assert_eq!([early, away], [RetryHere, RetryHere], "{case:?}");
            assert_eq!(silent, unconfirmed, "{case:?}");
            assert_eq!([gone, no_topic], [gone_is, no_topic_is], "{case:?}");
            assert_eq!(refused, SetAside, "{case:?}");
        }
    }

    #[test]
    fn a_near_task_is_tried_until_its_durable_record_takes_over() {
        let left = [LeaveToLook; 6];
        let tried = |left: Action| [RetryHere, RetryHere, LeaveToLook, RetryHere, left, left];
        let soon = [
            LookSoon,
            LookSoon,
            LeaveToLook,
            LookSoon,
            LookSoon,
            LookSoon,
        ];
        assert_eq!(row(near(false, true), Tracked), tried(LookSoon));
        assert_eq!(row(near(false, false), Tracked), tried(LeaveToLook));
        assert_eq!(row(near(true, true), Tracked), soon);
        assert_eq!(row(near(true, false), Tracked), left);
        assert_eq!(row(near(false, true), Record), tried(LeaveToLook));
        assert_eq!(row(near(true, true), Record), left);
    }

    #[test]
    fn a_look_waits_for_what_passes_and_comes_back_soon_for_the_rest() {
        let soon = [
            LookSoon,
            RetryHere,
            LeaveToLook,
            RetryHere,
            LookSoon,
            LookSoon,
        ];
        assert_eq!(row(Stage::Look, Tracked), soon);
        assert_eq!(action(RowAway, Stage::Look, Tracked), RetryHere);
        assert_eq!(action(RowUnreadable, Stage::Look, Tracked), SetAside);
    }

    #[test]
    fn a_recovery_waits_for_what_passes_and_leaves_the_rest_to_the_looks() {
        for class in [Tracked, Record] {
            let [early, away, gone, silent, no_topic, refused] = row(Stage::Recovery, class);
            assert_eq!([away, silent], [RetryHere; 2]);
            assert_eq!([early, gone, no_topic, refused], [LeaveToLook; 4]);
            for reason in [RowAway, RowUnreadable, NoRoom] {
                assert_eq!(action(reason, Stage::Recovery, class), LeaveToLook);
            }
        }
    }

    #[test]
    fn a_task_behind_a_closed_gate_is_held_by_every_stage_that_would_publish_it() {
        let stages = [
            fired(0, true),
            fired(600_000, false),
            near(false, true),
            near(true, false),
            Stage::Look,
            Stage::Recovery,
            Stage::Release,
        ];
        for stage in stages {
            assert_eq!(action(Gated, stage, Tracked), Hold, "{stage:?}");
        }
        assert_eq!(action(Gated, Stage::Read, Tracked), RetryHere);
    }

    #[test]
    fn a_gate_that_is_not_known_is_asked_again_or_left_to_the_look() {
        for failing in [0, 2_000, 600_000] {
            assert_eq!(
                action(GateUnknown, fired(failing, true), Tracked),
                RetryHere
            );
        }
        assert_eq!(action(GateUnknown, near(false, true), Tracked), RetryHere);
        assert_eq!(action(GateUnknown, near(true, true), Tracked), LookSoon);
        assert_eq!(action(GateUnknown, near(true, false), Tracked), LeaveToLook);
        assert_eq!(action(GateUnknown, Stage::Look, Tracked), RetryHere);
        assert_eq!(action(GateUnknown, Stage::Recovery, Tracked), RetryHere);
        assert_eq!(action(GateUnknown, Stage::Release, Tracked), RetryHere);
    }

    #[test]
    fn a_late_run_waits_for_its_schedule_and_is_dropped_where_that_withdraws_it() {
        let long = u64::try_from(UNCONFIRMED_PATIENCE.as_millis()).unwrap();
        let stages = [
            fired(long - 1, true),
            near(false, true),
            Stage::Look,
            Stage::Recovery,
            Stage::Release,
        ];
        // A schedule that cannot be read does not hold up its wheel.
        assert_eq!(action(Undecided, fired(long, true), Tracked), LookSoon);
        assert_eq!(action(Undecided, fired(long, true), Record), RetryHere);
        for (stage, class) in stages
            .into_iter()
            .flat_map(|stage| [(stage, Tracked), (stage, Record)])
        {
            assert_eq!(action(Undecided, stage, class), RetryHere, "{stage:?}");
            assert_eq!(action(Withdrawn, stage, class), LeaveToLook, "{stage:?}");
        }
        assert_eq!(action(Undecided, near(true, true), Tracked), LookSoon);
        assert_eq!(action(Undecided, near(true, false), Record), LeaveToLook);
    }

    #[test]
    fn a_held_task_stays_so_while_it_may_still_go_out() {
        let row = row(Stage::Release, Tracked);
        assert_eq!(
            row,
            [
                RetryHere,
                RetryHere,
                LeaveToLook,
                RetryHere,
                RetryHere,
                LeaveToLook
            ]
        );
    }

    #[test]
    fn what_there_is_no_room_for_is_read_again_or_left_to_its_durable_record() {
        for class in [Tracked, Record] {
            assert_eq!(action(NoRoom, Stage::Read, class), RetryHere);
            assert_eq!(action(NoRoom, near(false, true), class), LeaveToLook);
        }
    }
}
