//! The catalogue lists for the comparison the settings of all peers, and starts each of them.

use super::{Peer, Place, beanstalkd, bullmq, nats, postgres, redis, rocketmq, tickwheel};
use crate::report::setting::{Kind, Setting};

/// Starts a peer with a setting.
pub(super) async fn start(setting: &Setting, place: Place) -> anyhow::Result<Box<dyn Peer>> {
    Ok(match setting.kind {
        Kind::Tickwheel => Box::new(tickwheel::start(place).await?),
        Kind::Beanstalkd => Box::new(beanstalkd::start(setting, place).await?),
        Kind::Redis => Box::new(redis::start(setting, place).await?),
        Kind::Bullmq => Box::new(bullmq::start(setting, place).await?),
        Kind::Rocketmq => Box::new(rocketmq::start(setting, place).await?),
        Kind::Postgres => Box::new(postgres::start(setting, place).await?),
        Kind::Nats => Box::new(nats::start(setting, place).await?),
    })
}

/// Returns the settings of some peers, or of all when none is named. With texts given, only settings whose
/// names contain one of them.
pub(crate) fn chosen(kinds: &[Kind], parts: &[String]) -> Vec<Setting> {
    let all = [
        tickwheel::SETTINGS.as_slice(),
        beanstalkd::SETTINGS.as_slice(),
        redis::SETTINGS.as_slice(),
        bullmq::SETTINGS.as_slice(),
        rocketmq::SETTINGS.as_slice(),
        postgres::SETTINGS.as_slice(),
        nats::SETTINGS.as_slice(),
    ];
    let wanted = |setting: &Setting| {
        let is_named = |part: &String| setting.name.contains(part.as_str());
        (kinds.is_empty() || kinds.contains(&setting.kind))
            && (parts.is_empty() || parts.iter().any(is_named))
    };
    all.concat().into_iter().filter(wanted).collect()
}
