//! `tickwheel healthcheck`: for images without a shell or curl.

use std::time::Duration;

use clap::Args;

use super::{Exit, Failure};
use crate::client::Client;

/// Below the time limits that container runtimes usually give a check.
const LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(super) struct Command {
    /// The node.
    #[arg(
        long,
        env = "TICKWHEEL_SERVER",
        default_value = super::SERVER_DEFAULT,
        value_name = "URL"
    )]
    server: String,
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let client = Client::connect(&command.server)?.call_limit(LIMIT);
    client.ready().await?;
    Ok(Exit::Ok)
}
