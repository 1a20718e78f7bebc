//! This conversion turns the cause of a time of a schedule into words and fields for clients.

use super::{schedule_view, task_view::some_text};
use crate::{
    api::{
        schedule_why::{ScheduleCause, ScheduleCauseCode, ScheduleWhyResponse},
        why::CauseTask,
    },
    flow::base::api::TaskView,
    model::{
        schedule::{
            life::{Missed, Overlap, Schedule},
            plan::Plan,
            why::What,
        },
        time::{Millis, rfc3339},
    },
};

/// A time of a schedule, and all that is told of it.
#[derive(Debug)]
pub(in crate::http) struct Asked<'a> {
    pub(in crate::http) name: &'a str,
    pub(in crate::http) schedule: &'a Schedule,
    pub(in crate::http) plan: &'a Plan,
    pub(in crate::http) time: Millis,
    pub(in crate::http) now: Millis,
    pub(in crate::http) what: &'a What,
    /// The task of the run, if there is one.
    pub(in crate::http) task: Option<&'a TaskView>,
}

/// Converts the cause of a time.
#[must_use]
pub(in crate::http) fn response(asked: &Asked<'_>) -> ScheduleWhyResponse {
    let Asked { plan, time, .. } = *asked;
    let cause = cause(asked);
    let from = asked.schedule.anchor();
    ScheduleWhyResponse {
        name: asked.name.to_owned(),
        scheduled_time: time.into(),
        time: asked.now.into(),
        sentence: cause.detail.clone(),
        causes: vec![cause],
        previous_time: plan.last(from, Millis(time.0 - 1)).map(Into::into),
        next_time: plan.next(time).map(Into::into),
    }
}

const fn code(what: &What) -> ScheduleCauseCode {
    match what {
        What::NotDue => ScheduleCauseCode::NotDue,
        What::Started(_) => ScheduleCauseCode::Started,
        What::Waits(_) => ScheduleCauseCode::Waits,
        What::Skipped(_) => ScheduleCauseCode::Overlap,
        What::Missed(_) => ScheduleCauseCode::Missed,
        What::Paused(_) => ScheduleCauseCode::Paused,
        What::Ended => ScheduleCauseCode::Ended,
        What::BeforeStart(_) | What::BehindEnd(_) => ScheduleCauseCode::OutOfSpan,
        What::ZoneGap(_) => ScheduleCauseCode::ZoneGap,
        What::NotATime => ScheduleCauseCode::NotATime,
        What::Changed(_) => ScheduleCauseCode::Changed,
        What::Undecided => ScheduleCauseCode::Undecided,
        What::Forgotten => ScheduleCauseCode::Forgotten,
    }
}

fn cause(asked: &Asked<'_>) -> ScheduleCause {
    let (name, what) = (asked.name, asked.what);
    let (since, until) = span(asked);
    let task = match what {
        What::Started(Some(id)) => Some(CauseTask::new(
            id.to_string(),
            asked
                .task
                .and_then(|task| task.spec.callback())
                .map(str::to_owned),
            asked.task.map(|task| task.state.into()),
        )),
        _ => None,
    };
    let (who, reason) = match what {
        What::Paused(pause) => (some_text(&pause.who), some_text(&pause.reason)),
        _ => (None, None),
    };
    let advice = match what {
        What::Paused(_) => Some(format!("To go on: `tickwheel schedule resume {name}`.")),
        What::Missed(_) | What::Skipped(_) | What::Changed(_) | What::Forgotten => {
            let at = rfc3339(asked.time);
            Some(format!(
                "To make up for it: `tickwheel schedule backfill {name} --from {at} --to {at}`."
            ))
        }
        What::Started(Some(id)) => Some(format!("See its run: `tickwheel task why {id}`.")),
        What::NotDue => Some(format!(
            "To start a run now: `tickwheel schedule trigger {name}`."
        )),
        What::Undecided => {
            Some("If it lasts, look at the nodes: `tickwheel cluster status`.".into())
        }
        _ => None,
    };
    ScheduleCause {
        code: code(what),
        detail: detail(asked),
        advice,
        since: since.map(Into::into),
        until: until.map(Into::into),
        certain: what.is_certain(),
        who,
        reason,
        policy: policy(what).map(str::to_owned),
        task,
    }
}

/// Returns since when and until when a cause holds.
fn span(asked: &Asked<'_>) -> (Option<Millis>, Option<Millis>) {
    match asked.what {
        What::NotDue => (None, Some(asked.time)),
        What::Paused(pause) => (Some(pause.since), None),
        What::BeforeStart(start) => (None, Some(*start)),
        What::BehindEnd(end) => (Some(*end), None),
        What::ZoneGap(at) => (Some(*at), None),
        What::Changed(at) => (None, Some(*at)),
        What::Undecided | What::Waits(_) => (Some(asked.time), None),
        _ => (None, None),
    }
}

const fn policy(what: &What) -> Option<&'static str> {
    match what {
        What::Waits(overlap) | What::Skipped(overlap) => Some(match overlap {
            Overlap::Skip => "skip",
            Overlap::Allow => "allow",
            Overlap::BufferOne => "buffer_one",
            Overlap::CancelOther => "cancel_other",
            // Missed times follow each other.
            Overlap::OneByOne => "one_by_one",
        }),
        What::Missed(missed) => Some(match missed {
            Missed::Latest => "latest",
            Missed::All => "all",
            Missed::Skip => "skip",
        }),
        _ => None,
    }
}

fn detail(asked: &Asked<'_>) -> String {
    let at = schedule_view::local(asked.time, &asked.plan.zone);
    let what = asked.what;
    let policy = policy(what).unwrap_or_default();
    match what {
        What::NotDue => format!("{at} is ahead: the run starts then."),
        What::Started(Some(id)) => {
            let state = asked
                .task
                .map_or("not read any more", |task| task.state.name());
            format!("The run of {at} is task {id} ({state}).")
        }
        What::Started(None) => format!("The run of {at} has begun, under earlier settings."),
        What::Waits(_) => {
            format!("The run of {at} waits for the end of another (`overlap` is {policy}).")
        }
        What::Skipped(_) => {
            format!("{at} was skipped: another run had not ended (`overlap` is {policy}).")
        }
        What::Missed(_) => {
            let window = crate::api::text::DurationText::readable(asked.schedule.spec.window).0;
            format!(
                "{at} was missed: the service could not start it in time, and `missed` ({policy}) with `catch_up_window` ({window}) does not make up for it."
            )
        }
        What::Paused(pause) => {
            let who = some_text(&pause.who).map(|who| format!(" by {who}"));
            let reason = some_text(&pause.reason).map(|reason| format!(" (\"{reason}\")"));
            let (who, reason) = (who.unwrap_or_default(), reason.unwrap_or_default());
            let since = rfc3339(pause.since);
            format!("The schedule has been paused{who} since {since}{reason}.")
        }
        What::Undecided => format!("The service has not come to {at} yet."),
        What::Forgotten => format!(
            "{at} lies further back than runs are listed, and nothing is known of it any more."
        ),
        _ => of_settings(asked, &at),
    }
}

/// Tells of a cause that lies in what is set, or was set before.
fn of_settings(asked: &Asked<'_>, at: &str) -> String {
    let (zone, what) = (&asked.schedule.spec.zone, asked.what);
    match what {
        What::Ended => "The schedule has ended: its `limit` or its times are used up.".to_owned(),
        What::BeforeStart(start) => {
            format!(
                "{at} lies before the `start_time` of the schedule, {}.",
                rfc3339(*start)
            )
        }
        What::BehindEnd(end) => {
            format!(
                "{at} lies behind the `end_time` of the schedule, {}.",
                rfc3339(*end)
            )
        }
        What::ZoneGap(moment) => {
            let moment = schedule_view::local(*moment, &asked.plan.zone);
            format!(
                "The clocks of {zone} were put forward at {moment}: that time was left out on the wall. A fixed time runs at the end of the gap, and an interval does not run in it."
            )
        }
        What::NotATime => format!("{at} is none of the times of the schedule."),
        What::Changed(changed) if *changed == asked.schedule.created => {
            format!(
                "The schedule was created after {at}, at {}.",
                rfc3339(*changed)
            )
        }
        What::Changed(changed) => {
            format!(
                "The schedule was changed after {at}, at {}: it was paused then, or had other times, or missed this one.",
                rfc3339(*changed)
            )
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::model::{
        fixtures,
        look_step::LookStep,
        schedule::{
            life::{ChangeMark, Pause, ScheduleSpec},
            plan::Rule,
        },
        task::Spec,
    };

    fn told(what: &What) -> serde_json::Value {
        let minute = std::time::Duration::from_secs(60);
        let spec = ScheduleSpec {
            crons: Vec::new(),
            every: Some(minute),
            zone: "UTC".to_owned(),
            start: None,
            end: None,
            limit: None,
            jitter: std::time::Duration::ZERO,
            overlap: Overlap::Skip,
            missed: Missed::Latest,
            window: minute * 60,
            pause_on_failure: false,
            note: String::new(),
            labels: std::collections::BTreeMap::new(),
            task: Spec::clone(&fixtures::spec()).into(),
        };
        let mark = ChangeMark {
            id: 1,
            at: Millis(0),
        };
        let schedule = Schedule::created(spec, None, 1, LookStep::MIN, mark);
        let plan = Plan {
            rules: vec![Rule::Every(minute)],
            zone: TimeZone::UTC,
            anchor: Millis(0),
            start: None,
            end: None,
        };
        let asked = Asked {
            name: "nightly",
            schedule: &schedule,
            plan: &plan,
            time: Millis(180_000),
            now: Millis(190_000),
            what,
            task: None,
        };
        serde_json::to_value(response(&asked)).unwrap()
    }

    #[test]
    fn every_cause_of_a_time_has_a_sentence_with_it() {
        let id = fixtures::id();
        let pause = Pause {
            reason: "month end".to_owned(),
            who: "ada".to_owned(),
            since: Millis(60_000),
        };
        let cases = [
            (What::NotDue, "not_due", "is ahead"),
            (What::Started(Some(id)), "started", "is task"),
            (What::Started(None), "started", "has begun"),
            (
                What::Waits(Overlap::BufferOne),
                "waits",
                "(`overlap` is buffer_one)",
            ),
            (
                What::Skipped(Overlap::Skip),
                "overlap",
                "(`overlap` is skip)",
            ),
            (
                What::Missed(Missed::Latest),
                "missed",
                "`missed` (latest) with `catch_up_window` (1h)",
            ),
            (
                What::Paused(pause),
                "paused",
                "paused by ada since 1970-01-01T00:01:00.000Z (\"month end\").",
            ),
            (What::Ended, "ended", "used up"),
            (What::BeforeStart(Millis(9)), "out_of_span", "`start_time`"),
            (What::BehindEnd(Millis(9)), "out_of_span", "`end_time`"),
            (
                What::ZoneGap(Millis(0)),
                "zone_gap",
                "were put forward at 1970-01-01T00:00:00+00:00",
            ),
            (What::NotATime, "not_a_time", "none of the times"),
            (What::Changed(Millis(0)), "changed", "was created after"),
            (What::Changed(Millis(9)), "changed", "was changed after"),
            (What::Undecided, "undecided", "not come to"),
            (What::Forgotten, "forgotten", "nothing is known"),
        ];
        for (what, code, wanted) in cases {
            let told = told(&what);
            let sentence = told["sentence"].as_str().unwrap();
            assert!(sentence.contains(wanted), "{sentence}");
            assert_eq!(told["causes"][0]["code"], code);
            assert_eq!(told["causes"][0]["detail"], sentence);
            assert_eq!(
                (&told["previous_time"], &told["next_time"]),
                (
                    &"1970-01-01T00:02:00.000Z".into(),
                    &"1970-01-01T00:04:00.000Z".into()
                )
            );
        }
    }
}
