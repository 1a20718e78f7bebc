//! Each time of a schedule has a cause for its run, or for the lack of one.

use super::*;
use crate::model::{
    fixtures,
    look_step::LookStep,
    schedule::{
        advance_tests::{BEGIN, MINUTE, SECOND, spec},
        life::{ChangeMark, ScheduleSpec},
        plan,
        run::{Cause, Run},
    },
};

const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// A schedule of each minute.
fn minutely() -> Schedule {
    let mark = ChangeMark { id: 7, at: BEGIN };
    let step = LookStep::covering(MINUTE);
    Schedule::created(spec(MINUTE), None, 5, step, mark)
}

fn plan_of(schedule: &Schedule) -> Plan {
    Plan {
        rules: vec![Rule::Every(MINUTE)],
        zone: TimeZone::UTC,
        anchor: schedule.anchor(),
        start: schedule.spec.start,
        end: schedule.spec.end,
    }
}

/// Three minutes behind the begin.
const TIME: Millis = Millis(BEGIN.0 + 180_000);

fn told(schedule: &Schedule, listed: &[Listed], time: Millis, now: Millis) -> What {
    let plan = plan_of(schedule);
    let seen = Seen {
        schedule,
        plan: &plan,
        listed,
        kept: KEPT,
        now,
    };
    cause(time, &seen)
}

fn listed(time: Millis, skipped: bool) -> Listed {
    Listed {
        run: run(time),
        cause: Cause::Schedule,
        skipped,
    }
}

fn run(time: Millis) -> Run {
    Run {
        id: fixtures::id(),
        generation: 1,
        seq: 3,
        time,
        entered: true,
        late: false,
    }
}

#[test]
fn a_time_that_is_ahead_is_not_due_unless_the_schedule_will_not_run() {
    let mut live = minutely();
    let now = TIME.before(SECOND);
    assert_eq!(told(&live, &[], TIME, now), What::NotDue);
    assert_eq!(told(&live, &[], TIME.after(SECOND), now), What::NotATime);
    live.state = State::Ended;
    assert_eq!(told(&live, &[], TIME, now), What::Ended);
    let pause = Pause {
        since: BEGIN,
        ..Pause::default()
    };
    live.state = State::Paused(pause.clone());
    assert_eq!(told(&live, &[], TIME, now), What::Paused(pause));
    live.spec.start = Some(TIME.after(MINUTE));
    assert_eq!(
        told(&live, &[], TIME, now),
        What::BeforeStart(TIME.after(MINUTE))
    );
    live.spec = ScheduleSpec {
        end: Some(TIME.before(MINUTE)),
        ..spec(MINUTE)
    };
    assert_eq!(
        told(&live, &[], TIME, now),
        What::BehindEnd(TIME.before(MINUTE))
    );
}

#[test]
fn a_time_that_has_passed_tells_of_its_run_or_why_it_has_none() {
    let mut live = minutely();
    live.next = Some(TIME.after(MINUTE));
    let now = TIME.after(SECOND * 50);
    let of = |schedule: &Schedule, listed: &[Listed]| told(schedule, listed, TIME, now);
    let id = Some(fixtures::id());
    assert_eq!(of(&live, &[listed(TIME, false)]), What::Started(id));
    assert_eq!(
        of(&live, &[listed(TIME, true)]),
        What::Skipped(live.spec.overlap)
    );
    let other = listed(TIME.before(MINUTE), false);
    assert_eq!(of(&live, &[other]), What::Missed(Missed::Latest));
    live.next = Some(TIME);
    assert_eq!(of(&live, &[]), What::Undecided);
    live.waiting = Some(run(TIME));
    assert_eq!(of(&live, &[]), What::Waits(live.spec.overlap));
    live.waiting = None;
    live.begun = vec![TIME];
    assert_eq!(of(&live, &[]), What::Started(None));
    live.begun.clear();
    live.ahead = vec![run(TIME)];
    assert_eq!(of(&live, &[]), What::Started(id));
    // Its run is void: the next look withdraws it.
    live.ahead[0].late = true;
    live.next = Some(TIME.after(MINUTE));
    assert_eq!(of(&live, &[]), What::Missed(Missed::Latest));
}

#[test]
fn nothing_is_known_of_a_time_before_the_last_change() {
    let mut live = minutely();
    live.next = Some(TIME.after(MINUTE));
    live.changed = TIME.after(SECOND);
    let now = TIME.after(SECOND * 50);
    let changed = told(&live, &[], TIME, now);
    assert_eq!(changed, What::Changed(live.changed));
    assert!(!changed.is_certain());
    assert_eq!(
        told(&live, &[listed(TIME, true)], TIME, now),
        What::Skipped(live.spec.overlap)
    );
    let before = BEGIN.before(MINUTE);
    assert_eq!(told(&live, &[], before, now), What::Changed(BEGIN));
    live.changed = BEGIN;
    let later = TIME.after(KEPT + SECOND);
    live.next = Some(later);
    assert_eq!(told(&live, &[], TIME, later), What::Forgotten);
}

#[test]
fn a_time_on_the_wall_that_was_left_out_is_told_apart() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let at = |text: &str| Millis(text.parse::<Timestamp>().unwrap().as_millisecond());
    let plan = |text: &str| Plan {
        rules: vec![plan::read(text, 1).unwrap().rule],
        zone: zone.clone(),
        anchor: BEGIN,
        start: None,
        end: None,
    };
    let half_past_two = plan("30 2 * * *");
    let jump = at("2027-03-28T01:00:00Z");
    assert_eq!(gap(&half_past_two, at("2027-03-28T01:30:00Z")), Some(jump));
    assert_eq!(
        gap(&half_past_two, at("2027-03-28T01:31:00Z")),
        None,
        "not asked for"
    );
    assert_eq!(
        gap(&half_past_two, at("2027-03-28T02:30:00Z")),
        None,
        "behind the gap"
    );
    assert_eq!(gap(&half_past_two, at("2027-03-29T01:30:00Z")), None);
    assert_eq!(gap(&plan("@every 30m"), at("2027-03-28T01:30:00Z")), None);
    assert_eq!(
        gap(&half_past_two, at("2027-10-31T00:45:00Z")),
        None,
        "put back"
    );
}
