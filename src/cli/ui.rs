//! The command `tickwheel ui` serves the dashboard of a service elsewhere, for people who reach this machine and not the service.
//!
//! It has no key of its own: each reader signs in, and its key goes on to the service.

use std::{
    io::Write as _,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Bytes,
    http::{Request, Response, header},
};
use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    Exit, Failure, SERVER_DEFAULT,
    reach::{self, AccessArgs},
    serve,
};
use crate::{
    client::Client,
    http::{self, Far, Hosts, PageSettings, Proxies},
    model::base_path,
    time_source::TimeSource,
};

const EXAMPLES: &str = "Examples:
  tickwheel ui --server https://timers.internal:7420
  tickwheel ui --server http://10.0.0.5:7420 --listen 0.0.0.0:8080 --allowed-hosts ops.example --base-path /timers";

/// How long requests under way may take at the end.
const DRAIN: Duration = Duration::from_secs(5);

/// `tickwheel ui`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Command {
    /// Server of the service; several, separated by commas, are tried in turn.
    #[arg(
        long,
        env = "TICKWHEEL_SERVER",
        default_value = SERVER_DEFAULT,
        value_name = "URL",
        help_heading = reach::HEADING
    )]
    server: String,
    #[command(flatten)]
    access: AccessArgs,
    /// Address and port that the dashboard listens on.
    #[arg(long, default_value = "127.0.0.1:7421", value_name = "ADDR")]
    listen: SocketAddr,
    /// Further names by which browsers reach it, HOST or HOST:PORT, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "HOST,..")]
    allowed_hosts: Vec<String>,
    /// The path under which browsers find it, such as /timers, behind a proxy.
    #[arg(long, default_value = "", value_name = "PATH", value_parser = base)]
    base_path: String,
    /// Addresses of proxies whose X-Forwarded-Prefix and X-Forwarded-Proto are taken, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "ADDR,..")]
    proxies: Vec<IpAddr>,
}

fn base(text: &str) -> Result<String, String> {
    base_path::clean(text).ok_or_else(|| "expected a plain path, such as /timers".to_owned())
}

/// Runs the command.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let mut access = command.access.access()?;
    // Readers bring their own; with a key of the command everybody would have it.
    access.api_key = None;
    let client = reach::builder(&command.server, access).build()?;
    let listener = TcpListener::bind(command.listen).await;
    let listener = listener
        .map_err(|error| Failure::usage(format!("cannot listen on {}: {error}", command.listen)))?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    serve::listen_for_signals(stop.clone(), DRAIN, || {})?;
    let settings = PageSettings {
        time: TimeSource::real(),
        base_path: command.base_path.clone(),
        proxies: Proxies(command.proxies),
        tls: false,
        read_only: false,
        has_docs: false,
        shutdown: stop.clone(),
    };
    let hosts = Hosts::new(address, command.allowed_hosts);
    let router = http::far(far(client), settings, hosts);
    writeln!(
        std::io::stdout().lock(),
        "the dashboard of {} is at http://{address}{}/",
        command.server,
        command.base_path
    )?;
    http::serve(listener, router, stop).await;
    Ok(Exit::Ok)
}

/// Returns the way to the service.
fn far(client: Client) -> Far {
    Arc::new(move |request: Request<Bytes>| {
        let client = client.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let mut headers = parts.headers;
            // The client names the host that it calls, and the type of what it sends.
            headers.remove(header::HOST);
            headers.remove(header::CONTENT_TYPE);
            let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            let passed = client.pass(parts.method, path, &headers, body).await;
            let (status, headers, body) = passed.map_err(|error| error.to_string())?;
            let mut answer = Response::new(body);
            *answer.status_mut() = status;
            *answer.headers_mut() = headers;
            Ok(answer)
        })
    })
}
