//! The command `tickwheel healthcheck` tells containers whether a node is ready, for images without a shell
//! or curl.

use std::time::Duration;

use clap::Args;

use super::{Exit, Failure};
use crate::client::Client;

/// Time limit of the check: below those that container runtimes usually set.
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
