//! The commands `tickwheel callback ...` configure and pause callbacks for the user.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
};

use clap::{Args, Subcommand, ValueEnum};

use super::{
    ClientArgs, Exit, Failure, Format, fields::by_flags, input, output::printable, request, times,
};
use crate::{
    api::text::{DurationText, InstantText},
    client::{
        CallbackRequest, CallbackResponse, Client, GateRequest, GateState, HttpDefaults, Jitter,
        NewStart, OnRetry, Priority, RateLimit, RetryPolicy, StartTime,
    },
    limits::REQUEST_BYTES_MAX,
    model::time::Millis,
    time_source::TimeSource,
};

const SET_EXAMPLES: &str = "Examples:
  tickwheel callback set send_email --max-attempts 8 --retention 24h --label team=mail
  tickwheel callback set send_email --rate 50/s --burst 100 --max-in-flight 200
  tickwheel callback get send_email -o json > mail.json; tickwheel callback set send_email --file mail.json

The configuration is replaced as a whole: what is not given has the default of the service.";

const PAUSE_EXAMPLES: &str = "Examples:
  tickwheel callback pause send_email --reason 'the mail server is down' --until 2h
  tickwheel callback pause send_email --collection newsletter
  tickwheel callback resume send_email";

/// Members of an answer that are no configuration.
const NOT_SET: [&str; 12] = [
    "name",
    "gate",
    "gates",
    "workers",
    "ready",
    "oldest_due_time",
    "running",
    "retrying",
    "held",
    "dead",
    "lateness",
    "partial",
];

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List callbacks that are configured or have a gate that is not open.
    List(ClientArgs),
    /// Read a callback: configuration, gates, and what is going on.
    Get(CallbackArgs),
    /// Configure a callback, by flags or from a JSON file.
    #[command(after_help = SET_EXAMPLES)]
    Set(Box<SetArgs>),
    /// Remove the configuration of a callback; its gates must be open.
    Delete(CallbackArgs),
    /// Hold due tasks until the gate is opened; attempts that run go on.
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(CloseArgs),
    /// Open a gate; held tasks go out, oldest start first.
    Resume(GateArgs),
    /// End due tasks as cancelled until the gate is opened.
    Drop(CloseArgs),
    /// Set a gate to open, paused or dropping.
    Gate(SetGateArgs),
}

/// A callback.
#[derive(Debug, Args)]
pub(super) struct CallbackArgs {
    /// Its name.
    name: String,
    #[command(flatten)]
    client: ClientArgs,
}

/// A gate.
#[derive(Debug, Args)]
pub(super) struct GateArgs {
    #[command(flatten)]
    of: CallbackArgs,
    /// Only the gate of this collection.
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// Reason, for people.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// A gate to close.
#[derive(Debug, Args)]
pub(super) struct CloseArgs {
    #[command(flatten)]
    gate: GateArgs,
    /// Open it by itself at this time: RFC 3339 with an offset, or from now, such as 2h.
    #[arg(long, value_name = "TIME", value_parser = times::start)]
    until: Option<NewStart>,
}

/// A gate, and the state that it is to have.
#[derive(Debug, Args)]
pub(super) struct SetGateArgs {
    #[command(flatten)]
    close: CloseArgs,
    /// The state: open, paused or dropping.
    #[arg(value_enum)]
    state: GateWish,
}

/// The states of a gate, as they are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum GateWish {
    /// Tasks go out.
    Open,
    /// Due tasks are held.
    Paused,
    /// Due tasks end as cancelled.
    Dropping,
}

impl From<GateWish> for GateState {
    fn from(wish: GateWish) -> Self {
        match wish {
            GateWish::Open => Self::Open,
            GateWish::Paused => Self::Paused,
            GateWish::Dropping => Self::Dropping,
        }
    }
}

/// A configuration.
#[derive(Debug, Args)]
pub(super) struct SetArgs {
    #[command(flatten)]
    of: CallbackArgs,
    /// File with the configuration as JSON, - for standard input, instead of flags. The output of
    /// `callback get -o json` can be used.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["description", "max_attempts", "retry_initial", "retry_factor",
        "retry_max", "retry_jitter", "claim_timeout", "heartbeat_timeout", "attempt_timeout", "retention", "dead_retention",
        "expire_after", "priority", "labels", "rate", "burst", "max_in_flight", "http", "http_secrets", "http_max_in_flight", "dead_letter_topic", "on_retry",
        "list_succeeded"])]
    file: Option<PathBuf>,
    /// Text for people.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// How often a task may be tried.
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u32>,
    /// Wait after the first failed attempt.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    retry_initial: Option<DurationText>,
    /// How many times longer each further wait is.
    #[arg(long, value_name = "FACTOR")]
    retry_factor: Option<f64>,
    /// Longest wait between attempts.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    retry_max: Option<DurationText>,
    /// How waits are spread: full (from zero to the computed wait) or none (exactly that wait).
    #[arg(long, value_name = "JITTER", value_parser = request::jitter)]
    retry_jitter: Option<Jitter>,
    /// How long a task may stay unclaimed before it is published again.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    claim_timeout: Option<DurationText>,
    /// How long an attempt lives after its claim or its last heartbeat.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    heartbeat_timeout: Option<DurationText>,
    /// How long an attempt may take in all, however alive its worker is.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    attempt_timeout: Option<DurationText>,
    /// How long a task can be read once it has ended.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    retention: Option<DurationText>,
    /// How long a task can be read and redriven once it is dead.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    dead_retention: Option<DurationText>,
    /// How long after its start time a task is still useful.
    #[arg(long, value_name = "DURATION", value_parser = times::duration_text)]
    expire_after: Option<DurationText>,
    /// Queue of the callback: high, normal, low.
    #[arg(long, value_name = "PRIORITY", value_parser = request::priority)]
    priority: Option<Priority>,
    /// Topic of Kafka for a record of each task that dies.
    #[arg(long, value_name = "TOPIC")]
    dead_letter_topic: Option<String>,
    /// Way of tasks of an ordering key while the first of them waits for its next attempt: block (wait, too) or skip (go on).
    #[arg(long, value_name = "WAY", value_parser = on_retry)]
    on_retry: Option<OnRetry>,
    /// Have lists show tasks that succeeded for their whole retention also on a cluster.
    #[arg(long)]
    list_succeeded: bool,
    /// A label of every task; may be repeated.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = request::pair)]
    labels: Vec<(String, String)>,
    /// How many tasks may be claimed in a time, such as 50/s, 3/m or 10/h.
    #[arg(long, value_name = "RATE", value_parser = request::rate)]
    rate: Option<f64>,
    /// How many tasks may be claimed at once after a pause; those of a second unless given.
    #[arg(long, value_name = "COUNT", requires = "rate")]
    burst: Option<u32>,
    /// How many attempts may run at once.
    #[arg(long, value_name = "COUNT")]
    max_in_flight: Option<u32>,
    /// URL that tasks which name the callback alone are sent to by the service, instead of to workers.
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// Secret that signs requests over HTTP, whsec_ and base64; twice while one is replaced, the newest first.
    #[arg(long = "http-secret", value_name = "SECRET")]
    http_secrets: Vec<String>,
    /// How many requests a node may have under way to a host at once; 8 to 32 unless given, as the host answers.
    #[arg(long, value_name = "COUNT")]
    http_max_in_flight: Option<u32>,
}

pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::List(client) => list(&client).await?,
        Command::Get(of) => of.print(&of.client()?.callback(&of.name).await?)?,
        Command::Set(args) => {
            let SetArgs { of, .. } = &*args;
            let configuration = args.configuration()?;
            let set = of.client()?.set_callback(&of.name, &configuration).await;
            let set = match args.file {
                // A file has fields, and no flags.
                Some(_) => set?,
                None => set.map_err(by_flags)?,
            };
            of.print(&set)?;
        }
        Command::Delete(of) => {
            of.client()?.delete_callback(&of.name).await?;
            writeln!(io::stdout(), "the configuration of {} is removed", of.name)?;
        }
        Command::Pause(close) => close.run(GateState::Paused).await?,
        Command::Drop(close) => close.run(GateState::Dropping).await?,
        Command::Resume(gate) => gate.run(GateState::Open, None).await?,
        Command::Gate(set) => set.close.run(set.state.into()).await?,
    }
    Ok(Exit::Ok)
}

async fn list(args: &ClientArgs) -> Result<(), Failure> {
    let mut pages = args.connect()?.callbacks();
    let mut all = Vec::new();
    while let Some(page) = pages.next().await? {
        all.extend(page);
    }
    let mut out = io::stdout().lock();
    match args.print.output {
        Format::Table => {
            writeln!(
                out,
                "{:<32}  {:<8}  {:<8}  DESCRIPTION",
                "NAME", "GATE", "ATTEMPTS"
            )?;
            for one in &all {
                let attempts = one.configuration.max_attempts;
                let attempts = attempts.map_or_else(|| "-".to_owned(), |count| count.to_string());
                let description = one.configuration.description.as_deref().unwrap_or_default();
                let (name, gate) = (&one.name, state(one.gate));
                let description = printable(description);
                writeln!(out, "{name:<32}  {gate:<8}  {attempts:<8}  {description}")?;
            }
        }
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &all).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        Format::Jsonl => {
            for one in &all {
                serde_json::to_writer(&mut out, one).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

impl CallbackArgs {
    fn client(&self) -> Result<Client, Failure> {
        self.client.connect()
    }

    fn print(&self, callback: &CallbackResponse) -> Result<(), Failure> {
        Ok(print(
            &mut io::stdout().lock(),
            self.client.print.output,
            callback,
        )?)
    }
}

impl CloseArgs {
    async fn run(self, state: GateState) -> Result<(), Failure> {
        let now = TimeSource::real().now();
        let until = self.until.map(|until| instant(until, now)).transpose()?;
        self.gate.run(state, until).await
    }
}

impl GateArgs {
    async fn run(self, state: GateState, until: Option<InstantText>) -> Result<(), Failure> {
        let mut gate = GateRequest::new(state);
        gate.collection = self.collection;
        gate.reason = self.reason;
        gate.until = until;
        let set = self.of.client()?.set_gate(&self.of.name, &gate).await;
        self.of.print(&set.map_err(by_flags)?)
    }
}

fn instant(until: NewStart, now: Millis) -> Result<InstantText, Failure> {
    match until {
        NewStart::At(StartTime(at)) => Ok(at),
        NewStart::In(after) => {
            let after = after.duration();
            let after = after.ok_or_else(|| Failure::usage("--until: expected a time"))?;
            Ok(now.after(after).into())
        }
    }
}

impl SetArgs {
    fn http(&self) -> Option<HttpDefaults> {
        let secrets = (!self.http_secrets.is_empty()).then(|| self.http_secrets.clone());
        let given = self.http.is_some() || secrets.is_some() || self.http_max_in_flight.is_some();
        given.then(|| HttpDefaults {
            url: self.http.clone(),
            secrets,
            max_in_flight: self.http_max_in_flight,
            ..HttpDefaults::default()
        })
    }

    fn configuration(&self) -> Result<CallbackRequest, Failure> {
        if let Some(path) = &self.file {
            return from_json(&input::text(path, REQUEST_BYTES_MAX)?);
        }
        let labels: BTreeMap<String, String> = self.labels.iter().cloned().collect();
        let retry = RetryPolicy {
            initial: self.retry_initial.clone(),
            factor: self.retry_factor,
            max: self.retry_max.clone(),
            jitter: self.retry_jitter,
        };
        let retries = retry.initial.is_some()
            || retry.factor.is_some()
            || retry.max.is_some()
            || retry.jitter.is_some();
        Ok(CallbackRequest {
            description: self.description.clone(),
            max_attempts: self.max_attempts,
            retry: retries.then_some(retry),
            claim_timeout: self.claim_timeout.clone(),
            heartbeat_timeout: self.heartbeat_timeout.clone(),
            retention: self.retention.clone(),
            attempt_timeout: self.attempt_timeout.clone(),
            expire_after: self.expire_after.clone(),
            dead_retention: self.dead_retention.clone(),
            priority: self.priority,
            labels: (!labels.is_empty()).then_some(labels),
            rate: self.rate.map(|per_second| RateLimit {
                per_second,
                burst: self.burst,
            }),
            max_in_flight: self.max_in_flight,
            http: self.http(),
            dead_letter_topic: self.dead_letter_topic.clone(),
            on_retry: self.on_retry,
            list_succeeded: self.list_succeeded.then_some(true),
            ..CallbackRequest::default()
        })
    }
}

fn on_retry(text: &str) -> Result<OnRetry, String> {
    match text {
        "block" => Ok(OnRetry::Block),
        "skip" => Ok(OnRetry::Skip),
        _ => Err("must be block or skip".to_owned()),
    }
}

/// Reads a configuration, or an answer of the service about a callback.
fn from_json(text: &str) -> Result<CallbackRequest, Failure> {
    let wrong = |error: serde_json::Error| Failure::usage(format!("--file: {error}"));
    let mut members: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(wrong)?;
    members.retain(|name, _| !NOT_SET.contains(&name.as_str()));
    let text = serde_json::to_string(&members).map_err(wrong)?;
    serde_json::from_str(&text).map_err(wrong)
}

const fn state(gate: GateState) -> &'static str {
    match gate {
        GateState::Open => "open",
        GateState::Paused => "paused",
        GateState::Dropping => "dropping",
    }
}

fn print(out: &mut impl Write, format: Format, callback: &CallbackResponse) -> io::Result<()> {
    match format {
        Format::Table => rows(out, callback),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, callback)?;
            writeln!(out)
        }
        Format::Jsonl => {
            serde_json::to_writer(&mut *out, callback)?;
            writeln!(out)
        }
    }
}

/// Prints the members of the answer one below the other; those that hold others as JSON.
fn rows(out: &mut impl Write, callback: &CallbackResponse) -> io::Result<()> {
    let value = serde_json::to_value(callback)?;
    for (name, value) in value.as_object().into_iter().flatten() {
        let text = match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Array(items) if items.is_empty() => continue,
            other => other.to_string(),
        };
        writeln!(out, "{name:<18}{}", printable(&text))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_service_is_a_configuration_to_set() {
        let text = r#"{"name":"c","max_attempts":3,"gate":"open","gates":[],"workers":[],"ready":0,"running":0,"retrying":1,"held":2,"dead":3,"lateness":{"p50_ms":1,"p99_ms":2,"max_ms":3},"partial":false}"#;
        let request = from_json(text).unwrap();
        assert_eq!(request.max_attempts, Some(3));
        let wrong = from_json(r#"{"maxx_attempts": 3}"#).unwrap_err();
        assert!(wrong.text.contains("maxx_attempts"), "{}", wrong.text);
    }

    #[test]
    fn a_rate_is_read_in_a_unit_of_time() {
        let read = |text: &str| request::rate(text).unwrap();
        assert_eq!(
            [read("50/s"), read("3/m"), read("36/h"), read("0.5")],
            [50.0, 0.05, 0.01, 0.5]
        );
        for wrong in ["", "fast", "5/d", "/s", "5/"] {
            assert!(
                request::rate(wrong).unwrap_err().contains("such as 50/s"),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_callback_is_printed_for_people() {
        let text = r#"{"name":"c","max_attempts":3,"retry":{"initial":"1s"},"gate":"paused",
            "gates":[{"gate":"paused","since":"2030-01-01T00:00:00Z"}],"workers":[],"ready":0,"running":0,"partial":false}"#;
        let callback: CallbackResponse = serde_json::from_str(text).unwrap();
        let mut out = Vec::new();
        print(&mut out, Format::Table, &callback).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("max_attempts      3\n"), "{text}");
        assert!(text.contains("gate              paused\n"), "{text}");
        assert!(!text.contains("workers"), "{text}");
    }
}
