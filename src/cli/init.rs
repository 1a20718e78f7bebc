//! The command `tickwheel init` creates or checks the schema for operators, and proves that the servers can
//! do what is needed.

use super::{Exit, Failure, servers, variables};
use crate::config::{Settings, SettingsArgs, StoreKind};

/// Runs the command.
pub(super) async fn run(args: SettingsArgs) -> Result<Exit, Failure> {
    variables::warn();
    let settings = Settings::load(&args, |name| std::env::var(name).ok())?;
    if settings.store == StoreKind::Embedded && settings.cassandra.is_empty() {
        return Err(Failure::usage(
            "an embedded store needs no init: `tickwheel serve` creates it; for a cluster add --store cassandra \
             --cassandra HOST:PORT",
        ));
    }
    servers::init(&settings).await?;
    Ok(Exit::Ok)
}
