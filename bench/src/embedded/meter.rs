//! The meter measures for the report what a measurement costs: processor time of service and client, and
//! memory.

use tickwheel::time_source::Moment;

use super::service::{Host, Usage, load_average, own_usage};
use crate::report::{Costs, Report};

/// A measurement under way.
#[derive(Debug)]
pub(super) struct Meter {
    begun: Moment,
    service: Usage,
    client: Usage,
}

/// The measured costs.
#[derive(Debug)]
pub(super) struct Used(Costs);

impl Meter {
    pub(super) fn start(service: &impl Host) -> anyhow::Result<Self> {
        Ok(Self {
            begun: service.time().moment(),
            service: service.usage()?,
            client: own_usage()?,
        })
    }

    /// Ends the measurement; the costs are divided by `items`.
    pub(super) fn stop(self, service: &impl Host, items: u64) -> anyhow::Result<Used> {
        let (now, client) = (service.usage()?, own_usage()?);
        Ok(Used(Costs {
            items,
            wall_seconds: service.time().moment().since(self.begun).as_secs_f64(),
            service_cpu_seconds: now.cpu_seconds - self.service.cpu_seconds,
            client_cpu_seconds: client.cpu_seconds - self.client.cpu_seconds,
            resident_mib: now.resident_mib,
            peak_mib: now.peak_mib,
            load: load_average(),
        }))
    }
}

impl Used {
    pub(super) fn report(self, case: &str, report: &mut Report) {
        report.costs(case.to_owned(), self.0);
    }
}
