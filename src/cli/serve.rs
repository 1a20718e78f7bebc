//! `tickwheel serve`.

use super::{Exit, Failure};
use crate::config::{Settings, SettingsArgs};

/// Runs the command.
pub(super) async fn run(args: SettingsArgs) -> Result<Exit, Failure> {
    let _settings = Settings::load(&args, |name| std::env::var(name).ok())?;
    Err(Failure {
        exit: Exit::Failed,
        text: "`tickwheel serve` is not in this build".to_owned(),
    })
}
