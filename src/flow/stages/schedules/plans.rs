//! The plans read what a user has set into the times of a schedule, with the zone data of the node.

use crate::{
    flow::base::{api::Fault, zones::Zones},
    limits::SCHEDULE_RETRY,
    model::{
        schedule::{
            hash,
            life::ScheduleSpec,
            plan::{self, Plan},
        },
        time::Millis,
    },
};

/// Returns the times of a schedule.
///
/// # Errors
/// When this node cannot read it: a later version wrote it, or the node's data has no such zone.
pub(in crate::flow) fn plan(
    zones: Zones,
    name: &str,
    spec: &ScheduleSpec,
    anchor: Millis,
) -> Result<Plan, Fault> {
    let zone = zones.get(&spec.zone);
    let zone = zone.map_err(|unknown| unusable(name, &unknown))?;
    let seed = hash(&[name.as_bytes()]);
    let crons = spec.crons.iter().map(|text| {
        let read = plan::read(text, seed).map_err(|mistake| unusable(name, &mistake))?;
        Ok(read.rule)
    });
    let mut rules = crons.collect::<Result<Vec<_>, Fault>>()?;
    rules.extend(spec.every.map(plan::Rule::Every));
    Ok(Plan {
        rules,
        zone,
        anchor,
        start: spec.start,
        end: spec.end,
    })
}

fn unusable(name: &str, cause: &impl ToString) -> Fault {
    Fault::Unavailable {
        reason: format!(
            "the schedule {name} cannot be read by this node: {}",
            cause.to_string()
        ),
        retry_after: SCHEDULE_RETRY,
    }
}
