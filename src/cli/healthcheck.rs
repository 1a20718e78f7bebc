//! The command `tickwheel healthcheck` tells containers whether a node is ready, for images without a shell
//! or curl.

use std::time::Duration;

use clap::Args;

use super::{Exit, Failure, reach};

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
    #[command(flatten)]
    access: reach::AccessArgs,
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let client = reach::builder(&command.server, command.access.access()?).build()?;
    let client = client.call_limit(LIMIT);
    client.ready().await?;
    Ok(Exit::Ok)
}
